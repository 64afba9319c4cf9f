//! The rules for `spec.metrics`.

use super::{
    field::{Causes, Path},
    names,
    reference::{ApiVersionRule, validate_reference},
};
use crate::api::{
    ContainerResourceMetricSource, ExternalMetricSource, MetricIdentifier, MetricSourceType,
    MetricSpec, MetricTarget, MetricTargetType, ObjectMetricSource, PodsMetricSource,
    ResourceMetricSource,
};
use crate::go_text::JsonString;

/// Validates every metric. If `minReplicas` is 0, one of them must be an Object or External metric,
/// because without pods there are no metrics of pods (KEP-2021).
pub(super) fn validate_metrics(
    causes: &mut Causes,
    path: &Path<'_>,
    metrics: &[MetricSpec],
    min_replicas: Option<i32>,
    object_rule: ApiVersionRule,
) {
    for (index, metric) in metrics.iter().enumerate() {
        validate_metric(causes, &path.index(index), metric, object_rule);
    }
    let mut types = metrics.iter().map(|metric| &metric.source_type);
    if min_replicas == Some(0) && !types.any(MetricSourceType::exists_without_pods) {
        let detail = "must specify at least one Object or External metric to support scaling to \
            zero replicas";
        causes.forbidden(path, detail);
    }
}

fn validate_metric(
    causes: &mut Causes,
    path: &Path<'_>,
    metric: &MetricSpec,
    object_rule: ApiVersionRule,
) {
    let source_type = metric.source_type.as_str();
    if source_type.is_empty() {
        causes.required(&path.child("type"), "must specify a metric source type");
    }
    let expected = metric.source_type.member();
    if expected.is_none() {
        causes.not_supported(&path.child("type"), source_type, MetricSourceType::KNOWN);
    }
    validate_first_source(causes, path, metric, object_rule);
    let members = [
        ("object", metric.object.is_some()),
        ("external", metric.external.is_some()),
        ("pods", metric.pods.is_some()),
        ("resource", metric.resource.is_some()),
        ("containerResource", metric.container_resource.is_some()),
    ];
    let present = || members.iter().filter(|(_, present)| *present).map(|(member, _)| *member);
    match expected {
        Some(member) if !present().any(|present| present == member) => {
            causes.required(
                &path.child(member),
                "must populate information for the given metric source",
            );
        }
        Some(_) => {}
        // The API server reports an unknown type twice.
        None => causes.not_supported(&path.child("type"), source_type, MetricSourceType::KNOWN),
    }
    // If a single member is set and it is the wrong one, only the missing member is reported. The
    // API server reports several members in random order.
    if present().count() > 1 {
        for member in present().filter(|member| Some(*member) != expected) {
            causes.forbidden(&path.child(member), "must populate the given metric source only");
        }
    }
}

/// Validates the member that is set, even if it doesn't match the type. If several are set, that is
/// a violation, and only the first in the order of this function is validated.
fn validate_first_source(
    causes: &mut Causes,
    path: &Path<'_>,
    metric: &MetricSpec,
    object_rule: ApiVersionRule,
) {
    if let Some(source) = &metric.object {
        validate_object(causes, &path.child("object"), source, object_rule);
    } else if let Some(source) = &metric.external {
        validate_external(causes, &path.child("external"), source);
    } else if let Some(source) = &metric.pods {
        validate_pods(causes, &path.child("pods"), source);
    } else if let Some(source) = &metric.resource {
        validate_resource(causes, &path.child("resource"), source);
    } else if let Some(source) = &metric.container_resource {
        validate_container_resource(causes, &path.child("containerResource"), source);
    }
}

fn validate_object(
    causes: &mut Causes,
    path: &Path<'_>,
    source: &ObjectMetricSource,
    object_rule: ApiVersionRule,
) {
    validate_reference(
        causes,
        &path.child("describedObject"),
        &source.described_object,
        object_rule,
    );
    validate_identifier(causes, &path.child("metric"), &source.metric);
    let (path, target) = (path.child("target"), &source.target);
    validate_target(causes, &path, target);
    if target.value.is_none() && target.average_value.is_none() {
        causes.required(
            &path.child("averageValue"),
            "must set either a target value or averageValue",
        );
    }
}

fn validate_external(causes: &mut Causes, path: &Path<'_>, source: &ExternalMetricSource) {
    validate_identifier(causes, &path.child("metric"), &source.metric);
    let (path, target) = (path.child("target"), &source.target);
    validate_target(causes, &path, target);
    match (&target.value, &target.average_value) {
        (None, None) => {
            let detail = "must set either a target value for metric or a per-pod target";
            causes.required(&path.child("averageValue"), detail);
        }
        (Some(_), Some(_)) => {
            let detail = "may not set both a target value for metric and a per-pod target";
            causes.forbidden(&path.child("value"), detail);
        }
        _ => {}
    }
}

fn validate_pods(causes: &mut Causes, path: &Path<'_>, source: &PodsMetricSource) {
    validate_identifier(causes, &path.child("metric"), &source.metric);
    let (path, target) = (path.child("target"), &source.target);
    validate_target(causes, &path, target);
    if target.average_value.is_none() {
        causes.required(&path.child("averageValue"), "must specify a positive target averageValue");
    }
}

fn validate_resource(causes: &mut Causes, path: &Path<'_>, source: &ResourceMetricSource) {
    if source.name.is_empty() {
        causes.required(&path.child("name"), "must specify a resource name");
    }
    validate_resource_target(causes, &path.child("target"), &source.target);
}

fn validate_container_resource(
    causes: &mut Causes,
    path: &Path<'_>,
    source: &ContainerResourceMetricSource,
) {
    if source.name.is_empty() {
        causes.required(&path.child("name"), "must specify a resource name");
    } else {
        names::container_resource(causes, &path.child("name"), &source.name);
    }
    if source.container.is_empty() {
        causes.required(&path.child("container"), "must specify a container");
    } else {
        names::dns_label(causes, &path.child("container"), &source.container);
    }
    validate_resource_target(causes, &path.child("target"), &source.target);
}

fn validate_resource_target(causes: &mut Causes, path: &Path<'_>, target: &MetricTarget) {
    validate_target(causes, path, target);
    match (&target.average_utilization, &target.average_value) {
        (None, None) => {
            let detail = "must set either a target raw value or a target utilization";
            causes.required(&path.child("averageUtilization"), detail);
        }
        (Some(_), Some(_)) => {
            let detail = "may not set both a target raw value and a target utilization";
            causes.forbidden(&path.child("averageValue"), detail);
        }
        _ => {}
    }
}

/// The rules for all targets. The target's type is not compared with the member that is set.
fn validate_target(causes: &mut Causes, path: &Path<'_>, target: &MetricTarget) {
    if let MetricTargetType::Other(other) = &target.target_type {
        if other.is_empty() {
            causes.required(&path.child("type"), "must specify a metric target type");
        }
        let detail = "must be either Utilization, Value, or AverageValue";
        causes.invalid(&path.child("type"), JsonString(other), detail);
    }
    for (member, quantity) in [("value", &target.value), ("averageValue", &target.average_value)] {
        if let Some(quantity) = quantity.as_ref().filter(|quantity| quantity.signum() <= 0) {
            causes.invalid(&path.child(member), format_args!("\"{quantity}\""), "must be positive");
        }
    }
    if let Some(percent) = target.average_utilization.filter(|percent| *percent < 1) {
        causes.invalid(&path.child("averageUtilization"), percent, "must be greater than 0");
    }
}

/// Validates the metric's name. The API server accepts any selector, and the controller reports
/// invalid ones.
fn validate_identifier(causes: &mut Causes, path: &Path<'_>, metric: &MetricIdentifier) {
    if metric.name.is_empty() {
        causes.required(&path.child("name"), "must specify a metric name");
    } else {
        names::path_segment(causes, &path.child("name"), &metric.name);
    }
}
