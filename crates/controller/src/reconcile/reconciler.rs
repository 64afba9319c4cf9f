//! The state that all reconciles share.

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use hpa_lease::{Clock, events::EventRecorder};
use hpa_metrics::{LogLimit, MetricsClient};
use kube::Client;

use super::observer::Observer;
use crate::{
    cache::{Autoscalers, Pods, SelectorIndex, WatchAges},
    forecast::Forecasts,
    informer::ScaleInformers,
    k8s::FieldManager,
    peer_check::PeerWindow,
    scale_target::{Owners, RestMapper, ScaleClient},
    settings::SettingSource,
};

/// Reconciles autoscalers. All workers share one.
pub struct Reconciler {
    /// Reads autoscalers, writes their status, and lists pods.
    pub client: Client,
    pub settings: Arc<SettingSource>,
    /// The time limit for reading metrics and repeating the decision. A write that has started by
    /// then has its own timeout.
    pub timeout: Duration,
    /// The minimum time between status writes for which only metric values changed, by no more than
    /// the tolerance.
    pub status_interval: Duration,
    pub autoscalers: Arc<Autoscalers>,
    pub pods: Arc<Pods>,
    pub selectors: Arc<SelectorIndex>,
    /// Detects by responses that the API server was rewound.
    pub watch_ages: Arc<WatchAges>,
    pub mapper: Arc<RestMapper>,
    pub scales: ScaleClient,
    /// For autoscalers that count only the pods that their target owns.
    pub owners: Owners,
    /// `None`: each reconcile reads the scale with a GET.
    pub scale_informers: Option<ScaleInformers>,
    pub metrics: Arc<dyn MetricsClient>,
    pub events: EventRecorder,
    /// The clock for decisions.
    pub clock: Arc<dyn Clock>,
    pub observer: Arc<dyn Observer>,
    /// The state that the forecasts of all autoscalers share.
    pub forecasts: Arc<Forecasts>,
    /// The field manager of status writes.
    pub field_manager: FieldManager,
    /// Limits the log lines about peers: each reconcile may find a peer's write.
    pub peer_log_limit: LogLimit,
    /// The status writes of all peers since the last such line.
    pub unlogged_peer_writes: AtomicU64,
    /// An autoscaler is left alone while a peer's last status write is within this window. `None`:
    /// such a write is only reported.
    pub peer_window: Option<PeerWindow>,
    /// Whether every autoscaler is in dry run, not only those with the setting.
    pub dry_run: bool,
}

impl Reconciler {
    /// The time since `start`. Both are monotonic times of the clock.
    pub(super) fn elapsed_since(&self, start: Duration) -> Duration {
        self.clock.instants().monotonic.saturating_sub(start)
    }
}
