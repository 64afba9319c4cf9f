//! Caches the schedules.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::schedules::{ScalingScheduleSpec, ScalingScheduleStatus, ScheduledMetric, Settings};
use jiff::Timestamp;
use kube::api::DynamicObject;
use parking_lot::{Mutex, RwLock};
use serde_json::Value;
use tokio::sync::watch;

use super::kind::{ScheduleKey, ScheduleKind};

/// The schedules, and the health of their watches.
#[derive(Default)]
pub(super) struct Cache {
    state: RwLock<State>,
    changes: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    entries: BTreeMap<ScheduleKey, Arc<CachedSchedule>>,
    /// By kind and namespace of a watch. An empty namespace means all.
    health: BTreeMap<(ScheduleKind, String), Health>,
}

/// The health of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Health {
    Synced,
    /// The API server doesn't have the resource.
    NotInstalled,
    /// Not listed yet, with the last failure.
    NotSynced(Option<String>),
}

/// A schedule with its compiled spec.
pub(super) struct CachedSchedule {
    pub(super) labels: BTreeMap<String, String>,
    pub(super) resource_version: String,
    /// `status.active`
    pub(super) is_active: bool,
    /// The spec as JSON, which needs less memory than a tree. It shows whether an update changed
    /// it.
    spec: String,
    metric: Result<ScheduledMetric, String>,
    /// Cached, because all autoscalers of the schedule need it.
    current: Mutex<Option<CurrentValue>>,
}

/// The value of a schedule, and the time until which it is valid.
#[derive(Clone, Copy)]
struct CurrentValue {
    value: i64,
    since: Timestamp,
    /// `None` if no change is known.
    until: Option<Timestamp>,
}

impl CurrentValue {
    fn is_valid_at(&self, now: Timestamp) -> bool {
        // If no change is known, the next search is after an hour.
        let max_age = jiff::SignedDuration::from_hours(1);
        let is_before = |until| now < until;
        self.since <= now
            && self.until.map_or_else(|| now.duration_since(self.since) < max_age, is_before)
    }
}

impl CachedSchedule {
    pub(super) fn new(object: DynamicObject, settings: &Settings) -> Self {
        let DynamicObject { metadata, mut data, .. } = object;
        let spec = data.get_mut("spec").map(Value::take).unwrap_or_default();
        let status = data.get_mut("status").map(Value::take).unwrap_or_default();
        let status: ScalingScheduleStatus = serde_json::from_value(status).unwrap_or_default();
        let text = spec.to_string();
        let compiled = serde_json::from_value::<ScalingScheduleSpec>(spec)
            .map_err(|error| format!("spec: {error}"))
            .and_then(|spec| {
                ScheduledMetric::new(&spec, settings).map_err(|error| error.to_string())
            });
        Self {
            labels: metadata.labels.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
            is_active: status.active,
            spec: text,
            metric: compiled,
            current: Mutex::default(),
        }
    }

    pub(super) fn value_at(&self, now: Timestamp) -> Result<i64, String> {
        let metric = self.metric.as_ref().map_err(Clone::clone)?;
        // The cached value leaves out invalid entries, but at some times these are errors.
        let is_valid = metric.problems().is_empty();
        let current = self.current.lock().filter(|current| is_valid && current.is_valid_at(now));
        match current {
            Some(current) => Ok(current.value),
            None => metric.value_at(now).map_err(|error| error.to_string()),
        }
    }

    /// `status.active` at a time. `None` if the schedule can't be evaluated.
    pub(super) fn is_active_at(&self, now: Timestamp) -> Option<bool> {
        self.metric.as_ref().ok()?.is_active_at(now).ok()
    }

    /// The time of the next change of the value. `None` if no change is known, or if the schedule
    /// can't be evaluated.
    pub(super) fn next_change(&self, now: Timestamp) -> Option<Timestamp> {
        let metric = self.metric.as_ref().ok()?;
        let mut current = self.current.lock();
        if let Some(current) = current.filter(|current| current.is_valid_at(now)) {
            return current.until;
        }
        let until = metric.next_change(now).ok()?.map(|change| change.at);
        let value = metric.valid_value_at(now);
        *current = Some(CurrentValue { value, since: now, until });
        until
    }
}

impl Cache {
    pub(super) fn get(&self, key: &ScheduleKey) -> Option<Arc<CachedSchedule>> {
        self.state.read().entries.get(key).cloned()
    }

    /// The schedules of a kind for the autoscalers of a namespace. An empty namespace means all.
    pub(super) fn in_namespace(
        &self,
        kind: ScheduleKind,
        namespace: &str,
    ) -> Vec<(ScheduleKey, Arc<CachedSchedule>)> {
        let is_in_scope = |key: &ScheduleKey| {
            let is_all = kind == ScheduleKind::Cluster || namespace.is_empty();
            key.kind == kind && (is_all || key.namespace == namespace)
        };
        self.all().into_iter().filter(|(key, _)| is_in_scope(key)).collect()
    }

    pub(super) fn all(&self) -> Vec<(ScheduleKey, Arc<CachedSchedule>)> {
        let state = self.state.read();
        state.entries.iter().map(|(key, entry)| (key.clone(), entry.clone())).collect()
    }

    /// The health of the watch of a schedule.
    pub(super) fn health(&self, key: &ScheduleKey) -> Health {
        let state = self.state.read();
        let health_of = |namespace: &str| state.health.get(&(key.kind, namespace.to_owned()));
        health_of(&key.namespace)
            .or_else(|| health_of(""))
            .cloned()
            .unwrap_or(Health::NotSynced(None))
    }

    /// Whether a first list is neither complete nor failed, or no watch has started.
    pub(super) fn is_listing(&self) -> bool {
        let state = self.state.read();
        state.health.is_empty()
            || state.health.values().any(|health| *health == Health::NotSynced(None))
    }

    /// A message for each watch that has not synced, or one if no watch has started.
    pub(super) fn problems(&self) -> Vec<String> {
        let state = self.state.read();
        if state.health.is_empty() {
            return vec!["scaling schedules are not synced yet".to_owned()];
        }
        let not_synced = state.health.iter().filter_map(|((kind, _), health)| match health {
            Health::NotSynced(_) => Some(format!("{} are not synced yet", kind.resource())),
            Health::Synced | Health::NotInstalled => None,
        });
        not_synced.collect()
    }

    /// A receiver that is notified of changes of schedules and of watches.
    pub(super) fn subscribe(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Sets the health of a watch. If the resource is not installed, its schedules are removed and
    /// returned. A failure after the first list changes nothing.
    pub(super) fn set_health(
        &self,
        kind: ScheduleKind,
        namespace: &str,
        health: Health,
    ) -> Vec<ScheduleKey> {
        let mut removed = Vec::new();
        let mut state = self.state.write();
        let current =
            state.health.entry((kind, namespace.to_owned())).or_insert(Health::NotSynced(None));
        if *current == health
            || *current == Health::Synced && matches!(health, Health::NotSynced(_))
        {
            return removed;
        }
        current.clone_from(&health);
        if health == Health::NotInstalled {
            let of_watch = state.entries.keys().filter(|key| is_of_watch(key, kind, namespace));
            removed.extend(of_watch.cloned());
            state.entries.retain(|key, _| !is_of_watch(key, kind, namespace));
        }
        drop(state);
        self.changes.send_replace(());
        removed
    }

    /// Replaces the schedules of a watch, and returns those whose values may differ.
    pub(super) fn replace(
        &self,
        kind: ScheduleKind,
        namespace: &str,
        listed: BTreeMap<ScheduleKey, CachedSchedule>,
    ) -> BTreeSet<ScheduleKey> {
        let deleted: Vec<ScheduleKey> = {
            let state = self.state.read();
            let of_watch = state.entries.keys().filter(|key| is_of_watch(key, kind, namespace));
            of_watch.filter(|key| !listed.contains_key(key)).cloned().collect()
        };
        let mut changed = BTreeSet::new();
        for key in deleted {
            self.remove(&key);
            changed.insert(key);
        }
        for (key, entry) in listed {
            if self.insert(key.clone(), entry) {
                changed.insert(key);
            }
        }
        self.set_health(kind, namespace, Health::Synced);
        changed
    }

    /// Adds or replaces a schedule. Returns whether its values may differ.
    pub(super) fn insert(&self, key: ScheduleKey, entry: CachedSchedule) -> bool {
        let mut state = self.state.write();
        let has_same_spec = state.entries.get(&key).is_some_and(|known| known.spec == entry.spec);
        state.entries.insert(key, Arc::new(entry));
        drop(state);
        self.changes.send_replace(());
        !has_same_spec
    }

    pub(super) fn remove(&self, key: &ScheduleKey) {
        self.state.write().entries.remove(key);
        self.changes.send_replace(());
    }
}

fn is_of_watch(key: &ScheduleKey, kind: ScheduleKind, namespace: &str) -> bool {
    key.kind == kind && (namespace.is_empty() || key.namespace == namespace)
}
