//! Checks of the fields that identify a metric beside its name: its selector and its object.

use hpa_calc::selector::{LabelSelector, SelectorError};
use hpa_collectors::collector_of;

use super::rule::{Subject, source_field};
use crate::{
    collectors::environment_of_unknown_flags,
    lint::{finding::Report, object::group},
};

/// A group that Kubernetes has not served since version 1.22.
const REMOVED_GROUP: &str = "extensions";

/// Reports selectors that the API server accepts, but no controller can use.
pub(super) fn invalid_selector(subject: &Subject<'_>, report: &mut Report<'_>) {
    for (index, metric) in subject.metrics() {
        let selector = metric.label_selector().map(LabelSelector::to_selector);
        let Some(Err(error)) = selector else { continue };
        let hint = match &error {
            // kube-controller-manager has no limit of size.
            SelectorError::TooLarge { .. } => continue,
            SelectorError::Operator(_) => ". Use In, NotIn, Exists or DoesNotExist",
            _ => "",
        };
        report.add(
            format!("{}.metric.selector", source_field(index, metric)),
            format!("the metric always fails: {error}{hint}"),
        );
    }
}

/// Reports objects of a group that Kubernetes no longer serves. Collectors read an object by its
/// kind, whatever its group is.
pub(super) fn removed_object(subject: &Subject<'_>, report: &mut Report<'_>) {
    for (index, metric) in subject.metrics() {
        let Some(source) = &metric.object else { continue };
        let object = &source.described_object;
        let is_removed = group(&object.api_version) == REMOVED_GROUP;
        let is_of_collector = || {
            let environment = environment_of_unknown_flags(subject.hpa);
            collector_of(subject.hpa, metric, &environment).is_some()
        };
        if !is_removed || is_of_collector() {
            continue;
        }
        let instead = match &*object.kind {
            "Ingress" | "NetworkPolicy" => ": use networking.k8s.io/v1",
            "DaemonSet" | "Deployment" | "ReplicaSet" => ": use apps/v1",
            _ => "",
        };
        report.add(
            format!("{}.describedObject.apiVersion", source_field(index, metric)),
            format!(
                "Kubernetes no longer serves the group {REMOVED_GROUP}, so the metric \
                 fails{instead}"
            ),
        );
    }
}
