//! Collects the metrics that annotations of autoscalers describe, as kube-metrics-adapter does.
//!
//! ```text
//! controller, adapter ──► collection ──► registry ──► collectors ──► guarded_http, Prometheus
//!                             │                           │
//!                             └► annotations, config      └► collector (trait, context, values)
//! ```
//!
//! [`collection::CollectedMetrics`] watches autoscalers and reads metrics on request. The table
//! [`registry::COLLECTORS`] has the [`registry::Collector`] of each metric. A collector is one file
//! in `collectors`: it parses the settings of a metric, lists its servers, and reads values.
//!
//! Tenants write the settings, but the operator's process sends the requests. Therefore,
//! `guarded_http` checks the addresses of tenants' URLs and of pods, [`jsonpath`] evaluates
//! expressions within a budget, and errors don't reveal the data in responses.
//!
//! [`schedules`] computes the values of `ScalingSchedule` objects.
//!
//! # Compatibility
//!
//! If kube-metrics-adapter reports the same configuration error, the message is the same.
//! [`Compat`] selects whether defects of kube-metrics-adapter are reproduced. By default they
//! aren't: an invalid annotation disables only its metric, weights must be finite, and missing or
//! too large values are errors.

pub mod annotations;
mod clients;
mod cluster;
pub mod collection;
mod collector;
mod collectors;
pub mod config;
mod document;
mod error;
mod findings;
mod guarded_http;
pub mod jsonpath;
mod object_watch;
pub mod registry;
pub mod schedules;
mod settings;
#[cfg(test)]
mod tests;

pub use crate::{
    clients::Clients,
    cluster::{Cluster, Ingress, LookupError, Pod, RouteGroup},
    collector::{Context, Environment, Sample, Server, Values},
    config::{MetricConfig, metric_configs},
    error::{AnnotationProblem, ConfigError, FetchError, HttpError},
    findings::{
        CollectorSource, Finding, FindingSubject, collector_of, findings, prometheus_query,
        source_of,
    },
    guarded_http::{Destination, HttpRequest, Policy, Refusal, Reply},
    registry::CollectorPlan,
    schedules::Compat,
    settings::{Credential, Limits, Secret, ServiceSettings, Settings, SettingsError},
};
