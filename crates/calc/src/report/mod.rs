//! A detailed report of a decision: the readings and the calculation step by step, the changes that
//! would lead to another decision, and advice about failures.
//!
//! A report is made on demand, for a person, and not in a reconcile. It is built from the inputs of
//! a decision and the results of the engine. To find the changes, it runs the engine on changed
//! inputs.
//!
//! In these modules, "here" means in this report, with its rights, flags and sources. "The
//! controller" is the running one, whose rights, flags and sources may differ. An "outdated" status
//! reports what no longer holds, such as the failure of a metric that was read since then.

mod advice;
mod change;
mod doubt;
pub mod error_texts;
mod failed_write;
mod failure;
mod headline;
mod inputs;
mod limits;
mod metrics;
mod phrases;
mod reported;
mod reported_cause;
mod reported_failure;
mod shared_target;
mod short;
mod source_failure;
mod target_pods;
mod text;
mod warning;

use std::{borrow::Cow, collections::BTreeMap};

use jiff::Timestamp;
use serde::Serialize;

use self::doubt::{Context, Doubts};
pub use self::{
    advice::FILES_LACK_OWNERS,
    change::{Change, Trigger},
    failed_write::about_missing_right,
    inputs::Inputs,
    limits::{HoldingRecommendation, PolicyReport, RateLimit, ReplicaLimits, Stabilization},
    metrics::{MetricReport, PodReport, UnselectedSamples},
    reported::root_cause,
    reported_cause::{collector_events_command, reported_absence},
    reported_failure::FAILS_ELSEWHERE,
    shared_target::{
        TargetIndex, TargetKey, bounds_conflict_effect, describe_bounds_conflict, enforced_bounds,
    },
    short::{OverwrittenScalings, ShortReport, State, Surroundings},
    source_failure::{
        about_result_of_collector, problem_of_collector_settings, rules_explain_command,
    },
    text::ReportLines,
    warning::{Warning, describe_built_in},
};
use crate::{
    api::{Condition, HorizontalPodAutoscaler},
    explain::{Reason, SettingEffect, UnschedulablePods, one_line},
    pause::Pause,
    settings::BoundsChange,
};
pub use crate::{messages::ambiguous_autoscalers, settings::Bounds};

impl Inputs {
    /// Reports the decision.
    pub fn report(&self) -> Report {
        self.report_with_advice(None, &BTreeMap::new())
    }

    /// Reports the decision. `doubt` is a reason why the decision may not be carried out that the
    /// inputs don't show, for example that no controller is running. `advice` has the caller's
    /// advice by the index of the metric: for a failed metric, it replaces the advice of the
    /// report, and for a metric that was read, it is about a wrong value.
    pub fn report_with_advice(
        &self,
        doubt: Option<String>,
        advice: &BTreeMap<usize, String>,
    ) -> Report {
        Report::new(self, doubt, advice).with_escaped_texts()
    }

    /// The indices of the metrics that could not be read here, but that the controller may read:
    /// they have a value in its last status, it reports no failure of them, or they may be of a
    /// source that it can't read at present. If the caller has no advice for them,
    /// [`Inputs::report_with_advice`] gives advice about that source.
    pub fn metrics_of_controller_sources(&self) -> Vec<usize> {
        let decision = self.decide();
        let reported = reported::ReportedMetrics::new(self, &decision);
        let metrics = decision.explanation().metrics.iter().enumerate();
        let of_sources = metrics.filter(|(index, metric)| {
            reported.controller_may_read(*index)
                || reported.may_be_of_unreadable_source(*index, metric)
        });
        of_sources.map(|(index, _)| index).collect()
    }
}

/// A decision, explained in detail. `Display` prints it as a text of several lines. The first line
/// is the decision in one sentence.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "they are independent facts")]
pub struct Report {
    /// `namespace/name` of the autoscaler, or its name if it has no namespace.
    pub autoscaler: String,
    /// `kind/name` of the target.
    pub target: String,
    /// The time of the decision.
    pub at: Timestamp,
    /// The same time by the clock of the samples.
    #[serde(skip)]
    at_by_samples: Timestamp,
    /// The decision and its reason, in one sentence.
    pub sentence: String,
    /// The durations in the sentence that differ in each report.
    #[serde(skip)]
    durations: Vec<String>,
    /// The reasons why the controller may do something else, at most one of each kind:
    ///
    /// - The first of these that applies: metrics that can't be read here; a condition that the
    ///   controller reported last; an absent status; an unknown history. Without a controller, only
    ///   a limit that the next one may apply.
    /// - The first of these that applies: the caller's reason, such as that no controller runs;
    ///   settings that only one of the possible controllers obeys; Succeeded pods, which
    ///   kube-controller-manager counts before 1.38.
    /// - A dry run that prevents a write.
    pub doubt: Option<String>,
    /// Whether no controller runs. The caller then gave the doubt, which applies to any decision.
    #[serde(skip)]
    lacks_controller: bool,
    /// The directions that are paused.
    #[serde(skip)]
    pause: Pause,
    /// Whether nothing is written for the autoscaler.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// The main cause of the desired replicas.
    pub reason: Reason,
    /// The target's `spec.replicas`. Absent if the scale could not be read.
    pub current_replicas: Option<i32>,
    /// The target's `status.replicas`. Absent if it is unknown.
    pub status_replicas: Option<i32>,
    /// See [`target_pods::lacks_existing_pods`].
    #[serde(skip)]
    lacks_existing_pods: bool,
    /// The pods that the scheduler can't place. Absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unschedulable_pods: Option<UnschedulablePods>,
    /// See [`Explanation::unready_pods`](crate::Explanation::unready_pods).
    #[serde(skip)]
    unready_pods: Option<usize>,
    /// The target's selector.
    pub selector: Option<String>,
    /// The desired replicas, after all limits. Absent if the decision failed.
    pub desired_replicas: Option<i32>,
    /// The replicas that are written to the target's scale, if any.
    pub scale_to: Option<i32>,
    /// The metrics, in the order of `spec.metrics`. Empty if no metrics were evaluated.
    pub metrics: Vec<MetricReport>,
    /// The index of the metric with the largest proposal.
    pub winner: Option<usize>,
    /// The largest proposal.
    pub proposed_replicas: Option<i32>,
    /// The effective `minReplicas` and `maxReplicas`.
    pub bounds: Bounds,
    /// The next change of the bounds by a schedule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_bounds: Option<BoundsChange>,
    /// The effects of the autoscaler's settings, other than on single metrics.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<SettingEffect>,
    /// Stabilization and the rate limits, which apply to the proposal before the bounds. Absent
    /// without a proposal.
    pub limits: Option<ReplicaLimits>,
    /// Whether recommendations and scale events were known. If not, stabilization and policies may
    /// prevent the scaling of this report.
    pub history_known: bool,
    /// The changes that would lead to other replicas. Of the metrics, only the first 10 are tried.
    /// The end of a pause is listed even if the replicas stay.
    pub changes: Vec<Change>,
    /// The error, if the reconcile failed or some metrics did.
    pub error: Option<String>,
    /// Advice about problems.
    pub advice: Vec<String>,
    /// The advice about the limit that decides.
    #[serde(skip)]
    limit_advice: Option<String>,
    /// The conditions that the autoscaler's controller stored last.
    pub reported_conditions: Vec<Condition>,
}

impl Report {
    fn new(
        inputs: &Inputs,
        doubt_of_caller: Option<String>,
        advice_of_caller: &BTreeMap<usize, String>,
    ) -> Self {
        let Inputs { hpa, scale, history, now, .. } = inputs;
        let decision = inputs.decide();
        let explanation = decision.explanation();
        let scale = scale.as_ref().ok();
        let context = Context::new(inputs, &decision);
        let doubts = Doubts::new(&context, doubt_of_caller);
        let is_decided = explanation.reason() != Reason::Failed;
        let metrics = metrics::metric_reports(inputs, explanation);
        let limit_advice = advice::about_limits(&context, &metrics, advice_of_caller);
        let mut advice =
            advice::advise(&context, &metrics, advice_of_caller, limit_advice.as_ref());
        advice.extend(doubts.advice.map(ToOwned::to_owned));
        let target = &hpa.spec.scale_target_ref;
        Self {
            autoscaler: hpa.metadata.qualified_name(),
            target: format!("{}/{}", target.kind, target.name),
            at: *now,
            at_by_samples: inputs.now_by_samples(),
            sentence: headline::sentence(&context, &metrics, &doubts),
            durations: headline::durations(&context),
            doubt: (!doubts.clauses.is_empty()).then(|| doubts.clauses.join("; ")),
            lacks_controller: doubts.lacks_controller,
            pause: inputs.settings.pause,
            dry_run: inputs.settings.dry_run,
            reason: explanation.reason(),
            current_replicas: scale.map(|scale| scale.spec_replicas),
            status_replicas: scale.map(|scale| scale.status_replicas),
            lacks_existing_pods: target_pods::lacks_existing_pods(inputs),
            unschedulable_pods: explanation.unschedulable_pods,
            unready_pods: explanation.unready_pods,
            selector: scale.map(|scale| scale.selector.clone()),
            desired_replicas: is_decided.then_some(explanation.desired_replicas),
            scale_to: decision.scale_to(),
            winner: explanation.winner,
            proposed_replicas: explanation.proposed_replicas,
            bounds: decision.bounds,
            next_bounds: inputs.settings.next_bounds_change(&hpa.spec, *now),
            effects: explanation.effects.clone(),
            limits: ReplicaLimits::new(inputs, explanation),
            history_known: history.is_some(),
            changes: change::find(inputs, &decision),
            error: decision.error().map(ToString::to_string),
            advice,
            limit_advice,
            metrics,
            reported_conditions: hpa.status.conditions.clone(),
        }
    }

    /// The sentence without durations that differ in each report, such as the time for which
    /// stabilization lasts.
    pub fn sentence_without_durations(&self) -> String {
        let without = |sentence: String, duration: &String| sentence.replacen(duration, "", 1);
        self.durations.iter().fold(self.sentence.clone(), without)
    }

    /// Removes the advice about a controller that may not be able to decide or to store its status,
    /// if it has just stored one. `stored_at` is the time of the last one, if it is known.
    pub fn remove_advice_about_old_status(&mut self, stored_at: Option<Timestamp>) {
        let age = stored_at.map(|stored_at| self.at_by_samples.duration_since(stored_at));
        if age.is_some_and(|age| age <= doubt::STATUS_PERIOD) {
            self.advice.retain(|advice| advice != doubt::ADVICE_ABOUT_OLD_STATUS);
        }
    }

    /// Removes the changes that would lead to other replicas and the advice about a limit, because
    /// the controller can't make this decision.
    pub fn discard_consequences(&mut self) {
        self.changes.clear();
        let limit_advice = self.limit_advice.take();
        self.advice.retain(|advice| Some(advice) != limit_advice.as_ref());
    }

    /// Adds a clause and advice about overwritten scalings of this autoscaler. `None` adds nothing.
    pub fn add_overwritten_scalings(
        &mut self,
        scalings: Option<OverwrittenScalings>,
        hpa: &HorizontalPodAutoscaler,
    ) {
        if let Some(scalings) = scalings {
            self.sentence = format!("{}; {scalings}", self.sentence);
            let advice = advice::about_overwritten(&scalings.to_string(), hpa);
            self.advice.insert(0, one_line(&advice).into_owned());
        }
    }

    /// Whether the controller may do something other than this decision.
    fn is_doubtful(&self) -> bool {
        self.doubt.is_some() && (self.scale_to.is_some() || !self.lacks_controller)
    }

    /// Escapes texts from the cluster, so that they can't look like another line of the report. The
    /// texts of conditions are escaped when they are printed.
    fn with_escaped_texts(mut self) -> Self {
        let metrics = self.metrics.iter_mut().flat_map(|metric| {
            let pods = metric.pod_list.iter_mut().map(|pod| &mut pod.name);
            let unselected = metric.unselected_samples.iter_mut().flat_map(|one| &mut one.pods);
            [&mut metric.name].into_iter().chain(pods).chain(unselected)
        });
        let texts = [&mut self.autoscaler, &mut self.target, &mut self.sentence];
        let optional = [&mut self.doubt, &mut self.error].into_iter().flatten();
        let texts = texts.into_iter().chain(optional).chain(&mut self.advice);
        for text in texts.chain(metrics) {
            if let Cow::Owned(line) = one_line(text) {
                *text = line;
            }
        }
        self
    }
}

#[cfg(test)]
mod tests;
