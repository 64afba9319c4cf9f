//! Checks of the metrics and their targets.

use std::collections::BTreeSet;

use hpa_calc::{
    api::{ConditionType, MetricSourceType, MetricSpec, MetricTarget},
    explain::{list_first, status_value},
    report::reported_absence,
    suggestions::may_be_meant,
};
use hpa_collectors::{
    FindingSubject, annotations::MetricType, collector_of, schedules::source::ScheduleKey,
    source_of,
};
use hpa_metrics::resource::GroupResource;

use super::{
    pods::{Utilization, utilizations},
    rule::{Subject, is_resource, source_field},
};
use crate::{
    args::CollectorArguments,
    collectors::{environment_of_unknown_flags, lacks_collectors},
    lint::{
        finding::Report,
        object::{Reference, group, namespace},
        served::{CUSTOM, EXTERNAL, MEASURED_RESOURCES, RESOURCE, ServedMetrics},
    },
};

/// A memory target below this is implausible, in bytes.
const MIN_PLAUSIBLE_BYTES: i64 = 1024;
/// A CPU target of this or more is implausible, in cores.
const MIN_IMPLAUSIBLE_CORES: i64 = 256;
/// The name of an unserved metric is compared with at most this many names.
const MAX_COMPARED_NAMES: usize = 1000;
/// A finding names at most this many similar metrics.
const MAX_SIMILAR_NAMES: usize = 3;
// The types of targets, each with its field.
const VALUE: [&str; 2] = ["Value", "value"];
const AVERAGE_VALUE: [&str; 2] = ["AverageValue", "averageValue"];
const UTILIZATION: [&str; 2] = ["Utilization", "averageUtilization"];

/// Reports a target's type that doesn't fit the field that is set. The API server accepts it. The
/// controller goes by the type for an Object metric, and by the field for all others.
pub(super) fn target_type(subject: &Subject<'_>, report: &mut Report<'_>) {
    for (index, metric) in subject.metrics() {
        let Some(target) = metric.target() else { continue };
        let types: &[[&str; 2]] = match metric.source_type {
            MetricSourceType::Object | MetricSourceType::External => &[VALUE, AVERAGE_VALUE],
            MetricSourceType::Pods => &[AVERAGE_VALUE],
            _ => &[UTILIZATION, AVERAGE_VALUE],
        };
        let written = target.target_type.as_str();
        let mut set = types.iter().filter(|[_, field]| is_set(target, field)).peekable();
        let Some([fitting, field]) = set.peek().copied() else { continue };
        if set.any(|[name, _]| *name == written) {
            continue;
        }
        let instead = types.iter().find(|[name, _]| *name == written);
        let instead = instead
            .map_or_else(String::new, |[_, other]| format!(", or {other} instead of {field}"));
        let message = format!(
            "the type is {written}, but {field} is set: {}. Write type: {fitting}{instead}",
            effect_of_type(metric, field)
        );
        report.add(format!("{}.target.type", source_field(index, metric)), message);
    }
}

/// Reports schedules with a `Value` target. Their value doesn't depend on the replicas, so the
/// ratio to the target stays the same after each scaling.
pub(super) fn schedule_value_target(subject: &Subject<'_>, report: &mut Report<'_>) {
    for (index, metric) in subject.metrics() {
        let Some(object) = &metric.object else { continue };
        if object.described_object.is_scaling_schedule() && object.target.value.is_some() {
            let message = "the value of a schedule doesn't depend on the replicas: while it is \
                           above the target, they grow to maxReplicas, and below it, they shrink \
                           to minReplicas. Use type: AverageValue with averageValue";
            report.add(format!("{}.target.value", source_field(index, metric)), message);
        }
    }
}

fn is_set(target: &MetricTarget, field: &str) -> bool {
    match field {
        "value" => target.value.is_some(),
        "averageValue" => target.average_value.is_some(),
        _ => target.average_utilization.is_some(),
    }
}

/// The effect of a target's type that doesn't fit `field`, which is set.
fn effect_of_type(metric: &MetricSpec, field: &str) -> &'static str {
    match (&metric.source_type, field) {
        (MetricSourceType::Object, _) => {
            "the controller goes by the type, so the metric always fails"
        }
        (MetricSourceType::External, "value") => {
            "the controller ignores the type and compares the sum of all series"
        }
        (MetricSourceType::External, _) => {
            "the controller ignores the type and compares the sum divided by the replicas"
        }
        (_, "averageUtilization") => {
            "the controller ignores the type and compares percent of the requests"
        }
        _ => "the controller ignores the type and compares the average of the pods",
    }
}

/// Reports resources that are not in the resource metrics API.
pub(super) fn unknown_resource(subject: &Subject<'_>, report: &mut Report<'_>) {
    for (index, metric) in subject.metrics() {
        let name = metric.metric_name();
        let is_known = MEASURED_RESOURCES.contains(&name) || has_value(subject, index, metric);
        if !is_resource(metric) || is_known {
            continue;
        }
        let meant = MEASURED_RESOURCES.iter().find(|known| known.eq_ignore_ascii_case(name));
        let advice = meant.unwrap_or(&"a metric of type Pods, Object or External");
        let field = format!("{}.name", source_field(index, metric));
        let message =
            format!("only cpu and memory are in {RESOURCE}, so the metric fails: use {advice}");
        report.add(field, message);
    }
}

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
    for (index, metric) in subject.metrics() {
        let target = metric.target().filter(|_| is_resource(metric));
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

pub(super) fn average_value_field(index: usize, metric: &MetricSpec) -> String {
    format!("{}.target.averageValue", source_field(index, metric))
}

/// The question "did you mean" the number with a suffix. Empty if the number has a suffix already.
fn suffix_suggestion(number: &str, suffix: &str) -> String {
    let is_plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if is_plain { format!(": did you mean {number}{suffix}?") } else { String::new() }
}

pub(super) fn duplicate_metric(subject: &Subject<'_>, report: &mut Report<'_>) {
    let sources_and_types = subject.metrics().map(|(_, metric)| {
        (without_target(metric), metric.target().map(|target| &target.target_type))
    });
    let metrics: Vec<_> = sources_and_types.collect();
    for (index, (source, target_type)) in metrics.iter().enumerate() {
        let earlier = metrics.iter().take(index).position(|(other, _)| other == source);
        if let Some(first) = earlier {
            let is_same_type = metrics.get(first).is_some_and(|(_, other)| other == target_type);
            let effect = if is_same_type { ", so one of the targets never acts" } else { "" };
            let message = format!(
                "spec.metrics[{first}] has the same source: only the larger proposal of both \
                 counts{effect}"
            );
            report.add(format!("spec.metrics[{index}]"), message);
        }
    }
}

/// The metric with a default target. Two such metrics are equal if their sources are.
fn without_target(metric: &MetricSpec) -> MetricSpec {
    let mut metric = metric.clone();
    if let Some(target) = metric.target_mut() {
        *target = MetricTarget::default();
    }
    metric
}

pub(super) fn unserved_metric(subject: &Subject<'_>, report: &mut Report<'_>) {
    let Some(served) = &subject.workspace.served else { return };
    for (index, metric) in subject.metrics() {
        if has_value(subject, index, metric) {
            continue;
        }
        if let Some(message) = missing_schedule(subject, metric) {
            let field = format!("{}.describedObject.name", source_field(index, metric));
            report.add(field, message);
            continue;
        }
        // `hpa adapter` lists no metrics of schedules, because their names don't matter.
        let may_be_unlisted = schedule_key(subject, metric).is_some()
            && !subject.workspace.is_from_files()
            && served.groups.contains(CUSTOM);
        if may_be_unlisted || is_read_in_process(subject, metric) {
            continue;
        }
        if let Some(Unserved { message, similar }) = describe_unserved(subject, metric, served) {
            let hint = collector_problem(subject, metric)
                .unwrap_or_else(|| source_hint(subject, index, metric));
            report.add(format!("spec.metrics[{index}]"), format!("{message}{hint}{similar}"));
        }
    }
}

/// Whether the status has a value of a metric: then the controller can read it from some source.
fn has_value(subject: &Subject<'_>, index: usize, metric: &MetricSpec) -> bool {
    let status = &subject.hpa.status;
    let current = status.current_metrics.get(index);
    status.is_true(&ConditionType::ScalingActive)
        && current.is_some_and(|current| status_value(metric, current).is_some())
}

/// Whether the controller, with the flags given to lint, reads a metric by a collector or from a
/// schedule.
fn is_read_in_process(subject: &Subject<'_>, metric: &MetricSpec) -> bool {
    let sources = &subject.workspace.in_process_sources;
    let is_collected = || {
        let collector = collector_of(subject.hpa, metric, &sources.settings.environment);
        collector.is_some_and(|name| sources.settings.collectors.contains(name))
    };
    sources.has_collectors && is_collected()
        || sources.has_schedules && schedule_key(subject, metric).is_some()
}

/// The reason why no collector reads a metric that has settings of a collector. `None` if the
/// metric belongs to no collector. Without `--collectors`, checks only external metrics whose label
/// names a collector. The rule `metric-config` reports the others.
fn collector_problem(subject: &Subject<'_>, metric: &MetricSpec) -> Option<String> {
    let sources = &subject.workspace.in_process_sources;
    let unknown = (!sources.has_collectors).then(|| environment_of_unknown_flags(subject.hpa));
    let environment = unknown.as_ref().unwrap_or(&sources.settings.environment);
    match source_of(subject.hpa, metric, environment)? {
        Ok(source) => sources.has_collectors.then(|| {
            format!(
                "; its collector {} is off: add {} if the controller has it",
                source.collector,
                sources.missing_flags(source.collector)
            )
        }),
        Err(finding) => {
            let is_named_by_label =
                matches!(finding.subject, FindingSubject::Metric(MetricType::External, _));
            (sources.has_collectors || is_named_by_label).then(|| {
                format!("; no collector reads it ({}): {}", finding.subject, finding.message)
            })
        }
    }
}

/// The schedule that an Object metric describes.
fn schedule_key(subject: &Subject<'_>, metric: &MetricSpec) -> Option<ScheduleKey> {
    let object = &metric.object.as_ref()?.described_object;
    ScheduleKey::for_object(&subject.hpa.metadata.namespace, object)
}

/// The problem of a metric whose `ScalingSchedule` or `ClusterScalingSchedule` doesn't exist.
/// `None` if those of the cluster are unknown.
fn missing_schedule(subject: &Subject<'_>, metric: &MetricSpec) -> Option<String> {
    let object = &metric.object.as_ref()?.described_object;
    let (workspace, manifest) = (subject.workspace, subject.manifest);
    let schedule = Reference {
        group: group(&object.api_version).to_owned(),
        kind: object.kind.clone(),
        name: object.name.clone(),
    };
    let is_missing = object.is_scaling_schedule()
        && workspace.has_all_of_kind(&schedule)
        && workspace.referenced_object(manifest, &schedule).is_none();
    is_missing.then(|| {
        let (kind, name) = (&schedule.kind, &schedule.name);
        if kind == "ScalingSchedule" {
            format!("{kind} {name} doesn't exist in namespace {}", namespace(manifest))
        } else {
            format!("{kind} {name} doesn't exist")
        }
    })
}

/// Names the flags with which the controller may read the metric, by a schedule, a collector or a
/// rule. Empty if lint has the flags already, or if none helps, as with kube-controller-manager.
fn source_hint(subject: &Subject<'_>, index: usize, metric: &MetricSpec) -> String {
    let sources = &subject.workspace.in_process_sources;
    let environment = environment_of_unknown_flags(subject.hpa);
    let collector = || collector_of(subject.hpa, metric, &environment);
    let hint = if subject.is_for_built_in() {
        ""
    } else if !sources.has_schedules && schedule_key(subject, metric).is_some() {
        if reported_absence(subject.hpa, index).is_some() {
            "; the controller reads no schedules: start hpa run with --scaling-schedule"
        } else {
            "; if the controller runs with --scaling-schedule, add it here"
        }
    } else if let Some(collector) = collector().filter(|_| !sources.has_collectors) {
        let hint = if lacks_collectors(subject.hpa, index) {
            "; the controller has no collectors: start hpa run with --collectors"
        } else {
            "; if the controller runs with --collectors, add it here"
        };
        return hint.to_owned() + &CollectorArguments::describe_further_flags(collector);
    } else if subject.workspace.served.as_ref().is_some_and(|served| !served.has_rules) {
        "; if the controller runs with --metrics-config, add it here"
    } else {
        ""
    };
    hint.to_owned()
}

struct Unserved {
    message: String,
    /// The clause about similar names, or empty.
    similar: String,
}

/// Describes a metric that is in neither the API nor the rules file. `None` if the metric is
/// served, or if that is unknown.
fn describe_unserved(
    subject: &Subject<'_>,
    metric: &MetricSpec,
    served: &ServedMetrics,
) -> Option<Unserved> {
    let (api, listed) = match metric.source_type {
        MetricSourceType::Resource | MetricSourceType::ContainerResource => (RESOURCE, None),
        MetricSourceType::Pods | MetricSourceType::Object => (CUSTOM, served.custom.as_ref()),
        MetricSourceType::External => (EXTERNAL, served.external.as_ref()),
        _ => return None,
    };
    if served.may_be_of_unread_rule(metric) {
        return None;
    }
    if !served.groups.contains(api) {
        let rules = if served.has_rules { ", and no rule of the rules file is for it" } else { "" };
        let message = format!("the cluster has no API {api}{rules}");
        return Some(Unserved { message, similar: String::new() });
    }
    let names = listed?;
    if contains_metric(served, names, metric) {
        return None;
    }
    let name = metric.metric_name();
    let resource = resource_of(served, metric).map(|resource| resource.to_string());
    let of_resource = resource.as_ref().map_or_else(String::new, |one| format!(" of {one}"));
    let others: Vec<&str> = resources_with(names, metric).collect();
    let elsewhere = match others.as_slice() {
        [] => String::new(),
        others => format!(", but that of {} is", others.join(", ")),
    };
    let similar = if others.is_empty() {
        similar_names(names, metric, resource.as_deref())
    } else {
        String::new()
    };
    let place = match (subject.workspace.is_from_files(), served.has_rules) {
        (true, _) => format!("the rules file for {api}"),
        (false, true) => format!("{api} of the cluster, nor in the rules file"),
        (false, false) => format!("{api} of the cluster"),
    };
    let message = format!("the metric {name}{of_resource} is not in {place}{elsewhere}");
    Some(Unserved { message, similar })
}

/// Lists served metrics with a similar name, as a clause in parentheses. Only those of `resource`
/// count, if it is known.
fn similar_names(names: &BTreeSet<String>, metric: &MetricSpec, resource: Option<&str>) -> String {
    let of_api = names.iter().filter_map(|name| match name.split_once('/') {
        _ if metric.external.is_some() => Some(name.as_str()),
        Some((of_resource, name)) if resource.is_none_or(|known| known == of_resource) => {
            Some(name)
        }
        _ => None,
    });
    let name = metric.metric_name();
    let compared = of_api.take(MAX_COMPARED_NAMES);
    let similar: BTreeSet<&str> = compared.filter(|other| may_be_meant(other, name)).collect();
    if similar.is_empty() {
        return String::new();
    }
    let similar: Vec<&str> = similar.into_iter().collect();
    format!(" (similar: {})", list_first(&similar, MAX_SIMILAR_NAMES, ", "))
}

/// Whether `names`, which have the format of [`ServedMetrics`], contain the metric.
pub(super) fn contains_metric(
    served: &ServedMetrics,
    names: &BTreeSet<String>,
    metric: &MetricSpec,
) -> bool {
    match resource_of(served, metric) {
        Some(resource) => names.contains(&format!("{resource}/{}", metric.metric_name())),
        None if metric.external.is_some() => names.contains(metric.metric_name()),
        None => resources_with(names, metric).next().is_some(),
    }
}

/// The resource of a custom metric's objects. `None` for an external metric, and if the resource of
/// the object's kind is unknown: a metric of any resource counts then.
fn resource_of(served: &ServedMetrics, metric: &MetricSpec) -> Option<GroupResource> {
    if metric.pods.is_some() {
        return Some(GroupResource::pods());
    }
    let object = &metric.object.as_ref()?.described_object;
    let resource = served.resources.of_kind(group(&object.api_version), &object.kind)?;
    Some(resource.group_resource.clone())
}

/// The resources that have a custom metric with the name of `metric`. Empty for an external one.
fn resources_with<'a>(
    names: &'a BTreeSet<String>,
    metric: &'a MetricSpec,
) -> impl Iterator<Item = &'a str> {
    let custom = names.iter().filter_map(|name| name.split_once('/'));
    let of_name =
        custom.filter(move |(_, name)| *name == metric.metric_name() && metric.external.is_none());
    of_name.map(|(resource, _)| resource)
}
