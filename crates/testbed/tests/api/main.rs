//! The server as its clients see it.

// Not only functions marked as tests are tests here.
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

mod autoscalers;
mod discovery;
mod faults;
mod faults_answers;
mod faults_data;
mod faults_http;
mod faults_restarts;
mod faults_watches;
mod faults_when;
mod http;
mod lists;
mod metrics;
mod objects;
mod patches;
mod scales;
mod support;
mod tables;
mod watches;
