//! Connections to a server. They are set up again when a file changes that they depend on.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use http::{HeaderMap, HeaderValue, header};
use kube::{
    Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use tokio::{sync::Mutex, time::Instant};

use crate::settings::{Authentication, Settings};

/// How often files are checked for changes.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Why the connection can't be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// A file can't be read.
    #[error("unable to read {purpose} {}", path.display())]
    File {
        /// What the file has.
        purpose: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: std::io::Error,
    },
    /// The content of a file can't be sent as a header.
    #[error("{purpose} {} has characters that a header can't have", path.display())]
    Header {
        /// What the file has.
        purpose: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// A kubeconfig file can't be used.
    #[error("unable to use the kubeconfig file {}", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: Box<kube::config::KubeconfigError>,
    },
    /// The service account can't be used.
    #[error("unable to use the service account of the pod")]
    InCluster(#[source] Box<kube::config::InClusterError>),
    /// The certificates can't be used.
    #[error("unable to set up TLS with {files}")]
    Tls {
        /// The files that were used.
        files: String,
        /// What is wrong.
        source: Box<kube::Error>,
    },
}

/// What requests are sent with.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) client: kube::Client,
    pub(crate) headers: Arc<HeaderMap>,
}

/// Sets up connections.
pub(crate) struct Connector {
    settings: Arc<Settings>,
    current: Mutex<Option<Current>>,
}

struct Current {
    connection: Connection,
    versions: Vec<FileVersion>,
    checked: Instant,
}

/// The time of the last change and the length of a file. `None` if it can't be read.
type FileVersion = Option<(SystemTime, u64)>;

impl Connector {
    pub(crate) fn new(settings: Arc<Settings>) -> Self {
        Self { settings, current: Mutex::new(None) }
    }

    /// A connector that sends all requests with `client`.
    pub(crate) fn fixed(settings: &Arc<Settings>, client: kube::Client) -> Self {
        let headers = Arc::new(settings.headers.iter().fold(HeaderMap::new(), append));
        let current = Current {
            connection: Connection { client, headers },
            versions: file_versions(settings),
            checked: Instant::now(),
        };
        Self { settings: settings.clone(), current: Mutex::new(Some(current)) }
    }

    /// The connection to use. If files have changed and can't be used, the previous one stays.
    pub(crate) async fn connection(&self) -> Result<Connection, ConnectionError> {
        let mut current = self.current.lock().await;
        let now = Instant::now();
        if let Some(current) = &*current
            && now.duration_since(current.checked) < CHECK_INTERVAL
        {
            return Ok(current.connection.clone());
        }
        // Before the files are read, so that a change in between is noticed next time.
        let versions = file_versions(&self.settings);
        if let Some(current) = &mut *current {
            current.checked = now;
            if current.versions == versions {
                return Ok(current.connection.clone());
            }
        }
        match (connect(&self.settings).await, &mut *current) {
            (Ok(connection), current) => {
                *current = Some(Current { connection: connection.clone(), versions, checked: now });
                Ok(connection)
            }
            (Err(error), None) => Err(error),
            (Err(error), Some(current)) => {
                tracing::warn!(
                    server = self.settings.name,
                    error = &error as &dyn std::error::Error,
                    "new certificates or credentials can't be used, the previous ones stay"
                );
                Ok(current.connection.clone())
            }
        }
    }
}

fn file_versions(settings: &Settings) -> Vec<FileVersion> {
    let version = |path: &Path| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    };
    files(settings).map(|(_, path)| version(path)).collect()
}

/// The files that a connection depends on. kube reads the token of a service account itself.
fn files(settings: &Settings) -> impl Iterator<Item = (&'static str, &Path)> {
    let kubeconfig = match &settings.authentication {
        Authentication::Kubeconfig(path) => Some(path),
        Authentication::None | Authentication::InCluster => None,
    };
    [
        ("the kubeconfig file", kubeconfig),
        ("the CA file", settings.ca_file.as_ref()),
        ("the client certificate", settings.client_certificate_file.as_ref()),
        ("the client key", settings.client_key_file.as_ref()),
        ("the token file", settings.token_file.as_ref()),
        ("the password file", settings.password_file.as_ref()),
    ]
    .into_iter()
    .filter_map(|(purpose, path)| Some((purpose, path?.as_path())))
}

async fn connect(settings: &Settings) -> Result<Connection, ConnectionError> {
    for (purpose, path) in files(settings) {
        read(purpose, path)?;
    }
    let headers = headers(settings)?;
    let mut config = base_config(settings).await?;
    config.cluster_url = settings.url.clone();
    config.default_retry = false;
    config.read_timeout = None;
    if let Some(ca_file) = &settings.ca_file {
        config.root_cert = None;
        config.root_cert_file = Some(ca_file.clone());
    }
    let text = |path: &PathBuf| path.to_string_lossy().into_owned();
    if let Some(certificate) = &settings.client_certificate_file {
        config.auth_info.client_certificate = Some(text(certificate));
        config.auth_info.client_key = settings.client_key_file.as_ref().map(text);
    }
    if headers.contains_key(header::AUTHORIZATION) {
        // As in the reference, an explicit header counts.
        let info = &mut config.auth_info;
        (info.token, info.token_file, info.exec, info.auth_provider) = (None, None, None, None);
        (info.username, info.password) = (None, None);
    }
    let client = kube::Client::try_from(config).map_err(|source| {
        let files: Vec<_> = files(settings).map(|(_, path)| path.display().to_string()).collect();
        let files = if files.is_empty() { "no files".to_owned() } else { files.join(", ") };
        ConnectionError::Tls { files, source: Box::new(source) }
    })?;
    Ok(Connection { client, headers: Arc::new(headers) })
}

/// TLS settings and credentials of a kubeconfig or a service account. The reference ignores them if
/// there is a CA file.
async fn base_config(settings: &Settings) -> Result<Config, ConnectionError> {
    match &settings.authentication {
        _ if settings.ca_file.is_some() => Ok(Config::new(settings.url.clone())),
        Authentication::None => Ok(Config::new(settings.url.clone())),
        Authentication::InCluster => {
            Config::incluster().map_err(|source| ConnectionError::InCluster(Box::new(source)))
        }
        Authentication::Kubeconfig(path) => {
            let error = |source| ConnectionError::Kubeconfig {
                path: path.clone(),
                source: Box::new(source),
            };
            let kubeconfig = Kubeconfig::read_from(path).map_err(error)?;
            let options = KubeConfigOptions::default();
            Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(error)
        }
    }
}

/// The configured headers, and the credentials unless they are among them.
fn headers(settings: &Settings) -> Result<HeaderMap, ConnectionError> {
    let mut headers = settings.headers.iter().fold(HeaderMap::new(), append);
    if headers.contains_key(header::AUTHORIZATION) {
        return Ok(headers);
    }
    let credential = if let Some(path) = &settings.token_file {
        let token = read("the token file", path)?;
        Some((format!("Bearer {}", token.trim()), "the token file", path.clone()))
    } else if let (Some(user), Some(path)) = (&settings.username, &settings.password_file) {
        let password = read("the password file", path)?;
        let password = password.trim_end_matches(['\r', '\n']);
        let encoded = BASE64_STANDARD.encode(format!("{user}:{password}"));
        Some((format!("Basic {encoded}"), "the password file", path.clone()))
    } else {
        let authority = settings.url.authority().map_or("", |authority| authority.as_str());
        let user = authority.rsplit_once('@').map(|(user, _)| user);
        user.map(|user| {
            let encoded = BASE64_STANDARD.encode(percent_decoded(user));
            (format!("Basic {encoded}"), "the URL", PathBuf::new())
        })
    };
    if let Some((text, purpose, path)) = credential {
        let mut value =
            HeaderValue::try_from(text).map_err(|_| ConnectionError::Header { purpose, path })?;
        value.set_sensitive(true);
        headers.insert(header::AUTHORIZATION, value);
    }
    Ok(headers)
}

/// A user name and a password from a URL.
fn percent_decoded(user: &str) -> String {
    // A plus sign means a space only in forms.
    let form = format!("u={}", user.replace('+', "%2B").replace('&', "%26"));
    let decoded = form_urlencoded::parse(form.as_bytes()).next();
    decoded.map(|(_, value)| value.into_owned()).unwrap_or_default()
}

fn append(mut headers: HeaderMap, (name, value): &(header::HeaderName, HeaderValue)) -> HeaderMap {
    headers.append(name, value.clone());
    headers
}

fn read(purpose: &'static str, path: &Path) -> Result<String, ConnectionError> {
    std::fs::read_to_string(path).map_err(|source| ConnectionError::File {
        purpose,
        path: path.to_owned(),
        source,
    })
}
