//! The operator's settings.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use hpa_prometheus::client::Client;

use crate::{
    Compat,
    guarded_http::{Policy, host},
};

/// The operator's settings. The default reads pods and HTTP endpoints.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    pub compat: Compat,
    /// Where URLs of tenants may lead.
    pub policy: Policy,
    /// Bounds for requests.
    pub limits: Limits,
    /// Certificate authorities to trust in addition to those of the system.
    pub ca_file: Option<PathBuf>,
    /// Whether URLs of tenants use the proxy of the environment if [`Policy::hosts`] lists their
    /// host. A proxy resolves names itself, so that addresses can't be checked. Other URLs of
    /// tenants, and pods, are never reached through a proxy.
    pub proxy_permitted_hosts: bool,
    /// Credentials for URLs of tenants, by origin (`https://metrics.example.org:8443`). All tenants
    /// can make requests with them.
    pub credentials: BTreeMap<String, Credential>,
    /// The label of series that has their namespace. With it, queries of autoscalers to servers of
    /// the operator read the series of their own namespace only.
    pub namespace_label: Option<String>,
    /// The annotations of an Ingress that have weights of backends.
    pub weight_annotations: Vec<String>,
    /// The default Prometheus server.
    pub prometheus: Option<Client>,
    /// Prometheus servers that autoscalers refer to by name.
    pub prometheus_servers: BTreeMap<String, Client>,
    /// Servers of the operator, by the name of their collector: `influxdb`, `zmon`, `nakadi`.
    pub services: BTreeMap<&'static str, ServiceSettings>,
}

/// A server of the operator that is asked with a token.
#[derive(Clone, Debug)]
pub struct ServiceSettings {
    pub endpoint: String,
    /// Never sent to addresses that autoscalers name.
    pub token: Option<Credential>,
    /// The organization of metrics that name none, for `InfluxDB`.
    pub org: String,
}

/// Bounds for requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many connections are open at a time, of all collectors. Those to Prometheus servers of
    /// the operator have their own limit.
    pub connections: usize,
    /// How many of them one collection may have, so that an autoscaler with many slow pods leaves
    /// some to others.
    pub connections_per_fetch: usize,
    /// How long a request waits for a connection.
    pub queue_timeout: Duration,
    /// The time limit of requests that have none of their own.
    pub request_timeout: Duration,
    /// The longest time limit that a tenant can set.
    pub max_request_timeout: Duration,
    /// The maximum length of a response.
    pub response_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 128,
            connections_per_fetch: 32,
            queue_timeout: Duration::from_secs(15),
            request_timeout: Duration::from_secs(15),
            max_request_timeout: Duration::from_secs(60),
            response_bytes: 1 << 20,
        }
    }
}

/// A token or another secret value.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// From its text.
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

/// Where a bearer token comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// The token itself.
    Text(Secret),
    /// A file with the token, which is read for each request.
    File(PathBuf),
}

impl Credential {
    /// The token, without surrounding white space.
    pub(crate) fn read(&self) -> Result<Secret, SettingsError> {
        let text = match self {
            Self::Text(secret) => secret.text().trim().to_owned(),
            Self::File(path) => read(path)?.trim().to_owned(),
        };
        Ok(Secret(text))
    }
}

/// Reads a small file.
pub(crate) fn read(path: &Path) -> Result<String, SettingsError> {
    std::fs::read_to_string(path)
        .map_err(|source| SettingsError::File { path: path.to_owned(), source })
}

/// Why settings can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// A file can't be read.
    #[error("unable to read {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: std::io::Error,
    },
    /// A file has no certificate.
    #[error("{} has no certificate", .0.display())]
    NoCertificate(PathBuf),
    /// A certificate can't be used.
    #[error("{} has a certificate that can't be used: {message}", path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// TLS can't be set up.
    #[error("unable to set up TLS: {0}")]
    Tls(String),
    /// A limit is 0.
    #[error("the limit of {0} must be positive")]
    Limit(&'static str),
    /// An origin of credentials is no origin.
    #[error("{0:?} is not an origin such as https://metrics.example.org:8443")]
    Origin(String),
    /// A URL of the operator is invalid.
    #[error("the URL {url:?} {problem}")]
    Url {
        /// The URL, without credentials.
        url: String,
        /// What is wrong.
        problem: &'static str,
    },
}

impl Settings {
    pub(crate) fn validate(&self) -> Result<(), SettingsError> {
        for (limit, name) in [
            (self.limits.connections, "connections"),
            (self.limits.connections_per_fetch, "connections of a collection"),
            (self.limits.response_bytes, "bytes of a response"),
        ] {
            if limit == 0 {
                return Err(SettingsError::Limit(name));
            }
        }
        for origin in self.credentials.keys() {
            let after = origin.split_once("://").map_or("", |(_, after)| after);
            if host(origin).is_err() || after.contains(['/', '?', '#']) {
                return Err(SettingsError::Origin(origin.clone()));
            }
        }
        Ok(())
    }
}
