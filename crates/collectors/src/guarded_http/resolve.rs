//! Resolves host names to addresses.

use std::{
    io,
    net::{IpAddr, ToSocketAddrs},
};

use async_trait::async_trait;
use hpa_metrics::FairPermit;

/// Resolves host names. A connection must resolve its host only once, because a second resolution
/// could return addresses that the policy hasn't checked.
#[async_trait]
pub(crate) trait Resolve: Send + Sync {
    /// Resolves a name. The implementation must hold the permit until the work ends, even if the
    /// caller is cancelled.
    async fn resolve(&self, host: &str, permit: Option<FairPermit>) -> io::Result<Vec<IpAddr>>;
}

/// Resolves with the operating system's `getaddrinfo`, which blocks a thread.
pub(crate) struct SystemResolver;

#[async_trait]
impl Resolve for SystemResolver {
    async fn resolve(&self, host: &str, permit: Option<FairPermit>) -> io::Result<Vec<IpAddr>> {
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
