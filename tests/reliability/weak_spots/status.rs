//! C: the status, and what metrics tell of an autoscaler.

use hpa_testbed::{Effect, Match};
use serde_json::json;

use super::{ends_well, on, periods, world};
use crate::world::autoscaler;

#[tokio::test(start_paused = true)]
async fn c2_failed_metrics_are_named() {
    let (world, faults) = world().await;
    world.edit(world.autoscaler("web"), |object| {
        let external = autoscaler("jobs")["spec"]["metrics"][0].clone();
        let pods = autoscaler("api")["spec"]["metrics"][0].clone();
        let cpu = object["spec"]["metrics"][0].clone();
        object["spec"]["metrics"] = json!([external, cpu, pods]);
    });
    let failing = Match::any().group("external.metrics.k8s.io").group("custom.metrics.k8s.io");
    faults.add(on(failing, Effect::InternalError));
    periods(&world, 3).await;
    let object = world.autoscaler("web").expect("it is there");
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
    ends_well(world).await;
}

#[tokio::test(start_paused = true)]
async fn c3_ambiguous_selectors_are_sorted_and_written_once() {
    let (world, _faults) = world().await;
    let names: Vec<String> = (1..9).map(|index| format!("web-{index}")).collect();
    for name in &names {
        let mut another = autoscaler("web");
        another["metadata"]["name"] = json!(name);
        world.apply(another);
    }
    periods(&world, 3).await;
    let [status, reason, message] = world.condition("web", "ScalingActive").expect("a condition");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "AmbiguousSelector"));
    let all: Vec<String> = std::iter::once("web")
        .chain(names.iter().map(String::as_str))
        .map(|name| format!("shop/{name}"))
        .collect();
    assert!(message.contains(&format!("[{}]", all.join(" "))), "{message}");
    let written = world.journal.versions().len();
    periods(&world, 20).await;
    assert_eq!(
        world.journal.versions().len(),
        written,
        "statuses are written though nothing changes"
    );
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn c6_no_series_of_a_deleted_autoscaler() {
    let (world, _faults) = world().await;
    let series = "horizontal_pod_autoscaler_controller_desired_replicas{hpa_name=\"web\",namespace=\"shop\"} 2";
    let has_series = || world.telemetry.render().lines().any(|line| line == series);
    assert!(has_series());
    world.delete("autoscaling/v2", "HorizontalPodAutoscaler", "web");
    periods(&world, 1).await;
    assert!(!has_series());
    assert!(!world.telemetry.render().contains("\"web\""));
    ends_well(world).await;
}
