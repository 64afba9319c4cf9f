//! Accepts TLS connections and serves requests with HTTP/1.1 and HTTP/2.

mod certificate;
mod connections;
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
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpSocket, TcpStream},
    time::timeout,
};
use tokio_rustls::server::TlsStream;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::debug;

pub use certificate::{CertificateError, HandshakeSettings, ServingCertificate};
pub use connections::{ClientClass, Connection, ConnectionLimits, Connections, RunningRequest};

use self::{connections::CloseReason, write_timeout::WriteTimeout};
use crate::{authentication::Peer, service::Adapter};

/// The time limit for receiving the head of an HTTP/1.1 request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(32);

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The interval between pings on an idle HTTP/2 connection.
const PING_INTERVAL: Duration = Duration::from_secs(30);

/// The time limit for requests in progress at shutdown.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// The time for which a client may read nothing.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// Each instance of kube-apiserver needs only a few connections. An unread response takes about 2
/// KiB in addition to its body.
const LIMITS: ConnectionLimits =
    ConnectionLimits { connections: 1024, authenticated: 512, unread: 2048 };

/// The maximum number of connections that wait to be accepted. The kernel caps it at
/// `net.core.somaxconn`. It drops further connections, and clients repeat them only after a second,
/// so a burst would delay probes.
const BACKLOG: u32 = 4096;

/// The maximum size of request headers. A front proxy sends a header for each group of the user.
const MAX_HEADER_BYTES: u32 = 64 << 10;
const MAX_HEADERS: usize = 1024;

/// The maximum length of a client's certificate chain.
const MAX_CHAIN_BYTES: usize = 16 << 10;

/// The time limit for closing an idle connection.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// The default limit of concurrent requests on an HTTP/2 connection, as in kube-apiserver.
const MAX_STREAMS: u32 = 250;

/// Options of connections.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServerOptions {
    /// HTTP/1.1 only.
    pub disable_http2: bool,
    /// The maximum number of concurrent requests on an HTTP/2 connection. `None` for the default.
    pub max_streams: Option<u32>,
}

impl ServerOptions {
    /// The protocols for ALPN, by preference.
    pub fn protocols(self) -> Vec<Vec<u8>> {
        let http1 = b"http/1.1".to_vec();
        if self.disable_http2 { vec![http1] } else { vec![b"h2".to_vec(), http1] }
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

/// A bound listener, whose connections [`Server::serve`] accepts.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
}

impl Server {
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = listen(address).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// The address with the bound port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves connections until `stop` is cancelled. Then finishes requests in progress, for at
    /// most a minute.
    pub async fn serve(
        self,
        adapter: Arc<Adapter>,
        certificate: Arc<ServingCertificate>,
        options: ServerOptions,
        stop: CancellationToken,
    ) {
        let tasks = TaskTracker::new();
        let connections = Connections::new(LIMITS);
        let shared = Arc::new(ServerState { adapter, certificate, options, stop: stop.clone() });
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => break,
                accepted = self.listener.accept() => accepted,
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
                    let shared = shared.clone();
                    tasks.spawn(async move { shared.serve(stream, connection).await });
                }
                Err(error) => {
                    debug!(%error, "failed to accept a connection");
                    // Without a pause, a lack of file descriptors would become a busy loop.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
        drop(self.listener);
        tasks.close();
        timeout(STOP_TIMEOUT, tasks.wait()).await.ok();
    }
}

/// The state shared by connections.
struct ServerState {
    adapter: Arc<Adapter>,
    certificate: Arc<ServingCertificate>,
    options: ServerOptions,
    stop: CancellationToken,
}

impl ServerState {
    async fn serve(&self, stream: TcpStream, connection: Arc<Connection>) {
        stream.set_nodelay(true).ok();
        let handshake = timeout(HANDSHAKE_TIMEOUT, self.certificate.acceptor().accept(stream));
        let accepted = tokio::select! {
            accepted = handshake => accepted,
            () = connection.replaced() => {
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
        if self.adapter.is_front_proxy(&peer) {
            connection.set_class(ClientClass::Protected);
        }
        let (adapter, tracked) = (self.adapter.clone(), connection.clone());
        let service = service_fn(move |request: Request<Incoming>| {
            let (peer, adapter, connection) = (peer.clone(), adapter.clone(), tracked.clone());
            async move {
                let running = connection.count_request();
                let (head, _) = request.into_parts();
                let response = adapter.respond(&head, &peer).await;
                if peer.is_authenticated() {
                    connection.set_class(ClientClass::Authenticated);
                }
                Ok::<_, Infallible>(response.map(|bytes| Full::new(running.track_body(bytes))))
            }
        });
        let builder = self.connection_builder(is_http2);
        let stream = TokioIo::new(WriteTimeout::new(stream, WRITE_TIMEOUT));
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
            () = connection.replaced() => {
                debug!("closed a connection to make room for another one");
                Ok(())
            }
            () = self.stop.cancelled() => {
                served.as_mut().graceful_shutdown();
                served.await
            }
        };
        if let Err(error) = outcome {
            debug!(%error, "connection failed");
        }
    }

    /// A builder for the protocol that ALPN chose. hyper could also detect the protocol by the
    /// first bytes, but without a time limit.
    fn connection_builder(&self, is_http2: bool) -> auto::Builder<TokioExecutor> {
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_headers(MAX_HEADERS)
            .max_buf_size(MAX_HEADER_BYTES as usize);
        builder
            .http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_INTERVAL)
            .max_header_list_size(MAX_HEADER_BYTES)
            .max_concurrent_streams(self.options.max_streams.unwrap_or(MAX_STREAMS));
        if is_http2 { builder.http2_only() } else { builder.http1_only() }
    }
}
