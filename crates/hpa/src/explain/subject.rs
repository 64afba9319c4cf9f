//! The autoscaler to explain.

use std::collections::BTreeMap;

use hpa_calc::{
    HorizontalPodAutoscaler, Inputs, Report,
    api::{ConditionReason, ConditionType},
    explain::has_name,
    report::{OverwrittenScalings, about_missing_right, ambiguous_autoscalers},
};
use hpa_controller::{
    AutoscalerApi,
    debug::{AutoscalerDetail, RunDocument, StayDecision, replace_sentence},
    k8s::StatusController,
};
use jiff::SignedDuration;

use super::past;
use crate::{
    debug_client::{Unavailable, describe_wrong_clock},
    liveness::{Conflict, Idle, is_recent_write},
    terminal::{escape_line, shorten_names},
};

/// The end of the first line if the target's manifest sets no replicas.
const ASSUMED_REPLICAS: &str = "; the manifest of the target sets no replicas, so 1 is assumed";

/// The end of the first line if the controller failed to store its last status.
const STATUS_NOT_STORED: &str = "; the controller can't store its status";

/// The doubt about the decision of an hpa-rs if another controller may act as well.
const OTHER_WRITER: &str = "kube-controller-manager stored the status last, and may decide \
                            otherwise by its own history";

/// Advice if the controller's clock is wrong.
const WRONG_CLOCK: &str = "Correct the clock of the controller's node: samples, series and pods \
                           have other ages for the controller, so metrics may fail, and schedules \
                           begin early or late.";

/// The inputs of the decision to explain, and the controller of the autoscaler.
pub(super) struct Subject {
    pub(super) inputs: Inputs,
    /// The name of the autoscaler, with a prefix for the custom API. `None` for `namespace/name`.
    pub(super) name: Option<String>,
    /// The controller that stored the status.
    pub(super) controller: StatusController,
    pub(super) found: FoundController,
    /// The scalings that another client has overwritten, by the debug API or by events.
    pub(super) overwritten_scalings: Option<OverwrittenScalings>,
    /// The names of the metrics whose values are those of the controller, not of this command.
    pub(super) read_by_controller: Vec<String>,
    /// A warning of a Prometheus server about the values that this command has read. It ends the
    /// first line.
    pub(super) warning: Option<String>,
    /// Advice about metrics that can't be read, by their index.
    pub(super) metric_advice: BTreeMap<usize, String>,
    /// The placeholders in the commands of advice whose values are known, with these values.
    pub(super) placeholders: Vec<(&'static str, String)>,
    /// The name of an object that the autoscaler may mean, if its target doesn't exist.
    pub(super) similar_target: Option<String>,
    /// Sentences about objects that the files of `--filename` lack, with commands that get them.
    pub(super) missing_object_advice: Vec<String>,
    /// Whether the replicas are the API's default, because the target's manifest sets none.
    pub(super) assumes_replicas: bool,
    /// Whether the number of the target's pods is known.
    pub(super) has_status_replicas: bool,
}

/// The controller that acts on the autoscaler, as far as it was found.
pub(super) struct FoundController {
    /// Its record of the autoscaler, from the debug API.
    pub(super) record: Result<AutoscalerDetail, Unavailable>,
    /// The pod or the URL of the record. `None` for a record from a file.
    pub(super) record_source: Option<String>,
    /// The reason why no controller acts on the autoscaler, if the leases show it.
    pub(super) idle: Option<Idle>,
    /// The controllers that all act on it.
    pub(super) conflict: Option<Conflict>,
    /// Whether the user may not read the controller's lease, and no debug API answers.
    pub(super) is_hidden: bool,
    /// The lead of the controller's clock over the API server's. A wrong clock ends the first line.
    pub(super) clock_lead: SignedDuration,
}

impl Subject {
    pub(super) fn report(&self) -> Report {
        let doubt = self.doubt_about_controller();
        let doubt_about_pods = self.doubt_about_pods().filter(|_| doubt.is_none());
        let advises_on_pods = doubt_about_pods.is_some();
        let doubt = doubt.or(doubt_about_pods);
        let has_doubt = doubt.is_some() || self.inputs.settings.dry_run;
        let mut report = self.inputs.report_with_advice(doubt, &self.metric_advice);
        report.remove_advice_about_old_status(self.controller.at);
        if !self.missing_object_advice.is_empty() {
            // Other advice assumes that what the files lack is missing in the cluster.
            let about_files = report.advice.into_iter().filter(|one| one.contains("--filename"));
            report.advice = self.missing_object_advice.iter().cloned().chain(about_files).collect();
        }
        if let Some(idle) = &self.found.idle {
            let advice = idle.sentence("this autoscaler");
            report.advice.insert(0, format!("{advice}. hpa status says more."));
        }
        if let Some(conflict) = &self.found.conflict {
            report.advice.insert(0, format!("{}. hpa status says more.", conflict.advice()));
        }
        if advises_on_pods {
            report.advice.insert(0, StayDecision::ADVICE.to_owned());
        }
        let wrong_clock = describe_wrong_clock(self.found.clock_lead);
        if wrong_clock.is_some() {
            report.advice.insert(0, WRONG_CLOCK.to_owned());
        }
        if !has_doubt {
            self.replace_sentence(&mut report);
        }
        self.add_status_write_error(&mut report);
        report.add_overwritten_scalings(self.overwritten_scalings, &self.inputs.hpa);
        if let Some(warning) = self.warning.clone().or(wrong_clock) {
            report.sentence = format!("{}; {warning}", report.sentence);
        }
        if self.assumes_replicas {
            report.sentence += ASSUMED_REPLICAS;
        }
        if !self.has_status_replicas {
            report.status_replicas = None;
        }
        self.add_shared_target(&mut report);
        self.add_similar_target(&mut report);
        for advice in &mut report.advice {
            *advice = fill_placeholders(advice, &self.placeholders);
        }
        if let Some(name) = &self.name {
            report.autoscaler = escape_line(name);
        }
        report
    }

    /// A doubt about any decision, because no controller acts, or another one may act.
    fn doubt_about_controller(&self) -> Option<String> {
        let idle = self.found.idle.as_ref().map(Idle::reason);
        let conflict = || self.found.conflict.as_ref().map(|conflict| conflict.clause("it"));
        idle.or_else(conflict).or_else(|| self.doubt_about_writer())
    }

    /// A doubt if the controller has counted other pods than this command.
    fn doubt_about_pods(&self) -> Option<String> {
        self.found.record.as_ref().ok()?.current_stay()?.doubt(&self.inputs)
    }

    /// Reports that the controller failed to store its last status.
    fn add_status_write_error(&self, report: &mut Report) {
        let Ok(record) = &self.found.record else { return };
        let Some(error) = &record.autoscaler.status_write_error else { return };
        report.sentence += STATUS_NOT_STORED;
        let about_right = about_missing_right(error).map(|advice| format!(". {advice}"));
        let advice = format!(
            "The controller can't store its status, so conditions and kubectl get hpa are older \
             than its last decision: {error}{}",
            about_right.unwrap_or_default()
        );
        report.advice.insert(0, escape_line(&advice));
    }

    /// Reports the other autoscalers of the target, unless the sentence already names them because
    /// the same controller handles them.
    fn add_shared_target(&self, report: &mut Report) {
        let selected = &self.inputs.selected;
        let conflict = selected.bounds_conflict.as_deref().unwrap_or_default();
        let others = selected.sharing_target.iter();
        let others = others.filter(|name| !conflict.contains(&format!(" {name} (")));
        let others: Vec<String> = others.cloned().collect();
        if others.iter().all(|other| has_name(&report.sentence, other)) {
            return;
        }
        let others = escape_line(&shorten_names(&others));
        report.sentence = format!("shares its target with {others} and {}", report.sentence);
        // The advice about a conflict is about all autoscalers of the target.
        if conflict.is_empty() {
            let advice = format!(
                "Merge the autoscalers of the target into one with several metrics: this one and \
                 {others}. Until then, they may stop scaling by metrics (AmbiguousSelector), or \
                 each may overwrite the replicas of the others."
            );
            report.advice.insert(0, advice);
        }
    }

    /// Suggests the object that the autoscaler may mean, if its target doesn't exist.
    fn add_similar_target(&self, report: &mut Report) {
        let Some(similar) = &self.similar_target else { return };
        let target = &self.inputs.hpa.spec.scale_target_ref;
        let (kind, name) = (&target.kind, &target.name);
        let advice = format!(
            "Did you mean {kind} {similar}? There is no {kind} {name}: correct \
             spec.scaleTargetRef.name."
        );
        report.advice.insert(0, escape_line(&advice));
    }

    /// Replaces the sentence by the controller's last decision, if that is another one.
    fn replace_sentence(&self, report: &mut Report) {
        let Ok(record) = &self.found.record else { return };
        if let Some(decision) = record.decision_in_effect() {
            replace_sentence(report, decision, &record.last_errors());
        }
    }

    /// A doubt if kube-controller-manager has recently stored the status, although the debug API
    /// has the history of an hpa-rs: kube-controller-manager's recommendations are not known.
    fn doubt_about_writer(&self) -> Option<String> {
        // The API server's clock has the time of the write.
        let now = self.inputs.now.checked_sub(self.found.clock_lead).unwrap_or(self.inputs.now);
        let is_other = self.found.record.is_ok()
            && self.controller.is_kube_controller_manager()
            && is_recent_write(self.controller.at, now);
        is_other.then(|| OTHER_WRITER.to_owned())
    }

    /// The first line without durations, which differ in each report: how long no controller has
    /// been running, the age of the evidence of a conflict, the difference of a wrong clock.
    pub(super) fn sentence_without_durations(&self) -> String {
        let mut sentence = self.report().sentence_without_durations();
        if let Some(idle) = &self.found.idle {
            sentence = sentence.replace(&idle.reason(), "no controller runs");
        }
        if let Some(clock) = describe_wrong_clock(self.found.clock_lead) {
            sentence = sentence.replace(&clock, "its clock is wrong");
        }
        let conflict = self.found.conflict.as_ref();
        if let Some(age) = conflict.and_then(|conflict| conflict.uncertain_evidence.as_deref()) {
            sentence = sentence.replace(age, "");
        }
        sentence
    }

    /// The controller that stored the status. Files often have no field managers, because kubectl
    /// hides them.
    pub(super) fn describe_controller(&self) -> String {
        let has_status = !self.inputs.hpa.status.conditions.is_empty();
        let StatusController { name, at, .. } = &self.controller;
        escape_line(&match (name, at) {
            (Some(name), Some(at)) => format!("{name} stored the status at {at}."),
            (Some(name), None) => format!("{name} stored the status."),
            (None, _) if has_status => {
                "The controller that stored the status is unknown: the autoscaler has no \
                 managedFields (kubectl get --show-managed-fields)."
                    .to_owned()
            }
            (None, _) => "No controller has stored a status.".to_owned(),
        })
    }

    /// Describes the values that the controller read, not this command. Empty if there are none.
    pub(super) fn describe_values_of_controller(&self) -> String {
        if self.read_by_controller.is_empty() {
            return String::new();
        }
        let names = self.read_by_controller.join(" and ");
        format!(
            "The value of {names} is the last one that the controller read: it can't be read here, \
             or what was read here differs. If it is from Prometheus, warnings about it, such as \
             of a partial result, are in the controller's log.\n\n"
        )
    }

    /// The decisions of the duration `since`, or the reason why the record is missing. Empty with a
    /// record, but without `since`.
    pub(super) fn describe_past(&self, since: Option<SignedDuration>) -> String {
        match (&self.found.record, since) {
            (Err(missing), _) => {
                let whose = if self.found.is_hidden {
                    "Whether a controller is active is not known, and its"
                } else {
                    "The controller's"
                };
                let missing = escape_line(&missing.to_string());
                format!("{whose} past decisions are missing: {missing}.\n")
            }
            (Ok(record), Some(since)) => {
                let since = self.inputs.now.checked_sub(since).unwrap_or(jiff::Timestamp::MIN);
                past::format_past(record, self.found.record_source.as_deref(), since) + "\n"
            }
            (Ok(_), None) => String::new(),
        }
    }
}

/// Replaces the placeholders in the commands of a text.
pub(super) fn fill_placeholders(text: &str, placeholders: &[(&'static str, String)]) -> String {
    let fill = |text: String, (placeholder, value): &(&'static str, String)| {
        text.replace(*placeholder, &escape_line(value))
    };
    placeholders.iter().fold(text.to_owned(), fill)
}

/// Whether the controller reports that other autoscalers select the pods of the autoscaler `name`,
/// so that it doesn't scale this one by metrics. `record` is the debug API's record of the
/// autoscaler. `others` are the other autoscalers of the same controller.
///
/// Overlapping selectors alone are no proof: the controller registers the selector of an autoscaler
/// only in a reconcile that finds the replicas within its bounds. Until then, the autoscalers
/// overwrite each other's replicas.
pub(super) fn is_reported_ambiguous<'a>(
    hpa: &HorizontalPodAutoscaler,
    name: &str,
    record: Option<&AutoscalerDetail>,
    is_dry_run: bool,
    mut others: impl Iterator<Item = &'a HorizontalPodAutoscaler>,
) -> bool {
    let last = record.and_then(|record| record.autoscaler.last.as_ref());
    if let Some(RunDocument { decision, .. }) = last {
        let error = decision.error.as_deref().unwrap_or_default();
        let is_ambiguous = ambiguous_autoscalers(error).is_some();
        if is_ambiguous || decision.proposed_replicas.is_some() {
            return is_ambiguous;
        }
    }
    let active = hpa.status.condition(&ConditionType::ScalingActive);
    if active.is_some_and(|active| active.reason == ConditionReason::AmbiguousSelector) {
        return true;
    }
    let names_own = |other: &HorizontalPodAutoscaler| {
        let active = other.status.condition(&ConditionType::ScalingActive);
        let names = active.and_then(|active| ambiguous_autoscalers(&active.message));
        names.is_some_and(|(mut names, _)| names.any(|one| one == name))
    };
    // The condition of another autoscaler may be older than a decision by metrics. In a dry run,
    // the status has no decision of the controller.
    (active.is_none() || is_dry_run) && others.any(names_own)
}

/// Whether a message about an ambiguous selector names an autoscaler of an API, or leaves names
/// out.
pub(super) fn may_name_api(message: &str, api: AutoscalerApi) -> bool {
    let Some((mut names, is_cut_off)) = ambiguous_autoscalers(message) else { return false };
    // `NAMESPACE/NAME`, or `rhpa/NAMESPACE/NAME` in the custom API.
    let slashes = match api {
        AutoscalerApi::Core => 1,
        AutoscalerApi::Custom => 2,
    };
    is_cut_off || names.any(|name| name.matches('/').count() == slashes)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn commands_have_the_values_of_the_flags() {
        let placeholders = [("--config FILE", "--config 'my rules.yaml'".to_owned())];
        let text = "hpa rules explain external q --config FILE --prometheus-url URL says more.";
        assert_eq!(
            fill_placeholders(text, &placeholders),
            "hpa rules explain external q --config 'my rules.yaml' --prometheus-url URL says more."
        );
    }

    #[rstest]
    #[case::both("[shop/web rhpa/shop/web]", true, true)]
    #[case::core("[shop/web shop/mail]", true, false)]
    #[case::custom("[rhpa/shop/mail rhpa/shop/web]", false, true)]
    #[case::core_namespace_like_the_prefix("[rhpa/web rhpa/mail]", true, false)]
    #[case::cut_off("[shop/mail shop/web and 9 more]", true, true)]
    fn message_about_an_ambiguous_selector_names_apis(
        #[case] names: &str,
        #[case] has_core: bool,
        #[case] has_custom: bool,
    ) {
        let message = format!("pods by selector app=web are controlled by multiple HPAs: {names}");
        let named = AutoscalerApi::ALL.map(|api| may_name_api(&message, api));
        assert_eq!(named, [has_core, has_custom]);
    }
}
