//! Detects mistakes in PromQL queries of rules and annotations.

use hpa_prometheus::promql::{self, Expr, Node, is_one_of};

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
        Node::Aggregation(name, ..) => is_one_of(name, &["avg", "quantile"]),
        Node::Call(name, _) => *name == "histogram_quantile",
        Node::Binary(operator, _, operands) => {
            let [left, right] = &**operands;
            let is_average_or_number =
                |operand: &Expr<'_>| is_number(operand) || is_average(operand);
            if is_one_of(operator, &["and", "or", "unless"]) {
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

#[cfg(test)]
mod tests {
    use hpa_prometheus::rules::query::example_query;
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
}
