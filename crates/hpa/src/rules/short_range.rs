//! Explains a query without a result by a range that is too short for two samples.

use hpa_metrics::{MetricError, NotFound};
use hpa_prometheus::promql::{self, Node, Wrapper};

use super::servers::PrometheusServer;

/// The range and the step of the subqueries that count samples.
const SUBQUERY: &str = "[5m:1s]";
/// At most this many ranges of a query are checked, with up to two queries each.
const MAX_RANGES: usize = 4;
/// The number of samples in a suggested range. `rate` needs two, and some may be missing.
const SUGGESTED_SAMPLES: f64 = 4.0;

impl PrometheusServer<'_> {
    /// Says that a range of a query is shorter than the time between two samples, if it never had
    /// two of them in the last minutes. Checks the first [`MAX_RANGES`] ranges. `None` also if no
    /// samples could be read.
    pub(super) async fn explain_short_range(&self, query: &str) -> Option<String> {
        for (selector, range) in ranges(query) {
            let largest_count =
                format!("max(max_over_time(count_over_time({selector}[{range}]){SUBQUERY}))");
            let times = format!("timestamp({selector}){SUBQUERY}");
            let interval = format!(
                "min((max_over_time({times}) - min_over_time({times})) / changes({times}))"
            );
            if let Some(..=1.0) = self.first_value(&largest_count).await.ok()?
                && let Some(interval) = self.first_value(&interval).await.ok()?
                && interval.is_finite()
            {
                return Some(describe(range, interval));
            }
        }
        None
    }
}

/// The query of a read that failed because it has no result.
pub(super) fn query_without_result(error: &MetricError) -> Option<&str> {
    match error {
        MetricError::NoValueForObject(NotFound::NoResult { query }) => Some(query),
        _ => None,
    }
}

/// The selectors of a query that have a range, each with the range, such as `5m`. Returns each pair
/// once, and only the first [`MAX_RANGES`].
fn ranges(query: &str) -> Vec<(&str, &str)> {
    let mut ranges = Vec::new();
    let Ok(expr) = promql::parse(query) else { return ranges };
    expr.visit(&mut |expr| {
        if let Node::Wrapped(Wrapper::Range, selector) = &expr.node
            && let Some(text) = query.get(selector.at..)
            && let Some((selector, rest)) = text.split_at_checked(expr.at - selector.at)
            && let Some((range, _)) = rest.trim_start_matches('[').split_once(']')
        {
            let selected = (selector.trim_end(), range);
            if ranges.len() < MAX_RANGES && !ranges.contains(&selected) {
                ranges.push(selected);
            }
        }
    });
    ranges
}

/// The reason, with advice. `interval` is the mean time between two samples in seconds.
fn describe(range: &str, interval: f64) -> String {
    let suggested = match SUGGESTED_SAMPLES * interval {
        seconds @ 60.0.. => format!("{:.0}m", (seconds / 60.0).ceil()),
        seconds => format!("{:.0}s", seconds.ceil()),
    };
    format!(
        "the range [{range}] is shorter than the time between two samples ({interval:.0}s on \
         average): write at least [{suggested}]"
    )
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn ranges_of_selectors_are_found() {
        let query = "sum(rate(m{a=\"]\"}[5s])) / rate(n [1m] offset 5m) + \
                     max_over_time(x[5m:1m])";
        assert_eq!(ranges(query), [("m{a=\"]\"}", "5s"), ("n", "1m")]);
        assert_eq!(ranges("rate(m[5s"), []);
    }

    #[test]
    fn ranges_are_limited_and_have_no_duplicates() {
        let equal = "rate(m[5s]) / (rate(m [5s]) + rate(m[1m]))";
        assert_eq!(ranges(equal), [("m", "5s"), ("m", "1m")]);
        let many: Vec<_> = (1..10).map(|seconds| format!("rate(m[{seconds}s])")).collect();
        assert_eq!(ranges(&many.join(" + ")).len(), MAX_RANGES);
    }

    #[rstest]
    #[case(15.0, "(15s on average): write at least [1m]")]
    #[case(10.2, "(10s on average): write at least [41s]")]
    #[case(61.0, "(61s on average): write at least [5m]")]
    fn suggested_range_has_four_samples(#[case] interval: f64, #[case] end: &str) {
        let expected = format!("the range [5s] is shorter than the time between two samples {end}");
        assert_eq!(describe("5s", interval), expected);
    }
}
