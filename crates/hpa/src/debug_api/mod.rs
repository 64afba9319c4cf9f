//! The debug API of `hpa run`: the last decisions, histories, cache ages and the queue, as JSON.
//!
//! It is off unless a port is set. `docs/debugging.md` describes the documents.

mod access;
mod route;
#[cfg(test)]
mod tests;

use std::{fs, net::SocketAddr, path::Path, sync::Arc};

use anyhow::Context;
use async_trait::async_trait;
use hpa_adapter::certificates::{GeneratedCertificate, local_names};
use hpa_adapter::server::{Connection, HandshakeSettings, RunningRequest, ServingCertificate};
use hpa_calc::go_text::truncate;
use hpa_controller::{
    Dependencies, Observer, Options,
    debug::{DebugView, DecisionRecorder, RefusedRulesFile},
};
use hpa_metrics::LogLimit;
use hpa_prometheus::source::PrometheusSource;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::{Bytes, Incoming};
use jiff::Timestamp;
use serde_json::json;
use tracing::{debug, info, warn};

use self::{
    access::{Access, Denied},
    route::Route,
};
use crate::{
    api_client::separate_client,
    args::RunArguments,
    serve::{self, Endpoints, Renderer, Server, begin_long_response},
};

pub(crate) use self::access::{AUDIENCE, TOKEN_HEADER};

/// The header that marks responses of this API. It distinguishes them from responses of the API
/// server that forwards requests.
pub(crate) const MARKER_HEADER: &str = "hpa-debug-api";

/// The maximum number of concurrent responses, including those that wait for rendering. Without
/// this limit, waiting requests could occupy all connections.
const MAX_RESPONSES: usize = 16;

/// The maximum number of characters of a rules file's error.
const MAX_ERROR_CHARS: usize = 1000;

/// Records the decisions of a controller and starts the server, unless the port is 0. On a loopback
/// address, every client of this machine has access. On other addresses, the API server reviews
/// token and access of requests. The reviews are cached. `rules` are those of `--metrics-config`.
pub(crate) async fn start(
    arguments: &RunArguments,
    dependencies: Dependencies,
    options: &Options,
    rules: Option<Arc<PrometheusSource>>,
) -> anyhow::Result<(Dependencies, Option<Server>)> {
    let flags = &arguments.debug;
    if flags.debug_port == 0 {
        return Ok((dependencies, None));
    }
    let limit = usize::try_from(flags.debug_memory_limit).unwrap_or(usize::MAX);
    let telemetry = dependencies.telemetry.clone();
    let recorder = Arc::new(DecisionRecorder::new(telemetry.clone(), limit));
    let path = arguments.metrics_config.clone();
    let refused = move || refused_rules_file(rules.as_ref()?, path.as_ref()?);
    let view = DebugView {
        telemetry,
        recorder: recorder.clone(),
        clock: dependencies.clock.clone(),
        sync_period: options.sync_period,
        decision_settings: options.settings.clone(),
        dry_run: dependencies.dry_run,
        keep_history: dependencies.stores_histories(),
        refused_rules_file: Box::new(refused),
    };
    let address = arguments.debug_address();
    let is_local = address.ip().is_loopback();
    let (certificate, access) = if is_local {
        (None, Access::Local)
    } else {
        let certificate = serve::load_certificate(&arguments.observation)?;
        let certificate = certificate.map_or_else(generate_certificate, Ok)?;
        let client = separate_client(&arguments.cluster).await?;
        (Some(certificate), Access::reviewed(&client))
    };
    let (server, _) = serve_view(address, certificate, access, view.into()).await?;
    info!(%address, tls = !is_local, "serving the debug API");
    let observers: Vec<Arc<dyn Observer>> = vec![dependencies.observer, recorder];
    Ok((Dependencies { observer: Arc::new(observers), ..dependencies }, Some(server)))
}

/// The rules file, if its last change was refused.
fn refused_rules_file(rules: &PrometheusSource, path: &Path) -> Option<RefusedRulesFile> {
    // The problem of the file comes before those of rules.
    let error = rules.problems().into_iter().next().filter(|_| rules.has_refused_file())?;
    let changed_at = fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    let changed_at = changed_at.and_then(|at| Timestamp::try_from(at).ok());
    let error = truncate(error, MAX_ERROR_CHARS);
    Some(RefusedRulesFile { path: path.display().to_string(), changed_at, error })
}

/// Serves on a free port of 127.0.0.1, to every client of this machine.
#[cfg(feature = "demo")]
pub(crate) async fn start_local(view: Arc<DebugView>) -> anyhow::Result<(Server, SocketAddr)> {
    let address = SocketAddr::from((std::net::Ipv4Addr::LOCALHOST, 0));
    serve_view(address, None, Access::Local, view).await
}

/// A self-signed certificate, which encrypts tokens on the network. No client can verify it, and
/// kube-apiserver doesn't verify certificates of pods.
fn generate_certificate() -> anyhow::Result<ServingCertificate> {
    let generated = GeneratedCertificate::generate(&local_names(), Timestamp::now());
    let generated = generated.context("unable to generate a certificate for the debug API")?;
    let handshake = HandshakeSettings::default();
    Ok(ServingCertificate::from_pem(&generated.chain, &generated.key, handshake)?)
}

/// Serves at an address. Returns the server, and the address with the actual port.
async fn serve_view(
    address: SocketAddr,
    certificate: Option<ServingCertificate>,
    access: Access,
    view: Arc<DebugView>,
) -> anyhow::Result<(Server, SocketAddr)> {
    let endpoints = DebugEndpoints {
        view,
        access,
        renderer: Renderer::default(),
        warnings: LogLimit::default(),
    };
    serve::serve(address, certificate, MAX_RESPONSES, endpoints).await.with_context(|| {
        format!(
            "unable to serve the debug API on {address} (--bind-address, --debug-bind-address, \
             --debug-port)"
        )
    })
}

/// The documents and their access control.
struct DebugEndpoints {
    view: Arc<DebugView>,
    access: Access,
    renderer: Renderer,
    warnings: LogLimit,
}

#[async_trait]
impl Endpoints for DebugEndpoints {
    async fn respond(
        &self,
        request: &Request<Incoming>,
        connection: &Arc<Connection>,
    ) -> Response<Bytes> {
        let (headers, path) = (request.headers(), request.uri().path());
        if let Err(denied) = self.access.authorize(connection.client(), headers, path).await {
            if let Some(error) = review_error_to_log(&denied, &self.warnings) {
                warn!(error, "unable to review a request to the debug API");
            }
            debug!(%denied, path, "refused a request to the debug API");
            return denied_response(&denied);
        }
        if request.method() != Method::GET {
            return error_response(StatusCode::METHOD_NOT_ALLOWED, "only GET is supported");
        }
        let query = request.uri().query().unwrap_or_default();
        match Route::parse(path, query) {
            Ok(Some(route)) => {
                self.respond_with_document(route, begin_long_response(connection)).await
            }
            Ok(None) => {
                let text = "not found; try /debug/v1/status or /debug/v1/autoscalers";
                error_response(StatusCode::NOT_FOUND, text)
            }
            Err(text) => error_response(StatusCode::BAD_REQUEST, &text),
        }
    }
}

/// The error of a failed review, if it is to be logged now. Other rejections don't count towards
/// the limit: any client could otherwise suppress the line.
fn review_error_to_log<'d>(denied: &'d Denied, warnings: &LogLimit) -> Option<&'d str> {
    match denied {
        Denied::Unreviewed(error) if warnings.try_acquire() => Some(error),
        _ => None,
    }
}

impl DebugEndpoints {
    async fn respond_with_document(
        &self,
        route: Route,
        response: RunningRequest,
    ) -> Response<Bytes> {
        let view = self.view.clone();
        let rendered = self.renderer.render(move || render(&view, &route)).await;
        match rendered.map_err(anyhow::Error::from).and_then(|document| Ok(document?)) {
            Ok(Some(text)) => json_response(StatusCode::OK, response.track_body(text.into())),
            Ok(None) => {
                let text = "no such autoscaler is in the cache of this instance";
                error_response(StatusCode::NOT_FOUND, text)
            }
            Err(failure) => error_response(StatusCode::INTERNAL_SERVER_ERROR, &failure.to_string()),
        }
    }
}

/// Renders a document. `None` if the autoscaler doesn't exist.
fn render(view: &DebugView, route: &Route) -> serde_json::Result<Option<Vec<u8>>> {
    match route {
        Route::Status => serde_json::to_vec(&view.status()).map(Some),
        Route::Autoscalers(filter) => serde_json::to_vec(&view.autoscalers(filter)).map(Some),
        Route::Autoscaler { key, since } => {
            view.autoscaler(key, *since).as_ref().map(serde_json::to_vec).transpose()
        }
    }
}

fn denied_response(denied: &Denied) -> Response<Bytes> {
    let status = match denied {
        Denied::NoToken | Denied::InvalidToken => StatusCode::UNAUTHORIZED,
        Denied::Forbidden { .. } | Denied::ForeignHost(_) => StatusCode::FORBIDDEN,
        Denied::Busy => StatusCode::TOO_MANY_REQUESTS,
        Denied::Unreviewed(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    let mut response = error_response(status, &denied.to_string());
    let extra_header = match status {
        StatusCode::UNAUTHORIZED => Some((header::WWW_AUTHENTICATE, "Bearer")),
        StatusCode::TOO_MANY_REQUESTS => Some((header::RETRY_AFTER, "1")),
        _ => None,
    };
    let extra_header = extra_header.map(|(name, value)| (name, HeaderValue::from_static(value)));
    response.headers_mut().extend(extra_header);
    response
}

fn error_response(status: StatusCode, text: &str) -> Response<Bytes> {
    json_response(status, json!({ "error": text }).to_string())
}

fn json_response(status: StatusCode, body: impl Into<Bytes>) -> Response<Bytes> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, "application/json"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::HeaderName::from_static(MARKER_HEADER), "v1"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
