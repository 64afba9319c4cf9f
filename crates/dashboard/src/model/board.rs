//! The shared state of all pages: the autoscalers, and what can't be read of the cluster.

use std::{collections::HashSet, sync::Arc};

use hpa_calc::{HorizontalPodAutoscaler, Settings, settings::SettingPolicy};
use hpa_controller::{
    AutoscalerApi, HpaKey,
    debug::{ActingController, DecisionSample},
    k8s::StatusController,
    scale_target::TargetPods,
};
use jiff::{SignedDuration, Timestamp};
use parking_lot::RwLock;
use tokio::sync::watch;

use super::{
    Entry, Outage, OutageSummary, Sample, SourceState,
    outage::Connection,
    rows::{Rows, acting_controller},
    sources::Sources,
    state::{BoardState, Changes, Update},
};
use crate::past::{AutoscalerStatusWriter, ControllerActivity, WrongClock};

/// All autoscalers, with a version that increases with each change of the list or of an outage.
pub(crate) struct Board {
    state: RwLock<BoardState>,
    /// The current version. Notifies the readers of changes.
    version: watch::Sender<u64>,
    /// The number of pages that show the list.
    viewers: watch::Sender<usize>,
}

/// Counts as a page that shows the list, until it is dropped.
pub(crate) struct ListViewer(watch::Sender<usize>);

impl Drop for ListViewer {
    fn drop(&mut self) {
        self.0.send_modify(|viewers| *viewers -= 1);
    }
}

impl Board {
    pub(crate) fn new(apis: &[AutoscalerApi], settings: Settings, policy: SettingPolicy) -> Self {
        let rows = Rows::new(settings, policy);
        let sources = Sources::new(apis);
        let state = RwLock::new(BoardState { rows, sources, ..BoardState::default() });
        Self { state, version: watch::Sender::new(0), viewers: watch::Sender::new(0) }
    }

    /// Counts one more page that shows the list. If it is the only one, scales that were read at
    /// `oldest` or before are forgotten: while no page is open, no scale is read.
    pub(crate) fn add_viewer(&self, oldest: Timestamp, now: Timestamp) -> ListViewer {
        if *self.viewers.borrow() == 0 {
            self.modify(|state| state.rows.forget_scales(oldest, now));
        }
        self.viewers.send_modify(|viewers| *viewers += 1);
        ListViewer(self.viewers.clone())
    }

    /// Waits until a page shows the list.
    pub(crate) async fn wait_for_viewer(&self) {
        // There is no error: the sender lives as long as the board.
        _ = self.viewers.subscribe().wait_for(|viewers| *viewers > 0).await;
    }

    /// At most `limit` autoscalers whose rows need a scale that was not read after `since`. The
    /// least recently read one is first.
    pub(crate) fn without_recent_scale(
        &self,
        limit: usize,
        since: Timestamp,
    ) -> Vec<(HpaKey, Arc<HorizontalPodAutoscaler>)> {
        self.state.read().rows.without_recent_scale(limit, since)
    }

    /// Sets the scales of the autoscalers' targets. `None` is a scale that could not be read.
    pub(crate) fn set_scales(&self, scales: Vec<(HpaKey, Option<TargetPods>)>, now: Timestamp) {
        self.modify(|state| {
            for (id, scale) in scales {
                state.rows.set_scale(&id, scale, now);
            }
        });
    }

    pub(crate) fn update(&self, update: Update, now: Timestamp) {
        self.modify(|BoardState { rows, sources, .. }| {
            match update {
                Update::Apply(observed) => rows.apply(*observed, now),
                Update::Delete(id) => rows.delete(&id),
                Update::Replace(api, all) => {
                    let listed: HashSet<_> = all.iter().map(|one| one.id.clone()).collect();
                    let previous: Vec<_> =
                        rows.entries.keys().filter(|id| id.api == api).cloned().collect();
                    for id in previous.iter().filter(|id| !listed.contains(*id)) {
                        rows.delete(id);
                    }
                    for observed in all {
                        rows.apply(observed, now);
                    }
                    sources.set(api, SourceState::Synced);
                }
            }
            rows.refresh_changed_targets(now);
        });
    }

    pub(crate) fn set_source(&self, api: AutoscalerApi, source: SourceState) {
        self.update_sources(|sources| sources.set(api, source));
    }

    /// Reports a failed list or watch. `text` returns a sentence about it, with the time of the
    /// first failure. `is_unanswered` is whether the API server gave no usable answer.
    pub(crate) fn fail_source(
        &self,
        api: AutoscalerApi,
        is_unanswered: bool,
        failed_at: Timestamp,
        text: impl FnOnce(Timestamp) -> String,
    ) {
        self.update_sources(|sources| sources.fail(api, is_unanswered, failed_at, text));
    }

    /// Reports that the API server answers.
    pub(crate) fn mark_up(&self, now: Timestamp) {
        self.state.write().read_at = Some(now);
        self.update_sources(Sources::mark_up);
    }

    /// Reports that the API server can't be read: a request failed that was sent at `sent_at`.
    /// `outage` gets the time of the first such request with a failure of the same kind.
    pub(crate) fn mark_down(&self, sent_at: Timestamp, outage: impl Fn(Timestamp) -> Outage) {
        self.update_sources(|sources| sources.mark_down(sent_at, outage));
    }

    /// Changes the state of the sources. The version increases only if they differ then.
    fn update_sources(&self, change: impl FnOnce(&mut Sources)) {
        self.modify_if(|state| {
            let before = state.sources.clone();
            change(&mut state.sources);
            state.sources != before
        });
    }

    pub(crate) fn is_down(&self) -> bool {
        self.state.read().sources.is_down()
    }

    /// Waits until the API server answers.
    pub(crate) async fn wait_until_up(&self) {
        self.wait_until(|state| state.sources.connection == Connection::Up).await;
    }

    /// Waits for an outage and then until the API server answers again.
    pub(crate) async fn wait_until_restored(&self) {
        self.wait_until(|state| state.sources.is_down()).await;
        self.wait_until_up().await;
    }

    async fn wait_until(&self, is_met: impl Fn(&BoardState) -> bool) {
        let mut changes = self.subscribe();
        while !is_met(&self.state.read()) {
            if changes.changed().await.is_err() {
                // Doesn't happen: the board owns the sender.
                std::future::pending::<()>().await;
            }
        }
    }

    /// The outages, and sentences about what the page doesn't show.
    pub(crate) fn outages(&self) -> (Vec<Outage>, Vec<String>) {
        let state = self.state.read();
        (state.sources.outages(), state.sources.visible_notes())
    }

    /// Summarizes the outages for the page. `None` if everything can be read.
    pub(crate) fn outage_summary(&self) -> Option<OutageSummary> {
        self.state.read().outage_summary()
    }

    /// Restricts an API to one namespace.
    pub(crate) fn set_namespace(&self, api: AutoscalerApi, namespace: String) {
        self.update_sources(|sources| _ = sources.namespaces.insert(api, namespace));
    }

    /// Sets a sentence about what the page doesn't show of an API.
    pub(crate) fn set_note(&self, api: AutoscalerApi, note: String) {
        self.update_sources(|sources| _ = sources.notes.insert(api, note));
    }

    /// Reports that the activity of the controllers will be read.
    pub(crate) fn expect_activity(&self) {
        self.state.write().awaits_activity = true;
    }

    /// Sets the activity of the controllers. The version increases only if that changes a page.
    pub(crate) fn set_activity(&self, mut activity: ControllerActivity, now: Timestamp) {
        self.modify_if(|state| {
            state.rows.keep_known_times(&mut activity);
            state.rows.remove_unused_decisions(&mut activity);
            let is_known = !state.awaits_activity && state.rows.activity == activity;
            if is_known && state.rows.with_ended_window(now).is_empty() {
                return false;
            }
            state.awaits_activity = false;
            state.rows.set_activity(activity, now);
            true
        });
    }

    /// The controller that acts on an autoscaler whose status `controller` stored last.
    pub(crate) fn acting_controller(
        &self,
        id: &HpaKey,
        controller: &StatusController,
    ) -> ActingController {
        acting_controller(&self.state.read().rows.activity.acting, id, controller)
    }

    /// The wrong clock of the controller that acts on an autoscaler. `controller` stored the status
    /// last. `has_record` is whether the instance that answers has a record of the autoscaler.
    pub(crate) fn wrong_clock(
        &self,
        id: &HpaKey,
        controller: &StatusController,
        has_record: bool,
    ) -> Option<WrongClock> {
        let state = self.state.read();
        let activity = &state.rows.activity;
        let acting = acting_controller(&activity.acting, id, controller);
        let is_own = |clock: &&WrongClock| match &clock.manager {
            Some(manager) => {
                controller.name.as_ref() == Some(manager) && !acting.is_kube_controller_manager()
            }
            None => has_record,
        };
        activity.wrong_clock.as_ref().filter(is_own).cloned()
    }

    /// Whether the controller makes no decisions, as far as that can be read.
    pub(crate) fn is_inactive(&self) -> bool {
        self.state.read().is_inactive()
    }

    /// A clause if no controller acts on an autoscaler, as far as that can be read.
    pub(crate) fn idle_clause(&self, id: &HpaKey) -> Option<String> {
        let state = self.state.read();
        let idle = state.rows.activity.idle.get(id).filter(|_| state.is_inactive());
        idle.map(|idle| idle.clause.clone())
    }

    /// The writers of the statuses, one for each autoscaler with a status.
    pub(crate) fn status_writers(&self) -> Vec<AutoscalerStatusWriter> {
        let state = self.state.read();
        let writers = state.rows.entries.iter().filter_map(|(id, entry)| {
            let StatusController { name, at, overwritten } = &entry.controller;
            Some(AutoscalerStatusWriter {
                key: id.clone(),
                manager: name.clone()?,
                at: *at,
                overwritten: overwritten.clone(),
                dry_run: entry.settings.asks_for_dry_run(),
            })
        });
        writers.collect()
    }

    /// Waits until [`Self::is_reading`] is false.
    pub(crate) async fn wait_until_read(&self) {
        self.wait_until(|state| !state.sources.is_reading()).await;
    }

    /// Adds the sample of a decision. This doesn't change the version of the autoscaler.
    pub(crate) fn record_sample(&self, id: &HpaKey, sample: Sample) {
        let mut state = self.state.write();
        let capacity = state.rows.capacity();
        if let Some(entry) = state.rows.entries.get_mut(id) {
            entry.series.record(sample, capacity);
        }
    }

    /// Adds samples that the controller recorded, oldest first. The dashboard's clock is ahead of
    /// the controller's by `ahead`.
    pub(crate) fn record_past(
        &self,
        id: &HpaKey,
        samples: Vec<DecisionSample>,
        ahead: SignedDuration,
    ) {
        let mut state = self.state.write();
        let capacity = state.rows.capacity();
        if let Some(entry) = state.rows.entries.get_mut(id) {
            entry.series.merge(samples, ahead, capacity);
        }
    }

    pub(crate) fn get(&self, id: &HpaKey) -> Option<Entry> {
        self.state.read().rows.entries.get(id).cloned()
    }

    /// The version of the last change of an autoscaler. `None` if it doesn't exist.
    pub(crate) fn version_of(&self, id: &HpaKey) -> Option<u64> {
        self.state.read().rows.entries.get(id).map(|entry| entry.version)
    }

    /// The other autoscalers that an autoscaler's controller handles in its namespace, with their
    /// names. These are all of the same API. Of the other API, they are those whose status the
    /// controller stored.
    pub(crate) fn others_of_controller(
        &self,
        id: &HpaKey,
    ) -> Vec<(String, Arc<HorizontalPodAutoscaler>)> {
        let state = self.state.read();
        let entries = &state.rows.entries;
        let own = entries.get(id).and_then(|entry| entry.controller.name.as_ref());
        let is_other = |other: &HpaKey, entry: &Entry| {
            let has_controller = own.is_some() && entry.controller.name.as_ref() == own;
            let is_handled = other.api == id.api || has_controller;
            other.namespace == id.namespace && other != id && is_handled
        };
        let others = entries.iter().filter(|(other, entry)| is_other(other, entry));
        others.filter_map(|(other, entry)| Some((other.to_string(), entry.hpa.clone()?))).collect()
    }

    /// The names of the other autoscalers of an autoscaler's target.
    pub(crate) fn others_of_target(&self, id: &HpaKey) -> Vec<String> {
        self.state.read().rows.others_of_target(id)
    }

    /// Whether the first list of an API is still running: it is not complete, has not failed, and
    /// the API server is not down.
    pub(crate) fn is_reading(&self) -> bool {
        self.state.read().sources.is_reading()
    }

    /// Whether the list of an autoscaler's API, once it is read, has all autoscalers of the
    /// autoscaler's namespace. False if the list or watch has failed, or during an outage.
    pub(crate) fn is_complete(&self, id: &HpaKey) -> bool {
        self.state.read().sources.is_complete(id.api, &id.namespace)
    }

    /// Sentences about inactive controllers, statuses that can't be stored or that several
    /// controllers store, a wrong clock, outages, and data that is not shown.
    pub(crate) fn problems(&self) -> Vec<String> {
        self.state.read().problems()
    }

    /// Returns a receiver that is notified of each new version.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// The changes after a version. All rows if the version is 0, or so old that deletions after it
    /// were dropped.
    pub(crate) fn changes_since(&self, version: u64, now: Timestamp) -> Changes {
        let state = self.state.read();
        let BoardState { rows, sources, .. } = &*state;
        let reset = version == 0 || version < rows.last_dropped_deletion;
        let changed = rows.entries.values().filter(|entry| reset || entry.version > version);
        let is_missed =
            |(at, id): &&(u64, HpaKey)| !reset && *at > version && !rows.entries.contains_key(id);
        let deleted = rows.deleted.iter().filter(is_missed);
        let awaits_activity = state.awaits_activity && !sources.is_down();
        Changes {
            reset,
            rows: changed.map(|entry| entry.row.clone()).collect(),
            deleted: deleted.map(|(_, id)| id.clone()).collect(),
            is_reading: sources.is_reading(),
            problems: state.problems(),
            inactive: (!awaits_activity).then(|| state.is_inactive()),
            outage: state.outage_summary(),
            now,
            version: rows.version,
        }
    }

    /// Applies a change as a new version.
    fn modify(&self, change: impl FnOnce(&mut BoardState)) {
        self.modify_if(|state| {
            change(state);
            true
        });
    }

    /// Applies a change as a new version, if it returns that there is one.
    fn modify_if(&self, change: impl FnOnce(&mut BoardState) -> bool) {
        let mut state = self.state.write();
        // The change stores the new version in the rows and deletions that it makes.
        state.rows.version += 1;
        if !change(&mut state) {
            state.rows.version -= 1;
            return;
        }
        let version = state.rows.version;
        drop(state);
        self.version.send_modify(|current| *current = version.max(*current));
    }
}
