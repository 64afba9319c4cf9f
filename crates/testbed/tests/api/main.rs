//! Tests of the server through its API.

// The lint exceptions for tests don't cover helper functions.
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

mod autoscalers;
mod discovery;
mod faults_responses;
mod faults_serialized;
mod faults_triggers;
mod faults_watches;
mod fields;
mod http;
mod interceptors;
mod lists;
mod metrics;
mod objects;
mod patches;
mod protobuf;
mod restarts;
mod scales;
mod support;
mod tables;
mod watches;
