//! One metric of an autoscaler, and its values.

use std::{
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher},
    sync::Arc,
    time::Duration,
};

use crate::fetch::{FetchError, Sample};
use crate::{MetricConfig, Plan};
use futures::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use hpa_calc::api::CrossVersionObjectReference;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};
use tracing::debug;

use super::{reader::Reader, settings::CollectionSettings};

/// How long a request waits for a new value if there is an old one.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long a metric is not collected again after a failure, at most.
const MAX_RETRY: Duration = Duration::from_secs(10);

/// The least bound of the age of a value.
const MIN_MAX_AGE: Duration = Duration::from_secs(30);

/// A metric that can be collected.
pub(super) struct CollectedMetric {
    pub(super) config: MetricConfig,
    pub(super) namespace: String,
    pub(super) target: CrossVersionObjectReference,
    plan: Plan,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last: Option<Arc<Collected>>,
    failed: Option<(Instant, Arc<FetchError>)>,
    flight: Option<Flight>,
}

/// Concurrent requests wait for the same collection.
type Flight = Shared<BoxFuture<'static, Result<Arc<Collected>, Arc<FetchError>>>>;

/// What was collected.
pub(super) struct Collected {
    /// The start of the collection.
    at: Instant,
    pub(super) samples: Vec<Sample>,
}

impl CollectedMetric {
    pub(super) fn new(
        namespace: &str,
        config: MetricConfig,
        target: CrossVersionObjectReference,
        plan: Plan,
    ) -> Self {
        let state = Mutex::default();
        Self { config, namespace: namespace.to_owned(), target, plan, state }
    }

    pub(super) fn collector(&self) -> &'static str {
        self.plan.source.collector()
    }

    /// Whether another description of the metric means the same, so that its values remain.
    pub(super) fn is_for(
        &self,
        config: &MetricConfig,
        target: &CrossVersionObjectReference,
    ) -> bool {
        self.config == *config && self.target == *target
    }

    /// The age of the value, if it may be used.
    pub(super) fn age(&self, settings: &CollectionSettings) -> Option<Duration> {
        let age = self.state.lock().last.as_ref()?.at.elapsed();
        (age <= self.max_age(settings)).then_some(age)
    }

    /// The value, which is collected if the last one is too old.
    pub(super) async fn read(
        self: &Arc<Self>,
        reader: &Arc<Reader>,
    ) -> Result<Arc<Collected>, Arc<FetchError>> {
        let (usable, flight) = {
            let mut state = self.state.lock();
            let age = state.last.as_ref().map(|last| last.at.elapsed());
            let usable = state.last.clone().filter(|_| age <= Some(self.max_age(&reader.settings)));
            if let Some(last) = &usable
                && age < Some(self.refresh_age())
            {
                return Ok(last.clone());
            }
            if let Some((at, error)) = &state.failed
                && at.elapsed() < self.refresh_age().min(MAX_RETRY)
            {
                return usable.ok_or_else(|| error.clone());
            }
            if usable.is_none() {
                // Frees the values that no request may use any more.
                state.last = None;
            }
            let flight = state.flight.get_or_insert_with(|| self.start(reader)).clone();
            (usable, flight)
        };
        match usable {
            Some(old) => match timeout(PATIENCE, flight).await {
                Ok(Ok(new)) => Ok(new),
                Ok(Err(_)) | Err(_) => Ok(old),
            },
            None => flight.await,
        }
    }

    /// Starts a collection, which ends also if nobody waits for it any more.
    fn start(self: &Arc<Self>, reader: &Arc<Reader>) -> Flight {
        let (metric, reader) = (self.clone(), reader.clone());
        let task = tokio::spawn(async move {
            let result = metric.collect(&reader).await.map_err(Arc::new);
            let mut state = metric.state.lock();
            state.flight = None;
            match &result {
                Ok(collected) => {
                    state.last = Some(collected.clone());
                    state.failed = None;
                }
                Err(error) => state.failed = Some((Instant::now(), error.clone())),
            }
            result
        });
        let outcome = async {
            let aborted = || Arc::new(FetchError::NotConfigured("a runtime that is not stopping"));
            task.await.unwrap_or_else(|_| Err(aborted()))
        };
        outcome.boxed().shared()
    }

    async fn collect(&self, reader: &Reader) -> Result<Arc<Collected>, FetchError> {
        let (at, fetched) = reader.read(&self.plan.source, &self.namespace, &self.target).await;
        let name = self.config.display_name();
        let fetched = fetched.inspect_err(|error| {
            let error = hpa_metrics::describe(error);
            debug!(namespace = self.namespace, metric = name, error, "unable to collect");
        })?;
        for failure in &fetched.failures {
            let error = hpa_metrics::describe(&failure.error);
            debug!(namespace = self.namespace, pod = failure.pod, error, "unable to collect");
        }
        Ok(Arc::new(Collected { at, samples: fetched.samples }))
    }

    fn interval(&self) -> Duration {
        Duration::from_nanos(u64::try_from(self.plan.interval).unwrap_or_default())
    }

    /// When a value is collected again: after 85 % to 95 % of the interval, so that the requests of
    /// an autoscaler with the same period don't just miss it, and those of many metrics don't stay
    /// together.
    fn refresh_age(&self) -> Duration {
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        let spread =
            hasher.hash_one((&self.namespace, &self.target.name, &self.config.metric.name));
        let percent = 85 + u32::try_from(spread % 11).unwrap_or_default();
        self.interval() * percent / 100
    }

    fn max_age(&self, settings: &CollectionSettings) -> Duration {
        let max = settings.max_age.unwrap_or(self.interval() * 2);
        max.max(self.interval()).max(MIN_MAX_AGE.min(self.interval() * 2))
    }
}
