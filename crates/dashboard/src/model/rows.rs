//! The rows of the list, with the objects and scales that they are computed from.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
    sync::Arc,
};

use hpa_calc::{
    HorizontalPodAutoscaler, Settings,
    defaults::prepare_spec,
    report::{Surroundings, TargetIndex, TargetKey, enforced_bounds},
    settings::SettingPolicy,
    validation::drop_refused_parts,
};
use hpa_controller::{
    AutoscalerApi, HpaKey,
    debug::{ActingController, AutoscalerActivity, FailedStatusWrites, settings_of_controller},
    k8s::StatusController,
    scale_target::TargetPods,
};
use jiff::{SignedDuration, Timestamp};

use super::{ObservedAutoscaler, Row, Sample, Series};
use crate::past::ControllerActivity;

/// The number of samples that all autoscalers share. Each may have an equal share, within
/// [`SAMPLES_PER_AUTOSCALER`]. A sample with two metrics has about 90 bytes.
const SHARED_SAMPLES: usize = 500_000;
/// The bounds of one autoscaler's share of [`SHARED_SAMPLES`].
const SAMPLES_PER_AUTOSCALER: std::ops::RangeInclusive<usize> = 60..=1000;
/// Two times of an autoscaler's last decision, or two leads of a clock, that differ by less than
/// this count as equal. They are inexact, because they are computed from ages.
const TIME_TOLERANCE: SignedDuration = SignedDuration::from_secs(5);
/// The number of deletions that are remembered. A reader that missed more gets all rows again.
pub(super) const MAX_DELETIONS: usize = 1000;

/// An autoscaler with its row and samples.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) row: Row,
    /// `None` if the object could not be decoded.
    pub(crate) hpa: Option<Arc<HorizontalPodAutoscaler>>,
    pub(crate) controller: StatusController,
    /// The effective settings.
    pub(super) settings: Settings,
    pub(crate) series: Series,
    /// The last read of the target's scale. `None` if the row has not needed it yet, or if it was
    /// forgotten.
    scale: Option<ScaleRead>,
    /// The version of the board at the last change of the row or the object.
    pub(crate) version: u64,
}

/// A read of a target's scale.
#[derive(Clone, Debug)]
struct ScaleRead {
    at: Timestamp,
    /// `None` if the scale could not be read.
    pods: Option<TargetPods>,
}

/// The rows of all autoscalers, and the deletions that readers may have missed.
#[derive(Default)]
pub(super) struct Rows {
    pub(super) entries: HashMap<HpaKey, Entry>,
    by_target: TargetIndex<HpaKey>,
    /// The targets with autoscalers that were added, removed, or have other bounds than before. All
    /// rows of these targets depend on that.
    changed_targets: BTreeSet<TargetKey>,
    /// The last deletions with their versions, oldest first.
    pub(super) deleted: VecDeque<(u64, HpaKey)>,
    /// The version of the newest deletion that was dropped from `deleted`.
    pub(super) last_dropped_deletion: u64,
    /// The activity of the controllers, as it was read last.
    pub(super) activity: ControllerActivity,
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

    /// Adds or replaces an autoscaler. The caller must then call
    /// [`Self::refresh_changed_targets`], because rows of other autoscalers may depend on it.
    pub(super) fn apply(&mut self, observed: ObservedAutoscaler, now: Timestamp) {
        let ObservedAutoscaler { id, hpa, controller } = observed;
        match hpa {
            Ok(hpa) => self.apply_decoded(id, hpa, controller, now),
            Err(error) => {
                let entry = Entry {
                    row: Row::undecodable(id.clone(), &error),
                    hpa: None,
                    controller,
                    settings: Settings::default(),
                    series: Series::default(),
                    scale: None,
                    version: self.version,
                };
                let previous = self.entries.insert(id.clone(), entry);
                self.remove_from_index(&id, previous.as_ref());
            }
        }
    }

    fn apply_decoded(
        &mut self,
        id: HpaKey,
        mut hpa: HorizontalPodAutoscaler,
        controller: StatusController,
        now: Timestamp,
    ) {
        prepare_spec(&mut hpa.spec);
        drop_refused_parts(&mut hpa.spec);
        let previous = self.entries.get(&id);
        // A relist also returns unchanged objects.
        if previous.is_some_and(|entry| {
            entry.hpa.as_deref() == Some(&hpa) && entry.controller == controller
        }) {
            return;
        }
        let (capacity, version) = (self.capacity(), self.version);
        let previous = self.entries.remove(&id);
        let target_of = |entry: &Entry| entry.hpa.as_deref().map(TargetKey::new);
        if previous.as_ref().and_then(target_of) != Some(TargetKey::new(&hpa)) {
            self.remove_from_index(&id, previous.as_ref());
        }
        let has_same_uid = |entry: &Entry| {
            entry.hpa.as_ref().is_some_and(|old| old.metadata.uid == hpa.metadata.uid)
        };
        // A re-created object has no past.
        let (mut series, scale) = previous
            .filter(has_same_uid)
            .map_or_else(|| (Series::default(), None), |entry| (entry.series, entry.scale));
        series.set_metrics(&hpa);
        if !hpa.status.conditions.is_empty() {
            series.record(Sample::from_status(&hpa, now), capacity);
        }
        let settings = self.settings_of(&id, &hpa, &controller);
        self.index_by_target(&id, &hpa, &settings, now);
        let row = self.compute_row(&id, &hpa, &settings, &controller, scale.as_ref(), now);
        let hpa = Some(Arc::new(hpa));
        let entry = Entry { row, hpa, controller, settings, series, scale, version };
        self.entries.insert(id, entry);
    }

    /// Updates the index by target for an autoscaler that appeared or changed.
    fn index_by_target(
        &mut self,
        id: &HpaKey,
        hpa: &HorizontalPodAutoscaler,
        settings: &Settings,
        now: Timestamp,
    ) {
        let (target, bounds) = (TargetKey::new(hpa), enforced_bounds(hpa, settings, now));
        if self.by_target.insert(target.clone(), id.clone(), bounds) {
            self.changed_targets.insert(target);
        }
    }

    /// Updates the index by target for an autoscaler that was deleted, can't be decoded anymore or
    /// has another target. `previous` is its entry before that, if it had one.
    fn remove_from_index(&mut self, id: &HpaKey, previous: Option<&Entry>) {
        let Some(hpa) = previous.and_then(|entry| entry.hpa.as_deref()) else { return };
        let target = TargetKey::new(hpa);
        self.by_target.remove(&target, id);
        self.changed_targets.insert(target);
    }

    /// Refreshes the rows that depend on other autoscalers of their targets, after one or many of
    /// these have changed.
    pub(super) fn refresh_changed_targets(&mut self, now: Timestamp) {
        for target in std::mem::take(&mut self.changed_targets) {
            let ids: Vec<HpaKey> = self.by_target.names(&target).cloned().collect();
            // Schedules may change the bounds of several at the same time.
            for id in &ids {
                let Some(entry) = self.entries.get(id) else { continue };
                let Some(hpa) = &entry.hpa else { continue };
                let bounds = enforced_bounds(hpa, &entry.settings, now);
                self.by_target.insert(target.clone(), id.clone(), bounds);
            }
            self.refresh_all(&ids, now);
        }
    }

    /// The names of the other autoscalers of an autoscaler's target.
    pub(super) fn others_of_target(&self, id: &HpaKey) -> Vec<String> {
        let hpa = self.entries.get(id).and_then(|entry| entry.hpa.as_deref());
        hpa.map_or_else(Vec::new, |hpa| self.by_target.others(hpa, id).0)
    }

    fn compute_row(
        &self,
        id: &HpaKey,
        hpa: &HorizontalPodAutoscaler,
        settings: &Settings,
        controller: &StatusController,
        scale: Option<&ScaleRead>,
        now: Timestamp,
    ) -> Row {
        let (others, conflict) = self.by_target.others(hpa, id);
        let pods = scale.and_then(|read| read.pods.as_ref());
        let activity = self.activity.autoscalers.get(id);
        let surroundings = Surroundings {
            scale: pods.map(|pods| &pods.scale),
            replica_failure: pods.and_then(|pods| pods.replica_failure.as_deref()),
            other_autoscalers: &others,
            bounds_conflict: conflict.as_deref(),
            last_decision: activity.and_then(|one| one.last_decision.as_deref()),
            unschedulable_pods: activity.and_then(|one| one.unschedulable_pods),
            unready_pods: activity.and_then(|one| one.unready_pods),
            overwritten_scalings: activity.and_then(|one| one.overwritten_scalings),
        };
        let ControllerActivity { overdue, unstored, idle, recently_decided, .. } = &self.activity;
        let mut row = Row::new(id.clone(), hpa, settings, surroundings, now);
        row.undecided_since = overdue.get(id).copied();
        match idle.get(id) {
            Some(idle) => row.set_not_handled(idle),
            None if recently_decided.contains(id) => {}
            None => row.set_window_end(hpa, settings, controller.at, now),
        }
        if let Some(unstored) = unstored.get(id) {
            row.replace_status(unstored);
        }
        if scale.is_none() {
            row.add_unread_scale();
        }
        row
    }

    fn settings_of(
        &self,
        id: &HpaKey,
        hpa: &HorizontalPodAutoscaler,
        controller: &StatusController,
    ) -> Settings {
        let acting = acting_controller(&self.activity.acting, id, controller);
        settings_of_controller(self.settings.clone(), hpa, &self.policy, acting)
    }

    /// Resolves the settings of an autoscaler again, after its controller has changed.
    fn resolve_settings(&mut self, id: &HpaKey, now: Timestamp) {
        let Some(entry) = self.entries.get(id) else { return };
        let Some(hpa) = entry.hpa.clone() else { return };
        let settings = self.settings_of(id, &hpa, &entry.controller);
        self.index_by_target(id, &hpa, &settings, now);
        if let Some(entry) = self.entries.get_mut(id) {
            entry.settings = settings;
        }
    }

    fn refresh_all<'a>(&mut self, ids: impl IntoIterator<Item = &'a HpaKey>, now: Timestamp) {
        for id in ids {
            self.refresh(id, now);
        }
    }

    /// Computes a row again, after its target's scale or the target's other autoscalers have
    /// changed.
    fn refresh(&mut self, id: &HpaKey, now: Timestamp) {
        let Some(entry) = self.entries.get(id) else { return };
        let Some(hpa) = &entry.hpa else { return };
        let Entry { settings, controller, scale, .. } = entry;
        let row = self.compute_row(id, hpa, settings, controller, scale.as_ref(), now);
        let version = self.version;
        if let Some(entry) = self.entries.get_mut(id).filter(|entry| entry.row != row) {
            (entry.row, entry.version) = (row, version);
        }
    }

    /// Keeps the known times of overdue autoscalers and the known clock of the controller if they
    /// differ little, because each change is sent to all pages.
    pub(super) fn keep_known_times(&self, activity: &mut ControllerActivity) {
        for (id, since) in &mut activity.overdue {
            let known = self.activity.overdue.get(id).copied();
            let known = known.filter(|known| known.duration_since(*since).abs() < TIME_TOLERANCE);
            *since = known.unwrap_or(*since);
        }
        if let (Some(known), Some(new)) = (&self.activity.wrong_clock, &mut activity.wrong_clock)
            && known.manager == new.manager
            && (known.lead - new.lead).abs() < TIME_TOLERANCE
        {
            new.clone_from(known);
        }
    }

    /// Removes the last decisions that no row shows, because each change is sent to all pages.
    pub(super) fn remove_unused_decisions(&self, activity: &mut ControllerActivity) {
        activity.autoscalers.retain(|id, one| {
            let entry = self.entries.get(id);
            let is_used = entry.is_some_and(|entry| entry.row.needs_scale)
                || one.unschedulable_pods.is_some()
                || one.unready_pods.is_some();
            if !is_used {
                one.last_decision = None;
            }
            *one != AutoscalerActivity::default()
        });
    }

    /// The autoscalers whose rows show stabilization although the window has ended.
    pub(super) fn with_ended_window(&self, now: Timestamp) -> Vec<HpaKey> {
        let ended = self.entries.iter().filter(|(_, entry)| entry.row.has_window_ended(now));
        ended.map(|(id, _)| id.clone()).collect()
    }

    /// Sets the activity, and refreshes the rows that depend on what has changed.
    pub(super) fn set_activity(&mut self, activity: ControllerActivity, now: Timestamp) {
        let has_other_controller = |(id, entry): &(&HpaKey, &Entry)| {
            let [old, new] = [&self.activity, &activity]
                .map(|all| acting_controller(&all.acting, id, &entry.controller));
            old != new
        };
        let taken_over = self.entries.iter().filter(has_other_controller);
        let taken_over: Vec<HpaKey> = taken_over.map(|(id, _)| id.clone()).collect();
        let mut changed: HashSet<HpaKey> = self.with_ended_window(now).into_iter().collect();
        for one in [&self.activity, &activity] {
            let ids = one.idle.keys().chain(one.overdue.keys()).chain(one.unstored.keys());
            changed.extend(ids.chain(one.autoscalers.keys()).cloned());
        }
        let decided = &self.activity.recently_decided;
        changed.extend(decided.symmetric_difference(&activity.recently_decided).cloned());
        self.activity = activity;
        for id in &taken_over {
            self.resolve_settings(id, now);
        }
        changed.extend(taken_over);
        self.refresh_all(&changed, now);
        self.refresh_changed_targets(now);
    }

    /// Counts the listed autoscalers whose last status could not be stored.
    pub(super) fn failed_status_writes(&self) -> Option<FailedStatusWrites> {
        let unstored = self.activity.unstored.iter();
        let listed = unstored.filter(|(id, _)| self.entries.contains_key(*id));
        let (_, first) = listed.clone().min_by_key(|(id, _)| (id.api, *id))?;
        Some(FailedStatusWrites { autoscalers: listed.count(), error: first.error.clone() })
    }

    /// Removes an autoscaler. The caller must then call [`Self::refresh_changed_targets`], because
    /// rows of other autoscalers may depend on it.
    pub(super) fn delete(&mut self, id: &HpaKey) {
        let Some(entry) = self.entries.remove(id) else { return };
        self.remove_from_index(id, Some(&entry));
        self.deleted.push_back((self.version, id.clone()));
        while self.deleted.len() > MAX_DELETIONS {
            if let Some((version, _)) = self.deleted.pop_front() {
                self.last_dropped_deletion = version;
            }
        }
    }

    /// The maximum number of samples of one autoscaler. It is smaller if there are many
    /// autoscalers.
    pub(super) fn capacity(&self) -> usize {
        (SHARED_SAMPLES / self.entries.len().max(1))
            .clamp(*SAMPLES_PER_AUTOSCALER.start(), *SAMPLES_PER_AUTOSCALER.end())
    }

    /// Sets the scale of an autoscaler's target. `None` if it could not be read.
    pub(super) fn set_scale(&mut self, id: &HpaKey, pods: Option<TargetPods>, now: Timestamp) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.scale = Some(ScaleRead { at: now, pods });
            self.refresh(id, now);
        }
    }

    /// Forgets the scales that were read at `oldest` or before.
    pub(super) fn forget_scales(&mut self, oldest: Timestamp, now: Timestamp) {
        let is_old = |entry: &Entry| {
            entry.scale.as_ref().is_some_and(|read| read.at <= oldest && read.pods.is_some())
        };
        let old = self.entries.iter().filter(|(_, entry)| is_old(entry));
        let old: Vec<HpaKey> = old.map(|(id, _)| id.clone()).collect();
        for id in old {
            if let Some(entry) = self.entries.get_mut(&id) {
                entry.scale = None;
            }
            self.refresh(&id, now);
        }
    }

    pub(super) fn without_recent_scale(
        &self,
        limit: usize,
        since: Timestamp,
    ) -> Vec<(HpaKey, Arc<HorizontalPodAutoscaler>)> {
        let read_at = |entry: &Entry| entry.scale.as_ref().map(|read| read.at);
        let is_due =
            |entry: &&Entry| entry.row.needs_scale && read_at(entry).is_none_or(|at| at <= since);
        let mut due: Vec<_> = self.entries.values().filter(is_due).collect();
        due.sort_by_key(|entry| read_at(entry));
        let due = due.into_iter().take(limit);
        due.filter_map(|entry| Some((entry.row.id.clone(), entry.hpa.clone()?))).collect()
    }
}

/// The controller that acts on an autoscaler whose status `controller` stored last. `acting` has
/// the known controllers by namespace and field manager.
pub(super) fn acting_controller(
    acting: &BTreeMap<(Arc<str>, String), ActingController>,
    id: &HpaKey,
    controller: &StatusController,
) -> ActingController {
    let manager = controller.name.as_ref().filter(|_| id.api == AutoscalerApi::Core);
    let writer = manager.map(|manager| (id.namespace.clone(), manager.clone()));
    let known = writer.and_then(|writer| acting.get(&writer)).copied();
    known.unwrap_or_else(|| ActingController::of_status(controller, false))
}
