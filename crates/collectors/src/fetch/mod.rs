//! Reads values from pods, HTTP endpoints, Prometheus, `InfluxDB`, SQS, ZMON and Nakadi, as the
//! plans of `hpa-collectors` say. The collectors are those of kube-metrics-adapter ("the reference"
//! here).
//!
//! [`Fetchers::fetch`] reads once. It has no cache, no background task, and no retries other than
//! those of a collector's protocol. It reads objects through a [`Cluster`].
//!
//! # Limits
//!
//! A tenant writes URLs, queries and expressions; the connections come from the operator's pod.
//!
//! - All connections are opened in `http`, which resolves a name once, checks the addresses against
//!   the [`Policy`], and connects to a checked address. Redirects are checked in the same way.
//! - A connection serves one request and is closed. [`Limits`] bounds their number, and the bytes
//!   and time of each request.
//! - URLs of tenants get credentials only if the operator has set some for their origin.
//! - Errors name hosts and status codes, but no content of a response, because tenants see them.

#![warn(missing_docs)]

mod cluster;
mod error;
mod fetchers;
mod http;
mod influx;
mod json;
#[cfg(feature = "nakadi")]
mod nakadi;
mod pods;
mod prometheus;
mod read;
mod settings;
#[cfg(feature = "sqs")]
mod sqs;
#[cfg(feature = "zmon")]
mod zmon;

#[cfg(test)]
mod tests;

pub use crate::destination::{Policy, Refusal};
pub use cluster::{Cluster, Ingress, LookupError, Pod, RouteGroup};
pub use error::{FetchError, HttpError};
pub use fetchers::{Context, Fetched, Fetchers, PodFailure, Sample};
#[cfg(any(feature = "zmon", feature = "nakadi"))]
pub use settings::ServiceSettings;
pub use settings::{Credential, InfluxSettings, Limits, Secret, Settings, SettingsError};
