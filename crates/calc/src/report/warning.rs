//! Warnings about an autoscaler that are independent of its state, such as settings without effect.

use serde::Serialize;

use super::inputs::Inputs;
use crate::{
    api::{ConditionReason, ConditionType, HorizontalPodAutoscaler, PodPhase},
    explain::counted,
    plan::PlanKind,
    settings::{Settings, SettingsSummary},
};

/// A problem with the settings or the target of an autoscaler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Warning {
    /// Settings are ignored, or not used as they are written.
    InvalidSettings,
    /// kube-controller-manager stored the status last or acts now, and ignores the pause. If hpa-rs
    /// may act instead, the text says both, as with the other ignored settings.
    PauseIgnored,
    /// kube-controller-manager stored the status last or acts now, and ignores the dry run.
    DryRunIgnored,
    /// kube-controller-manager stored the status last or acts now, and ignores other settings.
    SettingsIgnored,
    /// Another autoscaler has the same target.
    SharedTarget,
    /// The target's selector matches pods of other owners, which count too, by the condition
    /// `SelectorMatchesExtraPods`.
    ExtraPods,
    /// Another client changes the target's replicas after each scaling.
    ReplicasOverwritten,
}

impl Warning {
    /// Whether the target is scaled although a setting should prevent that. Reports begin with such
    /// a warning.
    pub fn precedes_state(self) -> bool {
        matches!(self, Self::PauseIgnored | Self::DryRunIgnored)
    }
}

/// The problems with the settings, each with a text.
pub(super) fn setting_warnings(
    hpa: &HorizontalPodAutoscaler,
    settings: &Settings,
) -> Vec<(Warning, String)> {
    let Some(summary) = settings.summary.as_deref() else { return Vec::new() };
    let mut warnings = Vec::new();
    if let Some(problems) = problems(hpa, summary) {
        warnings.push((Warning::InvalidSettings, format!("invalid settings: {problems}")));
    }
    let state = match summary.built_in_state.as_str() {
        "" => String::new(),
        state => format!("; {state}"),
    };
    let ignored = ignored_settings(summary).into_iter();
    warnings.extend(ignored.map(|(warning, text)| (warning, text + &state)));
    warnings
}

/// The message of the condition about pods of other owners. kube-controller-manager doesn't update
/// that of an earlier controller.
pub(super) fn extra_pods<'a>(
    hpa: &'a HorizontalPodAutoscaler,
    settings: &Settings,
) -> Option<&'a str> {
    let extra = hpa.status.true_condition(&ConditionType::SelectorMatchesExtraPods)?;
    (!settings.is_for_built_in()).then_some(&*extra.message)
}

/// The effects of the settings that kube-controller-manager ignores, if hpa-rs may handle the
/// autoscaler instead. Empty if the controller is known.
pub(super) fn uncertain_effects(settings: &Settings) -> Vec<String> {
    let summary = settings.summary.as_deref().filter(|summary| summary.is_controller_unknown);
    summary.into_iter().flat_map(ignored_settings).map(|(_, text)| text).collect()
}

/// The effects of the settings that should prevent writes and that kube-controller-manager ignores,
/// for the first line.
pub(super) fn ignored_by_built_in(settings: &Settings) -> Vec<String> {
    let ignored = settings.summary.as_deref().into_iter().flat_map(ignored_settings);
    ignored.filter(|(warning, _)| warning.precedes_state()).map(|(_, text)| text).collect()
}

/// A clause for the first line: before version 1.38, kube-controller-manager counts pods that have
/// succeeded (kubernetes#141302). `None` if it doesn't act on the autoscaler, or if no such pod
/// could change its decision.
pub(super) fn counted_succeeded_pods(inputs: &Inputs) -> Option<String> {
    let summary = inputs.settings.summary.as_deref().filter(|summary| summary.may_be_built_in)?;
    let pods = inputs.selected.pods.iter();
    let succeeded = pods.filter(|pod| !pod.terminating && pod.phase == PodPhase::Succeeded).count();
    let mut metrics = inputs.hpa.spec.metrics.iter();
    let may_matter = succeeded > 0
        && metrics.any(|metric| !metric.source_type.exists_without_pods())
        && matches!(inputs.plan().kind, PlanKind::Metrics(_));
    if !may_matter {
        return None;
    }
    let (pods, them) =
        (counted(succeeded, "Succeeded pod"), if succeeded == 1 { "it" } else { "them" });
    let is_unknown = summary.is_controller_unknown;
    let built_in = describe_built_in(!summary.is_status_of_hpa_rs, is_unknown);
    Some(if is_unknown {
        format!("hpa-rs would ignore {pods}; {built_in} counts {them} (before 1.38)")
    } else {
        format!("{built_in} counts {pods} (before 1.38)")
    })
}

/// Names kube-controller-manager, with the reason why it decides on an autoscaler: it stored the
/// status last (`is_writer`), or it has replaced hpa-rs. `is_unknown` is whether either controller
/// may act.
pub fn describe_built_in(is_writer: bool, is_unknown: bool) -> &'static str {
    match (is_writer, is_unknown) {
        (true, _) => "kube-controller-manager, which stored the status last,",
        (false, false) => "kube-controller-manager, which acts now,",
        (false, true) => "kube-controller-manager, which may act now,",
    }
}

/// The settings that kube-controller-manager ignores, each with a text.
fn ignored_settings(summary: &SettingsSummary) -> Vec<(Warning, String)> {
    let mut ignored = Vec::new();
    let is_unknown = summary.is_controller_unknown;
    let built_in = describe_built_in(!summary.is_status_of_hpa_rs, is_unknown);
    if summary.ignored.pause {
        let of_hpa_rs = if is_unknown { "hpa-rs would obey the pause; " } else { "" };
        ignored.push((Warning::PauseIgnored, format!("{of_hpa_rs}{built_in} ignores the pause")));
    }
    if summary.ignored.dry_run {
        let text = if is_unknown {
            format!(
                "in dry run by annotation, hpa-rs would write nothing; {built_in} ignores the \
                 annotation"
            )
        } else {
            format!("{built_in} ignores the dry run")
        };
        ignored.push((Warning::DryRunIgnored, text));
    }
    if !summary.ignored_names.is_empty() {
        let (names, is_single) =
            (summary.ignored_names.join(", "), summary.ignored_names.len() == 1);
        let (setting, have, them) =
            if is_single { ("setting", "has", "it") } else { ("settings", "have", "them") };
        let text = if is_unknown {
            format!("hpa-rs would apply the {setting} {names}; {built_in} ignores {them}")
        } else {
            format!("the {setting} {names} {have} no effect: {built_in} ignores {them}")
        };
        ignored.push((Warning::SettingsIgnored, text));
    }
    ignored
}

/// The problems with the settings by `summary`, or else those that the controller stored in the
/// status: it knows the settings that its operator doesn't allow.
fn problems<'a>(hpa: &'a HorizontalPodAutoscaler, summary: &'a SettingsSummary) -> Option<&'a str> {
    let custom = hpa.status.condition(&ConditionType::CustomSettings);
    // kube-controller-manager doesn't remove the condition of an earlier controller.
    let custom = custom.filter(|_| !summary.may_be_built_in);
    let reported = custom.filter(|custom| custom.reason == ConditionReason::InvalidSettings);
    let problems = Some(summary.problems.as_str()).filter(|problems| !problems.is_empty());
    problems.or_else(|| reported.map(|custom| &*custom.message))
}
