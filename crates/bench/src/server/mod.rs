//! `hpa-bench serve`: the API server that a controller is measured against.
//!
//! The API server is a testbed in this process, a kube-apiserver that this process starts, or a
//! running one. In front of a testbed or a running API server, a [`Proxy`] records the controller's
//! requests. A kube-apiserver that this process started writes them to its audit log. Valid lists
//! of pod metrics don't reach a testbed, because it would scan all pods for each of them.
//!
//! Modules by layer, lowest first: [`recorder`], [`metrics`], [`listener`], [`scaling`],
//! [`cluster`], [`mod@populate`], [`upstream`], [`proxy`], [`namespaces`], and the two servers that
//! have a module of their own: [`kube_apiserver`], [`kubeconfig`].

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
use hpa_testbed::Testbed;
use tokio::signal::unix::{Signal, SignalKind, signal};

use self::{
    cluster::Cluster,
    listener::{bind, serve_http},
    metrics::metrics_testbed,
    populate::populate,
    proxy::{Backend, Proxy},
};
pub(crate) use self::{
    kube_apiserver::start_with_audit_log,
    listener::ProgressTimer,
    recorder::{CompletedRequest, follow_audit_log},
};
use crate::{
    args::{ApiServer, ServeArguments},
    load::Load,
    objects::ObjectApi,
};

/// Populates the server, prints the URL of its statistics, and serves until SIGTERM or SIGINT.
pub(crate) async fn run(arguments: &ServeArguments) -> Result<()> {
    let mut interruption = Interruption::new()?;
    let shutdown = async move { _ = interruption.wait_for_signal().await };
    match &arguments.server {
        ApiServer::Testbed => serve_until(shutdown, serve_testbed(arguments)).await,
        ApiServer::KubeApiserver(assets) => {
            serve_until(shutdown, kube_apiserver::serve(arguments, assets)).await
        }
        // Handles the shutdown itself, because it must delete its objects.
        ApiServer::Kubeconfig(file) => kubeconfig::serve(arguments, file, shutdown).await,
    }
}

/// Serves until `shutdown`. Dropping `serve` stops the programs that it started.
async fn serve_until(
    shutdown: impl Future<Output = ()>,
    serve: impl Future<Output = Result<()>>,
) -> Result<()> {
    tokio::select! {
        served = serve => served,
        () = shutdown => Ok(()),
    }
}

/// Receives the SIGTERM and SIGINT that arrive after its creation.
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
    pub(crate) async fn wait_for_signal(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "terminated",
            _ = self.interrupt.recv() => "interrupted",
        }
    }

    /// Runs `work`. If a signal arrives, drops `work` and returns an error.
    pub(crate) async fn run_unless_interrupted<T>(
        &mut self,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        tokio::select! {
            result = work => result,
            signal = self.wait_for_signal() => bail!(signal),
        }
    }
}

async fn serve_testbed(arguments: &ServeArguments) -> Result<()> {
    let load = Arc::new(Load::new(&arguments.population));
    let testbed = metrics_testbed(&load);
    let object_api = ObjectApi::Testbed(testbed.clone());
    let cluster = Cluster::new(arguments, object_api, load);
    populate(&cluster).await?;
    let listener = bind().await?;
    fs::write(&arguments.kubeconfig, Testbed::kubeconfig(listener.local_addr()?))
        .with_context(|| format!("cannot write {}", arguments.kubeconfig.display()))?;
    serve_http(listener, Proxy { backend: Backend::Testbed(testbed), cluster }.router()).await
}
