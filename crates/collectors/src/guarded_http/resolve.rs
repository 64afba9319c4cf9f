//! Resolves names to addresses.

use std::{
    io,
    net::{IpAddr, ToSocketAddrs},
    sync::Arc,
};

use async_trait::async_trait;
use tokio::sync::Semaphore;

/// Resolves names, once per connection.
#[async_trait]
pub(crate) trait Resolve: Send + Sync {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

pub(crate) struct SystemResolver {
    slots: Arc<Semaphore>,
}

impl SystemResolver {
    /// The maximum number of threads that the system's resolver blocks, also for cancelled callers.
    const THREADS: usize = 16;

    pub(crate) fn new() -> Self {
        Self { slots: Arc::new(Semaphore::new(Self::THREADS)) }
    }
}

#[async_trait]
impl Resolve for SystemResolver {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let slot = self.slots.clone().acquire_owned().await.map_err(io::Error::other)?;
        let host = host.to_owned();
        let addresses = tokio::task::spawn_blocking(move || {
            let _slot = slot;
            let found = (host.as_str(), 0).to_socket_addrs()?;
            let mut addresses: Vec<IpAddr> = found.map(|address| address.ip()).collect();
            addresses.dedup();
            Ok(addresses)
        });
        addresses.await.map_err(io::Error::other)?
    }
}
