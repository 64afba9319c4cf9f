//! Reads the metrics that the rules of `--metrics-config` serve.

use std::{collections::BTreeSet, sync::Arc};

use hpa_metrics::{Catalog, ResourceMapper, objects::NoObjects};
use hpa_prometheus::{
    promql::{self, Expr, Node},
    source::{PrometheusSource, RelistError},
};

use super::workspace::ServedMetrics;
use crate::{args::RulesFileArguments, rules_source};

pub(super) const RESOURCE: &str = "metrics.k8s.io";
pub(super) const CUSTOM: &str = "custom.metrics.k8s.io";
pub(super) const EXTERNAL: &str = "external.metrics.k8s.io";
pub(super) const METRICS_APIS: [&str; 3] = [RESOURCE, CUSTOM, EXTERNAL];
/// The resources that `metrics.k8s.io` serves, whether from metrics-server or from `resourceRules`.
pub(super) const MEASURED_RESOURCES: [&str; 2] = ["cpu", "memory"];

/// Lists the metrics of `--metrics-config`. `None` without that flag. If Prometheus can't list the
/// series, sets [`ServedMetrics::discovery_error`].
pub(super) async fn read_rules(
    arguments: &RulesFileArguments,
    mapper: Arc<dyn ResourceMapper>,
) -> anyhow::Result<Option<ServedMetrics>> {
    // Metrics are only listed, not read, so no objects are needed.
    let objects = Arc::new(NoObjects);
    let Some(source) = rules_source::create_from_flags(arguments, mapper, objects).await? else {
        return Ok(None);
    };
    let discovery_error = match source.relist().await {
        Err(error @ RelistError::Mapper(_)) => return Err(error.into()),
        outcome => outcome.err().map(|error| format!("{:#}", anyhow::Error::from(error))),
    };
    let groups = source.groups();
    let served =
        [(groups.resource, RESOURCE), (groups.custom, CUSTOM), (groups.external, EXTERNAL)];
    let custom = source.custom_metrics().into_iter();
    let external = source.external_metrics().into_iter();
    Ok(Some(ServedMetrics {
        source: "the rules file",
        groups: served
            .into_iter()
            .filter(|(is_served, _)| *is_served)
            .map(|(_, group)| group.to_owned())
            .collect(),
        custom: groups
            .custom
            .then(|| custom.map(|one| format!("{}/{}", one.resource, one.metric)).collect()),
        external: groups.external.then(|| external.map(|one| one.metric).collect()),
        averages: averages(&source),
        resources: source.resources(),
        discovery_error,
        ..ServedMetrics::default()
    }))
}

/// The metrics whose rule computes an average, as [`ServedMetrics::averages`] names them.
fn averages(source: &PrometheusSource) -> BTreeSet<String> {
    let rules = source.inspect_custom().into_iter().chain(source.inspect_external());
    let metrics = rules
        .filter(|rule| computes_average(&rule.definition.metrics_query))
        .flat_map(|rule| rule.metrics)
        .filter(|metric| metric.shadowed_by.is_none());
    metrics
        .map(|metric| match metric.resource {
            Some(resource) => format!("{resource}/{}", metric.metric),
            None => metric.metric,
        })
        .collect()
}

/// Whether a query or a `metricsQuery` computes an average or a quantile. False if it isn't PromQL.
pub(super) fn computes_average(template: &str) -> bool {
    promql::parse(&example_query(template)).is_ok_and(|query| is_average(&query))
}

/// A query of the template: each action is replaced by a matcher or a name.
fn example_query(template: &str) -> String {
    let mut parts = template.split("<<");
    let mut query = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (action, text) = part.split_once(">>").unwrap_or((part, ""));
        query.push_str(if action.contains(".LabelMatchers") { "x=\"x\"" } else { "x" });
        query.push_str(text);
    }
    query
}

/// Whether an expression is an average, a quantile or a sum divided by the number of series, or
/// combines only these and numbers. Any other operand may turn the average into a sum, such as the
/// number of pods.
fn is_average(expr: &Expr<'_>) -> bool {
    let is_any = |name: &str, names: &[&str]| {
        names.iter().any(|candidate| candidate.eq_ignore_ascii_case(name))
    };
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

impl ServedMetrics {
    /// Assumes that the cluster, which isn't read, serves all metrics APIs. The metrics of an API
    /// that the rules don't serve are unknown.
    pub(super) fn with_unknown_cluster(self) -> Self {
        Self { groups: METRICS_APIS.map(str::to_owned).into(), ..self }
    }

    /// Adds the metrics of rules to those of the cluster's APIs.
    pub(super) fn add(&mut self, rules: Self) {
        // An API with unknown metrics may serve any, so its metrics stay unknown.
        let merge = |names: &mut Option<BTreeSet<String>>, is_served: bool, added| match names {
            Some(names) => names.extend(Option::into_iter(added).flatten()),
            None if is_served => {}
            None => *names = added,
        };
        let serves = |group: &str| self.groups.contains(group);
        let (custom, external) = (serves(CUSTOM), serves(EXTERNAL));
        merge(&mut self.custom, custom, rules.custom);
        merge(&mut self.external, external, rules.external);
        self.groups.extend(rules.groups);
        self.averages.extend(rules.averages);
        self.discovery_error = rules.discovery_error;
        self.source = "the cluster or the rules file";
    }
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
        assert_eq!(computes_average(template), expected);
    }
}
