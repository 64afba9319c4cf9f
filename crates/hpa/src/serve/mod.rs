//! Serves `/metrics`, `/healthz` and `/readyz` over HTTP or HTTPS.

#[cfg(test)]
mod tests;
mod tls;

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context;
use hpa_controller::{HealthError, Telemetry, metrics::CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
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
    sync::Semaphore,
    task::JoinHandle,
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, info};

use crate::args::ObservationArguments;
use tls::Certificates;

/// Connections served concurrently; more wait.
const MAX_CONNECTIONS: usize = 64;

/// How long a connection may stay idle or take to send a request head. Longer than a usual scrape
/// interval, so that Prometheus can reuse its connection.
const HEAD_TIMEOUT: Duration = Duration::from_mins(2);

/// Maximum age of a connection, so that a client that doesn't read its response can't hold a slot
/// forever.
const MAX_CONNECTION_AGE: Duration = Duration::from_mins(30);

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long responses in progress may take at shutdown.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

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

/// Starts the server unless the port is 0. Fails if the port or the certificates are unusable.
pub(crate) async fn start(
    arguments: &ObservationArguments,
    telemetry: &Arc<Telemetry>,
) -> anyhow::Result<Option<Server>> {
    if arguments.metrics_port == 0 {
        return Ok(None);
    }
    let certificates = match (&arguments.tls_cert_file, &arguments.tls_private_key_file) {
        (Some(certificates), Some(key)) => {
            Some(Certificates::load(certificates.clone(), key.clone())?)
        }
        _ => None,
    };
    let address = SocketAddr::new(arguments.bind_address, arguments.metrics_port);
    let (serving, _) = serve(address, certificates, telemetry.clone()).await?;
    let tls = arguments.tls_cert_file.is_some();
    info!(%address, tls, "serving /metrics, /healthz and /readyz");
    Ok(Some(serving))
}

/// Serves at an address and returns it with the actual port.
async fn serve(
    address: SocketAddr,
    certificates: Option<Certificates>,
    telemetry: Arc<Telemetry>,
) -> anyhow::Result<(Server, SocketAddr)> {
    let listener = TcpListener::bind(address).await.with_context(|| {
        format!("unable to serve metrics and probes on {address} (--bind-address, --metrics-port)")
    })?;
    let address = listener.local_addr()?;
    let stop = CancellationToken::new();
    let endpoints = Arc::new(Endpoints { certificates, telemetry, stop: stop.clone() });
    Ok((Server { task: tokio::spawn(endpoints.listen(listener)), stop }, address))
}

/// The state that connections share.
struct Endpoints {
    certificates: Option<Certificates>,
    telemetry: Arc<Telemetry>,
    stop: CancellationToken,
}

impl Endpoints {
    async fn listen(self: Arc<Self>, listener: TcpListener) {
        let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let connections = TaskTracker::new();
        loop {
            let accepted = async {
                let slot = slots.clone().acquire_owned().await;
                (slot, listener.accept().await)
            };
            tokio::select! {
                () = self.stop.cancelled() => break,
                (slot, accepted) = accepted => match accepted {
                    Ok((stream, _)) => {
                        let endpoints = self.clone();
                        connections.spawn(async move {
                            let _slot = slot;
                            endpoints.serve_connection(stream).await;
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
        connections.close();
        timeout(STOP_TIMEOUT, connections.wait()).await.ok();
    }

    async fn serve_connection(self: Arc<Self>, stream: TcpStream) {
        let Some(certificates) = &self.certificates else {
            return self.serve_requests(stream).await;
        };
        match timeout(HANDSHAKE_TIMEOUT, certificates.acceptor().accept(stream)).await {
            Ok(Ok(stream)) => self.serve_requests(stream).await,
            Ok(Err(error)) => debug!(%error, "TLS handshake failed"),
            Err(_) => debug!("TLS handshake timed out"),
        }
    }

    async fn serve_requests(&self, stream: impl AsyncRead + AsyncWrite + Unpin) {
        let service = service_fn(|request: Request<Incoming>| async move {
            Ok::<_, Infallible>(self.respond(request.method(), request.uri().path()).await)
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

    async fn respond(&self, method: &Method, path: &str) -> Response<Full<Bytes>> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            return text(
                StatusCode::METHOD_NOT_ALLOWED,
                "only GET and HEAD are supported\n".into(),
            );
        }
        match path {
            "/healthz" => health(self.telemetry.alive()),
            "/readyz" => health(self.telemetry.ready()),
            "/metrics" => {
                let telemetry = self.telemetry.clone();
                // Rendering takes long with many autoscalers and must not block the workers.
                match tokio::task::spawn_blocking(move || telemetry.render()).await {
                    Ok(metrics) => text(StatusCode::OK, metrics),
                    Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
                }
            }
            _ => {
                text(StatusCode::NOT_FOUND, "not found; try /metrics, /healthz or /readyz\n".into())
            }
        }
    }
}

fn health(outcome: Result<(), HealthError>) -> Response<Full<Bytes>> {
    match outcome {
        Ok(()) => text(StatusCode::OK, "ok\n".into()),
        Err(error) => text(StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")),
    }
}

fn text(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
    response
}
