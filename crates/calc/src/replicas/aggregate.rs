//! One value for the samples of the ready pods, other than their mean.
//!
//! The calculation continues as if every ready pod had this value. Unready and missing pods
//! therefore count as they do for the mean (see [`PodClass`](crate::pods::PodClass)). So missing
//! pods never lead to fewer replicas, and starting pods never to more.

use std::cmp::Ordering;

use crate::settings::Aggregate;

/// The value at the nearest rank of the aggregate: for [`Aggregate::P90`], the smallest value that
/// at least 90 % of the values don't exceed. `None` for the mean, or if there are no values.
pub(super) fn value_at_rank<T: Copy>(
    values: &mut [T],
    aggregate: Aggregate,
    compare: impl FnMut(&T, &T) -> Ordering,
) -> Option<T> {
    let percent = match aggregate {
        Aggregate::Average => return None,
        Aggregate::P90 => 90,
        Aggregate::P95 => 95,
        Aggregate::P99 => 99,
        Aggregate::Max => 100,
    };
    let rank = (values.len() * percent).div_ceil(100);
    let index = rank.checked_sub(1)?;
    let (_, value, _) = values.select_nth_unstable_by(index, compare);
    Some(*value)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::none(0, Aggregate::P90, None)]
    #[case::one(1, Aggregate::P90, Some(1))]
    #[case::p90_of_nine(9, Aggregate::P90, Some(9))]
    #[case::p90_of_ten(10, Aggregate::P90, Some(9))]
    #[case::p90_of_eleven(11, Aggregate::P90, Some(10))]
    #[case::p95_of_twenty(20, Aggregate::P95, Some(19))]
    #[case::p99_of_hundred(100, Aggregate::P99, Some(99))]
    #[case::p99_of_fewer(99, Aggregate::P99, Some(99))]
    #[case::max(100, Aggregate::Max, Some(100))]
    #[case::mean(100, Aggregate::Average, None)]
    fn percentile_is_the_value_at_the_nearest_rank(
        #[case] count: i64,
        #[case] aggregate: Aggregate,
        #[case] expected: Option<i64>,
    ) {
        let mut values: Vec<i64> = (1..=count).rev().collect();
        assert_eq!(value_at_rank(&mut values, aggregate, i64::cmp), expected);
    }
}
