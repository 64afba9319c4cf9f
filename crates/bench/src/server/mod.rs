//! `hpa-bench serve`: the API server that a controller is measured against.
//!
//! The testbed runs in this process. A kube-apiserver is started by this process, or runs already.
//! A [`Proxy`] in front of the testbed or of a running kube-apiserver records the controller's
//! requests. With a kube-apiserver that this process started, they are read from the audit log.
//! Lists of pod metrics never reach the testbed, which would scan all pods for each one.
//!
//! Modules by layer, lowest first: [`recorder`], [`metrics`], [`cluster`], [`mod@populate`],
//! [`upstream`], [`namespaces`], and two kinds of servers: [`kube_apiserver`], [`kubeconfig`].

mod cluster;
mod kube_apiserver;
mod kubeconfig;
mod metrics;
mod namespaces;
mod populate;
mod recorder;
mod upstream;

use std::{
    fs,
    future::Future,
    io::Write as _,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use axum::{
    Router,
    extract::{Request, State},
    response::Response,
    serve::ListenerExt as _,
};
use hpa_testbed::{Config, Testbed};
use tokio::{
    net::TcpListener,
    signal::unix::{Signal, SignalKind, signal},
};

use self::{
    cluster::{Cluster, Processes},
    metrics::{count_bytes, respond},
    populate::populate,
    upstream::Upstream,
};
pub(crate) use self::{
    kube_apiserver::DISABLED_ADMISSION,
    recorder::{CompletedRequest, follow, policy},
};
use crate::{
    args::{ApiServer, ServeArguments},
    load::Load,
    objects::ObjectStore,
    request_info::RequestInfo,
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

/// Binds a free port.
async fn bind() -> Result<TcpListener> {
    Ok(TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?)
}

/// Prints the URL, which `hpa-bench run` waits for, and serves.
async fn serve_http(listener: TcpListener, router: Router) -> Result<()> {
    print_progress(&format!("http://{}", listener.local_addr()?))?;
    // As in kube-apiserver: with Nagle's algorithm, a response would wait for the acknowledgement
    // of its first part.
    let listener = listener.tap_io(|connection| _ = connection.set_nodelay(true));
    axum::serve(listener, router).await.context("cannot serve")
}

const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// Prints a line to standard output.
fn print_progress(line: &str) -> Result<()> {
    let mut output = std::io::stdout();
    writeln!(output, "{line}")?;
    Ok(output.flush()?)
}

/// Limits messages about a long operation to one in five seconds.
struct ProgressTimer(Instant);

impl ProgressTimer {
    fn new() -> Self {
        Self(Instant::now())
    }

    /// Returns whether a message is due.
    fn is_due(&mut self) -> bool {
        let is_due = self.0.elapsed() >= PROGRESS_INTERVAL;
        if is_due {
            self.0 = Instant::now();
        }
        is_due
    }
}

#[derive(Clone)]
struct Proxy {
    backend: Backend,
    cluster: Cluster,
}

/// The API server behind the proxy.
#[derive(Clone)]
enum Backend {
    Testbed(Testbed),
    Upstream(Arc<Upstream>),
}

impl Proxy {
    fn router(self) -> Router {
        let endpoints = self.cluster.router();
        let fallback = |State(proxy): State<Self>, request: Request| proxy.respond(request);
        Router::new().fallback(fallback).with_state(self).merge(endpoints)
    }

    async fn respond(self, request: Request) -> Response {
        let received = Instant::now();
        let info = RequestInfo::new(request.method(), request.uri());
        let load = &self.cluster.load;
        let response = match &self.backend {
            Backend::Testbed(testbed) => respond(testbed, load, &info, request).await,
            Backend::Upstream(upstream) => upstream.respond(load, &info, request).await,
        };
        let recorder = &self.cluster.recorder;
        let success = response.status().is_success();
        self.cluster.record_response(&info, recorder.now(), received.elapsed(), success);
        count_bytes(response, recorder.byte_counter(&info.kind))
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
