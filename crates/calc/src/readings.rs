//! What a decision asks of the metrics APIs, and what they answer.

use hashbrown::HashMap;
use jiff::{SignedDuration, Timestamp};

use crate::{
    api::{CrossVersionObjectReference, ResourceName},
    selector::Selector,
};

/// One question to a metrics API. The namespace, and for the metrics of pods the pods' selector, are those of the
/// [`Plan`](crate::plan::Plan) that asks.
#[derive(Clone, Debug, PartialEq)]
pub enum MetricQuery {
    /// metrics.k8s.io: a resource of each pod, or of one container in each.
    Resource {
        /// The resource.
        resource: ResourceName,
        /// The container; `None` for the whole pod.
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
        /// The object; of kind Namespace it stands for the autoscaler's own namespace.
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

/// One pod's sample of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodSample {
    /// The value in milli-units.
    pub value: i64,
    /// The end of the window the sample was taken over.
    pub timestamp: Timestamp,
    /// The length of that window.
    pub window: SignedDuration,
}

/// A metric's samples by pod name. A second sample of one pod replaces the first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodSamples {
    by_pod: HashMap<Box<str>, PodSample>,
    /// The sum of all values, kept so that reading it costs nothing per sample.
    total: i128,
}

impl PodSamples {
    /// Room for this many samples.
    pub fn with_capacity(samples: usize) -> Self {
        Self { by_pod: HashMap::with_capacity(samples), total: 0 }
    }

    /// Adds a pod's sample.
    pub fn insert(&mut self, pod: impl Into<Box<str>>, sample: PodSample) {
        self.total += i128::from(sample.value);
        if let Some(replaced) = self.by_pod.insert(pod.into(), sample) {
            self.total -= i128::from(replaced.value);
        }
    }

    /// The sample of a pod.
    pub fn get(&self, pod: &str) -> Option<&PodSample> {
        self.by_pod.get(pod)
    }

    /// The number of pods that have a sample.
    pub fn len(&self) -> usize {
        self.by_pod.len()
    }

    /// Whether no pod has a sample.
    pub fn is_empty(&self) -> bool {
        self.by_pod.is_empty()
    }

    /// The sum of all values in milli-units.
    pub fn total(&self) -> i128 {
        self.total
    }

    /// The samples, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &PodSample)> {
        self.by_pod.iter().map(|(pod, sample)| (pod.as_ref(), sample))
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

/// What a metrics API answered.
#[derive(Clone, Debug, PartialEq)]
pub enum Reading {
    /// A metric of each pod: answers [`MetricQuery::Resource`] and [`MetricQuery::Pods`].
    Pods(PodSamples),
    /// One value in milli-units: answers [`MetricQuery::Object`].
    Object(i64),
    /// The value of every series in milli-units: answers [`MetricQuery::External`].
    External(Vec<i64>),
}

/// The metrics APIs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MetricsApi {
    /// metrics.k8s.io
    Resource,
    /// custom.metrics.k8s.io
    Custom,
    /// external.metrics.k8s.io
    External,
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

/// Why a metrics API gave no reading, in the reference controller's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The request failed.
    #[error("unable to fetch metrics from {api}: {message}")]
    Fetch {
        /// The API asked.
        api: MetricsApi,
        /// What it, or the way to it, said.
        message: String,
    },
    /// The answer held no item.
    #[error("no metrics returned from {0}")]
    Empty(MetricsApi),
}
