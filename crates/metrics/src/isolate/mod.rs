//! Limits for each metrics API. An API that hangs doesn't affect the others.

mod breaker;
mod semaphores;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use hpa_calc::readings::MetricsApi;
use parking_lot::Mutex;

use self::breaker::Breaker;
pub use self::semaphores::{FairPermit, FairSemaphore, KeyedSemaphores};
use crate::{Catalog, MetricError, MetricSource, Query, Values};

/// Limits of each metrics API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IsolationSettings {
    /// The maximum number of concurrent requests to one API. One namespace gets at most half of
    /// them, rounded up.
    pub concurrency: usize,
    /// If no request gets a response for this time after a timeout, the circuit breaker may open.
    pub unresponsive_after: Duration,
}

impl IsolationSettings {
    /// The concurrency of [`Self::for_sync_period`].
    pub const CONCURRENCY: usize = 32;

    /// Settings for a controller that reconciles each autoscaler once per `period`. The breaker may
    /// open after two periods.
    pub fn for_sync_period(period: Duration) -> Self {
        Self { concurrency: Self::CONCURRENCY, unresponsive_after: period * 2 }
    }
}

/// A [`MetricSource`] that limits the requests to each metrics API.
///
/// - The number of concurrent requests is limited for each API, and for each namespace of an API.
///   Further requests wait. Slow metrics of one namespace therefore delay neither other APIs nor
///   other namespaces.
/// - A circuit breaker stops waiting for an API that hangs. It opens if at least three requests
///   fail with [`MetricError::Timeout`] and none gets a response for
///   [`IsolationSettings::unresponsive_after`]. Then one request at a time is sent for each
///   namespace, and further ones fail with [`MetricError::Unresponsive`], without being sent. The
///   first response, which may be another error of the source, closes the breaker. Because each
///   namespace may send a request, a namespace with broken metrics can't block the others.
pub struct Isolating<S> {
    source: S,
    resource: Api,
    custom: Api,
    external: Api,
}

/// The state of one API.
struct Api {
    name: MetricsApi,
    slots: FairSemaphore,
    breaker: Mutex<Breaker>,
}

impl Api {
    fn new(name: MetricsApi, settings: IsolationSettings) -> Self {
        Self {
            name,
            slots: FairSemaphore::new(settings.concurrency),
            breaker: Mutex::new(Breaker::new(settings.unresponsive_after)),
        }
    }

    /// Permits a request, unless the API is unresponsive and another request of the namespace is
    /// being tried. While the API is unresponsive, the request is a trial. The returned trial must
    /// live until the request has ended.
    fn admit(&self, namespace: &Arc<str>) -> Result<Option<Trial<'_>>, MetricError> {
        let mut breaker = self.breaker.lock();
        if !breaker.is_open() {
            return Ok(None);
        }
        if !breaker.trials.insert(Arc::clone(namespace)) {
            return Err(MetricError::Unresponsive(self.name));
        }
        Ok(Some(Trial { api: self, namespace: Arc::clone(namespace) }))
    }
}

/// The one request that a namespace may start while the API is unresponsive.
struct Trial<'a> {
    api: &'a Api,
    namespace: Arc<str>,
}

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        self.api.breaker.lock().trials.remove(&self.namespace);
    }
}

impl<S: MetricSource> Isolating<S> {
    /// Limits the requests to `source`.
    pub fn new(source: S, settings: IsolationSettings) -> Self {
        let api = |name| Api::new(name, settings);
        let (resource, custom) = (api(MetricsApi::Resource), api(MetricsApi::Custom));
        Self { source, resource, custom, external: api(MetricsApi::External) }
    }

    fn api(&self, api: MetricsApi) -> &Api {
        match api {
            MetricsApi::Resource => &self.resource,
            MetricsApi::Custom => &self.custom,
            MetricsApi::External => &self.external,
        }
    }
}

#[async_trait]
impl<S: MetricSource> MetricSource for Isolating<S> {
    fn catalog(&self) -> &dyn Catalog {
        self.source.catalog()
    }

    async fn read(&self, query: &Query) -> Result<Values, MetricError> {
        let api = self.api(query.api());
        let namespace: Arc<str> = query.namespace().into();
        let _slot = api.slots.acquire(&namespace).await;
        let _trial = api.admit(&namespace)?;
        let outcome = self.source.read(query).await;
        let mut breaker = api.breaker.lock();
        match &outcome {
            Err(MetricError::Timeout { .. }) => breaker.record_timeout(),
            // The request may not have reached the API, or was not sent.
            Err(MetricError::Transport { .. } | MetricError::InvalidName { .. }) => {}
            _ => breaker.record_response(),
        }
        drop(breaker);
        outcome
    }
}
