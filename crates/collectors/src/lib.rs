//! What autoscalers ask to be collected, in the annotations and selectors of kube-metrics-adapter
//! ("the reference" here). Pure functions, without I/O, clock or async runtime.
//!
//! ```text
//!  annotations, metrics ──► MetricConfig ──► Plan ──► (fetcher)
//!                                              │
//!  hosts and weights of Ingress, RouteGroup ──►│ promql ──► query ──► (Prometheus) ──► value
//!                                                                                  │
//!                                                              reads ◄──── Store ◄─┘
//! ```
//!
//! # Compatibility
//!
//! Errors have the texts of the reference. [`Compat`] selects how defects behave: by default, an
//! invalid annotation disables its metric only, weights must be finite, and a value that can't be
//! represented is an error.

#![warn(missing_docs)]

pub mod annotations;
pub mod collection;
pub mod config;
pub mod destination;
pub mod error;
pub mod fetch;
pub mod jsonpath;
pub mod plan;
pub mod promql;
pub mod schedules;
pub mod store;

pub use crate::schedules::Compat;
pub use config::{MetricConfig, metric_configs};
pub use error::{AnnotationProblem, PlanError};
pub use plan::{Environment, Plan};
