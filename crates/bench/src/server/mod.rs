//! `hpa-bench serve`: the API server that a controller is measured against.
//!
//! Modules by layer, lowest first: [`recorder`], [`metrics`], [`apiserver_stats`], [`pods`],
//! [`cluster`], [`audit`], [`progress`], [`populate`], [`upstream`], [`proxy`], [`listener`],
//! [`namespaces`], and one for each kind of server: [`testbed`], [`kube_apiserver`],
//! [`kubeconfig`].

mod apiserver_stats;
mod audit;
mod cluster;
mod kube_apiserver;
mod kubeconfig;
mod listener;
mod metrics;
mod namespaces;
mod pods;
mod populate;
mod progress;
mod proxy;
mod recorder;
mod testbed;
mod upstream;

pub(crate) use self::{
    audit::{Completed, follow as follow_audit_log, policy},
    kube_apiserver::DISABLED_ADMISSION,
};

use std::future::Future;

use anyhow::Result;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::{ApiServer, ServeArguments};

/// Populates the server, prints the address of its statistics, and serves until SIGTERM or SIGINT.
pub(crate) async fn run(arguments: &ServeArguments) -> Result<()> {
    let shutdown = shutdown_signal()?;
    match &arguments.server {
        ApiServer::Testbed => until(shutdown, testbed::serve(arguments)).await,
        ApiServer::KubeApiserver(assets) => {
            until(shutdown, kube_apiserver::serve(arguments, assets)).await
        }
        // Cleans up after the signal.
        ApiServer::Kubeconfig(file) => kubeconfig::serve(arguments, file, shutdown).await,
    }
}

/// Serves until `shutdown`. Dropping `serve` ends the programs that it started.
async fn until(
    shutdown: impl Future<Output = ()>,
    serve: impl Future<Output = Result<()>>,
) -> Result<()> {
    tokio::select! {
        served = serve => served,
        () = shutdown => Ok(()),
    }
}

/// Completes at the first SIGTERM or SIGINT after this call.
fn shutdown_signal() -> Result<impl Future<Output = ()>> {
    let (mut terminate, mut interrupt) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
