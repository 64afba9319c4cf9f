//! The records of autoscalers in shadow mode, and the results of comparisons.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use hpa_calc::{
    EffectiveBehavior,
    api::{ConditionReason, HorizontalPodAutoscaler, HorizontalPodAutoscalerStatus, Scale},
    decide::Decision,
    history::History,
    plan::{Plan, ScaleReadError, SelectedPods},
    readings::Readings,
    settings::Settings,
};
use jiff::Timestamp;

use super::{
    comparison::{Comparison, Difference, explain_status},
    scaling::ScalingDifference,
    summary::ReportedDifference,
};

/// The weight of a comparison on metric values that one of our reconciles read.
const WEIGHT_SEEN: usize = 2;
/// The weight of a comparison on metric values that none of our reconciles read: it shows only that
/// a difference persists.
const WEIGHT_UNSEEN: usize = 1;

/// The weight of consecutive comparisons from which the result is [`ComparisonResult::Different`].
/// One field that differs in all of them is enough.
const THRESHOLD: usize = 2 * WEIGHT_SEEN;
/// The threshold if timing matters: the two controllers read different metric values, or a window
/// or a policy changed a decision. The times of their recommendations and scale events differ by up
/// to a sync period, so windows and policies end that much earlier for one of them.
const THRESHOLD_IF_TIMING_MATTERS: usize = 4 * WEIGHT_SEEN;

/// The number of our reconciles after which an unchanged status counts as the peer's decision on
/// the current replicas.
const MIN_UNCHANGED_RECONCILES: u32 = 2;

/// The number of earlier reconciles whose inputs are kept. If our last reconcile ran between the
/// peer's reads and its status write, its inputs may already show the peer's scaling. Those of the
/// reconcile before don't.
const EARLIER_INPUTS: usize = 2;

/// The result of comparing a decision with the peer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ComparisonResult {
    Same,
    /// The decisions differ, perhaps because the controllers read at different times or because the
    /// past is unknown.
    Unsettled,
    /// The decisions differ, one field in enough consecutive comparisons or in a scaling of the
    /// peer that windows and policies don't explain, and the past is known.
    Different,
}

impl ComparisonResult {
    /// The value of the metric label `result`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Unsettled => "unsettled",
            Self::Different => "different",
        }
    }
}

/// The result of a comparison, and whether to report it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluation {
    pub result: ComparisonResult,
    /// Whether the differences have changed or ended since the last report. `false` while
    /// unsettled, and if the decisions agree only on the metric values of the peer's status.
    pub is_new: bool,
}

/// The peer's status at a reconcile, compared with the last reconcile.
#[derive(Clone, Debug)]
pub(crate) struct Observation {
    /// The status that the peer decided on.
    pub(crate) previous_status: HorizontalPodAutoscalerStatus,
    /// Whether the peer wrote the status since our last reconcile.
    pub(crate) is_new_status: bool,
    /// Whether the decision is compared. If not, it only adds to the history: the peer renews its
    /// recommendation at each reconcile, although its status doesn't show it.
    pub(crate) is_compared: bool,
}

/// The comparisons of one autoscaler in shadow mode.
#[derive(Debug, Default)]
pub(crate) struct ShadowRecord {
    /// The autoscaler at our last reconcile.
    last_hpa: Arc<HorizontalPodAutoscaler>,
    /// The longest window or policy period. Zero if no controller had decided on the autoscaler
    /// when the record began.
    pub(super) relevant_past: Duration,
    /// The monotonic time from which the peer's whole relevant past is known.
    past_known_from: Duration,
    /// The number of our reconciles that saw a new status of the peer.
    pub(super) new_status_count: u64,
    /// The number of our reconciles since the peer's status or the spec changed.
    unchanged_reconcile_count: u32,
    /// The inputs of our last reconciles, newest first; `None` if one read no pods or metrics.
    inputs: VecDeque<Option<Arc<DecisionInputs>>>,
    /// The fields that differed in the last comparison, each with the total weight of the
    /// consecutive comparisons in which it differed.
    streaks: Vec<(String, usize)>,
    /// The differences that were last reported.
    reported: Vec<Difference>,
    pub(super) comparison_count: u64,
    pub(super) unsettled_count: u64,
    pub(super) different_count: u64,
    /// The number of comparisons with a known past. Only these can have the result
    /// [`ComparisonResult::Different`].
    pub(super) conclusive_comparison_count: u64,
    pub(super) last_difference: Option<ReportedDifference>,
    /// The number of comparisons with a [`ScalingDifference`] and the result
    /// [`ComparisonResult::Unsettled`].
    pub(super) uncounted_scaling_count: u64,
    /// The last of these comparisons.
    pub(super) last_uncounted_scaling: Option<ReportedDifference>,
}

impl ShadowRecord {
    /// A record that begins at `now` in monotonic time. An autoscaler without conditions has no
    /// past, since no controller has decided on it yet.
    pub(crate) fn new(
        hpa: Arc<HorizontalPodAutoscaler>,
        settings: &Settings,
        now: Duration,
    ) -> Self {
        let has_past = !hpa.status.conditions.is_empty();
        let relevant_past = if has_past { relevant_past(&hpa, settings) } else { Duration::ZERO };
        Self {
            last_hpa: hpa,
            relevant_past,
            past_known_from: now.saturating_add(relevant_past),
            ..Self::default()
        }
    }

    /// Updates the record with the current autoscaler. Returns `None` if there is no status to
    /// compare with: the peer has not written one yet, or the spec has changed since our last
    /// reconcile and the status has not.
    pub(crate) fn observe(&mut self, hpa: &Arc<HorizontalPodAutoscaler>) -> Option<Observation> {
        let previous = std::mem::replace(&mut self.last_hpa, hpa.clone());
        let is_new_status = previous.status != hpa.status;
        self.new_status_count += u64::from(is_new_status);
        let is_spec_changed = previous.spec != hpa.spec;
        if is_spec_changed {
            // The inputs have the metrics of the old spec.
            self.inputs.clear();
        }
        self.unchanged_reconcile_count =
            if is_new_status { 0 } else { self.unchanged_reconcile_count.saturating_add(1) };
        if hpa.status.conditions.is_empty() || (!is_new_status && is_spec_changed) {
            self.unchanged_reconcile_count = 0;
            return None;
        }
        let is_compared =
            is_new_status || self.unchanged_reconcile_count >= MIN_UNCHANGED_RECONCILES;
        let previous_status = previous.status.clone();
        Some(Observation { previous_status, is_new_status, is_compared })
    }

    /// Adds the inputs of a reconcile. Returns those of earlier reconciles, newest first.
    pub(crate) fn add_inputs(
        &mut self,
        inputs: Option<Arc<DecisionInputs>>,
    ) -> Vec<Arc<DecisionInputs>> {
        let earlier = self.inputs.iter().flatten().cloned().collect();
        self.inputs.push_front(inputs);
        self.inputs.truncate(EARLIER_INPUTS);
        earlier
    }

    /// Records a comparison at `now` in monotonic time, and returns the result.
    pub(crate) fn evaluate(
        &mut self,
        comparison: &Comparison,
        peer: &HorizontalPodAutoscalerStatus,
        now: Duration,
    ) -> Evaluation {
        let differences = &comparison.differences;
        self.update_streaks(comparison);
        let ours = &comparison.conclusion.explanation;
        let timing_matters = !comparison.has_same_metrics
            || ours.stabilized_by.iter().chain(&ours.limited_by).any(depends_on_time)
            || peer.conditions.iter().any(|condition| depends_on_time(&condition.reason));
        let threshold = if timing_matters { THRESHOLD_IF_TIMING_MATTERS } else { THRESHOLD };
        let is_persistent = self.streaks.iter().any(|(_, weight)| *weight >= threshold);
        let scaling = comparison.scaling_difference;
        let is_counted = is_persistent || scaling == Some(ScalingDifference::Exceeding);
        let is_conclusive = now >= self.past_known_from;
        let result = if differences.is_empty() {
            ComparisonResult::Same
        } else if is_counted && is_conclusive {
            ComparisonResult::Different
        } else {
            ComparisonResult::Unsettled
        };
        self.conclusive_comparison_count += u64::from(is_conclusive);
        self.comparison_count += 1;
        let last = || ReportedDifference {
            differences: differences.iter().map(ToString::to_string).collect(),
            ours: ours.to_string(),
            theirs: explain_status(peer),
        };
        match result {
            ComparisonResult::Same => {}
            ComparisonResult::Unsettled => {
                self.unsettled_count += 1;
                if scaling.is_some() {
                    self.uncounted_scaling_count += 1;
                    self.last_uncounted_scaling = Some(last());
                }
            }
            ComparisonResult::Different => {
                self.different_count += 1;
                self.last_difference = Some(last());
            }
        }
        let to_report =
            if result == ComparisonResult::Different { differences.as_slice() } else { &[] };
        let is_settled =
            result != ComparisonResult::Unsettled && !comparison.agrees_only_on_peer_metrics();
        let is_new = is_settled && self.reported != to_report;
        if is_new {
            self.reported = to_report.to_vec();
        }
        Evaluation { result, is_new }
    }

    /// Adds the comparison's weight to the streaks of the fields that differ, and ends all others.
    /// Changes nothing if the decisions agree only on the metric values of the peer.
    fn update_streaks(&mut self, comparison: &Comparison) {
        if comparison.agrees_only_on_peer_metrics() {
            return;
        }
        let previous = std::mem::take(&mut self.streaks);
        let weight = if comparison.has_read_peer_metrics { WEIGHT_SEEN } else { WEIGHT_UNSEEN };
        let extended = |difference: &Difference| {
            let streak = previous.iter().find(|(field, _)| *field == difference.field);
            (difference.field.clone(), streak.map_or(0, |(_, sum)| *sum) + weight)
        };
        self.streaks = comparison.differences.iter().map(extended).collect();
    }
}

/// Whether the reason means that a window or a policy changed a decision.
fn depends_on_time(reason: &ConditionReason) -> bool {
    use ConditionReason::{ScaleDownLimit, ScaleDownStabilized, ScaleUpLimit, ScaleUpStabilized};
    matches!(reason, ScaleUpStabilized | ScaleDownStabilized | ScaleUpLimit | ScaleDownLimit)
}

/// The longest window or policy period of an autoscaler.
fn relevant_past(hpa: &HorizontalPodAutoscaler, settings: &Settings) -> Duration {
    let behavior = EffectiveBehavior::new(&hpa.spec, settings);
    let window = behavior.longest_stabilization_window();
    window.max(behavior.longest_policy_period()).unsigned_abs()
}

/// The pods and metrics that one reconcile read.
#[derive(Clone, Debug)]
pub(crate) struct DecisionInputs {
    pub(crate) selected: SelectedPods,
    pub(crate) readings: Readings,
}

impl DecisionInputs {
    /// The decision on these pods and metrics.
    pub(crate) fn decide<'a>(
        &self,
        hpa: &'a HorizontalPodAutoscaler,
        scale: Result<Scale, ScaleReadError>,
        settings: &'a Settings,
        history: History,
        now: Timestamp,
    ) -> Decision<'a> {
        let plan = Plan::new(hpa, scale, settings, |_| self.selected.clone());
        plan.decide(self.readings.clone(), history, now)
    }
}
