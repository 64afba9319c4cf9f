//! Warnings about an autoscaler that are independent of its state, such as settings without effect.

use serde::Serialize;

use crate::{
    api::{ConditionReason, ConditionType, HorizontalPodAutoscaler},
    settings::{AutoscalerSettings, Settings},
};

/// A problem with the settings or the target of an autoscaler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Warning {
    /// Settings are ignored, or not used as they are written.
    InvalidSettings,
    /// kube-controller-manager stored the status last, and ignores the pause.
    PauseIgnored,
    /// kube-controller-manager stored the status last, and ignores the dry run.
    DryRunIgnored,
    /// kube-controller-manager stored the status last, and ignores other settings.
    SettingsIgnored,
    /// Another autoscaler has the same target.
    SharedTarget,
}

/// The problems with the settings, each with a text.
pub(super) fn warnings(
    hpa: &HorizontalPodAutoscaler,
    settings: &Settings,
) -> Vec<(Warning, String)> {
    let Some(summary) = settings.autoscaler_settings.as_deref() else { return Vec::new() };
    let mut warnings = Vec::new();
    if let Some(problems) = problems(hpa, summary) {
        warnings.push((Warning::InvalidSettings, format!("invalid settings: {problems}")));
    }
    let ignores = "kube-controller-manager, which stored the status last, ignores the";
    let state = match summary.built_in_state.as_str() {
        "" => String::new(),
        state => format!("; {state}"),
    };
    if summary.ignored.pause {
        warnings.push((Warning::PauseIgnored, format!("{ignores} pause{state}")));
    }
    if summary.ignored.dry_run {
        warnings.push((Warning::DryRunIgnored, format!("{ignores} dry run{state}")));
    }
    if !summary.ignored_names.is_empty() {
        let (names, is_single) =
            (summary.ignored_names.join(", "), summary.ignored_names.len() == 1);
        let (setting, have, them) =
            if is_single { ("setting", "has", "it") } else { ("settings", "have", "them") };
        let text = format!(
            "the {setting} {names} {have} no effect: kube-controller-manager, which stored the \
             status last, ignores {them}{state}"
        );
        warnings.push((Warning::SettingsIgnored, text));
    }
    warnings
}

/// The problems with the settings. If there are none by `summary`, the controller may have stored
/// some in the status: it knows the settings that its operator doesn't allow.
fn problems<'a>(
    hpa: &'a HorizontalPodAutoscaler,
    summary: &'a AutoscalerSettings,
) -> Option<&'a str> {
    let custom = hpa.status.condition(&ConditionType::CustomSettings);
    // kube-controller-manager doesn't remove the condition of an earlier controller.
    let custom = custom.filter(|_| !summary.is_for_built_in);
    let reported = custom.filter(|custom| custom.reason == ConditionReason::InvalidSettings);
    let problems = Some(summary.problems.as_str()).filter(|problems| !problems.is_empty());
    problems.or_else(|| reported.map(|custom| &*custom.message))
}
