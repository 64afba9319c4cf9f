//! One cached autoscaler: its latest object, and the state that belongs to it.

mod history;
#[cfg(test)]
mod tests;

use std::{
    hash::BuildHasher,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use hpa_calc::{
    api::{CrossVersionObjectReference, HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec, Pod},
    go_text::truncate,
    settings::Settings,
};
use parking_lot::{MappedMutexGuard, Mutex, MutexGuard, RwLock};
use tokio::time::Instant;

use self::history::HistoryState;
use super::{
    change_reconciles::ChangeReconciles,
    decisions::Decisions,
    early_retries::{EarlyRetries, NextDue},
    last_reconcile::LastReconcile,
    overwritten_replicas::OverwrittenReplicas,
    peer_writes::PeerWrites,
    replica_mismatch::ReplicaMismatch,
};
use crate::{
    cache::is_newer, forecast::AutoscalerForecasts, hash::HASHER, k8s::StoredHpa,
    settings::SettingSource, shadow::ShadowRecord,
};

/// The maximum number of characters of an error for the debug API. A webhook may send a long one.
const MAX_ERROR_CHARS: usize = 1000;

/// A cached autoscaler. Its state belongs to one UID: an autoscaler that is deleted and created
/// again inherits nothing.
#[derive(Debug, Default)]
pub struct Autoscaler {
    latest: RwLock<LatestVersion>,
    is_undecodable: AtomicBool,
    scale_distrusted_at: Mutex<Option<Instant>>,
    replica_mismatch: Mutex<ReplicaMismatch>,
    pub(crate) overwritten_replicas: Mutex<OverwrittenReplicas>,
    history: Mutex<HistoryState>,
    early_retries: Mutex<EarlyRetries>,
    /// The due time of the next periodic reconcile, if an additional one is queued before it.
    periodic_due: Mutex<Option<Instant>>,
    pub(crate) change_reconciles: Mutex<ChangeReconciles>,
    /// Hash of the target reference of the last reconcile.
    target_hash: Mutex<Option<u64>>,
    /// The error of the last reconcile, if it failed.
    failure: Mutex<Option<String>>,
    /// The error of the last status write, if it failed.
    status_failure: Mutex<Option<String>>,
    /// Whether the stored status is outdated, because the last write failed.
    is_status_unstored: AtomicBool,
    /// The message about invalid annotations, `None` if all are valid.
    invalid_annotations: Mutex<Option<String>>,
    pub(crate) peer_writes: PeerWrites,
    /// Start of the last reconcile that wrote the status, in monotonic time. Only recorded with a
    /// status interval.
    pub(crate) status_written_at: Mutex<Option<Duration>>,
    pub(crate) last_reconcile: Mutex<LastReconcile>,
    /// The last decisions. Only recorded for the debug API.
    pub(crate) decisions: Mutex<Option<Box<Decisions>>>,
    /// Only of autoscalers with the setting `forecast`.
    pub(crate) forecasts: Mutex<Option<Box<AutoscalerForecasts>>>,
    /// Only of autoscalers in shadow mode.
    pub(crate) shadow_record: Mutex<Option<Box<ShadowRecord>>>,
}

/// The latest known version of an object.
#[derive(Debug, Default)]
struct LatestVersion {
    object: Arc<HorizontalPodAutoscaler>,
    /// Identifies the spec in responses, see `HpaResponse::spec_hash`. `None` before the first
    /// response with this spec.
    spec_hash: Option<u64>,
    /// Derived from the object on the first read.
    settings: OnceLock<Arc<Settings>>,
}

/// The origin of a version of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A list. It is current even if its resource versions are lower than cached ones, as after a
    /// restore of the API server's storage.
    List,
    /// A watch event, or the response to a GET or to our own write. A newer version may be cached
    /// already.
    WatchOrResponse,
}

/// The effect of a new version of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The autoscaler is new, or was deleted and created again.
    Created,
    /// The spec or an annotation of this controller changed, or the object was undecodable before.
    SpecChanged,
    /// Only the status changed, by our own write or by a peer's.
    StatusChanged,
    Unchanged,
}

/// The change of an error from the previous attempt, such as a reconcile, to the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureChange {
    /// Both succeeded.
    NoFailure,
    /// The last one failed, and the previous one succeeded or failed with another error.
    New,
    /// Both failed with the same error.
    Same,
    /// The last one succeeded after a failure.
    Ended,
}

impl FailureChange {
    /// Replaces the last error by `failure`, and compares them.
    fn replace(last: &mut Option<String>, failure: Option<String>) -> Self {
        let change = match (last.as_ref(), failure.as_ref()) {
            (None, None) => Self::NoFailure,
            (Some(last), Some(failure)) if last == failure => Self::Same,
            (_, Some(_)) => Self::New,
            (Some(_), None) => Self::Ended,
        };
        *last = failure;
        change
    }
}

impl LatestVersion {
    fn new(object: HorizontalPodAutoscaler) -> Self {
        Self { object: Arc::new(without_spare_capacity(object)), ..Self::default() }
    }
}

/// Frees the spare capacity of decoded lists, which is a quarter of an autoscaler's memory.
fn without_spare_capacity(mut object: HorizontalPodAutoscaler) -> HorizontalPodAutoscaler {
    object.spec.metrics.shrink_to_fit();
    object.status.current_metrics.shrink_to_fit();
    object.status.conditions.shrink_to_fit();
    object
}

impl Autoscaler {
    pub(super) fn new(object: HorizontalPodAutoscaler, origin: Origin) -> Self {
        let early_retries = match origin {
            Origin::List => EarlyRetries::default(),
            Origin::WatchOrResponse => EarlyRetries::for_new(),
        };
        Self {
            early_retries: Mutex::new(early_retries),
            latest: RwLock::new(LatestVersion::new(object)),
            scale_distrusted_at: Mutex::new(Some(Instant::now())),
            ..Self::default()
        }
    }

    /// The latest known version of the object.
    pub fn object(&self) -> Arc<HorizontalPodAutoscaler> {
        self.latest.read().object.clone()
    }

    /// Like [`Autoscaler::object`], with the object's effective settings.
    pub fn object_with_settings(
        &self,
        source: &SettingSource,
    ) -> (Arc<HorizontalPodAutoscaler>, Arc<Settings>) {
        let latest = self.latest.read();
        let settings = latest.settings.get_or_init(|| source.derive(&latest.object));
        (latest.object.clone(), settings.clone())
    }

    /// The effective settings of [`Autoscaler::object`].
    pub fn settings(&self, source: &SettingSource) -> Arc<Settings> {
        self.object_with_settings(source).1
    }

    /// The comparisons in shadow mode. The record begins at `now`, in monotonic time, if it is new.
    pub(crate) fn shadow_record_or_new(
        &self,
        hpa: &Arc<HorizontalPodAutoscaler>,
        settings: &Settings,
        now: Duration,
    ) -> MappedMutexGuard<'_, ShadowRecord> {
        let new_record = || Box::new(ShadowRecord::new(hpa.clone(), settings, now));
        MutexGuard::map(self.shadow_record.lock(), |record| {
            record.get_or_insert_with(new_record).as_mut()
        })
    }

    pub(super) fn has_uid(&self, uid: &str) -> bool {
        self.latest.read().object.metadata.uid == uid
    }

    pub(super) fn has_version(&self, uid: &str, resource_version: &str) -> bool {
        let metadata = &self.latest.read().object.metadata;
        !self.is_undecodable()
            && metadata.uid == uid
            && metadata.resource_version == resource_version
    }

    /// The spec, if it has this hash.
    pub(crate) fn spec_with_hash(&self, spec_hash: u64) -> Option<HorizontalPodAutoscalerSpec> {
        let latest = self.latest.read();
        (latest.spec_hash == Some(spec_hash)).then(|| latest.object.spec.clone())
    }

    /// Whether the API server's latest version can't be decoded, or the autoscaler may be one of a
    /// list's objects without a name. It is then not reconciled until a version can be decoded.
    pub fn is_undecodable(&self) -> bool {
        self.is_undecodable.load(Ordering::Relaxed)
    }

    pub(super) fn mark_undecodable(&self) {
        self.is_undecodable.store(true, Ordering::Relaxed);
    }

    /// The time when the cached scale of the target became unsafe to decide on. `None` if it is
    /// safe: a GET has read the scale since. A list of the cache after this time makes it safe too.
    pub(crate) fn scale_distrusted_at(&self) -> Option<Instant> {
        *self.scale_distrusted_at.lock()
    }

    pub(crate) fn trust_scale(&self) {
        *self.scale_distrusted_at.lock() = None;
    }

    pub(crate) fn distrust_scale(&self) {
        *self.scale_distrusted_at.lock() = Some(Instant::now());
    }

    /// Compares the replicas that the target reports with its pods. If they differ for several
    /// reconciles, the cached scale may be outdated, so the next reconcile reads the scale.
    pub(crate) fn observe_replicas<'a>(&self, replicas: i32, pods: impl Iterator<Item = &'a Pod>) {
        if self.replica_mismatch.lock().observe(replicas, pods) {
            self.distrust_scale();
        }
    }

    /// Stores the target of the current reconcile. Returns whether it is new: the previous
    /// reconcile had another target, or there was no previous reconcile.
    pub fn replace_target(&self, target: &CrossVersionObjectReference) -> bool {
        let hash = Some(HASHER.hash_one((&target.api_version, &target.kind, &target.name)));
        let is_new = std::mem::replace(&mut *self.target_hash.lock(), hash) != hash;
        if is_new {
            *self.overwritten_replicas.lock() = OverwrittenReplicas::default();
        }
        is_new
    }

    /// Stores the error of a reconcile, `None` if it succeeded, and compares it with the previous
    /// one.
    pub fn replace_failure(&self, failure: Option<String>) -> FailureChange {
        FailureChange::replace(&mut self.failure.lock(), failure)
    }

    /// Stores the error of a status write, `None` if it succeeded, and compares it with the
    /// previous one.
    pub(crate) fn replace_status_failure(&self, failure: Option<String>) -> FailureChange {
        self.is_status_unstored.store(failure.is_some(), Ordering::Relaxed);
        FailureChange::replace(&mut self.status_failure.lock(), failure)
    }

    /// Records that the stored status is that of the last reconcile, which therefore wrote none.
    /// Keeps the error of the last write: if the next one fails with it, that is not logged again.
    pub(crate) fn set_status_stored(&self) {
        self.is_status_unstored.store(false, Ordering::Relaxed);
    }

    /// The error of the last status write, if the stored status is outdated because of it.
    pub(crate) fn status_failure(&self) -> Option<String> {
        if !self.is_status_unstored.load(Ordering::Relaxed) {
            return None;
        }
        self.status_failure.lock().clone().map(|error| truncate(error, MAX_ERROR_CHARS))
    }

    /// Sets whether a reconcile ended without a decision.
    pub(crate) fn set_undecided(&self, is_undecided: bool) {
        self.early_retries.lock().set_undecided(is_undecided);
    }

    /// The due time of the next reconcile, after one that was due at `due`. Must be called once
    /// for each reconcile, because it may end the early retries, and forgets the time that
    /// [`Autoscaler::set_periodic_due`] stored.
    pub(crate) fn next_due(&self, due: Instant, period: Duration) -> NextDue {
        if let Some(periodic) = self.periodic_due.lock().take().filter(|at| *at > due) {
            // The period may be shorter now.
            return NextDue::Periodic(periodic.min(due + period));
        }
        self.early_retries.lock().next_due(due, period)
    }

    /// Sets the due time of the periodic reconcile when an additional reconcile is queued. Without
    /// this, the additional one would shift the periodic ones: all autoscalers of a schedule would
    /// be due at the same time from then on.
    pub(crate) fn set_periodic_due(&self, periodic: Instant) {
        *self.periodic_due.lock() = Some(periodic);
    }

    /// Stores the message about invalid annotations, `None` if all are valid. Returns whether to
    /// report it: there is one, and it differs from the previous one.
    pub fn replace_invalid_annotations(&self, message: Option<&str>) -> bool {
        let message = message.map(ToOwned::to_owned);
        let change = FailureChange::replace(&mut self.invalid_annotations.lock(), message);
        change == FailureChange::New
    }

    /// Stores the response to a GET, unless its UID differs or a newer version is cached.
    pub(crate) fn apply_read(&self, StoredHpa { object, spec_hash }: StoredHpa) {
        if self.has_uid(&object.metadata.uid) {
            self.update(object, Origin::WatchOrResponse, Some(spec_hash));
        }
    }

    /// Stores a version of the object, unless it is from a watch or a response and a newer one is
    /// cached. The first version after an undecodable one counts as a changed spec.
    pub(super) fn update(
        &self,
        object: HorizontalPodAutoscaler,
        origin: Origin,
        spec_hash: Option<u64>,
    ) -> Change {
        let mut latest = self.latest.write();
        let LatestVersion { object: cached, spec_hash: cached_hash, settings } = &mut *latest;
        let is_older =
            is_newer(&cached.metadata.resource_version, &object.metadata.resource_version);
        if origin == Origin::WatchOrResponse && is_older {
            return Change::Unchanged;
        }
        let change = if !desired_state_eq(cached, &object) {
            Change::SpecChanged
        } else if cached.status != object.status {
            Change::StatusChanged
        } else {
            Change::Unchanged
        };
        if change == Change::SpecChanged {
            settings.take();
        }
        *cached_hash = spec_hash.or(cached_hash.filter(|_| change != Change::SpecChanged));
        *cached = Arc::new(without_spare_capacity(object));
        if self.is_undecodable.swap(false, Ordering::Relaxed) {
            return Change::SpecChanged;
        }
        change
    }
}

/// Whether two versions of an object have the same spec and the same annotations. The cache has
/// only the annotations of this controller.
pub(crate) fn desired_state_eq(a: &HorizontalPodAutoscaler, b: &HorizontalPodAutoscaler) -> bool {
    a.spec == b.spec && a.metadata.annotations == b.metadata.annotations
}
