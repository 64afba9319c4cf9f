//! The interface to the metrics APIs: one request, one list.

use async_trait::async_trait;
use hpa_calc::{
    readings::{MetricQuery, MetricsApi},
    selector::Selector,
};

use crate::{
    FetchError,
    wire::{ExternalMetricValue, MetricValue, PodMetrics},
};

/// Sends requests to the metrics APIs. One call is one request.
#[async_trait]
pub trait MetricsSource: Send + Sync + 'static {
    /// Sends a request and returns the items of the response, in the variant of [`Items`] that
    /// belongs to the request.
    async fn fetch(&self, request: &Request) -> Result<Items, FetchError>;
}

/// A request to a metrics API.
///
/// Requests are equal if their responses are interchangeable. A selector is sent as its canonical
/// string. The string of [`Selector::nothing`] is empty, so the server selects everything, as with
/// the reference controller.
///
/// The enum is exhaustive on purpose: a source has to answer every kind of request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// metrics.k8s.io: the usage of the containers of the selected pods. The response is
    /// [`Items::PodMetrics`].
    PodMetrics {
        /// The namespace of the pods.
        namespace: Box<str>,
        /// Selects the pods.
        pods: Selector,
    },
    /// custom.metrics.k8s.io: a metric of each selected pod. The response is [`Items::Values`].
    PodValues {
        /// The namespace of the pods.
        namespace: Box<str>,
        /// Selects the pods.
        pods: Selector,
        /// The metric's name.
        metric: Box<str>,
        /// Selects series of the metric.
        metric_selector: Selector,
    },
    /// custom.metrics.k8s.io: a metric of one object. The response is [`Items::Values`].
    ObjectValues {
        /// The namespace of the object.
        namespace: Box<str>,
        /// The object. The kind Namespace of the core group stands for `namespace`, whatever the
        /// object's name.
        object: ObjectReference,
        /// The metric's name.
        metric: Box<str>,
        /// Selects series of the metric.
        metric_selector: Selector,
    },
    /// external.metrics.k8s.io: the selected series of a metric. The response is
    /// [`Items::ExternalValues`].
    ExternalValues {
        /// The namespace of the request.
        namespace: Box<str>,
        /// The metric's name.
        metric: Box<str>,
        /// Selects series of the metric.
        metric_selector: Selector,
    },
}

/// Names an object in the namespace of its request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectReference {
    /// `group/version`, or `version` for the core group.
    pub api_version: Box<str>,
    /// The kind, for example `Ingress`.
    pub kind: Box<str>,
    /// The name.
    pub name: Box<str>,
}

/// The items of a response.
#[derive(Clone, Debug, PartialEq)]
pub enum Items {
    /// Answers [`Request::PodMetrics`].
    PodMetrics(Vec<PodMetrics>),
    /// Answers [`Request::PodValues`] and [`Request::ObjectValues`].
    Values(Vec<MetricValue>),
    /// Answers [`Request::ExternalValues`].
    ExternalValues(Vec<ExternalMetricValue>),
}

impl Request {
    /// The request for a query. `pods` selects the pods of the scale target.
    pub fn new(namespace: &str, pods: &Selector, query: &MetricQuery) -> Self {
        let namespace = namespace.into();
        match query {
            MetricQuery::Resource { .. } => Self::PodMetrics { namespace, pods: pods.clone() },
            MetricQuery::Pods { metric, metric_selector } => Self::PodValues {
                namespace,
                pods: pods.clone(),
                metric: metric.as_str().into(),
                metric_selector: metric_selector.clone(),
            },
            MetricQuery::Object { object, metric, metric_selector } => Self::ObjectValues {
                namespace,
                object: ObjectReference {
                    api_version: object.api_version.as_str().into(),
                    kind: object.kind.as_str().into(),
                    name: object.name.as_str().into(),
                },
                metric: metric.as_str().into(),
                metric_selector: metric_selector.clone(),
            },
            MetricQuery::External { metric, metric_selector } => Self::ExternalValues {
                namespace,
                metric: metric.as_str().into(),
                metric_selector: metric_selector.clone(),
            },
        }
    }

    /// The namespace of the request.
    pub fn namespace(&self) -> &str {
        match self {
            Self::PodMetrics { namespace, .. }
            | Self::PodValues { namespace, .. }
            | Self::ObjectValues { namespace, .. }
            | Self::ExternalValues { namespace, .. } => namespace,
        }
    }

    /// The API that the request is for.
    pub fn api(&self) -> MetricsApi {
        match self {
            Self::PodMetrics { .. } => MetricsApi::Resource,
            Self::PodValues { .. } | Self::ObjectValues { .. } => MetricsApi::Custom,
            Self::ExternalValues { .. } => MetricsApi::External,
        }
    }
}

impl Items {
    pub(crate) fn into_pod_metrics(self) -> Result<Vec<PodMetrics>, FetchError> {
        match self {
            Self::PodMetrics(items) => Ok(items),
            _ => Err(FetchError::UnexpectedItems),
        }
    }

    pub(crate) fn into_values(self) -> Result<Vec<MetricValue>, FetchError> {
        match self {
            Self::Values(items) => Ok(items),
            _ => Err(FetchError::UnexpectedItems),
        }
    }

    pub(crate) fn into_external_values(self) -> Result<Vec<ExternalMetricValue>, FetchError> {
        match self {
            Self::ExternalValues(items) => Ok(items),
            _ => Err(FetchError::UnexpectedItems),
        }
    }
}
