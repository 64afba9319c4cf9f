//! Starts an etcd and a kube-apiserver on loopback ports, for tests and measurements.
//!
//! [`assets::find`] locates the binaries, [`KubeApiserver::start`] runs them with their own
//! certificates, and [`KubeApiserver::aggregate`] registers an [`HttpsServer`] of this process as
//! an aggregated API. Everything ends when its handle is dropped, and the programs also end if this
//! process is killed.

mod apiserver;
pub mod assets;
mod https;
mod pki;
mod process;

pub use self::{
    apiserver::{ADMIN, KubeApiserver, Options},
    https::HttpsServer,
    process::{OnParentExit, Process, free_ports},
};
