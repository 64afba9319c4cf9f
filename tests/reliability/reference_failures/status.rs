//! Statuses, and metrics series of a deleted autoscaler.

use hpa_testbed::{Effect, Match};
use hpa_tests::harness::TestbedExt;
use serde_json::json;

use super::{finish, on, running_cluster, sleep_periods};
use crate::cluster::hpa;

#[tokio::test(start_paused = true)]
async fn failed_metrics_are_named_in_the_status() {
    let (cluster, faults) = running_cluster().await;
    cluster.edit(cluster.testbed.hpa("web"), |object| {
        let external = hpa("jobs")["spec"]["metrics"][0].clone();
        let pods = hpa("api")["spec"]["metrics"][0].clone();
        let cpu = object["spec"]["metrics"][0].clone();
        object["spec"]["metrics"] = json!([external, cpu, pods]);
    });
    let failing = Match::any().group("external.metrics.k8s.io").group("custom.metrics.k8s.io");
    faults.add(on(failing, Effect::InternalError));
    sleep_periods(&cluster, 3).await;
    let object = cluster.testbed.hpa("web").expect("an autoscaler");
    let current = object["status"]["currentMetrics"].as_array().cloned().expect("metrics");
    let names: Vec<_> = current
        .iter()
        .map(|metric| {
            let name = match metric["type"].as_str() {
                Some("External") => &metric["external"]["metric"]["name"],
                Some("Resource") => &metric["resource"]["name"],
                Some("Pods") => &metric["pods"]["metric"]["name"],
                _ => &metric["type"],
            };
            name.as_str().unwrap_or_default()
        })
        .collect();
    assert_eq!(names, ["jobs", "cpu", "requests"]);
    assert_eq!(current[1]["resource"]["current"]["averageUtilization"], json!(50));
    finish(cluster).await;
}

#[tokio::test(start_paused = true)]
async fn autoscalers_of_an_ambiguous_selector_are_sorted_and_written_once() {
    let (cluster, _faults) = running_cluster().await;
    let names: Vec<String> = (1..9).map(|index| format!("web-{index}")).collect();
    for name in &names {
        let mut another = hpa("web");
        another["metadata"]["name"] = json!(name);
        cluster.apply(another);
    }
    sleep_periods(&cluster, 3).await;
    let [status, reason, message] =
        cluster.testbed.condition("web", "ScalingActive").expect("a condition");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "AmbiguousSelector"));
    let all: Vec<String> = std::iter::once("web")
        .chain(names.iter().map(String::as_str))
        .map(|name| format!("shop/{name}"))
        .collect();
    assert!(message.contains(&format!("[{}]", all.join(" "))), "{message}");
    let written = cluster.journal.versions().len();
    sleep_periods(&cluster, 20).await;
    assert_eq!(cluster.journal.versions().len(), written, "a status is written without a change");
    cluster.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn deleted_autoscaler_has_no_series() {
    let (cluster, _faults) = running_cluster().await;
    let series = "horizontal_pod_autoscaler_controller_desired_replicas\
                  {hpa_name=\"web\",namespace=\"shop\"} 2";
    let has_series = || cluster.telemetry.render().lines().any(|line| line == series);
    assert!(has_series());
    cluster.delete("autoscaling/v2", "HorizontalPodAutoscaler", "web");
    sleep_periods(&cluster, 1).await;
    assert!(!has_series());
    assert!(!cluster.telemetry.render().contains("\"web\""));
    finish(cluster).await;
}
