//! A client of the three Kubernetes metrics APIs, for a controller with many autoscalers.
//!
//! ```text
//! MetricQuery, namespace, pod selector
//!      │  MetricsClient::read
//!      ▼
//! Coalescing          reuses responses, joins requests in flight, shares lists of a namespace
//!      │  Request
//!      ▼  MetricsSource::fetch
//! Isolating           limits concurrency by API and namespace, detects an API that hangs
//!      │
//!      ▼  MetricsSource::fetch
//! KubeMetricsClient   chooses API version and path, limits time and size
//!      │  HTTP GET
//!      ▼
//! kube::Client ──▶ /apis/{metrics,custom.metrics,external.metrics}.k8s.io
//!      │  JSON
//!      ▼  wire::decode_list
//! Items ──▶ wire::{resource_samples, pod_samples, object_value, external_values} ──▶ Reading
//! ```
//!
//! - [`MetricsClient`] answers one query of an autoscaler with a reading. [`Coalescing`] implements
//!   it with a source.
//! - [`MetricsSource`] sends one request and returns the items of one list. [`KubeMetricsClient`]
//!   implements it for an API server. Implement it for other sources of metrics, or to observe
//!   requests.
//! - [`Isolating`] keeps an API that hangs from affecting others. It is optional.
//! - [`wire`] has the types of the items, and pure functions from items to readings. It needs no
//!   cluster.
//!
//! Query and reading types come from [`hpa_calc::readings`]: a controller passes the queries of a
//! [`Plan`](hpa_calc::plan::Plan) to [`MetricsClient::read`], and the readings to
//! [`decide`](hpa_calc::decide).
//!
//! Nothing is retried, because the controller reads the metrics again in the next sync period.
//! Paths, parameters, error texts and the reduction of items match the reference controller
//! (`podautoscaler/metrics` in kube-controller-manager, and the clients in `k8s.io/metrics`).
//!
//! # Example
//!
//! ```no_run
//! use std::{error::Error, sync::Arc, time::Duration};
//!
//! use hpa_calc::{api::ResourceName, readings::MetricQuery, selector::Selector};
//! use hpa_metrics::{
//!     ClientSettings, Coalescing, CoalescingSettings, KubeMetricsClient, MetricsClient,
//!     ResourceNames,
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
//!     ) -> Result<String, Box<dyn Error + Send + Sync>> {
//!         match (group, kind) {
//!             ("networking.k8s.io", "Ingress") => Ok("ingresses.networking.k8s.io".to_owned()),
//!             _ => Err(format!("no matches for kind {kind:?} in group {group:?}").into()),
//!         }
//!     }
//! }
//!
//! # async fn example() -> Result<(), Box<dyn Error>> {
//! let kube = kube::Client::try_default().await?;
//! let source = KubeMetricsClient::new(kube, Arc::new(Names), ClientSettings::default());
//! let settings = CoalescingSettings::for_sync_period(Duration::from_secs(15));
//! let client = Coalescing::new(source, settings);
//!
//! let query = MetricQuery::Resource { resource: ResourceName::Cpu, container: None };
//! let reading = client.read("shop", &Selector::parse("app=web")?, &query).await?;
//! # Ok(())
//! # }
//! ```

#![warn(missing_docs)]

mod client;
mod coalesce;
mod error;
mod isolate;
mod kube_client;
pub mod provider;
pub mod resource;
mod source;
pub mod wire;

#[cfg(test)]
mod test_doubles;

pub use client::{MetricsClient, read_all};
pub use coalesce::{Coalescing, CoalescingSettings};
pub use error::{FetchError, describe};
pub use isolate::{Isolating, IsolationSettings};
pub use kube_client::{
    ClientSettings, KubeMetricsClient, ResourceNames, generic_message, percent_encode,
};
pub use source::{Items, MetricsSource, ObjectReference, Request};
