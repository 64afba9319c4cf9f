//! One metric of an autoscaler, and its values.

use std::{
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher},
    panic::AssertUnwindSafe,
    sync::Arc,
    time::Duration,
};

use futures::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use hpa_metrics::describe;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};
use tracing::debug;

use super::{CollectionSettings, reader::Reader};
use crate::{FetchError, MetricConfig, Plan, Sample};

/// The time that a request waits for a new value before it uses the previous one.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// The maximum pause after a failed collection.
const MAX_RETRY: Duration = Duration::from_secs(10);

/// A metric with its last values.
pub(super) struct CollectedMetric {
    pub(super) config: MetricConfig,
    plan: Plan,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last: Option<Arc<CollectedValues>>,
    failed: Option<(Instant, Arc<FetchError>)>,
    flight: Option<Flight>,
}

/// A running collection, which concurrent requests share.
type Flight = Shared<BoxFuture<'static, Result<Arc<CollectedValues>, Arc<FetchError>>>>;

/// The samples of one collection.
pub(super) struct CollectedValues {
    /// The start by the monotonic clock, which stops during suspension.
    at: Instant,
    /// The start by the system clock, which may step.
    time: Timestamp,
    pub(super) samples: Vec<Sample>,
}

impl CollectedValues {
    /// The age by the clock that advanced more.
    fn age(&self, now: Timestamp) -> Duration {
        let by_time = Duration::try_from(now.duration_since(self.time)).unwrap_or_default();
        self.at.elapsed().max(by_time)
    }
}

impl CollectedMetric {
    pub(super) fn new(config: MetricConfig, plan: Plan) -> Self {
        Self { config, plan, state: Mutex::default() }
    }

    pub(super) fn collector(&self) -> &'static str {
        self.plan.name
    }

    /// The age of the last value, unless it has expired.
    pub(super) fn age(&self, reader: &Reader) -> Option<Duration> {
        let age = self.state.lock().last.as_ref()?.age(reader.now());
        (age <= self.max_age(&reader.settings)).then_some(age)
    }

    /// The last value, or a new one if it is too old.
    pub(super) async fn read(
        self: &Arc<Self>,
        reader: &Arc<Reader>,
    ) -> Result<Arc<CollectedValues>, Arc<FetchError>> {
        let (usable, flight) = {
            let mut state = self.state.lock();
            let age = state.last.as_ref().map(|last| last.age(reader.now()));
            let usable = state.last.clone().filter(|_| age <= Some(self.max_age(&reader.settings)));
            if let Some(last) = &usable
                && age < Some(self.refresh_age(&reader.settings))
            {
                return Ok(last.clone());
            }
            if let Some((at, error)) = &state.failed
                && at.elapsed() < self.refresh_age(&reader.settings).min(MAX_RETRY)
            {
                return usable.ok_or_else(|| error.clone());
            }
            if usable.is_none() {
                // No request may use an expired value.
                state.last = None;
            }
            let flight = state.flight.get_or_insert_with(|| self.start(reader)).clone();
            (usable, flight)
        };
        match usable {
            Some(old) => match timeout(MAX_WAIT, flight).await {
                Ok(Ok(new)) => Ok(new),
                Ok(Err(_)) | Err(_) => Ok(old),
            },
            None => flight.await,
        }
    }

    /// Starts a collection in a task, which completes even if all requests are cancelled.
    fn start(self: &Arc<Self>, reader: &Arc<Reader>) -> Flight {
        let (metric, reader) = (self.clone(), reader.clone());
        let task = tokio::spawn(async move {
            // After a panic, the next request starts a new collection.
            let collected = AssertUnwindSafe(metric.collect(&reader)).catch_unwind().await;
            let result = collected.unwrap_or(Err(FetchError::Panicked)).map_err(Arc::new);
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

    async fn collect(&self, reader: &Reader) -> Result<Arc<CollectedValues>, FetchError> {
        let (at, time, values) =
            reader.read(&self.plan, &self.config.namespace, &self.config.target).await;
        let MetricConfig { namespace, autoscaler, .. } = &self.config;
        let metric = self.config.display_name();
        let values = values.inspect_err(|error| {
            let error = describe(error);
            debug!(namespace, autoscaler, metric, error, "unable to collect");
        })?;
        for failure in &values.failures {
            let (error, pod) = (describe(&failure.error), &failure.pod);
            debug!(namespace, autoscaler, metric, pod, error, "unable to collect");
        }
        Ok(Arc::new(CollectedValues { at, time, samples: values.samples }))
    }

    fn interval(&self) -> Duration {
        Duration::from_nanos(u64::try_from(self.plan.interval).unwrap_or_default())
    }

    /// The age at which a value is collected again: 85 % to 95 % of the interval. If the sync
    /// period of an autoscaler equals the interval, each of its reads then starts a collection. The
    /// percentage depends on the metric, so that not all metrics are collected at the same time.
    fn refresh_age(&self, settings: &CollectionSettings) -> Duration {
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        let hash = hasher.hash_one((
            &self.config.namespace,
            &self.config.target.name,
            &self.config.metric.name,
        ));
        let percent = 85 + u32::try_from(hash % 11).unwrap_or_default();
        self.interval().min(self.max_age(settings)) * percent / 100
    }

    /// The age at which a value expires. The operator's limit also applies to longer intervals.
    fn max_age(&self, settings: &CollectionSettings) -> Duration {
        settings.max_age.unwrap_or(self.interval() * 2)
    }
}
