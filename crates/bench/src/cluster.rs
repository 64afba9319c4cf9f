//! What surrounds the API server: who populates it, the load, the record, and the answers to who measures.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, Ordering},
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

use crate::{
    args::{Population, ServeArguments},
    kube_apiserver::Watched,
    load::Load,
    objects,
    process::Usage,
    record::{EXTRA, EXTRA_NAMESPACE, Progress, Record, Stats},
    request::About,
    scaling::{self, Scaled},
    store::Store,
};

/// Where [`Stats`] are.
pub(crate) const STATS: &str = "/stats";
/// Where [`Progress`] is.
pub(crate) const PROGRESS: &str = "/progress";
/// A POST creates one more autoscaler.
pub(crate) const ADD: &str = "/add";

/// A cluster without nodes.
#[derive(Clone)]
pub(crate) struct Cluster {
    pub(crate) store: Store,
    pub(crate) load: Arc<Load>,
    pub(crate) record: Arc<Record>,
    pub(crate) population: Population,
    /// How many targets there are whose autoscalers are still to be added.
    pub(crate) extra: u32,
    /// How many autoscalers were added.
    added: Arc<AtomicU32>,
    scaled: mpsc::UnboundedSender<Scaled>,
    processes: Processes,
    /// Whether nothing more is to be created.
    stopped: Arc<AtomicBool>,
}

/// The processes of the server.
#[derive(Clone)]
pub(crate) enum Processes {
    /// This one.
    Own,
    /// This one and those that it has started.
    Started(Watched),
    /// They are not known.
    Elsewhere,
}

impl Cluster {
    /// With nothing in it; pods follow targets that are scaled, from now on.
    pub(crate) fn new(
        arguments: &ServeArguments,
        store: Store,
        load: Arc<Load>,
        processes: Processes,
    ) -> Self {
        let (scaled, to_follow) = mpsc::unbounded_channel();
        tokio::spawn(scaling::follow(store.clone(), Arc::clone(&load), to_follow));
        Self {
            store,
            load,
            record: Arc::new(Record::new()),
            population: arguments.population.clone(),
            extra: arguments.extra,
            added: Arc::new(AtomicU32::new(0)),
            scaled,
            processes,
            stopped: Arc::default(),
        }
    }

    /// Ends who populates, as soon as the objects that are on their way are there.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// A request of the controller was answered then, after so long.
    pub(crate) fn answered(
        &self,
        about: &About,
        at: f64,
        took: std::time::Duration,
        success: bool,
    ) {
        self.record.answered(about, at, took, success);
        if success && about.is(&["update", "patch"], "deployments.apps", "scale") {
            // Whoever follows ends after this.
            let _ = self.scaled.send((about.namespace.clone(), about.name.clone()));
        }
    }

    /// The answers to who measures.
    pub(crate) fn router(&self) -> Router {
        Router::new()
            .route(
                STATS,
                get(|State(cluster): State<Self>| async move { answer(cluster.stats().await) }),
            )
            .route(
                PROGRESS,
                get(|State(cluster): State<Self>| async move { Json(cluster.record.progress()) }),
            )
            .route(
                ADD,
                post(|State(cluster): State<Self>| async move { answer(cluster.add().await) }),
            )
            .with_state(self.clone())
    }

    async fn stats(&self) -> Result<Stats> {
        let mut stats = self.record.stats();
        let own = Usage::of(std::process::id())?;
        stats.server = match &self.processes {
            Processes::Own => Some(own),
            Processes::Started(watched) => {
                watched.count_bytes(&mut stats.requests).await?;
                Some(own.add(watched.usage()?))
            }
            Processes::Elsewhere => None,
        };
        Ok(stats)
    }

    async fn add(&self) -> Result<Progress> {
        let index = self.added.fetch_add(1, Ordering::Relaxed);
        let name = format!("{EXTRA}{index}");
        ensure!(index < self.extra, "there are no more targets without an autoscaler");
        self.record.creates(EXTRA_NAMESPACE, &name);
        self.store.create(objects::autoscaler(EXTRA_NAMESPACE, &name, &self.population)).await?;
        Ok(self.record.progress())
    }
}

fn answer<T: serde::Serialize>(result: Result<T>) -> Response {
    match result {
        Ok(value) => Json(value).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error:#}")).into_response(),
    }
}
