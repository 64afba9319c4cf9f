//! A Kubernetes API server in memory, with what a HorizontalPodAutoscaler controller touches, for tests and
//! demonstrations.
//!
//! It is reached without a socket by [`Testbed::client`], over HTTP after [`Testbed::serve`], and directly by
//! [`Testbed::apply`] and [`Testbed::get`]:
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
//! Versions, conflicts, generations, watches, patches, subresources, discovery, tables and errors are as those of a
//! real server. There is no authentication, no admission but of autoscalers, no garbage collection, and no controller:
//! a Deployment gets no pods.
//!
//! Metrics come from a [`MetricsProvider`], faults from an [`Interceptor`].

mod config;
mod discovery;
mod error;
mod interceptor;
mod json;
mod kubeconfig;
mod metrics;
mod names;
mod patch;
mod registry;
mod render;
mod request;
mod rest;
mod selection;
mod server;
mod store;
mod table;
mod testbed;

pub use self::{
    config::Config,
    error::ApiError,
    interceptor::{Action, Interceptor},
    metrics::{
        CustomMetric, CustomMetricQuery, ExternalMetric, ExternalMetricQuery, MetricsProvider, PodMetrics,
        PodMetricsQuery,
    },
    request::RequestInfo,
    store::{ChangeListener, ResourceName},
    testbed::{ServerHandle, Service, Testbed},
};
