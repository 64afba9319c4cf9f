//! Requests to the collector, by the HTTP and TLS that the Kubernetes client uses.

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

use super::exporter::Collector;

/// How long the collector may take to answer.
const LIMIT: Duration = Duration::from_secs(10);

/// The longest answer that is read, in bytes. It says how many spans were refused.
const LONGEST_ANSWER: usize = 64 << 10;

type Hyper = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// Sends from a thread that is none of the runtime's.
#[derive(Debug)]
pub(super) struct CollectorClient {
    runtime: Handle,
    client: Hyper,
    collector: Arc<Collector>,
}

impl CollectorClient {
    pub(super) fn new(runtime: Handle, collector: Arc<Collector>) -> anyhow::Result<Self> {
        let trust = trust()?;
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(trust)
            .https_or_http()
            .enable_http1()
            .build();
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { runtime, client, collector })
    }
}

/// Trusts the certificates of this system.
fn trust() -> anyhow::Result<ClientConfig> {
    let config = || {
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()));
        config.with_safe_default_protocol_versions().context("cannot use TLS")
    };
    let config = match config()?.with_native_roots() {
        Ok(config) => config,
        // A collector without TLS can be reached all the same.
        Err(_) => config()?.with_root_certificates(RootCertStore::empty()),
    };
    Ok(config.with_no_client_auth())
}

#[async_trait]
impl HttpClient for CollectorClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let sent = answer(self.client.clone(), request.map(Full::new));
        // The caller's thread has neither timers nor sockets.
        let answer = self.runtime.spawn(async {
            let answer = tokio::time::timeout(LIMIT, sent).await;
            answer.unwrap_or_else(|_| Err(unanswered()))
        });
        let answer = answer.await.unwrap_or_else(|error| Err(error.into()));
        // The exporter tells no more of it than that there was an error.
        self.collector.answered(match &answer {
            Ok(answer) if answer.status().is_success() => None,
            Ok(answer) => Some(answer.status().to_string()),
            Err(error) => Some(innermost(&**error).to_string()),
        });
        answer
    }
}

fn unanswered() -> HttpError {
    format!("no answer within {} s", LIMIT.as_secs()).into()
}

async fn answer(
    client: Hyper,
    request: Request<Full<Bytes>>,
) -> Result<Response<Bytes>, HttpError> {
    let (parts, body) = client.request(request).await?.into_parts();
    let body = Limited::new(body, LONGEST_ANSWER).collect().await?.to_bytes();
    Ok(Response::from_parts(parts, body))
}

/// The cause at the end of the chain, such as `Connection refused`.
fn innermost<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost
}
