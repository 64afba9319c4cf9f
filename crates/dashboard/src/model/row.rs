//! A row of the list: an autoscaler's state and the reason for it, computed from its status.

use hpa_calc::{
    EffectiveBehavior, HorizontalPodAutoscaler, Report, Settings,
    api::{ConditionReason, ConditionType},
    report::{ShortReport, State, Surroundings, Warning},
};
use hpa_controller::{HpaKey, k8s::is_clearly_after};
use jiff::Timestamp;
use serde::Serialize;

use super::format_time;
use crate::past::{IdleAutoscaler, PastDecision, UnstoredStatus};

/// The state of an autoscaler, as the page shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum RowState {
    /// No controller acts on the autoscaler, or maybe none.
    NotHandled,
    /// The status reports stabilization, but is older than its window.
    OldStatus,
    #[serde(untagged)]
    Reported(State),
}

impl RowState {
    /// The state after a decision on the page.
    pub(crate) fn after(self, report: &Report) -> Self {
        match self {
            Self::NotHandled => self,
            // Without the history, the decision doesn't have the end of the window.
            Self::OldStatus => match report.state(State::Stabilizing) {
                State::Stabilizing if !report.history_known => self,
                state => Self::Reported(state),
            },
            Self::Reported(reported) => Self::Reported(report.state(reported)),
        }
    }
}

/// An autoscaler in the list.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    pub(crate) id: HpaKey,
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// Kind and name: `Deployment/web`.
    pub(crate) target: String,
    pub(crate) state: RowState,
    /// The reason for the state.
    pub(crate) sentence: String,
    /// Absent before the first status, and while the target's scale can't be read.
    pub(crate) current: Option<i32>,
    /// Absent before the first decision.
    pub(crate) desired: Option<i32>,
    /// The bounds at the time when the row was computed, which matters if there is a schedule.
    /// Absent if the object can't be decoded.
    pub(crate) min: Option<i32>,
    pub(crate) max: Option<i32>,
    /// The message of the condition `CustomSettings`: invalid settings, applied settings, and the
    /// next change of scheduled bounds. It may be from an earlier controller. In a dry run, these
    /// are the applied settings of the object.
    pub(crate) settings: Option<String>,
    /// Whether a setting is ignored or not used as written. The sentence names it. Settings that
    /// are valid but that kube-controller-manager ignores don't count.
    pub(crate) has_invalid_settings: bool,
    /// The largest ratio of a metric's value to its target.
    pub(crate) load: Option<f64>,
    /// Absent if the status has no such time: the target was never scaled, or the status could not
    /// be stored then.
    pub(crate) last_scale: Option<Timestamp>,
    /// The time since which there was no decision, if that is long ago. The rest of the row shows
    /// the status of that time.
    pub(crate) undecided_since: Option<Timestamp>,
    /// Whether the sentence lacks numbers that are only in the target's scale.
    #[serde(skip)]
    pub(crate) needs_scale: bool,
    /// The conflict with the bounds of other autoscalers of the target.
    #[serde(skip)]
    pub(crate) bounds_conflict: Option<String>,
    /// The end of the stabilization window that holds the replicas according to the status.
    #[serde(skip)]
    window_end: Option<Timestamp>,
}

impl Row {
    pub(crate) fn new(
        id: HpaKey,
        hpa: &HorizontalPodAutoscaler,
        settings: &Settings,
        surroundings: Surroundings<'_>,
        now: Timestamp,
    ) -> Self {
        let bounds = settings.bounds_at(&hpa.spec, now);
        let (status, target) = (&hpa.status, &hpa.spec.scale_target_ref);
        let report = ShortReport::with_surroundings(hpa, settings, surroundings);
        let needs_scale = report.needs_scale();
        let ShortReport { state, sentence, load, warnings, .. } = report;
        Self {
            namespace: id.namespace.to_string(),
            name: id.name.to_string(),
            id,
            target: format!("{}/{}", target.kind, target.name),
            state: RowState::Reported(state),
            sentence,
            current: current_replicas(hpa).filter(|_| !status.conditions.is_empty()),
            desired: desired_replicas(hpa),
            min: Some(bounds.min_replicas),
            max: Some(bounds.max_replicas),
            settings: settings_text(hpa, settings),
            has_invalid_settings: warnings.contains(&Warning::InvalidSettings),
            load,
            last_scale: status.last_scale_time,
            undecided_since: None,
            needs_scale,
            bounds_conflict: surroundings.bounds_conflict.map(str::to_owned),
            window_end: None,
        }
    }

    /// Adds that the target's scale is not read yet, if the row needs it.
    pub(crate) fn add_unread_scale(&mut self) {
        if self.needs_scale {
            self.sentence.push_str("; the number of existing pods is not read yet");
        }
    }

    /// Sets the end of the stabilization window, if the status says that stabilization holds the
    /// replicas. If the window has ended, shows that the status is old: the controller would have
    /// stored another one, unless it was restarted and its windows began again.
    pub(crate) fn set_window_end(
        &mut self,
        hpa: &HorizontalPodAutoscaler,
        settings: &Settings,
        stored_at: Option<Timestamp>,
        now: Timestamp,
    ) {
        let Some(stored_at) = stored_at else { return };
        if self.state != RowState::Reported(State::Stabilizing) {
            return;
        }
        let behavior = EffectiveBehavior::new(&hpa.spec, settings);
        let able = hpa.status.condition(&ConditionType::AbleToScale);
        let rules = match able.map(|able| &able.reason) {
            Some(ConditionReason::ScaleUpStabilized) => behavior.up(),
            _ => behavior.down(),
        };
        let window = rules.stabilization_window();
        self.window_end = stored_at.saturating_add(window).ok();
        if self.has_window_ended(now) {
            self.state = RowState::OldStatus;
            self.sentence = format!(
                "the status is from {}, longer ago than the stabilization window of {}s; before: \
                 {}",
                format_time(stored_at),
                window.as_secs(),
                self.sentence
            );
        }
    }

    /// Whether the row shows stabilization although the window has ended.
    pub(crate) fn has_window_ended(&self, now: Timestamp) -> bool {
        self.state == RowState::Reported(State::Stabilizing)
            && self.window_end.is_some_and(|end| is_clearly_after(now, end))
    }

    /// Shows that no controller acts on the autoscaler.
    pub(crate) fn set_not_handled(&mut self, IdleAutoscaler { clause, reason }: &IdleAutoscaler) {
        self.state = RowState::NotHandled;
        self.sentence = format!("{clause}: {reason}; before: {}", self.sentence);
        // The sentence says more.
        self.undecided_since = None;
    }

    /// Shows the controller's last decision instead of the stored status, which is older.
    pub(crate) fn replace_status(&mut self, unstored: &UnstoredStatus) {
        let UnstoredStatus { error, last_decision } = unstored;
        self.state = RowState::Reported(State::Failing);
        self.sentence = format!("the controller can't store the status: {error}");
        (self.load, self.needs_scale) = (None, false);
        self.last_scale = None;
        if let Some(PastDecision { current, scaled_to, sentence, until, .. }) = last_decision {
            self.last_scale = scaled_to.map(|_| *until);
            self.sentence.push_str("; its last decision: ");
            self.sentence.push_str(sentence);
            (self.current, self.desired) = (*current, scaled_to.or(*current));
        }
    }

    /// The row of an undecodable object.
    pub(crate) fn undecodable(id: HpaKey, error: &str) -> Self {
        let (hpa, settings) = (HorizontalPodAutoscaler::default(), Settings::default());
        let surroundings = Surroundings::default();
        let mut row = Self::new(id, &hpa, &settings, surroundings, Timestamp::UNIX_EPOCH);
        row.state = RowState::Reported(State::Failing);
        row.target = String::new();
        (row.min, row.max) = (None, None);
        row.sentence = format!("unable to decode the autoscaler: {error}");
        row
    }
}

/// The message about the autoscaler's own settings in its status. In a dry run, the controller
/// stores no status, so the applied settings are taken from the object.
fn settings_text(hpa: &HorizontalPodAutoscaler, settings: &Settings) -> Option<String> {
    if settings.dry_run {
        let applied = settings.summary.as_ref().map(|summary| summary.applied.as_str());
        let applied = applied.filter(|applied| !applied.is_empty());
        return Some(["dry-run=true"].into_iter().chain(applied).collect::<Vec<_>>().join(", "));
    }
    let custom = hpa.status.condition(&ConditionType::CustomSettings);
    custom.map(|condition| condition.message.to_string())
}

/// The current replicas in the status. `None` if the controller could not read the scale: the
/// status then has the previous replicas, or 0.
pub(crate) fn current_replicas(hpa: &HorizontalPodAutoscaler) -> Option<i32> {
    let able = hpa.status.condition(&ConditionType::AbleToScale);
    let is_unread = able.is_some_and(|one| one.reason == ConditionReason::FailedGetScale);
    (!is_unread).then_some(hpa.status.current_replicas)
}

/// The desired replicas in the status. `None` if the controller has not decided yet, or if no write
/// of the scale has succeeded: the status then has 0.
pub(crate) fn desired_replicas(hpa: &HorizontalPodAutoscaler) -> Option<i32> {
    let status = &hpa.status;
    let may_be_zero =
        hpa.spec.effective_min_replicas() == 0 || status.is_true(&ConditionType::ScaledToZero);
    let is_zero = may_be_zero && status.is_true(&ConditionType::ScalingActive);
    let is_known = status.desired_replicas != 0 || is_zero || current_replicas(hpa) == Some(0);
    (is_known && !status.conditions.is_empty()).then_some(status.desired_replicas)
}
