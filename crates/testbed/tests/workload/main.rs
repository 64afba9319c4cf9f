//! Tests of simulated clusters, through the API and the observations.

// The lint exceptions for tests don't cover helper functions.
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]
#![allow(clippy::float_cmp, reason = "the compared values are exact")]

mod clock;
mod determinism;
mod exposition;
mod incidents;
mod kinds;
mod metrics;
mod queues;
mod replicas;
mod scenarios;
mod support;
