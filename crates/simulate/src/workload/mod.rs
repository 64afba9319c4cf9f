//! A model of workloads under load, without I/O and without a clock: pods that start, become ready,
//! flap, crash and are evicted; load over time; queues; and metrics with measurement errors.
//!
//! The rest of this crate runs the model in virtual time without an API. `hpa-testbed` keeps the
//! objects of a Kubernetes API consistent with it. A [`Scenario`](scenario::Scenario) describes a
//! simulation.
//!
//! A random value depends only on the seed, on its subject, and on the time or a counter. A subject
//! is, for example, a metric or the n-th pod of a workload. The same scenario therefore has the
//! same values in both crates.

pub(crate) mod field;
pub mod load;
pub mod model;
pub mod number;
pub mod profile;
pub mod random;
pub mod rollout;
pub mod samples_file;
pub mod scenario;
pub mod seconds;
pub mod series;
pub mod stateful_set;
