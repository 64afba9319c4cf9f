//! The running API server behind the proxy.

use std::{collections::BTreeSet, sync::Arc};

use anyhow::Result;
use axum::{
    Json,
    body::{Body, to_bytes},
    extract::Request,
    response::{IntoResponse as _, Response},
};
use hpa_testbed::{ApiError, Testbed};
use http::{HeaderMap, HeaderName, StatusCode, Uri, header};
use kube::{Client, Config};

use super::metrics;
use crate::{load::Load, objects::MANAGED_BY, request_info::RequestInfo};

/// The request size limit of kube-apiserver.
const MAX_REQUEST_BYTES: usize = 3 << 20;
/// Hop-by-hop headers, `Host`, and the controller's credentials.
const NOT_FORWARDED: [HeaderName; 8] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::HOST,
    header::AUTHORIZATION,
];
/// Review resources. A `create` is a query and stores nothing.
const REVIEWS: [&str; 3] = [
    "selfsubjectaccessreviews.authorization.k8s.io",
    "subjectaccessreviews.authorization.k8s.io",
    "tokenreviews.authentication.k8s.io",
];

/// Forwards requests with the credentials of a kubeconfig. Lists and watches of autoscalers, pods
/// and Deployments return only those that `hpa-bench` created, and writes outside its namespaces
/// are rejected, except for [`REVIEWS`]. Otherwise the controller would scale workloads that it
/// must not touch.
pub(super) struct Upstream {
    client: Client,
    server: Uri,
    /// Namespaces that accept writes.
    namespaces: BTreeSet<String>,
    /// Serves the metrics APIs.
    metrics: Testbed,
}

impl Upstream {
    pub(super) fn new(mut config: Config, namespaces: &[String], load: &Arc<Load>) -> Result<Self> {
        // The controller must see failed requests and compressed bodies unchanged.
        config.default_retry = false;
        config.disable_compression = true;
        let metrics = metrics::metrics_testbed(load);
        let (server, namespaces) =
            (config.cluster_url.clone(), namespaces.iter().cloned().collect());
        Ok(Self { client: Client::try_from(config)?, server, namespaces, metrics })
    }

    pub(super) async fn respond(
        &self,
        load: &Load,
        info: &RequestInfo,
        request: Request,
    ) -> Response {
        if metrics::is_metrics_path(request.uri().path()) {
            return metrics::respond(&self.metrics, load, info, request).await;
        }
        if !self.is_allowed(info) {
            let message = format!("hpa-bench does not forward {} {}", info.kind, info.name);
            return error_response(StatusCode::FORBIDDEN, "Forbidden", &message);
        }
        match self.forward(info, request).await {
            Ok(response) => response,
            Err(error) => {
                let message = format!("no response from {}: {error:#}", self.server);
                error_response(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", &message)
            }
        }
    }

    /// Returns whether a request changes nothing outside the namespaces of `hpa-bench`.
    fn is_allowed(&self, info: &RequestInfo) -> bool {
        let kind = &info.kind;
        ["get", "list", "watch"].contains(&kind.verb.as_str())
            || self.namespaces.contains(&info.namespace)
            || kind.verb == "create" && REVIEWS.contains(&kind.resource.as_str())
    }

    /// Forwards a request. Returns the response before its body has arrived.
    async fn forward(&self, info: &RequestInfo, request: Request) -> Result<Response> {
        let (mut parts, body) = request.into_parts();
        remove_headers(&mut parts.headers);
        if needs_selector(info) {
            parts.uri = with_selector(&parts.uri)?;
        }
        let body = to_bytes(body, MAX_REQUEST_BYTES).await?;
        let response = self.client.send(Request::from_parts(parts, body.into())).await?;
        let (mut parts, body) = response.into_parts();
        remove_headers(&mut parts.headers);
        Ok(Response::from_parts(parts, Body::new(body)))
    }
}

fn remove_headers(headers: &mut HeaderMap) {
    for name in &NOT_FORWARDED {
        headers.remove(name);
    }
}

/// Returns whether a request lists or watches a kind whose objects `hpa-bench` creates. Other
/// objects of the kind must be left out.
fn needs_selector(info: &RequestInfo) -> bool {
    let resource = info.kind.resource.as_str();
    let is_created_here = ["pods", "deployments.apps"].contains(&resource)
        || resource.starts_with("horizontalpodautoscalers.");
    is_created_here && ["list", "watch"].contains(&info.kind.verb.as_str())
}

/// Restricts a request to objects that `hpa-bench` created.
fn with_selector(uri: &Uri) -> Result<Uri> {
    const PARAMETER: &str = "labelSelector=";
    let [label, value] = MANAGED_BY;
    let requirement = format!("{}%3D{value}", label.replace('/', "%2F"));
    let mut parameters: Vec<String> =
        uri.query().unwrap_or_default().split('&').map(str::to_owned).collect();
    parameters.retain(|parameter| !parameter.is_empty() && parameter != PARAMETER);
    match parameters.iter_mut().find(|parameter| parameter.starts_with(PARAMETER)) {
        Some(selector) => selector.extend(["%2C", &requirement]),
        None => parameters.push(format!("{PARAMETER}{requirement}")),
    }
    Ok(format!("{}?{}", uri.path(), parameters.join("&")).parse()?)
}

/// Returns an error as the API server formats it.
fn error_response(code: StatusCode, reason: &'static str, message: &str) -> Response {
    let error = ApiError::new(code.as_u16(), reason, message);
    (code, Json(error.to_status())).into_response()
}

#[cfg(test)]
mod tests {
    use http::Method;
    use rstest::rstest;

    use super::*;
    use crate::args::tests::population;

    const BENCH_ONLY: &str = "labelSelector=app.kubernetes.io%2Fmanaged-by%3Dhpa-bench";
    const APP_AND_BENCH: &str =
        "labelSelector=app%3Dx%2Capp.kubernetes.io%2Fmanaged-by%3Dhpa-bench";

    #[rstest]
    #[case("/api/v1/pods", "/api/v1/pods?", BENCH_ONLY)]
    #[case("/api/v1/pods?watch=true&labelSelector=", "/api/v1/pods?watch=true&", BENCH_ONLY)]
    #[case("/api/v1/pods?labelSelector=app%3Dx", "/api/v1/pods?", APP_AND_BENCH)]
    fn selector_is_added_to_the_query(
        #[case] given: &'static str,
        #[case] path: &str,
        #[case] end: &str,
    ) {
        let selected = with_selector(&Uri::from_static(given)).expect("a URI");
        assert_eq!(selected.to_string(), format!("{path}{end}"));
    }

    #[rstest]
    #[case("GET", "/apis/autoscaling/v2/horizontalpodautoscalers?watch=1", true)]
    #[case("GET", "/api/v1/namespaces/bench-0/pods", true)]
    #[case("GET", "/api/v1/namespaces/bench-0/pods/a", false)]
    #[case("GET", "/apis/apps/v1/replicasets", false)]
    fn collections_of_created_kinds_need_the_selector(
        #[case] method: &str,
        #[case] uri: &'static str,
        #[case] expected: bool,
    ) {
        assert_eq!(needs_selector(&info(method, uri)), expected);
    }

    #[rstest]
    #[case("GET", "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/a", true)]
    #[case("PUT", "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/a/status", false)]
    #[case(
        "PATCH",
        "/apis/autoscaling/v2/namespaces/bench-1/horizontalpodautoscalers/a/status",
        true
    )]
    #[case("POST", "/api/v1/namespaces/bench-1/events", true)]
    #[case("POST", "/api/v1/namespaces/kube-system/events", false)]
    #[case("DELETE", "/api/v1/namespaces/bench-1", false)]
    #[case("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", true)]
    #[case("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", false)]
    #[tokio::test]
    async fn writes_are_allowed_in_created_namespaces_only(
        #[case] method: &str,
        #[case] uri: &'static str,
        #[case] expected: bool,
    ) {
        let population = population(&["--autoscalers=1", "--pods=1", "--namespaces=2"]);
        let namespaces = crate::objects::namespace_names(&population);
        let config = Config::new(Uri::from_static("http://127.0.0.1:1"));
        let upstream = Upstream::new(config, &namespaces, &Arc::new(Load::new(&population)));
        assert_eq!(upstream.expect("an upstream").is_allowed(&info(method, uri)), expected);
    }

    fn info(method: &str, uri: &'static str) -> RequestInfo {
        RequestInfo::new(&method.parse::<Method>().expect("a method"), &Uri::from_static(uri))
    }
}
