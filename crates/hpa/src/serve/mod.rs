//! Serves `/metrics`, `/healthz` and `/readyz` over HTTP or HTTPS. The debug API and the probes of
//! `hpa adapter` use the same server.

mod heartbeat;
mod renderer;
mod server;
#[cfg(test)]
mod tests;

use std::{fmt::Display, net::SocketAddr, sync::Arc};

use anyhow::Context;
use async_trait::async_trait;
use hpa_adapter::server::{Connection, HandshakeSettings, RunningRequest, ServingCertificate};
use hpa_controller::{Telemetry, metrics::CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::{Bytes, Incoming};
use tracing::info;

pub(crate) use self::{
    heartbeat::Heartbeat,
    renderer::Renderer,
    server::{Endpoints, Server, begin_long_response, mark_used, serve, serve_on_thread},
};
use crate::args::ObservationArguments;

/// The maximum number of concurrent scrapes of `/metrics`.
const MAX_SCRAPES: usize = 4;

/// Starts the server unless the port is 0. Fails if the port or the certificates are unusable.
pub(crate) async fn start(
    arguments: &ObservationArguments,
    telemetry: &Arc<Telemetry>,
) -> anyhow::Result<Option<Server>> {
    if arguments.metrics_port == 0 {
        return Ok(None);
    }
    let certificate = load_certificate(arguments)?;
    let address = SocketAddr::new(arguments.bind_address, arguments.metrics_port);
    let (serving, _) = serve_telemetry(address, certificate, telemetry.clone()).await?;
    let tls = arguments.tls_cert_file.is_some();
    info!(%address, tls, "serving /metrics, /healthz and /readyz");
    Ok(Some(serving))
}

/// The certificate in the files that the flags name. `None` without these flags.
pub(crate) fn load_certificate(
    arguments: &ObservationArguments,
) -> anyhow::Result<Option<ServingCertificate>> {
    let files = (&arguments.tls_cert_file, &arguments.tls_private_key_file);
    let (Some(certificates), Some(key)) = files else { return Ok(None) };
    let (certificates, key) = (certificates.clone(), key.clone());
    Ok(Some(ServingCertificate::from_files(certificates, key, HandshakeSettings::default())?))
}

/// Serves metrics and probes. Returns the server, and the address with the actual port.
async fn serve_telemetry(
    address: SocketAddr,
    certificate: Option<ServingCertificate>,
    telemetry: Arc<Telemetry>,
) -> anyhow::Result<(Server, SocketAddr)> {
    if let Some(certificate) = &certificate {
        telemetry.attach_collector(Arc::new(certificate.not_after_gauge()));
    }
    let (heartbeat, renderer) = (Heartbeat::start(), Renderer::default());
    let endpoints = TelemetryEndpoints { telemetry, heartbeat, renderer };
    serve_on_thread(address, certificate, MAX_SCRAPES, endpoints).await.with_context(|| {
        format!("unable to serve metrics and probes on {address} (--bind-address, --metrics-port)")
    })
}

/// `/metrics`, `/healthz` and `/readyz`.
struct TelemetryEndpoints {
    telemetry: Arc<Telemetry>,
    heartbeat: Arc<Heartbeat>,
    renderer: Renderer,
}

#[async_trait]
impl Endpoints for TelemetryEndpoints {
    async fn respond(
        &self,
        request: &Request<Incoming>,
        connection: &Arc<Connection>,
    ) -> Response<Bytes> {
        let (method, path) = (request.method(), request.uri().path());
        if !matches!(*method, Method::GET | Method::HEAD) {
            let text = "only GET and HEAD are supported\n";
            return text_response(StatusCode::METHOD_NOT_ALLOWED, text);
        }
        if path == "/metrics" {
            return self.metrics(begin_long_response(connection)).await;
        }
        mark_used(connection);
        match (path, self.heartbeat.check()) {
            ("/healthz" | "/readyz", Err(stuck)) => health_response(Err(stuck)),
            ("/healthz", Ok(())) => health_response(self.telemetry.alive()),
            ("/readyz", Ok(())) => health_response(self.telemetry.ready()),
            _ => {
                let text = "not found; try /metrics, /healthz or /readyz\n";
                text_response(StatusCode::NOT_FOUND, text)
            }
        }
    }
}

impl TelemetryEndpoints {
    async fn metrics(&self, response: RunningRequest) -> Response<Bytes> {
        let telemetry = self.telemetry.clone();
        match self.renderer.render(move || telemetry.render()).await {
            Ok(metrics) => text_response(StatusCode::OK, response.track_body(metrics.into())),
            Err(error) => text_response(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
        }
    }
}

pub(crate) fn health_response(outcome: Result<(), impl Display>) -> Response<Bytes> {
    match outcome {
        Ok(()) => text_response(StatusCode::OK, "ok\n"),
        Err(error) => text_response(StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")),
    }
}

/// A response in plain text.
pub(crate) fn text_response(status: StatusCode, text: impl Into<Bytes>) -> Response<Bytes> {
    let mut response = Response::new(text.into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
    response
}
