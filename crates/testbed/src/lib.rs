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
//! a Deployment gets no pods unless a [`workload::Simulation`] runs.
//!
//! Metrics come from a [`MetricsProvider`], faults from [`Faults`] or another [`Interceptor`]. A server can be stopped
//! and started again with an older state or none ([`Testbed::restart`]), and its clock can go wrong ([`SkewedClock`]).

#![allow(missing_docs, reason = "no other project embeds the testbed")]

mod config;
mod discovery;
mod error;
mod fault_injection;
mod faults;
mod gate;
mod json;
mod kubeconfig;
mod metrics_api;
mod metrics_provider;
mod names;
mod objects;
mod output;
mod patch;
mod registry;
mod request;
mod response;
mod rest;
mod restart;
mod router;
mod selection;
mod server;
mod service;
mod state;
mod store;
mod table;
mod target;
mod testbed;
pub mod workload;

pub use self::{
    config::Config,
    error::{ApiError, Disconnected},
    faults::{
        Action, Active, Effect, Fault, FaultId, Faults, Interceptor, InvalidFault, Match,
        SkewedClock, Trigger,
    },
    gate::{Gate, Release},
    metrics_provider::{
        CustomMetric, CustomMetricQuery, ExternalMetric, ExternalMetricQuery, MetricsProvider,
        PodMetrics, PodMetricsQuery,
    },
    request::RequestInfo,
    restart::{Restart, Snapshot},
    service::{ServerHandle, Service},
    store::{ChangeListener, ResourceName},
    testbed::Testbed,
};
