//! A small HTTP server: idle and slow clients can't keep others out.

use std::{convert::Infallible, io, net::SocketAddr, sync::Arc, time::Duration};

use async_trait::async_trait;
use hpa_adapter::serve::ServingCertificate;
use http::{Request, Response};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::debug;

use super::{
    body::Text,
    connections::{Connection, Connections},
};

/// How long a client may take to send a request head, from when the connection is open or the last
/// response is sent. Prometheus, which scrapes less often, opens a connection for each scrape.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum age of a connection, for a client that doesn't read its response.
const MAX_CONNECTION_AGE: Duration = Duration::from_mins(5);

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long responses in progress may take at shutdown.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// Answers requests.
#[async_trait]
pub(crate) trait Endpoints: Send + Sync + 'static {
    /// Answers a request of a connection.
    async fn respond(&self, request: &Request<Incoming>, connection: &Connection)
    -> Response<Text>;
}

/// A running server.
pub(crate) struct Server {
    task: JoinHandle<()>,
    stop: CancellationToken,
}

impl Server {
    /// Stops accepting connections and finishes the responses in progress.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.task.await.ok();
    }
}

/// Serves at an address and returns it with the actual port. `max_long_responses` may be in
/// progress at a time.
pub(crate) async fn serve(
    address: SocketAddr,
    certificates: Option<ServingCertificate>,
    max_long_responses: usize,
    endpoints: impl Endpoints,
) -> io::Result<(Server, SocketAddr)> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    let stop = CancellationToken::new();
    let listening = Arc::new(Listening {
        certificates,
        endpoints,
        connections: Arc::new(Connections::new(max_long_responses)),
        stop: stop.clone(),
    });
    Ok((Server { task: tokio::spawn(listening.listen(listener)), stop }, address))
}

/// The state that connections share.
struct Listening<E> {
    certificates: Option<ServingCertificate>,
    endpoints: E,
    connections: Arc<Connections>,
    stop: CancellationToken,
}

impl<E: Endpoints> Listening<E> {
    async fn listen(self: Arc<Self>, listener: TcpListener) {
        let tasks = TaskTracker::new();
        loop {
            tokio::select! {
                () = self.stop.cancelled() => break,
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        let connection = self.connections.open();
                        let listening = self.clone();
                        tasks.spawn(async move {
                            tokio::select! {
                                () = connection.replaced() => {
                                    debug!("closed a connection to make room for another one");
                                }
                                () = listening.serve_connection(stream, &connection) => {}
                            }
                        });
                    }
                    Err(error) => {
                        debug!(%error, "failed to accept a connection");
                        // Without a pause, running out of file descriptors would become a busy
                        // loop.
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                },
            }
        }
        drop(listener);
        tasks.close();
        timeout(STOP_TIMEOUT, tasks.wait()).await.ok();
    }

    async fn serve_connection(&self, stream: TcpStream, connection: &Connection) {
        let Some(certificates) = &self.certificates else {
            return self.serve_requests(stream, connection).await;
        };
        match timeout(HANDSHAKE_TIMEOUT, certificates.acceptor().accept(stream)).await {
            Ok(Ok(stream)) => self.serve_requests(stream, connection).await,
            Ok(Err(error)) => debug!(%error, "TLS handshake failed"),
            Err(_) => debug!("TLS handshake timed out"),
        }
    }

    async fn serve_requests(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        connection: &Connection,
    ) {
        let service = service_fn(|request: Request<Incoming>| async move {
            Ok::<_, Infallible>(self.endpoints.respond(&request, connection).await)
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
