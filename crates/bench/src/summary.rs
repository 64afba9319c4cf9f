//! Percentiles.

use serde::{Deserialize, Serialize};

/// Count, percentiles and maximum of values, in the unit of the values. All zero if there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Summary {
    pub(crate) count: usize,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
}

impl Summary {
    /// Summarizes values in any order.
    pub(crate) fn new(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |per_mille| nearest_rank(&values, per_mille);
        Self { count: values.len(), p50: at(500), p99: at(990), p999: at(999), max: at(1000) }
    }
}

/// Returns the smallest value that `per_mille` thousandths of the values do not exceed.
fn nearest_rank(sorted: &[f64], per_mille: usize) -> f64 {
    let rank = (sorted.len() * per_mille).div_ceil(1000);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::none(0, [0.0, 0.0, 0.0, 0.0])]
    #[case::one(1, [1.0, 1.0, 1.0, 1.0])]
    #[case::two(2, [1.0, 2.0, 2.0, 2.0])]
    #[case::three(3, [2.0, 3.0, 3.0, 3.0])]
    #[case::hundred(100, [50.0, 99.0, 100.0, 100.0])]
    #[case::thousand(1000, [500.0, 990.0, 999.0, 1000.0])]
    #[case::more(10_001, [5001.0, 9901.0, 9991.0, 10_001.0])]
    fn percentiles_are_values_of_the_input(#[case] count: u32, #[case] expected: [f64; 4]) {
        // In descending order.
        let summary = Summary::new((1..=count).rev().map(f64::from).collect());
        let [p50, p99, p999, max] = expected;
        assert_eq!(summary, Summary { count: count as usize, p50, p99, p999, max });
    }
}
