//! The environment of a scenario: a namespace of the control plane, and actions and waits in it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use hpa_tests::harness::command_without_hpa_variables;
use hpa_tests::kube_apiserver::Process;
use k8s_openapi::api::autoscaling::v2::{
    HorizontalPodAutoscaler, HorizontalPodAutoscalerCondition,
};
use k8s_openapi::api::core::v1::{Event, Namespace};
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::control_plane::{ControlPlane, HeldWrites, from_json};
use crate::metrics::{Load, Metrics};
use crate::wait;
use crate::workload::{Kind, Workloads, container};

pub(crate) type Hpa = HorizontalPodAutoscaler;

/// The default deadline of waits: many sync periods, even on a busy machine.
pub(crate) const WAIT_LIMIT: Duration = Duration::from_secs(40);

#[derive(Clone)]
pub(crate) struct TestEnv {
    pub(crate) ns: String,
    pub(crate) client: Client,
    pub(crate) plane: Arc<dyn ControlPlane>,
    pub(crate) metrics: Metrics,
    pub(crate) workloads: Arc<Workloads>,
    /// The binary under test.
    pub(crate) binary: PathBuf,
}

/// The target of an autoscaler. Its pods have the label `app=NAME`.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) api: Api<DynamicObject>,
}

impl TestEnv {
    pub(crate) async fn create_namespace(&self) -> Result<()> {
        let namespace: Namespace = from_json(json!({"metadata": {"name": self.ns}}))?;
        Api::<Namespace>::all(self.client.clone())
            .create(&PostParams::default(), &namespace)
            .await?;
        Ok(())
    }

    pub(crate) fn hpas(&self) -> Api<Hpa> {
        Api::namespaced(self.client.clone(), &self.ns)
    }

    pub(crate) async fn create_deployment(&self, name: &str, replicas: i32) -> Result<Target> {
        self.create_target(Kind::DEPLOYMENT, name, replicas).await
    }

    /// Creates a target whose pods have one container, `app`.
    pub(crate) async fn create_target(
        &self,
        kind: Kind,
        name: &str,
        replicas: i32,
    ) -> Result<Target> {
        self.create_target_with_containers(kind, name, replicas, &["app"]).await
    }

    pub(crate) async fn create_target_with_containers(
        &self,
        kind: Kind,
        name: &str,
        replicas: i32,
        containers: &[&str],
    ) -> Result<Target> {
        let labels = json!({"app": name});
        let containers: Vec<Value> = containers.iter().map(|name| container(name)).collect();
        let template = json!({"metadata": {"labels": labels}, "spec": {"containers": containers}});
        let spec = match kind.group {
            "apps" => {
                let selector = json!({"matchLabels": labels});
                json!({"selector": selector, "template": template, "replicas": replicas})
            }
            "" => json!({"selector": labels, "template": template, "replicas": replicas}),
            _ => json!({"replicas": replicas}),
        };
        let object = json!({
            "apiVersion": kind.api_version(), "kind": kind.kind,
            "metadata": {"name": name}, "spec": spec,
        });
        let api = Api::namespaced_with(self.client.clone(), &self.ns, &kind.resource());
        api.create(&PostParams::default(), &from_json(object)?)
            .await
            .with_context(|| format!("create {name}"))?;
        let target = Target { kind, name: name.to_owned(), api };
        wait::object(&target.api, name, "its pods", WAIT_LIMIT, |object| {
            status_replicas(object) == i64::from(replicas)
        })
        .await?;
        Ok(target)
    }

    pub(crate) async fn create_hpa(&self, name: &str, spec: Value) -> Result<Hpa> {
        let hpa: Hpa = from_json(json!({"metadata": {"name": name}, "spec": spec}))?;
        self.hpas()
            .create(&PostParams::default(), &hpa)
            .await
            .with_context(|| format!("create {name}"))
    }

    pub(crate) async fn patch_hpa(&self, name: &str, patch: Value) -> Result<Hpa> {
        Ok(self.hpas().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?)
    }

    pub(crate) async fn delete_hpa(&self, name: &str) -> Result<()> {
        self.hpas().delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    pub(crate) async fn wait_for_hpa(
        &self,
        name: &str,
        awaited: &str,
        done: impl FnMut(&Hpa) -> bool,
    ) -> Result<Hpa> {
        wait::object(&self.hpas(), name, awaited, WAIT_LIMIT, done).await
    }

    /// Waits until the status has a condition of this type, status and reason.
    pub(crate) async fn wait_for_condition(
        &self,
        name: &str,
        type_: &str,
        status: &str,
        reason: &str,
    ) -> Result<Hpa> {
        let awaited = format!("{type_}={status} {reason}");
        self.wait_for_hpa(name, &awaited, |hpa| has_condition(hpa, type_, status, reason)).await
    }

    /// Waits until current and desired replicas are `replicas`, and the conditions report success.
    pub(crate) async fn wait_until_settled(&self, name: &str, replicas: i32) -> Result<Hpa> {
        self.wait_for_hpa(name, &format!("{name} to settle at {replicas}"), |hpa| {
            has_replicas(hpa, replicas)
                && has_condition(hpa, "AbleToScale", "True", "ReadyForNewScale")
                && has_condition(hpa, "ScalingActive", "True", "ValidMetricFound")
        })
        .await
    }

    /// Waits for an event of the autoscaler with this reason, and a message that contains `text`.
    /// Checks its source and type.
    pub(crate) async fn wait_for_event(
        &self,
        name: &str,
        reason: &str,
        text: &str,
    ) -> Result<Event> {
        let config = watcher::Config::default().fields(&format!("involvedObject.name={name}"));
        let awaited = format!("an event {reason} {text:?} about {name}");
        let event = wait::first_match(&self.events(), config, &awaited, WAIT_LIMIT, |event| {
            let has_reason = event.reason.as_deref() == Some(reason);
            (has_reason && event.message.as_deref().unwrap_or_default().contains(text))
                .then_some(event)
        })
        .await?;
        let source = event.source.clone().unwrap_or_default().component.unwrap_or_default();
        ensure!(source == "horizontal-pod-autoscaler", "the source of {reason} is {source:?}");
        let kind = event.involved_object.kind.clone().unwrap_or_default();
        ensure!(kind == "HorizontalPodAutoscaler", "{reason} is about a {kind}");
        let expected = if reason == "SuccessfulRescale" { "Normal" } else { "Warning" };
        ensure!(event.type_.as_deref() == Some(expected), "{reason} is {:?}", event.type_);
        Ok(event)
    }

    pub(crate) fn events(&self) -> Api<Event> {
        Api::namespaced(self.client.clone(), &self.ns)
    }

    /// Sets the CPU usage of the container `app` of a target.
    pub(crate) fn set_cpu(&self, app: &str, load: Load) {
        self.metrics.set_usage(&self.ns, app, "app", "cpu", load);
    }

    /// [`ControlPlane::hold_scale_writes`] in this namespace.
    pub(crate) async fn hold_scale_writes(&self, target: &Target) -> Result<HeldWrites> {
        self.plane.hold_scale_writes(&self.ns, target).await
    }

    /// Starts a controller of this namespace. `flags` override the default flags.
    pub(crate) fn start_controller(&self, name: &str, flags: &[&str]) -> Result<Process> {
        let namespace = format!("--namespace={}", self.ns);
        let mut all = vec![namespace.as_str()];
        all.extend(flags);
        start_controller(&*self.plane, &self.binary, &format!("{}-{name}", self.ns), &all)
    }

    /// Starts `hpa shadow-report` for this namespace. `flags` override the default flags.
    pub(crate) fn start_shadow_report(
        &self,
        name: &str,
        length: &str,
        flags: &[&str],
    ) -> Result<Process> {
        let [namespace, length] = [format!("--namespace={}", self.ns), format!("--for={length}")];
        let mut all = vec![namespace.as_str(), length.as_str()];
        all.extend(flags);
        let command = command(&*self.plane, &self.binary, "shadow-report", &all);
        Process::start(self.plane.dir(), &format!("{}-{name}", self.ns), command)
    }

    /// The output of `hpa explain` with the settings of the controllers.
    pub(crate) async fn explain(&self, name: &str, flags: &[&str]) -> Result<String> {
        let name = format!("{}/{name}", self.ns);
        let mut all = vec![name.as_str()];
        all.extend(flags);
        let output = command(&*self.plane, &self.binary, "explain", &all).output().await?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "hpa explain {name}: {error}");
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Describes the namespace for the report of a failure.
    pub(crate) async fn describe(&self) -> String {
        let mut text = String::new();
        if let Ok(hpas) = self.hpas().list(&ListParams::default()).await {
            for hpa in hpas {
                let status = serde_json::to_string(&hpa.status).unwrap_or_default();
                let spec = serde_json::to_string(&hpa.spec).unwrap_or_default();
                let _ = writeln!(text, "    hpa {}: {spec}\n      status {status}", hpa.name_any());
            }
        }
        if let Ok(events) = self.events().list(&ListParams::default()).await {
            for event in events.items.iter().rev().take(12).rev() {
                let count = event.count.unwrap_or(1);
                let (reason, message) = (event.reason.as_deref(), event.message.as_deref());
                let about = event.involved_object.name.as_deref().unwrap_or_default();
                let _ = writeln!(
                    text,
                    "    event {about} x{count} {}: {}",
                    reason.unwrap_or("?"),
                    message.unwrap_or("?")
                );
            }
        }
        text
    }
}

impl Target {
    /// The spec of an autoscaler of this target.
    pub(crate) fn hpa_spec(&self, min: i32, max: i32, metrics: Value) -> Value {
        let target = json!({
            "apiVersion": self.kind.api_version(), "kind": self.kind.kind, "name": self.name,
        });
        json!({
            "scaleTargetRef": target, "minReplicas": min, "maxReplicas": max, "metrics": metrics,
        })
    }

    /// Scales the target as a user.
    pub(crate) async fn scale(&self, replicas: i32) -> Result<DynamicObject> {
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        Ok(self.api.patch(&self.name, &PatchParams::default(), &patch).await?)
    }

    /// Waits until spec and status of the target have this number of replicas.
    pub(crate) async fn wait_for_replicas(&self, replicas: i32) -> Result<DynamicObject> {
        let awaited = format!("{} at {replicas} replicas", self.name);
        let wanted = i64::from(replicas);
        wait::object(&self.api, &self.name, &awaited, WAIT_LIMIT, |object| {
            spec_replicas(object) == wanted && status_replicas(object) == wanted
        })
        .await
    }
}

/// The desired replicas of a target. -1 if they are not set.
pub(crate) fn spec_replicas(object: &DynamicObject) -> i64 {
    object.data["spec"]["replicas"].as_i64().unwrap_or(-1)
}

/// The current replicas of a target. A zero is omitted.
fn status_replicas(object: &DynamicObject) -> i64 {
    object.data["status"]["replicas"].as_i64().unwrap_or(0)
}

pub(crate) fn condition<'a>(
    hpa: &'a Hpa,
    type_: &str,
) -> Option<&'a HorizontalPodAutoscalerCondition> {
    hpa.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == type_)
}

pub(crate) fn has_condition(hpa: &Hpa, type_: &str, status: &str, reason: &str) -> bool {
    condition(hpa, type_).is_some_and(|condition| {
        condition.status == status && condition.reason.as_deref() == Some(reason)
    })
}

pub(crate) fn message<'a>(hpa: &'a Hpa, type_: &str) -> &'a str {
    condition(hpa, type_).and_then(|condition| condition.message.as_deref()).unwrap_or("")
}

/// Whether both current and desired replicas are `replicas`.
pub(crate) fn has_replicas(hpa: &Hpa, replicas: i32) -> bool {
    // An optional field is omitted if it is zero.
    let status = hpa.status.as_ref();
    status.is_some_and(|status| {
        status.current_replicas.unwrap_or(0) == replicas && status.desired_replicas == replicas
    })
}

/// The first of the current metrics, as JSON.
pub(crate) fn current_metric(hpa: &Hpa) -> Value {
    let metrics = hpa.status.as_ref().and_then(|status| status.current_metrics.as_ref());
    metrics.and_then(|metrics| metrics.first()).map_or(Value::Null, |first| json!(first))
}

/// Whether the status reports this CPU utilization for the first metric.
pub(crate) fn has_utilization(hpa: &Hpa, percent: i64) -> bool {
    current_metric(hpa)["resource"]["current"]["averageUtilization"] == percent
}

/// Starts the controller under test. `flags` override the default flags.
pub(crate) fn start_controller(
    plane: &dyn ControlPlane,
    binary: &Path,
    name: &str,
    flags: &[&str],
) -> Result<Process> {
    let mut command = command(plane, binary, "run", flags);
    // Scenarios wait for the values of a status, and some compare them with the reference's.
    command.env("HPA_STATUS_INTERVAL", "0s");
    // The chart's ClusterRole does not cover leases.
    command.env("HPA_LEADER_ELECT", "false");
    Process::start(plane.dir(), name, command)
}

/// A subcommand of the binary under test. `flags` override the default flags.
fn command(plane: &dyn ControlPlane, binary: &Path, name: &str, flags: &[&str]) -> Command {
    let default_flags = [
        "--horizontal-pod-autoscaler-sync-period=1s".to_owned(),
        "--horizontal-pod-autoscaler-downscale-stabilization=2s".to_owned(),
        format!("--kubeconfig={}", plane.controller_kubeconfig().display()),
    ];
    let name_of = |flag: &str| flag.split('=').next().map(str::to_owned);
    let default_flags = default_flags
        .iter()
        .filter(|default_flag| !flags.iter().any(|flag| name_of(flag) == name_of(default_flag)));
    let mut command = command_without_hpa_variables(binary);
    // Several controllers run at the same time.
    command.arg(name).args(default_flags).args(flags).env("HPA_METRICS_PORT", "0");
    command.env("HPA_LOG_LEVEL", "info,hpa_controller=debug");
    command
}
