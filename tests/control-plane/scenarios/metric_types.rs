//! Every type of metric with every type of target it can have.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::metrics::Load;
use crate::workload::Kind;
use crate::world::{World, current_metric, is, message};

/// A metric, the loads that make 2, 4 and 1 replicas of it, and how it shows.
struct Case<Set> {
    metric: Value,
    /// Sets what the metric reads: the sum over all pods, in units of its target's tenth.
    set: Set,
    /// How conditions and events call it.
    called: &'static str,
    /// The member of the current metric's `current` that is filled.
    current: &'static str,
    /// A value does not go down as replicas go up, so the upper bound has to stop it.
    value: bool,
}

impl<Set: Fn(&World, i64)> Case<Set> {
    async fn run(self, w: World) -> Result<()> {
        let app = w.target_of(Kind::DEPLOYMENT, "app", 2, &["app", "sidecar"]).await?;
        // For a value, the sum is the value.
        let (steady, high, low) = if self.value { (10, 20, 1) } else { (20, 40, 10) };
        (self.set)(&w, steady);
        let max = if self.value { 4 } else { 10 };
        w.hpa("app", app.hpa(1, max, json!([self.metric]))).await?;
        let hpa = w.settled("app", 2).await?;
        let expected = format!(
            "the HPA was able to successfully calculate a replica count from {}",
            self.called
        );
        ensure!(
            message(&hpa, "ScalingActive").starts_with(&expected),
            "{}",
            message(&hpa, "ScalingActive")
        );
        let metric = current_metric(&hpa);
        ensure!(metric["type"] == self.metric["type"], "{metric}");
        let member = metric["type"]
            .as_str()
            .map(|name| name[..1].to_lowercase() + &name[1..])
            .unwrap_or_default();
        let current = &metric[&member]["current"];
        ensure!(!current[self.current].is_null(), "{metric} has no {}", self.current);
        for name in ["name", "container", "metric", "describedObject"] {
            ensure!(metric[&member][name] == self.metric[&member][name], "{name} in {metric}");
        }

        (self.set)(&w, high);
        app.at(4).await?;
        let text = format!("New size: 4; reason: {}", self.called);
        let event = w.event("app", "SuccessfulRescale", &text).await?;
        ensure!(event.message.is_some_and(|message| message.ends_with(" above target")));
        if self.value {
            w.hpa_until("app", "the upper bound", |hpa| {
                is(hpa, "ScalingLimited", "True", "TooManyReplicas")
            })
            .await?;
        } else {
            w.settled("app", 4).await?;
        }

        (self.set)(&w, low);
        app.at(1).await?;
        w.event("app", "SuccessfulRescale", "New size: 1; reason: All metrics below target")
            .await?;
        Ok(())
    }
}

pub(super) async fn memory_average_value(w: World) -> Result<()> {
    let metric = json!({"type": "Resource", "resource": {
        "name": "memory", "target": {"type": "AverageValue", "averageValue": "100Mi"},
    }});
    let set = |w: &World, sum: i64| {
        for container in ["app", "sidecar"] {
            let load = Load::Total(sum * 5 * 1024 * 1024);
            w.metrics.set_usage(&w.ns, "app", container, "memory", load);
        }
    };
    Case { metric, set, called: "memory resource", current: "averageValue", value: false }
        .run(w)
        .await
}

pub(super) async fn container_cpu(w: World) -> Result<()> {
    let metric = json!({"type": "ContainerResource", "containerResource": {
        "name": "cpu", "container": "sidecar", "target": {"type": "Utilization", "averageUtilization": 50},
    }});
    let set = |w: &World, sum: i64| {
        w.metrics.set_usage(&w.ns, "app", "sidecar", "cpu", Load::Total(sum * 5));
        // The other container must not count.
        w.metrics.set_usage(&w.ns, "app", "app", "cpu", Load::PerPod(5000));
    };
    let called = "cpu container resource utilization (percentage of request)";
    Case { metric, set, called, current: "averageUtilization", value: false }.run(w).await
}

pub(super) async fn pods_metric(w: World) -> Result<()> {
    let metric = json!({"type": "Pods", "pods": {
        "metric": {"name": "requests"}, "target": {"type": "AverageValue", "averageValue": "10"},
    }});
    let set = |w: &World, sum: i64| w.metrics.set_pods(&w.ns, "requests", Load::Total(sum * 1000));
    Case { metric, set, called: "pods metric requests", current: "averageValue", value: false }
        .run(w)
        .await
}

pub(super) async fn object_value(w: World) -> Result<()> {
    let metric = json!({"type": "Object", "object": {
        "metric": {"name": "hits"}, "target": {"type": "Value", "value": "10"},
        "describedObject": {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "front"},
    }});
    let set = |w: &World, sum: i64| {
        w.metrics.set_object(&w.ns, "ingresses.networking.k8s.io/front", "hits", &sum.to_string());
    };
    Case { metric, set, called: "Ingress metric hits", current: "value", value: true }.run(w).await
}

pub(super) async fn object_average_value(w: World) -> Result<()> {
    let metric = json!({"type": "Object", "object": {
        "metric": {"name": "hits"}, "target": {"type": "AverageValue", "averageValue": "10"},
        "describedObject": {"apiVersion": "v1", "kind": "Service", "name": "front"},
    }});
    let set = |w: &World, sum: i64| {
        w.metrics.set_object(&w.ns, "services/front", "hits", &sum.to_string())
    };
    // That name is kube-controller-manager's.
    Case { metric, set, called: "external metric hits(nil)", current: "averageValue", value: false }
        .run(w)
        .await
}

pub(super) async fn object_namespace(w: World) -> Result<()> {
    let metric = json!({"type": "Object", "object": {
        "metric": {"name": "backlog"}, "target": {"type": "AverageValue", "averageValue": "10"},
        "describedObject": {"apiVersion": "v1", "kind": "Namespace", "name": w.ns},
    }});
    let set =
        |w: &World, sum: i64| w.metrics.set_object(&w.ns, "namespace", "backlog", &sum.to_string());
    Case {
        metric,
        set,
        called: "external metric backlog(nil)",
        current: "averageValue",
        value: false,
    }
    .run(w)
    .await
}

pub(super) async fn external_value(w: World) -> Result<()> {
    let metric = json!({"type": "External", "external": {
        "metric": {"name": "queue"}, "target": {"type": "Value", "value": "10"},
    }});
    let set =
        |w: &World, sum: i64| w.metrics.set_external(&w.ns, "queue", &[("", &sum.to_string())]);
    Case { metric, set, called: "external metric queue(nil)", current: "value", value: true }
        .run(w)
        .await
}

pub(super) async fn external_average_value(w: World) -> Result<()> {
    let metric = json!({"type": "External", "external": {
        "metric": {"name": "queue", "selector": {"matchLabels": {"queue": "mail"}}},
        "target": {"type": "AverageValue", "averageValue": "10"},
    }});
    // Two series that count, and one that does not.
    let set = |w: &World, sum: i64| {
        let (one, other) = ((sum - 3).to_string(), "3");
        let series =
            [("queue=mail,zone=a", &*one), ("queue=mail,zone=b", other), ("queue=chat", "1000")];
        w.metrics.set_external(&w.ns, "queue", &series);
    };
    let called = "external metric queue(&LabelSelector{MatchLabels:map[string]string{queue: mail,}";
    Case { metric, set, called, current: "averageValue", value: false }.run(w).await
}

/// The metric that wants the most wins; one that fails does not keep the others from scaling up.
pub(super) async fn several_metrics(w: World) -> Result<()> {
    let app = w.deployment("app", 2).await?;
    w.cpu("app", Load::Total(100));
    w.metrics.set_external(&w.ns, "queue", &[("", "20")]);
    let mut metrics = super::cpu(50);
    let more = super::external("queue", "10");
    metrics.as_array_mut().expect("a list").extend(more.as_array().cloned().unwrap_or_default());
    w.hpa("app", app.hpa(1, 10, metrics)).await?;
    w.settled("app", 2).await?;
    w.metrics.set_external(&w.ns, "queue", &[("", "50")]);
    app.at(5).await?;
    w.event("app", "SuccessfulRescale", "reason: external metric queue(nil) above target").await?;
    w.cpu("app", Load::Total(300));
    app.at(6).await?;
    // CPU fails and the other would go down: nothing moves.
    w.metrics.set_usage(&w.ns, "app", "app", "cpu", Load::Total(300));
    w.metrics.set_outage(
        &w.ns,
        crate::metrics::Source::Resource,
        Some(crate::metrics::Outage::Unavailable),
    );
    w.hpa_until("app", "the failure", |hpa| {
        is(hpa, "ScalingActive", "False", "FailedGetResourceMetric")
    })
    .await?;
    // The other would go up: it does.
    w.metrics.set_external(&w.ns, "queue", &[("", "80")]);
    app.at(8).await?;
    w.hpa_until("app", "the one that works", |hpa| {
        is(hpa, "ScalingActive", "True", "ValidMetricFound")
    })
    .await?;
    Ok(())
}
