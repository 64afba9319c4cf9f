//! Opens connections, after checking the addresses of tenants' URLs and of pods.

use std::{
    future::ready,
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use hpa_go_compat::proxy::Proxy;
use hpa_metrics::{FairPermit, FairSemaphore, TlsSettingNames, connection_cause};
use hpa_prometheus::client::{basic_authorization, user_and_password};
use http::{HeaderValue, Uri};
use hyper_util::{
    client::legacy::connect::proxy::{SocksV5, Tunnel},
    rt::TokioIo,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::{Instant, timeout_at},
};
use tokio_rustls::{TlsConnector, rustls::pki_types::ServerName};
use tower::{BoxError, Service, service_fn};

use super::{
    policy,
    request::{Destination, HttpRequest},
    resolve::Resolve,
    restricted::RestrictedServer,
    tls::Tls,
    url,
};
use crate::error::HttpError;

/// The maximum number of concurrent resolutions of servers' names. Each blocks a thread, possibly
/// for seconds. Names of proxies don't count.
pub(super) const MAX_RESOLUTIONS: usize = 16;

/// The names of the settings for TLS, for messages.
const TLS_SETTINGS: TlsSettingNames<'_> =
    TlsSettingNames { ca: "--collector-ca-file", client_certificate: "" };

/// Returns the value of an environment variable.
type EnvironmentLookup = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Opens connections within the policy.
pub(super) struct Connector {
    pub(super) policy: policy::Policy,
    pub(super) restricted_servers: Vec<RestrictedServer>,
    pub(super) resolver: Arc<dyn Resolve>,
    pub(super) resolutions: FairSemaphore,
    pub(super) tls: Tls,
    pub(super) environment: EnvironmentLookup,
}

/// A TCP or TLS stream.
pub(super) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// An open connection, which occupies a permit.
pub(super) struct Connection {
    pub(super) io: Box<dyn Io>,
    pub(super) route: Route,
    pub(super) _permit: FairPermit,
}

/// The next hop of a request.
pub(super) enum Route {
    Server,
    /// A forwarding proxy. The request has the whole URL, and this `Proxy-Authorization`, if any.
    Proxy(Option<HeaderValue>),
}

impl Connector {
    /// Opens a connection for a request within its connect timeout, or its timeout if that is
    /// shorter.
    pub(super) async fn connect(
        &self,
        request: &HttpRequest,
        permit: FairPermit,
    ) -> Result<Connection, HttpError> {
        let limit = request.connect_timeout.min(request.timeout);
        let deadline = Instant::now() + limit;
        let connected = timeout_at(deadline, self.open(request, permit, deadline)).await;
        connected.map_err(|_| HttpError::ConnectTimeout(limit))?
    }

    async fn open(
        &self,
        request: &HttpRequest,
        permit: FairPermit,
        deadline: Instant,
    ) -> Result<Connection, HttpError> {
        let (uri, destination) = (&request.uri, request.destination);
        if destination == Destination::Tenant {
            self.check_url(uri)?;
        }
        if let Some(proxy) = self.proxy(uri, destination)? {
            return self.through_proxy(uri, proxy, permit).await;
        }
        let addresses = self.resolve(request).await?;
        let stream = connect_to(&addresses, url::port(uri), deadline).await?;
        let io: Box<dyn Io> = Box::new(stream);
        let io = if url::is_https(uri) { self.start_tls(uri, io).await? } else { io };
        Ok(Connection { io, route: Route::Server, _permit: permit })
    }

    /// Checks that the policy permits the URL. The policy checks the host that
    /// [`policy::parse_host`] finds, but the connection uses the host of `uri`, so both must be the
    /// same.
    fn check_url(&self, uri: &Uri) -> Result<(), HttpError> {
        let text = uri.to_string();
        self.policy.check_url(&text)?;
        let checked = policy::parse_host(&text).map_err(HttpError::Url)?;
        if checked.eq_ignore_ascii_case(url::host(uri)) {
            return Ok(());
        }
        Err(HttpError::Url("is ambiguous"))
    }

    /// Returns the addresses to connect to. Those of pods and of tenants' URLs are checked. The
    /// name must not be resolved again, because the result could differ.
    async fn resolve(&self, request: &HttpRequest) -> Result<Vec<IpAddr>, HttpError> {
        let host = url::host(&request.uri);
        let resolved = self.resolve_host(host, &request.namespace).await;
        let addresses =
            resolved.map_err(|source| HttpError::Resolve { host: host.to_owned(), source })?;
        if matches!(request.destination, Destination::Tenant | Destination::Pod) {
            self.policy.check_addresses(host, &addresses)?;
            self.check_restricted_servers(request, &addresses).await?;
        }
        Ok(addresses)
    }

    /// Checks that none of the addresses is that of a server that the namespace of the request may
    /// not read. The servers' names are resolved for each request, because their addresses can
    /// change.
    async fn check_restricted_servers(
        &self,
        request: &HttpRequest,
        addresses: &[IpAddr],
    ) -> Result<(), HttpError> {
        let HttpRequest { uri, namespace, .. } = request;
        let port = url::port(uri);
        let is_forbidden = |server: &&RestrictedServer| server.is_forbidden_for(namespace, port);
        for server in self.restricted_servers.iter().filter(is_forbidden) {
            let own = self.resolve_host(server.host(), namespace).await;
            let own = own.map_err(|_| server.refusal_if_unresolved())?;
            server.check(url::host(uri), addresses, &own)?;
        }
        Ok(())
    }

    /// The addresses of a host within the limits of the namespace.
    async fn resolve_host(&self, host: &str, namespace: &str) -> io::Result<Vec<IpAddr>> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(vec![address]);
        }
        let permit = self.resolutions.acquire(namespace).await;
        self.resolver.resolve(host, permit).await
    }

    fn proxy(&self, uri: &Uri, destination: Destination) -> Result<Option<Proxy>, HttpError> {
        // A proxy resolves names itself, so the addresses of tenants' URLs couldn't be checked.
        if destination != Destination::Operator {
            return Ok(None);
        }
        let proxy = hpa_go_compat::proxy::for_server(uri, None, |name| (self.environment)(name));
        proxy.map_err(|error| HttpError::Proxy(error.to_string()))
    }

    async fn through_proxy(
        &self,
        uri: &Uri,
        proxy: Proxy,
        permit: FairPermit,
    ) -> Result<Connection, HttpError> {
        let displayed_proxy = proxy.to_string();
        let failure = |error: BoxError| HttpError::Proxy(format!("{displayed_proxy}: {error}"));
        let address = (url::host(&proxy.url).to_owned(), url::port(&proxy.url));
        let stream = TcpStream::connect(address).await.map_err(|error| failure(error.into()))?;
        let io: Box<dyn Io> = Box::new(stream);
        let io = if url::is_https(&proxy.url) {
            let started = self.start_tls(&proxy.url, io).await;
            started.map_err(|error| match error {
                // The certificates come from a flag, not from the proxy.
                HttpError::CaCertificates(_) => error,
                error => failure(error.into()),
            })?
        } else {
            io
        };
        let user = user_and_password(&proxy.url);
        if !is_socks(&proxy.url) && !url::is_https(uri) {
            let route = Route::Proxy(user.as_deref().and_then(basic_authorization));
            return Ok(Connection { io, route, _permit: permit });
        }
        let target = with_port(uri)?;
        let io = open_tunnel(io, proxy.url, user.as_deref(), target).await.map_err(failure)?;
        let io = if url::is_https(uri) { self.start_tls(uri, io).await? } else { io };
        Ok(Connection { io, route: Route::Server, _permit: permit })
    }

    async fn start_tls(&self, uri: &Uri, io: Box<dyn Io>) -> Result<Box<dyn Io>, HttpError> {
        let config = self.tls.config().map_err(HttpError::CaCertificates)?;
        let name = ServerName::try_from(url::host(uri).to_owned())
            .map_err(|_| HttpError::Url("has a host that no certificate can have"))?;
        let stream = TlsConnector::from(config).connect(name, io).await;
        let stream =
            stream.map_err(|error| HttpError::Tls(connection_cause(&error, TLS_SETTINGS)))?;
        Ok(Box::new(stream))
    }
}

/// Connects to the first address that accepts the connection. Each attempt gets an equal part of
/// the time that remains until the deadline.
async fn connect_to(
    addresses: &[IpAddr],
    port: u16,
    deadline: Instant,
) -> Result<TcpStream, HttpError> {
    let mut failure = None;
    for (index, address) in addresses.iter().enumerate() {
        let remaining = u32::try_from(addresses.len() - index).unwrap_or(u32::MAX);
        let now = Instant::now();
        let end = now + deadline.saturating_duration_since(now) / remaining;
        let connected = timeout_at(end, TcpStream::connect(SocketAddr::new(*address, port))).await;
        match connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Ok(stream) => {
                stream.set_nodelay(true).ok();
                return Ok(stream);
            }
            Err(source) => failure = Some(HttpError::Connect { address: *address, source }),
        }
    }
    Err(failure.unwrap_or(HttpError::Url("has no host")))
}

fn is_socks(proxy: &Uri) -> bool {
    proxy.scheme_str() == Some("socks5")
}

/// Opens a tunnel to `target` through a proxy, by SOCKS 5 or by the method CONNECT. `io` is the
/// connection to the proxy.
async fn open_tunnel(
    io: Box<dyn Io>,
    proxy: Uri,
    user: Option<&str>,
    target: Uri,
) -> Result<Box<dyn Io>, BoxError> {
    // A connector that returns the open connection.
    let mut stream = Some(TokioIo::new(io));
    let connector = service_fn(move |_: Uri| {
        ready(stream.take().ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected)))
    });
    let io = if is_socks(&proxy) {
        let mut socks = SocksV5::new(proxy, connector);
        if let Some((user, password)) = user.map(|user| user.split_once(':').unwrap_or((user, "")))
        {
            socks = socks.with_auth(user.to_owned(), password.to_owned());
        }
        socks.call(target).await?
    } else {
        let mut tunnel = Tunnel::new(proxy, connector);
        if let Some(authorization) = user.and_then(basic_authorization) {
            tunnel = tunnel.with_auth(authorization);
        }
        tunnel.call(target).await?
    };
    Ok(io.into_inner())
}

/// The origin of a URL with an explicit port, for a proxy.
fn with_port(uri: &Uri) -> Result<Uri, HttpError> {
    let (scheme, host) = (uri.scheme_str().unwrap_or("http"), uri.host().unwrap_or_default());
    let text = format!("{scheme}://{host}:{}/", url::port(uri));
    text.parse().map_err(|_| HttpError::Url("is invalid"))
}
