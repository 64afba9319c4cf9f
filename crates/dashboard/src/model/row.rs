//! A row of the list: an autoscaler's state and the reason for it, computed from its status.

use hpa_calc::{
    HorizontalPodAutoscaler, Settings,
    api::{ConditionReason, ConditionType},
    report::{ShortReport, State, Surroundings, Warning},
};
use hpa_controller::HpaKey;
use jiff::Timestamp;
use serde::Serialize;

use crate::past::{PastDecision, UnstoredStatus};

/// An autoscaler in the list.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    pub(crate) id: HpaKey,
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// Kind and name: `Deployment/web`.
    pub(crate) target: String,
    pub(crate) state: State,
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
    /// The conflict with other autoscalers of the target, whose bounds exclude the own ones.
    #[serde(skip)]
    pub(crate) bounds_conflict: Option<String>,
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
            state,
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
        }
    }

    /// Shows the controller's last decision instead of the stored status, which is older.
    pub(crate) fn replace_status(&mut self, unstored: &UnstoredStatus) {
        let UnstoredStatus { error, last_decision, .. } = unstored;
        self.state = State::Failing;
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
        row.state = State::Failing;
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
