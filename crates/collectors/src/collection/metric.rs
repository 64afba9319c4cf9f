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
use hpa_calc::{MilliValue, Selector};
use hpa_metrics::describe;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};
use tracing::debug;

use super::{CollectionSettings, reader::Reader};
use crate::{CollectorPlan, FetchError, MetricConfig, Sample};

/// The maximum time that a request waits for a new value before it uses the previous one.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// The maximum time after a failed collection until a request may start the next one.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(10);

/// A metric with its last values.
pub(super) struct CollectedMetric {
    /// Without the settings in annotations, because the plan has them.
    pub(super) config: MetricConfig,
    /// The selector in the spec, parsed once. `None` if it is invalid.
    selector: Option<Selector>,
    /// Shows whether an update changed the settings in annotations.
    pub(super) annotations_hash: u64,
    plan: CollectorPlan,
    state: Mutex<ReadState>,
}

#[derive(Default)]
struct ReadState {
    last_values: Option<Arc<CollectedValues>>,
    last_failure: Option<(Instant, Arc<FetchError>)>,
    running: Option<RunningCollection>,
}

/// A running collection, which concurrent requests share.
type RunningCollection = Shared<BoxFuture<'static, Result<Arc<CollectedValues>, Arc<FetchError>>>>;

/// The samples of one collection.
pub(super) struct CollectedValues {
    /// The start of the collection by the monotonic clock, which stops during suspension.
    start: Instant,
    /// The start of the collection by the wall clock, which may step.
    start_time: Timestamp,
    pub(super) samples: Vec<Sample>,
}

impl CollectedValues {
    /// The age by the clock that advanced more.
    fn age(&self, now: Timestamp) -> Duration {
        let by_wall_clock = now.duration_since(self.start_time);
        self.start.elapsed().max(Duration::try_from(by_wall_clock).unwrap_or_default())
    }
}

impl CollectedMetric {
    pub(super) fn new(config: MetricConfig, annotations_hash: u64, plan: CollectorPlan) -> Self {
        let selector = match &config.metric.selector {
            Some(selector) => selector.to_selector().ok(),
            None => Some(Selector::everything()),
        };
        Self { config, selector, annotations_hash, plan, state: Mutex::default() }
    }

    /// Whether the selector in the spec equals this one. If the spec has none, it is one that
    /// selects everything.
    pub(super) fn has_selector(&self, selector: &Selector) -> bool {
        self.selector.as_ref() == Some(selector)
    }

    pub(super) fn collector(&self) -> &'static str {
        self.plan.name
    }

    /// The age of the last value, unless it has expired.
    pub(super) fn age(&self, reader: &Reader) -> Option<Duration> {
        let age = self.state.lock().last_values.as_ref()?.age(reader.now());
        (age <= self.max_age(&reader.settings)).then_some(age)
    }

    /// Returns the last values while they are younger than the refresh age. After that, the first
    /// request starts a collection, and all requests wait for it. If the last values haven't
    /// expired, a request waits for at most [`MAX_WAIT`]. Without a new value by then, it returns
    /// them.
    ///
    /// For a while after a failed collection, no other one is started. Requests then return the
    /// last values, or the error if these have expired.
    pub(super) async fn read(
        self: &Arc<Self>,
        reader: &Arc<Reader>,
    ) -> Result<Arc<CollectedValues>, Arc<FetchError>> {
        let (usable, collection) = {
            let mut state = self.state.lock();
            let age = state.last_values.as_ref().map(|last| last.age(reader.now()));
            let usable =
                state.last_values.clone().filter(|_| age <= Some(self.max_age(&reader.settings)));
            if let Some(last) = &usable
                && age < Some(self.refresh_age(&reader.settings))
            {
                return Ok(last.clone());
            }
            if let Some((at, error)) = &state.last_failure
                && at.elapsed() < self.refresh_age(&reader.settings).min(MAX_RETRY_DELAY)
            {
                return usable.ok_or_else(|| error.clone());
            }
            if usable.is_none() {
                // Otherwise, an expired value could become usable again after a clock step.
                state.last_values = None;
            }
            let start = || self.start_collection(reader);
            (usable, state.running.get_or_insert_with(start).clone())
        };
        match usable {
            Some(old) => match timeout(MAX_WAIT, collection).await {
                Ok(Ok(new)) => Ok(new),
                Ok(Err(_)) | Err(_) => Ok(old),
            },
            None => collection.await,
        }
    }

    /// The value of a sample to use now. A value per replica is divided here and not at the read:
    /// several decisions of the autoscaler use one sample, and each may change the replicas.
    pub(super) async fn current_value(
        &self,
        sample: &Sample,
        reader: &Reader,
    ) -> Result<MilliValue, FetchError> {
        let MetricConfig { namespace, target, .. } = &self.config;
        self.plan.current_value(sample, &reader.context(namespace, target)).await
    }

    /// Starts a collection in a task, which completes even if all requests are cancelled.
    fn start_collection(self: &Arc<Self>, reader: &Arc<Reader>) -> RunningCollection {
        let (metric, reader) = (self.clone(), reader.clone());
        let task = tokio::spawn(async move {
            let start = Instant::now();
            // A panic counts as a failed collection, so a later request starts a new one.
            let outcome = AssertUnwindSafe(metric.collect(&reader)).catch_unwind().await;
            let outcome = outcome.unwrap_or_else(|_| {
                reader.observer.collection_failed(metric.plan.name, start.elapsed());
                Err(FetchError::Panicked)
            });
            let result = outcome.map_err(Arc::new);
            let mut state = metric.state.lock();
            state.running = None;
            match &result {
                Ok(values) => {
                    state.last_values = Some(values.clone());
                    state.last_failure = None;
                }
                Err(error) => state.last_failure = Some((Instant::now(), error.clone())),
            }
            result
        });
        let result = async {
            // Only the runtime aborts the task.
            task.await.unwrap_or_else(|_| Err(Arc::new(FetchError::Stopping)))
        };
        result.boxed().shared()
    }

    async fn collect(&self, reader: &Reader) -> Result<Arc<CollectedValues>, FetchError> {
        let (start, start_time, values) =
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
        Ok(Arc::new(CollectedValues { start, start_time, samples: values.samples }))
    }

    /// The time between collections. A negative one counts as 0.
    fn interval(&self) -> Duration {
        Duration::from_nanos(u64::try_from(self.plan.interval_nanos).unwrap_or_default())
    }

    /// The age at which a value is collected again: 85 % to 95 % of the interval, or of the maximum
    /// age if that is shorter. As it is below 100 %, each read of an autoscaler whose sync period
    /// equals the interval starts a collection. The percentage differs by metric, which
    /// distributes the collections over time.
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

    /// The age at which a value expires: the operator's limit, or else two intervals.
    fn max_age(&self, settings: &CollectionSettings) -> Duration {
        settings.max_age.unwrap_or(self.interval() * 2)
    }
}
