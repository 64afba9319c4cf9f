//! What is wrong with an autoscaler beside its state, such as settings without effect.

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
    let Some(own) = settings.autoscaler_settings.as_deref() else { return Vec::new() };
    let mut warnings = Vec::new();
    if let Some(problems) = problems(hpa, own) {
        warnings.push((Warning::InvalidSettings, format!("invalid settings: {problems}")));
    }
    let writer = "kube-controller-manager, which stored the status last, ignores the";
    let state = match own.built_in_state.as_str() {
        "" => String::new(),
        state => format!("; {state}"),
    };
    if own.ignored.pause {
        warnings.push((Warning::PauseIgnored, format!("{writer} pause{state}")));
    }
    if own.ignored.dry_run {
        warnings.push((Warning::DryRunIgnored, format!("{writer} dry run{state}")));
    }
    if !own.ignored_names.is_empty() {
        let (names, is_single) = (own.ignored_names.join(", "), own.ignored_names.len() == 1);
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

/// The problems with the settings. Only the controller's status has those of settings that its
/// operator doesn't allow.
fn problems<'a>(hpa: &'a HorizontalPodAutoscaler, own: &'a AutoscalerSettings) -> Option<&'a str> {
    let custom = hpa.status.condition(&ConditionType::CustomSettings);
    // kube-controller-manager doesn't remove the condition of an earlier controller.
    let custom = custom.filter(|_| !own.is_for_built_in);
    let reported = custom.filter(|custom| custom.reason == ConditionReason::InvalidSettings);
    let found = Some(own.problems.as_str()).filter(|problems| !problems.is_empty());
    found.or_else(|| reported.map(|custom| &*custom.message))
}
