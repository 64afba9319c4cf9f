//! Stores histories in ConfigMaps, so that the next leader scales down neither too early nor too
//! late.
//!
//! A stabilization window needs past recommendations. The reference loses them when its process
//! ends, and starts with the current replicas as the only recommendation. Here the leader writes
//! the relevant part of all histories to a few ConfigMaps in the namespace of the lease. Decisions
//! don't wait for these writes. An unchanged recommendation is not written again: the successor
//! assumes that it held until the last renewal of the lease.

#[cfg(any(test, fuzzing))]
pub(crate) mod differential;
mod health;
mod shard;
mod snapshot;
mod write_schedule;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use hpa_lease::Clock;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Api, ResourceExt, api::PostParams};
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::{
    cache::Autoscalers,
    k8s::KubeError,
    key::HpaKey,
    reconcile::{Observer, ReconcileBeforeStatusWrite},
    settings::SettingSource,
};
pub(crate) use health::HistoryHealth;
use shard::{EncodedShard, MAX_SHARDS, Shard, decode, encode, shard_name};
use snapshot::HistorySnapshot;
use write_schedule::{ShardEntry, WriteSchedule, min_write_interval};

const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);
const READ_ATTEMPTS: usize = 3;
const READ_RETRY_DELAY: Duration = Duration::from_millis(300);

/// Stores the histories of the autoscalers. It receives them as an [`Observer`], and
/// [`HistoryStore::run`] writes them.
pub(crate) struct HistoryStore {
    api: Api<ConfigMap>,
    /// The prefix of the ConfigMaps' names.
    prefix: String,
    settings: Arc<SettingSource>,
    autoscalers: Arc<Autoscalers>,
    clock: Arc<dyn Clock>,
    schedule: Mutex<WriteSchedule>,
    /// Wakes `run` when a write is scheduled.
    changed: Notify,
    health: Arc<HistoryHealth>,
    /// The longest time that a leader change takes.
    max_leader_change: Duration,
}

/// The validity of the stored histories, according to the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HistoryValidity {
    /// The time until which the last stored recommendations held.
    pub(crate) until: Timestamp,
    /// Whether no write of histories was failing when the last leader ended.
    pub(crate) is_complete: bool,
}

/// A ConfigMap as it was read.
struct StoredShard {
    /// `None` if the ConfigMap doesn't exist.
    resource_version: Option<String>,
    /// `None` if its content is not a shard in the layout of this version.
    shard: Option<Shard>,
}

impl StoredShard {
    /// The number of histories that are ignored. A ConfigMap that is not a shard counts as one.
    fn rejected(&self) -> usize {
        match &self.shard {
            Some(shard) => shard.rejected,
            None => usize::from(self.resource_version.is_some()),
        }
    }
}

/// Stored snapshots by UID, each with the time its shard was written.
type SnapshotsByUid = BTreeMap<String, (Timestamp, HistorySnapshot)>;

impl Observer for HistoryStore {
    fn concluded(&self, concluded: &ReconcileBeforeStatusWrite<'_>) {
        let ReconcileBeforeStatusWrite { key, hpa, settings, conclusion, .. } = concluded;
        let (status, history) = (&conclusion.status, &conclusion.history);
        let (name, now) = (key.to_string(), self.clock.now());
        let snapshot = HistorySnapshot::new(name, &hpa.spec, status, history, settings, now);
        let entry = ShardEntry { uid: hpa.metadata.uid.clone(), snapshot };
        if self.schedule.lock().update(key, entry, Instant::now()) {
            self.changed.notify_one();
        }
    }
}

impl HistoryStore {
    /// An empty store. `api` must write only while this instance is the leader.
    pub(crate) fn new(
        api: Api<ConfigMap>,
        prefix: String,
        settings: Arc<SettingSource>,
        autoscalers: Arc<Autoscalers>,
        clock: Arc<dyn Clock>,
        health: Arc<HistoryHealth>,
        max_leader_change: Duration,
    ) -> Self {
        Self {
            api,
            prefix,
            settings,
            autoscalers,
            clock,
            schedule: Mutex::new(WriteSchedule::new(1, Instant::now())),
            changed: Notify::new(),
            health,
            max_leader_change,
        }
    }

    /// Restores the stored histories of the cached autoscalers. `validity` is `None` if the last
    /// leader stored no histories or is unknown. The ConfigMaps may then be older, so each history
    /// is valid only until it was written. If the ConfigMaps can't be read, the autoscalers start
    /// without a history, as in the reference.
    pub(crate) async fn restore(&self, validity: Option<HistoryValidity>) {
        let shards = match self.read_shards().await {
            Ok(shards) => shards,
            Err(error) => {
                warn!(error, "failed to read the stored histories, so all windows start empty");
                return;
            }
        };
        let rejected: usize = shards.iter().map(StoredShard::rejected).sum();
        let is_stored = shards.iter().any(|shard| shard.resource_version.is_some());
        let autoscalers = self.restore_shards(shards, validity);
        if !is_stored {
            info!("no histories are stored: all windows start empty");
            return;
        }
        info!(autoscalers, "restored the stored histories");
        if rejected > 0 {
            warn!(
                rejected,
                "ignored invalid stored histories, which another client or version may have written"
            );
            self.health.add_rejected(u64::try_from(rejected).unwrap_or(u64::MAX));
        }
        match validity {
            Some(HistoryValidity { until, is_complete: false }) => warn!(
                complete_until = %until,
                "the previous leader could not store all histories, so stabilization windows start \
                 again with the current replicas"
            ),
            Some(HistoryValidity { until, .. }) if self.ended_long_ago(until) => info!(
                lease_renewed = %until,
                "the previous leader stopped too long ago, so stabilization windows start again \
                 with the current replicas"
            ),
            Some(_) | None => {}
        }
    }

    /// Reads all shards. The error is a text for the log.
    async fn read_shards(&self) -> Result<Vec<StoredShard>, String> {
        let mut shards: Vec<StoredShard> = Vec::new();
        let mut count = 1;
        while shards.len() < count {
            let object = self.read_config_map(shards.len()).await?;
            let shard = object.as_ref().and_then(decode);
            let total = shard.as_ref().map_or(1, |shard| shard.header.shard_count);
            count = count.max(total.min(MAX_SHARDS));
            let resource_version = object.and_then(|object| object.resource_version());
            shards.push(StoredShard { resource_version, shard });
        }
        Ok(shards)
    }

    async fn read_config_map(&self, shard: usize) -> Result<Option<ConfigMap>, String> {
        let name = shard_name(&self.prefix, shard);
        let mut attempts = READ_ATTEMPTS;
        loop {
            attempts -= 1;
            let error = match timeout(REQUEST_TIMEOUT, self.api.get_opt(&name)).await {
                Ok(Ok(object)) => return Ok(object),
                Ok(Err(error)) => KubeError::from(error),
                Err(_) => KubeError::TimedOut,
            };
            if attempts == 0 || !is_retriable(&error) {
                return Err(format!("failed to read ConfigMap {name:?}: {error}"));
            }
            sleep(READ_RETRY_DELAY).await;
        }
    }

    /// Restores the histories and starts the write schedule. Returns the number of restored
    /// autoscalers.
    fn restore_shards(&self, shards: Vec<StoredShard>, validity: Option<HistoryValidity>) -> usize {
        let now = Instant::now();
        let wall = self.clock.now();
        let mut schedule = WriteSchedule::new(shards.len().next_power_of_two(), now);
        let mut by_uid = SnapshotsByUid::new();
        for (index, StoredShard { resource_version, shard }) in shards.into_iter().enumerate() {
            let Some(Shard { header, snapshots, .. }) = shard else {
                schedule.set_stored(index, resource_version, Duration::ZERO, now);
                continue;
            };
            let age = wall.duration_since(header.written).unsigned_abs();
            let interval = min_write_interval(snapshots.len(), 0);
            let delay = interval.saturating_sub(age);
            schedule.set_stored(index, resource_version, delay, now);
            for (uid, snapshot) in snapshots {
                let newest = by_uid.get(&uid).map(|(written, _)| *written);
                if newest.is_none_or(|newest| newest < header.written) {
                    by_uid.insert(uid, (header.written, snapshot));
                }
            }
        }
        let mut restored = 0;
        for key in self.autoscalers.keys_where(|_| true) {
            let is_restored = self.restore_autoscaler(&key, &mut by_uid, &mut schedule, validity);
            restored += usize::from(is_restored);
        }
        schedule.split_if_full(self.autoscalers.len(), now);
        *self.schedule.lock() = schedule;
        restored
    }

    /// Restores the history of an autoscaler. Returns whether a history of it is stored.
    fn restore_autoscaler(
        &self,
        key: &HpaKey,
        by_uid: &mut SnapshotsByUid,
        schedule: &mut WriteSchedule,
        validity: Option<HistoryValidity>,
    ) -> bool {
        let Some(autoscaler) = self.autoscalers.get(key) else { return false };
        let (object, settings) = autoscaler.object_with_settings(&self.settings);
        let now = self.clock.instants();
        let Some((written, snapshot)) = by_uid.remove(&object.metadata.uid) else { return false };
        let valid_until = validity.map_or(written, |validity| validity.until.max(written));
        let (spec, status) = (&object.spec, &object.status);
        let history = snapshot.restore(spec, status, &settings, valid_until, now.wall);
        debug!(hpa = %key, ?history, "restored the history");
        let is_complete = validity.is_none_or(|validity| validity.is_complete)
            && !self.ended_long_ago(valid_until);
        let replicas = is_complete.then_some(status.desired_replicas);
        autoscaler.restore_history(history, replicas, now);
        let uid = object.metadata.uid.clone();
        schedule.insert(key.clone(), ShardEntry { uid, snapshot });
        true
    }

    /// Whether more time has passed since a history was last valid than a leader change takes. The
    /// recommendations of that time are then unknown.
    fn ended_long_ago(&self, valid_until: Timestamp) -> bool {
        let age = Duration::try_from(self.clock.now().duration_since(valid_until));
        age.is_ok_and(|age| age > self.max_leader_change)
    }

    /// Writes shards as they become due. Once `stop` is cancelled, writes the changed shards and
    /// returns.
    pub(crate) async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut is_failing = false;
        while !stop.is_cancelled() {
            let next = self.schedule.lock().next_write();
            let due = async {
                match next {
                    Some((due, shard)) => {
                        sleep_until(due).await;
                        shard
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = stop.cancelled() => {}
                () = self.changed.notified() => {}
                shard = due => self.write_shard(shard, &mut is_failing).await,
            }
        }
        let changed = self.schedule.lock().changed_shards();
        for shard in changed {
            self.write_shard(shard, &mut is_failing).await;
        }
    }

    /// Writes a shard. Logs the first of consecutive failures.
    async fn write_shard(&self, shard: usize, is_failing: &mut bool) {
        let result = self.try_write_shard(shard).await;
        if result.is_err() {
            self.schedule.lock().write_failed(shard, Instant::now());
        }
        self.update_health();
        match result {
            Ok(()) if std::mem::take(is_failing) => info!("history writes succeed again"),
            Ok(()) => {}
            Err(error) => {
                if !std::mem::replace(is_failing, true) {
                    warn!(error, "failed to write histories for the next leader; retrying");
                }
            }
        }
    }

    fn update_health(&self) {
        let unsaved = self.schedule.lock().unsaved_since();
        let wall_clock = |at: Instant| {
            let age = SignedDuration::try_from(at.elapsed()).unwrap_or(SignedDuration::MAX);
            self.clock.now().saturating_sub(age).unwrap_or(Timestamp::MIN)
        };
        self.health.set_unsaved(unsaved.map(|at| (wall_clock(at), at)));
    }

    async fn try_write_shard(&self, shard: usize) -> Result<(), String> {
        let name = shard_name(&self.prefix, shard);
        let (EncodedShard { data, bytes, .. }, mut version) = self.start_write(shard)?;
        let mut is_retry = false;
        loop {
            let object = self.config_map(&name, version.clone(), data.clone());
            let parameters = PostParams::default();
            let request = async {
                match version {
                    Some(_) => self.api.replace(&name, &parameters, &object).await,
                    None => self.api.create(&parameters, &object).await,
                }
            };
            let error = match timeout(REQUEST_TIMEOUT, request).await {
                Ok(Ok(stored)) => {
                    let version = stored.resource_version();
                    self.schedule.lock().write_succeeded(shard, version, bytes, Instant::now());
                    return Ok(());
                }
                Ok(Err(error)) => KubeError::from(error),
                Err(_) => KubeError::TimedOut,
            };
            let is_outdated =
                matches!(&error, KubeError::Refused(status) if matches!(status.code, 404 | 409));
            if !is_outdated || is_retry {
                return Err(format!("failed to write ConfigMap {name:?}: {error}"));
            }
            // Another client wrote or deleted the ConfigMap. The leader overwrites it.
            is_retry = true;
            let object = self.read_config_map(shard).await?;
            version = object.and_then(|object| object.resource_version());
        }
    }

    fn config_map(
        &self,
        name: &str,
        resource_version: Option<String>,
        data: BTreeMap<String, String>,
    ) -> ConfigMap {
        let managed_by = ("app.kubernetes.io/managed-by".into(), self.prefix.clone());
        let metadata = ObjectMeta {
            name: Some(name.to_owned()),
            resource_version,
            labels: Some(BTreeMap::from([managed_by])),
            ..ObjectMeta::default()
        };
        ConfigMap { metadata, data: Some(data), ..ConfigMap::default() }
    }

    /// Removes the deleted autoscalers from a shard and encodes it for a write. Returns it with the
    /// resource version of its ConfigMap.
    fn start_write(&self, shard: usize) -> Result<(EncodedShard, Option<String>), String> {
        let mut schedule = self.schedule.lock();
        let count = schedule.shard_count();
        let pending =
            schedule.start_write(shard).ok_or_else(|| format!("there is no shard {shard}"))?;
        pending.entries.retain(|key, entry| {
            let cached = self.autoscalers.get(key);
            cached.is_some_and(|cached| cached.object().metadata.uid == entry.uid)
        });
        let entries = pending.entries.values();
        let snapshots = entries.map(|entry| (entry.uid.as_str(), &entry.snapshot));
        let encoded = encode(count, self.clock.now(), snapshots)
            .map_err(|error| format!("failed to encode shard {shard}: {error}"))?;
        if encoded.omitted > 0 {
            let omitted = encoded.omitted;
            warn!(omitted, shard, "a history shard is full: some histories are not stored");
        }
        Ok((encoded, pending.resource_version.clone()))
    }
}

/// Whether a repeated read may succeed. It can't after a client error other than too many requests.
fn is_retriable(error: &KubeError) -> bool {
    !matches!(error, KubeError::Refused(status) if status.code < 500 && status.code != 429)
}
