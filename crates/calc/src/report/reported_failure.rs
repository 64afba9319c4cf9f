//! A failure that the controller reported last, although the same read succeeds here.

use super::{
    error_texts::lacked_series,
    failed_write::MAX_CAUSE_LEN,
    inputs::Inputs,
    metrics::MetricReport,
    reported::{failed_metrics, root_cause},
    reported_cause::about_cause,
    shared_target,
    source_failure::ADVICE_ABOUT_RELIST,
};
use crate::{
    api::{Condition, ConditionReason, ConditionStatus, ConditionType},
    decision::Decision,
    explain::Reason,
    go_text,
};

/// Advice about a failure of the controller that doesn't occur here.
pub const FAILS_ELSEWHERE: &str = "This doesn't fail here. If it stays, compare the controller's \
                                   rights, flags and sources with those of this report.";

/// A failure of the controller's last reconcile that doesn't occur here. The controller may lack a
/// right, or read another source, so the decision of the report is not the controller's.
pub(super) struct ReportedFailure<'a> {
    condition: &'a Condition,
    /// The index of the metric. `None` if the condition is not about a metric, or doesn't say which
    /// of several it is.
    metric: Option<usize>,
}

impl<'a> ReportedFailure<'a> {
    /// The failure in the status. `None` if the controller reported none, if it occurs here as
    /// well, or in a dry run: then another controller stored the status.
    pub(super) fn new(inputs: &'a Inputs, decision: &Decision<'_>) -> Option<Self> {
        let condition = blocking_condition(inputs)?;
        let explanation = decision.explanation();
        let metrics = &explanation.metrics;
        let mut failed = failed_metrics(&inputs.hpa, condition);
        failed.retain(|index| !inputs.readings.was_read_by_controller(*index));
        let succeeds_here = match failed.as_slice() {
            // The target was scaled up from zero by hand after this status was stored.
            [] if condition.reason == ConditionReason::ScalingDisabled => false,
            [] => {
                !matches!(explanation.reason(), Reason::Failed | Reason::ScalingDisabled)
                    && metrics.iter().all(|metric| metric.failure.is_none())
            }
            // If one of several fails here, it may be the one of the condition.
            failed => failed
                .iter()
                .all(|index| metrics.get(*index).is_some_and(|metric| metric.failure.is_none())),
        };
        let metric = failed.first().copied().filter(|_| failed.len() == 1);
        (succeeds_here && !inputs.settings.dry_run).then_some(Self { condition, metric })
    }

    /// The reason of the condition.
    pub(super) fn reason(&self) -> &'a ConditionReason {
        &self.condition.reason
    }

    /// The cause that the controller reported, and what to do about it.
    pub(super) fn advice(&self, inputs: &Inputs, metrics: &[MetricReport]) -> String {
        let cause = root_cause(&self.condition.message);
        let about_list = lacked_series(cause).then(|| ADVICE_ABOUT_RELIST.to_owned());
        let about_cause =
            about_list.or_else(|| about_cause(inputs, metrics.get(self.metric?)?, cause));
        let about_cause = about_cause.unwrap_or_else(|| FAILS_ELSEWHERE.to_owned());
        let separator = if cause.is_empty() { "" } else { ": " };
        let cause = go_text::truncate(cause.to_owned(), MAX_CAUSE_LEN);
        let cause = cause.trim_end_matches('.');
        format!("The controller last reported {}{separator}{cause}. {about_cause}", self.reason())
    }
}

/// The last stored condition that explains why the controller didn't decide: `FailedGetScale`, or
/// any `ScalingActive=False`. `None` in two cases: the controller has since read the metrics, so
/// the status is outdated; or the selector is ambiguous and the bounds of the target's autoscalers
/// conflict, so the condition is transient.
pub(super) fn blocking_condition(inputs: &Inputs) -> Option<&Condition> {
    let Inputs { hpa, readings, .. } = inputs;
    let able = hpa.status.condition(&ConditionType::AbleToScale);
    let able = able.filter(|able| able.reason == ConditionReason::FailedGetScale);
    let active = hpa.status.condition(&ConditionType::ScalingActive);
    let mut conditions = able.into_iter().chain(active);
    let failed = conditions.find(|condition| condition.status == ConditionStatus::False)?;
    let mut metrics = failed_metrics(hpa, failed);
    if metrics.is_empty() {
        metrics.extend(0..hpa.spec.metrics.len());
    }
    let is_outdated =
        !metrics.is_empty() && metrics.iter().all(|index| readings.was_read_by_controller(*index));
    let is_transient = failed.reason == ConditionReason::AmbiguousSelector
        && shared_target::bounds_conflict(inputs).is_some();
    (!is_outdated && !is_transient).then_some(failed)
}
