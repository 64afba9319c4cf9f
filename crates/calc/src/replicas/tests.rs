use jiff::{SignedDuration, Timestamp};
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::{
    api::{Pod, ResourceName},
    quantity::MilliValue,
    readings::{PodSample, PodSamples},
    settings::{Readiness, Tolerances},
};

const TEN_PERCENT: Tolerances = Tolerances { up: 0.1, down: 0.1 };
const NOW: Timestamp = Timestamp::constant(10_000, 0);
const RULES: Readiness = Readiness {
    now: NOW,
    cpu_initialization_period: SignedDuration::from_secs(300),
    initial_readiness_delay: SignedDuration::from_secs(30),
};

fn milli(value: i64) -> MilliValue {
    MilliValue::from_milli(value)
}

fn millis(values: &[i64]) -> Vec<MilliValue> {
    values.iter().copied().map(milli).collect()
}

/// A pod that requests 1000m of CPU: `r` is ready, `n` was never ready, `p` is pending, `f` has
/// failed, `t` is terminating.
fn pod(index: usize, kind: char) -> Pod {
    let phase = match kind {
        'p' => "Pending",
        'f' => "Failed",
        _ => "Running",
    };
    let ready = if matches!(kind, 'r' | 't') { "True" } else { "False" };
    let time = "1970-01-01T00:00:00Z";
    serde_json::from_value(json!({
        "metadata": {
            "name": index.to_string(),
            "deletionTimestamp": (kind == 't').then_some(time),
        },
        "spec": { "containers": [{ "name": "c", "resources": { "requests": { "cpu": "1" } } }] },
        "status": {
            "phase": phase,
            "startTime": time,
            "conditions": [{ "type": "Ready", "status": ready, "lastTransitionTime": time }],
        },
    }))
    .unwrap()
}

fn pods(kinds: &str) -> Vec<Pod> {
    kinds.chars().enumerate().map(|(index, kind)| pod(index, kind)).collect()
}

/// The samples of pods 0, 1, …, in milli-units.
fn samples(values: &[Option<i64>]) -> PodSamples {
    let sample = |value| PodSample {
        value: milli(value),
        timestamp: NOW,
        window: SignedDuration::from_secs(30),
    };
    let sampled = values.iter().enumerate();
    sampled.filter_map(|(index, value)| Some((index.to_string(), sample((*value)?)))).collect()
}

fn average(
    kinds: &str,
    values: &[Option<i64>],
    target: i64,
    current: i32,
) -> Result<Proposal, CalculationError> {
    let target = AverageTarget {
        current_replicas: current,
        target: milli(target),
        is_cpu: true,
        tolerances: TEN_PERCENT,
    };
    average_value(&target, &pods(kinds), &samples(values), &RULES)
}

fn utilized(
    pods: &[Pod],
    values: &[Option<i64>],
    target: i32,
    current: i32,
) -> Result<Proposal, CalculationError> {
    let resource = &ResourceName::Cpu;
    let target = UtilizationTarget {
        current_replicas: current,
        target,
        resource,
        container: None,
        tolerances: TEN_PERCENT,
    };
    utilization(&target, pods, &samples(values), &RULES)
}

const NO: Option<i64> = None;

#[rstest]
#[case::upper_edge("rr", &[Some(1100), Some(1100)], 2, (2, 1100, Rule::WithinTolerance))]
#[case::above("rr", &[Some(1101), Some(1101)], 2, (3, 1101, Rule::Proportional))]
#[case::lower_edge("rr", &[Some(900), Some(900)], 2, (2, 900, Rule::WithinTolerance))]
#[case::below("rrr", &[Some(600), Some(600), Some(600)], 3, (2, 600, Rule::Proportional))]
#[case::the_average_truncates("rr", &[Some(1100), Some(1101)], 2, (2, 1100, Rule::WithinTolerance))]
#[case::ready_pods_not_current_replicas(
    "rr",
    &[Some(3000), Some(3000)],
    10,
    (6, 3000, Rule::Proportional)
)]
#[case::zero("rr", &[Some(0), Some(0)], 2, (0, 0, Rule::Proportional))]
#[case::negative("rr", &[Some(-1000), Some(-1000)], 2, (-2, -1000, Rule::Proportional))]
#[case::missing_counts_with_no_usage_upward(
    "rrr",
    &[Some(3000), Some(3000), NO],
    3,
    (6, 3000, Rule::Proportional)
)]
#[case::missing_counts_with_the_target_downward(
    "rrr",
    &[Some(0), Some(0), NO],
    3,
    (1, 0, Rule::Proportional)
)]
#[case::missing_at_the_target("rr", &[Some(1000), NO], 2, (2, 1000, Rule::WithinTolerance))]
#[case::missing_reverses_the_direction(
    "rrr",
    &[Some(1500), NO, NO],
    3,
    (3, 1500, Rule::DirectionReversed)
)]
#[case::missing_leads_to_tolerance(
    "rrr",
    &[Some(1600), Some(1600), NO],
    3,
    (3, 1600, Rule::WithinTolerance)
)]
#[case::unready_counts_with_no_usage_upward(
    "rrn",
    &[Some(3000), Some(3000), Some(9000)],
    3,
    (6, 3000, Rule::Proportional)
)]
#[case::unready_does_not_count_downward(
    "rrn",
    &[Some(400), Some(400), Some(9000)],
    3,
    (1, 400, Rule::Proportional)
)]
#[case::pending_without_sample(
    "rrp",
    &[Some(3000), Some(3000), NO],
    3,
    (6, 3000, Rule::Proportional)
)]
#[case::ignored_does_not_count(
    "rrft",
    &[Some(3000), Some(3000), Some(9), Some(9)],
    2,
    (6, 3000, Rule::Proportional)
)]
#[case::unknown_pods_count("r", &[Some(1000), Some(5000)], 1, (3, 3000, Rule::Proportional))]
#[case::more_replicas_would_reverse(
    "rrrr",
    &[Some(700), Some(700), Some(700), NO],
    3,
    (3, 700, Rule::DirectionReversed)
)]
#[case::fewer_replicas_would_reverse(
    "rrr",
    &[Some(2000), Some(2000), NO],
    9,
    (9, 2000, Rule::DirectionReversed)
)]
#[case::maximum(
    "rr",
    &[Some(i64::MAX), Some(i64::MAX)],
    2,
    (i32::MAX, i64::MAX / 2, Rule::Proportional)
)]
#[case::minimum(
    "rr",
    &[Some(i64::MIN), Some(i64::MIN)],
    2,
    (i32::MIN, i64::MIN / 2, Rule::Proportional)
)]
fn average_value_proposes(
    #[case] kinds: &str,
    #[case] values: &[Option<i64>],
    #[case] current: i32,
    #[case] expected: (i32, i64, Rule),
) {
    let proposal = average(kinds, values, 1000, current).unwrap();
    assert_eq!((proposal.replicas, proposal.usage.as_milli(), proposal.rule), expected);
}

#[rstest]
#[case::no_pods("", &[Some(1)], CalculationError::NoPods)]
#[case::no_samples("rr", &[], CalculationError::NoSamples)]
#[case::only_of_unready("nt", &[Some(1), Some(1)], CalculationError::NoSamples)]
fn averages_need_pods_and_samples(
    #[case] kinds: &str,
    #[case] values: &[Option<i64>],
    #[case] expected: CalculationError,
) {
    assert_eq!(average(kinds, values, 1000, 2), Err(expected.clone()));
    assert_eq!(utilized(&pods(kinds), values, 50, 2), Err(expected));
}

#[test]
fn average_target_of_zero_saturates() {
    assert_eq!(average("r", &[Some(1)], 0, 1).unwrap().replicas, i32::MAX);
    assert_eq!(average("r", &[Some(0)], 0, 1).unwrap().replicas, 0);
    assert_eq!(average("r", &[Some(-1)], 0, 1).unwrap().replicas, i32::MIN);
}

// Each pod requests 1000m, so that a value of 10 is 1 %.
#[rstest]
#[case::upper_edge("rr", &[Some(550), Some(550)], 50, 2, (2, 55, Rule::WithinTolerance))]
#[case::truncated_before_it_is_compared(
    "rr",
    &[Some(559), Some(559)],
    50,
    2,
    (2, 55, Rule::WithinTolerance)
)]
#[case::above("rr", &[Some(560), Some(560)], 50, 2, (3, 56, Rule::Proportional))]
#[case::lower_edge("rr", &[Some(450), Some(450)], 50, 2, (2, 45, Rule::WithinTolerance))]
#[case::truncated_below_it(
    "rrr",
    &[Some(449), Some(449), Some(449)],
    50,
    3,
    (3, 44, Rule::Proportional)
)]
#[case::truncated_downward("rr", &[Some(259), Some(259)], 50, 2, (1, 25, Rule::Proportional))]
#[case::ready_pods_not_current_replicas(
    "rr",
    &[Some(1000), Some(1000)],
    50,
    10,
    (4, 100, Rule::Proportional)
)]
#[case::missing_counts_with_its_request_downward(
    "rrr",
    &[Some(100), Some(100), NO],
    80,
    3,
    (2, 10, Rule::Proportional)
)]
#[case::missing_counts_with_the_target_if_more(
    "rrr",
    &[Some(300), Some(300), NO],
    300,
    3,
    (2, 30, Rule::Proportional)
)]
#[case::missing_reverses_the_direction(
    "rr",
    &[Some(300), NO],
    50,
    2,
    (2, 30, Rule::DirectionReversed)
)]
#[case::missing_counts_with_no_usage_upward(
    "rrr",
    &[Some(900), Some(900), NO],
    50,
    3,
    (4, 90, Rule::Proportional)
)]
#[case::unready_counts_with_no_usage_upward(
    "rrn",
    &[Some(900), Some(900), Some(900)],
    50,
    3,
    (4, 90, Rule::Proportional)
)]
#[case::unready_does_not_count_downward(
    "rrn",
    &[Some(200), Some(200), Some(900)],
    50,
    3,
    (1, 20, Rule::Proportional)
)]
#[case::unknown_pods_are_in_no_sum(
    "r",
    &[Some(1000), Some(9000)],
    50,
    1,
    (2, 100, Rule::Proportional)
)]
#[case::unknown_pods_count_if_rebalanced(
    "rr",
    &[Some(1000), NO, Some(9000)],
    40,
    2,
    (4, 100, Rule::Proportional)
)]
#[case::maximum("r", &[Some(i64::MAX)], 50, 1, (42_949_673, i32::MAX, Rule::Proportional))]
#[case::minimum("r", &[Some(i64::MIN)], 50, 1, (-42_949_672, i32::MIN, Rule::Proportional))]
fn utilization_proposes(
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

fn requesting(requests: serde_json::Value) -> Pod {
    let time = "1970-01-01T00:00:00Z";
    serde_json::from_value(json!({
        "metadata": { "name": "0" },
        "spec": requests,
        "status": {
            "phase": "Running",
            "startTime": time,
            "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": time }],
        },
    }))
    .unwrap()
}

fn cpu(name: &str, cpu: &str) -> serde_json::Value {
    json!({ "name": name, "resources": { "requests": { "cpu": cpu } } })
}

fn sidecar(name: &str, amount: &str) -> serde_json::Value {
    let mut container = cpu(name, amount);
    container["restartPolicy"] = "Always".into();
    container
}

// The pod uses 1000m, and the utilization is in percent of its requests.
#[rstest]
#[case::containers_add_up(json!({ "containers": [cpu("a", "1"), cpu("b", "3")] }), None, Ok(25))]
#[case::init_containers_do_not(
    json!({ "containers": [cpu("a", "1")], "initContainers": [cpu("i", "3")] }),
    None,
    Ok(100)
)]
#[case::sidecars_do(
    json!({ "containers": [cpu("a", "1")], "initContainers": [sidecar("s", "3")] }),
    None,
    Ok(25)
)]
#[case::named(json!({ "containers": [cpu("a", "1"), cpu("b", "4")] }), Some("b"), Ok(25))]
#[case::named_sidecar(
    json!({ "containers": [cpu("a", "1")], "initContainers": [sidecar("s", "2")] }),
    Some("s"),
    Ok(50)
)]
#[case::named_is_missing(
    json!({ "containers": [cpu("a", "1")] }),
    Some("b"),
    Err("container b not found in Pod 0")
)]
#[case::named_init_container(
    json!({ "containers": [], "initContainers": [cpu("i", "1")] }),
    Some("i"),
    Err("container i not found in Pod 0")
)]
#[case::no_request(
    json!({ "containers": [cpu("a", "1"), { "name": "b" }] }),
    None,
    Err("missing request for cpu in container b of Pod 0")
)]
#[case::pod_level(
    json!({
        "resources": { "requests": { "cpu": "2" } },
        "containers": [cpu("a", "1"), { "name": "b" }],
    }),
    None,
    Ok(50)
)]
#[case::pod_level_of_another_resource(
    json!({ "resources": { "requests": { "memory": "1Gi" } }, "containers": [cpu("a", "4")] }),
    None,
    Ok(25)
)]
#[case::pod_level_but_named(
    json!({ "resources": { "requests": { "cpu": "2" } }, "containers": [cpu("a", "1")] }),
    Some("a"),
    Ok(100)
)]
#[case::pod_level_without(
    json!({ "resources": { "requests": { "memory": "1Gi" } }, "containers": [{ "name": "a" }] }),
    None,
    Err("missing pod-level request for cpu in Pod 0")
)]
#[case::unreadable(
    json!({ "containers": [cpu("a", "1"), cpu("b", &"7".repeat(72_000))] }),
    None,
    Err("unreadable request for cpu in container b of Pod 0: quantities must be no more than \
         65536 bytes")
)]
#[case::unreadable_but_another_is_named(
    json!({ "containers": [cpu("a", "1"), cpu("b", &"7".repeat(72_000))] }),
    Some("a"),
    Ok(100)
)]
#[case::unreadable_in_a_pod_level_sum(
    json!({
        "resources": { "requests": { "memory": "1Gi" } },
        "containers": [cpu("a", "1"), cpu("b", &"7".repeat(72_000))],
    }),
    None,
    Err("unreadable pod-level request for cpu in Pod 0: quantities must be no more than 65536 \
         bytes")
)]
#[case::pod_level_replaces_an_unreadable_request(
    json!({
        "resources": { "requests": { "cpu": "2" } },
        "containers": [cpu("a", &"7".repeat(72_000))],
    }),
    None,
    Ok(50)
)]
#[case::unreadable_init_container_of_a_pod_with_pod_level_requests(
    json!({
        "resources": { "requests": { "memory": "1Gi" } },
        "containers": [cpu("a", "1")],
        "initContainers": [cpu("i", &"7".repeat(72_000))],
    }),
    None,
    Err("unreadable pod-level request for cpu in Pod 0: quantities must be no more than 65536 \
         bytes")
)]
#[case::milli_rounds_up_per_container(
    json!({ "containers": [cpu("a", "1999100u"), cpu("b", "1999100u")] }),
    None,
    Ok(25)
)]
#[case::requests_add_up_to_nothing(
    json!({ "containers": [] }),
    None,
    Err("no metrics returned matched known pods")
)]
#[case::requests_saturate(json!({ "containers": [cpu("a", "9E"), cpu("b", "9E")] }), None, Ok(0))]
fn requests_by_container_and_pod(
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
    let proposal = utilization(&target, &[requesting(spec)], &samples(&[Some(1000)]), &RULES);
    let utilization =
        proposal.map(|proposal| proposal.utilization.unwrap()).map_err(|error| error.to_string());
    assert_eq!(utilization, expected.map_err(str::to_owned));
}

#[test]
fn ignored_pods_must_request_the_resource() {
    let mut all = pods("rt");
    all[1].resources = requesting(json!({ "containers": [{ "name": "x" }] })).resources;
    let failed = utilized(&all, &[Some(500)], 50, 1).unwrap_err().to_string();
    assert_eq!(failed, "missing request for cpu in container x of Pod 1");
    // A missing sample is reported first.
    assert_eq!(utilized(&all, &[NO, Some(500)], 50, 1), Err(CalculationError::NoSamples));
}

fn by(replicas: i32) -> ValueTarget {
    ValueTarget { replicas, target: milli(1000), tolerances: TEN_PERCENT }
}

#[rstest]
#[case::upper_edge("rrr", 1100, 5, Ok((5, Rule::WithinTolerance)))]
#[case::above_counts_ready_pods("rrr", 1101, 5, Ok((4, Rule::Proportional)))]
#[case::lower_edge("rrr", 900, 5, Ok((5, Rule::WithinTolerance)))]
#[case::below_counts_ready_pods("rrr", 600, 5, Ok((2, Rule::Proportional)))]
#[case::terminating_counts("rrt", 2000, 5, Ok((6, Rule::Proportional)))]
#[case::unready_pods_do_not_count("rrnpf", 2000, 5, Ok((4, Rule::Proportional)))]
#[case::none_ready("nn", 9000, 5, Ok((0, Rule::Proportional)))]
#[case::no_pods_within_tolerance("", 1000, 5, Ok((5, Rule::WithinTolerance)))]
#[case::no_pods("", 2000, 5, Err(CalculationError::NoReadyPods))]
#[case::from_zero_without_pods("", 2000, 0, Ok((2, Rule::Proportional)))]
#[case::from_zero_without_tolerance("rr", 1001, 0, Ok((2, Rule::Proportional)))]
#[case::from_zero_smallest_usage("", 1, 0, Ok((1, Rule::Proportional)))]
#[case::at_zero_without_usage("", 0, 0, Ok((0, Rule::Proportional)))]
#[case::negative("r", -1, 1, Ok((0, Rule::Proportional)))]
#[case::maximum("r", i64::MAX, 1, Ok((i32::MAX, Rule::Proportional)))]
fn value_proposes(
    #[case] kinds: &str,
    #[case] usage: i64,
    #[case] replicas: i32,
    #[case] expected: Result<(i32, Rule), CalculationError>,
) {
    let proposal = value(&by(replicas), milli(usage), &pods(kinds));
    assert_eq!(proposal.map(|proposal| (proposal.replicas, proposal.rule)), expected);
}

// 4 replicas with a target of 1000m each.
#[rstest]
#[case::upper_edge(4400, (4, 1100))]
#[case::above(4401, (5, 1101))]
#[case::lower_edge(3600, (4, 900))]
#[case::below(2999, (3, 750))]
#[case::zero(0, (0, 0))]
#[case::maximum(i64::MAX, (i32::MAX, 1 << 61))]
fn object_average_value_proposes(#[case] usage: i64, #[case] expected: (i32, i64)) {
    let proposal = object_average_value(&by(4), milli(usage));
    assert_eq!((proposal.replicas, proposal.usage.as_milli()), expected);
}

#[rstest]
#[case::some(1500, (2, 1500))]
#[case::nothing(0, (0, 0))]
#[case::negative(-1500, (-1, -1500))]
fn object_average_value_at_zero_replicas(#[case] usage: i64, #[case] expected: (i32, i64)) {
    let proposal = object_average_value(&by(0), milli(usage));
    assert_eq!((proposal.replicas, proposal.usage.as_milli()), expected);
}

#[rstest]
#[case::none(&[], (0, 0))]
#[case::upper_edge(&[4000, 400], (4, 1100))]
#[case::above(&[4000, 401], (5, 1101))]
#[case::negative_sum_counts_as_maximum(&[-1], (i32::MAX, i64::MAX))]
#[case::negative_partial_sum(&[5, -6, 5], (i32::MAX, i64::MAX))]
#[case::overflow(&[i64::MAX, 1], (i32::MAX, i64::MAX))]
#[case::rounds_to_maximum(&[i64::MAX - 1], (i32::MAX, i64::MAX))]
fn external_average_value_proposes(#[case] values: &[i64], #[case] expected: (i32, i64)) {
    let proposal = external_average_value(&by(4), &millis(values));
    assert_eq!((proposal.replicas, proposal.usage.as_milli()), expected);
}

#[rstest]
#[case::none(&[], 0)]
#[case::sum(&[3, -5, 4], 2)]
#[case::overflow(&[i64::MAX, 1, -5], i64::MAX)]
#[case::underflow(&[i64::MIN, -1], i64::MIN)]
fn external_total_saturates(#[case] values: &[i64], #[case] expected: i64) {
    assert_eq!(external_total(&millis(values)), milli(expected));
}

#[rstest]
#[case(0.0, 0)]
#[case(0.1, 1)]
#[case(-0.9, 0)]
#[case(3.0, 3)]
#[case(3.000_000_1, 4)]
#[case(f64::NAN, 0)]
#[case(f64::INFINITY, i32::MAX)]
#[case(f64::NEG_INFINITY, i32::MIN)]
fn ceilings(#[case] replicas: f64, #[case] expected: i32) {
    assert_eq!(ceil_to_replicas(replicas), expected);
}
