//! Responds to requests: authentication, authorization, then the path.

#[cfg(test)]
pub(crate) mod tests;

use std::{borrow::Cow, sync::Arc, time::Duration};

use hpa_metrics::{ApiGroups, LogLimit, MetricSource, describe};
use hpa_prometheus::rules::Compat;
use http::{Method, Response, request::Parts};
use hyper::body::Bytes;
use serde::Serialize;
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::{
    admission::{Admission, Share, known_client},
    api::FailureLog,
    authentication::{AuthenticatedUser, AuthenticationError, Authenticator, Peer},
    metrics::{CONTENT_TYPE, Metrics, RequestLabels},
    metrics_api::{
        NoRoute, RequestInfo, Route, StatusError, UrlQuery, discovery, query, status::truncated,
    },
    response::{
        HealthCheck, Preferences, Reply, health_reply, internal_error, json_reply, reply,
        text_reply,
    },
    reviews::{ANONYMOUS, Authorizer, ReviewError, User},
};

const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Paths outside the metrics APIs.
const OTHER_PATHS: [&str; 7] =
    ["/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version"];

/// Paths that are served like one of [`OTHER_PATHS`], or with the list of paths.
const ALIASES: [&str; 4] = ["/", "/index.html", "/openapi/v3/", "/version/"];

/// The version that `/version` returns.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    pub major: String,
    pub minor: String,
    pub git_version: String,
    pub git_commit: String,
    pub build_date: String,
    pub compiler: String,
    pub platform: String,
}

#[derive(Clone, Debug)]
pub struct AdapterOptions {
    /// The groups that are served. A changed rules file may add some.
    pub groups: watch::Receiver<ApiGroups>,
    /// Whether responses match prometheus-adapter even where that may do harm.
    pub compat: Compat,
    /// The port in discovery documents.
    pub port: u16,
    pub version: Version,
    /// Once it is cancelled, `/readyz` fails, so that Kubernetes routes new requests elsewhere.
    pub stop: CancellationToken,
}

/// Serves the metrics of a source over the metrics APIs.
pub struct Adapter {
    pub(crate) source: Arc<dyn MetricSource>,
    pub(crate) options: AdapterOptions,
    pub(crate) metrics: Arc<Metrics>,
    authenticator: Arc<Authenticator>,
    authorizer: Authorizer,
    admission: Admission,
    authentication_warnings: LogLimit,
    authorization_warnings: LogLimit,
    pub(crate) failures: FailureLog,
}

impl Adapter {
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
            authentication_warnings: LogLimit::default(),
            authorization_warnings: LogLimit::default(),
            failures: FailureLog::default(),
        }
    }

    /// The groups that are served now.
    pub(crate) fn groups(&self) -> ApiGroups {
        *self.options.groups.borrow()
    }

    /// Whether a client is a front proxy.
    pub(crate) fn is_front_proxy(&self, peer: &Peer) -> bool {
        self.authenticator.is_front_proxy(peer)
    }

    /// Responds to a request, within a minute. The response to `HEAD` has no body.
    pub async fn respond(&self, request: &Parts, peer: &Peer) -> Response<Bytes> {
        let started = Instant::now();
        let _in_flight = self.metrics.start_request();
        let query = UrlQuery::parse(request.uri.query().unwrap_or_default());
        let info = match query::decode(request.uri.path()) {
            Some(path) => RequestInfo::new(request.method.as_str(), &path, &query)
                .map_err(|error| internal_error(request.uri.path(), &error)),
            None => Err(text_reply(400, "the path is not percent-encoded UTF-8\n")),
        };
        let labels = info.as_ref().map(|info| RequestLabels::new(self.groups(), info));
        let labels = labels.unwrap_or_default();
        let preferences = Preferences { headers: &request.headers, query: &query };
        let response = self.authorize_and_serve(request, info, preferences, peer);
        let mut response = timeout(REQUEST_TIMEOUT, response)
            .await
            .unwrap_or_else(|_| preferences.error(&StatusError::timeout()));
        let code = response.status().as_u16();
        self.metrics.observe_request(labels, code, started.elapsed());
        if request.method == Method::HEAD {
            *response.body_mut() = Bytes::new();
        }
        response
    }

    /// Authenticates and authorizes a request, and serves it. `info` is the error response if the
    /// path is invalid. A client with invalid credentials gets 401 instead.
    async fn authorize_and_serve(
        &self,
        request: &Parts,
        info: Result<RequestInfo, Reply>,
        preferences: Preferences<'_>,
        peer: &Peer,
    ) -> Reply {
        let (user, share) = match self.authenticate(request, peer).await {
            Ok(authenticated) => authenticated,
            Err(error) => {
                let path = info.as_ref().map_or("", |info| &info.path);
                let response = self.authentication_error_response(&error, path, preferences);
                return self.admission.share_of_anonymous(peer.address()).limit_unread(response);
            }
        };
        let result = if user.name == ANONYMOUS { "anonymous" } else { "authenticated" };
        self.metrics.observe_authentication(result);
        let info = match info {
            Ok(info) => info,
            Err(response) => return share.limit_unread(response),
        };
        if let Some(response) = self.anonymous_health_response(&info, &user, preferences) {
            return share.limit_unread(response);
        }
        let Some(_request) = share.start_request() else {
            return share.limit_unread(preferences.too_many_requests());
        };
        let response = match self.authorize(&user, &info, share, preferences).await {
            Ok(()) => self.serve(request, &info, preferences).await,
            Err(response) => *response,
        };
        share.limit_unread(response)
    }

    /// The response to an anonymous request for a health endpoint that needs no authorization. Such
    /// a request counts towards no limit of requests. `None` for any other request.
    fn anonymous_health_response(
        &self,
        info: &RequestInfo,
        user: &User,
        preferences: Preferences<'_>,
    ) -> Option<Reply> {
        if user.name != ANONYMOUS || !self.authorizer.is_always_allowed(info) {
            return None;
        }
        self.health_response(&info.path, preferences.query)
    }

    /// The response of a health endpoint. `None` if the path isn't one.
    pub fn health_response(&self, path: &str, query: &UrlQuery) -> Option<Reply> {
        let ping = HealthCheck { name: "ping", outcome: Ok(()) };
        match path {
            "/healthz" | "/livez" => Some(health_reply(path, &[ping], query)),
            "/readyz" => Some(health_reply(path, &self.readiness(ping), query)),
            _ => None,
        }
    }

    /// Returns the user of a request, and the user's share of the limits.
    async fn authenticate(
        &self,
        request: &Parts,
        peer: &Peer,
    ) -> Result<(User, Share<'_>), AuthenticationError> {
        let authenticated = self.authenticator.authenticate(peer, &request.headers).await?;
        let AuthenticatedUser { user, is_proxied } = authenticated;
        if let Some(client) = known_client(&user, is_proxied) {
            peer.set_known(client);
        }
        let share = self.admission.share_of_user(&user, is_proxied, peer.address());
        Ok((user, share))
    }

    /// The response to a request that can't be authenticated. Counts and logs the error.
    fn authentication_error_response(
        &self,
        error: &AuthenticationError,
        path: &str,
        preferences: Preferences<'_>,
    ) -> Reply {
        if *error == AuthenticationError::Busy {
            self.metrics.observe_authentication("busy");
            return preferences.too_many_requests();
        }
        self.metrics.observe_authentication("refused");
        let path = truncated(path);
        if self.authentication_warnings.try_acquire() {
            warn!(%error, path, "unable to authenticate a request");
        } else {
            debug!(%error, path, "unable to authenticate a request");
        }
        preferences.error(&StatusError::unauthorized())
    }

    async fn authorize(
        &self,
        user: &User,
        info: &RequestInfo,
        share: Share<'_>,
        preferences: Preferences<'_>,
    ) -> Result<(), Box<Reply>> {
        if preferences.headers.keys().any(|name| name.as_str().starts_with("impersonate-")) {
            // If the header were ignored, the request would have the rights of the wrong user.
            let message = "impersonation is not supported; send the request to kube-apiserver";
            return Err(Box::new(preferences.error(&StatusError::bad_request(message))));
        }
        let path = truncated(&info.path);
        let reviewed = self.reviewed_request(user, info);
        let access = self.authorizer.authorize(user, &reviewed, share.reviews()).await;
        let (result, response) = match access {
            Ok(access) if access.allowed => {
                self.metrics.observe_authorization("allowed");
                return Ok(());
            }
            Ok(access) => {
                debug!(user = user.name, path, "forbidden");
                let error = StatusError::forbidden(&user.name, info, &access.reason);
                ("forbidden", preferences.error(&error))
            }
            Err(ReviewError::TooMany) => ("busy", preferences.too_many_requests()),
            Err(error) => {
                let error = describe(&error);
                if self.authorization_warnings.try_acquire() {
                    warn!(error, user = user.name, path, "unable to authorize a request");
                } else {
                    debug!(error, user = user.name, path, "unable to authorize a request");
                }
                ("error", internal_error(path, &error))
            }
        };
        self.metrics.observe_authorization(result);
        Err(Box::new(response))
    }

    /// The request that the API server reviews for `info`. Anonymous clients could invent any
    /// number of unknown paths, and cause a review for each. The response to all of them is the
    /// same as for `/`, or an error, so they share the review of `/`.
    fn reviewed_request<'a>(&self, user: &User, info: &'a RequestInfo) -> Cow<'a, RequestInfo> {
        let is_reference = self.options.compat == Compat::Reference;
        if is_reference
            || user.name != ANONYMOUS
            || self.is_known_path(info)
            || self.authorizer.is_always_allowed(info)
        {
            return Cow::Borrowed(info);
        }
        Cow::Owned(RequestInfo { path: "/".to_owned(), verb: "get".to_owned(), resource: None })
    }

    fn is_known_path(&self, info: &RequestInfo) -> bool {
        let path = info.path.as_str();
        info.resource.is_some()
            || OTHER_PATHS.contains(&path)
            || ALIASES.contains(&path)
            || Route::of_path(self.groups(), path).is_ok()
    }

    async fn serve(
        &self,
        request: &Parts,
        info: &RequestInfo,
        preferences: Preferences<'_>,
    ) -> Reply {
        if let Some(response) = self.health_response(&info.path, preferences.query) {
            return response;
        }
        match info.path.as_str() {
            "/" | "/index.html" => self.list_paths(200),
            "/version" | "/version/" => json_reply(200, &self.options.version),
            "/metrics" => self.render_metrics(),
            "/openapi/v2" => {
                json_reply(200, &discovery::openapi_v2(&self.options.version.git_version))
            }
            "/openapi/v3" | "/openapi/v3/" => json_reply(200, &discovery::openapi_v3()),
            path => {
                let (groups, method) = (self.groups(), request.method.as_str());
                match Route::find(groups, method, path, preferences.accept()) {
                    Ok(route) => self.serve_route(route, info, preferences).await,
                    Err(NoRoute::UnknownPath) => self.list_paths(404),
                    Err(NoRoute::Refused(error)) => preferences.error(&error),
                }
            }
        }
    }

    fn readiness(&self, ping: HealthCheck) -> [HealthCheck; 3] {
        let discovery = match self.options.compat {
            Compat::Off => self.source.catalog().readiness(),
            // prometheus-adapter is ready before it has any metrics.
            Compat::Reference => Ok(()),
        };
        let is_stopping = self.options.stop.is_cancelled();
        let shutdown = if is_stopping { Err(vec!["shutting down".to_owned()]) } else { Ok(()) };
        [
            ping,
            HealthCheck { name: "discovery", outcome: discovery },
            HealthCheck { name: "shutdown", outcome: shutdown },
        ]
    }

    fn render_metrics(&self) -> Reply {
        match self.metrics.render() {
            Ok(text) => reply(200, CONTENT_TYPE, text.into_bytes()),
            Err(error) => text_reply(500, format!("{}\n", describe(&error))),
        }
    }

    fn list_paths(&self, code: u16) -> Reply {
        json_reply(code, &discovery::paths(self.groups(), &OTHER_PATHS))
    }
}
