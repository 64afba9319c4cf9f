//! Checks of the annotations of this project and of collectors.

use std::{collections::BTreeMap, ops::Bound};

use hpa_calc::crd::member_path;
use hpa_calc::{
    HorizontalPodAutoscaler,
    api::MetricSpec,
    settings::{DOMAIN, ProblemKind, SETTINGS, Setting, SettingPlace, SettingProblem},
    suggestions::most_similar,
};
use hpa_collectors::{FindingSubject, config::display_name, registry::external_types};
use serde_json::Value;

use super::{
    rule::{Subject, source_field},
    validity::DecodedAutoscaler,
};
use crate::{collectors::environment_of_unknown_flags, lint::finding::Report};

const ANNOTATIONS: &str = "metadata.annotations";
/// The prefix of annotations that configure collectors.
const COLLECTOR_PREFIX: &str = "metric-config.";
/// The name of the setting that compares decisions with those of another controller.
const DRY_RUN: &str = "dry-run";
/// The domain of each annotation of this project contains this text.
const PROJECT: &str = "hpa-rs";

/// Reports annotations of this project that don't exist or have no effect, and invalid settings in
/// annotations or fields.
pub(super) fn invalid_annotation(decoded: &DecodedAutoscaler, report: &mut Report<'_>) {
    let annotations = report.manifest.object.pointer("/metadata/annotations");
    for (name, value) in annotations.and_then(Value::as_object).into_iter().flatten() {
        let Some(value) = value.as_str() else { continue };
        let is_of_project =
            name.split_once('/').is_some_and(|(domain, _)| domain.contains(PROJECT));
        // A dry run is meant for an autoscaler of another controller, and stores no status.
        let setting = Setting::of_annotation(name).filter(|setting| setting.name != DRY_RUN);
        if decoded.is_status_of_kube_controller_manager && setting.is_some() {
            let message = "kube-controller-manager, which stored the status last, ignores it: it \
                           has an effect only if hpa-rs handles the autoscaler";
            report.add(member_path(ANNOTATIONS, name), message);
        }
        if is_of_project && Setting::of_annotation(name).is_none() {
            let hint = annotation_hint(name);
            let message =
                format!("there is no such annotation: its value {value:?} is ignored. {hint}");
            report.add(member_path(ANNOTATIONS, name), message);
        }
    }
    // If the spec is invalid, the rule `invalid` reports its fields, and its metrics and behavior
    // may differ from the intended ones. Only the values of annotations are certain.
    let is_certain = |problem: &SettingProblem| {
        decoded.hpa.is_some()
            || matches!(problem.place, SettingPlace::Annotation(_))
                && matches!(problem.kind, ProblemKind::InvalidValue | ProblemKind::Raised)
    };
    // Each unknown name is reported above.
    let is_reported =
        |problem: &&SettingProblem| problem.kind != ProblemKind::UnknownName && is_certain(problem);
    for problem in decoded.resolved.problems.iter().filter(is_reported) {
        let field = match &problem.place {
            SettingPlace::Annotation(name) => member_path(ANNOTATIONS, name),
            SettingPlace::Field(path) => path.clone(),
        };
        report.add(field, problem.consequence());
    }
}

/// Names the most similar annotation, or else all annotations.
fn annotation_hint(annotation: &str) -> String {
    let unknown_name = annotation.split_once('/').map_or(annotation, |(_, name)| name);
    let names = SETTINGS.iter().map(|setting| setting.name);
    match most_similar(unknown_name, names.clone()) {
        Some(similar) => format!("Did you mean {DOMAIN}/{similar}?"),
        None => format!("Those of {DOMAIN} are {}", names.collect::<Vec<_>>().join(", ")),
    }
}

/// Reports annotations `metric-config.*` that no collector can use. An autoscaler without such
/// annotations is not checked, because another adapter may serve its metrics.
pub(super) fn metric_config(subject: &Subject<'_>, report: &mut Report<'_>) {
    let annotations = &subject.hpa.metadata.annotations;
    if !annotations.keys().any(|name| name.starts_with(COLLECTOR_PREFIX)) {
        return;
    }
    let unknown_types: Vec<_> = subject
        .metrics()
        .filter_map(|(index, _)| unknown_collector_type(subject.hpa, index))
        .collect();
    let environment = environment_of_unknown_flags(subject.hpa);
    for finding in hpa_collectors::findings(subject.hpa, &environment) {
        let is_external = matches!(
            &finding.subject,
            FindingSubject::MetricAnnotations { prefix, .. }
                if prefix.starts_with("metric-config.external.")
        );
        if finding.has_no_collector && is_external && !unknown_types.is_empty() {
            // The finding about the unknown type is more precise.
            continue;
        }
        let message = match &finding.subject {
            FindingSubject::Metric(metric_type, metric) => {
                format!("{}: {}", display_name(*metric_type, metric), finding.message)
            }
            _ => finding.message,
        };
        report.add(field_of(subject.hpa, &finding.subject), message);
    }
    for (field, message) in unknown_types {
        report.add(field, message);
    }
}

/// The problem of an external metric that has annotations for a collector, but whose label `type`
/// names no collector. Without the label, the name of the metric counts. Returns a field and a
/// message.
pub(crate) fn unknown_collector_type(
    hpa: &HorizontalPodAutoscaler,
    index: usize,
) -> Option<(String, String)> {
    let metric = &hpa.spec.metrics.get(index)?.external.as_ref()?.metric;
    let prefix = format!("{COLLECTOR_PREFIX}external.{}.", metric.name);
    let first = first_with_prefix(&hpa.metadata.annotations, &prefix)?;
    let annotated = first.strip_prefix(&prefix)?.split('/').next()?;
    let labels = metric.selector.as_ref().map(|selector| &selector.match_labels);
    let label = labels.and_then(|labels| labels.get("type")).filter(|one| !one.is_empty());
    let is_known = |name: &str| external_types().any(|known| known == name);
    if is_known(label.unwrap_or(&metric.name)) {
        return None;
    }
    let problem = match label {
        Some(label) => format!("there is no collector {label:?}"),
        None => "the label that names the collector is missing".to_owned(),
    };
    let similar = label.and_then(|label| most_similar(label, external_types()));
    let advice = match similar.or(Some(annotated).filter(|name| is_known(name))) {
        Some(name) => format!("set type: {name}"),
        None => format!("set it to one of {}", external_types().collect::<Vec<_>>().join(", ")),
    };
    let field = format!("spec.metrics[{index}].external.metric.selector.matchLabels.type");
    Some((field, format!("{problem}, so nothing reads {}: {advice}", metric.name)))
}

/// The field of a finding about a collector. If the annotation of a setting is missing, it is the
/// first annotation of the metric.
fn field_of(hpa: &HorizontalPodAutoscaler, subject: &FindingSubject) -> String {
    let annotations = &hpa.metadata.annotations;
    let annotation = match subject {
        FindingSubject::AllAnnotations => None,
        FindingSubject::Annotation(key) => Some(key.clone()),
        FindingSubject::MetricAnnotations { prefix, setting } => {
            let exact = setting.as_ref().map(|setting| format!("{prefix}{setting}"));
            exact
                .filter(|key| annotations.contains_key(key))
                .or_else(|| first_with_prefix(annotations, prefix).map(str::to_owned))
        }
        FindingSubject::Metric(metric_type, metric) => {
            let is_subject = |(_, spec): &(usize, &MetricSpec)| {
                spec.source_type.as_str() == metric_type.name()
                    && spec.metric_name() == metric.name
                    && spec.label_selector() == metric.selector.as_ref()
            };
            let found = hpa.spec.metrics.iter().enumerate().find(is_subject);
            let field = found.map(|(index, spec)| source_field(index, spec));
            return field.unwrap_or_else(|| "spec.metrics".to_owned());
        }
    };
    annotation.map_or_else(|| ANNOTATIONS.to_owned(), |key| member_path(ANNOTATIONS, &key))
}

/// The first name with a prefix. The time doesn't depend on the other names.
fn first_with_prefix<'a>(
    annotations: &'a BTreeMap<String, String>,
    prefix: &str,
) -> Option<&'a str> {
    let from = (Bound::Included(prefix), Bound::Unbounded);
    let (name, _) = annotations.range::<str, _>(from).next()?;
    Some(name.as_str()).filter(|name| name.starts_with(prefix))
}
