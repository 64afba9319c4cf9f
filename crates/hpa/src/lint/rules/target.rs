//! Checks of the target, and of other autoscalers with the same target.

use std::ptr;

use hpa_calc::{settings::Bounds, suggestions::is_similar};
use serde_json::Value;

use super::{Subject, is_stored, kind_and_name};
use crate::{
    lint::{
        finding::{Report, qualified_name},
        workspace::{Reference, group, namespace, pod_template},
    },
    manifests::{Manifest, string_at},
};

pub(in crate::lint) const TARGET_POINTER: &str = "/spec/scaleTargetRef";
const TARGET_FIELD: &str = "spec.scaleTargetRef";
const KEDA: &str = "keda.sh";
/// The effect of autoscalers of one API on one target. The controller detects it with the second
/// one that it reconciles, so the first one can scale before.
const SAME_API_EFFECT: &str = "none of them scales it, apart from one decision after each start \
                               of a controller";
/// The effect of autoscalers of both APIs on one target.
const BOTH_APIS_EFFECT: &str = "a controller of both APIs (--autoscaler-api=both) scales it by \
                                neither; two controllers, each of one API, may undo each \
                                other's changes. Keep one autoscaler";
/// The built-in kinds that have a scale, with their API groups.
const SCALABLE_KINDS: [(&str, &str); 4] = [
    ("apps", "Deployment"),
    ("apps", "StatefulSet"),
    ("apps", "ReplicaSet"),
    ("", "ReplicationController"),
];

pub(super) fn fixed_size(subject: &Subject<'_>, report: &mut Report<'_>) {
    if let [Bounds { min_replicas: min, max_replicas: max, .. }] = &*subject.bounds()
        && min == max
    {
        let message =
            format!("minReplicas and maxReplicas are both {max}, so the autoscaler never scales");
        report.add("spec.minReplicas", message);
    }
}

/// Reports a target that doesn't exist. In files, reports it only if the autoscaler may mean an
/// object without an autoscaler: one with a similar name, another kind or another namespace.
pub(super) fn missing_target(subject: &Subject<'_>, report: &mut Report<'_>) {
    let (workspace, manifest) = (subject.workspace, subject.manifest);
    let target = subject.target_reference();
    let is_same_namespace = |object: &Manifest| namespace(object) == namespace(manifest);
    let is_target =
        |object: &Manifest| Reference::to(object) == target && is_same_namespace(object);
    if workspace.objects().any(is_target) || !is_scalable(&target) {
        return;
    }
    let Reference { group, kind, name } = &target;
    // A custom resource may have the name of the Deployment that it manages.
    let is_built_in = !group.contains('.');
    if workspace.has_all_of_kind(&target) {
        let message = format!("{kind} {name} doesn't exist in namespace {}", namespace(manifest));
        report.add(format!("{TARGET_FIELD}.name"), message);
    }
    if !workspace.is_from_files() {
        return;
    }
    let has_no_autoscaler = |object: &&Manifest| {
        let scales_object = |hpa: &Manifest| {
            Reference::at(&hpa.object, TARGET_POINTER) == Reference::to(object)
                && namespace(hpa) == namespace(object)
        };
        pod_template(&object.object).is_some() && !workspace.autoscalers().any(scales_object)
    };
    let candidates: Vec<_> = workspace.objects().filter(has_no_autoscaler).collect();
    let find = |is_meant: &dyn Fn(&Reference, bool) -> bool| {
        candidates
            .iter()
            .find(|object| is_meant(&Reference::to(object), is_same_namespace(object)))
            .copied()
    };
    let is_same_kind = |other: &Reference| other.kind == target.kind && other.group == target.group;
    if let Some(other) = find(&|other, _| *other == target) {
        let message = format!(
            "{kind} {name} ({}) is in {}, and the autoscaler is in {}",
            place(other),
            in_namespace(other),
            in_namespace(manifest)
        );
        report.add("metadata.namespace", message);
        return;
    }
    let of_other_kind = find(&|other, is_same_namespace| {
        other.name == target.name
            && is_same_namespace
            && !is_same_kind(other)
            && is_scalable(other)
            && is_built_in
    });
    let of_similar_name = find(&|other, is_same_namespace| {
        is_same_kind(other) && is_same_namespace && is_similar(&other.name, &target.name)
    });
    let member = if of_other_kind.is_some() { "kind" } else { "name" };
    if let Some(other) = of_other_kind.or(of_similar_name) {
        let message =
            format!("there is no {kind} {name}, but {} ({})", kind_and_name(other), place(other));
        report.add(format!("{TARGET_FIELD}.{member}"), message);
    }
}

fn in_namespace(manifest: &Manifest) -> String {
    match namespace(manifest) {
        "" => "no namespace".to_owned(),
        name => format!("namespace {name}"),
    }
}

/// `file:line` of an object.
fn place(manifest: &Manifest) -> String {
    format!("{}:{}", manifest.file, manifest.position("metadata.name").line)
}

fn is_scalable(target: &Reference) -> bool {
    let Reference { group, kind, .. } = target;
    // Only groups of custom resources, which may have a scale, have a dot.
    group.contains('.') || SCALABLE_KINDS.contains(&(group.as_str(), kind.as_str()))
}

pub(super) fn unscalable_target(subject: &Subject<'_>, report: &mut Report<'_>) {
    let target = subject.target_reference();
    if is_scalable(&target) {
        return;
    }
    let Reference { group, kind, .. } = target;
    let similar = SCALABLE_KINDS.iter().find(|(_, known)| is_similar(known, &kind));
    let (member, message) = match similar {
        Some(("", known)) => ("apiVersion", format!("{known} is of the API v1")),
        Some((_, known)) if *known == kind => (
            "apiVersion",
            format!("the group {group} has no {kind} that can be scaled: use apps/v1"),
        ),
        Some((_, known)) => ("kind", format!("there is no kind {kind}: use {known}")),
        None => ("kind", format!("{kind} has no scale, so the autoscaler can't set its replicas")),
    };
    report.add(format!("{TARGET_FIELD}.{member}"), message);
}

pub(super) fn shared_target(subject: &Subject<'_>, report: &mut Report<'_>) {
    let (workspace, manifest) = (subject.workspace, subject.manifest);
    let target = subject.target_reference();
    let object = subject.target();
    // If one of the manifests has no namespace, both may be in the same one.
    let has_same_object = |other: &Manifest| {
        let other_target = workspace.referenced_object(other, &target);
        namespace(other).is_empty() != namespace(manifest).is_empty()
            && matches!((object, other_target), (Some(one), Some(other)) if ptr::eq(one, other))
    };
    let has_same_target = |other: &&Manifest| {
        Reference::at(&other.object, TARGET_POINTER) == target
            && (namespace(other) == namespace(manifest) || has_same_object(other))
    };
    let is_same_api = |other: &&Manifest| api_group(other) == api_group(manifest);
    // The same name and API is the same autoscaler, as in manifests of several environments.
    let is_other = |other: &&Manifest| {
        !is_same_api(other) || qualified_name(other) != qualified_name(manifest)
    };
    let others = workspace.autoscalers().filter(has_same_target).filter(is_other);
    let (of_same_api, of_other_api): (Vec<_>, Vec<_>) = others.partition(is_same_api);
    for (others, effect) in [(of_same_api, SAME_API_EFFECT), (of_other_api, BOTH_APIS_EFFECT)] {
        if !others.is_empty() {
            let is_certain = |other: &&Manifest| namespace(other) == namespace(manifest);
            let condition = if others.iter().all(is_certain) {
                ""
            } else {
                ". One of the manifests has no namespace: if it is for another one, add it"
            };
            let others: Vec<String> =
                others.iter().map(|other| name_with_api(other, manifest)).collect();
            let message = format!(
                "{} {} is also the target of {}: {effect}{condition}",
                target.kind,
                target.name,
                others.join(", ")
            );
            report.add(TARGET_FIELD, message);
        }
    }
    let owners = manifest.object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let is_created_by_keda =
        owners.into_iter().flatten().any(|owner| string_at(owner, "/kind") == "ScaledObject");
    let scaled_objects = workspace.of_kind("ScaledObject").filter(|object| {
        let reference = object.object.pointer(TARGET_POINTER).unwrap_or(&Value::Null);
        let text_or = |pointer, default| match string_at(reference, pointer) {
            "" => default,
            value => value,
        };
        group(string_at(&object.object, "/apiVersion")) == KEDA
            && namespace(object) == namespace(manifest)
            && string_at(reference, "/name") == target.name
            && text_or("/kind", "Deployment") == target.kind
            && group(text_or("/apiVersion", "apps/v1")) == target.group
    });
    let (created_kind, effect) = if api_group(manifest) == hpa_crd::GROUP {
        ("autoscaling/v2 autoscaler", BOTH_APIS_EFFECT)
    } else {
        ("autoscaler", SAME_API_EFFECT)
    };
    for object in scaled_objects.filter(|_| !is_created_by_keda) {
        let message = format!(
            "{} ({}) has the same target, and KEDA creates an {created_kind} for it: {effect}",
            kind_and_name(object),
            place(object)
        );
        report.add(TARGET_FIELD, message);
    }
}

pub(super) fn api_group(manifest: &Manifest) -> &str {
    group(string_at(&manifest.object, "/apiVersion"))
}

/// The name of an autoscaler, with its API if the autoscaler `other` has a different API.
pub(super) fn name_with_api(autoscaler: &Manifest, other: &Manifest) -> String {
    if api_group(autoscaler) == api_group(other) {
        return qualified_name(autoscaler);
    }
    format!("{} ({})", qualified_name(autoscaler), string_at(&autoscaler.object, "/apiVersion"))
}

/// Reports targets whose `CustomResourceDefinition` has a scale without `labelSelectorPath`.
pub(super) fn missing_selector(subject: &Subject<'_>, report: &mut Report<'_>) {
    let Reference { group, kind, .. } = subject.target_reference();
    let definitions = subject.workspace.of_kind("CustomResourceDefinition").filter(|definition| {
        string_at(&definition.object, "/spec/names/kind") == kind
            && string_at(&definition.object, "/spec/group") == group
    });
    let lacks_selector = |definition: &Manifest| {
        let versions = definition.object.pointer("/spec/versions").and_then(Value::as_array);
        let mut scales = versions.into_iter().flatten().filter_map(|version| {
            version
                .pointer("/subresources/scale")
                .map(|scale| string_at(scale, "/labelSelectorPath"))
        });
        scales.any(str::is_empty)
    };
    if definitions.into_iter().any(lacks_selector) {
        let message = format!(
            "the definition of {kind} has no labelSelectorPath in its scale subresource, so the \
             pods can't be found"
        );
        report.add(TARGET_FIELD, message);
    }
}

pub(super) fn replicas_in_manifest(subject: &Subject<'_>, report: &mut Report<'_>) {
    let Some(target) = subject.target().filter(|_| subject.workspace.is_from_files()) else {
        return;
    };
    if is_stored(target) {
        // A stored object has the replicas that the autoscaler set.
        return;
    }
    if let Some(replicas) = target.object.pointer("/spec/replicas").filter(|one| !one.is_null()) {
        let message = format!(
            "{} sets spec.replicas to {replicas}: each apply of the manifest undoes the \
             autoscaler's scaling. Remove the field",
            kind_and_name(target)
        );
        report.add_for_object(target, "spec.replicas", message);
    }
}
