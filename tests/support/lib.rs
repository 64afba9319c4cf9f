//! The library of the test suites.
//!
//! - [`harness`]: the controller on a testbed, objects, metrics, virtual time
//! - [`kube_apiserver`]: a real etcd and kube-apiserver
//! - [`programs`]: reports tests as skipped if a program is missing

pub mod harness;
pub mod kube_apiserver;
pub mod programs;

use std::path::{Path, PathBuf};

/// Path of a file or directory of the repository.
pub fn repository_path(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}
