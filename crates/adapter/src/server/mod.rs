//! Accepts TLS connections and serves requests with HTTP/1.1 and HTTP/2.
//!
//! A request passes four layers of limits:
//!
//! ```text
//!  layer          limits                                              shared fairly by
//!  connections    connections, idle time, unread responses            networks
//!  client         connections of users, bytes per second              users
//!  reviews        TokenReviews                                        networks
//!  admission      running requests, access reviews, unread bytes      users, or networks
//!                                                                     without credentials
//! ```

mod certificate;
mod client;
mod connections;
mod read_rate;
#[cfg(test)]
mod tests;
mod write_timeout;

use std::{convert::Infallible, io, net::SocketAddr, sync::Arc, time::Duration};

use http::Request;
use http_body_util::Full;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, join, split},
    net::{TcpListener, TcpSocket, TcpStream},
    time::timeout,
};
use tokio_rustls::server::TlsStream;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::debug;

pub use certificate::{HandshakeSettings, ServingCertificate};
pub use connections::{ClientClass, Connection, ConnectionLimits, Connections, RunningRequest};

use self::{
    client::{Client, UserConnections},
    connections::CloseReason,
    read_rate::ReadRate,
    write_timeout::WriteTimeout,
};
use crate::{authentication::Peer, response::too_many_headers, service::Adapter};

/// The time limit for receiving the head of an HTTP/1.1 request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(32);

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The interval between pings on an idle HTTP/2 connection.
const PING_INTERVAL: Duration = Duration::from_secs(30);

/// The time limit for requests in progress at shutdown.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// The time limit of a pending write. The client must read some bytes within it.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// Each instance of kube-apiserver needs only a few connections. An unread response takes about 2
/// KiB in addition to its body. A head of [`CLIENT_LIMITS`] whose end hasn't been received takes at
/// most 160 KiB of memory, so 256 unknown clients can use 40 MiB. Without a token that was valid
/// recently, at most 208 of them have a request in progress: 80 by `admission`, and 128 whose
/// tokens are reviewed. The others are replaceable.
const LIMITS: ConnectionLimits =
    ConnectionLimits { connections: 1024, unknown: 256, authenticated: 512, unread: 2048 };

/// The connections of users other than `system:masters`. A single user gets half, so unfinished
/// heads of a user take at most 40 MiB. Connections above the user's share are among the unknown
/// ones.
const USER_CONNECTIONS: usize = 512;

/// The maximum number of connections that wait to be accepted. The kernel caps it at
/// `net.core.somaxconn`, and drops further connections. Their clients try again only after a
/// second, so a burst would delay probes.
const BACKLOG: u32 = 4096;

/// The limits of requests on a connection.
#[derive(Clone, Copy, Debug)]
struct RequestLimits {
    /// The size of headers as HTTP/2 counts it: 32 bytes for each in addition to its text.
    header_bytes: u32,
    headers: usize,
    /// Concurrent requests on an HTTP/2 connection.
    streams: u32,
}

/// A front proxy sends a header for each group of the user. With HTTP/2, `header_bytes` bounds
/// their number, as each header counts as more than 32 bytes. The streams are the default of
/// kube-apiserver.
const FRONT_PROXY_LIMITS: RequestLimits =
    RequestLimits { header_bytes: 64 << 10, headers: (64 << 10) / 32, streams: 250 };

/// Clients other than front proxies. A token can have 16 KiB. With HPACK, a request of a few
/// hundred bytes can have as many headers as the size allows, and each takes more memory than its
/// size.
const CLIENT_LIMITS: RequestLimits =
    RequestLimits { header_bytes: 20 << 10, headers: 64, streams: 32 };

/// The bytes of request bodies that a client may send in advance: the default of the protocol.
/// Bodies aren't read, so hyper's default of 1 MiB has no use.
const WINDOW: u32 = (1 << 16) - 1;

/// The maximum length of a client's certificate chain.
const MAX_CHAIN_BYTES: usize = 16 << 10;

/// The time limit for closing an idle connection.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Options of connections.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServerOptions {
    /// HTTP/1.1 only.
    pub disable_http2: bool,
    /// The maximum number of concurrent requests on an HTTP/2 connection. `None` for the default.
    /// Clients other than front proxies have at most 32.
    pub max_streams: Option<u32>,
}

impl ServerOptions {
    /// The protocols for ALPN, by preference.
    pub fn protocols(self) -> Vec<Vec<u8>> {
        let http1 = b"http/1.1".to_vec();
        if self.disable_http2 { vec![http1] } else { vec![b"h2".to_vec(), http1] }
    }

    fn request_limits(self, is_front_proxy: bool) -> RequestLimits {
        let limits = if is_front_proxy { FRONT_PROXY_LIMITS } else { CLIENT_LIMITS };
        let streams = match self.max_streams {
            Some(streams) if is_front_proxy => streams,
            Some(streams) => streams.min(limits.streams),
            None => limits.streams,
        };
        RequestLimits { streams, ..limits }
    }
}

/// Binds a listener that takes bursts of connections.
#[expect(clippy::unused_async, reason = "registering the socket needs a runtime")]
pub async fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A restarted process can bind the port again at once.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves connections until `stop` is cancelled. Then finishes requests in progress, for at most a
/// minute.
pub async fn serve(
    listener: TcpListener,
    adapter: Arc<Adapter>,
    certificate: Arc<ServingCertificate>,
    options: ServerOptions,
    stop: CancellationToken,
) {
    let connections = Connections::new(LIMITS);
    let users = UserConnections::new(USER_CONNECTIONS);
    let shared = Arc::new(ServerState { adapter, certificate, options, users, stop: stop.clone() });
    let serve = |stream, connection| {
        let shared = shared.clone();
        async move { shared.serve(stream, connection).await }
    };
    serve_connections(listener, &connections, &stop, STOP_TIMEOUT, serve).await;
}

/// Accepts connections until `stop` is cancelled, and calls `serve` for each that has a place among
/// `connections`. Then waits for the calls in progress, for at most `stop_timeout`.
pub async fn serve_connections<F: Future<Output = ()> + Send + 'static>(
    listener: TcpListener,
    connections: &Arc<Connections>,
    stop: &CancellationToken,
    stop_timeout: Duration,
    serve: impl Fn(TcpStream, Arc<Connection>) -> F,
) {
    let tasks = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, client)) => {
                let Some(connection) = connections.admit(client.ip()) else {
                    debug!(
                        %client,
                        "refused a connection: the limit is reached and no connection can be \
                         replaced"
                    );
                    continue;
                };
                tasks.spawn(serve(stream, connection));
            }
            Err(error) => {
                debug!(%error, "failed to accept a connection");
                // Without a pause, a lack of file descriptors would become a busy loop.
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    drop(listener);
    tasks.close();
    timeout(stop_timeout, tasks.wait()).await.ok();
}

/// The state shared by connections.
struct ServerState {
    adapter: Arc<Adapter>,
    certificate: Arc<ServingCertificate>,
    options: ServerOptions,
    users: Arc<UserConnections>,
    stop: CancellationToken,
}

impl ServerState {
    async fn serve(&self, stream: TcpStream, connection: Arc<Connection>) {
        stream.set_nodelay(true).ok();
        let handshake = timeout(HANDSHAKE_TIMEOUT, self.certificate.acceptor().accept(stream));
        let accepted = tokio::select! {
            accepted = handshake => accepted,
            () = connection.evicted() => {
                debug!("closed a connection without a request to make room for another one");
                return;
            }
        };
        match accepted {
            Ok(Ok(stream)) => self.serve_requests(stream, connection).await,
            Ok(Err(error)) => debug!(%error, "TLS handshake failed"),
            Err(_) => debug!("TLS handshake timed out"),
        }
    }

    async fn serve_requests(
        &self,
        stream: TlsStream<impl AsyncRead + AsyncWrite + Unpin + Send + 'static>,
        connection: Arc<Connection>,
    ) {
        let session = stream.get_ref().1;
        let is_http2 = session.alpn_protocol() == Some(b"h2");
        let chain = session.peer_certificates().unwrap_or_default();
        if chain.iter().map(|certificate| certificate.len()).sum::<usize>() > MAX_CHAIN_BYTES {
            debug!("closed a connection, because the client's certificates are too long");
            return;
        }
        let chain = chain.iter().map(|certificate| certificate.clone().into_owned());
        let peer = Arc::new(Peer::new(connection.client(), chain.collect()));
        let is_front_proxy = self.adapter.is_front_proxy(&peer);
        if is_front_proxy {
            connection.set_class(ClientClass::Protected);
        }
        let limits = self.options.request_limits(is_front_proxy);
        // Also cancelled if the client has become a front proxy, because its CA was loaded or
        // replaced since. Its next connection has the limits of front proxies.
        let finish = self.stop.child_token();
        let client = Arc::new(Client::new(peer, self.users.clone(), is_front_proxy));
        let shared = (client.clone(), self.adapter.clone(), connection.clone(), finish.clone());
        let service = service_fn(move |request: Request<Incoming>| {
            let (client, adapter, connection, finish) = shared.clone();
            // Drops a head with too many headers here. If the future below captured it, it would
            // stay in memory until the future is first polled.
            let (head, _) = request.into_parts();
            let head = (head.headers.len() <= limits.headers).then_some(head);
            async move {
                let running = connection.count_request();
                let response = match head {
                    Some(head) => client.respond(&adapter, &head, &connection).await,
                    None => too_many_headers(),
                };
                if !is_front_proxy && adapter.is_front_proxy(client.peer()) {
                    finish.cancel();
                }
                Ok::<_, Infallible>(response.map(|bytes| Full::new(running.track_body(bytes))))
            }
        });
        let builder = connection_builder(is_http2, limits);
        let (reader, writer) = split(stream);
        let reader = ReadRate::new(reader, move || client.read_budget());
        let stream = TokioIo::new(join(reader, WriteTimeout::new(writer, WRITE_TIMEOUT)));
        let mut served = std::pin::pin!(builder.serve_connection(stream, service));
        let outcome = tokio::select! {
            outcome = served.as_mut() => outcome,
            reason = connection.expired() => match reason {
                CloseReason::Idle => {
                    served.as_mut().graceful_shutdown();
                    timeout(CLOSE_TIMEOUT, served).await.unwrap_or(Ok(()))
                }
                CloseReason::Unread => {
                    debug!("closed a connection whose client didn't read a response");
                    Ok(())
                }
            },
            () = connection.evicted() => {
                debug!("closed a connection: there are too many connections or unread responses");
                Ok(())
            }
            () = finish.cancelled() => {
                served.as_mut().graceful_shutdown();
                timeout(STOP_TIMEOUT, served).await.unwrap_or(Ok(()))
            }
        };
        if let Err(error) = outcome {
            debug!(%error, "connection failed");
        }
    }
}

/// A builder for the protocol that ALPN chose. hyper could also detect the protocol by the first
/// bytes, but without a time limit.
fn connection_builder(is_http2: bool, limits: RequestLimits) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_headers(limits.headers)
        .max_buf_size(limits.header_bytes as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_INTERVAL)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_header_list_size(limits.header_bytes)
        .max_concurrent_streams(limits.streams);
    if is_http2 { builder.http2_only() } else { builder.http1_only() }
}
