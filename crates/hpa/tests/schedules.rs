//! `hpa run --scaling-schedule`: an autoscaler on a schedule that changes while it is watched.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test may fail"
)]

use std::time::Duration;

use hpa_testbed::{Config, Testbed};
use hpa_tests::harness::{NAMESPACE, ServedTestbed, TestbedExt, objects};
use jiff::{SignedDuration, Timestamp};
use kube::{
    Api,
    api::DynamicObject,
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};
use tokio::time::timeout;

/// Timeout of each wait. It is far shorter than the sync period, so only a change can end a wait.
const TIMEOUT: Duration = Duration::from_secs(100);

fn schedule(start: Timestamp, value: i64) -> Value {
    let entry = json!({ "type": "OneTime", "date": start.to_string(), "durationMinutes": 60,
        "value": value });
    json!({
        "apiVersion": "zalando.org/v1", "kind": "ScalingSchedule",
        "metadata": { "name": "evening", "namespace": NAMESPACE },
        "spec": { "scalingWindowDurationMinutes": 0, "schedules": [entry] },
    })
}

fn testbed() -> Testbed {
    let testbed = Testbed::new(Config::default());
    testbed.apply_all(hpa_collectors::schedules::definition::schedule_definitions().unwrap());
    let metric = json!({ "type": "Object", "object": {
        "describedObject":
            { "apiVersion": "zalando.org/v1", "kind": "ScalingSchedule", "name": "evening" },
        "metric": { "name": "scheduled" },
        "target": { "type": "AverageValue", "averageValue": "1" },
    } });
    testbed.apply_all([
        objects::namespace(),
        objects::running_deployment("web", 20),
        objects::hpa("web", 1..=99, [metric]),
    ]);
    testbed
}

/// Waits until the schedule is reported as active.
async fn wait_until_active(testbed: &Testbed) {
    let kind = GroupVersionKind::gvk("zalando.org", "v1", "ScalingSchedule");
    let schedules: Api<DynamicObject> =
        Api::namespaced_with(testbed.client(), NAMESPACE, &ApiResource::from_gvk(&kind));
    let is_active = |object: Option<&DynamicObject>| {
        object.is_some_and(|object| object.data["status"]["active"] == true)
    };
    let reached = kube::runtime::wait::await_condition(schedules, "evening", is_active);
    timeout(TIMEOUT, reached).await.expect("an active schedule").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn autoscaler_scales_when_a_schedule_changes() {
    let testbed = testbed();
    // For other metrics, the step from 20 to 21 is within the tolerance. The value changes long
    // before the sync period ends.
    testbed.apply_all([schedule(Timestamp::now() - SignedDuration::from_secs(1), 21)]);
    let served = ServedTestbed::new(&testbed).await;
    let flags = [
        "--scaling-schedule",
        "--horizontal-pod-autoscaler-sync-period=10m",
        "--horizontal-pod-autoscaler-downscale-stabilization=0s",
    ];
    // A single autoscaler has no initial delay, so its first reconcile is at the start.
    let _controller = served.start_hpa(env!("CARGO_BIN_EXE_hpa"), &flags, &[]);
    served.wait_for_replicas("web", 21).await;
    wait_until_active(&testbed).await;
    let mut deployment = testbed.deployment("web").unwrap();
    deployment["status"]["replicas"] = 21.into();
    testbed.apply_all([deployment]);

    let later = Timestamp::now() + SignedDuration::from_secs(3);
    let mut edited = schedule(Timestamp::now() - SignedDuration::from_secs(1), 22);
    let next = schedule(later, 23)["spec"]["schedules"][0].clone();
    edited["spec"]["schedules"].as_array_mut().unwrap().push(next);
    testbed.apply_all([edited]);
    served.wait_for_replicas("web", 23).await;
}
