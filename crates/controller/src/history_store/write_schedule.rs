//! What is kept, and when which shard of it is to be written: no I/O.

use std::time::Duration;

use hashbrown::HashMap;
use tokio::time::Instant;

use super::{
    shard::{shard_of, shards_for},
    snapshot::HistorySnapshot,
};
use crate::key::HpaKey;

/// How long a change waits for others to be written with it.
const SOON: Duration = Duration::from_millis(200);
/// After a failed write.
const RETRY: Duration = Duration::from_secs(5);
/// At most one write per autoscaler and so long, in milliseconds.
const PER_AUTOSCALER: u64 = 60_000;
/// However many autoscalers a shard has.
const SHORTEST_PAUSE: Duration = Duration::from_secs(5);
/// How many bytes a shard may write per second in the long run: what etcd is to bear of all shards is 64 KiB.
const BYTES_PER_SECOND: u32 = 4096;

/// What is kept of one autoscaler.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Snapshot {
    pub(super) uid: String,
    pub(super) entry: HistorySnapshot,
}

/// A part of it that is written as one object.
#[derive(Debug)]
pub(super) struct PendingShard {
    pub(super) entries: HashMap<HpaKey, Snapshot>,
    /// The version of the object, if it is known to be there.
    pub(super) version: Option<String>,
    /// Since when it has something to write.
    changed: Option<Instant>,
    not_before: Instant,
}

impl PendingShard {
    fn new(now: Instant) -> Self {
        Self { entries: HashMap::new(), version: None, changed: None, not_before: now }
    }

    fn due(&self) -> Option<Instant> {
        self.changed.map(|changed| (changed + SOON).max(self.not_before))
    }
}

/// How long a shard of so many autoscalers and bytes is left alone after it was written.
pub(super) fn pause(autoscalers: usize, bytes: usize) -> Duration {
    let autoscalers = u64::try_from(autoscalers).unwrap_or(u64::MAX).max(1);
    let bytes =
        Duration::from_secs(1) * u32::try_from(bytes).unwrap_or(u32::MAX) / BYTES_PER_SECOND;
    // Rounded up: a timer counts milliseconds.
    let share = Duration::from_millis(PER_AUTOSCALER.div_ceil(autoscalers));
    share.max(bytes).clamp(SHORTEST_PAUSE, Duration::from_millis(PER_AUTOSCALER))
}

/// What is kept of all autoscalers.
#[derive(Debug)]
pub(super) struct WriteSchedule {
    parts: Vec<PendingShard>,
}

impl WriteSchedule {
    /// An empty book of so many shards.
    pub(super) fn new(shards: usize, now: Instant) -> Self {
        Self { parts: (0..shards.max(1)).map(|_| PendingShard::new(now)).collect() }
    }

    /// How many shards there are.
    pub(super) fn shards(&self) -> usize {
        self.parts.len()
    }

    /// Puts in what was read: it is not to be written.
    pub(super) fn put(&mut self, key: HpaKey, kept: Snapshot) {
        let index = shard_of(&key, self.parts.len());
        if let Some(part) = self.parts.get_mut(index) {
            part.entries.insert(key, kept);
        }
    }

    /// A shard was found with this version, and is not to be written for this long.
    pub(super) fn found(
        &mut self,
        index: usize,
        version: Option<String>,
        pause: Duration,
        now: Instant,
    ) {
        if let Some(part) = self.parts.get_mut(index) {
            part.version = version;
            part.not_before = now + pause;
        }
    }

    /// Takes in what is to be kept of an autoscaler; whether there was nothing to write in its shard before.
    pub(super) fn update(&mut self, key: &HpaKey, kept: Snapshot, now: Instant) -> bool {
        let index = shard_of(key, self.parts.len());
        let Some(part) = self.parts.get_mut(index) else { return false };
        let is_news = match part.entries.get_mut(key) {
            Some(known) => {
                let is_news = known.uid != kept.uid || kept.entry.is_news_after(&known.entry);
                *known = kept;
                is_news
            }
            None => part.entries.insert(key.clone(), kept).is_none(),
        };
        let is_first = is_news && part.changed.is_none();
        if is_first {
            part.changed = Some(now);
        }
        self.grow(now) || is_first
    }

    /// Divides the shards if there are too many autoscalers; whether it did.
    fn grow(&mut self, now: Instant) -> bool {
        let autoscalers = self.parts.iter().map(|part| part.entries.len()).sum();
        if shards_for(autoscalers) <= self.parts.len() {
            return false;
        }
        self.divide(shards_for(autoscalers), now);
        true
    }

    /// Divides what there is into more shards, all of which are to be written then.
    pub(super) fn divide(&mut self, shards: usize, now: Instant) {
        let entries: Vec<_> = self.parts.iter_mut().flat_map(|part| part.entries.drain()).collect();
        self.parts.resize_with(shards, || PendingShard::new(now));
        for (key, kept) in entries {
            self.put(key, kept);
        }
        for part in &mut self.parts {
            part.changed.get_or_insert(now);
        }
    }

    /// Which shard is to be written next, and when. Of several the last: the first shards are those of which a reader
    /// learns how many there are.
    pub(super) fn next(&self) -> Option<(Instant, usize)> {
        let due =
            self.parts.iter().enumerate().filter_map(|(index, part)| Some((part.due()?, index)));
        due.min_by_key(|(due, index)| (*due, usize::MAX - index))
    }

    /// The shards that have something to write, the last first.
    pub(super) fn changed(&self) -> Vec<usize> {
        let parts = self.parts.iter().enumerate().rev();
        parts.filter(|(_, part)| part.changed.is_some()).map(|(index, _)| index).collect()
    }

    /// A shard that is about to be written.
    pub(super) fn begin(&mut self, index: usize) -> Option<&mut PendingShard> {
        let part = self.parts.get_mut(index)?;
        part.changed = None;
        Some(part)
    }

    /// A shard of this many bytes was written.
    pub(super) fn written(
        &mut self,
        index: usize,
        version: Option<String>,
        bytes: usize,
        now: Instant,
    ) {
        if let Some(part) = self.parts.get_mut(index) {
            part.version = version;
            part.not_before = now + pause(part.entries.len(), bytes);
        }
    }

    /// The write of a shard failed.
    pub(super) fn failed(&mut self, index: usize, now: Instant) {
        if let Some(part) = self.parts.get_mut(index) {
            part.changed.get_or_insert(now);
            part.not_before = now + RETRY;
        }
    }
}
