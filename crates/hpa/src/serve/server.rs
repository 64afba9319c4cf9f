//! A small HTTP server that idle and slow clients can't block.

use std::{convert::Infallible, io, net::SocketAddr, sync::Arc, thread, time::Duration};

use async_trait::async_trait;
use hpa_adapter::server::{
    Connection, ConnectionLimits, Connections, RunningRequest, ServingCertificate, listen,
    serve_connections,
};
use http::{Request, Response};
use http_body_util::Full;
use hyper::{
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    runtime::{self, Runtime},
    sync::oneshot,
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use tracing::debug;

/// Time limit for receiving a request head, from the start of the connection or the end of the last
/// response. Scrapes are less frequent, so Prometheus opens a connection for each.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum age of a connection. It ends connections whose client doesn't read the response.
const MAX_CONNECTION_AGE: Duration = Duration::from_mins(5);

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit for responses in progress at shutdown.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// The maximum number of connections. A further connection replaces one that is idle or doesn't
/// read its response, so that idle connections can't block the kubelet's probes.
const MAX_CONNECTIONS: usize = 64;

/// Responds to the requests of a [`Server`].
#[async_trait]
pub(crate) trait Endpoints: Send + Sync + 'static {
    async fn respond(
        &self,
        request: &Request<Incoming>,
        connection: &Arc<Connection>,
    ) -> Response<Bytes>;
}

/// Marks a connection as used. The server prefers to close those that have been idle for longer.
pub(crate) fn mark_used(connection: &Arc<Connection>) {
    drop(connection.count_request());
}

/// Starts a response that takes time and memory. If too many such responses are in progress, closes
/// the connection of the oldest one. A response that waits for rendering counts as unread.
/// Otherwise, waiting requests could occupy all connections and keep probes out, because a
/// connection with a request in progress can't be replaced. The response is in progress until the
/// bytes of [`RunningRequest::track_body`] have been sent.
pub(crate) fn begin_long_response(connection: &Arc<Connection>) -> RunningRequest {
    let mut request = connection.count_request();
    request.count_response();
    request
}

/// A running server.
pub(crate) struct Server {
    /// Its sender is dropped when the server has ended.
    ended: oneshot::Receiver<()>,
    stop: CancellationToken,
}

impl Server {
    /// A server, and the future that serves at its listener until the server is stopped. At most
    /// `max_long_responses` long responses are in progress at the same time.
    fn new(
        listener: TcpListener,
        certificate: Option<ServingCertificate>,
        max_long_responses: usize,
        endpoints: impl Endpoints,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let limits = ConnectionLimits {
            connections: MAX_CONNECTIONS,
            unknown: MAX_CONNECTIONS,
            authenticated: 0,
            unread: max_long_responses,
        };
        let stop = CancellationToken::new();
        let shared = Arc::new(SharedState {
            certificate,
            endpoints,
            connections: Connections::new(limits),
            stop: stop.clone(),
        });
        let (sender, ended) = oneshot::channel::<()>();
        let running = async move {
            shared.listen(listener).await;
            drop(sender);
        };
        (Self { ended, stop }, running)
    }

    /// Stops accepting connections, and finishes the responses in progress within [`STOP_TIMEOUT`].
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.ended.await.ok();
    }
}

/// Serves at an address, on the current runtime. Returns the server, and the address with the
/// actual port. At most `max_long_responses` long responses are in progress at the same time.
pub(crate) async fn serve(
    address: SocketAddr,
    certificate: Option<ServingCertificate>,
    max_long_responses: usize,
    endpoints: impl Endpoints,
) -> io::Result<(Server, SocketAddr)> {
    let listener = listen(address).await?;
    let address = listener.local_addr()?;
    let (server, running) = Server::new(listener, certificate, max_long_responses, endpoints);
    tokio::spawn(running);
    Ok((server, address))
}

/// Like [`serve`], on a new thread: work of the current runtime doesn't delay responses.
pub(crate) async fn serve_on_thread(
    address: SocketAddr,
    certificate: Option<ServingCertificate>,
    max_long_responses: usize,
    endpoints: impl Endpoints,
) -> io::Result<(Server, SocketAddr)> {
    let listener = listen(address).await?;
    let address = listener.local_addr()?;
    let listener = listener.into_std()?;
    let thread = thread::Builder::new().name("probes".to_owned());
    let new_server =
        move |listener| Server::new(listener, certificate, max_long_responses, endpoints);
    Ok((start_on_thread(thread, listener, new_server).await?, address))
}

/// Starts a server on a new thread, with a runtime that is built there. If the thread can't be
/// spawned, there must be no runtime: dropping one within another runtime panics.
async fn start_on_thread<F: Future<Output = ()>>(
    thread: thread::Builder,
    listener: std::net::TcpListener,
    new_server: impl FnOnce(TcpListener) -> (Server, F) + Send + 'static,
) -> io::Result<Server> {
    let (sender, started) = oneshot::channel();
    thread.spawn(move || match new_runtime(listener) {
        Ok((runtime, listener)) => {
            let (server, running) = new_server(listener);
            sender.send(Ok(server)).ok();
            runtime.block_on(running);
        }
        Err(error) => {
            sender.send(Err(error)).ok();
        }
    })?;
    started.await.map_err(io::Error::other)?
}

/// A runtime for one thread, and the listener on it.
fn new_runtime(listener: std::net::TcpListener) -> io::Result<(Runtime, TcpListener)> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let listener = {
        let _context = runtime.enter();
        TcpListener::from_std(listener)?
    };
    Ok((runtime, listener))
}

/// The state that connections share.
struct SharedState<E> {
    certificate: Option<ServingCertificate>,
    endpoints: E,
    connections: Arc<Connections>,
    stop: CancellationToken,
}

impl<E: Endpoints> SharedState<E> {
    async fn listen(self: Arc<Self>, listener: TcpListener) {
        let serve = |stream, connection: Arc<Connection>| {
            let shared = self.clone();
            async move {
                tokio::select! {
                    () = connection.evicted() => {
                        debug!(
                            "closed a connection: there are too many connections or unread \
                             responses"
                        );
                    }
                    () = shared.serve_connection(stream, &connection) => {}
                }
            }
        };
        serve_connections(listener, &self.connections, &self.stop, STOP_TIMEOUT, serve).await;
    }

    async fn serve_connection(&self, stream: TcpStream, connection: &Arc<Connection>) {
        let Some(certificate) = &self.certificate else {
            return self.serve_requests(stream, connection).await;
        };
        match timeout(HANDSHAKE_TIMEOUT, certificate.acceptor().accept(stream)).await {
            Ok(Ok(stream)) => self.serve_requests(stream, connection).await,
            Ok(Err(error)) => debug!(%error, "TLS handshake failed"),
            Err(_) => debug!("TLS handshake timed out"),
        }
    }

    async fn serve_requests(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        connection: &Arc<Connection>,
    ) {
        let service = service_fn(|request: Request<Incoming>| async move {
            let response = self.endpoints.respond(&request, connection).await;
            Ok::<_, Infallible>(response.map(Full::new))
        });
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
        let mut connection =
            std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
        let outcome = tokio::select! {
            outcome = timeout(MAX_CONNECTION_AGE, connection.as_mut()) => outcome,
            () = self.stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                timeout(STOP_TIMEOUT, connection).await
            }
        };
        if let Ok(Err(error)) = outcome {
            debug!(%error, "connection failed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn thread_that_cannot_be_spawned_is_an_error() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
        // No address space has room for this stack.
        let thread = thread::Builder::new().stack_size(usize::MAX / 4);
        let new_server =
            |_: TcpListener| -> (Server, std::future::Ready<()>) { panic!("it must not start") };
        assert!(start_on_thread(thread, listener, new_server).await.is_err());
    }
}
