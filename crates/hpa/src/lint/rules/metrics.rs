//! Checks of metrics, against the pods and the metrics APIs.

use std::collections::BTreeSet;

use hpa_calc::api::{MetricSourceType, MetricSpec, MetricTarget};
use serde_json::Value;

use super::Subject;
use crate::{
    lint::{
        finding::{MISSING_REQUEST, TARGET_ABOVE_REQUEST, UNSERVED_METRIC, VPA_CONFLICT},
        workspace::{ServedMetrics, containers, group, namespace},
    },
    manifests::{Manifest, text},
};

/// A metric with a target in percent of a request.
struct Utilization<'a> {
    resource: &'a str,
    container: Option<&'a str>,
    percent: i32,
}

pub(super) fn check(subject: &mut Subject<'_>) {
    let hpa = subject.hpa;
    for (index, metric) in hpa.spec.metrics.iter().enumerate() {
        let field = format!("spec.metrics[{index}]");
        if let Some(utilization) = utilization(metric) {
            check_utilization(subject, &field, &utilization);
        }
        if let Some(served) = subject.workspace.served.clone()
            && let Some(message) = unserved(metric, &served)
        {
            subject.report(&UNSERVED_METRIC, field, message);
        }
    }
}

fn utilization(metric: &MetricSpec) -> Option<Utilization<'_>> {
    let of = |resource, container, target: &MetricTarget| {
        Some(Utilization { resource, container, percent: target.average_utilization? })
    };
    if let Some(source) = &metric.resource {
        return of(&source.name, None, &source.target);
    }
    let source = metric.container_resource.as_ref()?;
    of(&source.name, Some(&source.container), &source.target)
}

fn check_utilization(subject: &mut Subject<'_>, field: &str, utilization: &Utilization<'_>) {
    let Utilization { resource, container, percent } = utilization;
    if *percent > 100 {
        subject.report(
            &TARGET_ABOVE_REQUEST,
            format!("{field}.averageUtilization"),
            format!(
                "the target is {percent}% of the requested {resource}: pods must use more than \
                 they are guaranteed before the autoscaler adds any"
            ),
        );
    }
    let target = subject.workspace.referenced(subject.manifest, "/spec/scaleTargetRef");
    if let Some(target) = target {
        let without = containers_without_request(&target.object, resource, *container);
        if !without.is_empty() && !has_default(subject, resource) {
            subject.report(
                &MISSING_REQUEST,
                field,
                format!(
                    "containers without a request for {resource} in {} {}: {}. The metric fails \
                     until each pod has it",
                    target.kind(),
                    text(&target.object, "/metadata/name"),
                    without.join(", ")
                ),
            );
        }
    }
    for vpa in conflicting_vpas(subject, utilization) {
        subject.report(
            &VPA_CONFLICT,
            field,
            format!(
                "VerticalPodAutoscaler {vpa} changes the requests for {resource}, so both follow \
                 each other. Use a target of type AverageValue, or another resource for one of them"
            ),
        );
    }
}

fn containers_without_request(
    target: &Value,
    resource: &str,
    container: Option<&str>,
) -> Vec<String> {
    let has_amount = |resources: Option<&Value>| {
        // A request defaults to the limit.
        ["requests", "limits"].iter().any(|kind| {
            resources.and_then(|resources| resources.get(kind)?.get(resource)).is_some()
        })
    };
    let of_pod = target.pointer("/spec/template/spec/resources");
    if container.is_none() && has_amount(of_pod) {
        return Vec::new();
    }
    containers(target)
        .filter(|one| container.is_none_or(|name| text(one, "/name") == name))
        .filter(|one| !has_amount(one.get("resources")))
        .map(|one| text(one, "/name").to_owned())
        .collect()
}

/// Whether a `LimitRange` of the namespace gives containers a request for the resource. It takes one
/// of these members for it, if the others are absent.
fn has_default(subject: &Subject<'_>, resource: &str) -> bool {
    let is_near = |limits: &&Manifest| namespace(limits) == namespace(subject.manifest);
    let mut limits = subject.workspace.of_kind("LimitRange").filter(is_near).flat_map(|limits| {
        let limits = limits.object.pointer("/spec/limits").and_then(Value::as_array);
        limits.into_iter().flatten()
    });
    limits.any(|limit| {
        let members = ["defaultRequest", "default", "min", "max"];
        text(limit, "/type") == "Container"
            && members
                .iter()
                .any(|member| limit.get(member).is_some_and(|m| m.get(resource).is_some()))
    })
}

/// The names of the `VerticalPodAutoscaler`s that change the requests of the target's pods.
fn conflicting_vpas(subject: &Subject<'_>, utilization: &Utilization<'_>) -> Vec<String> {
    let target = &subject.hpa.spec.scale_target_ref;
    let is_same = |vpa: &&Manifest| {
        let reference = vpa.object.pointer("/spec/targetRef").unwrap_or(&Value::Null);
        namespace(vpa) == namespace(subject.manifest)
            && text(reference, "/kind") == target.kind
            && text(reference, "/name") == target.name
            && group(text(reference, "/apiVersion")) == group(&target.api_version)
    };
    let vpas = subject.workspace.of_kind("VerticalPodAutoscaler").filter(is_same);
    let vpas = vpas.filter(|vpa| changes_request(&vpa.object, utilization));
    vpas.map(|vpa| text(&vpa.object, "/metadata/name").to_owned()).collect()
}

fn changes_request(vpa: &Value, utilization: &Utilization<'_>) -> bool {
    if text(vpa, "/spec/updatePolicy/updateMode") == "Off" {
        return false;
    }
    let policies = vpa.pointer("/spec/resourcePolicy/containerPolicies").and_then(Value::as_array);
    let policies = policies.map(Vec::as_slice).unwrap_or_default();
    // Without a policy for all containers, the others have the default.
    let applies = |policy: &&Value| match (text(policy, "/containerName"), utilization.container) {
        ("*", _) | (_, None) => true,
        (name, Some(container)) => name == container,
    };
    let mut applying = policies.iter().filter(applies).peekable();
    if applying.peek().is_none() {
        return ["cpu", "memory"].contains(&utilization.resource);
    }
    applying.any(|policy| {
        let controlled = policy.get("controlledResources").and_then(Value::as_array);
        let controls = controlled.is_none_or(|resources| {
            resources.iter().any(|one| one.as_str() == Some(utilization.resource))
        });
        let is_limits_only = text(policy, "/controlledValues") == "LimitsOnly";
        text(policy, "/mode") != "Off" && controls && !is_limits_only
    })
}

/// Why nothing serves a metric.
fn unserved(metric: &MetricSpec, served: &ServedMetrics) -> Option<String> {
    let api = match metric.source_type {
        MetricSourceType::Resource | MetricSourceType::ContainerResource => "metrics.k8s.io",
        MetricSourceType::Pods | MetricSourceType::Object => "custom.metrics.k8s.io",
        MetricSourceType::External => "external.metrics.k8s.io",
        _ => return None,
    };
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
        // The kind's resource is not known here, so that of any resource counts.
        let is_it = |one: &str| one.split_once('/').is_some_and(|(_, metric)| metric == name);
        return is_unlisted(&served.custom, &is_it)
            .then(|| format!("the metric {name} in {api} is not served by {by}"));
    }
    let name = &metric.external.as_ref()?.metric.name;
    is_unlisted(&served.external, &|one| one == name)
        .then(|| format!("the metric {name} in {api} is not served by {by}"))
}
