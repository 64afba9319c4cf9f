//! The signals that end a command. Outside of Unix, Ctrl-C is the only one.

use anyhow::Context;
use tokio_util::sync::CancellationToken;
use tracing::info;

/// The exit status after a second signal, as shells report SIGINT.
const EXIT_SECOND_SIGNAL: i32 = 130;

/// SIGINT, SIGTERM and SIGHUP.
#[cfg(unix)]
pub(crate) struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    /// Begins to listen. From then on, the signals no longer end the process by themselves.
    pub(crate) fn listen() -> anyhow::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let listen = |kind| signal(kind).context("unable to listen for signals");
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hang_up: listen(SignalKind::hangup())?,
        })
    }

    /// Waits for the next signal and logs its name.
    pub(crate) async fn recv(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => info!("received SIGINT"),
            _ = self.terminate.recv() => info!("received SIGTERM"),
            _ = self.hang_up.recv() => info!("received SIGHUP"),
        }
    }
}

/// Ctrl-C.
#[cfg(not(unix))]
pub(crate) struct Signals;

#[cfg(not(unix))]
impl Signals {
    #[expect(clippy::unnecessary_wraps, reason = "fails on Unix")]
    pub(crate) fn listen() -> anyhow::Result<Self> {
        Ok(Self)
    }

    pub(crate) async fn recv(&mut self) {
        match tokio::signal::ctrl_c().await {
            Ok(()) => info!("received Ctrl-C"),
            Err(_) => std::future::pending().await,
        }
    }
}

/// Cancels the token at the first signal, and exits the process at the second one.
pub(crate) fn cancel_on_signal(shutdown: &CancellationToken) -> anyhow::Result<()> {
    let mut signals = Signals::listen()?;
    let shutdown = shutdown.clone();
    tokio::spawn(async move {
        signals.recv().await;
        shutdown.cancel();
        signals.recv().await;
        info!("second signal: exiting without waiting");
        std::process::exit(EXIT_SECOND_SIGNAL);
    });
    Ok(())
}
