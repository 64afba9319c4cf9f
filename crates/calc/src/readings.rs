//! The metric queries of a decision, and their results: readings and forecasts.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::{
    api::{ConditionReason, CrossVersionObjectReference, Pod, ResourceName, enums::closed_enum},
    quantity::MilliValue,
    selector::Selector,
    settings::{PodSelection, Settings},
};

/// One query of a metrics API.
///
/// The namespace, and the selector for metrics of pods, come from the
/// [`Plan`](crate::plan::Plan). The enum is exhaustive on purpose: a metrics source has
/// to answer every kind of query.
#[derive(Clone, Debug, PartialEq)]
pub enum MetricQuery {
    /// metrics.k8s.io: the usage of a resource by each pod, or by one container of each pod.
    Resource {
        /// The resource, for example `cpu`.
        resource: ResourceName,
        /// The container, or `None` for the whole pod.
        container: Option<String>,
    },
    /// custom.metrics.k8s.io: a metric of each pod.
    Pods {
        /// The metric's name.
        metric: String,
        /// Selects series of the metric.
        metric_selector: Selector,
    },
    /// custom.metrics.k8s.io: a metric of one object.
    Object {
        /// The object. The kind Namespace stands for the autoscaler's own namespace.
        object: CrossVersionObjectReference,
        /// The metric's name.
        metric: String,
        /// Selects series of the metric.
        metric_selector: Selector,
    },
    /// external.metrics.k8s.io: every series of a metric.
    External {
        /// The metric's name.
        metric: String,
        /// Selects series of the metric.
        metric_selector: Selector,
    },
}

impl MetricQuery {
    /// The API that answers the query.
    pub fn api(&self) -> MetricsApi {
        match self {
            Self::Resource { .. } => MetricsApi::Resource,
            Self::Pods { .. } | Self::Object { .. } => MetricsApi::Custom,
            Self::External { .. } => MetricsApi::External,
        }
    }

    /// The name of the metric, or of the resource.
    pub fn metric_name(&self) -> &str {
        match self {
            Self::Resource { resource, .. } => resource.as_str(),
            Self::Pods { metric, .. }
            | Self::Object { metric, .. }
            | Self::External { metric, .. } => metric,
        }
    }
}

/// One pod's sample of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodSample {
    /// The measured value, for example the CPU cores or bytes in use.
    pub value: MilliValue,
    /// The end of the window over which the sample was taken.
    pub timestamp: Timestamp,
    /// The length of that window. Zero if the API reported none.
    pub window: SignedDuration,
}

/// Samples of one metric by pod name. A second sample of a pod replaces the first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodSamples {
    by_pod: HashMap<Box<str>, PodSample>,
    /// The sum of all values in milli-units, so that averages need no second pass.
    total: i128,
}

impl PodSamples {
    /// An empty collection with room for this number of samples.
    pub fn with_capacity(samples: usize) -> Self {
        Self { by_pod: HashMap::with_capacity(samples), total: 0 }
    }

    /// Adds or replaces the sample of `pod`.
    pub fn insert(&mut self, pod: impl Into<Box<str>>, sample: PodSample) {
        self.total += i128::from(sample.value.as_milli());
        if let Some(replaced) = self.by_pod.insert(pod.into(), sample) {
            self.total -= i128::from(replaced.value.as_milli());
        }
    }

    /// The sample of a pod.
    pub fn get(&self, pod: &str) -> Option<&PodSample> {
        self.by_pod.get(pod)
    }

    /// Keeps only the samples for which `keep` is true.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&PodSample) -> bool) {
        self.by_pod.retain(|_, sample| {
            let is_kept = keep(sample);
            if !is_kept {
                self.total -= i128::from(sample.value.as_milli());
            }
            is_kept
        });
    }

    /// The number of pods that have a sample.
    pub fn len(&self) -> usize {
        self.by_pod.len()
    }

    /// Whether no pod has a sample.
    pub fn is_empty(&self) -> bool {
        self.by_pod.is_empty()
    }

    /// The samples with their pods' names, in arbitrary order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &PodSample)> {
        self.by_pod.iter().map(|(pod, sample)| (pod.as_ref(), sample))
    }

    /// The sum of all values in milli-units.
    pub(crate) fn total(&self) -> i128 {
        self.total
    }
}

impl<N: Into<Box<str>>> FromIterator<(N, PodSample)> for PodSamples {
    fn from_iter<I: IntoIterator<Item = (N, PodSample)>>(samples: I) -> Self {
        let samples = samples.into_iter();
        let mut all = Self::with_capacity(samples.size_hint().0);
        for (pod, sample) in samples {
            all.insert(pod, sample);
        }
        all
    }
}

/// A value and the time of its measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample<T> {
    /// The value.
    pub value: T,
    /// The time of the measurement. If parts of the value have different times, the oldest one.
    /// `None` if the source doesn't report the time: such a value doesn't count as too old.
    pub timestamp: Option<Timestamp>,
}

impl<T> From<T> for Sample<T> {
    fn from(value: T) -> Self {
        Self { value, timestamp: None }
    }
}

/// The answer to one [`MetricQuery`].
#[derive(Clone, Debug, PartialEq)]
pub enum Reading {
    /// Answers [`MetricQuery::Resource`] and [`MetricQuery::Pods`]: one sample per pod.
    Pods(PodSamples),
    /// Answers [`MetricQuery::Object`]: the object's value.
    Object(Sample<MilliValue>),
    /// Answers [`MetricQuery::External`]: the value of every series, with the time of the oldest.
    External(Sample<Vec<MilliValue>>),
}

impl Reading {
    /// The value of an object, or the sum of all series, in milli-units. `None` for samples of
    /// pods.
    pub fn total_milli(&self) -> Option<i128> {
        match self {
            Self::Object(sample) => Some(sample.value.as_milli().into()),
            Self::External(sample) => {
                Some(sample.value.iter().map(|value| i128::from(value.as_milli())).sum())
            }
            Self::Pods(_) => None,
        }
    }
}

/// The answers to the queries of a [`Plan`](crate::plan::Plan), by the index of their metric in
/// `spec.metrics`, and the forecasts of metrics.
///
/// A metric without a reading counts as failed, so it blocks scaling down, unless its fallback is
/// active.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Readings {
    by_metric: Vec<Option<Result<Reading, ReadError>>>,
    /// By the index of the metric. Empty if there are no forecasts.
    forecasts: Vec<Option<MetricForecast>>,
    /// By the index of the metric, `None` for one that was read. Only reports have them.
    controller_errors: Vec<Option<String>>,
    /// The lead of the clock of the decision over that of the samples. Only reports have it.
    clock_lead: SignedDuration,
}

impl Readings {
    /// No readings.
    pub const fn new() -> Self {
        Self {
            by_metric: Vec::new(),
            forecasts: Vec::new(),
            controller_errors: Vec::new(),
            clock_lead: SignedDuration::ZERO,
        }
    }

    /// Sets the reading of the metric at an index of `spec.metrics`.
    pub fn insert(&mut self, metric: usize, reading: Result<Reading, ReadError>) {
        set_at(&mut self.by_metric, metric, reading);
    }

    /// The reading of the metric at an index of `spec.metrics`, if there is one.
    pub fn get(&self, metric: usize) -> Option<&Result<Reading, ReadError>> {
        self.by_metric.get(metric)?.as_ref()
    }

    /// Sets the forecast of the metric at an index of `spec.metrics`.
    pub fn insert_forecast(&mut self, metric: usize, forecast: MetricForecast) {
        set_at(&mut self.forecasts, metric, forecast);
    }

    /// The forecast of the metric at an index of `spec.metrics`, if one was set.
    pub fn forecast(&self, metric: usize) -> Option<&MetricForecast> {
        self.forecasts.get(metric)?.as_ref()
    }

    /// Sets the errors of the metrics in the controller's last decision, in the order of
    /// `spec.metrics`: `None` for a metric that the controller read. Empty if they are unknown.
    ///
    /// Only reports use them. An error explains a metric that can't be read for the report either.
    /// Without an error, a failure in the stored status is outdated.
    pub fn set_controller_errors(&mut self, errors: Vec<Option<String>>) {
        self.controller_errors = errors;
    }

    /// Sets the lead of the clock of the decision over that of the samples.
    ///
    /// Only reports use it, for the ages of samples. The decision itself uses the wrong clock.
    pub fn set_clock_lead(&mut self, lead: SignedDuration) {
        self.clock_lead = lead;
    }

    /// The lead of the clock of the decision over that of the samples. Zero if it is unknown.
    pub fn clock_lead(&self) -> SignedDuration {
        self.clock_lead
    }

    /// Whether the controller itself read the metric for its last decision. `false` if unknown.
    pub(crate) fn was_read_by_controller(&self, metric: usize) -> bool {
        self.controller_errors.get(metric).is_some_and(Option::is_none)
    }

    /// The controller's own errors, each after the index of its metric.
    pub(crate) fn controller_errors(&self) -> impl Iterator<Item = (usize, &str)> {
        let errors = self.controller_errors.iter().enumerate();
        errors.filter_map(|(metric, error)| Some((metric, error.as_deref()?)))
    }

    /// The readings with only the samples of pods that count. If only owned pods count, these are
    /// `pods`: a metrics API selects by labels, so it also returns samples of pods that the target
    /// doesn't own.
    pub(crate) fn of_counted_pods(mut self, settings: &Settings, pods: &[Arc<Pod>]) -> Self {
        if settings.pods == PodSelection::Selected {
            return self;
        }
        let names: HashSet<&str> = pods.iter().map(|pod| pod.name.as_ref()).collect();
        for reading in self.by_metric.iter_mut().flatten() {
            if let Ok(Reading::Pods(samples)) = reading {
                let counted = samples.iter().filter(|(pod, _)| names.contains(pod));
                *samples = counted.map(|(pod, sample)| (pod, *sample)).collect();
            }
        }
        self
    }

    /// Removes and returns the forecasts.
    pub(crate) fn take_forecasts(&mut self) -> Vec<Option<MetricForecast>> {
        std::mem::take(&mut self.forecasts)
    }

    /// The readings in the order of the spec, followed by an endless sequence of `None`.
    pub(crate) fn into_ordered(self) -> impl Iterator<Item = Option<Result<Reading, ReadError>>> {
        self.by_metric.into_iter().chain(std::iter::repeat_with(|| None))
    }
}

/// Sets the value at an index. Fills the list with `None` up to it.
fn set_at<T>(all: &mut Vec<Option<T>>, index: usize, value: T) {
    if all.len() <= index {
        all.resize_with(index.saturating_add(1), || None);
    }
    if let Some(slot) = all.get_mut(index) {
        *slot = Some(value);
    }
}

impl Extend<(usize, Result<Reading, ReadError>)> for Readings {
    fn extend<I: IntoIterator<Item = (usize, Result<Reading, ReadError>)>>(&mut self, readings: I) {
        for (metric, reading) in readings {
            self.insert(metric, reading);
        }
    }
}

impl FromIterator<(usize, Result<Reading, ReadError>)> for Readings {
    fn from_iter<I: IntoIterator<Item = (usize, Result<Reading, ReadError>)>>(readings: I) -> Self {
        let mut all = Self::new();
        all.extend(readings);
        all
    }
}

/// The metrics APIs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MetricsApi {
    /// Usages of resources by pods.
    Resource,
    /// Metrics of pods and other objects.
    Custom,
    /// Metrics from outside the cluster.
    External,
}

impl MetricsApi {
    /// The name of the API group.
    pub const fn group(self) -> &'static str {
        match self {
            Self::Resource => "metrics.k8s.io",
            Self::Custom => "custom.metrics.k8s.io",
            Self::External => "external.metrics.k8s.io",
        }
    }
}

impl std::fmt::Display for MetricsApi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Resource => "resource metrics API",
            Self::Custom => "custom metrics API",
            Self::External => "external metrics API",
        })
    }
}

/// The error of reading from a metrics API. The texts match the reference controller, because
/// conditions and events contain them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The request failed.
    #[error("unable to fetch metrics from {api}: {message}")]
    Fetch {
        /// The queried API.
        api: MetricsApi,
        /// The error and its causes.
        message: String,
    },
    /// The response had no item.
    #[error("no metrics returned from {0}")]
    Empty(MetricsApi),
    /// Nothing was requested, for this reason.
    #[error("{0}")]
    NotRead(String),
}

impl ReadError {
    /// A request that failed, with the text of its error.
    pub fn fetch(api: MetricsApi, error: impl std::fmt::Display) -> Self {
        Self::Fetch { api, message: error.to_string() }
    }

    /// Whether the API responded, without any item.
    pub fn is_empty_response(&self) -> bool {
        matches!(self, Self::Empty(_))
    }
}

/// The state of a metric's forecasts, and the forecast for this decision.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricForecast {
    /// The reason why forecasts are active or not.
    pub reason: ForecastReason,
    /// The reason in words, for the condition. It should rarely change, because every change is
    /// written to the status.
    pub text: Arc<str>,
    /// The forecast, if there is one at this time. It is used only if [`Self::reason`] is active.
    pub forecast: Option<LoadForecast>,
}

closed_enum! {
    /// The reason why forecasts of a metric are active or not, as in the condition
    /// `ForecastActive`. Active forecasts can raise the replicas, unless they are only observed.
    #[derive(Serialize)]
    ForecastReason {
        /// Forecasts would have helped in the past, so they are active.
        Forecasting,
        /// The history is too short or incomplete.
        NotEnoughHistory,
        /// The load doesn't depend on the time of day or the day of the week.
        NoSeason,
        /// Forecasts would not have helped.
        NoBenefit,
        /// The past load can't be read.
        SourceFailed,
    }
}

/// The load of a metric at a future time, in the metric's own unit over all pods.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadForecast {
    /// The forecast time.
    pub at: Timestamp,
    /// The load that is not exceeded with the probability `quantile`.
    #[serde(rename = "forecastLoad")]
    pub load: f64,
    /// The quantile, from 0 to 1.
    pub quantile: f64,
    /// The number of past days that the forecast uses.
    pub days: usize,
}

impl ForecastReason {
    /// All reasons.
    pub const ALL: [Self; 5] = [
        Self::Forecasting,
        Self::NotEnoughHistory,
        Self::NoSeason,
        Self::NoBenefit,
        Self::SourceFailed,
    ];

    /// Whether forecasts are active.
    pub fn is_active(self) -> bool {
        self == Self::Forecasting
    }
}

impl From<ForecastReason> for ConditionReason {
    fn from(reason: ForecastReason) -> Self {
        reason.as_str().into()
    }
}
