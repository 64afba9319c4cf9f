//! One reconcile against a stub API server: checks the writes and their resource versions.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::struct_excessive_bools,
    reason = "test stubs: a wrong request fails the test"
)]

mod annotations;
mod custom_api;
mod deleted_hpa;
mod dry_run;
mod fixture;
mod log_lines;
mod scale_writes;
mod server;
mod status_writes;
