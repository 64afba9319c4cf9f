//! The schedule of shard writes. It does no I/O.

#[cfg(test)]
mod tests;

use std::time::Duration;

use hashbrown::HashMap;
use tokio::time::Instant;

use super::{
    shard::{shard_count, shard_index},
    snapshot::HistorySnapshot,
};
use crate::key::HpaKey;

/// The delay of a change, so that other changes are written together with it.
const BATCH_DELAY: Duration = Duration::from_millis(200);
/// The delay after a failed write.
const RETRY_DELAY: Duration = Duration::from_secs(5);
/// A shard of N autoscalers is written at most N times in this many milliseconds.
const WRITE_INTERVAL_PER_AUTOSCALER_MS: u64 = 60_000;
/// The minimum interval between writes of a shard, however many autoscalers it has.
const MIN_WRITE_INTERVAL: Duration = Duration::from_secs(5);
/// The maximum average write rate of a shard of up to 240 KiB. A larger one may be written once a
/// minute.
const BYTES_PER_SECOND: u32 = 4096;

/// The snapshot of an autoscaler, with the autoscaler's UID.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ShardEntry {
    pub(super) uid: String,
    pub(super) snapshot: HistorySnapshot,
}

/// The content of one shard and the state of its writes.
#[derive(Debug)]
pub(super) struct ShardState {
    pub(super) entries: HashMap<HpaKey, ShardEntry>,
    /// The resource version of the shard's ConfigMap. `None` if that doesn't exist yet.
    pub(super) resource_version: Option<String>,
    /// The time of the first change since the start of the last write. A failed write and a split
    /// of the shards count as changes.
    changed_at: Option<Instant>,
    /// The time of the first change in the write in progress or in failed writes.
    unsaved_since: Option<Instant>,
    is_failing: bool,
    /// The earliest time of the next write.
    not_before: Instant,
}

impl ShardState {
    fn new(now: Instant) -> Self {
        Self {
            entries: HashMap::new(),
            resource_version: None,
            changed_at: None,
            unsaved_since: None,
            is_failing: false,
            not_before: now,
        }
    }

    fn due(&self) -> Option<Instant> {
        self.changed_at.map(|changed| (changed + BATCH_DELAY).max(self.not_before))
    }
}

fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    one.into_iter().chain(other).min()
}

/// The minimum interval between writes of a shard with this many autoscalers and bytes.
pub(super) fn min_write_interval(autoscalers: usize, bytes: usize) -> Duration {
    let autoscalers = u64::try_from(autoscalers).unwrap_or(u64::MAX).max(1);
    let by_size =
        Duration::from_secs(1) * u32::try_from(bytes).unwrap_or(u32::MAX) / BYTES_PER_SECOND;
    // Rounded up to the resolution of timers.
    let by_count = Duration::from_millis(WRITE_INTERVAL_PER_AUTOSCALER_MS.div_ceil(autoscalers));
    let max = Duration::from_millis(WRITE_INTERVAL_PER_AUTOSCALER_MS);
    by_count.max(by_size).clamp(MIN_WRITE_INTERVAL, max)
}

/// All shards, with their due times.
#[derive(Debug)]
pub(super) struct WriteSchedule {
    shards: Vec<ShardState>,
}

impl WriteSchedule {
    /// A schedule of empty shards.
    pub(super) fn new(shard_count: usize, now: Instant) -> Self {
        Self { shards: (0..shard_count.max(1)).map(|_| ShardState::new(now)).collect() }
    }

    pub(super) fn shard_count(&self) -> usize {
        self.shards.len()
    }

    /// Inserts a snapshot without scheduling a write.
    pub(super) fn insert(&mut self, key: HpaKey, entry: ShardEntry) {
        let index = shard_index(&key, self.shards.len());
        if let Some(shard) = self.shards.get_mut(index) {
            shard.entries.insert(key, entry);
        }
    }

    /// Sets the resource version of a stored shard, and the minimum delay until it is written
    /// again.
    pub(super) fn set_stored(
        &mut self,
        index: usize,
        resource_version: Option<String>,
        delay: Duration,
        now: Instant,
    ) {
        if let Some(shard) = self.shards.get_mut(index) {
            shard.resource_version = resource_version;
            shard.not_before = now + delay;
        }
    }

    /// Updates the snapshot of an autoscaler. Returns whether this schedules a write.
    pub(super) fn update(&mut self, key: &HpaKey, entry: ShardEntry, now: Instant) -> bool {
        let index = shard_index(key, self.shards.len());
        let Some(shard) = self.shards.get_mut(index) else { return false };
        let is_changed = match shard.entries.get_mut(key) {
            Some(stored) => {
                let is_changed =
                    stored.uid != entry.uid || entry.snapshot.must_replace(&stored.snapshot);
                *stored = entry;
                is_changed
            }
            None => shard.entries.insert(key.clone(), entry).is_none(),
        };
        let is_first = is_changed && shard.changed_at.is_none();
        if is_first {
            shard.changed_at = Some(now);
        }
        let autoscalers = self.shards.iter().map(|shard| shard.entries.len()).sum();
        self.split_if_full(autoscalers, now) || is_first
    }

    /// If this number of autoscalers needs more shards, distributes the entries over them, and
    /// schedules a write of every shard. Returns whether it did so.
    pub(super) fn split_if_full(&mut self, autoscalers: usize, now: Instant) -> bool {
        let count = shard_count(autoscalers);
        if count <= self.shards.len() {
            return false;
        }
        let entries: Vec<_> =
            self.shards.iter_mut().flat_map(|shard| shard.entries.drain()).collect();
        self.shards.resize_with(count, || ShardState::new(now));
        for (key, entry) in entries {
            self.insert(key, entry);
        }
        for shard in &mut self.shards {
            shard.changed_at.get_or_insert(now);
        }
        true
    }

    /// The due time and the index of the shard to write next. Of several shards that are due at the
    /// same time, the one with the highest index is written first: a reader takes the number of
    /// shards from the headers of the first shards, so these must be written last.
    pub(super) fn next_write(&self) -> Option<(Instant, usize)> {
        let shards = self.shards.iter().enumerate();
        let due = shards.filter_map(|(index, shard)| Some((shard.due()?, index)));
        due.min_by_key(|(due, index)| (*due, usize::MAX - index))
    }

    /// The changed shards, last first.
    pub(super) fn changed_shards(&self) -> Vec<usize> {
        let shards = self.shards.iter().enumerate().rev();
        shards.filter(|(_, shard)| shard.changed_at.is_some()).map(|(index, _)| index).collect()
    }

    /// Returns the shard to write. Changes from now on need another write.
    pub(super) fn start_write(&mut self, index: usize) -> Option<&mut ShardState> {
        let shard = self.shards.get_mut(index)?;
        shard.unsaved_since = earlier(shard.unsaved_since, shard.changed_at.take());
        Some(shard)
    }

    pub(super) fn write_succeeded(
        &mut self,
        index: usize,
        resource_version: Option<String>,
        bytes: usize,
        now: Instant,
    ) {
        if let Some(shard) = self.shards.get_mut(index) {
            shard.resource_version = resource_version;
            (shard.unsaved_since, shard.is_failing) = (None, false);
            shard.not_before = now + min_write_interval(shard.entries.len(), bytes);
        }
    }

    pub(super) fn write_failed(&mut self, index: usize, now: Instant) {
        if let Some(shard) = self.shards.get_mut(index) {
            shard.changed_at.get_or_insert(now);
            shard.is_failing = true;
            shard.not_before = now + RETRY_DELAY;
        }
    }

    /// The time of the first change that could not be written.
    pub(super) fn unsaved_since(&self) -> Option<Instant> {
        let failing = self.shards.iter().filter(|shard| shard.is_failing);
        failing.filter_map(|shard| earlier(shard.unsaved_since, shard.changed_at)).min()
    }
}
