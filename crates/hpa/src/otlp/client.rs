//! HTTP client for the exporter, on the hyper and rustls that the Kubernetes client uses.

use std::{error::Error, sync::Arc, time::Duration};

use anyhow::Context;
use async_trait::async_trait;
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use tokio::runtime::Handle;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring::default_provider};

use super::exporter::ExportStatus;

/// Timeout of a request to the collector.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Largest response body that is read, in bytes. The body says how many spans were rejected.
const MAX_RESPONSE: usize = 64 << 10;

type HyperClient = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// Sends requests on the runtime, for the exporter's thread, which is not part of it.
#[derive(Debug)]
pub(super) struct CollectorClient {
    runtime: Handle,
    client: HyperClient,
    status: Arc<ExportStatus>,
}

impl CollectorClient {
    pub(super) fn new(runtime: Handle, status: Arc<ExportStatus>) -> anyhow::Result<Self> {
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls_config()?)
            .https_or_http()
            .enable_http1()
            .build();
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { runtime, client, status })
    }
}

/// Trusts the certificate authorities of the system.
fn tls_config() -> anyhow::Result<ClientConfig> {
    let config = || {
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()));
        config.with_safe_default_protocol_versions().context("unable to configure TLS")
    };
    let config = match config()?.with_native_roots() {
        Ok(config) => config,
        // Without certificate authorities, a collector without TLS is still reachable.
        Err(_) => config()?.with_root_certificates(RootCertStore::empty()),
    };
    Ok(config.with_no_client_auth())
}

#[async_trait]
impl HttpClient for CollectorClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let response = send(self.client.clone(), request.map(Full::new));
        // The calling thread has no tokio runtime, so neither timers nor sockets.
        let response = self.runtime.spawn(async {
            let response = tokio::time::timeout(TIMEOUT, response).await;
            response.unwrap_or_else(|_| Err(timeout_error()))
        });
        let response = response.await.unwrap_or_else(|error| Err(error.into()));
        // The exporter's own error doesn't say why a request failed.
        self.status.record_response(match &response {
            Ok(response) if response.status().is_success() => None,
            Ok(response) => Some(response.status().to_string()),
            Err(error) => Some(root_cause(&**error).to_string()),
        });
        response
    }
}

fn timeout_error() -> HttpError {
    format!("no response within {} s", TIMEOUT.as_secs()).into()
}

async fn send(
    client: HyperClient,
    request: Request<Full<Bytes>>,
) -> Result<Response<Bytes>, HttpError> {
    let (parts, body) = client.request(request).await?.into_parts();
    let body = Limited::new(body, MAX_RESPONSE).collect().await?.to_bytes();
    Ok(Response::from_parts(parts, body))
}

/// The last source, such as `Connection refused`.
fn root_cause<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause
}
