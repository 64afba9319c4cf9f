//! Averages over pods. The submodules test utilization, and Object and External metrics.

mod object;
mod utilization;

use jiff::{SignedDuration, Timestamp};
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::{
    api::{Pod, ResourceName},
    quantity::MilliValue,
    readings::{PodSample, PodSamples},
    settings::{ReadinessRules, Tolerances},
};

const NO_SAMPLE: Option<i64> = None;
const TEN_PERCENT: Tolerances = Tolerances { up: 0.1, down: 0.1 };
const NOW: Timestamp = Timestamp::constant(10_000, 0);
const READINESS: ReadinessRules = ReadinessRules {
    now: NOW,
    cpu_initialization_period: SignedDuration::from_secs(300),
    initial_readiness_delay: SignedDuration::from_secs(30),
};

fn milli(value: i64) -> MilliValue {
    MilliValue::from_milli(value)
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
    average_value(&target, &pods(kinds), &samples(values), &READINESS)
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
    utilization(&target, pods, &samples(values), &READINESS)
}

#[rstest]
#[case::upper_edge("rr", &[Some(1100), Some(1100)], 2, (2, 1100, Rule::WithinTolerance))]
#[case::above("rr", &[Some(1101), Some(1101)], 2, (3, 1101, Rule::Proportional))]
#[case::lower_edge("rr", &[Some(900), Some(900)], 2, (2, 900, Rule::WithinTolerance))]
#[case::below("rrr", &[Some(600), Some(600), Some(600)], 3, (2, 600, Rule::Proportional))]
#[case::average_is_truncated("rr", &[Some(1100), Some(1101)], 2, (2, 1100, Rule::WithinTolerance))]
#[case::multiplies_ready_pods_not_current_replicas(
    "rr",
    &[Some(3000), Some(3000)],
    10,
    (6, 3000, Rule::Proportional)
)]
#[case::zero("rr", &[Some(0), Some(0)], 2, (0, 0, Rule::Proportional))]
#[case::negative("rr", &[Some(-1000), Some(-1000)], 2, (-2, -1000, Rule::Proportional))]
#[case::missing_pod_uses_nothing_on_scale_up(
    "rrr",
    &[Some(3000), Some(3000), NO_SAMPLE],
    3,
    (6, 3000, Rule::Proportional)
)]
#[case::missing_pod_uses_the_target_on_scale_down(
    "rrr",
    &[Some(0), Some(0), NO_SAMPLE],
    3,
    (1, 0, Rule::Proportional)
)]
#[case::missing_pod_while_at_the_target(
    "rr",
    &[Some(1000), NO_SAMPLE],
    2,
    (2, 1000, Rule::WithinTolerance)
)]
#[case::missing_pod_would_reverse_the_direction(
    "rrr",
    &[Some(1500), NO_SAMPLE, NO_SAMPLE],
    3,
    (3, 1500, Rule::DirectionReversed)
)]
#[case::missing_pod_brings_the_ratio_within_tolerance(
    "rrr",
    &[Some(1600), Some(1600), NO_SAMPLE],
    3,
    (3, 1600, Rule::WithinTolerance)
)]
#[case::unready_pod_uses_nothing_on_scale_up(
    "rrn",
    &[Some(3000), Some(3000), Some(9000)],
    3,
    (6, 3000, Rule::Proportional)
)]
#[case::unready_pod_is_left_out_on_scale_down(
    "rrn",
    &[Some(400), Some(400), Some(9000)],
    3,
    (1, 400, Rule::Proportional)
)]
#[case::pending_without_sample(
    "rrp",
    &[Some(3000), Some(3000), NO_SAMPLE],
    3,
    (6, 3000, Rule::Proportional)
)]
#[case::failed_and_terminating_pods_are_left_out(
    "rrft",
    &[Some(3000), Some(3000), Some(9), Some(9)],
    2,
    (6, 3000, Rule::Proportional)
)]
#[case::sample_of_an_unknown_pod_counts(
    "r",
    &[Some(1000), Some(5000)],
    1,
    (3, 3000, Rule::Proportional)
)]
#[case::more_replicas_on_scale_down_keeps_the_replicas(
    "rrrr",
    &[Some(700), Some(700), Some(700), NO_SAMPLE],
    3,
    (3, 700, Rule::DirectionReversed)
)]
#[case::fewer_replicas_on_scale_up_keeps_the_replicas(
    "rrr",
    &[Some(2000), Some(2000), NO_SAMPLE],
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
fn average_over_pods_is_compared_with_its_target(
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
#[case::only_samples_of_pods_that_do_not_count(
    "nt",
    &[Some(1), Some(1)],
    CalculationError::NoSamples
)]
fn average_without_pods_or_samples_is_an_error(
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

#[rstest]
#[case(0.0, 0)]
#[case(0.1, 1)]
#[case(-0.9, 0)]
#[case(3.0, 3)]
#[case(3.000_000_1, 4)]
#[case(f64::NAN, 0)]
#[case(f64::INFINITY, i32::MAX)]
#[case(f64::NEG_INFINITY, i32::MIN)]
fn replicas_are_rounded_up_and_saturate(#[case] replicas: f64, #[case] expected: i32) {
    assert_eq!(ceil_to_replicas(replicas), expected);
}
