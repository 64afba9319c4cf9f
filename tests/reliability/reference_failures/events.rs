//! Events of a lasting failure must not use up the budget for `SuccessfulRescale`.

use std::time::Duration;

use hpa_testbed::{Effect, Match};
use hpa_tests::harness::TestbedExt;
use serde_json::json;

use super::{finish, on, running_cluster, series_value, sleep_periods};
use crate::cluster::{Cluster, hpa};

/// The duration of the failure, slightly more than an hour. The budget grows by one event every
/// five minutes. The events of the failure use it up.
const FAILURE_DURATION: Duration = Duration::from_secs(3700);

/// Messages of the autoscaler's events with this reason.
fn messages(cluster: &Cluster, name: &str, reason: &str) -> Vec<String> {
    let events = cluster.testbed.list("v1", "Event");
    let matches = |event: &&serde_json::Value| {
        event["involvedObject"]["name"] == name && event["reason"] == reason
    };
    events
        .iter()
        .filter(matches)
        .map(|event| event["message"].as_str().unwrap_or_default().to_owned())
        .collect()
}

/// The number of events that were dropped because the budget was used up.
fn dropped_over_budget(cluster: &Cluster) -> u64 {
    series_value(cluster, "hpa_controller_events_dropped_total{cause=\"over_budget\"}")
}

#[tokio::test(start_paused = true)]
async fn rescale_is_reported_after_one_of_two_metrics_failed_for_an_hour() {
    let (cluster, faults) = running_cluster().await;
    cluster.edit(cluster.testbed.hpa("web"), |object| {
        let cpu = object["spec"]["metrics"][0].clone();
        object["spec"]["metrics"] = json!([hpa("jobs")["spec"]["metrics"][0], cpu]);
    });
    faults.add(on(Match::any().group("external.metrics.k8s.io"), Effect::InternalError));
    cluster.sleep(FAILURE_DURATION).await;
    assert!(dropped_over_budget(&cluster) > 100, "the budget was not used up");
    assert_eq!(messages(&cluster, "web", "SuccessfulRescale"), Vec::<String>::new());
    cluster.loads.set("web", 4);
    sleep_periods(&cluster, 2).await;
    assert_eq!(cluster.testbed.replicas("web"), 4);
    let reported = messages(&cluster, "web", "SuccessfulRescale");
    assert_eq!(
        reported,
        ["New size: 4; reason: cpu resource utilization (percentage of request) above target"]
    );
    finish(cluster).await;
}

#[tokio::test(start_paused = true)]
async fn rescale_is_reported_after_the_only_metric_failed_for_an_hour() {
    let (cluster, faults) = running_cluster().await;
    faults.add(on(Match::any().group("custom.metrics.k8s.io"), Effect::InternalError));
    cluster.loads.set("api", 5);
    cluster.sleep(FAILURE_DURATION).await;
    assert!(dropped_over_budget(&cluster) > 100, "the budget was not used up");
    assert_eq!(cluster.testbed.replicas("api"), 2);
    faults.clear();
    sleep_periods(&cluster, 2).await;
    let reported = messages(&cluster, "api", "SuccessfulRescale");
    assert_eq!(reported, ["New size: 5; reason: pods metric requests above target"]);
    finish(cluster).await;
}
