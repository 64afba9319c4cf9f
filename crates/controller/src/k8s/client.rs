//! Clients of the API server: one for the API, one for the metrics APIs.

use std::{num::NonZeroUsize, path::PathBuf, sync::Arc, time::Duration};

use http::{HeaderValue, Request, Response, header};
use http_body::Body as HttpBody;
use kube::{
    Client, Config,
    client::{Body, ClientBuilder},
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use tokio_util::bytes::Bytes;
use tower::{BoxError, Service, limit::ConcurrencyLimitLayer, util::option_layer};

use super::{
    backpressure::BackpressureLayer,
    limits::{RateLimit, RateLimitLayer, RequestTimeoutLayer},
    request_observer::{RequestObserver, RequestObserverLayer},
    watch_throttle::WatchThrottleLayer,
};

/// The time from one watch of the same objects to the next.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// How long an overloaded API server can hold requests back: less than a sync period, and than a lease lasts.
const LONGEST_BACKPRESSURE: Duration = Duration::from_secs(5);

/// Why there is no client. The texts name the file and context, and never what a file holds: it may be a secret.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// A kubeconfig file cannot be used.
    #[error("unable to use kubeconfig {file}, {context}: {cause}")]
    Kubeconfig {
        /// The file, or where it was looked for.
        file: String,
        /// The context asked for.
        context: String,
        /// What is wrong.
        cause: String,
    },
    /// There is no kubeconfig, and this is no pod of the cluster that has a service account.
    #[error("no kubeconfig, and no configuration of a pod in the cluster: {0}")]
    InCluster(String),
    /// The configuration was read but no client can be made from it.
    #[error("unable to make a client for {server} from {from}: {cause}")]
    Build {
        /// The API server's address.
        server: String,
        /// Where the configuration is from.
        from: String,
        /// What is wrong.
        cause: &'static str,
    },
}

/// Where the API server is, and who we are to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ClientSource {
    /// A kubeconfig where there is one (`KUBECONFIG`, `~/.kube/config`), else as a pod of the cluster.
    #[default]
    Infer,
    /// As a pod of the cluster, with its service account.
    InCluster,
    /// A kubeconfig.
    Kubeconfig {
        /// The file; `None` for `KUBECONFIG` or `~/.kube/config`.
        path: Option<PathBuf>,
        /// The context; `None` for the file's current one.
        context: Option<String>,
    },
}

/// What one client may do at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClientLimits {
    /// How many requests may wait for an answer. Each has a connection of its own. A watch counts until it begins.
    pub concurrency: NonZeroUsize,
    /// How many requests may be sent in a time; `None` leaves that to the API server.
    pub rate: Option<RateLimit>,
    /// How long a request may take until its answer is complete; a watch, until it begins.
    pub request_timeout: Duration,
}

impl Default for ClientLimits {
    /// 64 requests at a time, at any rate, of 30 s each.
    fn default() -> Self {
        const CONCURRENCY: NonZeroUsize = NonZeroUsize::MIN.saturating_add(63);
        Self { concurrency: CONCURRENCY, rate: None, request_timeout: Duration::from_secs(30) }
    }
}

/// How to make the clients.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientConfig {
    /// Where the API server is.
    pub source: ClientSource,
    /// The limits of the client for everything but metrics.
    pub api: ClientLimits,
    /// The limits of the client for metrics, which slow metrics servers use up without harm to the other.
    pub metrics: ClientLimits,
}

/// The two clients. Neither repeats a request that failed: the next sync does.
#[derive(Clone)]
pub struct Clients {
    /// For everything but metrics.
    pub api: Client,
    /// For the metrics APIs.
    pub metrics: Client,
}

impl Clients {
    /// Makes the clients. Reads files, and may run the credential plugin that a kubeconfig names; the API server is
    /// not asked anything. Needs a tokio runtime.
    pub async fn new(config: &ClientConfig) -> Result<Self, ClientError> {
        Self::with_observer(config, Arc::new(())).await
    }

    /// As [`Clients::new`], and has the requests counted.
    pub async fn with_observer(
        config: &ClientConfig,
        observer: Arc<dyn RequestObserver>,
    ) -> Result<Self, ClientError> {
        let (mut kube, from) = read(&config.source).await?;
        // kube would try again for minutes while a metrics server is down.
        kube.default_retry = false;
        let agent = HeaderValue::from_static(concat!("hpa-rs/", env!("CARGO_PKG_VERSION")));
        kube.headers.push((header::USER_AGENT, agent));
        Ok(Self {
            api: build(kube.clone(), &config.api, observer.clone(), &from)?,
            metrics: build(kube, &config.metrics, observer, &from)?,
        })
    }

    /// Clients of an API server that is a tower service, such as one in the same process.
    pub fn from_service<S, B>(service: S, limits: &ClientLimits) -> Self
    where
        S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let client = || {
            limited(
                ClientBuilder::new(service.clone(), "default"),
                limits,
                Arc::new(()),
                String::new(),
            )
        };
        Self { api: client(), metrics: client() }
    }
}

/// Adds the limits to kube's stack, the innermost first. The timeout is innermost, so that it does not run while a
/// request waits for its turn; so is what counts requests.
fn build(
    config: Config,
    limits: &ClientLimits,
    observer: Arc<dyn RequestObserver>,
    from: &str,
) -> Result<Client, ClientError> {
    let server = config.cluster_url.host().unwrap_or_default().to_owned();
    // Never the user information that a URL may have.
    let host = config.cluster_url.port().map_or(server.clone(), |port| format!("{server}:{port}"));
    let builder = ClientBuilder::try_from(config).map_err(|error| ClientError::Build {
        server,
        from: from.to_owned(),
        cause: build_failure(&error),
    })?;
    Ok(limited(builder, limits, observer, host))
}

fn limited<S, B>(
    builder: ClientBuilder<S>,
    limits: &ClientLimits,
    observer: Arc<dyn RequestObserver>,
    host: String,
) -> Client
where
    S: Service<Request<Body>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    builder
        .with_layer(&WatchThrottleLayer(WATCH_INTERVAL))
        .with_layer(&RequestTimeoutLayer(limits.request_timeout))
        .with_layer(&RequestObserverLayer::new(observer, host))
        .with_layer(&ConcurrencyLimitLayer::new(limits.concurrency.get()))
        .with_layer(&option_layer(limits.rate.map(RateLimitLayer)))
        .with_layer(&BackpressureLayer(LONGEST_BACKPRESSURE))
        .build()
}

/// The configuration and where it is from.
async fn read(source: &ClientSource) -> Result<(Config, String), ClientError> {
    match source {
        ClientSource::InCluster => in_cluster(),
        ClientSource::Kubeconfig { path, context } => {
            let file = path.as_ref().map_or_else(default_file, |path| path.display().to_string());
            let shown = context
                .as_ref()
                .map_or("current context".to_owned(), |name| format!("context {name:?}"));
            let from = format!("kubeconfig {file}, {shown}");
            let kubeconfig = match path {
                Some(path) => Kubeconfig::read_from(path),
                None => Kubeconfig::read(),
            };
            let options =
                KubeConfigOptions { context: context.clone(), ..KubeConfigOptions::default() };
            let config = match kubeconfig {
                Ok(kubeconfig) => Config::from_custom_kubeconfig(kubeconfig, &options).await,
                Err(error) => Err(error),
            };
            match config {
                Ok(config) => Ok((config, from)),
                Err(error) => Err(ClientError::Kubeconfig {
                    file,
                    context: shown,
                    cause: kubeconfig_failure(&error),
                }),
            }
        }
        ClientSource::Infer => {
            let source = ClientSource::Kubeconfig { path: None, context: None };
            match Box::pin(read(&source)).await {
                Ok(config) => Ok(config),
                // One that was asked for is not to be passed over.
                Err(error) if std::env::var_os("KUBECONFIG").is_some() => Err(error),
                // In a pod there is none; on a desk the kubeconfig is what somebody has to look at.
                Err(error) => in_cluster().map_err(|_| error),
            }
        }
    }
}

fn in_cluster() -> Result<(Config, String), ClientError> {
    // Names files and environment variables only.
    let config = Config::incluster().map_err(|error| ClientError::InCluster(error.to_string()))?;
    Ok((config, "the pod's service account".to_owned()))
}

fn default_file() -> String {
    std::env::var("KUBECONFIG").unwrap_or_else(|_| "~/.kube/config".to_owned())
}

/// What is wrong with a kubeconfig, without the excerpts that kube's own texts have.
fn kubeconfig_failure(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::Parse(_) => "it is not valid YAML of a kubeconfig".to_owned(),
        KubeconfigError::LoadClientCertificate(_) => {
            "failed to load the client certificate".to_owned()
        }
        KubeconfigError::LoadClientKey(_) => "failed to load the client key".to_owned(),
        KubeconfigError::ParseProxyUrl(_) => "failed to parse the proxy URL".to_owned(),
        other => other.to_string(),
    }
}

fn build_failure(error: &kube::Error) -> &'static str {
    match error {
        kube::Error::Auth(_) => "no credentials could be had",
        kube::Error::ProxyProtocolDisabled { .. }
        | kube::Error::ProxyProtocolUnsupported { .. } => "proxies are not supported",
        kube::Error::RustlsTls(_) => "the certificates or the key for TLS cannot be used",
        _ => "the configuration cannot be used",
    }
}
