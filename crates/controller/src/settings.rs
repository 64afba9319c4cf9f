//! The effective settings of single autoscalers: flags, annotations, fields.

use std::sync::Arc;

use hpa_calc::{
    api::HorizontalPodAutoscaler,
    settings::{ProblemKind, SettingPolicy, Settings},
};

/// Derives the effective settings of autoscalers.
#[derive(Clone, Debug, Default)]
pub struct SettingSource {
    /// Those of an autoscaler without settings of its own.
    defaults: Arc<EffectiveSettings>,
    policy: SettingPolicy,
}

/// The effective settings of one autoscaler.
#[derive(Clone, Debug, Default)]
pub struct EffectiveSettings {
    pub settings: Settings,
    /// The message of an `InvalidAnnotation` event, if settings are ignored.
    pub problems: Option<String>,
}

impl SettingSource {
    /// `flags` are the settings of all autoscalers.
    pub fn new(flags: Settings, policy: SettingPolicy) -> Self {
        let defaults = EffectiveSettings { settings: flags, problems: None };
        Self { defaults: Arc::new(defaults), policy }
    }

    /// The settings of autoscalers without settings of their own.
    pub fn flags(&self) -> &Settings {
        &self.defaults.settings
    }

    /// The effective settings of an autoscaler. [`Autoscaler::settings`] keeps them until the object
    /// changes.
    ///
    /// [`Autoscaler::settings`]: crate::cache::Autoscaler::settings
    pub fn derive(&self, hpa: &HorizontalPodAutoscaler) -> Arc<EffectiveSettings> {
        let resolved = self.flags().for_autoscaler(hpa, &self.policy);
        let problems: Vec<String> = resolved
            .problems
            .iter()
            // Which of two wins is for `hpa lint` to say.
            .filter(|problem| problem.kind != ProblemKind::Overridden)
            .map(ToString::to_string)
            .collect();
        if resolved.settings.applied.is_empty() && problems.is_empty() {
            return self.defaults.clone();
        }
        let problems = (!problems.is_empty()).then(|| problems.join("; "));
        Arc::new(EffectiveSettings { settings: resolved.settings, problems })
    }
}
