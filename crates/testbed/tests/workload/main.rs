//! Simulated clusters, as their clients and onlookers see them.

// Not only functions marked as tests are tests here.
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]
#![allow(clippy::float_cmp, reason = "what is exact in a simulation is compared exactly")]

mod clock;
mod incidents;
mod kinds;
mod metrics;
mod queues;
mod replicas;
mod scenarios;
mod support;
mod whole;
