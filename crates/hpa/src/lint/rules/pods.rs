//! Checks of the target's pods: containers, requests, `VerticalPodAutoscaler`s and labels.

use hpa_calc::{Selector, selector::LabelSelector};
use serde_json::{Value, json};

use super::{
    Subject, is_resource, kind_and_name, source_field,
    target::{MAX_NAMED_OBJECTS, api_group, name_with_api},
};
use crate::{
    lint::{
        finding::Report,
        index::Api,
        served::MEASURED_RESOURCES,
        workspace::{Reference, containers, pod_template},
    },
    manifests::{Manifest, string_at},
};

/// A metric with a target in percent of a request.
pub(super) struct Utilization<'a> {
    /// The path of the metric.
    pub(super) field: String,
    pub(super) resource: &'a str,
    /// The container of a metric of type `ContainerResource`.
    container: Option<&'a str>,
    pub(super) percent: i32,
}

pub(super) fn utilizations<'a>(subject: &Subject<'a>) -> impl Iterator<Item = Utilization<'a>> {
    subject.hpa.spec.metrics.iter().enumerate().filter_map(|(index, metric)| {
        let container = metric.container_resource.as_ref();
        let target = metric.target().filter(|_| is_resource(metric))?;
        Some(Utilization {
            field: source_field(index, metric),
            resource: metric.metric_name(),
            container: container.map(|source| source.container.as_str()),
            percent: target.average_utilization?,
        })
    })
}

pub(super) fn missing_container(subject: &Subject<'_>, report: &mut Report<'_>) {
    let Some(target) = subject.target() else { return };
    let names: Vec<&str> =
        containers(&target.object).map(|(_, container)| string_at(container, "/name")).collect();
    for (index, metric) in subject.hpa.spec.metrics.iter().enumerate() {
        let Some(source) = &metric.container_resource else { continue };
        if !names.is_empty() && !names.contains(&source.container.as_str()) {
            let message = format!(
                "{} has no container {}, but {}",
                kind_and_name(target),
                source.container,
                names.join(", ")
            );
            report.add(format!("spec.metrics[{index}].containerResource.container"), message);
        }
    }
}

pub(super) fn missing_request(subject: &Subject<'_>, report: &mut Report<'_>) {
    let Some(target) = subject.target() else { return };
    // A metric of another resource fails with a request too.
    let utilizations =
        utilizations(subject).filter(|one| MEASURED_RESOURCES.contains(&one.resource));
    for Utilization { field, resource, container, .. } in utilizations {
        let lacking = containers_without_request(target, resource, container);
        if !lacking.is_empty() && !subject.workspace.has_default_request(subject.manifest, resource)
        {
            let message = format!(
                "containers without a request for {resource} in {}: {}. The metric fails until \
                 each pod has it",
                kind_and_name(target),
                lacking.join(", ")
            );
            report.add(field, message);
        }
    }
}

/// The containers without a request for the resource, as name and line, or only the name if the
/// line is unknown. `container` selects one container, `None` all; the pod's own request then
/// counts for all.
fn containers_without_request(
    target: &Manifest,
    resource: &str,
    container: Option<&str>,
) -> Vec<String> {
    let has_request = |resources: Option<&Value>| {
        // A request defaults to the limit.
        ["requests", "limits"].iter().any(|kind| {
            resources.and_then(|resources| resources.get(kind)?.get(resource)).is_some()
        })
    };
    let pod_resources = target.object.pointer("/spec/template/spec/resources");
    if container.is_none() && has_request(pod_resources) {
        return Vec::new();
    }
    containers(&target.object)
        .filter(|(_, one)| container.is_none_or(|name| string_at(one, "/name") == name))
        .filter(|(_, one)| !has_request(one.get("resources")))
        .map(|(field, one)| match target.position(&field).line {
            0 => string_at(one, "/name").to_owned(),
            line => format!("{} ({}:{line})", string_at(one, "/name"), target.file),
        })
        .collect()
}

pub(super) fn vpa_conflict(subject: &Subject<'_>, report: &mut Report<'_>) {
    for utilization in utilizations(subject) {
        for vpa in conflicting_vpas(subject, &utilization) {
            let message = format!(
                "VerticalPodAutoscaler {vpa} changes the requests for {}, so each reacts to the \
                 other's changes. Use a target of type AverageValue, or another resource for one \
                 of them",
                utilization.resource
            );
            report.add(utilization.field.clone(), message);
        }
    }
}

/// The names of the `VerticalPodAutoscaler`s that change the requests of the target's pods.
fn conflicting_vpas(subject: &Subject<'_>, utilization: &Utilization<'_>) -> Vec<String> {
    let target = subject.target_reference();
    let vpas = subject.workspace.vertical_autoscalers_of(subject.manifest, &target);
    let conflicting = vpas.filter(|vpa| changes_request(&vpa.object, utilization));
    conflicting
        .take(MAX_NAMED_OBJECTS)
        .map(|vpa| string_at(&vpa.object, "/metadata/name").to_owned())
        .collect()
}

/// Whether a `VerticalPodAutoscaler` changes the request that the metric's target is a percentage
/// of.
fn changes_request(vpa: &Value, utilization: &Utilization<'_>) -> bool {
    if string_at(vpa, "/spec/updatePolicy/updateMode") == "Off" {
        return false;
    }
    let policies = vpa.pointer("/spec/resourcePolicy/containerPolicies").and_then(Value::as_array);
    let policies = policies.map(Vec::as_slice).unwrap_or_default();
    let applies =
        |policy: &&Value| match (string_at(policy, "/containerName"), utilization.container) {
            ("*", _) | (_, None) => true,
            (name, Some(container)) => name == container,
        };
    let mut applying = policies.iter().filter(applies).peekable();
    if applying.peek().is_none() {
        // Without a policy, a VerticalPodAutoscaler controls CPU and memory.
        return ["cpu", "memory"].contains(&utilization.resource);
    }
    applying.any(|policy| {
        let controlled = policy.get("controlledResources").and_then(Value::as_array);
        let controls = controlled.is_none_or(|resources| {
            resources.iter().any(|one| one.as_str() == Some(utilization.resource))
        });
        let is_limits_only = string_at(policy, "/controlledValues") == "LimitsOnly";
        string_at(policy, "/mode") != "Off" && controls && !is_limits_only
    })
}

/// Reports other workloads whose pods the target's selector matches. These pods count as the
/// target's. If such a workload also has an autoscaler, a controller of both autoscalers scales
/// neither.
pub(super) fn overlapping_selectors(subject: &Subject<'_>, report: &mut Report<'_>) {
    let Some(target) = subject.target() else { return };
    let selector = target.object.pointer("/spec/selector").cloned().unwrap_or_default();
    // The selector of a ReplicationController is a map.
    let is_map = string_at(&target.object, "/kind") == "ReplicationController";
    let selector = if is_map { json!({ "matchLabels": selector }) } else { selector };
    let Ok(selector) = serde_json::from_value::<LabelSelector>(selector) else { return };
    let Ok(selector) = Selector::from_label_selector(Some(&selector)) else { return };
    let is_selected = |other: &&Manifest| {
        let template = pod_template(&other.object).unwrap_or(&Value::Null);
        let labels = template.pointer("/metadata/labels").and_then(Value::as_object);
        labels.is_some_and(|labels| {
            selector.matches_by(|name| labels.get(name).and_then(Value::as_str))
        })
    };
    let workspace = subject.workspace;
    let is_other = |other: &&Manifest| Reference::to(other) != Reference::to(target);
    let others = workspace.workloads(target, selector.required_pairs());
    for other in others.filter(is_other).filter(is_selected).take(MAX_NAMED_OBJECTS) {
        let reference = Reference::to(other);
        let mut autoscalers = [Api::Core, Api::Custom]
            .into_iter()
            .flat_map(|api| workspace.autoscalers_of(api, other, &reference));
        let effect = match autoscalers.next() {
            Some(hpa) => {
                let is_same_api = api_group(hpa) == api_group(subject.manifest);
                let hpa = name_with_api(hpa, subject.manifest);
                let effect = if is_same_api {
                    "neither acts"
                } else {
                    "a controller of both acts on neither"
                };
                format!("the autoscaler {hpa} scales it, so {effect}")
            }
            None => "they count in its metrics and replicas".to_owned(),
        };
        let message = format!(
            "the selector {selector} of {} also matches the pods of {}: {effect}",
            kind_and_name(target),
            kind_and_name(other)
        );
        report.add("spec.scaleTargetRef", message);
    }
}
