//! A whole reconcile: plan, read, decide, write, conclude.

#![expect(clippy::print_stdout, reason = "example")]

use std::error::Error;

use hpa_calc::{
    History, HorizontalPodAutoscaler, MetricQuery, MetricsApi, Plan, Pod, PodSample, PodSamples,
    ReadError, Reading, Readings, Scale, SelectedPods, Settings,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

/// Stands for the metrics APIs: every pod uses 900m of the CPU.
fn read(query: &MetricQuery, pods: &[Pod], now: Timestamp) -> Result<Reading, ReadError> {
    let MetricQuery::Resource { .. } = query else {
        return Err(ReadError::fetch(MetricsApi::Custom, "this example has resource metrics only"));
    };
    let value = "900m".parse().map_err(|error| ReadError::fetch(MetricsApi::Resource, error))?;
    let sample = PodSample { value, timestamp: now, window: SignedDuration::from_secs(30) };
    let samples: PodSamples = pods.iter().map(|pod| (pod.name.as_ref(), sample)).collect();
    Ok(Reading::Pods(samples))
}

fn main() -> Result<(), Box<dyn Error>> {
    let hpa: HorizontalPodAutoscaler = serde_json::from_value(json!({
        "metadata": { "name": "web", "namespace": "shop" },
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
            "maxReplicas": 10,
            "metrics": [{
                "type": "Resource",
                "resource": {
                    "name": "cpu",
                    "target": { "type": "Utilization", "averageUtilization": 60 },
                },
            }],
        },
    }))?;
    let pod = |index: usize| {
        json!({
            "metadata": { "name": format!("web-{index}"), "labels": { "app": "web" } },
            "spec": {
                "containers": [{ "name": "app", "resources": { "requests": { "cpu": "1" } } }],
            },
            "status": {
                "phase": "Running",
                "startTime": "2026-01-01T00:00:00Z",
                "conditions": [{
                    "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:05Z",
                }],
            },
        })
    };
    let pods: Vec<Pod> = serde_json::from_value([pod(0), pod(1)].into())?;
    let (settings, now) = (Settings::default(), "2026-01-01T01:00:00Z".parse()?);

    // A real controller reads the scale subresource and lists the pods that its selector matches.
    let scale = Scale { spec_replicas: 2, status_replicas: 2, selector: "app=web".into() };
    let plan = Plan::new(&hpa, Ok(scale), &settings, |_| SelectedPods::new(pods.clone()));
    let readings: Readings =
        plan.queries().map(|(metric, query)| (metric, read(query, &pods, now))).collect();

    let decision = plan.decide(readings, History::default(), now);
    println!("decision: {}", decision.explanation());

    // Here, a real controller writes `decision.scale_to()` to the scale subresource.
    let conclusion = decision.conclude(Ok(()), now);
    println!("scaled to: {:?}", conclusion.scaled_to);
    for event in &conclusion.events {
        println!("event: {}: {}", event.reason.as_str(), event.message);
    }
    println!("status: {}", serde_json::to_string_pretty(&conclusion.status)?);
    Ok(())
}
