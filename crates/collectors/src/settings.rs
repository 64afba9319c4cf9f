//! The operator's settings.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use hpa_prometheus::client::Client;
use serde::Deserialize;

use crate::{Compat, guarded_http::policy::Policy};

/// The name of the operator's default Prometheus server, for permissions.
pub(crate) const DEFAULT_PROMETHEUS: &str = "prometheus";

/// The operator's settings. The default has no server and no credential.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    pub compat: Compat,
    /// The permitted destinations of tenants' URLs.
    pub policy: Policy,
    pub limits: Limits,
    /// Certificate authorities to trust in addition to those of the system.
    pub ca_file: Option<PathBuf>,
    /// Credentials for tenants' URLs, by origin (`https://metrics.example.org:8443`). Requests of
    /// all tenants use them.
    pub credentials: BTreeMap<String, Credential>,
    /// The label that contains the namespace of a series. If it is set, tenants' queries to the
    /// operator's Prometheus servers are restricted to the series of their namespace. Tenants' URLs
    /// must not lead to these servers, and tenants may name other Prometheus servers only if the
    /// policy lists hosts.
    pub namespace_label: Option<String>,
    /// The namespaces that may read from a server of the operator, by the server's name. All
    /// namespaces may read from a server without an entry (see
    /// [`Environment::permissions`](crate::Environment)). If a namespace isn't permitted, URLs in
    /// its metrics must not lead to that server.
    pub permissions: BTreeMap<String, BTreeSet<String>>,
    /// The names of the annotations of an Ingress that contain weights of backends.
    pub weight_annotations: Vec<String>,
    /// The default Prometheus server.
    pub prometheus: Option<Client>,
    /// Prometheus servers that autoscalers refer to by name.
    pub prometheus_servers: BTreeMap<String, Client>,
    /// Servers of the operator, by the name of their collector: `influxdb`, `zmon`, `nakadi`.
    pub services: BTreeMap<&'static str, ServiceSettings>,
}

/// A server of the operator, with an optional token.
#[derive(Clone, Debug)]
pub struct ServiceSettings {
    pub endpoint: String,
    /// Never sent to URLs in the settings of metrics.
    pub token: Option<Credential>,
    /// The organization of metrics that name none, for `InfluxDB`.
    pub org: String,
}

/// Limits of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The maximum number of open connections of all collectors. One namespace gets at most half of
    /// them, rounded up. Connections to the operator's Prometheus servers have their own limit.
    pub connections: usize,
    /// The maximum number of connections of one collection. An autoscaler with many slow pods
    /// therefore can't occupy all connections.
    pub connections_per_collection: usize,
    /// The maximum wait of a request for a connection.
    pub queue_timeout: Duration,
    /// The time limit of a request. Requests to pods have a limit of 15 s instead, unless the
    /// tenant sets another one.
    pub request_timeout: Duration,
    /// The maximum of the time limits that tenants can set for requests to pods.
    pub max_request_timeout: Duration,
    /// The maximum length of a response.
    pub response_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 128,
            connections_per_collection: 32,
            queue_timeout: Duration::from_secs(15),
            request_timeout: Duration::from_secs(15),
            max_request_timeout: Duration::from_secs(60),
            response_bytes: 1 << 20,
        }
    }
}

/// A token or another secret value.
#[derive(Clone, PartialEq, Eq, Deserialize)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// The source of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// The token itself.
    Text(Secret),
    /// A file with the token, read for each request.
    File(PathBuf),
}

impl Credential {
    /// The token, without surrounding white space.
    pub(crate) fn read(&self) -> Result<Secret, SettingsError> {
        let text = match self {
            Self::Text(secret) => secret.text().trim().to_owned(),
            Self::File(path) => read_file(path)?.trim().to_owned(),
        };
        Ok(Secret(text))
    }
}

pub(crate) fn read_file(path: &Path) -> Result<String, SettingsError> {
    std::fs::read_to_string(path)
        .map_err(|source| SettingsError::File { path: path.to_owned(), source })
}

/// Invalid settings.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// A file is unreadable.
    #[error("unable to read {}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    /// The key of a credential is not an origin.
    #[error("{0:?} is not an origin such as https://metrics.example.org:8443")]
    Origin(String),
    /// Another problem, with the name of the setting or of its file.
    #[error("{0}")]
    Invalid(String),
}

impl Settings {
    pub(crate) fn validate(&self) -> Result<(), SettingsError> {
        for (limit, name) in [
            (self.limits.connections, "connections"),
            (self.limits.connections_per_collection, "connections of a collection"),
            (self.limits.response_bytes, "bytes of a response"),
        ] {
            if limit == 0 {
                let message = format!("the limit of {name} must be positive");
                return Err(SettingsError::Invalid(message));
            }
        }
        Ok(())
    }
}
