//! The rules for `spec.behavior`.

use jiff::SignedDuration;

use super::field::{Causes, Path};
use crate::{
    api::{Behavior, PolicySelect, PolicyType, ScalingPolicy, ScalingRules},
    behavior::{MAX_POLICY_PERIOD, MAX_STABILIZATION_WINDOW},
};

pub(super) fn validate_behavior(causes: &mut Causes, path: &Path<'_>, behavior: &Behavior) {
    for (direction, rules) in [("scaleUp", &behavior.scale_up), ("scaleDown", &behavior.scale_down)]
    {
        if let Some(rules) = rules {
            validate_rules(causes, &path.child(direction), rules);
        }
    }
}

fn validate_rules(causes: &mut Causes, path: &Path<'_>, rules: &ScalingRules) {
    if let Some(window) = rules.stabilization_window_seconds {
        let path = path.child("stabilizationWindowSeconds");
        if window < 0 {
            causes.invalid(&path, window, "must be greater than or equal to zero");
        }
        at_most(causes, &path, window, MAX_STABILIZATION_WINDOW);
    }
    if let Some(PolicySelect::Other(other)) = &rules.select_policy {
        causes.not_supported(&path.child("selectPolicy"), other, PolicySelect::KNOWN);
    }
    let policies_path = path.child("policies");
    let policies = rules.policies.as_deref().unwrap_or_default();
    if policies.is_empty() {
        causes.required(&policies_path, "must specify at least one Policy");
    }
    for (index, policy) in policies.iter().enumerate() {
        validate_policy(causes, &policies_path.index(index), policy);
    }
    if let Some(tolerance) = rules.tolerance.as_ref().filter(|tolerance| tolerance.signum() < 0) {
        let value = format_args!("\"{tolerance}\"");
        causes.invalid(&path.child("tolerance"), value, "must be greater than or equal to 0");
    }
}

fn validate_policy(causes: &mut Causes, path: &Path<'_>, policy: &ScalingPolicy) {
    if let PolicyType::Other(other) = &policy.policy_type {
        causes.not_supported(&path.child("type"), other, PolicyType::KNOWN);
    }
    positive(causes, &path.child("value"), policy.value);
    positive(causes, &path.child("periodSeconds"), policy.period_seconds);
    at_most(causes, &path.child("periodSeconds"), policy.period_seconds, MAX_POLICY_PERIOD);
}

fn positive(causes: &mut Causes, path: &Path<'_>, value: i32) {
    if value <= 0 {
        causes.invalid(path, value, "must be greater than zero");
    }
}

fn at_most(causes: &mut Causes, path: &Path<'_>, value: i32, limit: SignedDuration) {
    let limit = limit.as_secs();
    if i64::from(value) > limit {
        causes.invalid(path, value, &format!("must be less than or equal to {limit}"));
    }
}
