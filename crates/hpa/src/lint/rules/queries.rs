//! Checks of the queries of metrics, in rules or in annotations.

use std::collections::BTreeSet;

use hpa_calc::{HorizontalPodAutoscaler, api::MetricSpec, validation::MAX_METRICS};
use hpa_collectors::{Environment, prometheus_query};
use hpa_prometheus::rules::{counter::plain_counter, quantile::aggregation_without_le};

use super::{
    metrics::{average_value_field, contains_metric},
    rule::Subject,
};
use crate::{
    collectors::environment_of_unknown_flags,
    lint::{finding::Report, queries::computes_average, workspace::ServedMetrics},
};

// The places of queries.
const ANNOTATION: &str = "annotation";
const RULE: &str = "rule";

/// Reports `AverageValue` targets of metrics whose query computes an average: the controller
/// divides the value by the replicas again.
pub(super) fn averaged_twice(subject: &Subject<'_>, report: &mut Report<'_>) {
    let environment = environment_of_unknown_flags(subject.hpa);
    for (index, metric) in subject.hpa.spec.metrics.iter().take(MAX_METRICS).enumerate() {
        if !is_divided_by_replicas(metric) {
            continue;
        }
        let place = match prometheus_query(subject.hpa, metric, &environment) {
            Some(query) if computes_average(&query) => ANNOTATION,
            None if is_of_rule(subject, metric, |served| &served.averages) => RULE,
            _ => continue,
        };
        report.add(average_value_field(index, metric), about_average(place));
    }
}

/// Reports metrics whose query reads a counter without a rate.
pub(super) fn counter_without_rate(subject: &Subject<'_>, report: &mut Report<'_>) {
    report_expressions(
        subject,
        report,
        |query| plain_counter(query).map(|name| about_counter(ANNOTATION, &name)),
        |served| &served.plain_counters,
        &about_counter(RULE, "a series"),
    );
}

/// Reports metrics whose query computes a quantile of buckets without their label `le`.
pub(super) fn quantile_without_le(subject: &Subject<'_>, report: &mut Report<'_>) {
    report_expressions(
        subject,
        report,
        |query| aggregation_without_le(query).map(|name| about_quantile(ANNOTATION, &name)),
        |served| &served.quantiles_without_le,
        &about_quantile(RULE, "an aggregation"),
    );
}

/// Reports metrics whose query in an annotation has a mistake, and those that are in `names`, whose
/// rules have it.
fn report_expressions(
    subject: &Subject<'_>,
    report: &mut Report<'_>,
    find_mistake: fn(&str) -> Option<String>,
    names: fn(&ServedMetrics) -> &BTreeSet<String>,
    message_for_rule: &str,
) {
    let environment = environment_of_unknown_flags(subject.hpa);
    for (index, metric) in subject.hpa.spec.metrics.iter().take(MAX_METRICS).enumerate() {
        let message = match prometheus_query(subject.hpa, metric, &environment) {
            Some(query) => find_mistake(&query),
            None => is_of_rule(subject, metric, names).then(|| message_for_rule.to_owned()),
        };
        if let Some(message) = message {
            report.add(format!("spec.metrics[{index}]"), message);
        }
    }
}

/// The mistake in the query that a metric has in an annotation: it reads a counter without a rate,
/// computes a quantile without `le`, or computes an average that the controller divides by the
/// replicas.
pub(crate) fn mistake_of_annotation(
    hpa: &HorizontalPodAutoscaler,
    metric: &MetricSpec,
    environment: &Environment,
) -> Option<String> {
    let query = prometheus_query(hpa, metric, environment)?;
    let counter = plain_counter(&query).map(|name| about_counter(ANNOTATION, &name));
    let quantile = || aggregation_without_le(&query).map(|name| about_quantile(ANNOTATION, &name));
    counter.or_else(quantile).or_else(|| {
        let is_average = is_divided_by_replicas(metric) && computes_average(&query);
        is_average.then(|| about_average(ANNOTATION))
    })
}

fn about_average(place: &str) -> String {
    format!(
        "the query of the {place} is an average already, and the controller divides its value by \
         the replicas: use a sum in the {place}, or a target of type Value"
    )
}

fn about_counter(place: &str, series: &str) -> String {
    format!(
        "the query of the {place} reads {series} without rate(): by its name, it is a counter, \
         whose value only grows until its process restarts. Use rate() or increase()"
    )
}

fn about_quantile(place: &str, aggregation: &str) -> String {
    format!(
        "the query of the {place} has no result: {aggregation} drops the label `le` of the \
         buckets, which histogram_quantile needs. Group by `le` too, as in by (le, …)"
    )
}

/// Whether the controller divides the value of a metric by the replicas.
fn is_divided_by_replicas(metric: &MetricSpec) -> bool {
    let is_value = metric.object.is_some() || metric.external.is_some();
    is_value && metric.target().is_some_and(|target| target.average_value.is_some())
}

/// Whether one of these metrics of rules is the metric.
fn is_of_rule(
    subject: &Subject<'_>,
    metric: &MetricSpec,
    names: fn(&ServedMetrics) -> &BTreeSet<String>,
) -> bool {
    let served = subject.workspace.served.as_ref();
    served.is_some_and(|served| contains_metric(served, names(served), metric))
}
