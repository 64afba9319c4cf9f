//! Checks of the target's pods: containers, requests, `VerticalPodAutoscaler`s and labels.

use hpa_calc::{Quantity, Selector, selector::LabelSelector};
use hpa_controller::AutoscalerApi;
use serde_json::{Value, json};

use super::{
    rule::{Subject, is_resource, kind_and_name, source_field},
    target::{MAX_NAMED_OBJECTS, name_with_api},
};
use crate::{
    lint::{
        finding::Report,
        object::{Reference, autoscaler_api, containers, pod_template},
        served::MEASURED_RESOURCES,
    },
    manifests::{Manifest, items, string_at},
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

/// The metrics of an autoscaler that have a target in percent.
pub(super) fn utilizations<'a>(subject: &Subject<'a>) -> impl Iterator<Item = Utilization<'a>> {
    subject.metrics().filter_map(|(index, metric)| {
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
    for (index, metric) in subject.metrics() {
        let Some(source) = &metric.container_resource else { continue };
        if !names.is_empty() && !names.contains(&source.container.as_str()) {
            let message = format!(
                "{} has no container {}: its containers are {}",
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
    // `metrics.k8s.io` serves only these resources. A metric of any other resource fails even if
    // there is a request (rule `unknown-resource`).
    let utilizations =
        utilizations(subject).filter(|one| MEASURED_RESOURCES.contains(&one.resource));
    for Utilization { field, resource, container, .. } in utilizations {
        if let Some(problem) = request_problem(subject, target, resource, container) {
            report.add(field, problem);
        }
    }
}

/// The reason why the requests for a resource yield no utilization, if there is one. `container`
/// selects one container. `None` selects all containers, and the pod's own request counts for them.
fn request_problem(
    subject: &Subject<'_>,
    target: &Manifest,
    resource: &str,
    container: Option<&str>,
) -> Option<String> {
    let name = kind_and_name(target);
    let is_selected =
        |one: &Value| container.is_none_or(|container| string_at(one, "/name") == container);
    let of_pod = request(target.object.pointer("/spec/template/spec/resources"), resource);
    let of_pod = of_pod.filter(|_| container.is_none());
    let requests: Vec<_> = containers(&target.object)
        .filter(|(_, one)| is_selected(one))
        .map(|(field, one)| (field, one, of_pod.or(request(one.get("resources"), resource))))
        .collect();
    let lacking = requests.iter().filter(|(.., request)| request.is_none());
    let lacking = lacking.map(|(field, one, _)| match target.position(field).line {
        0 => string_at(one, "/name").to_owned(),
        line => format!("{} ({}:{line})", string_at(one, "/name"), target.file),
    });
    let lacking: Vec<String> = lacking.collect();
    if !lacking.is_empty() {
        let has_default = subject.workspace.has_default_request(subject.manifest, resource);
        return (!has_default).then(|| {
            format!(
                "containers without a request for {resource} in {name}: {}. The metric fails until \
                 each pod has it",
                lacking.join(", ")
            )
        });
    }
    let are_zero = requests.iter().all(|(.., request)| request.is_some_and(is_zero));
    (are_zero && !requests.is_empty()).then(|| {
        format!(
            "all requests for {resource} in {name} are 0, and a utilization is a percentage of \
             them. The metric always fails"
        )
    })
}

/// The request for a resource, which defaults to the limit.
fn request<'a>(resources: Option<&'a Value>, resource: &str) -> Option<&'a Value> {
    ["requests", "limits"].iter().find_map(|kind| resources?.get(kind)?.get(resource))
}

fn is_zero(quantity: &Value) -> bool {
    let text = quantity.as_str().map_or_else(|| quantity.to_string(), str::to_owned);
    text.parse::<Quantity>().is_ok_and(|quantity| quantity.milli_value().as_milli() == 0)
}

pub(super) fn vpa_conflict(subject: &Subject<'_>, report: &mut Report<'_>) {
    for utilization in utilizations(subject) {
        for vpa in conflicting_vpas(subject, &utilization) {
            let message = format!(
                "VerticalPodAutoscaler {vpa} changes the requests for {}, so the two autoscalers \
                 react to each other's changes. Use a target of type AverageValue, or a different \
                 resource for each",
                utilization.resource
            );
            report.add(utilization.field.clone(), message);
        }
    }
}

/// The names of the `VerticalPodAutoscaler`s that change the requests of the target's pods.
fn conflicting_vpas(subject: &Subject<'_>, utilization: &Utilization<'_>) -> Vec<String> {
    let names: Vec<&str> = match (utilization.container, subject.target()) {
        (Some(container), _) => vec![container],
        (None, Some(target)) => {
            let containers = items(target.object.pointer("/spec/template/spec/containers"));
            containers.map(|container| string_at(container, "/name")).collect()
        }
        (None, None) => Vec::new(),
    };
    let target = subject.target_reference();
    let vpas = subject.workspace.vertical_autoscalers_of(subject.manifest, &target);
    let conflicting = vpas.filter(|vpa| changes_request(&vpa.object, utilization.resource, &names));
    conflicting
        .take(MAX_NAMED_OBJECTS)
        .map(|vpa| string_at(&vpa.object, "/metadata/name").to_owned())
        .collect()
}

/// Whether a `VerticalPodAutoscaler` changes the request for a resource in one of the containers
/// with these names. They are empty if the containers are unknown.
fn changes_request(vpa: &Value, resource: &str, containers: &[&str]) -> bool {
    if string_at(vpa, "/spec/updatePolicy/updateMode") == "Off" {
        return false;
    }
    let policies: Vec<&Value> =
        items(vpa.pointer("/spec/resourcePolicy/containerPolicies")).collect();
    let find = |name: &str| policies.iter().find(|one| string_at(one, "/containerName") == name);
    let policy_of = |name: &str| find(name).or_else(|| find("*")).copied().unwrap_or(&Value::Null);
    let changes = |policy: &Value| {
        let is_controlled = match policy.get("controlledResources").and_then(Value::as_array) {
            Some(resources) => resources.iter().any(|one| one.as_str() == Some(resource)),
            // By default, a VerticalPodAutoscaler controls CPU and memory.
            None => ["cpu", "memory"].contains(&resource),
        };
        let is_limits_only = string_at(policy, "/controlledValues") == "LimitsOnly";
        is_controlled && string_at(policy, "/mode") != "Off" && !is_limits_only
    };
    match containers {
        [] if policies.is_empty() => changes(&Value::Null),
        [] => policies.iter().any(|policy| changes(policy)),
        containers => containers.iter().any(|name| changes(policy_of(name))),
    }
}

/// Reports other workloads whose pods the target's selector matches. These pods count as the
/// target's. If such a workload is the target of another autoscaler, a controller of both
/// autoscalers scales by neither.
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
        let mut autoscalers = AutoscalerApi::ALL
            .into_iter()
            .flat_map(|api| workspace.autoscalers_of(api, other, &reference));
        let effect = match autoscalers.next() {
            Some(hpa) => {
                let is_same_api = autoscaler_api(hpa) == autoscaler_api(subject.manifest);
                let hpa = name_with_api(hpa, subject.manifest);
                let effect = if is_same_api {
                    "neither autoscaler scales"
                } else {
                    "a controller of both APIs (--autoscaler-api=both) scales by neither autoscaler"
                };
                let other = kind_and_name(other);
                format!("{other} is the target of the autoscaler {hpa}, so {effect}")
            }
            None => "the autoscaler counts these pods in its metrics and replicas".to_owned(),
        };
        let message = format!(
            "the selector {selector} of {} also matches the pods of {}: {effect}",
            kind_and_name(target),
            kind_and_name(other)
        );
        report.add("spec.scaleTargetRef", message);
    }
}
