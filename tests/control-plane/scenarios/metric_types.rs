//! The metric types, with the target types of Object and External metrics.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::{concat_metrics, cpu_metric, external_metric};
use crate::metrics::{Load, Outage, Source};
use crate::test_env::{TestEnv, current_metric, message, spec_replicas};
use crate::wait;
use crate::workload::Kind;

/// A metric, and its names in conditions, events and status. The test sets it to values for 2, 4
/// and 1 replicas.
struct Case {
    metric: Value,
    /// Sets the sum of the metric over all pods, in tenths of the target.
    set: fn(&TestEnv, i64),
    /// The description in conditions and events.
    described_as: &'static str,
    /// The field that is set in `current` of the metric's status.
    current_field: &'static str,
    /// Whether the target has the type `Value`. Then the ratio does not drop as replicas are added,
    /// so the scale-up ends at `maxReplicas`.
    is_value: bool,
}

impl Case {
    async fn run(self, env: TestEnv) -> Result<()> {
        let app = env
            .create_target_with_containers(Kind::DEPLOYMENT, "app", 2, &["app", "sidecar"])
            .await?;
        let (steady, high, low) = if self.is_value { (10, 20, 1) } else { (20, 40, 10) };
        (self.set)(&env, steady);
        let max = if self.is_value { 4 } else { 10 };
        env.create_hpa("app", app.hpa_spec(1, max, json!([self.metric]))).await?;
        let hpa = env.wait_until_settled("app", 2).await?;
        let expected = format!(
            "the HPA was able to successfully calculate a replica count from {}",
            self.described_as
        );
        ensure!(
            message(&hpa, "ScalingActive").starts_with(&expected),
            "{}",
            message(&hpa, "ScalingActive")
        );
        let metric = current_metric(&hpa);
        ensure!(metric["type"] == self.metric["type"], "{metric}");
        let source_field = metric["type"]
            .as_str()
            .map(|name| name[..1].to_lowercase() + &name[1..])
            .unwrap_or_default();
        let [source, reported] = [&self.metric, &metric].map(|metric| &metric[&source_field]);
        let current = &reported["current"];
        ensure!(!current[self.current_field].is_null(), "{metric} has no {}", self.current_field);
        for name in ["name", "container", "metric", "describedObject"] {
            ensure!(reported[name] == source[name], "{name} in {metric}");
        }

        (self.set)(&env, high);
        app.wait_for_replicas(4).await?;
        let text = format!("New size: 4; reason: {}", self.described_as);
        let event = env.wait_for_event("app", "SuccessfulRescale", &text).await?;
        ensure!(event.message.is_some_and(|message| message.ends_with(" above target")));
        if self.is_value {
            env.wait_for_condition("app", "ScalingLimited", "True", "TooManyReplicas").await?;
        } else {
            env.wait_until_settled("app", 4).await?;
        }

        (self.set)(&env, low);
        app.wait_for_replicas(1).await?;
        env.wait_for_event(
            "app",
            "SuccessfulRescale",
            "New size: 1; reason: All metrics below target",
        )
        .await?;
        Ok(())
    }
}

pub(super) async fn memory_average_value(env: TestEnv) -> Result<()> {
    let metric = json!({"type": "Resource", "resource": {
        "name": "memory", "target": {"type": "AverageValue", "averageValue": "100Mi"},
    }});
    let set = |env: &TestEnv, sum: i64| {
        for container in ["app", "sidecar"] {
            let load = Load::Total(sum * 5 * 1024 * 1024);
            env.metrics.set_usage(&env.ns, "app", container, "memory", load);
        }
    };
    Case {
        metric,
        set,
        described_as: "memory resource",
        current_field: "averageValue",
        is_value: false,
    }
    .run(env)
    .await
}

pub(super) async fn container_cpu(env: TestEnv) -> Result<()> {
    let metric = json!({"type": "ContainerResource", "containerResource": {
        "name": "cpu", "container": "sidecar",
        "target": {"type": "Utilization", "averageUtilization": 50},
    }});
    let set = |env: &TestEnv, sum: i64| {
        env.metrics.set_usage(&env.ns, "app", "sidecar", "cpu", Load::Total(sum * 5));
        // The other container must be ignored.
        env.metrics.set_usage(&env.ns, "app", "app", "cpu", Load::PerPod(5000));
    };
    let described_as = "cpu container resource utilization (percentage of request)";
    Case { metric, set, described_as, current_field: "averageUtilization", is_value: false }
        .run(env)
        .await
}

pub(super) async fn pods_metric(env: TestEnv) -> Result<()> {
    let metric = json!({"type": "Pods", "pods": {
        "metric": {"name": "requests"}, "target": {"type": "AverageValue", "averageValue": "10"},
    }});
    let set = |env: &TestEnv, sum: i64| {
        env.metrics.set_pods_metric(&env.ns, "requests", Load::Total(sum * 1000));
    };
    Case {
        metric,
        set,
        described_as: "pods metric requests",
        current_field: "averageValue",
        is_value: false,
    }
    .run(env)
    .await
}

pub(super) async fn object_value(env: TestEnv) -> Result<()> {
    let metric = json!({"type": "Object", "object": {
        "metric": {"name": "hits"}, "target": {"type": "Value", "value": "10"},
        "describedObject": {
            "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "front",
        },
    }});
    let set = |env: &TestEnv, sum: i64| {
        env.metrics.set_object(
            &env.ns,
            "ingresses.networking.k8s.io/front",
            "hits",
            &sum.to_string(),
        );
    };
    Case {
        metric,
        set,
        described_as: "Ingress metric hits",
        current_field: "value",
        is_value: true,
    }
    .run(env)
    .await
}

pub(super) async fn object_average_value(env: TestEnv) -> Result<()> {
    let metric = json!({"type": "Object", "object": {
        "metric": {"name": "hits"}, "target": {"type": "AverageValue", "averageValue": "10"},
        "describedObject": {"apiVersion": "v1", "kind": "Service", "name": "front"},
    }});
    let set = |env: &TestEnv, sum: i64| {
        env.metrics.set_object(&env.ns, "services/front", "hits", &sum.to_string());
    };
    // kube-controller-manager uses this name.
    Case {
        metric,
        set,
        described_as: "external metric hits(nil)",
        current_field: "averageValue",
        is_value: false,
    }
    .run(env)
    .await
}

pub(super) async fn object_namespace(env: TestEnv) -> Result<()> {
    let metric = json!({"type": "Object", "object": {
        "metric": {"name": "backlog"}, "target": {"type": "AverageValue", "averageValue": "10"},
        "describedObject": {"apiVersion": "v1", "kind": "Namespace", "name": env.ns},
    }});
    let set = |env: &TestEnv, sum: i64| {
        env.metrics.set_object(&env.ns, "namespace", "backlog", &sum.to_string());
    };
    Case {
        metric,
        set,
        described_as: "external metric backlog(nil)",
        current_field: "averageValue",
        is_value: false,
    }
    .run(env)
    .await
}

pub(super) async fn external_value(env: TestEnv) -> Result<()> {
    let metric = json!({"type": "External", "external": {
        "metric": {"name": "queue"}, "target": {"type": "Value", "value": "10"},
    }});
    let set = |env: &TestEnv, sum: i64| {
        env.metrics.set_external(&env.ns, "queue", &[("", &sum.to_string())]);
    };
    Case {
        metric,
        set,
        described_as: "external metric queue(nil)",
        current_field: "value",
        is_value: true,
    }
    .run(env)
    .await
}

pub(super) async fn external_average_value(env: TestEnv) -> Result<()> {
    let metric = json!({"type": "External", "external": {
        "metric": {"name": "queue", "selector": {"matchLabels": {"queue": "mail"}}},
        "target": {"type": "AverageValue", "averageValue": "10"},
    }});
    // The selector matches two of three series.
    let set = |env: &TestEnv, sum: i64| {
        let (one, other) = ((sum - 3).to_string(), "3");
        let series =
            [("queue=mail,zone=a", &*one), ("queue=mail,zone=b", other), ("queue=chat", "1000")];
        env.metrics.set_external(&env.ns, "queue", &series);
    };
    let described_as =
        "external metric queue(&LabelSelector{MatchLabels:map[string]string{queue: mail,}";
    Case { metric, set, described_as, current_field: "averageValue", is_value: false }
        .run(env)
        .await
}

/// The largest proposal wins. A failing metric blocks scaling down, but not scaling up by others.
pub(super) async fn largest_of_several_metrics_wins(env: TestEnv) -> Result<()> {
    let app = env.create_deployment("app", 2).await?;
    env.set_cpu("app", Load::Total(100));
    env.metrics.set_external(&env.ns, "queue", &[("", "20")]);
    let metrics = concat_metrics([cpu_metric(50), external_metric("queue", "10")]);
    env.create_hpa("app", app.hpa_spec(1, 10, metrics)).await?;
    env.wait_until_settled("app", 2).await?;
    env.metrics.set_external(&env.ns, "queue", &[("", "50")]);
    app.wait_for_replicas(5).await?;
    env.wait_for_event(
        "app",
        "SuccessfulRescale",
        "reason: external metric queue(nil) above target",
    )
    .await?;
    env.set_cpu("app", Load::Total(300));
    app.wait_for_replicas(6).await?;
    // CPU fails, and the other metric alone would scale down.
    env.metrics.set_outage(&env.ns, Source::Resource, Some(Outage::Unavailable));
    env.wait_for_condition("app", "ScalingActive", "False", "FailedGetResourceMetric").await?;
    // Longer than the stabilization window.
    let seen = wait::observe_for(&app.api, "app", Duration::from_secs(4)).await?;
    ensure!(seen.iter().all(|app| spec_replicas(app) == 6), "scaled down by one of two metrics");
    // The other metric scales up.
    env.metrics.set_external(&env.ns, "queue", &[("", "80")]);
    app.wait_for_replicas(8).await?;
    env.wait_for_condition("app", "ScalingActive", "True", "ValidMetricFound").await?;
    Ok(())
}
