//! The library of the test suites.
//!
//! - [`harness`]: the controller on a testbed, objects, metrics, virtual time
//! - [`helm`]: the binaries of helm
//! - [`kube_apiserver`]: a real etcd and kube-apiserver
//! - [`programs`]: reports tests as skipped if a program is missing
//! - [`report`]: the results of a suite that is its own test runner

pub mod harness;
pub mod helm;
pub mod kube_apiserver;
pub mod programs;
pub mod report;

use std::{
    env,
    path::{Path, PathBuf},
};

/// Path of a file or directory of the repository.
pub fn repository_path(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// Path of a program in `PATH`. `None` if there is no such file.
pub fn find_in_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file())
}
