//! Metrics that autoscalers describe in annotations, as kube-metrics-adapter ("the reference" here)
//! defines them.
//!
//! ```text
//! controller, adapter ──► collection ──► registry ──► collectors ──► guarded_http, Prometheus
//!                             │             ▲
//!                             └► annotations, config
//! ```
//!
//! [`collection::Collection`] watches autoscalers and reads a metric when it is asked for. It finds
//! the [`registry::Collector`] of each metric in the table [`registry::COLLECTORS`]. A collector is
//! one file in `collectors`: it parses the settings of a metric, names the servers that it asks, and
//! reads values. Tenants write the settings, and the operator's process connects: `guarded_http`
//! opens all connections and checks every address, [`jsonpath`] evaluates expressions within a
//! budget, and errors have no content of a response.
//!
//! [`schedules`] has the values of `ScalingSchedule` objects.
//!
//! # Compatibility
//!
//! Errors of configurations have the texts of the reference. [`Compat`] selects how defects behave:
//! by default, an invalid annotation disables its metric only, weights must be finite, and a value
//! that is missing or can't be represented is an error.

pub mod annotations;
mod clients;
mod cluster;
pub mod collection;
mod collectors;
pub mod config;
mod document;
mod error;
mod findings;
mod guarded_http;
pub mod jsonpath;
pub mod registry;
pub mod schedules;
mod settings;
mod slots;
#[cfg(test)]
mod tests;

pub use crate::{
    clients::Clients,
    cluster::{Cluster, Ingress, LookupError, Pod, RouteGroup},
    config::{MetricConfig, metric_configs},
    error::{AnnotationError, AnnotationProblem, ConfigError, FetchError, HttpError},
    findings::{Finding, collector_of, findings},
    guarded_http::{Call, Destination, Policy, Refusal, Reply},
    registry::{Context, Environment, Plan, Sample, Values},
    schedules::Compat,
    settings::{Credential, Limits, Secret, ServiceSettings, Settings, SettingsError},
};
