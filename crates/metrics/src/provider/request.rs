//! Requests for metrics.

use std::fmt;

use crate::resource::GroupResource;
use hpa_calc::Selector;

/// A request for a custom metric of one or several objects of a resource.
///
/// A metric that describes a namespace (`namespaces/shop/metrics/errors`) is a metric of the
/// resource `namespaces`, and its request has no namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomRequest {
    /// The resource as the client wrote it: plural or singular, with an optional group.
    pub resource: GroupResource,
    /// The namespace of the objects. It is empty for objects without one.
    pub namespace: String,
    /// The name of the metric.
    pub metric: String,
    /// Selects series of the metric (`metricLabelSelector`).
    pub metric_selector: Selector,
}

impl CustomRequest {
    /// Whether the objects are in a namespace.
    pub fn is_namespaced(&self) -> bool {
        !self.namespace.is_empty()
    }
}

/// A request for an external metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalRequest {
    /// The namespace of the request.
    pub namespace: String,
    /// The name of the metric.
    pub metric: String,
    /// Selects series of the metric.
    pub metric_selector: Selector,
}

/// Names an object of a known resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// The namespace. It is empty for objects without one.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl ObjectKey {
    /// An object in a namespace, or without one if it is empty.
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
