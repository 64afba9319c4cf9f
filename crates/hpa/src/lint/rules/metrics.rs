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
use crate::lint::{finding::Report, workspace::ServedMetrics};

/// A target below this is implausible for memory, in bytes.
const LEAST_BYTES: i64 = 1024;
/// A target above this is implausible for CPU, in cores.
const MOST_CORES: i64 = 256;

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

/// Reports memory in thousandths of a byte, and CPU in cores where millicores were probably meant.
pub(super) fn implausible_quantity(subject: &Subject<'_>, report: &mut Report<'_>) {
    for (index, metric) in subject.hpa.spec.metrics.iter().enumerate() {
        let (member, resource, target) = match metric {
            MetricSpec { resource: Some(source), .. } => ("resource", &source.name, &source.target),
            MetricSpec { container_resource: Some(source), .. } => {
                ("containerResource", &source.name, &source.target)
            }
            _ => continue,
        };
        let Some(value) = &target.average_value else { continue };
        let message = match resource.as_str() {
            "memory" if value.value() < LEAST_BYTES => {
                let suggestion = suggestion(value.to_string().trim_end_matches('m'), "Mi");
                format!("{value} of memory is {} bytes{suggestion}", value.as_f64())
            }
            "cpu" if value.value() >= MOST_CORES => {
                let suggestion = suggestion(&value.to_string(), "m");
                format!("{value} is as many processors for each pod{suggestion}")
            }
            _ => continue,
        };
        report.add(format!("spec.metrics[{index}].{member}.target.averageValue"), message);
    }
}

/// The number with a suffix, if it has none yet.
fn suggestion(number: &str, suffix: &str) -> String {
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

/// A metric without its target, for comparing the sources of metrics.
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
        // The controller reads it, possibly from one of its own sources.
        let is_read = status.is_true(&ConditionType::ScalingActive)
            && status
                .current_metrics
                .get(index)
                .is_some_and(|one| status_value(metric, one).is_some());
        if is_read || is_read_in_process(subject, metric) {
            continue;
        }
        if let Some(message) = unserved(metric, served) {
            let hint = source_hint(subject, metric);
            report.add(format!("spec.metrics[{index}]"), format!("{message}{hint}"));
        }
    }
}

/// Whether the controller reads a metric by collectors or schedules.
fn is_read_in_process(subject: &Subject<'_>, metric: &MetricSpec) -> bool {
    let sources = &subject.workspace.own_sources;
    let is_collected = sources.collectors.as_ref().is_some_and(|settings| {
        let collector = collector_of(subject.hpa, metric, &settings.environment);
        collector.is_some_and(|name| settings.collectors.contains(name))
    });
    is_collected || sources.schedules && schedule(subject, metric).is_some()
}

fn schedule(subject: &Subject<'_>, metric: &MetricSpec) -> Option<ScheduleKey> {
    let object = &metric.object.as_ref()?.described_object;
    ScheduleKey::for_object(&subject.hpa.metadata.namespace, object)
}

/// Names the flag of a source that may serve the metric in the controller.
fn source_hint(subject: &Subject<'_>, metric: &MetricSpec) -> &'static str {
    let sources = &subject.workspace.own_sources;
    let has_collector = || collector_of(subject.hpa, metric, &environment(subject.hpa)).is_some();
    if !sources.schedules && schedule(subject, metric).is_some() {
        "; if the controller runs with --scaling-schedule, add it here"
    } else if sources.collectors.is_none() && has_collector() {
        "; if the controller runs with --collectors, add it here"
    } else {
        ""
    }
}

/// The reason why no API serves a metric; `None` if one does.
fn unserved(metric: &MetricSpec, served: &ServedMetrics) -> Option<String> {
    let api = match metric.source_type {
        MetricSourceType::Resource | MetricSourceType::ContainerResource => "metrics.k8s.io",
        MetricSourceType::Pods | MetricSourceType::Object => "custom.metrics.k8s.io",
        MetricSourceType::External => "external.metrics.k8s.io",
        _ => return None,
    };
    if served.undiscovered.is_some() {
        return None;
    }
    let by = served.by;
    if !served.groups.contains(api) {
        return Some(format!("{api} is not served by {by}"));
    }
    let is_unlisted = |listed: &Option<BTreeSet<String>>, is_it: &dyn Fn(&str) -> bool| {
        listed.as_ref().is_some_and(|all| !all.iter().any(|name| is_it(name)))
    };
    if let Some(source) = &metric.pods {
        let name = &source.metric.name;
        let listed = format!("pods/{name}");
        return is_unlisted(&served.custom, &|one| one == listed)
            .then(|| format!("the metric {name} of pods in {api} is not served by {by}"));
    }
    if let Some(source) = &metric.object {
        let name = &source.metric.name;
        // The resource of the kind is unknown here, so a metric of any resource counts.
        let is_it = |one: &str| one.split_once('/').is_some_and(|(_, metric)| metric == name);
        return is_unlisted(&served.custom, &is_it)
            .then(|| format!("the metric {name} in {api} is not served by {by}"));
    }
    let name = &metric.external.as_ref()?.metric.name;
    is_unlisted(&served.external, &|one| one == name)
        .then(|| format!("the metric {name} in {api} is not served by {by}"))
}

/// Reports averages over pods with an `AverageValue` target, which the controller divides by the
/// replicas once more.
pub(super) fn averaged_twice(subject: &Subject<'_>, report: &mut Report<'_>) {
    let Some(served) = &subject.workspace.served else { return };
    for (index, metric) in subject.hpa.spec.metrics.iter().enumerate() {
        let (member, is_average, target) = match metric {
            MetricSpec { external: Some(source), .. } => {
                let is_average = served.averages.contains(&source.metric.name);
                ("external", is_average, &source.target)
            }
            MetricSpec { object: Some(source), .. } => {
                let is_it = |name: &String| {
                    name.split_once('/').is_some_and(|(_, metric)| metric == source.metric.name)
                };
                ("object", served.averages.iter().any(is_it), &source.target)
            }
            _ => continue,
        };
        if is_average && target.average_value.is_some() {
            let message = "the query of the rule is an average already, and the controller divides \
                           its value by the replicas: use a sum in the rule, or a target of type \
                           Value";
            report.add(format!("spec.metrics[{index}].{member}.target.averageValue"), message);
        }
    }
}
