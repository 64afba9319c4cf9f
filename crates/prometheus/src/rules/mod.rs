//! The rules of prometheus-adapter ("the reference" here): which Kubernetes metrics Prometheus has,
//! and which queries read them. Pure functions, without I/O, clock or async runtime.
//!
//! ```text
//!  rules file ──► Config::parse ──► RuleSet::compile ◄── ApiResources (discovery)
//!                                        │
//!  series of each rule ──► RuleSeries ──►│
//!                                        ▼
//!                              CustomRegistry, ExternalRegistry ──► lists for discovery
//!                                        │ request
//!                                        ▼
//!                                  query (PromQL) ──► (Prometheus)
//!                                                          │ samples
//!                                  values ◄────────────────┘
//! ```
//!
//! The README has an example of all steps.
//!
//! # Compatibility
//!
//! The configuration, naming, templates and regular expressions are those of the reference, with
//! Go's syntax and messages. [`Compat`] selects how harmful details behave: by default a NaN is no
//! value, and a dot in an object's name matches only a dot.

pub mod compat;
pub mod config;
pub mod explain;
pub mod generate;
pub mod labels;
pub mod lint;
pub mod name;
pub mod query;
pub mod registry;
pub mod resource_metrics;
pub mod results;
pub mod rule;
pub mod ruleset;
pub mod series;
pub mod shape;
mod texts;
pub mod value;

pub use compat::Compat;
pub use config::{Config, ConfigError};
pub use registry::{CustomRegistry, ExternalRegistry};
pub use rule::Rule;
pub use ruleset::RuleSet;
pub use series::{RuleSeries, Series};
pub use shape::NotPerObject;

/// Tests the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
