//! Serves `/metrics`, `/healthz` and `/readyz` over HTTP or HTTPS.

mod renderer;
mod server;
#[cfg(test)]
mod tests;

use std::{net::SocketAddr, sync::Arc};

use anyhow::Context;
use async_trait::async_trait;
use hpa_adapter::server::{Connection, Handshake, RunningRequest, ServingCertificate};
use hpa_controller::{HealthError, Telemetry, metrics::CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use tracing::info;

pub(crate) use self::{
    renderer::Renderer,
    server::{Endpoints, Server, Text, begin_long_response, serve},
};
use crate::args::ObservationArguments;

/// Limit for concurrent scrapes of `/metrics`.
const MAX_SCRAPES: usize = 4;

/// Starts the server unless the port is 0. Fails if the port or the certificates are unusable.
pub(crate) async fn start(
    arguments: &ObservationArguments,
    telemetry: &Arc<Telemetry>,
) -> anyhow::Result<Option<Server>> {
    if arguments.metrics_port == 0 {
        return Ok(None);
    }
    let certificates = certificates(arguments)?;
    let address = SocketAddr::new(arguments.bind_address, arguments.metrics_port);
    let (serving, _) = serve_telemetry(address, certificates, telemetry.clone()).await?;
    let tls = arguments.tls_cert_file.is_some();
    info!(%address, tls, "serving /metrics, /healthz and /readyz");
    Ok(Some(serving))
}

/// The certificate from the files that the flags name.
pub(crate) fn certificates(
    arguments: &ObservationArguments,
) -> anyhow::Result<Option<ServingCertificate>> {
    let files = (&arguments.tls_cert_file, &arguments.tls_private_key_file);
    let (Some(certificates), Some(key)) = files else { return Ok(None) };
    let (certificates, key) = (certificates.clone(), key.clone());
    Ok(Some(ServingCertificate::from_files(certificates, key, Handshake::default())?))
}

/// Serves at an address. Returns the server, and the address with the actual port.
async fn serve_telemetry(
    address: SocketAddr,
    certificates: Option<ServingCertificate>,
    telemetry: Arc<Telemetry>,
) -> anyhow::Result<(Server, SocketAddr)> {
    let endpoints = TelemetryEndpoints { telemetry, renderer: Renderer::default() };
    serve(address, certificates, MAX_SCRAPES, endpoints).await.with_context(|| {
        format!("unable to serve metrics and probes on {address} (--bind-address, --metrics-port)")
    })
}

/// Metrics and probes.
struct TelemetryEndpoints {
    telemetry: Arc<Telemetry>,
    renderer: Renderer,
}

#[async_trait]
impl Endpoints for TelemetryEndpoints {
    async fn respond(
        &self,
        request: &Request<Incoming>,
        connection: &Arc<Connection>,
    ) -> Response<Text> {
        let (method, path) = (request.method(), request.uri().path());
        if !matches!(*method, Method::GET | Method::HEAD) {
            let text = "only GET and HEAD are supported\n";
            return respond_with(StatusCode::METHOD_NOT_ALLOWED, text.into(), None);
        }
        if path == "/metrics" {
            return self.metrics(begin_long_response(connection)).await;
        }
        // Marks the connection as used, because the server closes the longest idle one first.
        drop(connection.start());
        match path {
            "/healthz" => health(self.telemetry.alive()),
            "/readyz" => health(self.telemetry.ready()),
            _ => {
                let text = "not found; try /metrics, /healthz or /readyz\n";
                respond_with(StatusCode::NOT_FOUND, text.into(), None)
            }
        }
    }
}

impl TelemetryEndpoints {
    async fn metrics(&self, response: RunningRequest) -> Response<Text> {
        let telemetry = self.telemetry.clone();
        match self.renderer.render(move || telemetry.render()).await {
            Ok(metrics) => respond_with(StatusCode::OK, metrics, Some(response)),
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

fn respond_with(
    status: StatusCode,
    text: String,
    long_response: Option<RunningRequest>,
) -> Response<Text> {
    let mut response = Response::new(Text::new(text, long_response));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
    response
}
