//! The endpoints `/metrics`, `/healthz` and `/readyz`, by HTTP or HTTPS.

#[cfg(test)]
mod tests;
mod tls;

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context;
use hpa_controller::{
    health::HealthError,
    metrics::{CONTENT_TYPE, Telemetry},
};
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

/// How many connections are served at once; more wait.
const CONNECTIONS: usize = 64;

/// How long a connection may be idle, or take to send the head of a request: more than a scrape interval.
const HEAD_TIMEOUT: Duration = Duration::from_mins(2);

/// How long a connection may live. A client that does not read its answer is not to keep a place for ever.
const LIFETIME: Duration = Duration::from_mins(30);

/// How long a TLS handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long answers may take to be sent at the end.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// Endpoints that are served.
pub(crate) struct Serving {
    task: JoinHandle<()>,
    stop: CancellationToken,
}

impl Serving {
    /// Ends it: takes no more connections and finishes the answers under way.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.task.await.ok();
    }
}

/// Serves the endpoints in the background, if that is wanted. Port and certificates are seen to be usable first.
pub(crate) async fn start(
    arguments: &ObservationArguments,
    telemetry: &Arc<Telemetry>,
) -> anyhow::Result<Option<Serving>> {
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
    info!(%address, tls = arguments.tls_cert_file.is_some(), "serving /metrics, /healthz and /readyz");
    Ok(Some(serving))
}

/// Serves at an address; which one it is in the end, where the system chose the port.
async fn serve(
    address: SocketAddr,
    certificates: Option<Certificates>,
    telemetry: Arc<Telemetry>,
) -> anyhow::Result<(Serving, SocketAddr)> {
    let listener = TcpListener::bind(address).await.with_context(|| {
        format!("cannot serve metrics and health on {address} (--bind-address, --metrics-port)")
    })?;
    let address = listener.local_addr()?;
    let stop = CancellationToken::new();
    let server = Arc::new(Server { certificates, telemetry, stop: stop.clone() });
    Ok((Serving { task: tokio::spawn(server.listen(listener)), stop }, address))
}

/// What connections share.
struct Server {
    certificates: Option<Certificates>,
    telemetry: Arc<Telemetry>,
    stop: CancellationToken,
}

impl Server {
    async fn listen(self: Arc<Self>, listener: TcpListener) {
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        let connections = TaskTracker::new();
        loop {
            let accepted = async {
                let place = places.clone().acquire_owned().await;
                (place, listener.accept().await)
            };
            tokio::select! {
                () = self.stop.cancelled() => break,
                (place, accepted) = accepted => match accepted {
                    Ok((stream, _)) => {
                        let server = self.clone();
                        connections.spawn(async move {
                            let _place = place;
                            server.connection(stream).await;
                        });
                    }
                    Err(error) => {
                        debug!(%error, "cannot accept a connection");
                        // Out of files, it would fail at once again.
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                },
            }
        }
        drop(listener);
        connections.close();
        timeout(STOP_TIMEOUT, connections.wait()).await.ok();
    }

    async fn connection(self: Arc<Self>, stream: TcpStream) {
        let Some(certificates) = &self.certificates else { return self.exchange(stream).await };
        match timeout(HANDSHAKE_TIMEOUT, certificates.acceptor().accept(stream)).await {
            Ok(Ok(stream)) => self.exchange(stream).await,
            Ok(Err(error)) => debug!(%error, "the TLS handshake failed"),
            Err(_) => debug!("the TLS handshake took too long"),
        }
    }

    /// Answers the requests of a connection.
    async fn exchange(&self, stream: impl AsyncRead + AsyncWrite + Unpin) {
        let service = service_fn(|request: Request<Incoming>| async move {
            Ok::<_, Infallible>(self.answer(request.method(), request.uri().path()).await)
        });
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
        let mut connection =
            std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
        let outcome = tokio::select! {
            outcome = timeout(LIFETIME, connection.as_mut()) => outcome,
            () = self.stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                timeout(STOP_TIMEOUT, connection).await
            }
        };
        if let Ok(Err(error)) = outcome {
            debug!(%error, "a connection broke off");
        }
    }

    async fn answer(&self, method: &Method, path: &str) -> Response<Full<Bytes>> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only GET\n".into());
        }
        match path {
            "/healthz" => health(self.telemetry.alive()),
            "/readyz" => health(self.telemetry.ready()),
            "/metrics" => {
                let telemetry = self.telemetry.clone();
                // With many autoscalers it takes a while, which is not to hold up the workers.
                match tokio::task::spawn_blocking(move || telemetry.render()).await {
                    Ok(metrics) => text(StatusCode::OK, metrics),
                    Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
                }
            }
            _ => text(StatusCode::NOT_FOUND, "there are /metrics, /healthz and /readyz\n".into()),
        }
    }
}

fn health(outcome: Result<(), HealthError>) -> Response<Full<Bytes>> {
    match outcome {
        Ok(()) => text(StatusCode::OK, "ok\n".into()),
        Err(unfit) => text(StatusCode::SERVICE_UNAVAILABLE, format!("{unfit}\n")),
    }
}

fn text(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
    response
}
