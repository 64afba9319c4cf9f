//! An operator that embeds `hpa-calc`. It scales every Deployment with these annotations:
//!
//! - `example.com/autoscale`: the spec of an autoscaler as JSON, with an External metric `jobs`
//! - `example.com/jobs`: the value of that metric, which a job queue would keep up to date

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::StreamExt;
use hpa_calc::{
    History, HorizontalPodAutoscaler, MetricsApi, Plan, ReadError, Reading, Scale, ScaleWriteError,
    SelectedPods, Settings, defaults::apply_defaults,
};
use jiff::Timestamp;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, PostParams},
    runtime::{Controller, controller::Action, watcher},
};
use tokio::sync::Mutex;
use tracing::{info, warn};

const SYNC_PERIOD: Duration = Duration::from_secs(15);

struct Operator {
    client: Client,
    settings: Settings,
    /// By UID. A production operator would also remove the entries of deleted Deployments.
    histories: Mutex<HashMap<String, History>>,
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("request failed: {0}")]
    Api(#[from] kube::Error),
    #[error("invalid JSON: {0}")]
    Json(#[from] serde_json::Error),
}

async fn reconcile(deployment: Arc<Deployment>, operator: Arc<Operator>) -> Result<Action, Error> {
    let annotation = |name| deployment.annotations().get(name);
    let Some(spec) = annotation("example.com/autoscale") else { return Ok(Action::await_change()) };
    let mut hpa =
        HorizontalPodAutoscaler { spec: serde_json::from_str(spec)?, ..Default::default() };
    apply_defaults(&mut hpa.spec);

    // Read the scale and the pods.
    let (name, namespace) = (deployment.name_any(), deployment.namespace().unwrap_or_default());
    let deployments: Api<Deployment> = Api::namespaced(operator.client.clone(), &namespace);
    let mut stored = deployments.get_scale(&name).await?;
    let status = stored.status.clone().unwrap_or_default();
    // The API server omits replicas of zero.
    let scale = Scale {
        spec_replicas: stored.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or_default(),
        status_replicas: status.replicas,
        selector: status.selector.unwrap_or_default(),
    };
    let pods: Api<Pod> = Api::namespaced(operator.client.clone(), &namespace);
    let pods = pods.list(&ListParams::default().labels(&scale.selector)).await?;
    let pods: Vec<hpa_calc::Pod> = serde_json::from_value(serde_json::to_value(pods.items)?)?;

    // Read the metrics, and decide.
    let plan = Plan::new(&hpa, Ok(scale), &operator.settings, |_| SelectedPods::new(pods));
    let jobs = annotation("example.com/jobs").and_then(|jobs| jobs.parse().ok());
    let jobs = jobs.map(|jobs| Reading::External(vec![jobs].into()));
    let readings =
        plan.readings_by_name([("jobs", jobs.ok_or(ReadError::Empty(MetricsApi::External)))]);
    let uid = deployment.uid().unwrap_or_default();
    let history = operator.histories.lock().await.remove(&uid).unwrap_or_default();
    let decision = plan.decide(readings, history, Timestamp::now());
    info!(name, namespace, decision = %decision.explanation());

    // Write the scale. If it changed since it was read, the API server rejects the outdated
    // resource version.
    let mut written = Ok(());
    if let Some(replicas) = decision.scale_to() {
        stored.spec.get_or_insert_default().replicas = Some(replicas);
        let result = deployments.replace_scale(&name, &PostParams::default(), &stored).await;
        written = result.map(drop).map_err(ScaleWriteError::failed);
    }
    let conclusion = decision.conclude(written, Timestamp::now());
    operator.histories.lock().await.insert(uid, conclusion.history);
    Ok(Action::requeue(SYNC_PERIOD))
}

fn retry(_: Arc<Deployment>, error: &Error, _: Arc<Operator>) -> Action {
    warn!(%error, "reconcile failed");
    Action::requeue(SYNC_PERIOD)
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    tracing_subscriber::fmt().init();
    let client = Client::try_default().await?;
    let (settings, histories) = (Settings::default(), Mutex::default());
    let operator = Operator { client: client.clone(), settings, histories };
    let controller = Controller::<Deployment>::new(Api::all(client), watcher::Config::default());
    controller.run(reconcile, retry, operator.into()).for_each(|_| async {}).await;
    Ok(())
}
