//! Checks of the target, and of other autoscalers with the same target.

use std::collections::BTreeMap;

use hpa_calc::{report::bounds_conflict_effect, settings::Bounds, suggestions::is_similar};
use hpa_controller::AutoscalerApi;
use serde_json::Value;

use super::{
    bounds::schedule_field,
    rule::{Subject, is_stored, kind_and_name},
    target_group::identity,
};
use crate::{
    autoscaler_name::other_api,
    lint::{
        finding::Report,
        object::{
            Reference, SCALABLE_KINDS, autoscaler_api, is_autoscaler, is_scalable, namespace,
            pod_template, qualified_name,
        },
        workspace::Workspace,
    },
    manifests::{Manifest, items, string_at},
};

const TARGET_FIELD: &str = "spec.scaleTargetRef";
const NAME_FIELD: &str = "metadata.name";
/// The annotation of a `ScaledObject` whose autoscaler exists already.
const TRANSFER_ANNOTATION: &str = "scaledobject.keda.sh/transfer-hpa-ownership";
/// The maximum number of other objects in the findings of a rule about one autoscaler.
pub(super) const MAX_NAMED_OBJECTS: usize = 10;
/// The maximum number of objects whose names are compared with that of a missing target.
const MAX_COMPARED_NAMES: usize = 300;
/// The effect of autoscalers of one API on one target. Which of the two occurs depends on the
/// bounds: the controller checks for an ambiguous selector only if the current replicas are within
/// `minReplicas` and `maxReplicas`. Otherwise, it scales the target to the nearest bound without
/// the check.
const SAME_API_EFFECT: &str = "the autoscalers stop scaling it by metrics (AmbiguousSelector) or \
                               overwrite each other's replicas";
/// The effect of autoscalers of one API on one target if one of them writes nothing: until the
/// replicas are within its bounds, the controller doesn't notice the conflict.
const PAUSED_EFFECT: &str = "one of them is paused or in dry run. Once the replicas stay within \
                             the bounds of all, none of them scales it by metrics";
/// The effect of autoscalers of one target if the bounds of some exclude each other.
const CONFLICT_EFFECT: &str = "some of its autoscalers have bounds that exclude each other, so \
                               they scale it up and down. Keep one autoscaler";
/// The effect of autoscalers of both APIs on one target.
const BOTH_APIS_EFFECT: &str = "with one controller for both APIs (--autoscaler-api=both), the \
                                autoscalers stop scaling it by metrics or overwrite each other's \
                                replicas; with two controllers, they overwrite each other's \
                                replicas. Keep one autoscaler";

pub(super) fn fixed_size(subject: &Subject<'_>, report: &mut Report<'_>) {
    if let [bounds @ Bounds { min_replicas: min, max_replicas: max, .. }] = &*subject.bounds()
        && min == max
    {
        let message =
            format!("minReplicas and maxReplicas are both {max}, so the autoscaler never scales");
        if *bounds == Bounds::of_spec(&subject.hpa.spec) {
            report.add("spec.minReplicas", message);
        } else {
            report.add(schedule_field(subject, 0), format!("by the schedule, {message}"));
        }
    }
}

/// Reports a target that doesn't exist. In files, reports it only if the autoscaler may mean an
/// object without an autoscaler: one with a similar name, another kind or another namespace.
pub(super) fn missing_target(subject: &Subject<'_>, report: &mut Report<'_>) {
    let (workspace, manifest) = (subject.workspace, subject.manifest);
    let target = subject.target_reference();
    if workspace.has_in_namespace(manifest, &target) || !is_scalable(&target) {
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
    if let Some(other) = workspace.unscaled_anywhere(&target) {
        let message = format!(
            "{kind} {name} ({}) is in {}, and the autoscaler is in {}",
            other.place(NAME_FIELD),
            in_namespace(other),
            in_namespace(manifest)
        );
        report.add("metadata.namespace", message);
        return;
    }
    let of_other_kind = workspace.unscaled_by_name(manifest, name).filter(|_| is_built_in);
    let is_named_similarly =
        |other: &&Manifest| is_similar(string_at(&other.object, "/metadata/name"), name);
    let of_similar_name = || {
        let candidates = workspace.unscaled_of_kind(manifest, &target);
        candidates.take(MAX_COMPARED_NAMES).find(is_named_similarly)
    };
    let member = if of_other_kind.is_some() { "kind" } else { "name" };
    if let Some(other) = of_other_kind.or_else(of_similar_name) {
        let message = format!(
            "there is no {kind} {name}, but {} ({})",
            kind_and_name(other),
            other.place(NAME_FIELD)
        );
        report.add(format!("{TARGET_FIELD}.{member}"), message);
    }
}

fn in_namespace(manifest: &Manifest) -> String {
    match namespace(manifest) {
        "" => "no namespace".to_owned(),
        name => format!("namespace {name}"),
    }
}

/// Reports an object that a later document of the same file overwrites. Equal names in different
/// files may be those of several environments.
pub(super) fn duplicate_object(
    workspace: &Workspace,
    manifest: &Manifest,
    report: &mut Report<'_>,
) {
    let is_checked = is_autoscaler(manifest) || pod_template(&manifest.object).is_some();
    let reference = Reference::to(manifest);
    if !workspace.is_from_files() || !is_checked || reference.name.is_empty() {
        return;
    }
    let mut others = workspace.later_namesakes(manifest);
    if let Some(other) = others.find(|other| other.file == manifest.file) {
        let message = format!(
            "{} occurs again in line {}: kubectl apply overwrites this one with it",
            kind_and_name(manifest),
            other.position(NAME_FIELD).line
        );
        report.add(NAME_FIELD, message);
    }
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

pub(super) fn conflicting_bounds(subject: &Subject<'_>, report: &mut Report<'_>) {
    let Reference { kind, name, .. } = subject.target_reference();
    for (other, own, of_other) in &subject.others.conflicting {
        let message = format!(
            "{kind} {name} is also the target of {}, with {of_other} instead of {own}: {}. Delete \
             one",
            names_with_places(&[*other], subject.manifest),
            bounds_conflict_effect("it", 1)
        );
        report.add(TARGET_FIELD, message);
    }
}

pub(super) fn shared_target(subject: &Subject<'_>, report: &mut Report<'_>) {
    let Subject { workspace, manifest, others, .. } = subject;
    let target = subject.target_reference();
    let own_identity = identity(manifest);
    let api = own_identity.0;
    for of_api in [api, other_api(api)] {
        let effect = match (others.has_conflict, of_api == api, others.has_paused) {
            (true, ..) => CONFLICT_EFFECT,
            (_, true, true) => PAUSED_EFFECT,
            (_, true, false) => SAME_API_EFFECT,
            (_, false, _) => BOTH_APIS_EFFECT,
        };
        let all = workspace.autoscalers_of(of_api, manifest, &target);
        let all = all.chain(workspace.possible_autoscalers_of(of_api, manifest, &target));
        let rest: Vec<&Manifest> = all
            .filter(|other| identity(other) != own_identity && !others.is_conflicting(other))
            .take(MAX_NAMED_OBJECTS + 1)
            .collect();
        if !rest.is_empty() {
            let is_certain = |other: &&Manifest| namespace(other) == namespace(manifest);
            let condition = if rest.iter().all(is_certain) {
                ""
            } else {
                ". One of the manifests has no namespace: add it if they are for different ones"
            };
            let message = format!(
                "{} {} is also the target of {}: {effect}{condition}",
                target.kind,
                target.name,
                names_with_places(&rest, manifest)
            );
            report.add(TARGET_FIELD, message);
        }
    }
    report_scaled_objects(subject, &target, report);
}

/// Reports KEDA's `ScaledObject`s with the same target. KEDA creates an autoscaler for each.
fn report_scaled_objects(subject: &Subject<'_>, target: &Reference, report: &mut Report<'_>) {
    let Subject { workspace, manifest, .. } = subject;
    let mut owners = items(manifest.object.pointer("/metadata/ownerReferences"));
    if owners.any(|owner| string_at(owner, "/kind") == "ScaledObject") {
        // KEDA created this autoscaler for its ScaledObject.
        return;
    }
    let api = autoscaler_api(manifest);
    let scaled_objects = workspace.scaled_objects_of(manifest, target).take(MAX_NAMED_OBJECTS);
    // KEDA creates autoscalers of the core API.
    let (created_kind, effect) = match api {
        AutoscalerApi::Core => ("autoscaler", SAME_API_EFFECT),
        AutoscalerApi::Custom => ("autoscaling/v2 autoscaler", BOTH_APIS_EFFECT),
    };
    let is_taken_over = |object: &Manifest| {
        api == AutoscalerApi::Core
            && is_taken_over_by(&object.object, string_at(&manifest.object, "/metadata/name"))
    };
    for object in scaled_objects.filter(|one| !is_taken_over(one)) {
        let message = format!(
            "{} ({}) has the same target, and KEDA creates an {created_kind} for it: {effect}",
            kind_and_name(object),
            object.place(NAME_FIELD)
        );
        report.add(TARGET_FIELD, message);
    }
}

/// Whether KEDA manages the existing autoscaler with this name for a `ScaledObject`, and creates no
/// other one.
fn is_taken_over_by(scaled_object: &Value, name: &str) -> bool {
    let annotations = scaled_object.pointer("/metadata/annotations");
    let transfer = annotations.and_then(|all| all.get(TRANSFER_ANNOTATION));
    transfer.and_then(Value::as_str) == Some("true")
        && string_at(scaled_object, "/spec/advanced/horizontalPodAutoscalerConfig/name") == name
}

/// The names of autoscalers, each once, with the first place of each that is in a file. An
/// autoscaler may have manifests for several environments.
fn names_with_places(autoscalers: &[&Manifest], manifest: &Manifest) -> String {
    let mut places: BTreeMap<String, &Manifest> = BTreeMap::new();
    for autoscaler in autoscalers.iter().take(MAX_NAMED_OBJECTS) {
        places.entry(name_with_api(autoscaler, manifest)).or_insert(autoscaler);
    }
    let names = places.into_iter().map(|(name, autoscaler)| match autoscaler.line {
        0 => name,
        _ => format!("{name} at {}", autoscaler.place(NAME_FIELD)),
    });
    let suffix = if autoscalers.len() > MAX_NAMED_OBJECTS { " and others" } else { "" };
    names.collect::<Vec<_>>().join(", ") + suffix
}

/// The name of an autoscaler, with its API if the autoscaler `other` has a different API.
pub(super) fn name_with_api(autoscaler: &Manifest, other: &Manifest) -> String {
    if autoscaler_api(autoscaler) == autoscaler_api(other) {
        return qualified_name(autoscaler);
    }
    format!("{} ({})", qualified_name(autoscaler), string_at(&autoscaler.object, "/apiVersion"))
}

/// Reports targets whose `CustomResourceDefinition` has a scale without `labelSelectorPath`.
pub(super) fn missing_selector(subject: &Subject<'_>, report: &mut Report<'_>) {
    let target = subject.target_reference();
    if subject.workspace.lacks_selector(&target) {
        let kind = &target.kind;
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
