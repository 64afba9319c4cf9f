//! A schedule of `minReplicas` and `maxReplicas`.

mod entry;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

pub use self::entry::{Day, MAX_ZONE_LEN, ScheduledBounds, TimeOfDay};
use super::Settings;
use crate::{api::HorizontalPodAutoscalerSpec, time::after};

/// The maximum number of entries of a schedule.
pub(super) const MAX_ENTRIES: usize = 50;

/// A schedule of bounds. It caches the current bounds until their next change, because finding the
/// change takes up to a millisecond. Clones share the cache.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    entries: Arc<[ScheduledBounds]>,
    cache: Arc<Mutex<Option<CachedBounds>>>,
}

/// The bounds of one spec in a range of time.
#[derive(Clone, Copy, Debug)]
struct CachedBounds {
    /// The spec's bounds, and whether a scheduled minimum may be zero.
    key: (Bounds, bool),
    from: Timestamp,
    /// The end of the range, which is not part of it.
    until: Timestamp,
    bounds: Bounds,
    change: Option<BoundsChange>,
}

/// If the bounds have no next change, they are cached for this time.
const CACHE_TIME_WITHOUT_CHANGE: SignedDuration = SignedDuration::from_hours(24);

impl PartialEq for Schedule {
    fn eq(&self, other: &Self) -> bool {
        self.entries == other.entries
    }
}

impl std::ops::Deref for Schedule {
    type Target = [ScheduledBounds];

    fn deref(&self) -> &[ScheduledBounds] {
        &self.entries
    }
}

impl From<Vec<ScheduledBounds>> for Schedule {
    fn from(entries: Vec<ScheduledBounds>) -> Self {
        Self { entries: entries.into(), cache: Arc::default() }
    }
}

/// `minReplicas` and `maxReplicas` at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Bounds {
    /// The effective `minReplicas`.
    pub min_replicas: i32,
    /// The effective `maxReplicas`.
    pub max_replicas: i32,
}

/// The next change of the bounds by the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct BoundsChange {
    /// The time of the change.
    pub at: Timestamp,
    /// The bounds from then on.
    pub bounds: Bounds,
}

impl Bounds {
    /// The bounds of a spec, without a schedule.
    pub fn of_spec(spec: &HorizontalPodAutoscalerSpec) -> Self {
        let (min_replicas, max_replicas) = (spec.effective_min_replicas(), spec.max_replicas);
        Self { min_replicas, max_replicas }
    }

    /// Whether no number of replicas is within both bounds.
    pub fn exclude(self, other: Self) -> bool {
        self.max_replicas < other.min_replicas || other.max_replicas < self.min_replicas
    }
}

impl std::fmt::Display for Bounds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} to {} replicas", self.min_replicas, self.max_replicas)
    }
}

impl Settings {
    /// The effective bounds at a time. Each bound is the highest one that an active entry of the
    /// schedule sets, else the spec's. If the minimum is above the maximum, the maximum is raised.
    /// If the autoscaler may not scale to zero, or has no metric that can scale up from zero, the
    /// minimum of a schedule is at least 1.
    pub fn bounds_at(&self, spec: &HorizontalPodAutoscalerSpec, now: Timestamp) -> Bounds {
        match &self.bounds {
            None => Bounds::of_spec(spec),
            Some(entries) => {
                self.combine_entries(spec, entries.iter().filter(|entry| entry.holds(now)))
            }
        }
    }

    /// The index of the entry that sets the maximum at a time. `None` if no entry sets it then.
    pub(crate) fn entry_of_maximum(&self, now: Timestamp) -> Option<usize> {
        let entries = self.bounds.iter().flat_map(|schedule| schedule.iter()).enumerate();
        let active = entries.filter(|(_, entry)| entry.max_replicas.is_some() && entry.holds(now));
        active.max_by_key(|(_, entry)| entry.max_replicas).map(|(index, _)| index)
    }

    /// The next change of the bounds after a time. `None` if no schedule changes them within two
    /// weeks.
    pub fn next_bounds_change(
        &self,
        spec: &HorizontalPodAutoscalerSpec,
        now: Timestamp,
    ) -> Option<BoundsChange> {
        self.bounds_and_change_at(spec, now).1
    }

    /// [`Settings::bounds_at`] and [`Settings::next_bounds_change`] at once.
    pub(crate) fn bounds_and_change_at(
        &self,
        spec: &HorizontalPodAutoscalerSpec,
        now: Timestamp,
    ) -> (Bounds, Option<BoundsChange>) {
        let Some(schedule) = &self.bounds else { return (Bounds::of_spec(spec), None) };
        let key = (Bounds::of_spec(spec), self.may_scale_to_zero(spec));
        let lock = || schedule.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let is_valid =
            |cached: &CachedBounds| cached.key == key && (cached.from..cached.until).contains(&now);
        if let Some(found) = lock().filter(is_valid) {
            return (found.bounds, found.change);
        }
        let (bounds, change) = self.compute_bounds_and_change(spec, schedule, now);
        let until =
            change.map_or_else(|| after(now, CACHE_TIME_WITHOUT_CHANGE), |change| change.at);
        *lock() = Some(CachedBounds { key, from: now, until, bounds, change });
        (bounds, change)
    }

    /// [`Self::bounds_and_change_at`] without the cache.
    fn compute_bounds_and_change(
        &self,
        spec: &HorizontalPodAutoscalerSpec,
        entries: &[ScheduledBounds],
        now: Timestamp,
    ) -> (Bounds, Option<BoundsChange>) {
        let within = |days: i64| {
            let to = after(now, SignedDuration::from_hours(days * 24));
            let (bounds, changes) = self.sweep(spec, entries, now, to);
            (bounds, changes.first().copied())
        };
        // Most schedules change within a day. A weekly entry changes within a week, or within two
        // if the clocks skip one occurrence.
        let (bounds, change) = within(1);
        (bounds, change.or_else(|| within(7).1).or_else(|| within(14).1))
    }

    /// The changes of the bounds after `from`, up to and including `to`.
    pub fn bounds_changes(
        &self,
        spec: &HorizontalPodAutoscalerSpec,
        from: Timestamp,
        to: Timestamp,
    ) -> Vec<BoundsChange> {
        let Some(schedule) = &self.bounds else { return Vec::new() };
        self.sweep(spec, schedule, from, to).1
    }

    fn combine_entries<'a>(
        &self,
        spec: &HorizontalPodAutoscalerSpec,
        entries: impl Iterator<Item = &'a ScheduledBounds> + Clone,
    ) -> Bounds {
        let of_spec = Bounds::of_spec(spec);
        let min = entries.clone().filter_map(|entry| entry.min_replicas).max();
        let max = entries.filter_map(|entry| entry.max_replicas).max();
        let min = min.map(|min| if self.may_scale_to_zero(spec) { min } else { min.max(1) });
        let min_replicas = min.unwrap_or(of_spec.min_replicas);
        let max_replicas = max.unwrap_or(of_spec.max_replicas).max(min_replicas);
        Bounds { min_replicas, max_replicas }
    }

    fn may_scale_to_zero(&self, spec: &HorizontalPodAutoscalerSpec) -> bool {
        self.scale_to_zero && spec.has_object_or_external_metric()
    }

    /// The bounds at `from`, and their changes after it, up to and including `to`. One pass over
    /// the starts and ends of all entries.
    fn sweep(
        &self,
        spec: &HorizontalPodAutoscalerSpec,
        entries: &[ScheduledBounds],
        from: Timestamp,
        to: Timestamp,
    ) -> (Bounds, Vec<BoundsChange>) {
        let seconds = u64::try_from(to.duration_since(from).as_secs()).unwrap_or_default();
        // If the clocks change, a number of times 24 hours can end one calendar day later.
        let days = i32::try_from(seconds.div_ceil(24 * 60 * 60) + 1).unwrap_or_default();
        // The number of active occurrences of each entry. If the clocks skip the end of an entry,
        // it may start again before it ends.
        let mut active = vec![0_usize; entries.len()];
        // The starts (`true`) and ends of the occurrences, with the index of the entry.
        let mut edges: Vec<(Timestamp, usize, bool)> = Vec::new();
        for (index, entry) in entries.iter().enumerate() {
            for (start, end) in entry.occurrences(from, days).filter(|(_, end)| *end > from) {
                if start > from {
                    edges.push((start, index, true));
                } else if let Some(count) = active.get_mut(index) {
                    *count += 1;
                }
                edges.push((end, index, false));
            }
        }
        edges.sort_unstable();
        let bounds_of = |active: &[usize]| {
            let entries = entries.iter().zip(active).filter(|(_, count)| **count > 0);
            self.combine_entries(spec, entries.map(|(entry, _)| entry))
        };
        let at_start = bounds_of(&active);
        let mut current = at_start;
        let mut changes = Vec::new();
        for edges in edges.chunk_by(|one, other| one.0 == other.0) {
            for (_, index, starts) in edges {
                if let Some(count) = active.get_mut(*index) {
                    *count = if *starts { *count + 1 } else { count.saturating_sub(1) };
                }
            }
            let Some((at, ..)) = edges.first().filter(|(at, ..)| *at <= to) else { break };
            let bounds = bounds_of(&active);
            if bounds != current {
                current = bounds;
                changes.push(BoundsChange { at: *at, bounds });
            }
        }
        (at_start, changes)
    }
}
