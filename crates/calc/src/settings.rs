//! What the controller's flags say, and the rules that follow from it.

use jiff::{SignedDuration, Timestamp};

use crate::api::HorizontalPodAutoscalerSpec;

/// The controller-wide settings of a decision: the reference's `--horizontal-pod-autoscaler-*` flags.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// `--horizontal-pod-autoscaler-tolerance`: how far a usage ratio may be from 1 without a change, as a
    /// fraction.
    pub tolerance: f64,
    /// `--horizontal-pod-autoscaler-downscale-stabilization`: how far back a higher recommendation holds.
    pub downscale_stabilization: SignedDuration,
    /// `--horizontal-pod-autoscaler-cpu-initialization-period`: how long after its start a pod's CPU samples may
    /// be skipped.
    pub cpu_initialization_period: SignedDuration,
    /// `--horizontal-pod-autoscaler-initial-readiness-delay`: how long after its start a pod's unreadiness counts
    /// as never having been ready.
    pub initial_readiness_delay: SignedDuration,
    /// Whether an autoscaler may scale to zero and back (KEP-2021, gate `HPAScaleToZero`, on since 1.37).
    pub scale_to_zero: bool,
    /// Whether zero replicas are kept apart from a pause where the reference mistakes one for the other:
    ///
    /// - `ScaledToZero` is cleared as soon as the target has replicas, whoever gave it them. The reference leaves it,
    ///   and later takes a user's 0 for its own and undoes it.
    /// - Raising `minReplicas` above 0 wakes a target that was scaled to zero even if no metric can be read. The
    ///   reference leaves it at 0 until one can.
    ///
    /// Off is the reference exactly.
    pub strict_scale_to_zero: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            tolerance: 0.1,
            downscale_stabilization: SignedDuration::from_mins(5),
            cpu_initialization_period: SignedDuration::from_mins(5),
            initial_readiness_delay: SignedDuration::from_secs(30),
            scale_to_zero: true,
            strict_scale_to_zero: false,
        }
    }
}

/// How far a usage ratio may be from 1 without a change, for each direction, as fractions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerances {
    /// Above 1.
    pub up: f64,
    /// Below 1.
    pub down: f64,
}

impl Tolerances {
    /// Whether the ratio calls for no change; both edges are within.
    pub fn are_met_by(self, ratio: f64) -> bool {
        1.0 - self.down <= ratio && ratio <= 1.0 + self.up
    }

    /// The tolerances in force: an autoscaler's own (KEP-4951), else the controller's.
    pub fn of(spec: &HorizontalPodAutoscalerSpec, settings: &Settings) -> Self {
        let behavior = spec.behavior.as_ref();
        let up = behavior.and_then(|behavior| behavior.scale_up.as_ref()?.tolerance.as_ref());
        let down = behavior.and_then(|behavior| behavior.scale_down.as_ref()?.tolerance.as_ref());
        Self {
            up: up.map_or(settings.tolerance, crate::quantity::Quantity::as_f64),
            down: down.map_or(settings.tolerance, crate::quantity::Quantity::as_f64),
        }
    }
}

/// A point in time and how pods are judged at it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Readiness {
    /// Now.
    pub now: Timestamp,
    /// See [`Settings::cpu_initialization_period`].
    pub cpu_initialization_period: SignedDuration,
    /// See [`Settings::initial_readiness_delay`].
    pub initial_readiness_delay: SignedDuration,
}

impl Readiness {
    /// The rules of these settings at a time.
    pub fn at(now: Timestamp, settings: &Settings) -> Self {
        Self {
            now,
            cpu_initialization_period: settings.cpu_initialization_period,
            initial_readiness_delay: settings.initial_readiness_delay,
        }
    }
}

/// A time plus a span, held at the ends of time instead of failing.
pub(crate) fn after(time: Timestamp, span: SignedDuration) -> Timestamp {
    let end = if span.is_negative() { Timestamp::MIN } else { Timestamp::MAX };
    time.checked_add(span).unwrap_or(end)
}

/// A time minus a span, held at the ends of time instead of failing.
pub(crate) fn before(time: Timestamp, span: SignedDuration) -> Timestamp {
    let end = if span.is_negative() { Timestamp::MAX } else { Timestamp::MIN };
    time.checked_sub(span).unwrap_or(end)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    #[rstest]
    #[case::even(1.0, true)]
    #[case::upper_edge(1.1, true)]
    #[case::above(1.1_f64.next_up(), false)]
    #[case::lower_edge(0.8, true)]
    #[case::below(0.8_f64.next_down(), false)]
    #[case::not_a_number(f64::NAN, false)]
    #[case::infinite(f64::INFINITY, false)]
    fn both_edges_are_within(#[case] ratio: f64, #[case] expected: bool) {
        assert_eq!(Tolerances { up: 0.1, down: 0.2 }.are_met_by(ratio), expected);
    }

    #[rstest]
    #[case::none(json!({}), 0.1, 0.1)]
    #[case::behavior_without(json!({ "behavior": { "scaleUp": {}, "scaleDown": {} } }), 0.1, 0.1)]
    #[case::up(json!({ "behavior": { "scaleUp": { "tolerance": "50m" } } }), 0.05, 0.1)]
    #[case::down(json!({ "behavior": { "scaleDown": { "tolerance": "0" } } }), 0.1, 0.0)]
    fn an_autoscalers_own_tolerances(#[case] spec: Value, #[case] up: f64, #[case] down: f64) {
        let spec = serde_json::from_value(spec).unwrap();
        assert_eq!(Tolerances::of(&spec, &Settings::default()), Tolerances { up, down });
    }

    #[test]
    fn times_are_held_at_the_ends() {
        let (long, back) = (SignedDuration::MAX, SignedDuration::MIN);
        assert_eq!(after(Timestamp::UNIX_EPOCH, long), Timestamp::MAX);
        assert_eq!(after(Timestamp::UNIX_EPOCH, back), Timestamp::MIN);
        assert_eq!(before(Timestamp::UNIX_EPOCH, long), Timestamp::MIN);
        assert_eq!(before(Timestamp::UNIX_EPOCH, back), Timestamp::MAX);
    }
}
