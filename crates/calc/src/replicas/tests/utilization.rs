//! Utilization of requests.

use rstest::rstest;
use serde_json::json;

use super::{NO_SAMPLE, READINESS, TEN_PERCENT, pods, samples, utilized};
use crate::{
    api::{Pod, ResourceName},
    replicas::{CalculationError, Rule, UtilizationTarget, utilization},
};

// Each pod requests 1000m: a value of 10 is 1 %.
#[rstest]
#[case::upper_edge("rr", &[Some(550), Some(550)], 50, 2, (2, 55, Rule::WithinTolerance))]
#[case::percentage_is_truncated_before_the_tolerance(
    "rr",
    &[Some(559), Some(559)],
    50,
    2,
    (2, 55, Rule::WithinTolerance)
)]
#[case::above("rr", &[Some(560), Some(560)], 50, 2, (3, 56, Rule::Proportional))]
#[case::lower_edge("rr", &[Some(450), Some(450)], 50, 2, (2, 45, Rule::WithinTolerance))]
#[case::truncated_percentage_is_below_the_tolerance(
    "rrr",
    &[Some(449), Some(449), Some(449)],
    50,
    3,
    (3, 44, Rule::Proportional)
)]
#[case::percentage_is_truncated_on_scale_down(
    "rr",
    &[Some(259), Some(259)],
    50,
    2,
    (1, 25, Rule::Proportional)
)]
#[case::multiplies_ready_pods_not_current_replicas(
    "rr",
    &[Some(1000), Some(1000)],
    50,
    10,
    (4, 100, Rule::Proportional)
)]
#[case::missing_pod_uses_its_request_on_scale_down(
    "rrr",
    &[Some(100), Some(100), NO_SAMPLE],
    80,
    3,
    (2, 10, Rule::Proportional)
)]
#[case::missing_pod_uses_the_target_on_scale_down_if_above_100_percent(
    "rrr",
    &[Some(300), Some(300), NO_SAMPLE],
    300,
    3,
    (2, 30, Rule::Proportional)
)]
#[case::missing_pod_would_reverse_the_direction(
    "rr",
    &[Some(300), NO_SAMPLE],
    50,
    2,
    (2, 30, Rule::DirectionReversed)
)]
#[case::missing_pod_uses_nothing_on_scale_up(
    "rrr",
    &[Some(900), Some(900), NO_SAMPLE],
    50,
    3,
    (4, 90, Rule::Proportional)
)]
#[case::unready_pod_uses_nothing_on_scale_up(
    "rrn",
    &[Some(900), Some(900), Some(900)],
    50,
    3,
    (4, 90, Rule::Proportional)
)]
#[case::unready_pod_is_left_out_on_scale_down(
    "rrn",
    &[Some(200), Some(200), Some(900)],
    50,
    3,
    (1, 20, Rule::Proportional)
)]
#[case::sample_of_an_unknown_pod_is_ignored(
    "r",
    &[Some(1000), Some(9000)],
    50,
    1,
    (2, 100, Rule::Proportional)
)]
#[case::sample_of_an_unknown_pod_counts_if_pods_are_missing(
    "rr",
    &[Some(1000), NO_SAMPLE, Some(9000)],
    40,
    2,
    (4, 100, Rule::Proportional)
)]
#[case::maximum("r", &[Some(i64::MAX)], 50, 1, (42_949_673, i32::MAX, Rule::Proportional))]
#[case::minimum("r", &[Some(i64::MIN)], 50, 1, (-42_949_672, i32::MIN, Rule::Proportional))]
fn utilization_is_compared_with_its_target(
    #[case] kinds: &str,
    #[case] values: &[Option<i64>],
    #[case] target: i32,
    #[case] current: i32,
    #[case] (replicas, percent, rule): (i32, i32, Rule),
) {
    let proposal = utilized(&pods(kinds), values, target, current).unwrap();
    assert_eq!(
        (proposal.replicas, proposal.utilization, proposal.rule),
        (replicas, Some(percent), rule)
    );
}

/// A ready pod with this spec.
fn pod_with(spec: serde_json::Value) -> Pod {
    let time = "1970-01-01T00:00:00Z";
    serde_json::from_value(json!({
        "metadata": { "name": "0" },
        "spec": spec,
        "status": {
            "phase": "Running",
            "startTime": time,
            "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": time }],
        },
    }))
    .unwrap()
}

fn container(name: &str, cpu: &str) -> serde_json::Value {
    json!({ "name": name, "resources": { "requests": { "cpu": cpu } } })
}

fn sidecar(name: &str, cpu: &str) -> serde_json::Value {
    let mut container = container(name, cpu);
    container["restartPolicy"] = "Always".into();
    container
}

// The pod uses 1000m, and the utilization is in percent of its requests.
#[rstest]
#[case::containers_add_up(
    json!({ "containers": [container("a", "1"), container("b", "3")] }),
    None,
    Ok(25)
)]
#[case::init_containers_do_not_count(
    json!({ "containers": [container("a", "1")], "initContainers": [container("i", "3")] }),
    None,
    Ok(100)
)]
#[case::sidecars_count(
    json!({ "containers": [container("a", "1")], "initContainers": [sidecar("s", "3")] }),
    None,
    Ok(25)
)]
#[case::named_container(
    json!({ "containers": [container("a", "1"), container("b", "4")] }),
    Some("b"),
    Ok(25)
)]
#[case::named_sidecar(
    json!({ "containers": [container("a", "1")], "initContainers": [sidecar("s", "2")] }),
    Some("s"),
    Ok(50)
)]
#[case::named_container_is_missing(
    json!({ "containers": [container("a", "1")] }),
    Some("b"),
    Err("container b not found in Pod 0")
)]
#[case::named_init_container(
    json!({ "containers": [], "initContainers": [container("i", "1")] }),
    Some("i"),
    Err("container i not found in Pod 0")
)]
#[case::no_request(
    json!({ "containers": [container("a", "1"), { "name": "b" }] }),
    None,
    Err("missing request for cpu in container b of Pod 0")
)]
#[case::pod_level_request(
    json!({
        "resources": { "requests": { "cpu": "2" } },
        "containers": [container("a", "1"), { "name": "b" }],
    }),
    None,
    Ok(50)
)]
#[case::pod_level_request_of_another_resource(
    json!({
        "resources": { "requests": { "memory": "1Gi" } },
        "containers": [container("a", "4")],
    }),
    None,
    Ok(25)
)]
#[case::named_container_ignores_the_pod_level_request(
    json!({ "resources": { "requests": { "cpu": "2" } }, "containers": [container("a", "1")] }),
    Some("a"),
    Ok(100)
)]
#[case::pod_level_request_of_another_resource_and_none_of_the_container(
    json!({ "resources": { "requests": { "memory": "1Gi" } }, "containers": [{ "name": "a" }] }),
    None,
    Err("missing pod-level request for cpu in Pod 0")
)]
#[case::unreadable_request(
    json!({ "containers": [container("a", "1"), container("b", &"7".repeat(72_000))] }),
    None,
    Err("unreadable request for cpu in container b of Pod 0: quantities must be no more than \
         65536 bytes")
)]
#[case::unreadable_request_of_a_container_that_is_not_named(
    json!({ "containers": [container("a", "1"), container("b", &"7".repeat(72_000))] }),
    Some("a"),
    Ok(100)
)]
#[case::unreadable_request_in_a_pod_level_sum(
    json!({
        "resources": { "requests": { "memory": "1Gi" } },
        "containers": [container("a", "1"), container("b", &"7".repeat(72_000))],
    }),
    None,
    Err("unreadable pod-level request for cpu in Pod 0: quantities must be no more than 65536 \
         bytes")
)]
#[case::pod_level_replaces_an_unreadable_request(
    json!({
        "resources": { "requests": { "cpu": "2" } },
        "containers": [container("a", &"7".repeat(72_000))],
    }),
    None,
    Ok(50)
)]
#[case::unreadable_init_container_of_a_pod_with_pod_level_requests(
    json!({
        "resources": { "requests": { "memory": "1Gi" } },
        "containers": [container("a", "1")],
        "initContainers": [container("i", &"7".repeat(72_000))],
    }),
    None,
    Err("unreadable pod-level request for cpu in Pod 0: quantities must be no more than 65536 \
         bytes")
)]
#[case::requests_round_up_to_milli_units_per_container(
    json!({ "containers": [container("a", "1999100u"), container("b", "1999100u")] }),
    None,
    Ok(25)
)]
#[case::requests_add_up_to_zero(
    json!({ "containers": [] }),
    None,
    Err("no metrics returned matched known pods")
)]
#[case::requests_saturate(
    json!({ "containers": [container("a", "9E"), container("b", "9E")] }),
    None,
    Ok(0)
)]
fn utilization_is_relative_to_the_requests_that_count(
    #[case] spec: serde_json::Value,
    #[case] container: Option<&str>,
    #[case] expected: Result<i32, &str>,
) {
    let resource = &ResourceName::Cpu;
    let target = UtilizationTarget {
        current_replicas: 1,
        target: 50,
        resource,
        container,
        tolerances: TEN_PERCENT,
    };
    let proposal = utilization(&target, &[pod_with(spec)], &samples(&[Some(1000)]), &READINESS);
    let utilization =
        proposal.map(|proposal| proposal.utilization.unwrap()).map_err(|error| error.to_string());
    assert_eq!(utilization, expected.map_err(str::to_owned));
}

#[test]
fn ignored_pods_must_request_the_resource() {
    let mut all = pods("rt");
    all[1].resources = pod_with(json!({ "containers": [{ "name": "x" }] })).resources;
    let error = utilized(&all, &[Some(500)], 50, 1).unwrap_err().to_string();
    assert_eq!(error, "missing request for cpu in container x of Pod 1");
    // A missing sample is reported first.
    assert_eq!(utilized(&all, &[NO_SAMPLE, Some(500)], 50, 1), Err(CalculationError::NoSamples));
}
