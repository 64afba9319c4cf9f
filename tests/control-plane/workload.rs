//! Replaces workload controllers, scheduler and kubelet: creates and deletes running pods to match
//! the replicas of each target.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::Result;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// The age of new pods, which is longer than all grace periods.
pub(crate) const POD_AGE: SignedDuration = SignedDuration::from_mins(10);

/// A kind that can be scaled.
#[allow(clippy::struct_field_names, reason = "the API's own term")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
}

impl Kind {
    pub(crate) const DEPLOYMENT: Self = Self::new("apps", "v1", "Deployment", "deployments");
    pub(crate) const STATEFUL_SET: Self = Self::new("apps", "v1", "StatefulSet", "statefulsets");
    pub(crate) const REPLICA_SET: Self = Self::new("apps", "v1", "ReplicaSet", "replicasets");
    pub(crate) const REPLICATION_CONTROLLER: Self =
        Self::new("", "v1", "ReplicationController", "replicationcontrollers");
    const BUILT_IN: [Self; 4] =
        [Self::DEPLOYMENT, Self::STATEFUL_SET, Self::REPLICA_SET, Self::REPLICATION_CONTROLLER];

    pub(crate) const fn new(
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        plural: &'static str,
    ) -> Self {
        Self { group, version, kind, plural }
    }

    pub(crate) fn resource(self) -> ApiResource {
        let gvk = GroupVersionKind::gvk(self.group, self.version, self.kind);
        ApiResource::from_gvk_with_plural(&gvk, self.plural)
    }

    pub(crate) fn api_version(self) -> String {
        if self.group.is_empty() {
            self.version.into()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

/// Simulates workload controllers and kubelets until it is dropped.
pub(crate) struct Workloads {
    client: Client,
    tasks: Mutex<JoinSet<()>>,
}

impl Workloads {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, tasks: Mutex::default() }
    }

    pub(crate) fn simulate_built_in_controllers(&self) {
        for kind in Kind::BUILT_IN {
            self.simulate_controller(kind);
        }
    }

    /// Starts a task that sets pending pods to Running, for clusters with real workload
    /// controllers.
    pub(crate) fn simulate_kubelets(&self) {
        let client = self.client.clone();
        self.tasks.lock().expect("no panic").spawn(simulate_kubelets(client));
    }

    /// Starts a task that creates and deletes the pods of a kind's targets and writes the targets'
    /// statuses.
    pub(crate) fn simulate_controller(&self, kind: Kind) {
        let controller =
            SimulatedController { client: self.client.clone(), kind, pod_counts: HashMap::new() };
        self.tasks.lock().expect("no panic").spawn(controller.run());
    }
}

/// Creates and deletes the running pods of a kind's targets.
struct SimulatedController {
    client: Client,
    kind: Kind,
    /// By namespace and name of the target.
    pod_counts: HashMap<(String, String), i64>,
}

impl SimulatedController {
    async fn run(mut self) {
        let api = Api::<DynamicObject>::all_with(self.client.clone(), &self.kind.resource());
        let mut events = std::pin::pin!(watcher(api, watcher::Config::default()));
        while let Some(event) = events.next().await {
            let (target, is_deleted) = match event {
                Ok(watcher::Event::InitApply(target) | watcher::Event::Apply(target)) => {
                    (target, false)
                }
                Ok(watcher::Event::Delete(target)) => (target, true),
                Ok(_) => continue,
                Err(_) => {
                    // The kind may not be served yet.
                    sleep(Duration::from_millis(200)).await;
                    continue;
                }
            };
            if let Err(error) = self.match_replicas(&target, is_deleted).await {
                eprintln!("workloads: {} {}: {error:#}", self.kind.kind, target.name_any());
            }
        }
    }

    async fn match_replicas(&mut self, target: &DynamicObject, is_deleted: bool) -> Result<()> {
        let (ns, name) = (target.namespace().unwrap_or_default(), target.name_any());
        let desired =
            if is_deleted { 0 } else { target.data["spec"]["replicas"].as_i64().unwrap_or(1) };
        let current = self.pod_counts.entry((ns.clone(), name.clone())).or_default();
        let api = Api::<Pod>::namespaced(self.client.clone(), &ns);
        let spec = match &target.data["spec"]["template"]["spec"] {
            Value::Null => json!({"containers": [container("app")]}),
            spec => spec.clone(),
        };
        let created =
            (*current..desired).map(|index| create_running_pod(&api, &name, index, &spec));
        stream::iter(created).buffer_unordered(8).try_collect::<Vec<_>>().await?;
        let deleted = (desired..*current).map(|index| delete_pod(&api, &name, index));
        stream::iter(deleted).buffer_unordered(8).try_collect::<Vec<_>>().await?;
        *current = desired;
        if is_deleted || target.data["status"]["replicas"].as_i64() == Some(desired) {
            return Ok(());
        }
        let mut status =
            json!({"replicas": desired, "readyReplicas": desired, "availableReplicas": desired});
        if target.data["spec"]["template"].is_null() {
            status["selector"] = format!("app={name}").into();
        }
        let targets =
            Api::<DynamicObject>::namespaced_with(self.client.clone(), &ns, &self.kind.resource());
        let patch = Patch::Merge(json!({"status": status}));
        ignore_not_found(targets.patch_status(&name, &PatchParams::default(), &patch).await)
    }
}

/// The object may have been deleted in the meantime.
fn ignore_not_found<T>(result: kube::Result<T>) -> Result<()> {
    match result {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        other => other.map(drop).map_err(Into::into),
    }
}

/// A container with a request of 100m of CPU and 100Mi of memory.
pub(crate) fn container(name: &str) -> Value {
    let requests = json!({"cpu": "100m", "memory": "100Mi"});
    json!({"name": name, "image": "none", "resources": {"requests": requests}})
}

async fn create_running_pod(api: &Api<Pod>, target: &str, index: i64, spec: &Value) -> Result<()> {
    let name = format!("{target}-{index}");
    let pod = json!({"metadata": {"name": name, "labels": {"app": target}}, "spec": spec});
    match api.create(&PostParams::default(), &serde_json::from_value(pod)?).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => {}
        other => drop(other?),
    }
    set_running(api, &name).await
}

async fn simulate_kubelets(client: Client) {
    let all = Api::<Pod>::all(client.clone());
    let mut events = std::pin::pin!(watcher(all, watcher::Config::default()).default_backoff());
    while let Some(event) = events.next().await {
        let Ok(watcher::Event::InitApply(pod) | watcher::Event::Apply(pod)) = event else {
            continue;
        };
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        if phase != Some("Pending") || pod.metadata.deletion_timestamp.is_some() {
            continue;
        }
        let (ns, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
        if let Err(error) = set_running(&Api::namespaced(client.clone(), &ns), &name).await {
            eprintln!("workloads: Pod {ns}/{name}: {error:#}");
        }
    }
}

/// The status of a running pod of this age, which has been ready or unready since its start.
pub(crate) fn running_status(age: SignedDuration, is_ready: bool) -> Value {
    let start = (Timestamp::now() - age).strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let ready = if is_ready { "True" } else { "False" };
    json!({
        "phase": "Running", "startTime": start,
        "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": start}],
    })
}

async fn set_running(api: &Api<Pod>, name: &str) -> Result<()> {
    let status = json!({"status": running_status(POD_AGE, true)});
    ignore_not_found(api.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await)
}

async fn delete_pod(api: &Api<Pod>, target: &str, index: i64) -> Result<()> {
    let parameters = DeleteParams::default().grace_period(0);
    ignore_not_found(api.delete(&format!("{target}-{index}"), &parameters).await)
}
