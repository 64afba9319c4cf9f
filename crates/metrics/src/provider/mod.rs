//! Where the metrics of the three Kubernetes metrics APIs come from.
//!
//! A [`Provider`] answers requests for custom, external and resource metrics. An aggregated API
//! server and the controller use the same trait, so a metric has the same values for both.
//!
//! - [`request`] and [`value`] have the types of requests and answers.
//! - [`error`] says why there is no answer. Each error carries the reason, and determines the
//!   status with which prometheus-adapter ("the reference" here) answers.
//! - [`objects`] is the interface to the objects of the cluster, and [`KubeObjects`] implements it.
//! - [`PrometheusProvider`] reads metrics from Prometheus, by the rules of the reference.
//! - [`Collection`] collects the metrics that annotations of autoscalers ask for.
//! - [`Schedules`] has the values of scaling schedules, and [`RoutedProvider`] joins providers.
//! - [`ProviderSource`] makes a provider the controller's source of metrics.

#![warn(missing_docs)]

pub mod error;
pub mod interface;
pub mod kube_objects;
pub mod mapper;
pub mod objects;
pub mod request;
pub mod routed;
pub mod source;
#[cfg(any(test, feature = "test-doubles"))]
pub mod test_doubles;
pub mod value;

pub use error::{NotFound, ProviderError};
pub use interface::{ApiGroups, Provider};
pub use kube_objects::KubeObjects;
pub use mapper::{DiscoveryMapper, FixedMapper, ResourceMapper};
pub use objects::{ListError, ObjectLister, ObjectMetadata};
pub use request::{CustomRequest, ExternalRequest, ObjectKey};
pub use routed::RoutedProvider;
pub use source::ProviderSource;
