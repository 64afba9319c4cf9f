//! The effective settings of single autoscalers: flags, annotations, fields.

use std::{sync::Arc, time::Duration};

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

/// The time between the periodic reconciles of one autoscaler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SyncPeriod {
    of_controller: Duration,
    own: Option<Duration>,
}

impl SyncPeriod {
    pub(crate) fn new(of_controller: Duration, settings: &Settings) -> Self {
        let own = settings.sync_period.and_then(|period| Duration::try_from(period).ok());
        Self { of_controller, own }
    }

    pub(crate) fn length(self) -> Duration {
        self.own.unwrap_or(self.of_controller)
    }

    /// Whether it is a setting of the autoscaler. Then it is the delay after the end of a reconcile;
    /// the controller's counts from when a reconcile was due (KEP-6003).
    pub(crate) fn is_own(self) -> bool {
        self.own.is_some()
    }

    /// How much longer it is than the controller's.
    pub(crate) fn excess(self) -> Duration {
        self.length().saturating_sub(self.of_controller)
    }
}

/// The effective settings of one autoscaler.
#[derive(Clone, Debug, Default)]
pub struct EffectiveSettings {
    pub settings: Settings,
    /// The message of an `InvalidAnnotation` event, if settings are ignored or
    /// not used as written.
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
