//! The table of rules. `docs/lint.md` has the same table, and a section for each rule.
//! `docs/contributing/add-a-lint-rule.md` shows how to add a rule.

mod annotations;
mod behavior;
mod bounds;
mod metrics;
mod pods;
mod target;
mod validity;

use hpa_calc::{HorizontalPodAutoscaler, Settings, api::MetricSpec, settings::Bounds};
use jiff::{SignedDuration, Timestamp};

pub(super) use self::target::{TARGET_POINTER, is_scalable};
use self::{
    Check::{Any, Decoded, Valid},
    validity::DecodedAutoscaler,
};
use super::{
    finding::{
        Finding, Report,
        Severity::{self, Error, Note, Warning},
    },
    workspace::{Reference, Workspace, is_autoscaler},
};
use crate::manifests::{Manifest, string_at};

/// The page with a section for each rule.
const DOCUMENT: &str = "docs/lint.md";

/// A kind of mistake that lint reports.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) id: &'static str,
    pub(super) severity: Severity,
    /// The mistake, as in the table of `docs/lint.md`.
    pub(super) summary: &'static str,
    check: Check,
}

/// The function of a rule, by the objects to which it applies.
#[derive(Clone, Copy, Debug)]
enum Check {
    /// Applies to objects of every kind.
    Any(fn(&Workspace, &Manifest, &mut Report<'_>)),
    /// Applies to autoscalers, also to invalid ones.
    Decoded(fn(&DecodedAutoscaler, &mut Report<'_>)),
    /// Applies to valid autoscalers.
    Valid(fn(&Subject<'_>, &mut Report<'_>)),
}

/// A valid autoscaler and all other objects.
struct Subject<'a> {
    workspace: &'a Workspace,
    manifest: &'a Manifest,
    /// The autoscaler with the API server's defaults.
    hpa: &'a HorizontalPodAutoscaler,
    /// The autoscaler's settings, with the default flags of the controller.
    settings: &'a Settings,
}

impl Rule {
    const fn new(
        id: &'static str,
        severity: Severity,
        summary: &'static str,
        check: Check,
    ) -> Self {
        Self { id, severity, summary, check }
    }

    pub(super) fn link(&self) -> String {
        format!("{DOCUMENT}#{}", self.id)
    }
}

/// All rules.
#[rustfmt::skip]
pub(super) static RULES: &[Rule] = &[
    Rule::new("invalid", Error, "the API server refuses a value", Decoded(validity::invalid)),
    Rule::new("unknown-field", Error, "the API doesn't have a field", Decoded(validity::unknown_field)),
    Rule::new("unknown-kind", Error, "the kind or the version of an autoscaler doesn't exist", Any(validity::unknown_kind)),
    Rule::new("removed-version", Error, "Kubernetes no longer serves the version", Decoded(validity::removed_version)),
    Rule::new("duplicate-key", Warning, "a key occurs twice, and one value is lost", Decoded(validity::duplicate_key)),
    Rule::new("duplicate-object", Warning, "a file has an object twice, and the first one is lost", Any(target::duplicate_object)),
    Rule::new("invalid-annotation", Warning, "a setting of this project is misspelled, has no valid value or has no effect", Decoded(annotations::invalid_annotation)),
    Rule::new("metric-config", Warning, "an annotation `metric-config.*` can't be used by a collector", Valid(annotations::metric_config)),
    Rule::new("missing-target", Warning, "the target doesn't exist, and a similar object does", Valid(target::missing_target)),
    Rule::new("unscalable-target", Warning, "the kind of the target can't be scaled", Valid(target::unscalable_target)),
    Rule::new("missing-selector", Warning, "the target's scale has no selector", Valid(target::missing_selector)),
    Rule::new("shared-target", Warning, "several autoscalers have the same target", Valid(target::shared_target)),
    Rule::new("replicas-in-manifest", Warning, "the manifest of the target sets `spec.replicas`", Valid(target::replicas_in_manifest)),
    Rule::new("raised-maximum", Warning, "a minimum is above the maximum while scheduled bounds hold", Valid(bounds::raised_maximum)),
    Rule::new("fixed-size", Warning, "`minReplicas` equals `maxReplicas`", Valid(target::fixed_size)),
    Rule::new("overlapping-selectors", Warning, "the target's selector matches pods of another workload", Valid(pods::overlapping_selectors)),
    Rule::new("missing-container", Warning, "the target has no container of this name", Valid(pods::missing_container)),
    Rule::new("missing-request", Warning, "a container lacks the request that a utilization is a percentage of", Valid(pods::missing_request)),
    Rule::new("vpa-conflict", Warning, "a VerticalPodAutoscaler changes the requests that the target is a percentage of", Valid(pods::vpa_conflict)),
    Rule::new("target-type", Warning, "the target's `type` doesn't fit the field that is set", Valid(metrics::target_type)),
    Rule::new("unknown-resource", Warning, "the resource metrics API doesn't have the resource", Valid(metrics::unknown_resource)),
    Rule::new("target-above-request", Warning, "the target utilization is above 100 % of the request", Valid(metrics::target_above_request)),
    Rule::new("implausible-quantity", Warning, "a quantity has the wrong unit", Valid(metrics::implausible_quantity)),
    Rule::new("duplicate-metric", Warning, "two metrics have the same source", Valid(metrics::duplicate_metric)),
    Rule::new("unserved-metric", Warning, "no API and no rule serves the metric", Valid(metrics::unserved_metric)),
    Rule::new("averaged-twice", Warning, "the query of a metric with `averageValue` computes an average", Valid(metrics::averaged_twice)),
    Rule::new("stuck-scale-up", Warning, "policies don't allow a scale-up from `minReplicas`", Valid(behavior::stuck_scale_up)),
    Rule::new("unused-behavior", Warning, "a part of `behavior` has no effect", Valid(behavior::unused_behavior)),
    Rule::new("wide-tolerance", Warning, "the tolerance is wider than every step between the bounds", Valid(behavior::wide_tolerance)),
    Rule::new("short-window", Note, "a window or a period is shorter than the sync period", Valid(behavior::short_window)),
    Rule::new("scale-to-zero", Note, "`minReplicas: 0` needs Kubernetes 1.37 or a feature gate", Valid(bounds::scale_to_zero)),
];

impl<'a> Subject<'a> {
    fn target_reference(&self) -> Reference {
        Reference::at(&self.manifest.object, TARGET_POINTER)
    }

    /// The different bounds of the autoscaler: those of the spec, or of a week by its schedule.
    fn bounds(&self) -> Vec<Bounds> {
        let (spec, from) = (&self.hpa.spec, Timestamp::UNIX_EPOCH);
        let to = from + SignedDuration::from_hours(7 * 24);
        let mut all = vec![self.settings.bounds_at(spec, from)];
        for change in self.settings.bounds_changes(spec, from, to) {
            if !all.contains(&change.bounds) {
                all.push(change.bounds);
            }
        }
        all
    }

    /// The target, if it is among the objects.
    fn target(&self) -> Option<&'a Manifest> {
        self.workspace.referenced_object(self.manifest, &self.target_reference())
    }
}

/// Kind and name of an object, such as `Deployment web`.
fn kind_and_name(manifest: &Manifest) -> String {
    format!("{} {}", manifest.kind(), string_at(&manifest.object, "/metadata/name"))
}

/// The path of a metric's source, such as `spec.metrics[0].resource`.
fn source_field(index: usize, metric: &MetricSpec) -> String {
    format!("spec.metrics[{index}].{}", metric.source_type.member())
}

/// Whether a metric is the usage of a resource.
fn is_resource(metric: &MetricSpec) -> bool {
    metric.resource.is_some() || metric.container_resource.is_some()
}

/// Whether an API server has stored the object, as in the output of `kubectl get`.
fn is_stored(manifest: &Manifest) -> bool {
    manifest.object.pointer("/metadata/uid").is_some()
}

/// Runs the checks that apply to an object.
pub(super) fn check_object(
    workspace: &Workspace,
    manifest: &Manifest,
    findings: &mut Vec<Finding>,
) {
    let decoded = is_autoscaler(manifest).then(|| validity::decode(manifest));
    let subject = decoded.as_ref().and_then(|decoded| {
        let (hpa, settings) = (decoded.hpa.as_ref()?, &decoded.resolved.as_ref()?.settings);
        Some(Subject { workspace, manifest, hpa, settings })
    });
    for rule in RULES {
        let mut report = Report { rule, manifest, findings };
        match (rule.check, &decoded, &subject) {
            (Any(check), ..) => check(workspace, manifest, &mut report),
            (Decoded(check), Some(decoded), _) => check(decoded, &mut report),
            (Valid(check), _, Some(subject)) => check(subject, &mut report),
            _ => {}
        }
    }
}
