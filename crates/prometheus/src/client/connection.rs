//! Creates connections to a server, and replaces them when a file with certificates or credentials
//! changes.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use hpa_go_compat::proxy::ProxyError;
use http::{HeaderMap, HeaderValue, Uri, header, uri::Scheme};
use kube::{
    Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use percent_encoding::percent_decode_str;
use tokio::{sync::Mutex, time::Instant};

use crate::client::{
    forward,
    settings::{Authentication, Settings},
};

/// The files in a service account's directory.
const CA_FILE: &str = "ca.crt";
const TOKEN_FILE: &str = "token";

/// The interval between checks of the files.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// A file is unreadable.
    #[error("unable to read {purpose} {}", path.display())]
    File {
        /// The file's purpose, such as "the token file".
        purpose: &'static str,
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("the token file {} has characters that a header can't have", path.display())]
    Token { path: PathBuf },
    #[error("unable to use the kubeconfig file {}", path.display())]
    Kubeconfig { path: PathBuf, source: Box<kube::config::KubeconfigError> },
    #[error("unable to use the proxy for {server}")]
    Proxy {
        /// The host of the server.
        server: String,
        source: ProxyError,
    },
    /// The HTTP client can't be created, for example because a certificate is invalid.
    #[error("unable to set up TLS with {files}")]
    Tls {
        /// The files that the connection depends on, or "no files".
        files: String,
        source: Box<kube::Error>,
    },
}

#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) client: kube::Client,
    pub(crate) headers: Arc<HeaderMap>,
}

/// Looks up environment variables.
pub(crate) type Environment = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Creates connections, and replaces them when their files change.
pub(crate) struct Connector {
    settings: Arc<Settings>,
    variables: Environment,
    current: Mutex<Option<CurrentConnection>>,
}

struct CurrentConnection {
    connection: Connection,
    file_versions: Vec<FileVersion>,
    checked_at: Instant,
}

/// The time of the last change and the length of a file. `None` if they can't be read.
type FileVersion = Option<(SystemTime, u64)>;

impl Connector {
    /// A connector that looks up proxy settings in `variables`.
    pub(crate) fn new(settings: Arc<Settings>, variables: Environment) -> Self {
        Self { settings, variables, current: Mutex::new(None) }
    }

    /// A connector that sends requests with `client`, until a file of the settings changes.
    pub(crate) fn fixed(settings: &Arc<Settings>, client: kube::Client) -> Self {
        let headers = Arc::new(settings.headers.iter().cloned().collect());
        let current = CurrentConnection {
            connection: Connection { client, headers },
            file_versions: file_versions(settings),
            checked_at: Instant::now(),
        };
        let current = Mutex::new(Some(current));
        Self { settings: settings.clone(), variables: Arc::new(|_| None), current }
    }

    /// Returns the current connection. Creates one on the first call, and after a change of its
    /// files, which are checked every 5 s. If the changed files can't be used, the previous
    /// connection stays in use.
    pub(crate) async fn connection(&self) -> Result<Connection, ConnectionError> {
        let mut current = self.current.lock().await;
        let now = Instant::now();
        if let Some(current) = &*current
            && now.duration_since(current.checked_at) < CHECK_INTERVAL
        {
            return Ok(current.connection.clone());
        }
        // Taken before the files are read: the next check then detects a change in between.
        let file_versions = file_versions(&self.settings);
        if let Some(current) = &mut *current {
            current.checked_at = now;
            if current.file_versions == file_versions {
                return Ok(current.connection.clone());
            }
        }
        match (connect(&self.settings, &self.variables).await, &mut *current) {
            (Ok(connection), current) => {
                *current = Some(CurrentConnection {
                    connection: connection.clone(),
                    file_versions,
                    checked_at: now,
                });
                Ok(connection)
            }
            (Err(error), None) => Err(error),
            (Err(error), Some(current)) => {
                tracing::warn!(
                    server = self.settings.name,
                    error = hpa_metrics::describe(&error),
                    "can't use the changed certificates or credentials, the previous ones stay in \
                     use"
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
    connection_files(settings).into_iter().map(|(_, path)| version(&path)).collect()
}

/// The source of TLS settings and credentials. As in prometheus-adapter, a CA file replaces it.
fn authentication(settings: &Settings) -> &Authentication {
    if settings.ca_file.is_some() { &Authentication::None } else { &settings.authentication }
}

/// The files that a connection depends on, except those that a kubeconfig file refers to.
fn connection_files(settings: &Settings) -> Vec<(&'static str, PathBuf)> {
    let (kubeconfig, service_account) = match authentication(settings) {
        Authentication::Kubeconfig(path) => (Some(path.clone()), None),
        Authentication::InCluster => (None, Some(&settings.service_account_directory)),
        Authentication::None => (None, None),
    };
    let account_file = |name: &str| service_account.map(|directory| directory.join(name));
    let files = [
        ("the kubeconfig file", kubeconfig),
        ("the service account's CA file", account_file(CA_FILE)),
        ("the service account's token", account_file(TOKEN_FILE)),
        ("the CA file", settings.ca_file.clone()),
        ("the client certificate", settings.client_certificate_file.clone()),
        ("the client key", settings.client_key_file.clone()),
        ("the token file", settings.token_file.clone()),
        ("the password file", settings.password_file.clone()),
    ];
    files.into_iter().filter_map(|(purpose, path)| Some((purpose, path?))).collect()
}

async fn connect(
    settings: &Settings,
    variables: &Environment,
) -> Result<Connection, ConnectionError> {
    for (purpose, path) in connection_files(settings) {
        read_file(purpose, &path)?;
    }
    let mut headers = configured_headers(settings)?;
    let (mut config, configured_proxy) = base_config(settings).await?;
    config.cluster_url = without_credentials(&settings.url);
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
        // As in prometheus-adapter, this header takes precedence over the kubeconfig and the
        // service account.
        let info = &mut config.auth_info;
        (info.token, info.token_file, info.exec, info.auth_provider) = (None, None, None, None);
        (info.username, info.password) = (None, None);
    }
    let proxy = find_proxy(settings, configured_proxy.as_deref(), variables)?;
    config.proxy_url = proxy.as_ref().map(|proxy| proxy.url.clone());
    let is_http = |url: &Uri| url.scheme() == Some(&Scheme::HTTP);
    let forwarding = proxy.filter(|proxy| is_http(&proxy.url) && is_http(&settings.url));
    let client = match &forwarding {
        Some(proxy) => {
            let user = user_and_password(&proxy.url).and_then(|user| basic_authorization(&user));
            headers.extend(user.map(|user| (header::PROXY_AUTHORIZATION, user)));
            forward::client(&config, proxy)
        }
        None => kube::Client::try_from(config),
    };
    let client = client.map_err(|source| {
        let files: Vec<_> =
            connection_files(settings).iter().map(|(_, path)| path.display().to_string()).collect();
        let files = if files.is_empty() { "no files".to_owned() } else { files.join(", ") };
        ConnectionError::Tls { files, source: Box::new(source) }
    })?;
    Ok(Connection { client, headers: Arc::new(headers) })
}

/// The proxy for the server: `configured`, or one that environment variables set.
fn find_proxy(
    settings: &Settings,
    configured: Option<&str>,
    variables: &Environment,
) -> Result<Option<hpa_go_compat::proxy::Proxy>, ConnectionError> {
    let server = || settings.url.host().unwrap_or_default().to_owned();
    let proxy = hpa_go_compat::proxy::for_server(&settings.url, configured, &**variables)
        .map_err(|source| ConnectionError::Proxy { server: server(), source })?;
    if let Some(proxy) = &proxy {
        let (server, origin) = (server(), proxy.origin);
        tracing::info!(server, %proxy, origin, "using a proxy for Prometheus");
    }
    Ok(proxy)
}

/// Reads the TLS settings and credentials of a kubeconfig or a service account, and the
/// kubeconfig's proxy.
async fn base_config(settings: &Settings) -> Result<(Config, Option<String>), ConnectionError> {
    match authentication(settings) {
        Authentication::None => Ok((Config::new(settings.url.clone()), None)),
        Authentication::InCluster => {
            let mut config = Config::new(settings.url.clone());
            config.root_cert_file = Some(settings.service_account_directory.join(CA_FILE));
            let token = settings.service_account_directory.join(TOKEN_FILE);
            // kube itself reads the file again from time to time.
            config.auth_info.token_file = Some(token.to_string_lossy().into_owned());
            Ok((config, None))
        }
        Authentication::Kubeconfig(path) => {
            let error = |source| ConnectionError::Kubeconfig {
                path: path.clone(),
                source: Box::new(source),
            };
            let kubeconfig = Kubeconfig::read_from(path).map_err(error)?;
            let proxy = hpa_go_compat::proxy::of_kubeconfig(&kubeconfig, None, None);
            let options = KubeConfigOptions::default();
            let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
            Ok((config.map_err(error)?, proxy))
        }
    }
}

/// The configured headers. Without an `Authorization` header, adds one with the token, or with the
/// user and password of the settings or of the URL, if there are any.
fn configured_headers(settings: &Settings) -> Result<HeaderMap, ConnectionError> {
    let mut headers: HeaderMap = settings.headers.iter().cloned().collect();
    if headers.contains_key(header::AUTHORIZATION) {
        return Ok(headers);
    }
    let credentials = if let Some(path) = &settings.token_file {
        let token = read_file("the token file", path)?;
        let value = sensitive_header(format!("Bearer {}", token.trim()));
        Some(value.ok_or_else(|| ConnectionError::Token { path: path.clone() })?)
    } else if let (Some(user), Some(path)) = (&settings.username, &settings.password_file) {
        let password = read_file("the password file", path)?;
        let password = password.trim_end_matches(['\r', '\n']);
        basic_authorization(&format!("{user}:{password}"))
    } else {
        user_and_password(&settings.url).and_then(|user| basic_authorization(&user))
    };
    headers.extend(credentials.map(|value| (header::AUTHORIZATION, value)));
    Ok(headers)
}

/// The value of a basic `Authorization` header for `USER:PASSWORD`. Always `Some`, because Base64
/// is valid in a header.
pub fn basic_authorization(user: &str) -> Option<HeaderValue> {
    sensitive_header(format!("Basic {}", BASE64_STANDARD.encode(user)))
}

/// A header that isn't printed. `None` if it can't have the characters of `text`.
fn sensitive_header(text: String) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// The `USER:PASSWORD` of a URL, decoded.
pub fn user_and_password(url: &Uri) -> Option<String> {
    let (user, _) = url.authority()?.as_str().rsplit_once('@')?;
    Some(percent_decode_str(user).decode_utf8_lossy().into_owned())
}

/// Removes the user name and the password from a URL, because they may only be sent as a header.
fn without_credentials(url: &Uri) -> Uri {
    let mut parts = url.clone().into_parts();
    let host = url.authority().and_then(|authority| authority.as_str().rsplit('@').next());
    parts.authority = host.and_then(|host| host.parse().ok());
    Uri::from_parts(parts).unwrap_or_else(|_| url.clone())
}

fn read_file(purpose: &'static str, path: &Path) -> Result<String, ConnectionError> {
    std::fs::read_to_string(path).map_err(|source| ConnectionError::File {
        purpose,
        path: path.to_owned(),
        source,
    })
}
