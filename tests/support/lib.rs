//! The library of the test suites.
//!
//! - [`harness`]: the controller on a testbed, objects, metrics, virtual time
//! - [`kube_apiserver`]: a real etcd and kube-apiserver
//! - [`programs`]: what a test does without its program

pub mod harness;
pub mod kube_apiserver;
pub mod programs;
