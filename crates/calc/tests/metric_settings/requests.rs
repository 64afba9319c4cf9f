//! The requests and limits that a utilization is a percentage of.

use std::sync::Arc;

use hpa_calc::{HorizontalPodAutoscaler, Pod};
use rstest::rstest;
use serde_json::{Value, json};

use super::{
    condition, decide, jobs, names, pods, ready_pod, resource, samples, sentence, unlimited_hpa,
    utilization,
};

/// An autoscaler with a CPU target of 50 %.
fn cpu_hpa(settings: &[(&str, &str)]) -> HorizontalPodAutoscaler {
    unlimited_hpa(&resource("cpu", &utilization(50)), settings)
}

#[test]
fn utilization_can_be_a_percentage_of_limits() {
    let resources = json!({ "requests": { "cpu": "100m" }, "limits": { "cpu": "1" } });
    let pods = [ready_pod("a", &resources, &json!({})), ready_pod("b", &resources, &json!({}))];
    let reading = samples(&[("a", 700), ("b", 800)]);
    let of_requests = cpu_hpa(&[]);
    let conclusion = decide(&of_requests, (2, 2), &pods, reading.clone());
    assert_eq!(conclusion.scaled_to, Some(30));
    let of_limits = cpu_hpa(&[("utilization-of", "limits")]);
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
fn pod_without_a_readable_limit_fails_the_metric(#[case] resources: Value, #[case] text: &str) {
    let hpa = cpu_hpa(&[("utilization-of", "limits")]);
    let pods = [ready_pod("a", &resources, &json!({}))];
    let conclusion = decide(&hpa, (1, 1), &pods, samples(&[("a", 700)]));
    assert_eq!(conclusion.scaled_to, None);
    let error = conclusion.error.unwrap().to_string();
    assert!(error.contains(text), "{error}");
}

#[test]
fn pod_level_limit_counts_before_those_of_containers() {
    let mut hpa = cpu_hpa(&[("utilization-of", "limits")]);
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
    let pods = [ready_pod("a", &resources, &status), ready_pod("b", &resources, &status)];
    let reading = samples(&[("a", 900), ("b", 900)]);
    let conclusion = decide(&cpu_hpa(&[]), (2, 2), &pods, reading.clone());
    assert_eq!(conclusion.scaled_to, Some(1));
    let actual = cpu_hpa(&[("requests", "actual")]);
    let conclusion = decide(&actual, (2, 2), &pods, reading.clone());
    assert_eq!(conclusion.scaled_to, Some(4));
    assert_eq!(
        sentence(&actual, &conclusion),
        "cpu is at 90% of requests, target 50%; requests: 2 pods with other applied requests than \
            those of the spec"
    );
    // Without a resize, the setting has no effect.
    let pods = [ready_pod("a", &applied, &status), ready_pod("b", &applied, &status)];
    let conclusion = decide(&actual, (2, 2), &pods, reading);
    assert_eq!(sentence(&actual, &conclusion), "cpu is at 90% of requests, target 50%");
}

#[test]
fn pods_without_a_request_are_left_out_and_named() {
    let hpa = cpu_hpa(&[("missing-requests", "skip-pod")]);
    let reading = samples(&[("a", 800), ("b", 1000), ("x", 5000)]);
    // Skipped pods count as if they used as much as the others, up to the target's replicas.
    for (replicas, expected) in [(3, 6), (2, 4)] {
        let all = pods(&["a", "b"], &["x"]);
        let conclusion = decide(&hpa, (replicas, replicas), &all, reading.clone());
        assert_eq!(conclusion.scaled_to, Some(expected));
        assert_eq!(
            sentence(&hpa, &conclusion),
            "cpu is at 90% of requests, target 50%; missing-requests: 1 pod without requests of \
                cpu left out: x"
        );
        assert_eq!(
            condition(&conclusion, "PodsSkipped"),
            Some("1 pod without requests of cpu left out: x")
        );
    }
}

#[test]
fn condition_about_skipped_pods_is_removed_with_the_last_one() {
    let mut hpa = cpu_hpa(&[("missing-requests", "skip-pod")]);
    let reading = samples(&[("a", 500)]);
    let others = names('x', 7);
    let skipped = decide(&hpa, (1, 1), &pods(&["a"], &others), reading.clone());
    assert_eq!(
        condition(&skipped, "PodsSkipped"),
        Some("7 pods without requests of cpu left out: x000, x001, x002, x003, x004 and 2 more")
    );
    hpa.status = skipped.status;
    // It stays while the metric can't be read.
    let unread = decide(&hpa, (1, 1), &pods(&["a"], &others), jobs(0));
    assert!(unread.error.is_some() && condition(&unread, "PodsSkipped").is_some());
    let conclusion = decide(&hpa, (1, 1), &pods(&["a"], &[]), reading);
    assert_eq!(condition(&conclusion, "PodsSkipped"), None);
}

#[test]
fn metric_fails_if_all_pods_lack_the_request() {
    let reading = samples(&[("x", 500), ("y", 500)]);
    for settings in [&[][..], &[("missing-requests", "skip-pod")]] {
        let hpa = cpu_hpa(settings);
        let conclusion = decide(&hpa, (2, 2), &pods(&[], &["x", "y"]), reading.clone());
        let error = conclusion.error.unwrap().to_string();
        let expected = "missing request for cpu in container app of Pod x";
        assert!(error.ends_with(expected), "{error}");
        assert_eq!(conclusion.scaled_to, None);
    }
}

#[test]
fn skipped_pods_do_not_halve_the_replicas() {
    let hpa = cpu_hpa(&[("missing-requests", "skip-pod")]);
    let (with, without) = (names('a', 5), names('x', 5));
    let values: Vec<_> = with.iter().map(|name| (*name, 440)).collect();
    let all = pods(&with, &without);
    // 88 % of the target need nine of ten replicas.
    assert_eq!(decide(&hpa, (10, 10), &all, samples(&values)).scaled_to, Some(9));
}
