//! The rows of the list, with what they were made of.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use hpa_calc::{
    HorizontalPodAutoscaler, Settings, defaults::apply_defaults, settings::SettingPolicy,
};
use hpa_controller::debug::settings_of_controller;
use jiff::{SignedDuration, Timestamp};

use super::{Controller, Identity, ObservedAutoscaler, Row, Sample, Series};
use crate::past::{Overdue, shifted};

/// Limit for the samples of all autoscalers together. A sample with two metrics has about 90 bytes.
const MAX_SAMPLES: usize = 500_000;
/// Bounds of the limit for the samples of one autoscaler.
const SAMPLES: std::ops::RangeInclusive<usize> = 60..=1000;
/// Ages of a decision that differ by less are of the same one.
const SAME_AGE: SignedDuration = SignedDuration::from_secs(5);
/// The number of deletions that are remembered. A reader that missed more gets all rows again.
pub(super) const MAX_DELETIONS: usize = 1000;

/// An autoscaler, and what was observed of it.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) row: Row,
    /// `None` if the object could not be decoded.
    pub(crate) hpa: Option<Arc<HorizontalPodAutoscaler>>,
    pub(crate) controller: Controller,
    pub(crate) series: Series,
    /// The version of the board at the last change of the object.
    pub(crate) version: u64,
}

/// All autoscalers that are shown.
#[derive(Default)]
pub(super) struct Rows {
    pub(super) entries: HashMap<Identity, Entry>,
    pub(super) deleted: VecDeque<(u64, Identity)>,
    /// The version of the newest deletion that was dropped from `deleted`.
    pub(super) forgotten: u64,
    /// Since when autoscalers are without a decision.
    pub(super) overdue: HashMap<Identity, Timestamp>,
    /// The version of the change that is being made.
    pub(super) version: u64,
    /// The controller's settings, if they are known; otherwise the defaults.
    settings: Settings,
    /// The settings that autoscalers may override.
    policy: SettingPolicy,
}

impl Rows {
    pub(super) fn new(settings: Settings, policy: SettingPolicy) -> Self {
        Self { settings, policy, ..Self::default() }
    }

    pub(super) fn apply(&mut self, observed: ObservedAutoscaler, now: Timestamp) {
        let ObservedAutoscaler { id, hpa, controller } = observed;
        let (capacity, version) = (self.capacity(), self.version);
        let mut hpa = match hpa {
            Ok(hpa) => hpa,
            Err(error) => {
                let row = Row::undecodable(id.clone(), &error);
                let series = Series::default();
                self.entries.insert(id, Entry { row, hpa: None, controller, series, version });
                return;
            }
        };
        apply_defaults(&mut hpa.spec);
        let previous = self.entries.remove(&id);
        let is_unchanged = |entry: &&Entry| {
            entry.hpa.as_deref() == Some(&hpa) && entry.controller.name == controller.name
        };
        if let Some(entry) = previous.as_ref().filter(is_unchanged) {
            // A list repeats what a watch returned.
            self.entries.insert(id, entry.clone());
            return;
        }
        let is_same = |entry: &Entry| {
            entry.hpa.as_ref().is_some_and(|old| old.metadata.uid == hpa.metadata.uid)
        };
        // A re-created object has no past.
        let mut series = previous.filter(is_same).map(|entry| entry.series).unwrap_or_default();
        series.set_metrics(&hpa);
        if !hpa.status.conditions.is_empty() {
            series.record(Sample::from_status(&hpa, now), capacity);
        }
        let is_reference = controller.is_reference();
        let settings =
            settings_of_controller(self.settings.clone(), &hpa, &self.policy, is_reference);
        let undecided_since = self.overdue.get(&id).copied();
        let row = Row { undecided_since, ..Row::new(id.clone(), &hpa, &settings, now) };
        self.entries
            .insert(id, Entry { row, hpa: Some(Arc::new(hpa)), controller, series, version });
    }

    /// Since when autoscalers are without a decision. A time that differs little from the last one
    /// stays, because each change of a row is sent to all pages.
    pub(super) fn times_of(
        &self,
        overdue: Vec<Overdue>,
        now: Timestamp,
    ) -> HashMap<Identity, Timestamp> {
        let times = overdue.into_iter().map(|Overdue { key, age }| {
            let (id, since) = (Identity::from(&key), shifted(now, -age));
            let known = self.overdue.get(&id).copied();
            let known = known.filter(|known| known.duration_since(since).abs() < SAME_AGE);
            (id, known.unwrap_or(since))
        });
        times.collect()
    }

    pub(super) fn set_overdue(&mut self, overdue: HashMap<Identity, Timestamp>) {
        self.overdue = overdue;
        for (id, entry) in &mut self.entries {
            let since = self.overdue.get(id).copied();
            if entry.row.undecided_since != since {
                entry.row.undecided_since = since;
                entry.version = self.version;
            }
        }
    }

    pub(super) fn delete(&mut self, id: &Identity) {
        if self.entries.remove(id).is_none() {
            return;
        }
        self.deleted.push_back((self.version, id.clone()));
        while self.deleted.len() > MAX_DELETIONS {
            if let Some((version, _)) = self.deleted.pop_front() {
                self.forgotten = version;
            }
        }
    }

    /// The maximum number of samples of an autoscaler.
    pub(super) fn capacity(&self) -> usize {
        (MAX_SAMPLES / self.entries.len().max(1)).clamp(*SAMPLES.start(), *SAMPLES.end())
    }
}
