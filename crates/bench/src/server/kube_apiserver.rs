//! An etcd and a kube-apiserver that this process starts. Metrics are an aggregated API, and
//! requests are counted by the audit log.

use std::{
    fs,
    path::{self, Path},
    sync::Arc,
};

use anyhow::{Context as _, Result};
use axum::{
    Router,
    extract::{Request, State},
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use hpa_testbed::Testbed;
use hpa_tests::kube_apiserver::{KubeApiserver, Options};
use tokio::process::ChildStdout;

use super::{
    cluster::Cluster,
    listener::{bind, print_progress, serve_http},
    metrics::{count_bytes, is_metrics_path, metrics_testbed, respond},
    populate::populate,
    recorder::{CONTROLLER_USER, CompletedRequest, audit_policy, follow_audit_log},
};
use crate::{args::ServeArguments, load::Load, objects::ObjectApi, request_info::RequestInfo};

const METRICS_APIS: [(&str, &str); 3] = [
    ("metrics.k8s.io", "v1beta1"),
    ("custom.metrics.k8s.io", "v1beta2"),
    ("external.metrics.k8s.io", "v1beta1"),
];
/// Admission plugins that need controllers or nodes, or that cost time without an effect on the
/// measured objects.
const DISABLED_ADMISSION: [&str; 8] = [
    "TaintNodesByCondition",
    "Priority",
    "DefaultTolerationSeconds",
    "LimitRanger",
    "ResourceQuota",
    "StorageObjectInUseProtection",
    "RuntimeClass",
    "PodSecurity",
];

/// Starts etcd and kube-apiserver, populates them, and serves metrics and statistics.
pub(super) async fn serve(arguments: &ServeArguments, assets: &Path) -> Result<()> {
    // The data is stored in the directory of the kubeconfig, which is the temporary directory of
    // `hpa-bench run`.
    let file = path::absolute(&arguments.kubeconfig)?;
    let parent = file.parent().context("the kubeconfig is not a file")?;
    let dir = tempfile::Builder::new().prefix("kube-apiserver-").tempdir_in(parent)?;
    let (mut apiserver, log) = start_with_audit_log(assets, dir.path(), CONTROLLER_USER).await?;
    print_progress("kube-apiserver is ready")?;
    let load = Arc::new(Load::new(&arguments.population));
    let (client, process_ids) = (apiserver.client(), apiserver.process_ids()?);
    let object_api = ObjectApi::Dedicated { client, process_ids };
    let cluster = Cluster::new(arguments, object_api, load);
    let recorded = cluster.clone();
    tokio::spawn(follow_audit_log(log, move |completed| {
        let CompletedRequest { request, at, duration, is_success } = completed;
        let at = recorded.recorder.seconds_from_start(at);
        recorded.record_response(&request, at, duration, is_success);
    }));
    let server = apiserver.https_server(metrics_router(&cluster)).await?;
    apiserver.aggregate(&server, &METRICS_APIS).await?;
    populate(&cluster).await?;
    let kubeconfig = &arguments.kubeconfig;
    fs::write(kubeconfig, apiserver.kubeconfig(CONTROLLER_USER).to_string())
        .with_context(|| format!("cannot write {}", kubeconfig.display()))?;
    serve_http(bind().await?, cluster.router()).await
}

/// Starts etcd and a kube-apiserver, whose audit log has the requests of a user. The user is a
/// cluster administrator.
pub(crate) async fn start_with_audit_log(
    assets: &Path,
    dir: &Path,
    user: &str,
) -> Result<(KubeApiserver, ChildStdout)> {
    let options = Options::new(assets)
        .user(user)
        .without_admission_plugins(&DISABLED_ADMISSION)
        .audit_policy(audit_policy(user));
    let mut apiserver = KubeApiserver::start(options, dir).await?;
    let log = apiserver.take_audit_log().context("the API server has no audit log")?;
    Ok((apiserver, log))
}

/// Serves only the metrics APIs of a testbed.
fn metrics_router(cluster: &Cluster) -> Router {
    let testbed = metrics_testbed(&cluster.load);
    Router::new().fallback(serve_metrics).with_state((cluster.clone(), testbed))
}

async fn serve_metrics(
    State((cluster, testbed)): State<(Cluster, Testbed)>,
    request: Request,
) -> Response {
    if !is_metrics_path(request.uri().path()) {
        return StatusCode::NOT_FOUND.into_response();
    }
    let info = RequestInfo::new(request.method(), request.uri());
    let response = respond(&testbed, &cluster.load, &info, request).await;
    if info.kind.resource.is_empty() {
        // A discovery request, which the API server sends on its own.
        return response;
    }
    count_bytes(response, cluster.recorder.byte_counter(&info.kind))
}
