//! Serves `/metrics`, `/healthz` and `/readyz` over HTTP or HTTPS.

mod body;
mod connections;
mod renderer;
#[cfg(test)]
mod tests;

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context;
use hpa_controller::{HealthError, Telemetry, metrics::CONTENT_TYPE};
use hpa_serve::{Handshake, ServingCertificate};
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, info};

use crate::args::ObservationArguments;
use body::Text;
use connections::{Connection, Connections, Scrape};
use renderer::Renderer;

/// How long a client may take to send a request head, from when the connection is open or the last
/// response is sent. Prometheus, which scrapes less often, opens a connection for each scrape.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum age of a connection, for a client that doesn't read its response.
const MAX_CONNECTION_AGE: Duration = Duration::from_mins(5);

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

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
        (Some(certificates), Some(key)) => Some(ServingCertificate::from_files(
            certificates.clone(),
            key.clone(),
            Handshake::default(),
        )?),
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
    certificates: Option<ServingCertificate>,
    telemetry: Arc<Telemetry>,
) -> anyhow::Result<(Server, SocketAddr)> {
    let listener = TcpListener::bind(address).await.with_context(|| {
        format!("unable to serve metrics and probes on {address} (--bind-address, --metrics-port)")
    })?;
    let address = listener.local_addr()?;
    let stop = CancellationToken::new();
    let rendered = telemetry.clone();
    let endpoints = Arc::new(Endpoints {
        certificates,
        telemetry,
        renderer: Renderer::new(move || rendered.render()),
        connections: Arc::default(),
        stop: stop.clone(),
    });
    Ok((Server { task: tokio::spawn(endpoints.listen(listener)), stop }, address))
}

/// The state that connections share.
struct Endpoints {
    certificates: Option<ServingCertificate>,
    telemetry: Arc<Telemetry>,
    renderer: Renderer,
    connections: Arc<Connections>,
    stop: CancellationToken,
}

impl Endpoints {
    async fn listen(self: Arc<Self>, listener: TcpListener) {
        let tasks = TaskTracker::new();
        loop {
            tokio::select! {
                () = self.stop.cancelled() => break,
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        let connection = self.connections.open();
                        let endpoints = self.clone();
                        tasks.spawn(async move {
                            tokio::select! {
                                () = connection.replaced() => {
                                    debug!("closed a connection to make room for another one");
                                }
                                () = endpoints.serve_connection(stream, &connection) => {}
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
            let response = self.respond(request.method(), request.uri().path(), connection);
            Ok::<_, Infallible>(response.await)
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

    async fn respond(
        &self,
        method: &Method,
        path: &str,
        connection: &Connection,
    ) -> Response<Text> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            let text = "only GET and HEAD are supported\n";
            return respond_with(StatusCode::METHOD_NOT_ALLOWED, text.into(), None);
        }
        if path == "/metrics" {
            return self.metrics(connection.begin_scrape()).await;
        }
        connection.touch();
        match path {
            "/healthz" => health(self.telemetry.alive()),
            "/readyz" => health(self.telemetry.ready()),
            _ => {
                let text = "not found; try /metrics, /healthz or /readyz\n";
                respond_with(StatusCode::NOT_FOUND, text.into(), None)
            }
        }
    }

    async fn metrics(&self, scrape: Scrape) -> Response<Text> {
        match self.renderer.render().await {
            Ok(metrics) => respond_with(StatusCode::OK, metrics, Some(scrape)),
            Err(error) => {
                respond_with(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n"), None)
            }
        }
    }
}

fn health(outcome: Result<(), HealthError>) -> Response<Text> {
    match outcome {
        Ok(()) => respond_with(StatusCode::OK, "ok\n".into(), None),
        Err(error) => respond_with(StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n"), None),
    }
}

fn respond_with(status: StatusCode, text: String, scrape: Option<Scrape>) -> Response<Text> {
    let mut response = Response::new(Text::new(text, scrape));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
    response
}
