//! Checks of `behavior`: windows, policies, tolerances.

use hpa_calc::crd::member_path;
use hpa_calc::{
    EffectiveBehavior, History,
    api::{HorizontalPodAutoscalerSpec, PolicySelect, PolicyType, ScalingRules},
    defaults::apply_defaults,
    explain::counted,
    settings::{DOMAIN, Tolerances},
};
use jiff::Timestamp;

use super::rule::Subject;
use crate::lint::finding::Report;

/// The default sync period of controllers.
const SYNC_PERIOD_SECONDS: i32 = 15;

const SCALE_UP: &str = "spec.behavior.scaleUp";

/// The `scaleUp` and `scaleDown` of a spec, each with its path.
fn scaling_rules(
    spec: &HorizontalPodAutoscalerSpec,
) -> impl Iterator<Item = (&'static str, &ScalingRules)> {
    let behavior = spec.behavior.as_deref();
    let directions = behavior.map(|behavior| {
        [
            (SCALE_UP, behavior.scale_up.as_ref()),
            ("spec.behavior.scaleDown", behavior.scale_down.as_ref()),
        ]
    });
    directions.into_iter().flatten().filter_map(|(field, rules)| Some((field, rules?)))
}

/// A spec with an empty `behavior`, and with the defaults of the API server.
fn spec_with_defaults() -> HorizontalPodAutoscalerSpec {
    let behavior = Some(Box::default());
    let mut spec =
        HorizontalPodAutoscalerSpec { behavior, ..HorizontalPodAutoscalerSpec::default() };
    apply_defaults(&mut spec);
    spec
}

fn is_disabled(rules: &ScalingRules) -> bool {
    rules.select_policy == Some(PolicySelect::Disabled)
}

pub(super) fn short_window(subject: &Subject<'_>, report: &mut Report<'_>) {
    for (field, rules) in scaling_rules(&subject.hpa.spec) {
        let window = rules.stabilization_window_seconds.unwrap_or_default();
        if (1..SYNC_PERIOD_SECONDS).contains(&window) {
            let message = format!(
                "a window of {window}s has one recommendation at most, because controllers decide \
                 every {SYNC_PERIOD_SECONDS}s by default: it stabilizes nothing"
            );
            report.add(format!("{field}.stabilizationWindowSeconds"), message);
        }
        for (index, policy) in rules.policies.iter().flatten().enumerate() {
            if policy.period_seconds < SYNC_PERIOD_SECONDS {
                let message = format!(
                    "a period of {}s is over before the next decision, because controllers decide \
                     every {SYNC_PERIOD_SECONDS}s by default: the policy allows its change in each \
                     decision",
                    policy.period_seconds
                );
                report.add(format!("{field}.policies[{index}].periodSeconds"), message);
            }
        }
    }
}

pub(super) fn unused_behavior(subject: &Subject<'_>, report: &mut Report<'_>) {
    let spec = &subject.hpa.spec;
    let defaults = spec_with_defaults();
    for (field, rules) in scaling_rules(spec) {
        // The API server adds the default policies if there are none.
        let has_defaults = scaling_rules(&defaults)
            .any(|(other, default)| other == field && default.policies == rules.policies);
        if is_disabled(rules) && !has_defaults {
            let message = "selectPolicy is Disabled, so the policies never apply";
            report.add(format!("{field}.policies"), message);
        }
    }
    if scaling_rules(spec).filter(|(_, rules)| is_disabled(rules)).count() == 2 {
        let message = "selectPolicy is Disabled in both directions, so the autoscaler never scales";
        report.add("spec.behavior", message);
    }
}

pub(super) fn stuck_scale_up(subject: &Subject<'_>, report: &mut Report<'_>) {
    let spec = &subject.hpa.spec;
    let Some(rules) = spec.behavior.as_ref().map(|behavior| behavior.scale_up.as_ref()) else {
        return;
    };
    if rules.is_some_and(is_disabled) {
        return;
    }
    let behavior = EffectiveBehavior::new(spec, subject.settings);
    let is_stuck =
        |min: i32| behavior.up().limit(min, &History::default(), Timestamp::UNIX_EPOCH) <= min;
    let bounds = subject.bounds();
    let minimums = bounds.iter().filter(|bounds| bounds.min_replicas < bounds.max_replicas);
    let mut minimums = minimums.map(|bounds| bounds.min_replicas);
    if let Some(min) = minimums.find(|min| is_stuck(*min)) {
        let message = format!(
            "at {} the policies don't allow a scale-up: a percentage of 0 is 0. {}",
            counted(min, "replica"),
            rules.map_or(ADD_PODS_POLICY, stuck_policies_advice)
        );
        report.add(format!("{SCALE_UP}.policies"), message);
    }
}

const ADD_PODS_POLICY: &str = "Add a policy of type Pods";

/// The change of the policies that would allow a scale-up.
fn stuck_policies_advice(rules: &ScalingRules) -> &'static str {
    let mut policies = rules.policies.iter().flatten();
    match rules.select_policy {
        Some(PolicySelect::Min)
            if policies.any(|policy| policy.policy_type == PolicyType::Pods) =>
        {
            "Remove the policies of type Percent, or select Max"
        }
        Some(PolicySelect::Min) => "Use policies of type Pods only",
        _ => ADD_PODS_POLICY,
    }
}

/// Reports a tolerance that no change of the replicas between the bounds exceeds.
pub(super) fn wide_tolerance(subject: &Subject<'_>, report: &mut Report<'_>) {
    let spec = &subject.hpa.spec;
    // With a schedule, the replicas can be between the lowest minimum and the highest maximum.
    let bounds = subject.bounds();
    let widest = bounds.iter().map(|bounds| (bounds.min_replicas, bounds.max_replicas));
    let Some((min, max)) = widest.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))) else { return };
    if min == max || min <= 0 {
        return;
    }
    let Tolerances { up, down } = Tolerances::for_spec(spec, subject.settings);
    let (lowest, highest) = (f64::from(min), f64::from(max));
    for (member, tolerance, is_too_wide) in [
        ("scaleUp", up, highest / lowest <= 1.0 + up),
        ("scaleDown", down, lowest / highest >= 1.0 - down),
    ] {
        if is_too_wide {
            let message = format!(
                "between {min} and {max} replicas, every step is within the tolerance of \
                 {tolerance}: the autoscaler reacts only to a load that is beyond its bounds"
            );
            report.add(tolerance_field(subject, member), message);
        }
    }
}

/// The field of a direction's tolerance. If one setting or the controller sets both tolerances, the
/// findings of both directions are equal and reported once.
fn tolerance_field(subject: &Subject<'_>, member: &str) -> String {
    let annotation = format!("{DOMAIN}/tolerance");
    let object = &subject.manifest.object;
    if object.pointer(&format!("/spec/behavior/{member}/tolerance")).is_some() {
        format!("spec.behavior.{member}.tolerance")
    } else if object.pointer("/spec/tolerance").is_some() {
        "spec.tolerance".to_owned()
    } else if subject.hpa.metadata.annotations.contains_key(&annotation) {
        member_path("metadata.annotations", &annotation)
    } else {
        "spec.behavior".to_owned()
    }
}
