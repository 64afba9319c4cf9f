//! All autoscalers, with the version of their last change.

use std::{collections::HashSet, sync::Arc};

use hpa_calc::{HorizontalPodAutoscaler, Scale, Settings, settings::SettingPolicy};
use hpa_controller::{AutoscalerApi, HpaKey};
use jiff::{SignedDuration, Timestamp};
use parking_lot::RwLock;
use serde::Serialize;
use tokio::sync::watch;

use super::{
    Controller, Entry, Identity, Outage, Row, Sample, SourceState, Unread, outage::Connection,
    rows::Rows, sources::Sources,
};
use crate::past::{Overdue, PastSample};

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
    /// What can't be read of the cluster, if anything.
    pub(crate) unread: Option<Unread>,
    /// The clock that times refer to.
    pub(crate) now: Timestamp,
    #[serde(skip)]
    pub(crate) version: u64,
}

/// All autoscalers.
pub(crate) struct Board {
    state: RwLock<Inner>,
    version: watch::Sender<u64>,
    /// The number of pages that show the list.
    shown: watch::Sender<usize>,
}

/// A page that shows the list, until it is dropped.
pub(crate) struct Shown(watch::Sender<usize>);

impl Drop for Shown {
    fn drop(&mut self) {
        self.0.send_modify(|pages| *pages -= 1);
    }
}

#[derive(Default)]
struct Inner {
    rows: Rows,
    sources: Sources,
    /// A sentence about a controller that makes no decisions.
    silence: Option<String>,
}

impl Board {
    pub(crate) fn new(apis: &[AutoscalerApi], settings: Settings, policy: SettingPolicy) -> Self {
        let rows = Rows::new(settings, policy);
        let state = RwLock::new(Inner { rows, sources: Sources::new(apis), silence: None });
        Self { state, version: watch::Sender::new(0), shown: watch::Sender::new(0) }
    }

    /// A page shows the list.
    pub(crate) fn show(&self) -> Shown {
        self.shown.send_modify(|pages| *pages += 1);
        Shown(self.shown.clone())
    }

    /// Waits until a page shows the list.
    pub(crate) async fn is_shown(&self) {
        // The sender lives as long as the board.
        _ = self.shown.subscribe().wait_for(|pages| *pages > 0).await;
    }

    /// Autoscalers whose rows need a scale that was not read since a time, the oldest first.
    pub(crate) fn without_scale(
        &self,
        limit: usize,
        since: Timestamp,
    ) -> Vec<(Identity, Arc<HorizontalPodAutoscaler>)> {
        self.state.read().rows.without_scale(limit, since)
    }

    /// Sets the scales of targets. Those that could not be read are `None`.
    pub(crate) fn set_scales(&self, scales: Vec<(Identity, Option<Scale>)>, now: Timestamp) {
        self.change(|state| {
            for (id, scale) in scales {
                state.rows.set_scale(&id, scale, now);
            }
        });
    }

    pub(crate) fn update(&self, update: Update, now: Timestamp) {
        self.change(|state| match update {
            Update::Apply(observed) => state.rows.apply(*observed, now),
            Update::Delete(id) => state.rows.delete(&id, now),
            Update::Replace(api, all) => {
                let listed: HashSet<_> = all.iter().map(|one| one.id.clone()).collect();
                let gone: Vec<_> =
                    state.rows.entries.keys().filter(|id| id.api == api).cloned().collect();
                for id in gone.iter().filter(|id| !listed.contains(*id)) {
                    state.rows.delete(id, now);
                }
                for observed in all {
                    state.rows.apply(observed, now);
                }
                state.sources.set(api, SourceState::Synced);
            }
        });
    }

    pub(crate) fn set_source(&self, api: AutoscalerApi, source: SourceState) {
        if self.state.read().sources.get(api) != Some(&source) {
            self.change(|state| state.sources.set(api, source));
        }
    }

    /// Reports a list or watch that fails. `text` gets the time of the first failure.
    pub(crate) fn fail_source(
        &self,
        api: AutoscalerApi,
        is_unanswered: bool,
        now: Timestamp,
        text: impl FnOnce(Timestamp) -> String,
    ) {
        let failed = self.state.read().sources.failed(api, is_unanswered, now, text);
        self.set_source(api, failed);
    }

    /// The API server answers.
    pub(crate) fn set_up(&self, now: Timestamp) {
        let was_up = {
            let mut state = self.state.write();
            state.sources.read_at = Some(now);
            state.sources.connection == Connection::Up
        };
        if !was_up {
            self.change(|state| state.sources.connect());
        }
    }

    /// The API server can't be read. `outage` gets the time of the first failure of its kind.
    pub(crate) fn set_down(&self, now: Timestamp, outage: impl Fn(Timestamp) -> Outage) {
        let connection = self.state.read().sources.down(now, outage);
        if self.state.read().sources.connection != connection {
            self.change(|state| state.sources.connection = connection);
        }
    }

    pub(crate) fn is_down(&self) -> bool {
        self.state.read().sources.is_down()
    }

    /// Waits until the API server answers.
    pub(crate) async fn up(&self) {
        self.wait(|state| state.sources.connection == Connection::Up).await;
    }

    /// Waits until the API server answers again after an outage.
    pub(crate) async fn restored(&self) {
        self.wait(|state| state.sources.is_down()).await;
        self.up().await;
    }

    async fn wait(&self, is_over: impl Fn(&Inner) -> bool) {
        let mut changes = self.subscribe();
        while !is_over(&self.state.read()) {
            if changes.changed().await.is_err() {
                // The board is gone.
                std::future::pending::<()>().await;
            }
        }
    }

    /// What can't be read, and sentences about what is not shown.
    pub(crate) fn outages(&self) -> (Vec<Outage>, Vec<String>) {
        let state = self.state.read();
        (state.sources.outages(), state.sources.visible_notes())
    }

    /// What can't be read of the cluster, for the page.
    pub(crate) fn unread(&self) -> Option<Unread> {
        self.state.read().unread()
    }

    /// Sets the only namespace that is shown of an API.
    pub(crate) fn set_namespace(&self, api: AutoscalerApi, namespace: String) {
        self.state.write().sources.namespaces.insert(api, namespace);
    }

    /// Sets a sentence about what the page doesn't show of an API.
    pub(crate) fn set_note(&self, api: AutoscalerApi, note: String) {
        self.change(|state| _ = state.sources.notes.insert(api, note));
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
            let overdue = state.rows.times_of(overdue, now);
            let is_changed = overdue != state.rows.overdue;
            (overdue, is_changed)
        };
        if is_changed {
            self.change(|state| state.rows.set_overdue(overdue));
        }
    }

    /// Whether the controller makes no decisions, or may make none.
    pub(crate) fn is_silent(&self) -> bool {
        self.state.read().is_silent()
    }

    /// The field managers of the statuses, one for each autoscaler.
    pub(crate) fn managers(&self) -> Vec<String> {
        let state = self.state.read();
        state.rows.entries.values().filter_map(|entry| entry.controller.name.clone()).collect()
    }

    /// Waits until the first list of every API is complete, or has failed.
    pub(crate) async fn synced(&self) {
        self.wait(|state| state.sources.is_synced()).await;
    }

    /// Adds the sample of a decision. The version of the autoscaler doesn't change.
    pub(crate) fn record(&self, id: &Identity, sample: Sample) {
        let mut state = self.state.write();
        let capacity = state.rows.capacity();
        if let Some(entry) = state.rows.entries.get_mut(id) {
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
        let capacity = state.rows.capacity();
        if let Some(entry) = state.rows.entries.get_mut(id) {
            entry.series.merge(samples, ahead, capacity);
        }
    }

    pub(crate) fn get(&self, id: &Identity) -> Option<Entry> {
        self.state.read().rows.entries.get(id).cloned()
    }

    /// The version of the last change of an autoscaler. `None` if it doesn't exist.
    pub(crate) fn version_of(&self, id: &Identity) -> Option<u64> {
        self.state.read().rows.entries.get(id).map(|entry| entry.version)
    }

    /// The other autoscalers of a namespace, with their names.
    pub(crate) fn others(&self, id: &Identity) -> Vec<(String, Arc<HorizontalPodAutoscaler>)> {
        let state = self.state.read();
        let is_other = |other: &&Identity| other.namespace == id.namespace && *other != id;
        let others = state.rows.entries.iter().filter(|(other, _)| is_other(other));
        others
            .filter_map(|(other, entry)| {
                Some((HpaKey::from(other).to_string(), entry.hpa.clone()?))
            })
            .collect()
    }

    /// Whether the first list of every API is complete, or has failed.
    pub(crate) fn is_synced(&self) -> bool {
        self.state.read().sources.is_synced()
    }

    /// Whether the list of an autoscaler's API has all autoscalers of its namespace.
    pub(crate) fn is_complete(&self, id: &Identity) -> bool {
        self.state.read().sources.is_complete(id.api, &id.namespace)
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
        let reset = version == 0 || version < state.rows.forgotten;
        let rows = state.rows.entries.values().filter(|entry| reset || entry.version > version);
        let deleted = state
            .rows
            .deleted
            .iter()
            .filter(|(at, id)| !reset && *at > version && !state.rows.entries.contains_key(id));
        Changes {
            reset,
            rows: rows.map(|entry| entry.row.clone()).collect(),
            deleted: deleted.map(|(_, id)| id.clone()).collect(),
            synced: state.sources.is_synced(),
            problems: state.problems(),
            silent: state.is_silent(),
            unread: state.unread(),
            now,
            version: state.rows.version,
        }
    }

    fn change(&self, change: impl FnOnce(&mut Inner)) {
        let mut state = self.state.write();
        state.rows.version += 1;
        change(&mut state);
        let version = state.rows.version;
        drop(state);
        self.version.send_modify(|current| *current = version.max(*current));
    }
}

impl Inner {
    fn unread(&self) -> Option<Unread> {
        self.sources.unread(!self.rows.entries.is_empty())
    }

    /// Whether the controller makes no decisions, as far as that can be read.
    fn is_silent(&self) -> bool {
        self.silence.is_some() && !self.sources.is_down()
    }

    fn problems(&self) -> Vec<String> {
        let silence = self.silence.iter().filter(|_| self.is_silent()).cloned();
        let outages = self.sources.outages().into_iter();
        let outages = outages.map(|outage| format!("{}.", outage.text));
        silence.chain(outages).chain(self.sources.visible_notes()).collect()
    }
}
