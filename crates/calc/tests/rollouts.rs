//! Rollouts under `rollout=ignore-surge`: neither a constant load nor usage that each pod adds
//! scales the target up, but a rising load does.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod common;

use std::sync::Arc;

use common::{old_history, ready_pod, unlimited_hpa};
use hpa_calc::{
    HorizontalPodAutoscaler, MilliValue, Plan, Pod, PodSample, Reading, Readings, Scale,
    SelectedPods, Settings, settings::SettingPolicy,
};
use jiff::{SignedDuration, Timestamp};
use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::json;

fn now() -> Timestamp {
    Timestamp::from_second(100_000).unwrap()
}

/// The load of a pod at its target, in milli-units.
const TARGET: i64 = 1000;

#[derive(Clone, Copy, Debug)]
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
    unlimited_hpa(&metric, &[("rollout", rollout)])
}

/// Pods at one moment of a rollout: those that serve the load and are measured, those that serve it
/// and are not measured, and the pending ones.
type PodCounts = [i32; 3];

/// [`PodCounts`] at one moment of a rollout, as percentages of the replicas before it.
fn moment() -> impl Strategy<Value = [i32; 3]> {
    [30..200_i32, 0..50, 0..100]
}

fn pod(name: &str, phase: &str) -> Arc<Pod> {
    ready_pod(name, &json!({ "requests": { "cpu": "2" } }), &json!({ "phase": phase }))
}

/// The replicas after a reconcile in which the pods share the load evenly.
fn reconcile(
    hpa: &HorizontalPodAutoscaler,
    kind: MetricKind,
    replicas: i32,
    load: i64,
    [ready, missing, unready]: PodCounts,
) -> i32 {
    let resolved = Settings::default().for_autoscaler(hpa, &SettingPolicy::default());
    assert_eq!(resolved.problems, []);
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
    let decision = plan.decide(Readings::from_iter([(0, Ok(reading))]), old_history(), now());
    decision.scale_to().unwrap_or(replicas)
}

/// The numbers of pods for the percentages of a [`moment`]. At least one pod is measured.
fn pod_counts(percentages: &[i32; 3], replicas: i32) -> PodCounts {
    let [ready, missing, unready] = percentages.map(|percent| replicas * percent / 100);
    [ready.max(1), missing, unready]
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
            let [ready, missing, _] = pods;
            let load = i64::from(ready + missing) * TARGET * percent / 100;
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
        let actual = reconcile(&hpa, kind, replicas, load, [pods, 0, 0]);
        prop_assert!(actual > replicas);
        // The surge changes the replicas only by the rounding of utilizations to whole percentages.
        let expected = reconcile(&hpa, kind, replicas, load, [replicas, 0, 0]);
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
