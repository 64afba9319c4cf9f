//! All autoscalers, with the version of their last change.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    sync::Arc,
};

use hpa_calc::{
    HorizontalPodAutoscaler, Settings, defaults::apply_defaults, settings::SettingPolicy,
};
use hpa_controller::{AutoscalerApi, debug::settings_of_controller};
use jiff::{SignedDuration, Timestamp};
use parking_lot::RwLock;
use serde::Serialize;
use tokio::sync::watch;

use super::{Controller, Identity, Row, Sample, Series};
use crate::past::{Overdue, PastSample, shifted};

/// Limit for the samples of all autoscalers together. A sample with two metrics has about 90 bytes.
const MAX_SAMPLES: usize = 500_000;
/// Bounds of the limit for the samples of one autoscaler.
const SAMPLES: std::ops::RangeInclusive<usize> = 60..=1000;
/// Two ages that differ by less belong to the same decision.
const SAME_AGE: SignedDuration = SignedDuration::from_secs(5);
/// The number of stored deletions. A reader that missed more gets all rows again.
pub(super) const MAX_DELETIONS: usize = 1000;

/// An autoscaler as a list or a watch returned it.
#[derive(Clone, Debug)]
pub(crate) struct ObservedAutoscaler {
    pub(crate) id: Identity,
    pub(crate) hpa: Result<HorizontalPodAutoscaler, String>,
    pub(crate) controller: Controller,
}

/// A change to the autoscalers of one API.
#[derive(Clone, Debug)]
pub(crate) enum Update {
    /// A new list. Autoscalers that it lacks were deleted.
    Replace(AutoscalerApi, Vec<ObservedAutoscaler>),
    Apply(Box<ObservedAutoscaler>),
    Delete(Identity),
}

/// The state of the list of autoscalers of an API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SourceState {
    /// The first list is not complete.
    Reading,
    Synced,
    /// The cluster doesn't have the API.
    NotServed,
    /// A sentence about a list or watch that fails.
    Failed(String),
}

/// An autoscaler, and the data that the dashboard has about it.
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

/// The changes of the list since a reader's last version.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Changes {
    /// Whether `rows` has all rows. The reader then discards its previous rows.
    pub(crate) reset: bool,
    pub(crate) rows: Vec<Row>,
    pub(crate) deleted: Vec<Identity>,
    /// The first lists are complete, or have failed.
    pub(crate) synced: bool,
    /// Sentences about data that can't be read or is not shown.
    pub(crate) problems: Vec<String>,
    /// Whether `problems` says that the controller makes no decisions.
    pub(crate) silent: bool,
    /// The clock that times refer to.
    pub(crate) now: Timestamp,
    #[serde(skip)]
    pub(crate) version: u64,
}

/// All autoscalers.
pub(crate) struct Board {
    state: RwLock<Inner>,
    version: watch::Sender<u64>,
}

#[derive(Default)]
struct Inner {
    entries: HashMap<Identity, Entry>,
    deleted: VecDeque<(u64, Identity)>,
    /// The version of the newest deletion that was dropped from `deleted`.
    forgotten: u64,
    sources: BTreeMap<AutoscalerApi, SourceState>,
    /// The only namespace that is shown of an API.
    namespaces: BTreeMap<AutoscalerApi, String>,
    notes: Vec<String>,
    /// A sentence about a controller that makes no decisions.
    silence: Option<String>,
    /// The autoscalers without a recent decision, and the time since when.
    overdue: HashMap<Identity, Timestamp>,
    version: u64,
    /// The controller's settings, if they are known; otherwise the defaults.
    settings: Settings,
    /// The settings that autoscalers may override.
    policy: SettingPolicy,
}

impl Board {
    pub(crate) fn new(apis: &[AutoscalerApi], settings: Settings, policy: SettingPolicy) -> Self {
        let sources = apis.iter().map(|api| (*api, SourceState::Reading)).collect();
        let state = RwLock::new(Inner { sources, settings, policy, ..Inner::default() });
        Self { state, version: watch::Sender::new(0) }
    }

    pub(crate) fn update(&self, update: Update, now: Timestamp) {
        self.change(|state| match update {
            Update::Apply(observed) => state.apply(*observed, now),
            Update::Delete(id) => state.delete(&id),
            Update::Replace(api, all) => {
                let listed: HashSet<_> = all.iter().map(|one| one.id.clone()).collect();
                let known: Vec<_> =
                    state.entries.keys().filter(|id| id.api == api).cloned().collect();
                for id in known.iter().filter(|id| !listed.contains(*id)) {
                    state.delete(id);
                }
                for observed in all {
                    state.apply(observed, now);
                }
                state.sources.insert(api, SourceState::Synced);
            }
        });
    }

    pub(crate) fn set_source(&self, api: AutoscalerApi, source: SourceState) {
        if self.state.read().sources.get(&api) != Some(&source) {
            self.change(|state| _ = state.sources.insert(api, source));
        }
    }

    /// Sets the only namespace that is shown of an API.
    pub(crate) fn set_namespace(&self, api: AutoscalerApi, namespace: String) {
        self.state.write().namespaces.insert(api, namespace);
    }

    /// Adds a sentence about what the page doesn't show.
    pub(crate) fn add_note(&self, note: String) {
        self.change(|state| state.notes.push(note));
    }

    /// Sets the sentence about a controller that makes no decisions.
    pub(crate) fn set_silence(&self, silence: Option<String>) {
        if self.state.read().silence != silence {
            self.change(|state| state.silence = silence);
        }
    }

    /// Sets the autoscalers without a recent decision.
    pub(crate) fn set_overdue(&self, overdue: Vec<Overdue>, now: Timestamp) {
        let (overdue, is_changed) = {
            let state = self.state.read();
            let overdue = state.times_of(overdue, now);
            let is_changed = overdue != state.overdue;
            (overdue, is_changed)
        };
        if is_changed {
            self.change(|state| state.set_overdue(overdue));
        }
    }

    /// Whether the controller makes no decisions, or may make none.
    pub(crate) fn is_silent(&self) -> bool {
        self.state.read().silence.is_some()
    }

    /// The field managers of the statuses, one for each autoscaler.
    pub(crate) fn managers(&self) -> Vec<String> {
        let state = self.state.read();
        state.entries.values().filter_map(|entry| entry.controller.name.clone()).collect()
    }

    /// Waits until the first list of every API is complete, or has failed.
    pub(crate) async fn synced(&self) {
        let mut changes = self.subscribe();
        while !self.is_synced() {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Adds the sample of a decision. The version of the autoscaler doesn't change.
    pub(crate) fn record(&self, id: &Identity, sample: Sample) {
        let mut state = self.state.write();
        let capacity = state.capacity();
        if let Some(entry) = state.entries.get_mut(id) {
            entry.series.record(sample, capacity);
        }
    }

    /// Adds the samples that the controller recorded, oldest first. The dashboard's clock is
    /// `ahead` of the controller's.
    pub(crate) fn record_past(
        &self,
        id: &Identity,
        samples: Vec<PastSample>,
        ahead: SignedDuration,
    ) {
        let mut state = self.state.write();
        let capacity = state.capacity();
        if let Some(entry) = state.entries.get_mut(id) {
            entry.series.merge(samples, ahead, capacity);
        }
    }

    pub(crate) fn get(&self, id: &Identity) -> Option<Entry> {
        self.state.read().entries.get(id).cloned()
    }

    /// The version of the last change of an autoscaler. `None` if it doesn't exist.
    pub(crate) fn version_of(&self, id: &Identity) -> Option<u64> {
        self.state.read().entries.get(id).map(|entry| entry.version)
    }

    /// The other autoscalers of a namespace and API.
    pub(crate) fn others(&self, id: &Identity) -> Vec<Arc<HorizontalPodAutoscaler>> {
        let state = self.state.read();
        let is_other = |other: &&Identity| {
            other.api == id.api && other.namespace == id.namespace && *other != id
        };
        let others = state.entries.iter().filter(|(other, _)| is_other(other));
        others.filter_map(|(_, entry)| entry.hpa.clone()).collect()
    }

    /// Whether the first list of every API is complete, or has failed.
    pub(crate) fn is_synced(&self) -> bool {
        self.state.read().is_synced()
    }

    /// Whether the list of an autoscaler's API has all autoscalers of its namespace.
    pub(crate) fn is_complete(&self, id: &Identity) -> bool {
        let state = self.state.read();
        let is_failed = matches!(state.sources.get(&id.api), Some(SourceState::Failed(_)));
        let namespace = state.namespaces.get(&id.api);
        !is_failed && namespace.is_none_or(|namespace| *namespace == id.namespace)
    }

    /// Sentences about data that can't be read or is not shown.
    pub(crate) fn problems(&self) -> Vec<String> {
        self.state.read().problems()
    }

    /// Returns a receiver that is notified of every change.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// The changes since a version; everything for 0.
    pub(crate) fn changes_since(&self, version: u64, now: Timestamp) -> Changes {
        let state = self.state.read();
        let reset = version == 0 || version < state.forgotten;
        let rows = state.entries.values().filter(|entry| reset || entry.version > version);
        let deleted = state
            .deleted
            .iter()
            .filter(|(at, id)| !reset && *at > version && !state.entries.contains_key(id));
        Changes {
            reset,
            rows: rows.map(|entry| entry.row.clone()).collect(),
            deleted: deleted.map(|(_, id)| id.clone()).collect(),
            synced: state.is_synced(),
            problems: state.problems(),
            silent: state.silence.is_some(),
            now,
            version: state.version,
        }
    }

    fn change(&self, change: impl FnOnce(&mut Inner)) {
        let mut state = self.state.write();
        state.version += 1;
        change(&mut state);
        let version = state.version;
        drop(state);
        self.version.send_modify(|current| *current = version.max(*current));
    }
}

impl Inner {
    fn apply(&mut self, observed: ObservedAutoscaler, now: Timestamp) {
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
            // A relist returns objects that the watch returned before.
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

    /// The times since when autoscalers are without a decision. A time that differs little from the
    /// previous one is kept, because each change of a row is sent to all pages.
    fn times_of(&self, overdue: Vec<Overdue>, now: Timestamp) -> HashMap<Identity, Timestamp> {
        let times = overdue.into_iter().map(|Overdue { key, age }| {
            let (id, since) = (Identity::from(&key), shifted(now, -age));
            let known = self.overdue.get(&id).copied();
            let known = known.filter(|known| known.duration_since(since).abs() < SAME_AGE);
            (id, known.unwrap_or(since))
        });
        times.collect()
    }

    fn set_overdue(&mut self, overdue: HashMap<Identity, Timestamp>) {
        self.overdue = overdue;
        for (id, entry) in &mut self.entries {
            let since = self.overdue.get(id).copied();
            if entry.row.undecided_since != since {
                entry.row.undecided_since = since;
                entry.version = self.version;
            }
        }
    }

    fn delete(&mut self, id: &Identity) {
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
    fn capacity(&self) -> usize {
        (MAX_SAMPLES / self.entries.len().max(1)).clamp(*SAMPLES.start(), *SAMPLES.end())
    }

    fn is_synced(&self) -> bool {
        self.sources.values().all(|source| *source != SourceState::Reading)
    }

    fn problems(&self) -> Vec<String> {
        let failed = self.sources.values().filter_map(|source| match source {
            SourceState::Failed(sentence) => Some(sentence.clone()),
            _ => None,
        });
        let silence = self.silence.iter().cloned();
        silence.chain(failed).chain(self.notes.iter().cloned()).collect()
    }
}
