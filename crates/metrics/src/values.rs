//! Values of metrics, with their times and origins.

use hpa_calc::report::error_texts;

use crate::{
    MetricError,
    resource::GroupResource,
    wire::{ExternalMetricValue, MetricValue, NodeMetrics, PodMetrics},
};

/// The answer to a [`Query`](crate::Query).
///
/// All quantities are in milli-units, the precision in which the reference controller calculates.
#[derive(Clone, Debug)]
pub enum Values {
    /// Answers [`Query::PodUsage`](crate::Query::PodUsage).
    PodMetrics(UsageList<PodMetrics>),
    /// Answers [`Query::NodeUsage`](crate::Query::NodeUsage).
    NodeMetrics(UsageList<NodeMetrics>),
    /// Answers [`Query::Custom`](crate::Query::Custom).
    Custom(CustomValues),
    /// Answers [`Query::External`](crate::Query::External).
    External(ExternalValues),
}

/// The usage of pods or nodes, possibly incomplete.
#[derive(Clone, Debug)]
pub struct UsageList<T> {
    /// The objects that have a usage.
    pub items: Vec<T>,
    /// Queries that failed, and objects whose samples are not values. The objects are missing among
    /// the items.
    pub failures: Vec<MetricError>,
    /// The first query without a result for any of its objects.
    pub query_without_result: Option<String>,
}

impl<T> Default for UsageList<T> {
    fn default() -> Self {
        Vec::new().into()
    }
}

impl<T> From<Vec<T>> for UsageList<T> {
    fn from(items: Vec<T>) -> Self {
        Self { items, failures: Vec::new(), query_without_result: None }
    }
}

impl<T> UsageList<T> {
    /// The items, or the first failure if there are no items.
    pub fn into_result(mut self) -> Result<Vec<T>, MetricError> {
        if self.items.is_empty() && !self.failures.is_empty() {
            return Err(self.failures.swap_remove(0));
        }
        Ok(self.items)
    }
}

/// The values of a custom metric.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CustomValues {
    /// The kind of the objects. It is empty if the values are from a metrics API.
    pub object_kind: ObjectKind,
    /// The values, in the order of the list of objects, or as a metrics API returned them.
    pub items: Vec<MetricValue>,
    /// Objects that are not in `items` because their sample is not a value, such as NaN. A query
    /// for a named object fails instead.
    pub omitted: Vec<OmittedSample>,
    /// The origin of the values.
    pub origin: Origin,
}

/// The values of an external metric.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExternalValues {
    /// The values, in the order of the result.
    pub items: Vec<ExternalMetricValue>,
    /// Series that are not in `items` because their sample is not a value.
    pub omitted: Vec<OmittedSample>,
    /// The origin of the values.
    pub origin: Origin,
}

/// The origin of values. All fields are empty for values from a metrics API. Values from a
/// collector or a schedule have only the rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The rule, such as `rules[0]`, the collector, or `schedule`.
    pub rule: String,
    /// The server that was queried.
    pub server: String,
    /// The series that the metric is computed from.
    pub series: String,
    /// The query that was sent.
    pub query: String,
}

/// The kind of the described objects, as the API server's discovery has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectKind {
    /// The resource, with its plural name.
    pub resource: GroupResource,
    /// The preferred version.
    pub version: String,
    /// The kind in the API, such as `Pod`.
    pub kind: String,
}

/// A sample that can't be the value of a metric, such as NaN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OmittedSample {
    /// The object, or the labels of the series, for messages.
    pub subject: String,
    /// The reason why the sample is not a value.
    pub reason: NoValue,
}

/// The reason why a sample is not a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoValue {
    /// For example, the result of 0 / 0.
    #[error("{}", error_texts::NOT_A_NUMBER)]
    NotANumber,
    /// For example, the result of 1 / 0.
    #[error("{}", error_texts::INFINITE)]
    Infinite,
    /// The sample in milli-units doesn't fit in 64 bits.
    #[error("the sample is out of range")]
    OutOfRange,
}

impl Values {
    /// The usage of pods. Fails for values of another variant.
    pub fn into_pods(self) -> Result<UsageList<PodMetrics>, MetricError> {
        match self {
            Self::PodMetrics(values) => Ok(values),
            _ => Err(MetricError::UnexpectedValues),
        }
    }

    /// The usage of nodes. Fails for values of another variant.
    pub fn into_nodes(self) -> Result<UsageList<NodeMetrics>, MetricError> {
        match self {
            Self::NodeMetrics(values) => Ok(values),
            _ => Err(MetricError::UnexpectedValues),
        }
    }

    /// The values of a custom metric. Fails for values of another variant.
    pub fn into_custom(self) -> Result<CustomValues, MetricError> {
        match self {
            Self::Custom(values) => Ok(values),
            _ => Err(MetricError::UnexpectedValues),
        }
    }

    /// The values of an external metric. Fails for values of another variant.
    pub fn into_external(self) -> Result<ExternalValues, MetricError> {
        match self {
            Self::External(values) => Ok(values),
            _ => Err(MetricError::UnexpectedValues),
        }
    }
}
