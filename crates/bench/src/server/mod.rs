//! `hpa-bench serve`: the API server that a controller is measured against.
//!
//! The testbed runs in this process. A kube-apiserver is started by this process, or runs already.
//! A [`Proxy`] in front of the testbed or of a running kube-apiserver records the controller's
//! requests. With a kube-apiserver that this process started, they are read from the audit log.
//! Lists of pod metrics never reach the testbed, which would scan all pods for each one.
//!
//! Modules by layer, lowest first: [`recorder`], [`metrics`], [`listener`], [`scaling`],
//! [`cluster`], [`mod@populate`], [`upstream`], [`proxy`], [`namespaces`], and two kinds of servers:
//! [`kube_apiserver`], [`kubeconfig`].

mod cluster;
mod kube_apiserver;
mod kubeconfig;
mod listener;
mod metrics;
mod namespaces;
mod populate;
mod proxy;
mod recorder;
mod scaling;
mod upstream;

use std::{fs, future::Future, sync::Arc};

use anyhow::{Context as _, Result, bail};
use hpa_testbed::{Config, Testbed};
use tokio::signal::unix::{Signal, SignalKind, signal};

use self::{
    cluster::{Cluster, Processes},
    listener::{bind, serve_http},
    populate::populate,
    proxy::{Backend, Proxy},
};
pub(crate) use self::{
    kube_apiserver::DISABLED_ADMISSION,
    recorder::{CompletedRequest, follow, policy},
};
use crate::{
    args::{ApiServer, ServeArguments},
    load::Load,
    objects::ObjectStore,
};

/// Populates the server, prints the address of its statistics, and serves until SIGTERM or SIGINT.
pub(crate) async fn run(arguments: &ServeArguments) -> Result<()> {
    let mut interruption = Interruption::new()?;
    let shutdown = async move { _ = interruption.received().await };
    match &arguments.server {
        ApiServer::Testbed => until(shutdown, serve_testbed(arguments)).await,
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

/// Receives SIGTERM and SIGINT from its creation on.
pub(crate) struct Interruption {
    terminate: Signal,
    interrupt: Signal,
}

impl Interruption {
    pub(crate) fn new() -> Result<Self> {
        let (terminate, interrupt) = (SignalKind::terminate(), SignalKind::interrupt());
        Ok(Self { terminate: signal(terminate)?, interrupt: signal(interrupt)? })
    }

    /// Waits for a signal. Returns `terminated` or `interrupted`.
    pub(crate) async fn received(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "terminated",
            _ = self.interrupt.recv() => "interrupted",
        }
    }

    /// Runs `work` to completion, or drops it and returns an error when a signal arrives.
    pub(crate) async fn or<T>(&mut self, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            result = work => result,
            signal = self.received() => bail!(signal),
        }
    }
}

async fn serve_testbed(arguments: &ServeArguments) -> Result<()> {
    let load = Arc::new(Load::new(&arguments.population));
    let testbed =
        Testbed::new(Config { metrics: Some(Arc::<Load>::clone(&load)), ..Config::default() });
    let store = ObjectStore::Testbed(testbed.clone());
    let cluster = Cluster::new(arguments, store, load, Processes::Own);
    populate(&cluster).await?;
    let listener = bind().await?;
    fs::write(&arguments.kubeconfig, Testbed::kubeconfig(listener.local_addr()?))
        .context("cannot write the kubeconfig")?;
    serve_http(listener, Proxy { backend: Backend::Testbed(testbed), cluster }.router()).await
}
