//! Resolution of host names to addresses.

use std::{
    io,
    net::{IpAddr, ToSocketAddrs},
    sync::Arc,
};

use async_trait::async_trait;
use tokio::sync::Semaphore;

/// Resolves host names. A connection resolves its host once and uses only addresses that passed the
/// guard. A second resolution could return others.
#[async_trait]
pub(crate) trait Resolve: Send + Sync {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// Resolves with the operating system's `getaddrinfo`.
pub(crate) struct SystemResolver {
    threads: Arc<Semaphore>,
}

impl SystemResolver {
    /// A resolution blocks a thread until it ends, even if its caller has given up.
    const MAX_THREADS: usize = 16;

    pub(crate) fn new() -> Self {
        Self { threads: Arc::new(Semaphore::new(Self::MAX_THREADS)) }
    }
}

#[async_trait]
impl Resolve for SystemResolver {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let permit = self.threads.clone().acquire_owned().await.map_err(io::Error::other)?;
        let host = host.to_owned();
        let addresses = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let resolved = (host.as_str(), 0).to_socket_addrs()?;
            let mut addresses: Vec<IpAddr> = resolved.map(|address| address.ip()).collect();
            addresses.dedup();
            Ok(addresses)
        });
        addresses.await.map_err(io::Error::other)?
    }
}
