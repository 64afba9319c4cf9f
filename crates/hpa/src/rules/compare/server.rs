//! Connects to the servers to compare, and reads from them.

use std::{fmt, path::Path, time::Duration};

use anyhow::{Context, anyhow, bail};
use hpa_calc::{go_text::truncate, report::error_texts::NO_RESPONSE_WITHIN};
use hpa_controller::k8s::{ClientConfig, ClientSource, Clients};
use hpa_metrics::{TlsSettingNames, connection_cause, is_connection_failure};
use http::{Request, Uri};
use http_body_util::{BodyExt, Limited};
use kube::{Client, Config, client::Body};
use serde_json::Value;
use tokio::time::timeout;

/// The time limit of a request.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum size of a response.
const MAX_BODY_BYTES: usize = 256 << 20;
/// The maximum number of characters of the message of a response.
const MAX_MESSAGE_CHARS: usize = 2000;
/// The name of the kubeconfig's API server in messages.
const CLUSTER: &str = "the cluster";

/// Address and credentials of a server.
pub(super) struct Endpoint<'a> {
    /// The name in messages: `left` or `right`.
    pub(super) name: &'static str,
    pub(super) url: Uri,
    pub(super) token_file: Option<&'a Path>,
    pub(super) ca_file: Option<&'a Path>,
    pub(super) server_name: Option<&'a str>,
    /// Whether the server's certificate is not verified.
    pub(super) is_insecure: bool,
}

pub(super) struct Server {
    name: &'static str,
    /// The URL without credentials. Empty for the cluster, whose errors name the API server.
    url: String,
    pub(super) client: Client,
    pub(super) has_token: bool,
}

/// A response with any status.
pub(super) struct MetricsResponse {
    pub(super) status: u16,
    pub(super) body: Value,
}

/// The reason why a response is not compared: it has no metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SkipReason {
    /// The server, or one behind it, can't answer now.
    Unavailable,
    /// The user may not read the metrics.
    Forbidden,
}

impl MetricsResponse {
    /// The reason in the status. `None` if the response can be compared.
    pub(super) fn skip_reason(&self) -> Option<SkipReason> {
        match self.status {
            429 | 502 | 503 | 504 => Some(SkipReason::Unavailable),
            403 => Some(SkipReason::Forbidden),
            _ => None,
        }
    }
}

impl fmt::Display for MetricsResponse {
    /// The status and, if the body has one, the message.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.status)?;
        match self.body.get("message").and_then(Value::as_str) {
            Some(message) => write!(f, ": {}", truncate(message.to_owned(), MAX_MESSAGE_CHARS)),
            None => Ok(()),
        }
    }
}

/// Fails if the token would be sent in clear text, or to a server whose identity is not verified.
/// Loopback addresses are allowed.
fn ensure_token_is_safe(endpoint: &Endpoint<'_>) -> anyhow::Result<()> {
    let host = endpoint.url.host().unwrap_or_default();
    let is_loopback = ["localhost", "127.0.0.1", "[::1]"].contains(&host);
    let is_verified = endpoint.url.scheme_str() == Some("https") && !endpoint.is_insecure;
    if !is_loopback && !is_verified {
        let side = endpoint.name;
        bail!("the token for the {side} server is only sent over TLS with a verified certificate");
    }
    Ok(())
}

impl Server {
    pub(super) fn new(endpoint: &Endpoint<'_>) -> anyhow::Result<Self> {
        let name = endpoint.name;
        let mut config = Config::new(endpoint.url.clone());
        config.root_cert_file = endpoint.ca_file.map(Path::to_owned);
        config.accept_invalid_certs = endpoint.is_insecure;
        config.tls_server_name = endpoint.server_name.map(str::to_owned);
        if let Some(path) = endpoint.token_file {
            ensure_token_is_safe(endpoint)?;
            let token = std::fs::read_to_string(path)
                .with_context(|| format!("unable to read the token in {}", path.display()))?;
            config.auth_info.token = Some(token.trim().to_owned().into());
        }
        let has_token = config.auth_info.token.is_some();
        config.default_retry = false;
        let url = config.cluster_url.to_string();
        let url = url.rsplit('@').next().unwrap_or_default().to_owned();
        let client = Client::try_from(config)
            .with_context(|| format!("unable to set up the connection to {name} ({url})"))?;
        Ok(Self { name, url, client, has_token })
    }

    /// Connects to the API server of a kubeconfig.
    pub(super) async fn for_cluster(source: ClientSource) -> anyhow::Result<Self> {
        let config = ClientConfig { source, ..ClientConfig::default() };
        let client = Clients::new(&config).await?.api;
        Ok(Self { name: CLUSTER, url: String::new(), client, has_token: false })
    }

    /// The name in sentences.
    pub(super) fn label(&self) -> String {
        match self.name {
            CLUSTER => "the cluster's API server".to_owned(),
            side => format!("the {side} server"),
        }
    }

    /// Names URL and root cause of a connection error, because the client's text has neither.
    fn with_url(&self, error: kube::Error) -> anyhow::Error {
        let error = anyhow::Error::new(error);
        if !is_connection_failure(error.as_ref()) {
            return error;
        }
        let ca = format!("--{}-ca-file", self.name);
        let settings = TlsSettingNames { ca: &ca, ..TlsSettingNames::default() };
        let cause = connection_cause(error.as_ref(), settings);
        anyhow!("unable to connect to {}: {cause}", self.url)
    }

    /// Reads a path. A response with an error status is not an error.
    pub(super) async fn get(&self, path: &str) -> anyhow::Result<MetricsResponse> {
        let context = || format!("{}: GET {path} failed", self.name);
        let request = Request::get(path).header("Accept", "application/json").body(Body::empty())?;
        let response = async {
            let response = self.client.send(request).await;
            let response = response.map_err(|error| self.with_url(error))?;
            let status = response.status().as_u16();
            let body = Limited::new(response.into_body(), MAX_BODY_BYTES).collect().await;
            let body = body.map_err(|error| anyhow!(error))?.to_bytes();
            // Error responses of proxies are not JSON.
            let body = if status == 200 {
                serde_json::from_slice(&body).context("the response is not JSON")?
            } else {
                serde_json::from_slice(&body).unwrap_or_default()
            };
            Ok(MetricsResponse { status, body })
        };
        let response: anyhow::Result<MetricsResponse> = timeout(TIMEOUT, response)
            .await
            .with_context(|| format!("{NO_RESPONSE_WITHIN}{TIMEOUT:?}"))
            .with_context(context)?;
        response.with_context(context)
    }
}
