//! Detects mistakes in PromQL queries of rules and annotations.

use hpa_prometheus::promql::{self, Expr, Node, Selector, Wrapper};

/// A query of the template of a rule, for a series. Other actions are replaced by a matcher or by a
/// name.
pub(super) fn example_query(template: &str, series: &str) -> String {
    let mut parts = template.split("<<");
    let mut query = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (action, text) = part.split_once(">>").unwrap_or((part, ""));
        query.push_str(match action.trim() {
            ".Series" => series,
            action if action.contains(".LabelMatchers") => "x=\"x\"",
            _ => "x",
        });
        query.push_str(text);
    }
    query
}

/// Whether a query computes an average or a quantile. False if it isn't PromQL.
pub(super) fn computes_average(query: &str) -> bool {
    promql::parse(query).is_ok_and(|query| is_average(&query))
}

/// Whether an expression is an average, a quantile or a sum divided by the number of series, or
/// combines only these and numbers. Any other operand may turn the average into a sum, such as the
/// number of pods.
fn is_average(expr: &Expr<'_>) -> bool {
    match &expr.node {
        Node::Wrapped(_, inner) => is_average(inner),
        Node::Aggregation(name, ..) => is_any(name, &["avg", "quantile"]),
        Node::Call(name, _) => *name == "histogram_quantile",
        Node::Binary(operator, _, operands) => {
            let [left, right] = &**operands;
            let is_average_or_number =
                |operand: &Expr<'_>| is_number(operand) || is_average(operand);
            if is_any(operator, &["and", "or", "unless"]) {
                // The right operand is only a default or a condition.
                return is_average(left);
            }
            if *operator == "/" && is_count(right) {
                return !is_number(left);
            }
            is_average_or_number(left) && is_average_or_number(right) && !is_number(expr)
        }
        Node::Number | Node::Text(_) | Node::Selector(_) => false,
    }
}

/// Whether an expression is a number of series, such as the number of pods.
fn is_count(expr: &Expr<'_>) -> bool {
    match &expr.node {
        Node::Wrapped(_, inner) => is_count(inner),
        Node::Aggregation(name, ..) => name.eq_ignore_ascii_case("count"),
        Node::Call(name, arguments) => *name == "scalar" && arguments.iter().any(is_count),
        _ => false,
    }
}

fn is_number(expr: &Expr<'_>) -> bool {
    match &expr.node {
        Node::Number => true,
        Node::Wrapped(_, inner) => is_number(inner),
        Node::Binary(_, _, operands) => operands.iter().all(is_number),
        _ => false,
    }
}

/// The first series of a query that is a counter by its name and whose value, not its rate or
/// difference, is a part of the result. `None` if the query isn't PromQL of Prometheus, whose
/// functions have known effects.
pub(super) fn plain_counter(query: &str) -> Option<String> {
    if !["_total", "_bucket", "_sum"].iter().any(|suffix| query.contains(*suffix)) {
        return None;
    }
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
            && (name.ends_with("_total")
                || name.ends_with("_bucket")
                || name.strip_suffix("_sum").is_some_and(has_count))
    };
    let mut values = Vec::new();
    add_plain_values(&query, &mut values);
    values.into_iter().find(is_counter).map(str::to_owned)
}

/// Adds the names of the series whose values are a part of the result. Leaves out those of ranges,
/// such as `rate(x[5m])`, of counted series, and of differences, such as that of two counters. Of
/// conditions, defaults and divisors, such as a capacity, only the left operand counts.
fn add_plain_values<'q>(expr: &Expr<'q>, names: &mut Vec<&'q str>) {
    match &expr.node {
        Node::Selector(selector) => names.extend(selector.metric_name()),
        Node::Number | Node::Text(_) | Node::Wrapped(Wrapper::Range | Wrapper::Subquery, _) => {}
        Node::Wrapped(_, inner) => add_plain_values(inner, names),
        Node::Call(name, _) if ["absent", "timestamp"].contains(name) => {}
        Node::Aggregation(name, ..) if is_any(name, &["count", "group", "count_values"]) => {}
        Node::Call(_, arguments) | Node::Aggregation(_, _, arguments) => {
            for argument in arguments {
                add_plain_values(argument, names);
            }
        }
        Node::Binary(operator, _, operands) => {
            let [left, right] = &**operands;
            if is_any(operator, &["+", "*", "/", "and", "or", "unless"]) {
                add_plain_values(left, names);
            }
            if is_any(operator, &["+", "*"]) {
                add_plain_values(right, names);
            }
        }
    }
}

fn is_any(name: &str, names: &[&str]) -> bool {
    names.iter().any(|candidate| candidate.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::average("avg(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)", true)]
    #[case::quantile("((quantile(0.9, lag{<< .LabelMatchers >>})))", true)]
    #[case::histogram("histogram_quantile(0.9, sum by (le) (rate(<<.Series>>[5m])))", true)]
    #[case::scaled("1000 * (avg(lag) + 1)", true)]
    #[case::ratio("avg(lag) / avg(limit)", true)]
    #[case::default("avg(lag) or vector(0)", true)]
    #[case::by_pod("sum(rate(<<.Series>>[2m])) / count(up{job=\"web\"})", true)]
    #[case::by_scalar("100 * (sum(lag) / scalar((count(pods))))", true)]
    #[case::ratio_of_sums("sum(errors) / sum(requests)", false)]
    #[case::by_pod_for_all("sum(lag) / count(pods) * count(pods)", false)]
    #[case::reciprocal("1 / count(pods)", false)]
    #[case::subtracted("sum(lag) - count(pods)", false)]
    #[case::total("avg(lag) * count(pods)", false)]
    #[case::scalar_total("avg(lag) * scalar(count(pods))", false)]
    #[case::sum("sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)", false)]
    #[case::sum_of_averages("sum(avg(lag) by (queue))", false)]
    #[case::name("avg_lag", false)]
    #[case::numbers("1 + 1", false)]
    #[case::no_query("avg(", false)]
    fn query_of_an_average_is_detected(#[case] template: &str, #[case] expected: bool) {
        assert_eq!(computes_average(&example_query(template, "x")), expected);
    }

    #[rstest]
    #[case::value("requests_total", Some("requests_total"))]
    #[case::by_label("sum by (pod) (requests_total{app=\"web\"}) * 2", Some("requests_total"))]
    #[case::ratio("errors_total / requests_total", Some("errors_total"))]
    #[case::default("sum(requests_total) or vector(0)", Some("requests_total"))]
    #[case::mixed("rate(a_total[5m]) + b_total", Some("b_total"))]
    #[case::histogram("histogram_quantile(0.9, sum by (le) (t_bucket))", Some("t_bucket"))]
    #[case::since_the_start("sum(t_sum) / sum(t_count)", Some("t_sum"))]
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
