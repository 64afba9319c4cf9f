//! Finds quantiles of histograms whose buckets an aggregation has merged.

use crate::promql::{
    self, Expr, Grouping, Node, SET_OPERATORS, Selector, Type, is_by_series, is_one_of,
};

/// The labels of buckets in Prometheus and in `VictoriaMetrics`.
const BUCKET_LABELS: [&str; 2] = ["le", "vmrange"];

/// The name of the first aggregation that drops the label `le` of buckets before
/// `histogram_quantile` reads them. The function then has no result. `None` also if the query isn't
/// PromQL, and for native histograms, which have no buckets: only the names of buckets have
/// `_bucket`.
pub fn aggregation_without_le(query: &str) -> Option<String> {
    let query = promql::parse(query).ok()?;
    let mut found = None;
    query.visit(&mut |expr| {
        if let Node::Call("histogram_quantile", arguments) = &expr.node
            && found.is_none()
        {
            found = arguments.get(1).and_then(merging_aggregation);
        }
    });
    found.map(str::to_owned)
}

/// The aggregation that drops `le` from all series of the result. `None` if some may have it.
fn merging_aggregation<'q>(expr: &Expr<'q>) -> Option<&'q str> {
    match &expr.node {
        Node::Wrapped(_, inner) => merging_aggregation(inner),
        Node::Call(name, arguments) if is_by_series(name) => {
            arguments.iter().find(|one| is_vector(one)).and_then(merging_aggregation)
        }
        Node::Aggregation(name, grouping, arguments) => {
            let is_selection = is_one_of(name, &["topk", "bottomk", "limitk", "limit_ratio"]);
            let operand = arguments.last()?;
            if is_one_of(name, &["count_values"]) {
                // It adds a label, which may be `le`.
                None
            } else if is_selection || keeps_buckets(grouping.as_ref()) {
                merging_aggregation(operand)
            } else {
                reads_buckets(operand).then_some(*name)
            }
        }
        // The right operand of a set operator is only a condition or a default. A scalar operand
        // changes all series alike.
        Node::Binary(operator, _, operands) => {
            let [left, right] = &**operands;
            let is_set = is_one_of(operator, &SET_OPERATORS);
            match (is_vector(left), is_vector(right)) {
                (true, true) if !is_set => None,
                (true, _) => merging_aggregation(left),
                (false, _) => merging_aggregation(right),
            }
        }
        Node::Number | Node::Text(_) | Node::Selector(_) | Node::Call(..) => None,
    }
}

fn is_vector(expr: &Expr<'_>) -> bool {
    matches!(expr.result, Type::InstantVector | Type::RangeVector)
}

/// Whether the groups of an aggregation have the label of the buckets.
fn keeps_buckets(grouping: Option<&Grouping<'_>>) -> bool {
    grouping.is_some_and(|Grouping { is_by, labels }| {
        if *is_by {
            labels.iter().any(|label| BUCKET_LABELS.contains(label))
        } else {
            !labels.contains(&"le")
        }
    })
}

/// Whether an expression reads series with the name of buckets.
fn reads_buckets(expr: &Expr<'_>) -> bool {
    let selectors = expr.selectors();
    let mut names = selectors.iter().filter_map(Selector::metric_name);
    names.any(|name| name.contains("_bucket"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::rules::query::example_query;

    #[rstest]
    #[case::by("sum(rate(<<.Series>>{<<.LabelMatchers>>}[5m])) by (<<.GroupBy>>)", Some("sum"))]
    #[case::without("avg without (le) (rate(<<.Series>>[5m]))", Some("avg"))]
    #[case::everything("sum(rate(t_bucket[5m]))", Some("sum"))]
    #[case::inner("sum by (le) (sum by (pod) (rate(t_bucket[5m])))", Some("sum"))]
    #[case::selection("topk(5, SUM(rate(t_bucket[5m])))", Some("SUM"))]
    #[case::subquery("avg_over_time((max(t_bucket) * 2)[5m:1m])", Some("max"))]
    #[case::default("sum(rate(t_bucket[5m])) or vector(0)", Some("sum"))]
    #[case::recorded("sum(job:t_bucket:rate5m)", Some("sum"))]
    #[case::with_le("sum(rate(<<.Series>>[5m])) by (<<.GroupBy>>, le)", None)]
    #[case::quoted("sum by (\"le\") (rate(t_bucket[5m]))", None)]
    #[case::without_others("sum without (pod) (rate(t_bucket[5m]))", None)]
    #[case::of_victoria_metrics("sum by (vmrange) (rate(t_bucket[5m]))", None)]
    #[case::not_aggregated("rate(t_bucket[5m])", None)]
    #[case::native_histogram("sum by (pod) (rate(t[5m]))", None)]
    #[case::joined("sum by (pod) (t_bucket) * on (pod) group_right () t_bucket", None)]
    #[case::added("label_replace(sum(t_bucket), \"le\", \"1\", \"\", \"\")", None)]
    #[case::values("count_values(\"le\", t_bucket)", None)]
    fn aggregation_that_drops_le_is_found(#[case] operand: &str, #[case] expected: Option<&str>) {
        let query = format!("1000 * histogram_quantile(0.9, {operand})");
        let query = example_query(&query, "t_bucket");
        assert!(promql::parse(&query).is_ok(), "{query}");
        assert_eq!(aggregation_without_le(&query).as_deref(), expected);
    }

    #[rstest]
    #[case::no_quantile("sum(rate(t_bucket[5m]))")]
    #[case::no_query("histogram_quantile(0.9, sum(t_bucket)")]
    fn query_without_a_quantile_has_no_mistake(#[case] query: &str) {
        assert_eq!(aggregation_without_le(query), None);
    }
}
