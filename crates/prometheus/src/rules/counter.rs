//! Finds counters that a query reads without their rate.

use crate::promql::{self, COMPARISONS, Expr, Node, Selector, Type, Wrapper, is_one_of};

/// Endings of the names of counters. The last four are of histograms and summaries whose names end
/// with a unit.
const COUNTER_ENDINGS: [&str; 6] =
    ["_total", "_bucket", "_seconds_sum", "_seconds_count", "_bytes_sum", "_bytes_count"];

/// The first series of a query that is a counter by its name and whose value, not its rate or
/// difference, is a part of the result. `None` also if the query isn't PromQL, or calls functions
/// that Prometheus doesn't have: their effects are unknown.
pub fn plain_counter(query: &str) -> Option<String> {
    let query = promql::parse(query).ok().filter(|query| query.unknown_functions().is_empty())?;
    let selectors = query.selectors();
    let is_counter = |name: &&str| {
        // Many gauges have names that end with `_sum` or `_count`, but few have both.
        let has_count = |base: &str| {
            let names = selectors.iter().filter_map(Selector::metric_name);
            names.filter_map(|name| name.strip_suffix("_count")).any(|other| other == base)
        };
        // The name of a recorded series has a colon. It may be that of a rate.
        !name.contains(':')
            && (COUNTER_ENDINGS.iter().any(|ending| name.ends_with(ending))
                || name.strip_suffix("_sum").is_some_and(has_count))
    };
    let mut values = Vec::new();
    add_plain_values(&query, &mut values);
    values.into_iter().find(is_counter).map(str::to_owned)
}

/// Adds the names of the series whose values are a part of the result. Leaves out:
///
/// - ranges, such as `rate(x[5m])`, and series that are only counted,
/// - differences, such as the difference of two counters,
/// - the right operands of conditions, defaults and divisions, such as a capacity.
///
/// In a comparison with a scalar, such as `x > 5` or `5 < x`, the other operand is the result.
fn add_plain_values<'q>(expr: &Expr<'q>, names: &mut Vec<&'q str>) {
    match &expr.node {
        Node::Selector(selector) => names.extend(selector.metric_name()),
        Node::Number | Node::Text(_) | Node::Wrapped(Wrapper::Range | Wrapper::Subquery, _) => {}
        Node::Wrapped(_, inner) => add_plain_values(inner, names),
        Node::Call(name, _) if ["absent", "timestamp"].contains(name) => {}
        Node::Aggregation(name, ..) if is_one_of(name, &["count", "group", "count_values"]) => {}
        Node::Call(_, arguments) | Node::Aggregation(_, _, arguments) => {
            for argument in arguments {
                add_plain_values(argument, names);
            }
        }
        Node::Binary(operator, matching, operands) => {
            let [left, right] = &**operands;
            let is_filter = COMPARISONS.contains(operator) && !matching.has_bool;
            let filters_right = is_filter && left.result == Type::Scalar;
            if is_filter && !filters_right
                || is_one_of(operator, &["+", "*", "/", "and", "or", "unless"])
            {
                add_plain_values(left, names);
            }
            if filters_right || is_one_of(operator, &["+", "*"]) {
                add_plain_values(right, names);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::rules::query::example_query;

    #[rstest]
    #[case::value("requests_total", Some("requests_total"))]
    #[case::by_label("sum by (pod) (requests_total{app=\"web\"}) * 2", Some("requests_total"))]
    #[case::ratio("errors_total / requests_total", Some("errors_total"))]
    #[case::default("sum(requests_total) or vector(0)", Some("requests_total"))]
    #[case::mixed("rate(a_total[5m]) + b_total", Some("b_total"))]
    #[case::histogram("histogram_quantile(0.9, sum by (le) (t_bucket))", Some("t_bucket"))]
    #[case::since_the_start("sum(t_sum) / sum(t_count)", Some("t_sum"))]
    #[case::requests("sum(latency_seconds_count)", Some("latency_seconds_count"))]
    #[case::comparison("requests_total > 5", Some("requests_total"))]
    #[case::comparison_with_scalar_first("5 < requests_total", Some("requests_total"))]
    #[case::threshold("lag > limit_total", None)]
    #[case::comparison_as_number("requests_total > bool 5", None)]
    #[case::rate("sum(rate(requests_total[5m]))", None)]
    #[case::increase("increase(requests_total[5m]) / 5", None)]
    #[case::subquery("max_over_time(sum(requests_total)[5m:1m])", None)]
    #[case::quantile_of_rates("histogram_quantile(0.9, sum by (le) (rate(t_bucket[5m])))", None)]
    #[case::unfinished("sum(enqueued_total) - sum(finished_total)", None)]
    #[case::number_of_series("count(requests_total)", None)]
    #[case::condition("lag and requests_total > 0", None)]
    #[case::capacity("busy_workers / workers_total", None)]
    #[case::recorded("job:requests_total", None)]
    #[case::gauge_of_a_sum("sum(lag_sum)", None)]
    #[case::gauge_of_a_number("jobs_waiting_count", None)]
    #[case::function_of_another_server("rollup_rate(requests_total)", None)]
    #[case::no_query("sum(requests_total", None)]
    fn counter_without_a_rate_is_detected(#[case] query: &str, #[case] expected: Option<&str>) {
        assert_eq!(plain_counter(query).as_deref(), expected);
    }

    #[test]
    fn example_query_reads_the_series() {
        let template = "sum(<<.Series>>{<<.LabelMatchers>>}) by (<< .GroupBy >>)";
        let query = example_query(template, "requests_total");
        assert_eq!(query, "sum(requests_total{x=\"x\"}) by (x)");
        assert_eq!(plain_counter(&query).as_deref(), Some("requests_total"));
    }
}
