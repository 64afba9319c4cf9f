//! The effective settings of single autoscalers, from flags, annotations and fields.

use std::{sync::Arc, time::Duration};

use hpa_calc::{
    api::HorizontalPodAutoscaler,
    settings::{SettingPolicy, Settings},
};

/// Derives the effective settings of autoscalers.
#[derive(Clone, Debug, Default)]
pub struct SettingSource {
    flags: Arc<Settings>,
    policy: SettingPolicy,
}

/// The time between the periodic reconciles of one autoscaler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SyncPeriod {
    /// `--horizontal-pod-autoscaler-sync-period`
    of_controller: Duration,
    /// The autoscaler's setting `sync-period`.
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

    /// Whether the period is a setting of the autoscaler. Such a period counts from the end of a
    /// reconcile, the controller's from the time at which a reconcile was due (KEP-6003).
    pub(crate) fn is_own(self) -> bool {
        self.own.is_some()
    }

    /// The excess of this period over the controller's. Zero if it is not longer.
    pub(crate) fn excess(self) -> Duration {
        self.length().saturating_sub(self.of_controller)
    }
}

impl SettingSource {
    /// `flags` are the defaults of all autoscalers.
    pub fn new(flags: Settings, policy: SettingPolicy) -> Self {
        Self { flags: Arc::new(flags), policy }
    }

    /// The settings of autoscalers without settings of their own.
    pub fn flags(&self) -> &Settings {
        &self.flags
    }

    /// The effective settings of an autoscaler. [`Autoscaler::settings`] caches them until the
    /// object changes.
    ///
    /// [`Autoscaler::settings`]: crate::cache::Autoscaler::settings
    pub fn derive(&self, hpa: &HorizontalPodAutoscaler) -> Arc<Settings> {
        let settings = self.flags.for_autoscaler(hpa, &self.policy).settings;
        if settings == *self.flags { self.flags.clone() } else { Arc::new(settings) }
    }
}
