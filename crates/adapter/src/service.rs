//! From a request to a response: authentication, authorization, then what the path serves.

#[cfg(test)]
pub(crate) mod tests;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crate::metrics_api::{
    InstalledGroups, NoRoute, Query, RequestInfo, Route, StatusError, discovery, openapi, query,
    status::Forbidden,
};
use crate::reviews::{ANONYMOUS, Authorizer, LogLimit, MASTERS, ReviewError, User};
use hpa_metrics::MetricSource;
use hpa_metrics::describe;
use hpa_prometheus::rules::Compat;
use http::{HeaderValue, Response, header, request::Parts};
use hyper::body::Bytes;
use serde::Serialize;
use tokio::time::{Instant, timeout};
use tracing::{debug, warn};

use crate::{
    admission::{Admission, Caller, Limits},
    authentication::{Authenticator, Peer, Unauthenticated},
    health::{self, Check},
    metrics::{CONTENT_TYPE, Metrics},
    request_labels::RequestLabels,
    response::{Preferences, Reply, for_method, json, reply, text},
};

/// How long a request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Paths outside of the metrics APIs.
const OTHER_PATHS: [&str; 7] =
    ["/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version"];

/// The version that `/version` returns.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    /// The major version.
    pub major: String,
    /// The minor version.
    pub minor: String,
    /// The version.
    pub git_version: String,
    /// The revision.
    pub git_commit: String,
    /// When the binary was built.
    pub build_date: String,
    /// The compiler.
    pub compiler: String,
    /// The platform.
    pub platform: String,
}

/// What a server serves.
#[derive(Clone, Debug)]
pub struct AdapterOptions {
    /// The groups that are served.
    pub groups: InstalledGroups,
    /// Whether responses are those of the reference also where that can do harm.
    pub compat: Compat,
    /// The port, for discovery.
    pub port: u16,
    /// The version.
    pub version: Version,
}

/// Answers requests.
pub struct Adapter {
    pub(crate) source: Arc<dyn MetricSource>,
    pub(crate) options: AdapterOptions,
    pub(crate) metrics: Arc<Metrics>,
    authenticator: Arc<Authenticator>,
    authorizer: Authorizer,
    admission: Admission,
    warnings: LogLimit,
    stopping: AtomicBool,
}

impl Adapter {
    /// An adapter for a source of metrics.
    pub fn new(
        source: Arc<dyn MetricSource>,
        authenticator: Arc<Authenticator>,
        authorizer: Authorizer,
        metrics: Arc<Metrics>,
        options: AdapterOptions,
    ) -> Self {
        Self {
            source,
            options,
            metrics,
            authenticator,
            authorizer,
            admission: Admission::new(),
            warnings: LogLimit::default(),
            stopping: AtomicBool::new(false),
        }
    }

    /// Whether a client is a front proxy.
    pub(crate) fn is_front_proxy(&self, peer: &Peer) -> bool {
        self.authenticator.is_front_proxy(peer)
    }

    /// Makes `/readyz` fail, so that no further requests arrive.
    pub fn set_stopping(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Answers a request of a client with a certificate, if it has presented one.
    pub async fn respond(&self, request: &Parts, peer: Option<&Peer>) -> Response<Bytes> {
        let started = Instant::now();
        let _in_flight = self.metrics.start_request();
        let query = Query::parse(request.uri.query().unwrap_or_default());
        let info = query::decode(request.uri.path())
            .map(|path| RequestInfo::new(request.method.as_str(), &path, &query));
        let preferences = Preferences { headers: &request.headers, query: &query };
        let response = match &info {
            None => text(400, "the path is not percent-encoded UTF-8\n"),
            Some(Err(error)) => internal_error(request.uri.path(), &error.to_string()),
            Some(Ok(info)) => {
                let response = self.respond_to(request, info, preferences, peer);
                timeout(REQUEST_TIMEOUT, response)
                    .await
                    .unwrap_or_else(|_| preferences.error(&StatusError::timeout()))
            }
        };
        let code = response.status().as_u16();
        let labels = match &info {
            Some(Ok(info)) => RequestLabels::new(self.options.groups, info),
            _ => RequestLabels::default(),
        };
        self.metrics.observe_request(labels, code, started.elapsed());
        for_method(&request.method, response)
    }

    async fn respond_to(
        &self,
        request: &Parts,
        info: &RequestInfo,
        preferences: Preferences<'_>,
        peer: Option<&Peer>,
    ) -> Reply {
        let (user, caller) = match self.authenticate(request, peer).await {
            Ok(authenticated) => authenticated,
            Err(error) => return self.unauthenticated(&error, info, preferences),
        };
        let result = if user.name == ANONYMOUS { "anonymous" } else { "authenticated" };
        self.metrics.observe_authentication(result);
        if request.headers.keys().any(|name| name.as_str().starts_with("impersonate-")) {
            // Ignored, it would grant the rights of the user instead of those that are asked for.
            let message = "impersonation is not supported; send the request to kube-apiserver";
            return preferences.error(&StatusError::bad_request(message));
        }
        if caller == Caller::Anonymous && self.authorizer.is_always_allowed(info) {
            // A probe, which waits for nothing and is short.
            return self.serve(request, info, preferences).await;
        }
        let limits = self.admission.limits(caller);
        let Ok(_permit) = limits.requests.try_acquire() else {
            return too_many_requests(preferences);
        };
        if let Err(response) = self.authorize(&user, info, limits, preferences).await {
            return *response;
        }
        let (head, body) = self.serve(request, info, preferences).await.into_parts();
        match limits.unread.count(body) {
            Some(body) => Response::from_parts(head, body),
            None => too_many_requests(preferences),
        }
    }

    /// The user of a request, and which limits count.
    async fn authenticate(
        &self,
        request: &Parts,
        peer: Option<&Peer>,
    ) -> Result<(User, Caller), Unauthenticated> {
        let mut by_certificate = self.authenticator.by_certificate(peer, &request.headers);
        let is_front_proxy = by_certificate.is_front_proxy;
        let user = match by_certificate.user.take() {
            Some(user) => user,
            None => self.authenticator.by_token(by_certificate, &request.headers).await?,
        };
        let caller = if is_front_proxy || user.is_in(MASTERS) {
            Caller::Trusted
        } else if user.name == ANONYMOUS {
            Caller::Anonymous
        } else {
            Caller::Authenticated
        };
        Ok((user, caller))
    }

    fn unauthenticated(
        &self,
        error: &Unauthenticated,
        info: &RequestInfo,
        preferences: Preferences<'_>,
    ) -> Reply {
        if *error == Unauthenticated::Busy {
            self.metrics.observe_authentication("busy");
            return too_many_requests(preferences);
        }
        self.metrics.observe_authentication("refused");
        if self.warnings.is_due() {
            warn!(%error, path = info.path, "unable to authenticate a request");
        } else {
            debug!(%error, path = info.path, "unable to authenticate a request");
        }
        preferences.error(&StatusError::unauthorized())
    }

    async fn authorize(
        &self,
        user: &User,
        info: &RequestInfo,
        limits: &Limits,
        preferences: Preferences<'_>,
    ) -> Result<(), Box<Reply>> {
        match self.authorizer.authorize(user, info, &limits.reviews).await {
            Err(ReviewError::TooMany) => {
                self.metrics.observe_access("busy");
                Err(Box::new(too_many_requests(preferences)))
            }
            Ok(access) if access.allowed => {
                self.metrics.observe_access("allowed");
                Ok(())
            }
            Ok(access) => {
                self.metrics.observe_access("forbidden");
                debug!(user = user.name, path = info.path, "forbidden");
                let forbidden =
                    Forbidden { user: &user.name, request: info, reason: &access.reason };
                Err(Box::new(preferences.error(&StatusError::forbidden(forbidden))))
            }
            Err(error) => {
                self.metrics.observe_access("error");
                let error = describe(&error);
                warn!(error, user = user.name, path = info.path, "unable to authorize a request");
                Err(Box::new(internal_error(&info.path, &error)))
            }
        }
    }

    async fn serve(
        &self,
        request: &Parts,
        info: &RequestInfo,
        preferences: Preferences<'_>,
    ) -> Reply {
        match info.path.as_str() {
            "/" | "/index.html" => self.paths(200),
            "/healthz" | "/livez" => health::respond(
                info.path.trim_start_matches('/'),
                &[Check { name: "ping", outcome: Ok(()) }],
                preferences.query,
            ),
            "/readyz" => health::respond("readyz", &self.readiness(), preferences.query),
            "/version" | "/version/" => json(200, &self.options.version),
            "/metrics" => self.render_metrics(),
            "/openapi/v2" => json(200, &openapi::v2(&self.options.version.git_version)),
            "/openapi/v3" | "/openapi/v3/" => json(200, &openapi::v3()),
            path => {
                let (groups, method) = (self.options.groups, request.method.as_str());
                match Route::find(groups, method, path, preferences.accept()) {
                    Ok(route) => self.serve_route(route, info, preferences).await,
                    Err(NoRoute::UnknownPath) => self.paths(404),
                    Err(NoRoute::Refused(error)) => preferences.error(&error),
                }
            }
        }
    }

    fn readiness(&self) -> [Check; 3] {
        let discovery = match self.options.compat {
            Compat::Off => self.source.catalog().readiness(),
            // The reference is ready before it has any metrics.
            Compat::PrometheusAdapter => Ok(()),
        };
        let is_stopping = self.stopping.load(Ordering::Relaxed);
        let shutdown = if is_stopping { Err(vec!["shutting down".to_owned()]) } else { Ok(()) };
        [
            Check { name: "ping", outcome: Ok(()) },
            Check { name: "discovery", outcome: discovery },
            Check { name: "shutdown", outcome: shutdown },
        ]
    }

    fn render_metrics(&self) -> Reply {
        match self.metrics.render() {
            Ok(text) => reply(200, CONTENT_TYPE, text.into_bytes()),
            Err(error) => text(500, format!("{}\n", describe(&error))),
        }
    }

    /// The paths that exist.
    fn paths(&self, code: u16) -> Reply {
        json(code, &discovery::paths(self.options.groups, &OTHER_PATHS))
    }
}

/// 429, so that the client tries again.
fn too_many_requests(preferences: Preferences<'_>) -> Reply {
    let mut response = preferences.error(&StatusError::too_many_requests());
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

/// 500 as a text, as kube-apiserver answers if it can't classify or authorize a request.
fn internal_error(path: &str, message: &str) -> Reply {
    let path = hpa_calc::go_text::Quoted(path);
    let message = format!("Internal Server Error: {path}: {message}\n");
    text(500, message.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;"))
}
