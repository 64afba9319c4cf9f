//! Checks of the metrics and their targets.

use std::collections::BTreeSet;

use hpa_calc::{
    api::{ConditionType, MetricSourceType, MetricSpec},
    explain::status_value,
};
use hpa_collectors::{collector_of, schedules::source::ScheduleKey};

use super::{
    Subject,
    annotations::environment,
    pods::{Utilization, utilizations},
};
use crate::lint::{
    finding::Report,
    served::{CUSTOM, EXTERNAL, RESOURCE},
    workspace::ServedMetrics,
};

/// A memory target below this is implausible, in bytes.
const MIN_PLAUSIBLE_BYTES: i64 = 1024;
/// A CPU target of this or more is implausible, in cores.
const MIN_IMPLAUSIBLE_CORES: i64 = 256;

pub(super) fn target_above_request(subject: &Subject<'_>, report: &mut Report<'_>) {
    for Utilization { field, resource, percent, .. } in utilizations(subject) {
        if percent > 100 {
            let message = format!(
                "the target is {percent}% of the requested {resource}: pods must use more than \
                 they are guaranteed before the autoscaler adds any"
            );
            report.add(format!("{field}.target.averageUtilization"), message);
        }
    }
}

/// Reports implausibly small memory, such as thousandths of a byte, and CPU in cores where
/// millicores were probably meant.
pub(super) fn implausible_quantity(subject: &Subject<'_>, report: &mut Report<'_>) {
    for (index, metric) in subject.hpa.spec.metrics.iter().enumerate() {
        let is_resource = metric.resource.is_some() || metric.container_resource.is_some();
        let target = metric.target().filter(|_| is_resource);
        let Some(value) = target.and_then(|target| target.average_value.as_ref()) else { continue };
        let message = match metric.metric_name() {
            "memory" if value.value() < MIN_PLAUSIBLE_BYTES => {
                let suggestion = suffix_suggestion(value.to_string().trim_end_matches('m'), "Mi");
                format!("{value} of memory is {} bytes{suggestion}", value.as_f64())
            }
            "cpu" if value.value() >= MIN_IMPLAUSIBLE_CORES => {
                let suggestion = suffix_suggestion(&value.to_string(), "m");
                format!("{value} means {value} cores for each pod{suggestion}")
            }
            _ => continue,
        };
        report.add(average_value_field(index, metric), message);
    }
}

fn average_value_field(index: usize, metric: &MetricSpec) -> String {
    format!("spec.metrics[{index}].{}.target.averageValue", metric.source_type.member())
}

/// The question "did you mean" the number with a suffix. Empty if the number has a suffix already.
fn suffix_suggestion(number: &str, suffix: &str) -> String {
    let is_plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if is_plain { format!(": did you mean {number}{suffix}?") } else { String::new() }
}

pub(super) fn duplicate_metric(subject: &Subject<'_>, report: &mut Report<'_>) {
    let sources: Vec<MetricSpec> = subject.hpa.spec.metrics.iter().map(without_target).collect();
    for (index, source) in sources.iter().enumerate() {
        let earlier = sources.iter().take(index).position(|other| other == source);
        if let Some(first) = earlier {
            let message = format!(
                "spec.metrics[{first}] has the same source: the larger proposal of both wins, so \
                 one of the targets never acts"
            );
            report.add(format!("spec.metrics[{index}]"), message);
        }
    }
}

/// The metric with a default target, so that only sources are compared.
fn without_target(metric: &MetricSpec) -> MetricSpec {
    let mut metric = metric.clone();
    let targets = [
        metric.resource.as_mut().map(|source| &mut source.target),
        metric.container_resource.as_mut().map(|source| &mut source.target),
        metric.pods.as_mut().map(|source| &mut source.target),
        metric.object.as_mut().map(|source| &mut source.target),
        metric.external.as_mut().map(|source| &mut source.target),
    ];
    targets.into_iter().flatten().for_each(|target| *target = <_>::default());
    metric
}

pub(super) fn unserved_metric(subject: &Subject<'_>, report: &mut Report<'_>) {
    let Some(served) = &subject.workspace.served else { return };
    let status = &subject.hpa.status;
    for (index, metric) in subject.hpa.spec.metrics.iter().enumerate() {
        // A value in the status means that the controller can read the metric from some source.
        let has_value = status.is_true(&ConditionType::ScalingActive)
            && status
                .current_metrics
                .get(index)
                .is_some_and(|one| status_value(metric, one).is_some());
        if has_value || is_read_in_process(subject, metric) {
            continue;
        }
        if let Some(message) = unserved_reason(metric, served) {
            let hint = source_hint(subject, metric);
            report.add(format!("spec.metrics[{index}]"), format!("{message}{hint}"));
        }
    }
}

/// Whether the controller, with the flags given to lint, reads a metric by a collector or from a
/// schedule.
fn is_read_in_process(subject: &Subject<'_>, metric: &MetricSpec) -> bool {
    let sources = &subject.workspace.in_process_sources;
    let is_collected = sources.collectors.as_ref().is_some_and(|settings| {
        let collector = collector_of(subject.hpa, metric, &settings.environment);
        collector.is_some_and(|name| settings.collectors.contains(name))
    });
    is_collected || sources.schedules && schedule_key(subject, metric).is_some()
}

/// The schedule whose value the metric is, if the controller reads schedules.
fn schedule_key(subject: &Subject<'_>, metric: &MetricSpec) -> Option<ScheduleKey> {
    let object = &metric.object.as_ref()?.described_object;
    ScheduleKey::for_object(&subject.hpa.metadata.namespace, object)
}

/// Names the flag with which the controller may read the metric. Empty if lint has the flag already
/// or if no flag helps.
fn source_hint(subject: &Subject<'_>, metric: &MetricSpec) -> &'static str {
    let sources = &subject.workspace.in_process_sources;
    let has_collector = || collector_of(subject.hpa, metric, &environment(subject.hpa)).is_some();
    if !sources.schedules && schedule_key(subject, metric).is_some() {
        "; if the controller runs with --scaling-schedule, add it here"
    } else if sources.collectors.is_none() && has_collector() {
        "; if the controller runs with --collectors, add it here"
    } else {
        ""
    }
}

/// The reason why no API serves a metric. `None` if an API serves it, or if this is unknown.
fn unserved_reason(metric: &MetricSpec, served: &ServedMetrics) -> Option<String> {
    let (api, listed) = match metric.source_type {
        MetricSourceType::Resource | MetricSourceType::ContainerResource => (RESOURCE, None),
        MetricSourceType::Pods | MetricSourceType::Object => (CUSTOM, served.custom.as_ref()),
        MetricSourceType::External => (EXTERNAL, served.external.as_ref()),
        _ => return None,
    };
    if served.discovery_error.is_some() {
        return None;
    }
    let served_by = served.source;
    if !served.groups.contains(api) {
        return Some(format!("{api} is not served by {served_by}"));
    }
    let is_unlisted = listed.is_some_and(|all| !contains_metric(all, metric));
    let of_pods = if metric.pods.is_some() { " of pods" } else { "" };
    let name = metric.metric_name();
    is_unlisted.then(|| format!("the metric {name}{of_pods} in {api} is not served by {served_by}"))
}

/// Whether names as in [`ServedMetrics`] have a metric of pods, of an object or an external metric.
fn contains_metric(names: &BTreeSet<String>, metric: &MetricSpec) -> bool {
    let name = metric.metric_name();
    match metric.source_type {
        MetricSourceType::External => names.contains(name),
        MetricSourceType::Pods => names.contains(&format!("pods/{name}")),
        // The resource of an object's kind is unknown here, so a metric of any resource counts.
        _ => names.iter().any(|one| one.split_once('/').is_some_and(|(_, metric)| metric == name)),
    }
}

/// Reports `AverageValue` targets of metrics whose rule computes an average: the controller divides
/// the value by the replicas again.
pub(super) fn averaged_twice(subject: &Subject<'_>, report: &mut Report<'_>) {
    let Some(served) = &subject.workspace.served else { return };
    for (index, metric) in subject.hpa.spec.metrics.iter().enumerate() {
        let is_value = metric.object.is_some() || metric.external.is_some();
        let is_average = is_value && contains_metric(&served.averages, metric);
        if is_average && metric.target().is_some_and(|target| target.average_value.is_some()) {
            let message = "the query of the rule is an average already, and the controller divides \
                           its value by the replicas: use a sum in the rule, or a target of type \
                           Value";
            report.add(average_value_field(index, metric), message);
        }
    }
}
