//! Serving HTTP on the loopback interface.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context as _, Result};
use axum::{Router, serve::ListenerExt as _};
use tokio::net::TcpListener;

use super::progress::print_progress;

/// Binds a free port.
pub(super) async fn bind() -> Result<TcpListener> {
    Ok(TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?)
}

/// Prints the URL, which `hpa-bench run` waits for, and serves.
pub(super) async fn serve(listener: TcpListener, router: Router) -> Result<()> {
    print_progress(&format!("http://{}", listener.local_addr()?))?;
    // As in kube-apiserver: with Nagle's algorithm, a response would wait for the acknowledgement
    // of its first part.
    let listener = listener.tap_io(|connection| _ = connection.set_nodelay(true));
    axum::serve(listener, router).await.context("cannot serve")
}
