//! The operator's servers that not all namespaces may read, or that tenants may query only in part.
//! The URLs of other namespaces must not lead to them.

use std::{collections::BTreeSet, net::IpAddr};

use http::Uri;

use super::{
    policy::{Refusal, without_translation},
    url,
};
use crate::settings::{DEFAULT_PROMETHEUS, Settings};

/// A server of the operator with a restriction that a tenant's URL would bypass.
pub(super) struct RestrictedServer {
    /// The name in [`Settings::permissions`].
    name: String,
    host: String,
    port: u16,
    /// The namespaces whose URLs may lead to the server.
    namespaces: BTreeSet<String>,
}

/// The restricted servers of the operator. A Prometheus server is restricted for all namespaces if
/// queries are: a request to a URL can have any query. Any other server is restricted if it has
/// permissions.
pub(super) fn restricted_servers(settings: &Settings) -> Vec<RestrictedServer> {
    let has_label = settings.namespace_label.is_some();
    let default = settings.prometheus.iter().map(|client| (DEFAULT_PROMETHEUS, client));
    let aliases = settings.prometheus_servers.iter().map(|(name, client)| (name.as_str(), client));
    let mut servers: Vec<_> = default
        .chain(aliases)
        .filter_map(|(name, client)| {
            let permitted = settings.permissions.get(name).cloned();
            let namespaces = if has_label { BTreeSet::new() } else { permitted? };
            Some(RestrictedServer::new(name, &client.settings().url, namespaces))
        })
        .collect();
    servers.extend(settings.services.iter().filter_map(|(name, service)| {
        let namespaces = settings.permissions.get(*name)?.clone();
        // An invalid endpoint is an error of `Clients::new`.
        let uri = url::parse(&service.endpoint).ok()?;
        Some(RestrictedServer::new(name, &uri, namespaces))
    }));
    servers
}

impl RestrictedServer {
    fn new(name: &str, uri: &Uri, namespaces: BTreeSet<String>) -> Self {
        let (name, host) = (name.to_owned(), url::host(uri).to_owned());
        Self { name, host, port: url::port(uri), namespaces }
    }

    /// Whether URLs in the namespace that have this port must not lead to the server.
    pub(super) fn is_forbidden_for(&self, namespace: &str, port: u16) -> bool {
        self.port == port && !self.namespaces.contains(namespace)
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// Checks that a tenant's host, which has `addresses`, is not this server, which has
    /// `own_addresses`.
    pub(super) fn check(
        &self,
        host: &str,
        addresses: &[IpAddr],
        own_addresses: &[IpAddr],
    ) -> Result<(), Refusal> {
        let name = |host: &str| host.trim_end_matches('.').to_ascii_lowercase();
        let own: BTreeSet<_> = own_addresses.iter().copied().map(without_translation).collect();
        let has_own = addresses.iter().any(|address| own.contains(&without_translation(*address)));
        if has_own || name(host) == name(&self.host) {
            return Err(Refusal::RestrictedServer(self.name.clone()));
        }
        Ok(())
    }

    /// The refusal of a URL while the server's name can't be resolved.
    pub(super) fn refusal_if_unresolved(&self) -> Refusal {
        Refusal::UnknownRestrictedServer(self.name.clone())
    }
}
