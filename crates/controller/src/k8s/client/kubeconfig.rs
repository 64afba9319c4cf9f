//! Loads the configuration of a client, and reports failures without secrets.
//!
//! Errors name the file and the context. Apart from host and port of the server and the names of
//! contexts, clusters and kinds, they quote nothing from the file, because it may contain secrets.
//! Therefore kube's own errors, which quote files, are not their sources.

use std::{
    env,
    ffi::OsString,
    fmt, fs,
    path::{Path, PathBuf},
};

use hpa_go_compat::{proxy::ProxyError, yaml};
use kube::{
    Config,
    client::RustlsTlsError,
    config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError, NoProxyError},
};
use tracing::info;

/// The origin of the API server's address and of the credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ClientSource {
    /// A kubeconfig (`KUBECONFIG`, `~/.kube/config`). If it can't be used, and `KUBECONFIG` names
    /// no file, the pod's service account.
    #[default]
    Infer,
    /// The service account of the pod that this process runs in.
    InCluster,
    Kubeconfig {
        /// `None` for `KUBECONFIG` or `~/.kube/config`.
        path: Option<PathBuf>,
        /// `None` for the current context of the file.
        context: Option<String>,
    },
}

impl ClientSource {
    /// The kubeconfig that the flags `--kubeconfig` and `--context` select. Without both flags,
    /// [`Self::Infer`].
    pub fn from_flags(path: Option<PathBuf>, context: Option<String>) -> Self {
        if path.is_none() && context.is_none() {
            return Self::Infer;
        }
        Self::Kubeconfig { path, context }
    }
}

/// Replacements for parts of a kubeconfig, as with the flags of kubectl. With a service account,
/// only the impersonation has an effect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubeconfigOverrides {
    /// Another cluster of the file than the context's.
    pub cluster: Option<String>,
    /// Another user of the file than the context's.
    pub user: Option<String>,
    /// The user to act as.
    pub impersonate: Option<String>,
    /// The groups to act as.
    pub impersonate_groups: Vec<String>,
}

/// An error when creating a client.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("unable to use kubeconfig {file}, {context}")]
    Kubeconfig {
        /// The file, or the places that were searched.
        file: String,
        context: String,
        source: ClientProblem,
    },
    /// The file contains an object of another kind.
    #[error("{file} is not a kubeconfig (kind: {kind})")]
    OtherKind { file: String, kind: String },
    /// The process doesn't run in a pod with a service account. Only for
    /// [`ClientSource::InCluster`].
    #[error("unable to use the service account of this pod")]
    InCluster(#[from] InClusterError),
    #[error("unable to use the proxy for {server}")]
    Proxy { server: String, source: ProxyError },
    #[error("unable to create a client for {server} from {origin}")]
    Build {
        server: String,
        /// The origin of the configuration.
        origin: String,
        source: ClientProblem,
    },
}

/// The cause of [`ClientError::Kubeconfig`] or [`ClientError::Build`].
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ClientProblem(String);

impl ClientProblem {
    pub(super) fn of_kubeconfig(error: KubeconfigError) -> Self {
        Self(match error {
            KubeconfigError::Parse(_) => "not valid kubeconfig YAML".to_owned(),
            KubeconfigError::LoadCertificateAuthority(_) => {
                "failed to load the certificate authority".to_owned()
            }
            KubeconfigError::ParseCertificates(_) => {
                "the certificate authority is not valid PEM".to_owned()
            }
            KubeconfigError::LoadClientCertificate(_) => {
                "failed to load the client certificate".to_owned()
            }
            KubeconfigError::LoadClientKey(_) => "failed to load the client key".to_owned(),
            // `NoHost` quotes the proxy URL.
            KubeconfigError::ParseProxyUrl(_)
            | KubeconfigError::ParseNoProxy(NoProxyError::NoHost { .. }) => {
                "failed to parse the proxy URL in proxy-url or HTTPS_PROXY".to_owned()
            }
            KubeconfigError::ParseNoProxy(error) => format!("failed to parse NO_PROXY: {error}"),
            KubeconfigError::LoadContext(name) => format!("the file has no context {name}"),
            KubeconfigError::LoadClusterOfContext(name) => {
                format!("the context names cluster {name}, which the file doesn't define")
            }
            KubeconfigError::ReadConfig(error, _) => format!("failed to read the file: {error}"),
            // The other texts quote nothing from the file.
            other => other.to_string(),
        })
    }

    pub(super) fn of_client(error: &kube::Error) -> Self {
        let text = match error {
            // This error quotes neither the key nor the client certificate.
            kube::Error::RustlsTls(RustlsTlsError::InvalidPrivateKey(error)) => {
                return Self(format!("invalid client certificate or key: {error}"));
            }
            kube::Error::Auth(_) => "unable to get credentials",
            kube::Error::ProxyProtocolDisabled { .. }
            | kube::Error::ProxyProtocolUnsupported { .. } => "unable to use the proxy",
            kube::Error::RustlsTls(_) => "invalid TLS certificates or key",
            _ => "invalid configuration",
        };
        Self(text.to_owned())
    }
}

/// The origin of a configuration.
pub(super) enum Origin {
    Kubeconfig { file: String, context: String },
    ServiceAccount,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kubeconfig { file, context } => write!(f, "kubeconfig {file}, {context}"),
            Self::ServiceAccount => f.write_str("the pod's service account"),
        }
    }
}

/// Loads the configuration. Returns it with its origin.
pub(super) async fn load(
    source: &ClientSource,
    overrides: &KubeconfigOverrides,
) -> Result<(Config, Origin), ClientError> {
    let (mut config, origin) = load_source(source, overrides).await?;
    if overrides.impersonate.is_some() {
        config.auth_info.impersonate.clone_from(&overrides.impersonate);
        config.auth_info.impersonate_groups = None;
    }
    if !overrides.impersonate_groups.is_empty() {
        config.auth_info.impersonate_groups = Some(overrides.impersonate_groups.clone());
    }
    Ok((config, origin))
}

async fn load_source(
    source: &ClientSource,
    overrides: &KubeconfigOverrides,
) -> Result<(Config, Origin), ClientError> {
    match source {
        ClientSource::InCluster => in_cluster(),
        ClientSource::Kubeconfig { path, context } => {
            from_kubeconfig(path.as_deref(), context.as_deref(), overrides).await
        }
        ClientSource::Infer => {
            match from_kubeconfig(None, None, overrides).await {
                Ok(config) => Ok(config),
                // A kubeconfig that the user named must not be ignored.
                Err(error) if named_files(env::var_os("KUBECONFIG")).is_some() => Err(error),
                Err(error) => match in_cluster() {
                    // Outside of a pod, the kubeconfig's error is the useful one.
                    Err(ClientError::InCluster(_)) => Err(error),
                    in_cluster => in_cluster,
                },
            }
        }
    }
}

/// Loads the kubeconfig at `path`. Without a path, loads the files in `KUBECONFIG`, or
/// `~/.kube/config`.
async fn from_kubeconfig(
    path: Option<&Path>,
    context: Option<&str>,
    overrides: &KubeconfigOverrides,
) -> Result<(Config, Origin), ClientError> {
    let kubeconfig = path.map_or_else(Kubeconfig::read, Kubeconfig::read_from);
    let file = path.map_or_else(default_file, |path| path.display().to_string());
    let KubeconfigOverrides { cluster, user, .. } = overrides;
    let options = KubeConfigOptions {
        context: context.map(str::to_owned),
        cluster: cluster.clone(),
        user: user.clone(),
    };
    let (config, proxy) = match kubeconfig {
        Ok(kubeconfig) => {
            let proxy =
                hpa_go_compat::proxy::of_kubeconfig(&kubeconfig, context, cluster.as_deref());
            (Config::from_custom_kubeconfig(kubeconfig, &options).await, proxy)
        }
        Err(error) => (Err(error), None),
    };
    let context =
        context.map_or("current context".to_owned(), |context| format!("context {context:?}"));
    match config {
        Ok(config) => {
            let config = with_proxy(config, proxy.as_deref())?;
            Ok((config, Origin::Kubeconfig { file, context }))
        }
        Err(error) => {
            let default_paths = || default_paths(env::var_os("KUBECONFIG"), env::home_dir());
            let paths = path.map_or_else(default_paths, |path| vec![path.to_owned()]);
            if let Some((file, kind)) = other_kind(&paths) {
                return Err(ClientError::OtherKind { file, kind });
            }
            let source = ClientProblem::of_kubeconfig(error);
            Err(ClientError::Kubeconfig { file, context, source })
        }
    }
}

/// Returns the first file that is not a kubeconfig, with its kind.
fn other_kind(paths: &[PathBuf]) -> Option<(String, String)> {
    paths.iter().find_map(|path| {
        let documents = yaml::parse_all(&fs::read_to_string(path).ok()?).ok()?;
        let mut kinds = documents.iter().filter_map(|document| document.member("kind")?.text());
        // Text that can't be the name of a kind may be a secret.
        let is_name = |kind: &str| kind.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let kind = kinds.find(|kind| *kind != "Config" && is_name(kind))?.to_owned();
        Some((path.display().to_string(), kind))
    })
}

fn in_cluster() -> Result<(Config, Origin), ClientError> {
    let config = with_proxy(Config::incluster()?, None)?;
    Ok((config, Origin::ServiceAccount))
}

/// Replaces the proxy that kube chose.
fn with_proxy(mut config: Config, configured: Option<&str>) -> Result<Config, ClientError> {
    let server = config.cluster_url.host().unwrap_or_default();
    let proxy = hpa_go_compat::proxy::for_server(&config.cluster_url, configured, |name| {
        env::var(name).ok()
    })
    .map_err(|source| ClientError::Proxy { server: server.to_owned(), source })?;
    if let Some(proxy) = &proxy {
        info!(server, %proxy, origin = proxy.origin, "using a proxy for the API server");
    }
    config.proxy_url = proxy.map(|proxy| proxy.url);
    Ok(config)
}

fn default_file() -> String {
    named_files(env::var_os("KUBECONFIG")).unwrap_or_else(|| "~/.kube/config".to_owned())
}

/// The files that kube reads by default.
pub(super) fn default_paths(variable: Option<OsString>, home: Option<PathBuf>) -> Vec<PathBuf> {
    match named_files(variable) {
        Some(files) => env::split_paths(&files).collect(),
        None => home.map(|home| home.join(".kube/config")).into_iter().collect(),
    }
}

/// The value of `KUBECONFIG`, if it names a file. kube ignores empty paths.
pub(super) fn named_files(variable: Option<OsString>) -> Option<String> {
    let files = variable?;
    let names_a_file = env::split_paths(&files).any(|path| !path.as_os_str().is_empty());
    names_a_file.then(|| files.to_string_lossy().into_owned())
}
