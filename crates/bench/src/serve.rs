//! `hpa-bench serve`: the server that a controller is measured against.

use std::{
    fs,
    future::Future,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use anyhow::{Context as _, Result};
use axum::{Router, serve::ListenerExt as _};
use hpa_testbed::{Config, Testbed};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};

use crate::{
    args::{ApiServer, ServeArguments},
    cluster::{Cluster, Processes},
    front::{Backend, Front},
    kube_apiserver, kubeconfig,
    load::Load,
    populate::{populate, say},
    store::Store,
};

/// Populates, says the address where it tells what it is asked, and serves until it is told to end.
pub(crate) async fn run(arguments: &ServeArguments) -> Result<()> {
    let told = told_to_end()?;
    match &arguments.server {
        ApiServer::Testbed => until(told, serve_testbed(arguments)).await,
        ApiServer::KubeApiserver(assets) => {
            until(told, kube_apiserver::serve(arguments, assets)).await
        }
        // That has to clean up.
        ApiServer::Kubeconfig(file) => kubeconfig::serve(arguments, file, told).await,
    }
}

/// What was started ends with the future that is dropped.
async fn until(
    told: impl Future<Output = ()>,
    serve: impl Future<Output = Result<()>>,
) -> Result<()> {
    tokio::select! {
        served = serve => served,
        () = told => Ok(()),
    }
}

async fn serve_testbed(arguments: &ServeArguments) -> Result<()> {
    let load = Arc::new(Load::new(&arguments.population));
    let testbed =
        Testbed::new(Config { metrics: Some(Arc::<Load>::clone(&load)), ..Config::default() });
    let cluster = Cluster::new(arguments, Store::Testbed(testbed.clone()), load, Processes::Own);
    populate(&cluster).await?;
    let listener = listen().await?;
    fs::write(&arguments.kubeconfig, Testbed::kubeconfig(listener.local_addr()?))
        .context("cannot write the kubeconfig")?;
    answer(listener, Front { behind: Backend::Testbed(testbed), cluster }.router()).await
}

/// A port of the loopback device.
pub(crate) async fn listen() -> Result<TcpListener> {
    Ok(TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?)
}

/// Says that all is ready, and answers who measures.
pub(crate) async fn answer(listener: TcpListener, router: Router) -> Result<()> {
    say(&format!("http://{}", listener.local_addr()?))?;
    // As kube-apiserver does: an answer is not to wait for the acknowledgement of its first part.
    let listener = listener.tap_io(|connection| _ = connection.set_nodelay(true));
    axum::serve(listener, router).await.context("cannot serve")
}

/// Ends with the first signal to end that comes from now on.
fn told_to_end() -> Result<impl Future<Output = ()>> {
    let (mut terminated, mut interrupted) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminated.recv() => {}
            _ = interrupted.recv() => {}
        }
    })
}
