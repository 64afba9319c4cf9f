//! A client of the three Kubernetes metrics APIs, for a controller with many autoscalers.
//!
//! ```text
//! MetricQuery ─▶ MetricsClient::read ─▶ Reading
//!                    │ Coalescing: is the answer here, on its way, or part of a shared list?
//!                    ▼
//!                MetricsSource ─▶ items of a list (wire)
//!                    │ KubeMetricsClient: which version, which path; deadline, size
//!                    ▼
//!                kube::Client ─▶ /apis/{metrics,custom.metrics,external.metrics}.k8s.io
//! ```
//!
//! - [`wire`]: what the APIs answer, and pure functions from items to readings. Usable without a cluster.
//! - [`MetricsSource`]: one request, one list. [`KubeMetricsClient`] asks an API server.
//! - [`MetricsClient`]: one question of an autoscaler, one reading. [`Coalescing`] answers it from a source, sharing
//!   requests between autoscalers.
//!
//! Nothing here retries: the controller's next sync is the retry. Paths, parameters, error texts and the reduction of
//! items are those of the reference controller (kube-controller-manager's `podautoscaler/metrics` and the clients of
//! `k8s.io/metrics`).

mod client;
mod coalesce;
mod error;
mod server;
mod source;
pub mod wire;

#[cfg(test)]
mod testing;

pub use client::MetricsClient;
pub use coalesce::{Coalescing, CoalescingSettings};
pub use error::{FetchError, describe};
pub use server::{
    ClientSettings, KubeMetricsClient, ResourceNames, generic_message, percent_encode,
};
pub use source::MetricsSource;
