//! What test suites share, and the test suites that need more than one crate.
//!
//! - [`harness`]: the controller on a testbed, objects, metrics, virtual time
//! - [`kube_apiserver`]: a real etcd and kube-apiserver

pub mod harness;
pub mod kube_apiserver;
