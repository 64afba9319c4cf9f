//! Checks of the queries of metrics, in rules or in annotations.

use hpa_calc::{HorizontalPodAutoscaler, api::MetricSpec};
use hpa_collectors::{Environment, prometheus_query};

use super::{
    metrics::{average_value_field, contains_metric},
    rule::Subject,
};
use crate::{
    collectors::environment_of_unknown_flags,
    lint::{finding::Report, queries::QueryMistake},
};

/// Reports metrics with a mistake in their query: that of an annotation, or else that of a rule.
pub(super) fn report_mistakes(
    subject: &Subject<'_>,
    report: &mut Report<'_>,
    mistake: QueryMistake,
) {
    let environment = environment_of_unknown_flags(subject.hpa);
    for (index, metric) in subject.metrics() {
        let message = match prometheus_query(subject.hpa, metric, &environment) {
            _ if !matters(mistake, metric) => None,
            Some(query) => about_annotation(mistake, &query),
            None => has_mistake_in_rule(subject, metric, mistake)
                .then(|| mistake.describe("rule", None)),
        };
        let Some(message) = message else { continue };
        let field = match mistake {
            QueryMistake::Average => average_value_field(index, metric),
            QueryMistake::PlainCounter | QueryMistake::QuantileWithoutLe => {
                format!("spec.metrics[{index}]")
            }
        };
        report.add(field, message);
    }
}

/// Describes the first mistake in the query that a metric has in an annotation. `None` also without
/// such a query.
pub(crate) fn mistake_of_annotation(
    hpa: &HorizontalPodAutoscaler,
    metric: &MetricSpec,
    environment: &Environment,
) -> Option<String> {
    let query = prometheus_query(hpa, metric, environment)?;
    let mut mistakes = QueryMistake::ALL.into_iter().filter(|one| matters(*one, metric));
    mistakes.find_map(|mistake| about_annotation(mistake, &query))
}

fn about_annotation(mistake: QueryMistake, query: &str) -> Option<String> {
    let part = mistake.find(query)?;
    Some(mistake.describe("annotation", Some(&part)))
}

/// Whether a mistake changes what the controller does. An average does if the controller divides
/// the value of the metric by the replicas.
fn matters(mistake: QueryMistake, metric: &MetricSpec) -> bool {
    let is_divided = (metric.object.is_some() || metric.external.is_some())
        && metric.target().is_some_and(|target| target.average_value.is_some());
    mistake != QueryMistake::Average || is_divided
}

/// Whether the query of the rule that has the metric has the mistake.
fn has_mistake_in_rule(subject: &Subject<'_>, metric: &MetricSpec, mistake: QueryMistake) -> bool {
    let served = subject.workspace.served.as_ref();
    served.is_some_and(|served| {
        let names = served.query_mistakes.get(&mistake);
        names.is_some_and(|names| contains_metric(served, names, metric))
    })
}
