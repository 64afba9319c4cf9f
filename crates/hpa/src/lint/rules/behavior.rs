//! Checks of `behavior`: windows, policies, tolerances.

use hpa_calc::{
    EffectiveBehavior, History, Settings,
    api::{PolicySelect, ScalingRules},
    history::Direction,
    settings::Tolerances,
};
use jiff::Timestamp;

use super::Subject;
use crate::lint::finding::{SHORT_WINDOW, STUCK_SCALE_UP, UNUSED_BEHAVIOR, WIDE_TOLERANCE};

/// The default sync period of controllers, and the resolution of metrics-server.
const RESOLUTION_SECONDS: i32 = 15;

pub(super) fn check(subject: &mut Subject<'_>) {
    check_tolerance(subject);
    let Some(behavior) = subject.hpa.spec.behavior.clone() else { return };
    for (rules, member) in [(&behavior.scale_up, "scaleUp"), (&behavior.scale_down, "scaleDown")] {
        if let Some(rules) = rules {
            check_rules(subject, rules, &format!("spec.behavior.{member}"));
        }
    }
    let is_disabled = |rules: &Option<ScalingRules>| {
        let select = rules.as_ref().and_then(|rules| rules.select_policy.as_ref());
        select == Some(&PolicySelect::Disabled)
    };
    if is_disabled(&behavior.scale_up) && is_disabled(&behavior.scale_down) {
        subject.report(
            &UNUSED_BEHAVIOR,
            "spec.behavior",
            "selectPolicy is Disabled in both directions, so the autoscaler never scales",
        );
    }
    if !is_disabled(&behavior.scale_up) {
        check_scale_up(subject);
    }
}

fn check_rules(subject: &mut Subject<'_>, rules: &ScalingRules, field: &str) {
    let window = rules.stabilization_window_seconds.unwrap_or_default();
    if (1..RESOLUTION_SECONDS).contains(&window) {
        subject.report(
            &SHORT_WINDOW,
            format!("{field}.stabilizationWindowSeconds"),
            format!(
                "a window of {window}s has one recommendation at most, because controllers decide \
                 every {RESOLUTION_SECONDS}s by default: it stabilizes nothing"
            ),
        );
    }
    let policies = rules.policies.as_deref().unwrap_or_default();
    for (index, policy) in policies.iter().enumerate() {
        if policy.period_seconds < RESOLUTION_SECONDS {
            subject.report(
                &SHORT_WINDOW,
                format!("{field}.policies[{index}].periodSeconds"),
                format!(
                    "a period of {}s is over before the next decision, because controllers decide \
                     every {RESOLUTION_SECONDS}s by default: the policy allows its change in each",
                    policy.period_seconds
                ),
            );
        }
    }
    // The manifest's own policies, not the defaults.
    let pointer = format!("/{}/policies", field.replace('.', "/"));
    let has_policies = subject.manifest.object.pointer(&pointer).is_some();
    if rules.select_policy == Some(PolicySelect::Disabled) && has_policies {
        subject.report(
            &UNUSED_BEHAVIOR,
            format!("{field}.policies"),
            "selectPolicy is Disabled, so the policies never apply",
        );
    }
}

/// Whether the policies allow a scale-up from the smallest size.
fn check_scale_up(subject: &mut Subject<'_>) {
    let spec = &subject.hpa.spec;
    let behavior = EffectiveBehavior::new(spec, &Settings::default());
    let min = spec.effective_min_replicas();
    let limit = behavior.up().limit(min, &History::default(), Timestamp::UNIX_EPOCH);
    if limit <= min {
        subject.report(
            &STUCK_SCALE_UP,
            "spec.behavior.scaleUp.policies",
            format!(
                "at {min} replicas the policies don't allow a scale-up: a percentage of 0 is 0. \
                 Add a policy of type Pods"
            ),
        );
    }
}

/// Whether a tolerance covers every ratio that leads from one bound to the other.
fn check_tolerance(subject: &mut Subject<'_>) {
    let spec = &subject.hpa.spec;
    let (min, max) = (spec.effective_min_replicas(), spec.max_replicas);
    if min <= 0 || min == max {
        return;
    }
    let Tolerances { up, down } = Tolerances::for_spec(spec, &Settings::default());
    let (least, most) = (f64::from(min), f64::from(max));
    let swallows = |direction| match direction {
        Direction::Up => most / least <= 1.0 + up,
        Direction::Down => least / most >= 1.0 - down,
    };
    for (direction, member, tolerance) in
        [(Direction::Up, "scaleUp", up), (Direction::Down, "scaleDown", down)]
    {
        if swallows(direction) {
            subject.report(
                &WIDE_TOLERANCE,
                format!("spec.behavior.{member}.tolerance"),
                format!(
                    "between {min} and {max} replicas, every step is within the tolerance of \
                     {tolerance}: the autoscaler reacts only to a load that is beyond its bounds"
                ),
            );
        }
    }
}
