//! Reads metrics for autoscalers: from the three Kubernetes metrics APIs, or from any other source.
//!
//! There is one trait, [`MetricSource`], with one query, one set of values and one error.
//! [`KubeMetricsClient`] implements it for the metrics APIs. Rules for Prometheus, collectors and
//! schedules implement it in crates of their own. The decorators [`Isolating`], [`Routed`] and
//! [`Fallback`] also implement the trait. A controller reads schedules directly, because their
//! values must be current, and all other metrics through the layers below. An aggregated API server
//! reads only through [`Routed`].
//!
//! ```text
//! controller (reconcile)                       aggregated API server
//!   │ MetricQuery, namespace, pod selector       │ HTTP request
//!   ▼                                            │
//! client       MetricsClient::read               │
//!   ▼                                            │
//! query        MetricQuery ──▶ Query             │ Query
//!   ▼                                            │
//! coalesce     Coalescing: joins equal queries,  │
//!   │          reuses values, shares the list    │
//!   │          of a namespace                    │
//!   ▼                                            │
//! routed       Fallback: sources in the process  │
//!   │          first, then the cluster           │
//!   ├──▶ isolate ──▶ Routed: the first that ◀────┘
//!   │                has the metric
//!   │                  ├──▶ schedules
//!   │                  ├──▶ collectors
//!   │                  └──▶ rules ──▶ PromQL ──▶ Prometheus
//!   └──▶ isolate ──▶ kube_client: KubeMetricsClient: API version, path, limits of time and size
//!                      └──▶ /apis/{metrics,custom.metrics,external.metrics}.k8s.io
//!                             └──▶ wire::decode_list
//!
//! Values or MetricError, the same way back
//!   └──▶ wire::{resource_samples, pod_samples, object_value, external_values} ──▶ Reading
//! ```
//!
//! `isolate` ([`Isolating`]) limits the concurrency by API and namespace, and detects an API that
//! hangs. `rules` is the module `source` of `hpa-prometheus`.
//!
//! - [`source`] has the trait and its [`Catalog`], which lists the metrics of a source without I/O,
//!   for routing and discovery.
//! - [`query`] has [`Query`], and builds it from a metric of an autoscaler. It maps kinds to
//!   resources ([`KindMapper`]), so sources get resources only.
//! - [`values`] has [`Values`], the answer to a query. Its items are types of [`wire`], the module
//!   that decodes responses of the metrics APIs. Quantities are in milli-units, the precision in
//!   which the reference controller calculates.
//! - [`MetricError`] is the reason of a failed query. [`describe`] formats it for conditions and
//!   logs.
//! - [`objects`] is the interface to the objects of the cluster that sources select from, and
//!   [`KubeObjects`] implements it. It reads each object as a [`StoredObject`], and watches with
//!   [`watch_events`](watch_events()). [`mapper`] loads the [`resource`]s from the API server's
//!   discovery.
//!
//! Query and reading types of autoscalers come from [`hpa_calc::readings`]: a controller passes the
//! queries of a [`Plan`](hpa_calc::plan::Plan) to [`MetricsClient::read`], and the readings to
//! [`decide`](hpa_calc::decide).
//!
//! This crate retries no request for metrics, because the controller reads the metrics again in the
//! next sync period. Paths, parameters and the reduction of items are those of the reference
//! controller (`podautoscaler/metrics` in kube-controller-manager, and the clients in
//! `k8s.io/metrics`). So are the texts of errors that it also reports.
//!
//! # Example
//!
//! ```no_run
//! use std::{error::Error, sync::Arc, time::Duration};
//!
//! use hpa_calc::{api::ResourceName, readings::MetricQuery, selector::Selector};
//! use hpa_metrics::{
//!     ClientSettings, Coalescing, CoalescingSettings, KindMapper, KubeMetricsClient,
//!     MetricsClient, ResourceNames, resource::GroupResource,
//! };
//!
//! /// Maps the kinds whose metrics are read to their resources.
//! struct Names;
//!
//! #[async_trait::async_trait]
//! impl ResourceNames for Names {
//!     async fn resource_for(
//!         &self,
//!         group: &str,
//!         kind: &str,
//!     ) -> Result<GroupResource, Box<dyn Error + Send + Sync>> {
//!         match (group, kind) {
//!             ("networking.k8s.io", "Ingress") => Ok(GroupResource::new(group, "ingresses")),
//!             _ => Err(format!("no matches for kind {kind:?} in group {group:?}").into()),
//!         }
//!     }
//! }
//!
//! # async fn example() -> Result<(), Box<dyn Error>> {
//! let kube = kube::Client::try_default().await?;
//! let source = KubeMetricsClient::new(kube, ClientSettings::default());
//! let kinds = KindMapper::new(Arc::new(Names), Duration::from_secs(10));
//! let settings = CoalescingSettings::for_sync_period(Duration::from_secs(15));
//! let client = Coalescing::new(source, kinds, settings);
//!
//! let query = MetricQuery::Resource { resource: ResourceName::Cpu, container: None };
//! let reading = client.read("shop", &Selector::parse("app=web")?, &query).await?;
//! # Ok(())
//! # }
//! ```

#![warn(missing_docs)]

mod client;
mod coalesce;
mod decode;
mod error;
mod isolate;
mod kube_client;
mod kube_objects;
mod label_limit_log;
mod log_interval;
pub mod mapper;
pub mod objects;
pub mod query;
pub mod resource;
mod routed;
pub mod source;
pub mod stored_object;
mod sync_state;
pub mod values;
mod watch_events;
pub mod wire;

#[cfg(any(test, feature = "test-doubles"))]
pub mod test_doubles;
#[cfg(test)]
mod test_support;

pub use client::{MetricsClient, read_all};
pub use coalesce::{Coalescing, CoalescingSettings, SingleFlight};
pub use decode::{DecodeError, decode_json, decode_value, null_as_default};
pub use error::{
    MetricError, NotFound, TlsSettingNames, connection_cause, describe, innermost,
    is_client_certificate_refused, is_connection_failure, url_origin, with_causes,
};
pub use isolate::{FairPermit, FairSemaphore, Isolating, IsolationSettings, KeyedSemaphores};
pub use kube_client::{ClientSettings, KubeMetricsClient, generic_message, percent_encode};
pub use kube_objects::KubeObjects;
pub use label_limit_log::{LABEL_LIMIT_LOG, LabelLimitLog};
pub use log_interval::{LogLimit, mark_logged_if_due};
pub use mapper::{DiscoveryMapper, FixedMapper, ResourceMapper};
pub use objects::{ListError, ObjectLister, ObjectMetadata};
pub use query::{
    CustomQuery, ExternalQuery, FieldRequirement, KindMapper, ObjectKey, Objects, Query,
    ResourceNames,
};
pub use routed::{Fallback, Routed};
pub use source::{ApiGroups, Catalog, MetricSource};
pub use stored_object::StoredObject;
pub use sync_state::SyncState;
pub use values::{CustomValues, ExternalValues, ObjectKind, Origin, UsageList, Values};
pub use watch_events::{is_within_list, watch_events};
