//! The rows of the list, with the objects and scales that they are computed from.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
    sync::Arc,
};

use hpa_calc::{
    HorizontalPodAutoscaler, Scale, Settings,
    defaults::prepare_spec,
    report::{Bounds, Surroundings, TargetKey, describe_bounds_conflict, enforced_bounds},
    settings::SettingPolicy,
    validation::drop_refused_parts,
};
use hpa_controller::{
    AutoscalerApi, HpaKey,
    debug::{ActingController, settings_of_controller},
};
use jiff::{SignedDuration, Timestamp};

use super::{Controller, Identity, ObservedAutoscaler, Row, Sample, Series};
use crate::past::{OverdueAutoscaler, UnstoredStatus, shifted};

/// The maximum number of samples of all autoscalers together, unless there are so many autoscalers
/// that the minimum of [`SAMPLES_PER_AUTOSCALER`] exceeds it. A sample with two metrics has about
/// 90 bytes.
const MAX_SAMPLES: usize = 500_000;
/// The bounds of the maximum number of samples of one autoscaler.
const SAMPLES_PER_AUTOSCALER: std::ops::RangeInclusive<usize> = 60..=1000;
/// If two times of an autoscaler's last decision differ by less than this, they are of the same
/// decision. They are inexact, because they are computed from ages.
const SAME_DECISION: SignedDuration = SignedDuration::from_secs(5);
/// The number of deletions that are remembered. A reader that missed more gets all rows again.
pub(super) const MAX_DELETIONS: usize = 1000;

/// An autoscaler with its row and samples.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) row: Row,
    /// `None` if the object could not be decoded.
    pub(crate) hpa: Option<Arc<HorizontalPodAutoscaler>>,
    pub(crate) controller: Controller,
    /// The effective settings. They are kept, because the rows of the other autoscalers of the
    /// target also need them.
    settings: Settings,
    pub(crate) series: Series,
    /// The target's scale, if it was read because the row needs it.
    scale: Option<Scale>,
    /// The time of the last attempt to read the scale.
    scale_read_at: Option<Timestamp>,
    /// The version of the board at the last change of the row or the object.
    pub(crate) version: u64,
}

/// The rows of all autoscalers, and the deletions that readers may have missed.
#[derive(Default)]
pub(super) struct Rows {
    pub(super) entries: HashMap<Identity, Entry>,
    by_target: HashMap<TargetKey, BTreeSet<Identity>>,
    /// The last deletions with their versions, oldest first.
    pub(super) deleted: VecDeque<(u64, Identity)>,
    /// The version of the newest deletion that was dropped from `deleted`.
    pub(super) last_dropped_deletion: u64,
    /// The autoscalers without a recent decision, and the time since when they are without one.
    pub(super) overdue: HashMap<Identity, Timestamp>,
    /// The autoscalers whose last status could not be stored.
    pub(super) unstored: HashMap<Identity, UnstoredStatus>,
    /// The version of the change that is being made.
    pub(super) version: u64,
    /// The controller's settings, if they are known; otherwise the defaults.
    settings: Settings,
    /// The settings that autoscalers may override.
    policy: SettingPolicy,
    /// See [`ControllerActivity::acting`](crate::ControllerActivity::acting).
    pub(super) acting: BTreeMap<String, ActingController>,
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
                let previous = self.entries.remove(&id);
                let old = previous.as_ref().and_then(|entry| entry.hpa.as_deref());
                let others = self.update_target(&id, old, None);
                let entry = Entry {
                    row,
                    hpa: None,
                    controller,
                    settings: Settings::default(),
                    series: Series::default(),
                    scale: None,
                    scale_read_at: None,
                    version,
                };
                self.entries.insert(id, entry);
                self.refresh_all(&others, now);
                return;
            }
        };
        prepare_spec(&mut hpa.spec);
        drop_refused_parts(&mut hpa.spec);
        let previous = self.entries.remove(&id);
        let is_unchanged = |entry: &&Entry| {
            entry.hpa.as_deref() == Some(&hpa) && entry.controller.name == controller.name
        };
        if let Some(entry) = previous.as_ref().filter(is_unchanged) {
            // A relist also returns unchanged objects.
            self.entries.insert(id, entry.clone());
            return;
        }
        let has_same_uid = |entry: &Entry| {
            entry.hpa.as_ref().is_some_and(|old| old.metadata.uid == hpa.metadata.uid)
        };
        let old = previous.as_ref().and_then(|entry| entry.hpa.clone());
        // A re-created object has no past.
        let (mut series, scale, scale_read_at) = previous.filter(has_same_uid).map_or_else(
            || (Series::default(), None, None),
            |entry| (entry.series, entry.scale, entry.scale_read_at),
        );
        series.set_metrics(&hpa);
        if !hpa.status.conditions.is_empty() {
            series.record(Sample::from_status(&hpa, now), capacity);
        }
        let others = self.update_target(&id, old.as_deref(), Some(&hpa));
        let settings = self.settings_of(&id, &hpa, &controller);
        let row = self.compute_row(&id, &hpa, &settings, scale.as_ref(), now);
        let hpa = Some(Arc::new(hpa));
        let entry = Entry { row, hpa, controller, settings, series, scale, scale_read_at, version };
        self.entries.insert(id, entry);
        self.refresh_all(&others, now);
    }

    fn compute_row(
        &self,
        id: &Identity,
        hpa: &HorizontalPodAutoscaler,
        settings: &Settings,
        scale: Option<&Scale>,
        now: Timestamp,
    ) -> Row {
        let of_target = self.by_target.get(&TargetKey::new(hpa)).into_iter().flatten();
        let others: Vec<&Identity> = of_target.filter(|other| *other != id).collect();
        let bounds = others.iter().map(|other| self.enforced_bounds(other, now));
        let names: Vec<_> = others.iter().map(|other| HpaKey::from(*other).to_string()).collect();
        let own = enforced_bounds(hpa, settings, now);
        let conflict = describe_bounds_conflict(hpa, own, names.iter().zip(bounds));
        let surroundings =
            Surroundings { scale, other_autoscalers: &names, bounds_conflict: conflict.as_deref() };
        let undecided_since = self.overdue.get(id).copied();
        let mut row =
            Row { undecided_since, ..Row::new(id.clone(), hpa, settings, surroundings, now) };
        if let Some(unstored) = self.unstored.get(id) {
            row.replace_status(unstored);
        }
        row
    }

    /// See [`enforced_bounds`]. `None` if the object could not be decoded.
    fn enforced_bounds(&self, id: &Identity, now: Timestamp) -> Option<Bounds> {
        let entry = self.entries.get(id)?;
        enforced_bounds(entry.hpa.as_deref()?, &entry.settings, now)
    }

    fn settings_of(
        &self,
        id: &Identity,
        hpa: &HorizontalPodAutoscaler,
        controller: &Controller,
    ) -> Settings {
        let acting = self.acting_controller(id, controller);
        settings_of_controller(self.settings.clone(), hpa, &self.policy, acting)
    }

    /// Resolves the settings of an autoscaler again, after its controller has changed.
    fn resolve_settings(&mut self, id: &Identity) {
        let Some(entry) = self.entries.get(id) else { return };
        let Some(hpa) = &entry.hpa else { return };
        let settings = self.settings_of(id, hpa, &entry.controller);
        if let Some(entry) = self.entries.get_mut(id) {
            entry.settings = settings;
        }
    }

    fn refresh_all<'a>(&mut self, ids: impl IntoIterator<Item = &'a Identity>, now: Timestamp) {
        for id in ids {
            self.refresh(id, now);
        }
    }

    /// Computes a row again, after its target's scale or the target's other autoscalers have
    /// changed.
    fn refresh(&mut self, id: &Identity, now: Timestamp) {
        let Some(entry) = self.entries.get(id) else { return };
        let Some(hpa) = &entry.hpa else { return };
        let row = self.compute_row(id, hpa, &entry.settings, entry.scale.as_ref(), now);
        let version = self.version;
        if let Some(entry) = self.entries.get_mut(id).filter(|entry| entry.row != row) {
            (entry.row, entry.version) = (row, version);
        }
    }

    /// Updates the index by target for an object that changed, appeared or disappeared. Returns the
    /// other autoscalers of its old and its new target. Their rows depend on the object, so they
    /// must be refreshed after its entry.
    fn update_target(
        &mut self,
        id: &Identity,
        old: Option<&HorizontalPodAutoscaler>,
        new: Option<&HorizontalPodAutoscaler>,
    ) -> BTreeSet<Identity> {
        let mut others = BTreeSet::new();
        if let Some(old) = old.map(TargetKey::new)
            && let Some(of_target) = self.by_target.get_mut(&old)
        {
            of_target.remove(id);
            others.extend(of_target.iter().cloned());
            if of_target.is_empty() {
                self.by_target.remove(&old);
            }
        }
        if let Some(new) = new.map(TargetKey::new) {
            let of_target = self.by_target.entry(new).or_default();
            others.extend(of_target.iter().cloned());
            of_target.insert(id.clone());
        }
        others
    }

    /// The controller that acts on an autoscaler whose status `controller` stored last.
    pub(super) fn acting_controller(
        &self,
        id: &Identity,
        controller: &Controller,
    ) -> ActingController {
        acting_controller(&self.acting, id, controller)
    }

    /// Sets the controllers that act, and refreshes the rows of autoscalers with another one than
    /// before.
    pub(super) fn set_acting(
        &mut self,
        acting: BTreeMap<String, ActingController>,
        now: Timestamp,
    ) {
        let is_changed = |(id, entry): &(&Identity, &Entry)| {
            let [old, new] =
                [&self.acting, &acting].map(|all| acting_controller(all, id, &entry.controller));
            old != new
        };
        let changed = self.entries.iter().filter(is_changed).map(|(id, _)| id.clone());
        let changed: Vec<Identity> = changed.collect();
        self.acting = acting;
        for id in &changed {
            self.resolve_settings(id);
        }
        self.refresh_all(&changed, now);
    }

    /// Converts ages to the times since when autoscalers are without a decision. If the known time
    /// differs little, it is kept, because each change of a row is sent to all pages.
    pub(super) fn overdue_since(
        &self,
        overdue: Vec<OverdueAutoscaler>,
        now: Timestamp,
    ) -> HashMap<Identity, Timestamp> {
        let times = overdue.into_iter().map(|OverdueAutoscaler { key, age }| {
            let (id, since) = (Identity::from(&key), shifted(now, -age));
            let known = self.overdue.get(&id).copied();
            let known = known.filter(|known| known.duration_since(since).abs() < SAME_DECISION);
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

    pub(super) fn set_unstored(
        &mut self,
        unstored: HashMap<Identity, UnstoredStatus>,
        now: Timestamp,
    ) {
        let mut changed: HashSet<Identity> = unstored.keys().cloned().collect();
        let previous = std::mem::replace(&mut self.unstored, unstored);
        changed.extend(previous.into_keys());
        self.refresh_all(&changed, now);
    }

    pub(super) fn delete(&mut self, id: &Identity, now: Timestamp) {
        let Some(entry) = self.entries.remove(id) else { return };
        let others = self.update_target(id, entry.hpa.as_deref(), None);
        self.refresh_all(&others, now);
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
        (MAX_SAMPLES / self.entries.len().max(1))
            .clamp(*SAMPLES_PER_AUTOSCALER.start(), *SAMPLES_PER_AUTOSCALER.end())
    }

    /// Sets the scale of an autoscaler's target. `None` if it could not be read.
    pub(super) fn set_scale(&mut self, id: &Identity, scale: Option<Scale>, now: Timestamp) {
        if let Some(entry) = self.entries.get_mut(id) {
            (entry.scale, entry.scale_read_at) = (scale, Some(now));
            self.refresh(id, now);
        }
    }

    pub(super) fn without_recent_scale(
        &self,
        limit: usize,
        since: Timestamp,
    ) -> Vec<(Identity, Arc<HorizontalPodAutoscaler>)> {
        let is_due = |entry: &&Entry| {
            entry.row.needs_scale && entry.scale_read_at.is_none_or(|at| at <= since)
        };
        let mut due: Vec<_> = self.entries.values().filter(is_due).collect();
        due.sort_by_key(|entry| entry.scale_read_at);
        let due = due.into_iter().take(limit);
        due.filter_map(|entry| Some((entry.row.id.clone(), entry.hpa.clone()?))).collect()
    }
}

/// The controller that acts on an autoscaler whose status `controller` stored last. `acting` has
/// the known ones by field manager.
fn acting_controller(
    acting: &BTreeMap<String, ActingController>,
    id: &Identity,
    controller: &Controller,
) -> ActingController {
    let manager = controller.name.as_ref().filter(|_| id.api == AutoscalerApi::Core);
    let known = manager.and_then(|manager| acting.get(manager)).copied();
    known.unwrap_or_else(|| ActingController::of_status(controller.is_reference()))
}
