//! An in-memory Kubernetes API server for tests and demonstrations of a HorizontalPodAutoscaler
//! controller. It serves the resources and metrics APIs that such a controller uses.
//!
//! Clients call it without a socket ([`Testbed::client`]) or over HTTP ([`Testbed::serve`]). Tests
//! access the stored objects directly ([`Testbed::apply`], [`Testbed::get`]):
//!
//! ```
//! # use serde_json::json;
//! use hpa_testbed::{Config, Testbed};
//!
//! let testbed = Testbed::new(Config::default());
//! let stored = testbed.apply(json!({
//!     "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
//!     "spec": { "replicas": 3, "selector": { "matchLabels": { "app": "web" } } },
//! }))?;
//! assert_eq!(stored["metadata"]["generation"], 1);
//! assert!(testbed.get("apps/v1", "Deployment", "default", "web").is_some());
//! # Ok::<(), hpa_testbed::ApiError>(())
//! ```
//!
//! Resource versions, conflicts, generations, watches, patches, subresources, discovery, tables
//! and errors behave as in kube-apiserver. There is no authentication and no garbage collection.
//! Admission is limited to validation and defaults of some kinds. No controllers run: a Deployment
//! gets pods only from a [`workload::Simulation`].
//!
//! Metrics come from a [`MetricsProvider`], faults from [`Faults`] or another [`Interceptor`]. The
//! server can restart with an older or empty state ([`Testbed::restart`]), and its clock can be
//! skewed ([`Config::clock`]).
//!
//! # Path of a request
//!
//! ```text
//! service          HTTP or tower; asks the interceptor for the faults of a request
//!   fault_injection    delays, replaces or corrupts the response
//!     router           by path
//!       discovery          groups, versions, resources, OpenAPI, health
//!       metrics_api        queries the MetricsProvider
//!       rest               lists, watches, reads, writes
//!         output               full objects, metadata, tables
//!         patch                the four patch formats
//!         objects              validation, defaults, generations, deletion
//!           registry             resources: built-in and from CRDs
//!           store                objects, resource versions, watch cache
//!         schema               fields of the kinds: JSON, protobuf, field validation, OpenAPI
//!         autoscaler_v1        converts autoscalers to and from autoscaling/v1
//! ```
//!
//! Each module in this list imports only modules below it.

mod autoscaler_v1;
pub mod clock;
mod config;
#[cfg(feature = "decoder-tests")]
pub mod decoder_tests;
mod discovery;
mod error;
mod fault_injection;
mod faults;
mod json_fields;
mod metrics_api;
mod metrics_provider;
mod objects;
mod output;
mod patch;
mod registry;
mod request;
mod request_target;
mod response;
mod rest;
mod router;
mod schema;
mod selection;
mod server;
mod service;
mod store;
mod table;
mod testbed;
pub mod workload;

pub use self::{
    config::Config,
    error::{ApiError, Disconnected, name_with_group},
    faults::{
        Action, ActiveFault, Effect, Fault, FaultId, Faults, Gate, Interceptor, InvalidFault,
        Match, Release,
    },
    metrics_provider::{
        CustomMetric, CustomMetricQuery, ExternalMetric, ExternalMetricQuery, MetricsProvider,
        PodMetrics, PodMetricsQuery,
    },
    request::RequestInfo,
    server::{Restart, Snapshot},
    service::{ServerHandle, Service},
    store::{ChangeListener, GroupResource, ObjectChange},
    testbed::Testbed,
};
