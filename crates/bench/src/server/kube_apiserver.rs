//! An etcd and a kube-apiserver that this process starts. Metrics are an aggregated API, and
//! requests are counted by the audit log.

use std::{fs, path::Path, sync::Arc};

use anyhow::{Context as _, Result};
use axum::{
    Router,
    extract::{Request, State},
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use hpa_testbed::Testbed;
use hpa_tests::kube_apiserver::{KubeApiserver, Options};

use super::{
    cluster::{Cluster, Processes},
    listener::{bind, print_progress, serve_http},
    metrics::{count_bytes, is_metrics_path, respond, testbed},
    populate::populate,
    recorder::{ApiserverStats, CONTROLLER, CompletedRequest, Recorder, follow, policy},
};
use crate::{args::ServeArguments, load::Load, objects::ObjectStore, request_info::RequestInfo};

const METRICS_APIS: [(&str, &str); 3] = [
    ("metrics.k8s.io", "v1beta1"),
    ("custom.metrics.k8s.io", "v1beta2"),
    ("external.metrics.k8s.io", "v1beta1"),
];
/// Admission plugins that need controllers or nodes, or that cost time without effect here.
pub(crate) const DISABLED_ADMISSION: [&str; 8] = [
    "TaintNodesByCondition",
    "Priority",
    "DefaultTolerationSeconds",
    "LimitRanger",
    "ResourceQuota",
    "StorageObjectInUseProtection",
    "RuntimeClass",
    "PodSecurity",
];

/// Starts the programs, populates the API server, and serves metrics and statistics.
pub(super) async fn serve(arguments: &ServeArguments, assets: &Path) -> Result<()> {
    // Beside the kubeconfig, because `run` has a temporary directory for all files there.
    let parent = fs::canonicalize(arguments.kubeconfig.parent().unwrap_or(Path::new(".")))
        .or_else(|_| std::env::current_dir())?;
    let dir = tempfile::Builder::new().prefix("kube-apiserver-").tempdir_in(parent)?;
    let options = Options::new(assets)
        .user(CONTROLLER)
        .without_admission(&DISABLED_ADMISSION)
        .audit_policy(policy(CONTROLLER));
    let mut apiserver = KubeApiserver::start(options, dir.path()).await?;
    print_progress("kube-apiserver is ready")?;
    let load = Arc::new(Load::new(&arguments.population));
    let stats =
        ApiserverStats { client: apiserver.client(), process_ids: apiserver.process_ids()? };
    let store = ObjectStore::Dedicated(apiserver.client());
    let cluster = Cluster::new(arguments, store, load, Processes::Started(stats));
    let log = apiserver.take_audit_log().context("the API server has no audit log")?;
    let recorded = cluster.clone();
    tokio::spawn(follow(log, move |completed| {
        let CompletedRequest { request, at, took, success } = completed;
        let at = recorded.recorder.seconds_until(at);
        recorded.record_response(&request, at, took, success);
    }));
    let server = apiserver.https_server(metrics_router(&cluster)).await?;
    apiserver.aggregate(&server, &METRICS_APIS).await?;
    populate(&cluster).await?;
    let kubeconfig = &arguments.kubeconfig;
    fs::write(kubeconfig, apiserver.kubeconfig(CONTROLLER).to_string())
        .with_context(|| format!("cannot write {}", kubeconfig.display()))?;
    serve_http(bind().await?, cluster.router()).await
}

#[derive(Clone)]
struct Metrics {
    load: Arc<Load>,
    recorder: Arc<Recorder>,
    testbed: Testbed,
}

/// Serves the metrics APIs, and nothing else that a testbed has.
fn metrics_router(cluster: &Cluster) -> Router {
    let (load, recorder) = (Arc::clone(&cluster.load), Arc::clone(&cluster.recorder));
    let testbed = testbed(&load);
    Router::new().fallback(serve_metrics).with_state(Metrics { load, recorder, testbed })
}

async fn serve_metrics(State(metrics): State<Metrics>, request: Request) -> Response {
    if !is_metrics_path(request.uri().path()) {
        return StatusCode::NOT_FOUND.into_response();
    }
    let info = RequestInfo::new(request.method(), request.uri());
    let response = respond(&metrics.testbed, &metrics.load, &info, request).await;
    if info.kind.resource.is_empty() {
        // Discovery, which is a request of the API server itself and not of the controller.
        return response;
    }
    count_bytes(response, metrics.recorder.byte_counter(&info.kind))
}
