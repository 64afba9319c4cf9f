//! Events: those of a failure do not use up what a rescale is to be told by.

use std::time::Duration;

use hpa_test_harness::TestbedExt;
use hpa_testbed::{Effect, Match};
use serde_json::json;

use super::{cluster, ends_well, on, periods};
use crate::cluster::{Cluster, hpa};

/// And some: every five minutes there is one more event to be had, which the failure takes at once.
const HOUR: Duration = Duration::from_secs(3700);

/// The messages of an autoscaler's events with this reason.
fn messages(cluster: &Cluster, name: &str, reason: &str) -> Vec<String> {
    let events = cluster.testbed.list("v1", "Event");
    let is_it = |event: &&serde_json::Value| {
        event["involvedObject"]["name"] == name && event["reason"] == reason
    };
    events
        .iter()
        .filter(is_it)
        .map(|event| event["message"].as_str().unwrap_or_default().to_owned())
        .collect()
}

fn over_budget(cluster: &Cluster) -> u64 {
    let text = cluster.telemetry.render();
    let line = text.lines().find_map(|line| {
        line.strip_prefix("hpa_controller_events_dropped_total{cause=\"over_budget\"} ")
    });
    line.and_then(|count| count.parse().ok()).expect("a count")
}

/// One of two metrics fails for an hour, then the load rises.
#[tokio::test(start_paused = true)]
async fn e_rescale_is_told_after_an_hour_of_a_failing_metric() {
    let (cluster, faults) = cluster().await;
    cluster.edit(cluster.testbed.hpa("web"), |object| {
        let cpu = object["spec"]["metrics"][0].clone();
        object["spec"]["metrics"] = json!([hpa("jobs")["spec"]["metrics"][0], cpu]);
    });
    faults.add(on(Match::any().group("external.metrics.k8s.io"), Effect::InternalError));
    cluster.sleep(HOUR).await;
    assert!(over_budget(&cluster) > 100, "the budget was not used up");
    assert_eq!(messages(&cluster, "web", "SuccessfulRescale"), Vec::<String>::new());
    cluster.loads.set("web", 4);
    periods(&cluster, 2).await;
    assert_eq!(cluster.testbed.replicas("web"), 4);
    let told = messages(&cluster, "web", "SuccessfulRescale");
    assert_eq!(
        told,
        ["New size: 4; reason: cpu resource utilization (percentage of request) above target"]
    );
    ends_well(cluster).await;
}

/// The only metric fails for an hour, and comes back.
#[tokio::test(start_paused = true)]
async fn e_rescale_is_told_after_an_hour_without_metrics() {
    let (cluster, faults) = cluster().await;
    faults.add(on(Match::any().group("custom.metrics.k8s.io"), Effect::InternalError));
    cluster.loads.set("api", 5);
    cluster.sleep(HOUR).await;
    assert!(over_budget(&cluster) > 100, "the budget was not used up");
    assert_eq!(cluster.testbed.replicas("api"), 2);
    faults.clear();
    periods(&cluster, 2).await;
    let told = messages(&cluster, "api", "SuccessfulRescale");
    assert_eq!(told, ["New size: 5; reason: pods metric requests above target"]);
    ends_well(cluster).await;
}
