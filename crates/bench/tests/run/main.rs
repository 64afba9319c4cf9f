//! `hpa-bench run` on a small cluster.

#![allow(
    clippy::expect_used,
    clippy::float_cmp,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failed setup fails the test"
)]

mod failures;
mod harness;
mod numbers;
mod prometheus;
mod running_server;
