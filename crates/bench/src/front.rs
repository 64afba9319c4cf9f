//! The way into the server: notes every request, and answers for metrics itself.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Query, Request, State},
    response::{IntoResponse as _, Response},
};
use futures::TryStreamExt as _;
use hpa_calc::selector::Selector;
use hpa_testbed::Testbed;
use http::{Method, StatusCode, header};
use http_body::Body as _;
use tower::Service as _;

use crate::{
    cluster::Cluster,
    kubeconfig::Upstream,
    load::Load,
    request::{About, POD_METRICS},
};

/// The group of the metrics of pods, and what those of the other metrics APIs end with.
const METRICS_GROUP: &str = "metrics.k8s.io";

/// What every request needs.
#[derive(Clone)]
pub(crate) struct Front {
    pub(crate) behind: Backend,
    pub(crate) cluster: Cluster,
}

/// Who answers behind the front.
#[derive(Clone)]
pub(crate) enum Backend {
    Testbed(Testbed),
    Api(Arc<Upstream>),
}

impl Front {
    pub(crate) fn router(self) -> Router {
        let own = self.cluster.router();
        let behind = Router::new()
            .fallback(|State(front): State<Self>, request: Request| front.answer(request));
        behind.with_state(self).merge(own)
    }

    async fn answer(self, request: Request) -> Response {
        let came = Instant::now();
        let about = About::new(request.method(), request.uri());
        let load = &self.cluster.load;
        let answer = match &self.behind {
            Backend::Testbed(testbed) => answer_with_metrics(testbed, load, &about, request).await,
            Backend::Api(upstream) => upstream.answer(load, &about, request).await,
        };
        let record = &self.cluster.record;
        self.cluster.answered(&about, record.now(), came.elapsed(), answer.status().is_success());
        count_bytes(answer, record.bytes_of(&about.kind))
    }
}

/// The answer of a testbed, except for metrics of pods: it would look through all pods for each.
pub(crate) async fn answer_with_metrics(
    testbed: &Testbed,
    load: &Load,
    about: &About,
    request: Request,
) -> Response {
    match pod_metrics(load, about, &request) {
        Some(answer) => answer,
        None => testbed.service().call(request).await.unwrap_or_else(|error| {
            (StatusCode::SERVICE_UNAVAILABLE, error.to_string()).into_response()
        }),
    }
}

/// Whether a path is one of the metrics APIs.
pub(crate) fn is_of_metrics(path: &str) -> bool {
    let group =
        path.strip_prefix("/apis/").and_then(|rest| rest.split('/').next()).unwrap_or_default();
    group == METRICS_GROUP
        || group.strip_suffix(METRICS_GROUP).is_some_and(|kind| kind.ends_with('.'))
}

fn pod_metrics(load: &Load, about: &About, request: &Request) -> Option<Response> {
    if request.method() != Method::GET || !about.is(&["list"], POD_METRICS, "") {
        return None;
    }
    let version = request
        .uri()
        .path()
        .split('/')
        .nth(3)
        .filter(|version| ["v1", "v1beta1"].contains(version))?;
    let Query(parameters) = Query::<HashMap<String, String>>::try_from_uri(request.uri()).ok()?;
    let selector = parameters.get("labelSelector").map_or("", String::as_str);
    let selector = Selector::parse(selector).ok()?;
    let body = load.pod_metrics(version, &about.namespace, &selector);
    Some(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

/// Counts what is sent of an answer.
pub(crate) fn count_bytes(answer: Response, bytes: Arc<AtomicU64>) -> Response {
    if let Some(size) = answer.body().size_hint().exact() {
        bytes.fetch_add(size, Ordering::Relaxed);
        return answer;
    }
    let (parts, body) = answer.into_parts();
    let count = move |data: &Bytes| {
        bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
    };
    Response::from_parts(parts, Body::from_stream(body.into_data_stream().inspect_ok(count)))
}
