//! Decisions of autoscalers whose metrics have settings of their own.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::sync::Arc;

use hpa_calc::{
    Conclusion, History, HorizontalPodAutoscaler, MilliValue, Plan, Pod, PodSample, Reading,
    Readings, Scale, SelectedPods, Settings, history::Recommendation, settings::SettingPolicy,
};
use jiff::{SignedDuration, Timestamp};
use rstest::rstest;
use serde_json::{Value, json};

fn now() -> Timestamp {
    Timestamp::from_second(100_000).unwrap()
}

/// An autoscaler without limits on its decisions, with one metric and these settings.
fn hpa(metric: &Value, settings: &[(&str, &str)]) -> HorizontalPodAutoscaler {
    let annotation = |(name, value): &(&str, &str)| {
        (format!("autoscaling.hpa-rs.dev/{name}"), Value::from(*value))
    };
    let annotations: serde_json::Map<_, _> = settings.iter().map(annotation).collect();
    let policy = json!({ "type": "Pods", "value": 10_000, "periodSeconds": 15 });
    let rules = json!({ "stabilizationWindowSeconds": 0, "policies": [policy] });
    serde_json::from_value(json!({
        "metadata": { "name": "web", "namespace": "shop", "annotations": annotations },
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
            "minReplicas": 1, "maxReplicas": 10_000, "metrics": [metric],
            "behavior": { "scaleUp": rules, "scaleDown": rules },
        },
    }))
    .unwrap()
}

fn resource(name: &str, target: &Value) -> Value {
    json!({ "type": "Resource", "resource": { "name": name, "target": target } })
}

fn utilization(percent: i32) -> Value {
    json!({ "type": "Utilization", "averageUtilization": percent })
}

/// A pod that has been ready for long, with these resources of its container.
fn pod(name: &str, resources: &Value, status: &Value) -> Arc<Pod> {
    let mut pod = json!({
        "metadata": { "name": name },
        "spec": { "containers": [{ "name": "app", "resources": resources }] },
        "status": {
            "phase": "Running",
            "startTime": "1970-01-01T00:00:00Z",
            "conditions": [{ "type": "Ready", "status": "True",
                "lastTransitionTime": "1970-01-01T00:01:00Z" }],
        },
    });
    for (member, value) in status.as_object().unwrap() {
        pod["status"][member] = value.clone();
    }
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn sample(milli: i64, age: i64) -> PodSample {
    PodSample {
        value: MilliValue::from_milli(milli),
        timestamp: now() - SignedDuration::from_secs(age),
        window: SignedDuration::from_secs(30),
    }
}

fn samples(values: &[(&str, i64)]) -> Reading {
    Reading::Pods(values.iter().map(|(pod, milli)| (*pod, sample(*milli, 10))).collect())
}

fn decide(
    hpa: &HorizontalPodAutoscaler,
    (spec_replicas, status_replicas): (i32, i32),
    pods: &[Arc<Pod>],
    reading: Reading,
) -> Conclusion {
    let resolved = Settings::default().for_autoscaler(hpa, &SettingPolicy::default());
    assert_eq!(resolved.problems, []);
    let scale = Scale { spec_replicas, status_replicas, selector: "app=web".into() };
    let select = |_: &_| SelectedPods { pods: pods.to_vec(), autoscalers: Vec::new() };
    let plan = Plan::new(hpa, Ok(scale), &resolved.settings, select);
    let long_ago = Recommendation { replicas: 1, at: Timestamp::UNIX_EPOCH };
    let history = History { recommendations: vec![long_ago], ..History::default() };
    let readings = Readings::from_iter([(0, Ok(reading))]);
    plan.decide(readings, history, now()).conclude(Ok(()), now())
}

fn sentence(hpa: &HorizontalPodAutoscaler, conclusion: &Conclusion) -> String {
    conclusion.explanation.sentence(hpa)
}

fn condition<'a>(conclusion: &'a Conclusion, name: &str) -> Option<&'a str> {
    let mut conditions = conclusion.status.conditions.iter();
    let condition = conditions.find(|one| one.condition_type.as_str() == name)?;
    Some(&condition.message)
}

#[test]
fn utilization_is_of_limits() {
    let resources = json!({ "requests": { "cpu": "100m" }, "limits": { "cpu": "1" } });
    let pods = [pod("a", &resources, &json!({})), pod("b", &resources, &json!({}))];
    let metric = resource("cpu", &utilization(50));
    let reading = samples(&[("a", 700), ("b", 800)]);
    let of_requests = hpa(&metric, &[]);
    let conclusion = decide(&of_requests, (2, 2), &pods, reading.clone());
    assert_eq!(conclusion.scaled_to, Some(30));
    let of_limits = hpa(&metric, &[("utilization-of", "limits")]);
    let conclusion = decide(&of_limits, (2, 2), &pods, reading);
    assert_eq!(conclusion.scaled_to, Some(3));
    assert_eq!(
        sentence(&of_limits, &conclusion),
        "cpu is at 75% of limits, target 50%; utilization-of: the target is a percentage of limits"
    );
    let active = condition(&conclusion, "ScalingActive").unwrap();
    assert!(active.ends_with("cpu resource utilization (percentage of limit)"), "{active}");
    let current = conclusion.status.current_metrics[0].resource.as_ref().unwrap();
    assert_eq!(current.current.average_utilization, Some(75));
}

#[rstest]
#[case::container(
    json!({ "requests": { "cpu": "1" }, "limits": { "memory": "1Gi" } }),
    "missing limit for cpu in container app of Pod a"
)]
#[case::unreadable(
    json!({ "limits": { "cpu": "7".repeat(72_000) } }),
    "unreadable limit for cpu in container app of Pod a"
)]
fn pod_without_a_limit_fails_the_metric(#[case] resources: Value, #[case] text: &str) {
    let hpa = hpa(&resource("cpu", &utilization(50)), &[("utilization-of", "limits")]);
    let pods = [pod("a", &resources, &json!({}))];
    let conclusion = decide(&hpa, (1, 1), &pods, samples(&[("a", 700)]));
    assert_eq!(conclusion.scaled_to, None);
    let error = conclusion.error.unwrap().to_string();
    assert!(error.contains(text), "{error}");
}

#[test]
fn pod_level_limit_counts_before_those_of_containers() {
    let mut hpa = hpa(&resource("cpu", &utilization(50)), &[("utilization-of", "limits")]);
    let pod: Pod = serde_json::from_value(json!({
        "metadata": { "name": "a" },
        "spec": {
            "resources": { "limits": { "cpu": "2" } },
            "containers": [{ "name": "app", "resources": { "limits": { "memory": "1" } } }],
        },
        "status": { "phase": "Running", "startTime": "1970-01-01T00:00:00Z", "conditions": [
            { "type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:01:00Z" },
        ] },
    }))
    .unwrap();
    let pods = [Arc::new(pod)];
    let conclusion = decide(&hpa, (1, 1), &pods, samples(&[("a", 2000)]));
    assert_eq!(conclusion.scaled_to, Some(2));
    // Memory has no pod-level limit, so the limits of the containers count.
    hpa.spec.metrics = vec![serde_json::from_value(resource("memory", &utilization(50))).unwrap()];
    let conclusion = decide(&hpa, (1, 1), &pods, samples(&[("a", 2000)]));
    assert_eq!(conclusion.scaled_to, Some(4));
}

#[test]
fn actual_requests_count_during_a_resize() {
    let resources = json!({ "requests": { "cpu": "4" } });
    let applied = json!({ "requests": { "cpu": "1" } });
    let status = json!({ "containerStatuses": [{ "name": "app", "resources": applied }] });
    let pods = [pod("a", &resources, &status), pod("b", &resources, &status)];
    let metric = resource("cpu", &utilization(50));
    let reading = samples(&[("a", 900), ("b", 900)]);
    let conclusion = decide(&hpa(&metric, &[]), (2, 2), &pods, reading.clone());
    assert_eq!(conclusion.scaled_to, Some(1));
    let actual = hpa(&metric, &[("requests", "actual")]);
    let conclusion = decide(&actual, (2, 2), &pods, reading.clone());
    assert_eq!(conclusion.scaled_to, Some(4));
    assert_eq!(
        sentence(&actual, &conclusion),
        "cpu is at 90% of requests, target 50%; requests: 2 pods with other applied requests than \
            those of the spec"
    );
    // Without a resize, the setting has no effect.
    let pods = [pod("a", &applied, &status), pod("b", &applied, &status)];
    let conclusion = decide(&actual, (2, 2), &pods, reading);
    assert_eq!(sentence(&actual, &conclusion), "cpu is at 90% of requests, target 50%");
}
