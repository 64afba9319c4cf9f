//! The state that all kinds of servers share: objects, load, records, and the endpoints that report
//! them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use anyhow::{Result, ensure};
use axum::{
    Json, Router,
    extract::State,
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use http::StatusCode;
use tokio::sync::mpsc;

use super::{
    recorder::{Recorder, add_bytes},
    scaling::follow_scale,
};
use crate::{
    args::{Population, ServeArguments},
    load::Load,
    objects::{self, EXTRA_NAMESPACE, EXTRA_PREFIX, ObjectApi, TargetId},
    prometheus::{Catalog, FakePrometheus, PATH_PREFIX},
    request_info::RequestInfo,
    stats::{ADD_PATH, PROGRESS_PATH, Progress, STATS_PATH, Stats, Usage},
};

/// The measured cluster. No kubelet runs its pods.
#[derive(Clone)]
pub(super) struct Cluster {
    pub(super) object_api: ObjectApi,
    pub(super) load: Arc<Load>,
    pub(super) recorder: Arc<Recorder>,
    prometheus: FakePrometheus,
    pub(super) population: Population,
    /// Number of targets whose autoscalers are created on request.
    pub(super) extra_count: u32,
    /// Number of autoscalers that were created on request.
    added_count: Arc<AtomicU32>,
    /// The targets whose scale was written.
    scaled: mpsc::UnboundedSender<TargetId>,
    is_stopped: Arc<AtomicBool>,
}

impl Cluster {
    /// Creates an empty cluster, and a task that adds and deletes pods when targets are scaled.
    pub(super) fn new(arguments: &ServeArguments, object_api: ObjectApi, load: Arc<Load>) -> Self {
        let (scaled, receiver) = mpsc::unbounded_channel();
        tokio::spawn(follow_scale(object_api.clone(), Arc::clone(&load), receiver));
        let catalog = Catalog::for_pods(&arguments.population);
        let prometheus = FakePrometheus::new(catalog, Arc::clone(&load));
        Self {
            object_api,
            prometheus,
            load,
            recorder: Arc::new(Recorder::new()),
            population: arguments.population.clone(),
            extra_count: arguments.extra,
            added_count: Arc::new(AtomicU32::new(0)),
            scaled,
            is_stopped: Arc::default(),
        }
    }

    /// Makes populating fail once the running requests have completed.
    pub(super) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    /// Records a response to the controller, `at` seconds after the start.
    pub(super) fn record_response(
        &self,
        request: &RequestInfo,
        at: f64,
        duration: Duration,
        is_success: bool,
    ) {
        self.recorder.record_response(request, at, duration, is_success);
        if is_success && request.matches(&["update", "patch"], "deployments.apps", "scale") {
            // The receiver lives as long as this sender.
            let _ = self.scaled.send((request.namespace.clone(), request.name.clone()));
        }
    }

    /// Returns the endpoints for `hpa-bench run`, and the fake Prometheus for the controller.
    pub(super) fn router(&self) -> Router {
        let stats = async |State(cluster): State<Self>| json_response(cluster.stats().await);
        let progress = async |State(cluster): State<Self>| Json(cluster.recorder.progress());
        let add = async |State(cluster): State<Self>| json_response(cluster.add_autoscaler().await);
        Router::new()
            .route(STATS_PATH, get(stats))
            .route(PROGRESS_PATH, get(progress))
            .route(ADD_PATH, post(add))
            .with_state(self.clone())
            .nest(PATH_PREFIX, self.prometheus.router())
    }

    async fn stats(&self) -> Result<Stats> {
        let mut stats = self.recorder.stats();
        stats.prometheus = self.prometheus.stats();
        let own = Usage::for_process(std::process::id())?;
        stats.server = match &self.object_api {
            ObjectApi::Testbed(_) => Some(own),
            ObjectApi::Dedicated { client, process_ids } => {
                add_bytes(client, &mut stats.requests).await?;
                Some(own.add(Usage::for_both(*process_ids)?))
            }
            // The API server runs elsewhere.
            ObjectApi::Shared(_) => None,
        };
        Ok(stats)
    }

    async fn add_autoscaler(&self) -> Result<Progress> {
        let index = self.added_count.fetch_add(1, Ordering::Relaxed);
        let name = format!("{EXTRA_PREFIX}{index}");
        ensure!(index < self.extra_count, "every target has an autoscaler already");
        self.recorder.record_creation(EXTRA_NAMESPACE, &name);
        let autoscaler = objects::autoscaler(EXTRA_NAMESPACE, &name, &self.population);
        self.object_api.create(autoscaler).await?;
        Ok(self.recorder.progress())
    }
}

fn json_response<T: serde::Serialize>(result: Result<T>) -> Response {
    match result {
        Ok(value) => Json(value).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error:#}")).into_response(),
    }
}
