//! Queries for metrics, and their construction from the metrics of autoscalers.

use std::{error::Error, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use hpa_calc::{
    Selector,
    api::CrossVersionObjectReference,
    readings::{MetricQuery, MetricsApi},
    report::error_texts::{DEADLINE_EXCEEDED, NO_RESPONSE_WITHIN},
};
use tokio::time::timeout;

use crate::{MetricError, resource::GroupResource};

/// A query for one metric, as every source and decorator understands it.
///
/// Queries are equal if their answers are interchangeable. The enum is exhaustive on purpose: a
/// source has to answer every kind of query.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Query {
    /// metrics.k8s.io: the usage of the containers of pods. The answer is
    /// [`Values::PodMetrics`](crate::Values::PodMetrics).
    PodUsage {
        /// The namespace of the pods. It is empty for all namespaces.
        namespace: String,
        /// One pod, or the pods that a selector matches.
        pods: Objects,
        /// Field requirements that the pods must also meet.
        fields: Box<[FieldRequirement]>,
    },
    /// metrics.k8s.io: the usage of nodes. The answer is
    /// [`Values::NodeMetrics`](crate::Values::NodeMetrics).
    NodeUsage {
        /// One node, or the nodes that a selector matches.
        nodes: Objects,
        /// Field requirements that the nodes must also meet.
        fields: Box<[FieldRequirement]>,
    },
    /// custom.metrics.k8s.io: a metric of objects. The answer is
    /// [`Values::Custom`](crate::Values::Custom).
    Custom(CustomQuery),
    /// external.metrics.k8s.io: the series of a metric. The answer is
    /// [`Values::External`](crate::Values::External).
    External(ExternalQuery),
}

/// A query for a custom metric of objects of one resource.
///
/// A metric that describes a namespace (`namespaces/shop/metrics/errors`) is a metric of the
/// resource `namespaces`, and its query has no namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CustomQuery {
    /// The resource as the client wrote it: plural or singular, with an optional group.
    pub resource: GroupResource,
    /// The namespace of the objects. It is empty for objects without one.
    pub namespace: String,
    /// One object, or the objects that a selector matches.
    pub objects: Objects,
    /// The name of the metric.
    pub metric: String,
    /// Selects series of the metric (`metricLabelSelector`).
    pub metric_selector: Selector,
}

/// A query for an external metric.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ExternalQuery {
    /// The namespace of the query.
    pub namespace: String,
    /// The name of the metric.
    pub metric: String,
    /// Selects series of the metric.
    pub metric_selector: Selector,
}

/// The objects of a query.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Objects {
    /// One object. An autoscaler accepts exactly one value of its custom metric.
    Named(String),
    /// The objects with these labels. Those without a value are missing in the answer.
    Selected(Selector),
}

/// A term of a field selector, such as `metadata.name!=web-0`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FieldRequirement {
    /// The field of the object that is compared.
    pub field: MetadataField,
    /// `true` for `=`: the field must have the value. `false` for `!=`.
    pub must_equal: bool,
    /// The value that the field must have, or must not have.
    pub value: String,
}

/// A field that a [`FieldRequirement`] can test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MetadataField {
    /// `metadata.name`
    Name,
    /// `metadata.namespace`. It is empty for nodes.
    Namespace,
}

impl FieldRequirement {
    /// Whether an object meets the requirement.
    pub fn matches(&self, object: &ObjectKey) -> bool {
        let actual = match self.field {
            MetadataField::Name => &object.name,
            MetadataField::Namespace => &object.namespace,
        };
        (*actual == self.value) == self.must_equal
    }
}

impl fmt::Display for FieldRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = match self.field {
            MetadataField::Name => "metadata.name",
            MetadataField::Namespace => "metadata.namespace",
        };
        let operator = if self.must_equal { "=" } else { "!=" };
        write!(f, "{field}{operator}{}", self.value)
    }
}

impl Query {
    /// The query for the usage of the selected pods of a namespace.
    pub fn pod_usage(namespace: &str, pods: &Selector) -> Self {
        let (namespace, pods) = (namespace.to_owned(), Objects::Selected(pods.clone()));
        Self::PodUsage { namespace, pods, fields: Box::default() }
    }

    /// The query for a metric of an autoscaler. `pods` selects the pods of the scale target.
    pub async fn for_metric(
        namespace: &str,
        pods: &Selector,
        metric: &MetricQuery,
        kinds: &KindMapper,
    ) -> Result<Self, MetricError> {
        let namespace = namespace.to_owned();
        Ok(match metric {
            MetricQuery::Resource { .. } => Self::pod_usage(&namespace, pods),
            MetricQuery::Pods { metric, metric_selector } => Self::Custom(CustomQuery {
                resource: GroupResource::pods(),
                namespace,
                objects: Objects::Selected(pods.clone()),
                metric: metric.clone(),
                metric_selector: nothing_as_everything(metric_selector),
            }),
            MetricQuery::Object { object, metric, metric_selector } => {
                let (resource, namespace, name) = kinds.locate(namespace, object).await?;
                Self::Custom(CustomQuery {
                    resource,
                    namespace,
                    objects: Objects::Named(name),
                    metric: metric.clone(),
                    metric_selector: nothing_as_everything(metric_selector),
                })
            }
            MetricQuery::External { metric, metric_selector } => Self::External(ExternalQuery {
                namespace,
                metric: metric.clone(),
                metric_selector: nothing_as_everything(metric_selector),
            }),
        })
    }

    /// The API that the query is for.
    pub fn api(&self) -> MetricsApi {
        match self {
            Self::PodUsage { .. } | Self::NodeUsage { .. } => MetricsApi::Resource,
            Self::Custom(_) => MetricsApi::Custom,
            Self::External(_) => MetricsApi::External,
        }
    }

    /// The namespace whose limits apply to the query. For a metric of a named namespace, it is that
    /// namespace. Empty for nodes and for all namespaces.
    pub fn namespace(&self) -> &str {
        match self {
            Self::PodUsage { namespace, .. } => namespace,
            Self::NodeUsage { .. } => "",
            Self::Custom(query) => query.described_namespace().unwrap_or(&query.namespace),
            Self::External(query) => &query.namespace,
        }
    }
}

impl From<CustomQuery> for Query {
    fn from(query: CustomQuery) -> Self {
        Self::Custom(query)
    }
}

impl From<ExternalQuery> for Query {
    fn from(query: ExternalQuery) -> Self {
        Self::External(query)
    }
}

impl CustomQuery {
    /// The query for one object.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { objects: Objects::Named(name.to_owned()), ..self }
    }

    /// The query for the selected objects.
    #[must_use]
    pub fn selected(self, objects: &Selector) -> Self {
        Self { objects: Objects::Selected(objects.clone()), ..self }
    }

    /// Whether the objects are in a namespace.
    pub fn is_namespaced(&self) -> bool {
        !self.namespace.is_empty()
    }

    /// The namespace that the metric describes, if the query names one.
    pub(crate) fn described_namespace(&self) -> Option<&str> {
        match &self.objects {
            Objects::Named(name) if self.resource == GroupResource::namespaces() => Some(name),
            _ => None,
        }
    }
}

/// Converts the selector of a metric to the one that a metrics API applies. For a metric without a
/// selector, the reference has one that matches nothing. It is sent as an empty string, which a
/// metrics API reads as a selector of everything.
fn nothing_as_everything(selector: &Selector) -> Selector {
    if selector.is_nothing() { Selector::everything() } else { selector.clone() }
}

/// Maps kinds to resources, as the discovery of the API server does.
#[async_trait]
pub trait ResourceNames: Send + Sync + 'static {
    /// Returns the resource of a kind. Whether the resource is namespaced doesn't matter: custom
    /// metrics of all objects except Namespaces are requested in the namespace of the autoscaler.
    ///
    /// Conditions contain the text of the error, for example `no matches for kind "K" in group
    /// "G"`.
    async fn resource_for(
        &self,
        group: &str,
        kind: &str,
    ) -> Result<GroupResource, Box<dyn Error + Send + Sync>>;
}

/// [`ResourceNames`] with a time limit.
#[derive(Clone)]
pub struct KindMapper {
    names: Arc<dyn ResourceNames>,
    limit: Duration,
}

impl KindMapper {
    /// Limits each lookup of `names` to `limit`.
    pub fn new(names: Arc<dyn ResourceNames>, limit: Duration) -> Self {
        Self { names, limit }
    }

    /// The resource, the namespace and the name of an object that an autoscaler refers to.
    /// `namespace` is that of the autoscaler.
    async fn locate(
        &self,
        namespace: String,
        object: &CrossVersionObjectReference,
    ) -> Result<(GroupResource, String, String), MetricError> {
        // As in the reference, a Namespace of any name stands for the autoscaler's namespace.
        if object.is_namespace() {
            return Ok((GroupResource::namespaces(), String::new(), namespace));
        }
        let (group, kind) = (object.group(), &*object.kind);
        let limit = self.limit;
        let resource = match timeout(limit, self.names.resource_for(group, kind)).await {
            Ok(resource) => resource,
            Err(_) => Err(format!("{DEADLINE_EXCEEDED}: {NO_RESPONSE_WITHIN}{limit:?}").into()),
        };
        let resource = resource.map_err(|source| {
            let kind =
                if group.is_empty() { kind.into() } else { format!("{kind}.{group}").into() };
            MetricError::UnknownKind { kind, source: source.into() }
        })?;
        Ok((resource, namespace, object.name.clone()))
    }
}

/// The namespace and the name of an object, whose resource is known from the context.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// The namespace. It is empty for objects without one.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl ObjectKey {
    /// The key of an object. `namespace` is empty for an object without one.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}
