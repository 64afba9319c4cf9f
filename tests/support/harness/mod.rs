//! Shared test support: the controller on a testbed, objects, metrics, virtual time.
//!
//! ```no_run
//! # async fn example() {
//! use std::sync::Arc;
//!
//! use hpa_controller::Dependencies;
//! use hpa_tests::harness::{
//!     RunningController, SettableMetrics, TestbedExt, clients, controller_options, objects,
//! };
//! use hpa_testbed::{Config, Testbed};
//!
//! let metrics = Arc::new(SettableMetrics::default());
//! let testbed = Testbed::new(Config { metrics: Some(metrics), ..Config::default() });
//! testbed.apply_all([
//!     objects::namespace(),
//!     objects::running_deployment("web", 2),
//!     objects::hpa("web", 1..=4, [objects::external_metric("load", "1")]),
//! ]);
//! let dependencies = Dependencies::new(clients(testbed.client()), &controller_options());
//! let controller = RunningController::start(dependencies, controller_options());
//! assert_eq!(testbed.replicas("web"), 2);
//! controller.stop().await;
//! # }
//! ```
//!
//! Functions that don't return a `Result` panic on failure, which fails the calling test.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    clippy::panic,
    reason = "test support: a failed step fails the test"
)]

use std::time::Duration;

mod binary;
mod clock;
mod controller;
mod http;
mod metrics;
pub mod objects;
mod testbed;

pub use self::{
    binary::{command_without_hpa_variables, hpa_binary},
    clock::{ControllerClock, VirtualClock},
    controller::{RunningController, clients, controller_options, election},
    http::{REQUEST_RULES, http_get, prometheus_success, serve},
    metrics::{SettableMetrics, pod_metrics},
    testbed::{ServedTestbed, TestbedExt},
};

/// Whether `HPA_LONG_TESTS` enables long tests: more random seeds, longer runs, and tests that take
/// minutes. A job of CI sets the variable.
pub fn are_long_tests_enabled() -> bool {
    std::env::var_os("HPA_LONG_TESTS").is_some_and(|value| !value.is_empty() && value != "0")
}

/// Timeout of waits, more than ten times the expected duration.
const WAIT_TIMEOUT: Duration = Duration::from_secs(100);

/// The namespace of the objects that [`objects`] creates.
pub const NAMESPACE: &str = "shop";
