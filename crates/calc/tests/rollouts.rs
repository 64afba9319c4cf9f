//! Rollouts under `rollout=ignore-surge`: neither a constant load nor usage that each pod adds
//! scales the target up, but a rising load does.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::sync::Arc;

use hpa_calc::{
    History, HorizontalPodAutoscaler, MilliValue, Plan, Pod, PodSample, Reading, Readings, Scale,
    SelectedPods, Settings, history::Recommendation, settings::SettingPolicy,
};
use jiff::{SignedDuration, Timestamp};
use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Value, json};

fn now() -> Timestamp {
    Timestamp::from_second(100_000).unwrap()
}

/// The load of a pod at its target, in milli-units.
const TARGET: i64 = 1000;

#[derive(Clone, Copy, Debug, PartialEq)]
enum MetricKind {
    External,
    Object,
    Pods,
    Utilization,
}

fn hpa(kind: MetricKind, rollout: &str) -> HorizontalPodAutoscaler {
    let average = json!({ "type": "AverageValue", "averageValue": "1" });
    let metric = json!({ "name": "m" });
    let metric = match kind {
        MetricKind::External => json!({ "type": "External",
            "external": { "metric": metric, "target": average } }),
        MetricKind::Object => {
            json!({ "type": "Object", "object": { "metric": metric, "target": average,
            "describedObject": { "kind": "Service", "name": "s" } } })
        }
        MetricKind::Pods => {
            json!({ "type": "Pods", "pods": { "metric": metric, "target": average } })
        }
        MetricKind::Utilization => json!({ "type": "Resource", "resource": { "name": "cpu",
            "target": { "type": "Utilization", "averageUtilization": 50 } } }),
    };
    let policy = json!({ "type": "Pods", "value": 10_000, "periodSeconds": 15 });
    let rules = json!({ "stabilizationWindowSeconds": 0, "policies": [policy] });
    serde_json::from_value(json!({
        "metadata": { "name": "web", "namespace": "shop",
            "annotations": { "autoscaling.hpa-rs.dev/rollout": rollout } },
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
            "minReplicas": 1, "maxReplicas": 10_000, "metrics": [metric],
            "behavior": { "scaleUp": rules, "scaleDown": rules },
        },
    }))
    .unwrap()
}

/// One moment of a rollout, in percent of the replicas before it.
#[derive(Clone, Debug)]
struct Moment {
    /// Pods that serve the load and are measured.
    ready: i32,
    /// Pods that serve the load, but are not measured.
    missing: i32,
    /// Pending pods.
    unready: i32,
}

fn moment() -> impl Strategy<Value = Moment> {
    (30..200_i32, 0..50_i32, 0..100_i32).prop_map(|(ready, missing, unready)| Moment {
        ready,
        missing,
        unready,
    })
}

fn pod(name: &str, phase: &str) -> Arc<Pod> {
    let pod: Value = json!({
        "metadata": { "name": name },
        "spec": { "containers": [{ "name": "app",
            "resources": { "requests": { "cpu": "2" } } }] },
        "status": { "phase": phase, "startTime": "1970-01-01T00:00:00Z", "conditions": [
            { "type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:01:00Z" },
        ] },
    });
    Arc::new(serde_json::from_value(pod).unwrap())
}

/// The replicas after a reconcile in which the pods share the load evenly.
fn reconcile(
    hpa: &HorizontalPodAutoscaler,
    kind: MetricKind,
    replicas: i32,
    load: i64,
    pods_now: [i32; 3],
) -> i32 {
    let resolved = Settings::default().for_autoscaler(hpa, &SettingPolicy::default());
    assert_eq!(resolved.problems, []);
    let [ready, missing, unready] = pods_now;
    let mut pods = Vec::new();
    let mut samples = Vec::new();
    let usage_by_pod = load / i64::from(ready + missing).max(1);
    for index in 0..ready + missing {
        let name = format!("web-{index}");
        pods.push(pod(&name, "Running"));
        let sample = PodSample {
            value: MilliValue::from_milli(usage_by_pod),
            timestamp: now(),
            window: SignedDuration::from_secs(30),
        };
        if index < ready {
            samples.push((name, sample));
        }
    }
    pods.extend((0..unready).map(|index| pod(&format!("new-{index}"), "Pending")));
    let scale = Scale {
        spec_replicas: replicas,
        status_replicas: ready + missing + unready,
        selector: "app=web".into(),
    };
    let select = |_: &_| SelectedPods::new(pods);
    let plan = Plan::new(hpa, Ok(scale), &resolved.settings, select);
    let value = MilliValue::from_milli(load);
    let reading = match kind {
        MetricKind::External => Reading::External(vec![value].into()),
        MetricKind::Object => Reading::Object(value.into()),
        MetricKind::Pods | MetricKind::Utilization => Reading::Pods(samples.into_iter().collect()),
    };
    let long_ago = Recommendation { replicas: 1, at: Timestamp::UNIX_EPOCH };
    let history = History { recommendations: vec![long_ago], ..History::default() };
    let decision = plan.decide(Readings::from_iter([(0, Ok(reading))]), history, now());
    decision.scale_to().unwrap_or(replicas)
}

/// The number of pods at a moment of a rollout.
fn pod_counts(moment: &Moment, replicas: i32) -> [i32; 3] {
    let part = |percent: i32| replicas * percent / 100;
    [part(moment.ready).max(1), part(moment.missing), part(moment.unready)]
}

fn kinds() -> impl Strategy<Value = MetricKind> {
    select(vec![
        MetricKind::External,
        MetricKind::Object,
        MetricKind::Pods,
        MetricKind::Utilization,
    ])
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn constant_load_never_scales_up_during_a_rollout(
        kind in kinds(),
        replicas in 1..60_i32,
        percent in 91..110_i64,
        moments in vec(moment(), 1..8),
    ) {
        let hpa = hpa(kind, "ignore-surge");
        let load = i64::from(replicas) * TARGET * percent / 100;
        prop_assume!(reconcile(&hpa, kind, replicas, load, [replicas, 0, 0]) == replicas);
        let mut current = replicas;
        for moment in &moments {
            current = reconcile(&hpa, kind, current, load, pod_counts(moment, replicas));
            prop_assert!(current <= replicas, "{} of {}: {:?}", current, replicas, moment);
        }
        // The value of the whole load is exact, so the rollout ends with the initial replicas.
        if matches!(kind, MetricKind::External | MetricKind::Object) {
            prop_assert_eq!(current, replicas);
        }
    }

    #[test]
    fn usage_that_each_pod_adds_never_scales_up_during_a_rollout(
        kind in kinds(),
        replicas in 1..60_i32,
        percent in 1..110_i64,
        moments in vec(moment(), 1..8),
    ) {
        let hpa = hpa(kind, "ignore-surge");
        let mut current = replicas;
        for moment in &moments {
            let pods = pod_counts(moment, replicas);
            let load = i64::from(pods[0] + pods[1]) * TARGET * percent / 100;
            current = reconcile(&hpa, kind, current, load, pods);
            prop_assert!(current <= replicas, "{} of {}: {:?}", current, replicas, moment);
        }
    }

    #[test]
    fn rising_load_scales_up_during_a_rollout(
        kind in kinds(), replicas in 2..60_i32, surge in 0..100_i32
    ) {
        let hpa = hpa(kind, "ignore-surge");
        // More than all pods can take.
        let pods = replicas + replicas * surge / 100;
        let load = i64::from(pods) * TARGET * 3 / 2;
        prop_assert!(reconcile(&hpa, kind, replicas, load, [pods, 0, 0]) > replicas);
        // The surge changes the replicas only by the rounding of utilizations to whole percentages.
        let expected = reconcile(&hpa, kind, replicas, load, [replicas, 0, 0]);
        let actual = reconcile(&hpa, kind, replicas, load, [pods, 0, 0]);
        prop_assert!(actual.abs_diff(expected) <= 1 + expected.unsigned_abs() / 25);
    }
}

#[test]
fn rollout_ratchets_replicas_up_without_the_setting() {
    let kind = MetricKind::External;
    let after = |rollout, pods| reconcile(&hpa(kind, rollout), kind, 10, 15_000, pods);
    assert_eq!(after("count-surge", [15, 0, 0]), 15);
    assert_eq!(after("ignore-surge", [15, 0, 0]), 10);
    // Pods that aren't ready can't take a part of the load.
    assert_eq!(after("ignore-surge", [10, 0, 5]), 15);
}
