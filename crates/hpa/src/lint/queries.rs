//! Detects mistakes in PromQL queries of rules and annotations.

use hpa_prometheus::{
    promql::{self, Expr, Node, SET_OPERATORS, is_one_of},
    rules::{counter::plain_counter, quantile::aggregation_without_le},
};

/// A likely mistake in a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum QueryMistake {
    /// The query reads a counter without a rate.
    PlainCounter,
    /// The query computes a quantile of buckets without their label `le`.
    QuantileWithoutLe,
    /// The query computes an average or a quantile.
    Average,
}

impl QueryMistake {
    /// All mistakes. The first one of a query is the most serious one.
    pub(super) const ALL: [Self; 3] = [Self::PlainCounter, Self::QuantileWithoutLe, Self::Average];

    /// The part of a query that has the mistake: a series, an aggregation, or nothing for an
    /// average. `None` without the mistake, and for a query that isn't PromQL.
    pub(super) fn find(self, query: &str) -> Option<String> {
        match self {
            Self::PlainCounter => plain_counter(query),
            Self::QuantileWithoutLe => aggregation_without_le(query),
            Self::Average => computes_average(query).then(String::new),
        }
    }

    /// Describes the mistake in the query of `place`. `part` is a result of [`Self::find`], if it
    /// is known.
    pub(super) fn describe(self, place: &str, part: Option<&str>) -> String {
        match self {
            Self::PlainCounter => format!(
                "the query of the {place} reads {} without rate(): by its name, it is a counter, \
                 whose value only grows until its process restarts. Use rate() or increase()",
                part.unwrap_or("a series")
            ),
            Self::QuantileWithoutLe => format!(
                "the query of the {place} has no result: {} drops the label `le` of the buckets, \
                 which histogram_quantile needs. Group by `le` too, as in by (le, …)",
                part.unwrap_or("an aggregation")
            ),
            Self::Average => format!(
                "the query of the {place} is an average or a quantile, and the controller divides \
                 its value by the replicas: use a sum in the {place}, or a target of type Value"
            ),
        }
    }
}

/// Whether a query computes an average or a quantile. False if it isn't PromQL.
fn computes_average(query: &str) -> bool {
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
            if is_one_of(operator, &SET_OPERATORS) {
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
