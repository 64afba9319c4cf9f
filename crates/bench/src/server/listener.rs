//! The listener of a server, and the progress that it prints to standard output.

use std::{
    io::Write as _,
    net::{Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use axum::{Router, serve::ListenerExt as _};
use tokio::net::TcpListener;

/// Binds a free port.
pub(super) async fn bind() -> Result<TcpListener> {
    Ok(TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?)
}

/// Prints the URL, for which `hpa-bench run` waits, and serves.
pub(super) async fn serve_http(listener: TcpListener, router: Router) -> Result<()> {
    print_progress(&format!("http://{}", listener.local_addr()?))?;
    // TCP_NODELAY, as in kube-apiserver: otherwise responses would wait for the ACK of their first
    // segment.
    let listener = listener.tap_io(|connection| _ = connection.set_nodelay(true));
    axum::serve(listener, router).await.context("cannot serve")
}

const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// Prints a line to standard output.
pub(super) fn print_progress(line: &str) -> Result<()> {
    let mut output = std::io::stdout();
    writeln!(output, "{line}")?;
    Ok(output.flush()?)
}

/// Limits messages about a long operation to one in five seconds.
pub(crate) struct ProgressTimer(Instant);

impl ProgressTimer {
    pub(crate) fn new() -> Self {
        Self(Instant::now())
    }

    /// Returns whether a message is due, and if so, starts the next five seconds.
    pub(crate) fn restart_if_due(&mut self) -> bool {
        let is_due = self.0.elapsed() >= PROGRESS_INTERVAL;
        if is_due {
            self.0 = Instant::now();
        }
        is_due
    }
}
