//! The options of a controller, and the settings derived from them.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use hpa_calc::settings::{SettingPolicy, Settings};
use hpa_metrics::{ClientSettings, CoalescingSettings};

use crate::{
    informer::WatchIntervals, key::Scope, reconcile::MAX_POD_AGE, scale_target::MapperConfig,
    settings::SettingSource,
};

/// The options of a controller, mostly flags of `hpa run`.
#[derive(Clone, Debug)]
pub struct Options {
    /// The defaults of all autoscalers.
    pub settings: Settings,
    /// The settings that single autoscalers may override.
    pub setting_policy: SettingPolicy,
    /// `--horizontal-pod-autoscaler-sync-period`
    pub sync_period: Duration,
    /// `--concurrent-horizontal-pod-autoscaler-syncs`
    pub workers: usize,
    /// The namespaces whose autoscalers are reconciled; empty for all.
    pub namespaces: Vec<String>,
    /// The longest time for which a shutdown waits for running reconciles.
    pub shutdown_grace: Duration,
    /// The timeout of requests other than watches.
    pub request_timeout: Duration,
    /// Whether to start, and handle all autoscalers, although another controller wrote statuses
    /// shortly before, see [`ActivePeer`](crate::ActivePeer).
    pub allows_active_peer: bool,
    /// Whether to watch the targets' scales. If not, each reconcile reads its target's scale.
    pub watch_scales: bool,
    /// The minimum time between status writes for which only metric values changed, by no more than
    /// the tolerance. Zero to write at each reconcile.
    pub status_interval: Duration,
}

impl Options {
    pub(crate) fn setting_source(&self) -> Arc<SettingSource> {
        Arc::new(SettingSource::new(self.settings.clone(), self.setting_policy.clone()))
    }

    pub(crate) fn scopes(&self) -> Vec<Scope> {
        if self.namespaces.is_empty() {
            return vec![None];
        }
        let unique: BTreeSet<_> = self.namespaces.iter().cloned().collect();
        unique.into_iter().map(Some).collect()
    }

    /// An informer relists half a sync period after missed events or a first undecodable object, so
    /// that the reconcile after the next one has a complete cache. A cached scale that its watch no
    /// longer confirms is used for two sync periods: at least for 10 s, because a shorter time
    /// would cause many requests, and at most for [`MAX_POD_AGE`].
    pub(crate) fn watch_intervals(&self) -> WatchIntervals {
        let max_age = (self.sync_period * 2).clamp(Duration::from_secs(10), MAX_POD_AGE);
        WatchIntervals { relist: self.sync_period / 2, max_age }
    }

    pub(crate) fn mapper_config(&self) -> MapperConfig {
        let defaults = MapperConfig::default();
        MapperConfig {
            request_timeout: self.request_timeout,
            // Lets each reconcile discover again, if the kind was unknown in the last one.
            min_refresh_interval: defaults.min_refresh_interval.min(self.sync_period),
        }
    }

    /// The time limit of a reconcile for reading metrics and repeating its decision. It is enough
    /// for two metrics that time out one after the other.
    pub(crate) fn reconcile_timeout(&self) -> Duration {
        self.sync_period.max(self.request_timeout * 2)
    }

    pub(crate) fn metrics_client_settings(&self) -> ClientSettings {
        let mut settings = ClientSettings::default();
        settings.request_timeout = self.request_timeout;
        settings.version_lifetime = self.sync_period;
        settings
    }

    /// In a dry run, responses of a metrics API are not reused, so that samples are about as old as
    /// the peer's.
    pub(crate) fn coalescing_settings(&self, dry_run: bool) -> CoalescingSettings {
        let mut settings = CoalescingSettings::for_sync_period(self.sync_period);
        if dry_run {
            settings.freshness = Duration::ZERO;
        }
        settings
    }
}
