//! Checks of the target, and of other autoscalers of it.

use serde_json::Value;

use super::Subject;
use crate::{
    lint::{
        finding::{FIXED_SIZE, MISSING_SELECTOR, REPLICAS_IN_MANIFEST, SHARED_TARGET, name},
        workspace::{group, namespace},
    },
    manifests::{Manifest, text},
};

const REFERENCE: &str = "/spec/scaleTargetRef";

pub(super) fn check(subject: &mut Subject<'_>) {
    check_bounds(subject);
    check_others(subject);
    check_selector(subject);
    if subject.workspace.is_files() {
        check_replicas(subject);
    }
}

fn check_bounds(subject: &mut Subject<'_>) {
    let spec = &subject.hpa.spec;
    let (min, max) = (spec.effective_min_replicas(), spec.max_replicas);
    if min == max {
        subject.report(
            &FIXED_SIZE,
            "spec.minReplicas",
            format!("minReplicas and maxReplicas are both {max}, so the autoscaler never scales"),
        );
    }
}

fn check_others(subject: &mut Subject<'_>) {
    let reference = |manifest: &Manifest| {
        let reference = manifest.object.pointer(REFERENCE).unwrap_or(&Value::Null);
        let part = |pointer| text(reference, pointer).to_owned();
        let group = group(text(reference, "/apiVersion")).to_owned();
        (namespace(manifest).to_owned(), group, part("/kind"), part("/name"))
    };
    let own = reference(subject.manifest);
    let others = subject
        .workspace
        .autoscalers()
        .filter(|other| !std::ptr::eq(*other, subject.manifest) && reference(other) == own);
    // Manifests of several environments may have the same autoscaler.
    let others = others.filter(|other| {
        name(other) != name(subject.manifest)
            || text(&other.object, "/apiVersion") != text(&subject.manifest.object, "/apiVersion")
    });
    let others: Vec<String> = others.map(name).collect();
    if !others.is_empty() {
        subject.report(
            &SHARED_TARGET,
            "spec.scaleTargetRef",
            format!(
                "{} {} is the target of {} too: none of them scales it",
                own.2,
                own.3,
                others.join(", ")
            ),
        );
    }
}

/// A custom resource needs a selector in its scale.
fn check_selector(subject: &mut Subject<'_>) {
    let target = &subject.hpa.spec.scale_target_ref;
    let (kind, group) = (target.kind.clone(), group(&target.api_version).to_owned());
    let definitions = subject.workspace.of_kind("CustomResourceDefinition").filter(|definition| {
        text(&definition.object, "/spec/names/kind") == kind
            && text(&definition.object, "/spec/group") == group
    });
    let lacks_selector = |definition: &Manifest| {
        let versions = definition.object.pointer("/spec/versions").and_then(Value::as_array);
        let mut scales = versions.into_iter().flatten().filter_map(|version| {
            version.pointer("/subresources/scale").map(|scale| text(scale, "/labelSelectorPath"))
        });
        scales.any(str::is_empty)
    };
    let found: Vec<_> = definitions.filter(|definition| lacks_selector(definition)).collect();
    if !found.is_empty() {
        subject.report(
            &MISSING_SELECTOR,
            "spec.scaleTargetRef",
            format!(
                "the definition of {kind} has no labelSelectorPath in its scale subresource, so \
                 the pods can't be found"
            ),
        );
    }
}

fn check_replicas(subject: &mut Subject<'_>) {
    let Some(target) = subject.workspace.referenced(subject.manifest, REFERENCE) else { return };
    if target.object.pointer("/metadata/uid").is_some() {
        // The output of `kubectl get` has the replicas that the autoscaler set.
        return;
    }
    if let Some(replicas) = target.object.pointer("/spec/replicas").filter(|one| !one.is_null()) {
        let message = format!(
            "{} {} sets spec.replicas to {replicas} ({}:{}): each apply of the manifest undoes the \
             autoscaler's scaling. Remove the field",
            target.kind(),
            text(&target.object, "/metadata/name"),
            target.file,
            target.line
        );
        subject.report(&REPLICAS_IN_MANIFEST, "spec.scaleTargetRef", message);
    }
}
