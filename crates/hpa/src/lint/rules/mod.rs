//! The table of rules. `docs/lint.md` has the same table, and a section for each rule.
//! `docs/contributing/add-a-lint-rule.md` shows how to add a rule.

mod annotations;
mod behavior;
mod bounds;
mod identifiers;
mod metrics;
mod pods;
mod queries;
mod rule;
mod target;
mod target_group;
mod validity;

pub(super) use self::rule::Rule;
pub(crate) use self::{
    annotations::unknown_collector_type, queries::mistake_of_annotation, validity::invalid_fields,
};
use self::{
    queries::report_mistakes,
    rule::{
        Check::{Any, Decoded, Valid},
        Subject,
    },
    target_group::TargetGroups,
};
use super::{
    finding::{
        Finding, Report,
        Severity::{Error, Note, Warning},
    },
    object::is_autoscaler,
    queries::QueryMistake,
    workspace::Workspace,
};
use crate::{convert::stored_fields::StoredFields, manifests::Manifest};

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
    Rule::new("conflicting-bounds", Error, "two autoscalers of one target have bounds that exclude each other", Valid(target::conflicting_bounds)),
    Rule::new("shared-target", Warning, "several autoscalers have the same target", Valid(target::shared_target)),
    Rule::new("replicas-in-manifest", Warning, "the manifest of the target sets `spec.replicas`", Valid(target::replicas_in_manifest)),
    Rule::new("raised-maximum", Warning, "a minimum is above the maximum while scheduled bounds hold", Valid(bounds::raised_maximum)),
    Rule::new("fixed-size", Warning, "`minReplicas` equals `maxReplicas`", Valid(target::fixed_size)),
    Rule::new("overlapping-selectors", Warning, "the target's selector matches pods of another workload", Valid(pods::overlapping_selectors)),
    Rule::new("missing-container", Warning, "the target has no container of this name", Valid(pods::missing_container)),
    Rule::new("missing-request", Warning, "a container lacks the request that a utilization is a percentage of", Valid(pods::missing_request)),
    Rule::new("vpa-conflict", Warning, "a VerticalPodAutoscaler changes the requests that the target is a percentage of", Valid(pods::vpa_conflict)),
    Rule::new("target-type", Warning, "the target's `type` doesn't fit the field that is set", Valid(metrics::target_type)),
    Rule::new("schedule-value-target", Warning, "a schedule has a `Value` target", Valid(metrics::schedule_value_target)),
    Rule::new("unknown-resource", Warning, "the resource metrics API doesn't have the resource", Valid(metrics::unknown_resource)),
    Rule::new("invalid-selector", Warning, "the selector of a metric is invalid", Valid(identifiers::invalid_selector)),
    Rule::new("removed-object", Warning, "Kubernetes no longer serves the API of a metric's object", Valid(identifiers::removed_object)),
    Rule::new("target-above-request", Warning, "the target utilization is above 100 % of the request", Valid(metrics::target_above_request)),
    Rule::new("implausible-quantity", Warning, "a quantity has the wrong unit", Valid(metrics::implausible_quantity)),
    Rule::new("duplicate-metric", Warning, "two metrics have the same source", Valid(metrics::duplicate_metric)),
    Rule::new("unserved-metric", Warning, "no metrics API, and no rule that lint reads, has the metric", Valid(metrics::unserved_metric)),
    Rule::new("averaged-twice", Warning, "the query of a metric with `averageValue` computes an average", Valid(|autoscaler, report| report_mistakes(autoscaler, report, QueryMistake::Average))),
    Rule::new("counter-without-rate", Warning, "the query of a metric reads a counter without a rate", Valid(|autoscaler, report| report_mistakes(autoscaler, report, QueryMistake::PlainCounter))),
    Rule::new("quantile-without-le", Warning, "the query of a metric computes a quantile of buckets without their label `le`", Valid(|autoscaler, report| report_mistakes(autoscaler, report, QueryMistake::QuantileWithoutLe))),
    Rule::new("stuck-scale-up", Warning, "policies don't allow a scale-up from `minReplicas`", Valid(behavior::stuck_scale_up)),
    Rule::new("unused-behavior", Warning, "a part of `behavior` has no effect", Valid(behavior::unused_behavior)),
    Rule::new("wide-tolerance", Warning, "the tolerance is wider than every step between the bounds", Valid(behavior::wide_tolerance)),
    Rule::new("short-window", Note, "a window or a period is shorter than the sync period", Valid(behavior::short_window)),
    Rule::new("scale-to-zero", Note, "`minReplicas: 0` needs Kubernetes 1.37 or a feature gate", Valid(bounds::scale_to_zero)),
];

/// Runs the checks on all objects.
pub(super) fn check_objects(workspace: &Workspace, findings: &mut Vec<Finding>) {
    let decode = |one: &Manifest| is_autoscaler(one).then(|| validity::decode(one));
    let decoded: Vec<_> = workspace.objects().map(decode).collect();
    let objects = || workspace.objects().zip(&decoded);
    let mut subjects: Vec<Option<Subject<'_>>> = objects()
        .map(|(manifest, decoded)| Subject::new(workspace, manifest, decoded.as_ref()?))
        .collect();
    let groups = TargetGroups::new(&subjects);
    for subject in subjects.iter_mut().flatten() {
        subject.others = groups.others_of(subject);
    }
    for ((manifest, decoded), subject) in objects().zip(&subjects) {
        let stored_fields = &StoredFields::of(&manifest.object);
        for rule in RULES {
            let mut report = Report { rule, manifest, stored_fields, findings };
            match (rule.check, decoded, subject) {
                (Any(check), ..) => check(workspace, manifest, &mut report),
                (Decoded(check), Some(decoded), _) => check(decoded, &mut report),
                (Valid(check), _, Some(subject)) => check(subject, &mut report),
                _ => {}
            }
        }
    }
}
