//! Clients of the API server: one for the API, one for the metrics APIs.

mod kubeconfig;
#[cfg(test)]
mod tests;

use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use hpa_metrics::{
    TlsSettingNames, connection_cause, is_client_certificate_refused, is_connection_failure,
};
use http::{HeaderValue, Request, Response, StatusCode, Uri, header, uri::Authority};
use http_body::Body as HttpBody;
use kube::{
    Client, Config,
    client::{Body, ClientBuilder},
};
use tokio_util::bytes::Bytes;
use tower::{
    BoxError, Service,
    layer::layer_fn,
    limit::ConcurrencyLimitLayer,
    util::{MapErrLayer, MapResponseLayer, option_layer},
};

use super::{
    backpressure::BackpressureLayer,
    connection_log::ConnectionLog,
    page_size::PageSize,
    rate_limit::{RateLimit, RateLimiter},
    request_observer::{ObservedRequests, RequestObserver},
    timeout::RequestTimeout,
    watch_throttle::WatchThrottle,
};
pub use hpa_go_compat::proxy::ProxyError;
pub use kubeconfig::{ClientError, ClientProblem, ClientSource, KubeconfigOverrides};

/// The minimum time between two watches of the same objects.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// The maximum time for which a 429 holds requests back. It is less than the defaults of the sync
/// period and the lease duration.
const MAX_BACKPRESSURE: Duration = Duration::from_secs(5);

/// The limits of one client's requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClientLimits {
    /// The maximum number of requests that wait for a response header. Each has a connection.
    pub concurrency: NonZeroUsize,
    /// `None` if only the API server limits the rate.
    pub rate: Option<RateLimit>,
    /// The time until the response must be complete. For a watch, until it starts.
    pub request_timeout: Duration,
}

impl Default for ClientLimits {
    /// 64 concurrent requests, no rate limit, and a timeout of 30 s.
    fn default() -> Self {
        const CONCURRENCY: NonZeroUsize = NonZeroUsize::MIN.saturating_add(63);
        Self { concurrency: CONCURRENCY, rate: None, request_timeout: Duration::from_secs(30) }
    }
}

/// The configuration of [`Clients`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientConfig {
    pub source: ClientSource,
    pub overrides: KubeconfigOverrides,
    /// The limits of all requests but those for metrics.
    pub api: ClientLimits,
    /// The limits of requests for metrics. They are separate, so that slow metrics servers don't
    /// delay other requests.
    pub metrics: ClientLimits,
    /// `None` for `hpa-rs/` and the version of this crate.
    pub user_agent: Option<HeaderValue>,
}

/// The two clients. They don't retry failed requests. The caller does, for example with its next
/// reconcile.
#[derive(Clone)]
pub struct Clients {
    /// The client for all requests but those for metrics.
    pub api: Client,
    /// The client for the metrics APIs.
    pub metrics: Client,
    /// Host and port of the API server. Empty for a service in the same process.
    pub server: String,
    /// Whether the clients use the service account of the pod that this process runs in. With a
    /// kubeconfig, the API server may be that of another cluster.
    pub uses_service_account: bool,
}

impl Clients {
    /// Creates the clients. Reads files, and may run the credential plugin that a kubeconfig names.
    /// Sends no request. Needs a tokio runtime.
    pub async fn new(config: &ClientConfig) -> Result<Self, ClientError> {
        Self::connect(config, Arc::new(()), false).await
    }

    /// Like [`Clients::new`], with an observer of all requests. Logs when the API server doesn't
    /// respond or rejects the credentials, and when it responds again, at most once a minute.
    pub async fn with_observer(
        config: &ClientConfig,
        observer: Arc<dyn RequestObserver>,
    ) -> Result<Self, ClientError> {
        Self::connect(config, observer, true).await
    }

    async fn connect(
        config: &ClientConfig,
        observer: Arc<dyn RequestObserver>,
        logs_connection: bool,
    ) -> Result<Self, ClientError> {
        let (mut kube, origin) = kubeconfig::load(&config.source, &config.overrides).await?;
        let uses_service_account = matches!(origin, kubeconfig::Origin::ServiceAccount);
        let origin = origin.to_string();
        // kube would retry for minutes while a metrics server is down.
        kube.default_retry = false;
        let default_agent = HeaderValue::from_static(concat!("hpa-rs/", env!("CARGO_PKG_VERSION")));
        let agent = config.user_agent.clone().unwrap_or(default_agent);
        kube.headers.push((header::USER_AGENT, agent));
        let url = without_credentials(&kube.cluster_url);
        let log = logs_connection.then(|| Arc::new(ConnectionLog::new(url, origin.clone())));
        let server = host_and_port(&kube.cluster_url);
        let client =
            |limits| build_client(kube.clone(), limits, observer.clone(), log.clone(), &origin);
        let (api, metrics) = (client(&config.api)?, client(&config.metrics)?);
        Ok(Self { api, metrics, server, uses_service_account })
    }

    /// Clients of an API server that is a tower service, for example in the same process.
    pub fn from_service<S, B>(service: S, limits: &ClientLimits) -> Self
    where
        S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let client = || {
            let builder = ClientBuilder::new(service.clone(), "default");
            with_limits(builder, limits, Arc::new(()), None, String::new())
        };
        let server = String::new();
        Self { api: client(), metrics: client(), server, uses_service_account: false }
    }
}

/// The host, with the port if the URL has one. Without credentials.
fn authority_host(url: &Uri) -> &str {
    let authority = url.authority().map_or("", Authority::as_str);
    authority.rsplit('@').next().unwrap_or_default()
}

fn without_credentials(url: &Uri) -> String {
    let host = authority_host(url);
    format!("{}://{host}{}", url.scheme_str().unwrap_or("https"), url.path().trim_end_matches('/'))
}

fn host_and_port(url: &Uri) -> String {
    let default = if url.scheme_str() == Some("http") { 80 } else { 443 };
    format!("{}:{}", url.host().unwrap_or_default(), url.port_u16().unwrap_or(default))
}

fn build_client(
    config: Config,
    limits: &ClientLimits,
    observer: Arc<dyn RequestObserver>,
    log: Option<Arc<ConnectionLog>>,
    origin: &str,
) -> Result<Client, ClientError> {
    let host = authority_host(&config.cluster_url).to_owned();
    let builder = ClientBuilder::try_from(config).map_err(|error| ClientError::Build {
        server: host.clone(),
        origin: origin.to_owned(),
        source: ClientProblem::of_client(&error),
    })?;
    Ok(with_limits(builder, limits, observer, log, host))
}

/// The settings of the API server's TLS.
const TLS_SETTINGS: TlsSettingNames<'_> = TlsSettingNames {
    ca: "certificate-authority in the kubeconfig",
    client_certificate: "client-certificate and client-key in the kubeconfig",
};

/// A connection that can't be established. The HTTP client's error doesn't name the server, and has
/// the cause only at the end of its source chain.
#[derive(Debug, thiserror::Error)]
#[error("unable to connect to the API server at {server}: {cause}")]
pub struct ConnectError {
    server: String,
    /// The last error of the chain, in plain words.
    pub cause: String,
}

impl ConnectError {
    /// Replaces a connection error with a `ConnectError`. Returns any other error as it is.
    fn replace(server: &str, error: BoxError) -> BoxError {
        if !is_connection_failure(&*error) && !is_client_certificate_refused(&*error) {
            return error;
        }
        let cause = connection_cause(&*error, TLS_SETTINGS);
        Box::new(Self { server: server.to_owned(), cause })
    }
}

/// The host of an API server, with the port if its URL has one. It is in the extensions of a
/// response that rejects the credentials (401). Empty for a service in the same process.
#[derive(Clone, Debug)]
pub struct RejectingServer(pub Arc<str>);

impl RejectingServer {
    fn add_to<B>(mut response: Response<B>, server: &Arc<str>) -> Response<B> {
        if response.status() == StatusCode::UNAUTHORIZED {
            response.extensions_mut().insert(Self(server.clone()));
        }
        response
    }
}

/// Adds the limits to kube's stack, the innermost first. Observer and timeout are inside the limits
/// of concurrency, rate and backpressure, so that the time for which these hold a request back
/// doesn't count.
fn with_limits<S, B>(
    builder: ClientBuilder<S>,
    limits: &ClientLimits,
    observer: Arc<dyn RequestObserver>,
    log: Option<Arc<ConnectionLog>>,
    host: String,
) -> Client
where
    S: Service<Request<Body>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let host: Arc<str> = host.into();
    let ClientLimits { concurrency, rate, request_timeout } = *limits;
    let rate_limit = rate.map(|rate| layer_fn(move |inner| RateLimiter::new(inner, rate)));
    builder
        .with_layer(&MapErrLayer::new({
            let host = host.clone();
            move |error: S::Error| ConnectError::replace(&host, error.into())
        }))
        .with_layer(&MapResponseLayer::new({
            let host = host.clone();
            move |response: Response<B>| RejectingServer::add_to(response, &host)
        }))
        .with_layer(&layer_fn(|inner| WatchThrottle::new(inner, WATCH_INTERVAL)))
        .with_layer(&layer_fn(PageSize::new))
        .with_layer(&layer_fn(|inner| RequestTimeout {
            inner,
            limit: request_timeout,
            server: host.clone(),
        }))
        .with_layer(&layer_fn(|inner| ObservedRequests {
            inner,
            observer: observer.clone(),
            host: host.clone(),
            log: log.clone(),
        }))
        .with_layer(&ConcurrencyLimitLayer::new(concurrency.get()))
        .with_layer(&option_layer(rate_limit))
        .with_layer(&BackpressureLayer {
            max_delay: MAX_BACKPRESSURE,
            group_concurrency: concurrency.get().div_ceil(2),
        })
        .build()
}
