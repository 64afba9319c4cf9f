//! Workloads under load, as a model without I/O and without a clock: pods that start, become ready,
//! flap, crash and are evicted; load over time; queues; and metrics as they are measured.
//!
//! The model is used by `hpa-testbed`, which keeps objects of a Kubernetes API consistent with it,
//! and by `hpa-simulate`, which runs it in virtual time without an API. A
//! [`Scenario`](scenario::Scenario) describes what is modelled.
//!
//! A random value is a hash of the seed, of its subject and of the time. A subject is a metric, or
//! the n-th pod of a workload. So the same scenario gives the same values in both.

pub mod load;
pub mod model;
pub mod number;
pub mod profile;
pub mod random;
pub mod rollout;
pub mod scenario;
pub mod seconds;
pub mod series;
pub mod stateful_set;
