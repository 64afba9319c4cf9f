//! The way into the server: notes every request, answers metrics of pods itself, and tells what was noted.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Instant,
};

use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::{Query, Request, State},
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use futures::TryStreamExt as _;
use hpa_calc::selector::Selector;
use hpa_testbed::Testbed;
use http::{Method, StatusCode, header};
use http_body::Body as _;
use tokio::sync::mpsc;
use tower::Service as _;

use crate::{
    args::Population,
    load::Load,
    record::{EXTRA, EXTRA_NAMESPACE, Record},
    request::{About, POD_METRICS},
    scaling::Scaled,
    serve,
};

/// Where [`Stats`](crate::record::Stats) are.
pub(crate) const STATS: &str = "/stats";
/// Where [`Progress`](crate::record::Progress) is.
pub(crate) const PROGRESS: &str = "/progress";
/// A POST creates one more autoscaler.
pub(crate) const ADD: &str = "/add";

/// What every request needs.
#[derive(Clone)]
pub(crate) struct Front {
    pub(crate) testbed: Testbed,
    pub(crate) load: Arc<Load>,
    pub(crate) record: Arc<Record>,
    pub(crate) scaled: mpsc::UnboundedSender<Scaled>,
    pub(crate) population: Population,
    /// How many targets there are whose autoscalers are still to be added.
    pub(crate) extra: u32,
    /// How many autoscalers were added.
    pub(crate) added: Arc<AtomicU32>,
}

impl Front {
    pub(crate) fn router(self) -> Router {
        Router::new()
            .route(STATS, get(|State(front): State<Self>| async move { Json(front.record.stats()) }))
            .route(PROGRESS, get(|State(front): State<Self>| async move { Json(front.record.progress()) }))
            .route(ADD, post(|State(front): State<Self>| async move { front.add() }))
            .fallback(|State(front): State<Self>, request: Request| front.answer(request))
            .with_state(self)
    }

    fn add(&self) -> Response {
        let index = self.added.fetch_add(1, Ordering::Relaxed);
        let name = format!("{EXTRA}{index}");
        if index >= self.extra {
            return (StatusCode::CONFLICT, "there are no more targets without an autoscaler").into_response();
        }
        match serve::add_autoscaler(self, EXTRA_NAMESPACE, &name) {
            Ok(()) => Json(self.record.progress()).into_response(),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error:#}")).into_response(),
        }
    }

    async fn answer(self, request: Request) -> Response {
        let came = Instant::now();
        let about = About::new(request.method(), request.uri());
        let answer =
            match self.pod_metrics(&about, &request) {
                Some(answer) => answer,
                None => self.testbed.service().call(request).await.unwrap_or_else(|error| {
                    (StatusCode::SERVICE_UNAVAILABLE, error.to_string()).into_response()
                }),
            };
        let success = answer.status().is_success();
        self.record.answered(&about, self.record.now(), came.elapsed(), success);
        let bytes = self.record.bytes_of(&about.kind);
        if success && about.is(&["update", "patch"], "deployments.apps", "scale") {
            // Whoever follows ends after this.
            let _ = self.scaled.send((about.namespace, about.name));
        }
        count_bytes(answer, bytes)
    }

    /// Metrics of pods: the testbed would look through all pods for each answer.
    fn pod_metrics(&self, about: &About, request: &Request) -> Option<Response> {
        if request.method() != Method::GET || !about.is(&["list"], POD_METRICS, "") {
            return None;
        }
        let version =
            request.uri().path().split('/').nth(3).filter(|version| ["v1", "v1beta1"].contains(version))?;
        let Query(parameters) = Query::<HashMap<String, String>>::try_from_uri(request.uri()).ok()?;
        let selector = parameters.get("labelSelector").map_or("", String::as_str);
        let selector = Selector::parse(selector).ok()?;
        let body = self.load.pod_metrics(version, &about.namespace, &selector);
        Some(([(header::CONTENT_TYPE, "application/json")], body).into_response())
    }
}

fn count_bytes(answer: Response, bytes: Arc<AtomicU64>) -> Response {
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
