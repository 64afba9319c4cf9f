//! Checks of annotations.

use std::collections::{BTreeMap, BTreeSet};

use hpa_calc::{HorizontalPodAutoscaler, pause::Pause};
use hpa_collectors::Environment;
use hpa_controller::annotations::{DRY_RUN, PAUSE};
use hpa_crd::member_path;

use super::{Subject, validity::DecodedAutoscaler};
use crate::lint::finding::Report;

const ANNOTATIONS: &str = "metadata.annotations";
/// The start of the annotations that say how metrics are collected.
const COLLECTED: &str = "metric-config.";
/// Part of every domain that stands for this project.
const PROJECT: &str = "hpa-rs";

/// The annotations of this project. The controller ignores names and values that it doesn't know.
pub(super) fn invalid_annotation(decoded: &DecodedAutoscaler, report: &mut Report<'_>) {
    for (name, value) in &decoded.annotations {
        let Some(value) = value.as_str() else { continue };
        let problem = match name.as_str() {
            PAUSE => value.parse::<Pause>().err().map(|error| error.to_string()),
            DRY_RUN if !["true", "false"].contains(&value) => {
                Some("must be \"true\" or \"false\"".to_owned())
            }
            DRY_RUN => None,
            _ => {
                let is_own =
                    name.split_once('/').is_some_and(|(domain, _)| domain.contains(PROJECT));
                is_own.then(|| format!("there is no such annotation, but {PAUSE} and {DRY_RUN}"))
            }
        };
        if let Some(problem) = problem {
            let message = format!("{problem}; ignored, is {value:?}");
            report.add(member_path(ANNOTATIONS, name), message);
        }
    }
}

/// Annotations that no collector can use. The metrics of autoscalers without any are left alone:
/// another adapter may serve them.
pub(super) fn metric_config(subject: &Subject<'_>, report: &mut Report<'_>) {
    let annotations = &subject.hpa.metadata.annotations;
    if !annotations.keys().any(|name| name.starts_with(COLLECTED)) {
        return;
    }
    for finding in hpa_collectors::findings(subject.hpa, &environment(subject.hpa)) {
        report.add(
            annotation_field(annotations, &finding.subject, &finding.message),
            finding.message,
        );
    }
}

/// An operator who has all collectors, and each server and region that the autoscaler names.
pub(super) fn environment(hpa: &HorizontalPodAutoscaler) -> Environment {
    let selectors = hpa.spec.metrics.iter().filter_map(|metric| {
        let external = metric.external.as_ref().map(|source| &source.metric);
        external.or(metric.object.as_ref().map(|source| &source.metric))?.selector.as_ref()
    });
    let labels = selectors.flat_map(|selector| selector.match_labels.values());
    let names: BTreeSet<String> =
        hpa.metadata.annotations.values().chain(labels).cloned().collect();
    Environment { prometheus_aliases: names.clone(), sqs_regions: names, ..Environment::default() }
}

/// The field of a finding: its annotation, or the first one of its metric.
fn annotation_field(
    annotations: &BTreeMap<String, String>,
    subject: &str,
    message: &str,
) -> String {
    let prefix = subject.rsplit(' ').next().unwrap_or_default().trim_end_matches('*');
    let setting = message.rsplit(' ').next().unwrap_or_default();
    let exact = [prefix.to_owned(), format!("{prefix}{setting}")];
    let exact = exact.into_iter().find(|name| annotations.contains_key(name));
    let first = || annotations.keys().find(|name| !prefix.is_empty() && name.starts_with(prefix));
    match exact.or_else(|| first().cloned()) {
        Some(name) => member_path(ANNOTATIONS, &name),
        None => ANNOTATIONS.to_owned(),
    }
}
