//! Object and External metrics.

use rstest::rstest;

use super::{TEN_PERCENT, milli, pods};
use crate::{
    quantity::MilliValue,
    replicas::{
        CalculationError, Rule, ValueTarget, external_average_value, external_total,
        object_average_value, value,
    },
};

fn millis(values: &[i64]) -> Vec<MilliValue> {
    values.iter().copied().map(milli).collect()
}

fn target(replicas: i32) -> ValueTarget {
    ValueTarget { replicas, target: milli(1000), tolerances: TEN_PERCENT }
}

#[rstest]
#[case::upper_edge("rrr", 1100, 5, Ok((5, Rule::WithinTolerance)))]
#[case::above_counts_ready_pods("rrr", 1101, 5, Ok((4, Rule::Proportional)))]
#[case::lower_edge("rrr", 900, 5, Ok((5, Rule::WithinTolerance)))]
#[case::below_counts_ready_pods("rrr", 600, 5, Ok((2, Rule::Proportional)))]
#[case::ready_terminating_pod_counts("rrt", 2000, 5, Ok((6, Rule::Proportional)))]
#[case::unready_pods_do_not_count("rrnpf", 2000, 5, Ok((4, Rule::Proportional)))]
#[case::none_ready("nn", 9000, 5, Ok((0, Rule::Proportional)))]
#[case::no_pods_within_tolerance("", 1000, 5, Ok((5, Rule::WithinTolerance)))]
#[case::no_pods("", 2000, 5, Err(CalculationError::NoPodsForValue))]
#[case::from_zero_without_pods("", 2000, 0, Ok((2, Rule::Proportional)))]
#[case::from_zero_without_tolerance("rr", 1001, 0, Ok((2, Rule::Proportional)))]
#[case::from_zero_smallest_usage("", 1, 0, Ok((1, Rule::Proportional)))]
#[case::at_zero_without_usage("", 0, 0, Ok((0, Rule::Proportional)))]
#[case::negative("r", -1, 1, Ok((0, Rule::Proportional)))]
#[case::maximum("r", i64::MAX, 1, Ok((i32::MAX, Rule::Proportional)))]
fn value_ratio_is_multiplied_by_ready_pods(
    #[case] kinds: &str,
    #[case] usage: i64,
    #[case] replicas: i32,
    #[case] expected: Result<(i32, Rule), CalculationError>,
) {
    let proposal = value(&target(replicas), milli(usage), &pods(kinds));
    assert_eq!(proposal.map(|proposal| (proposal.replicas, proposal.rule)), expected);
}

// 4 replicas with a target of 1000m each and a tolerance of 10 %.
#[rstest]
#[case::upper_edge(4400, (4, 1100))]
#[case::above(4401, (5, 1101))]
#[case::lower_edge(3600, (4, 900))]
#[case::below(2999, (3, 750))]
#[case::zero(0, (0, 0))]
#[case::maximum(i64::MAX, (i32::MAX, 1 << 61))]
fn object_value_is_divided_by_its_target(#[case] usage: i64, #[case] expected: (i32, i64)) {
    let proposal = object_average_value(&target(4), milli(usage));
    assert_eq!((proposal.replicas, proposal.usage.as_milli()), expected);
}

#[rstest]
#[case::usage(1500, (2, 1500))]
#[case::no_usage(0, (0, 0))]
#[case::negative(-1500, (-1, -1500))]
fn object_average_at_zero_replicas_is_the_whole_value(
    #[case] usage: i64,
    #[case] expected: (i32, i64),
) {
    let proposal = object_average_value(&target(0), milli(usage));
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
fn external_series_are_added_for_an_average(#[case] values: &[i64], #[case] expected: (i32, i64)) {
    let proposal = external_average_value(&target(4), &millis(values));
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
