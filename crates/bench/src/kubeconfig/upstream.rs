//! The API server behind the front.

use std::{collections::BTreeSet, sync::Arc};

use anyhow::Result;
use axum::{
    Json,
    body::{Body, to_bytes},
    extract::Request,
    response::{IntoResponse as _, Response},
};
use hpa_testbed::Testbed;
use http::{HeaderMap, HeaderName, StatusCode, Uri, header};
use kube::{Client, Config};
use serde_json::json;

use crate::{
    front::{answer_with_metrics, is_of_metrics},
    load::Load,
    objects::MANAGED_BY,
    request::About,
};

/// What the API server takes at most.
const LONGEST_REQUEST: usize = 3 << 20;
/// What is between two neighbours, and not for who is behind; the credentials are not the controller's.
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
/// Creating one of these asks a question and changes nothing.
const REVIEWS: [&str; 3] = [
    "selfsubjectaccessreviews.authorization.k8s.io",
    "subjectaccessreviews.authorization.k8s.io",
    "tokenreviews.authentication.k8s.io",
];

/// Forwards requests with the credentials of a kubeconfig. A controller sees and changes nothing in the cluster but what
/// was created for it: it would take the autoscalers of others for its own.
pub(crate) struct Upstream {
    client: Client,
    server: Uri,
    /// Where may be written.
    namespaces: BTreeSet<String>,
    /// Without objects; knows how the metrics APIs are discovered, and answers for external metrics.
    metrics: Testbed,
}

impl Upstream {
    pub(super) fn new(mut config: Config, namespaces: &[String], load: &Arc<Load>) -> Result<Self> {
        // What is refused is for the controller to deal with, and what is compressed goes on as it came.
        config.default_retry = false;
        config.disable_compression = true;
        let metrics = Arc::<Load>::clone(load);
        let metrics =
            Testbed::new(hpa_testbed::Config { metrics: Some(metrics), ..Default::default() });
        let (server, namespaces) =
            (config.cluster_url.clone(), namespaces.iter().cloned().collect());
        Ok(Self { client: Client::try_from(config)?, server, namespaces, metrics })
    }

    pub(crate) async fn answer(&self, load: &Load, about: &About, request: Request) -> Response {
        if is_of_metrics(request.uri().path()) {
            return answer_with_metrics(&self.metrics, load, about, request).await;
        }
        if !self.may(about) {
            let message = format!("{} {} is not for hpa-bench", about.kind, about.name);
            return failure(StatusCode::FORBIDDEN, "Forbidden", &message);
        }
        match self.forward(about, request).await {
            Ok(answer) => answer,
            Err(error) => {
                let message = format!("cannot ask {}: {error:#}", self.server);
                failure(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", &message)
            }
        }
    }

    /// Whether a request can do no harm.
    fn may(&self, about: &About) -> bool {
        let kind = &about.kind;
        ["get", "list", "watch"].contains(&kind.verb.as_str())
            || self.namespaces.contains(&about.namespace)
            || kind.verb == "create" && REVIEWS.contains(&kind.resource.as_str())
    }

    /// The answer, whose body is still to come.
    async fn forward(&self, about: &About, request: Request) -> Result<Response> {
        let (mut parts, body) = request.into_parts();
        strip(&mut parts.headers);
        if is_selected(about) {
            parts.uri = with_selector(&parts.uri)?;
        }
        let body = to_bytes(body, LONGEST_REQUEST).await?;
        let answer = self.client.send(Request::from_parts(parts, body.into())).await?;
        let (mut parts, body) = answer.into_parts();
        strip(&mut parts.headers);
        Ok(Response::from_parts(parts, Body::new(body)))
    }
}

fn strip(headers: &mut HeaderMap) {
    for name in &NOT_FORWARDED {
        headers.remove(name);
    }
}

/// Whether it is about a collection of what is created for a controller: there can be others in the cluster.
fn is_selected(about: &About) -> bool {
    let resource = about.kind.resource.as_str();
    let is_created = ["pods", "deployments.apps"].contains(&resource)
        || resource.starts_with("horizontalpodautoscalers.");
    is_created && ["list", "watch"].contains(&about.kind.verb.as_str())
}

/// Asks for what was created for the controller, of all that it asks for.
fn with_selector(uri: &Uri) -> Result<Uri> {
    const PARAMETER: &str = "labelSelector=";
    let [label, value] = MANAGED_BY;
    let own = format!("{}%3D{value}", label.replace('/', "%2F"));
    let mut parameters: Vec<String> =
        uri.query().unwrap_or_default().split('&').map(str::to_owned).collect();
    parameters.retain(|parameter| !parameter.is_empty() && parameter != PARAMETER);
    match parameters.iter_mut().find(|parameter| parameter.starts_with(PARAMETER)) {
        Some(selector) => selector.extend(["%2C", &own]),
        None => parameters.push(format!("{PARAMETER}{own}")),
    }
    Ok(format!("{}?{}", uri.path(), parameters.join("&")).parse()?)
}

/// As the API server would say it.
fn failure(code: StatusCode, reason: &str, message: &str) -> Response {
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {},
        "status": "Failure", "message": message, "reason": reason, "code": code.as_u16(),
    });
    (code, Json(status)).into_response()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "a test may stop where it was misled")]

    use http::Method;
    use rstest::rstest;

    use super::*;
    use crate::args::{Change, Metric, Population};

    const OWN: &str = "labelSelector=app.kubernetes.io%2Fmanaged-by%3Dhpa-bench";
    const BOTH: &str = "labelSelector=app%3Dx%2Capp.kubernetes.io%2Fmanaged-by%3Dhpa-bench";

    #[rstest]
    #[case("/api/v1/pods", "/api/v1/pods?", OWN)]
    #[case("/api/v1/pods?watch=true&labelSelector=", "/api/v1/pods?watch=true&", OWN)]
    #[case("/api/v1/pods?labelSelector=app%3Dx", "/api/v1/pods?", BOTH)]
    fn selector_is_added_to_what_is_asked(
        #[case] asked: &'static str,
        #[case] path: &str,
        #[case] end: &str,
    ) {
        let selected = with_selector(&Uri::from_static(asked)).expect("a URI");
        assert_eq!(selected.to_string(), format!("{path}{end}"));
    }

    #[rstest]
    #[case("GET", "/apis/autoscaling/v2/horizontalpodautoscalers?watch=1", true)]
    #[case("GET", "/api/v1/namespaces/bench-0/pods", true)]
    #[case("GET", "/api/v1/namespaces/bench-0/pods/a", false)]
    #[case("GET", "/apis/apps/v1/replicasets", false)]
    fn collections_of_what_is_created_are_selected(
        #[case] method: &str,
        #[case] uri: &'static str,
        #[case] expected: bool,
    ) {
        assert_eq!(is_selected(&about(method, uri)), expected);
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
    async fn writes_are_for_what_was_created(
        #[case] method: &str,
        #[case] uri: &'static str,
        #[case] expected: bool,
    ) {
        let (metric, change) = (Metric::Cpu, Change::Steady);
        let period = std::time::Duration::from_secs(1);
        let population =
            Population { autoscalers: 1, pods: 1, namespaces: 2, metric, change, period };
        let namespaces = crate::objects::namespaces(&population);
        let config = Config::new(Uri::from_static("http://127.0.0.1:1"));
        let upstream = Upstream::new(config, &namespaces, &Arc::new(Load::new(&population)));
        assert_eq!(upstream.expect("an upstream").may(&about(method, uri)), expected);
    }

    fn about(method: &str, uri: &'static str) -> About {
        About::new(&method.parse::<Method>().expect("a method"), &Uri::from_static(uri))
    }
}
