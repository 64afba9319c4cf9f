//! Caches the schedules.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use hpa_metrics::StoredObject;
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use parking_lot::{Mutex, RwLock};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::watch;

use crate::schedules::{
    Evaluation, ScalingScheduleSpec, ScalingScheduleStatus, ScheduledMetric, Settings,
};

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
    /// The total size of the schedules by kind and namespace, in bytes.
    used: BTreeMap<(ScheduleKind, String), usize>,
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

/// The maximum length of a spec, as JSON in bytes.
const MAX_SPEC_BYTES: usize = 512 << 10;

/// The maximum length of the labels, as JSON in bytes.
const MAX_LABELS_BYTES: usize = 16 << 10;

/// The maximum size of the cached schedules of a namespace, in bytes: about 24,000 entries.
const MAX_NAMESPACE_BYTES: usize = 8 << 20;

/// A schedule with its compiled spec.
pub(super) struct CachedSchedule {
    pub(super) labels: BTreeMap<String, String>,
    pub(super) resource_version: String,
    /// `status.active`
    pub(super) is_active: bool,
    /// Shows whether an update changed the spec.
    spec_hash: u64,
    /// An upper bound of the memory of the labels and of the compiled spec.
    size: usize,
    pub(super) metric: Result<Arc<ScheduledMetric>, String>,
    /// Cached, because all autoscalers of the schedule need it.
    last_evaluation: Mutex<LastEvaluation>,
    /// Locked during an evaluation, for which concurrent reads wait.
    pub(super) evaluation_lock: tokio::sync::Mutex<()>,
}

/// The last evaluation of a schedule. The status and several autoscalers share it.
#[derive(Clone, Debug, Default)]
struct LastEvaluation {
    current: Option<Evaluation>,
    /// The time at which the value of the previous evaluation expired.
    last_change: Option<Timestamp>,
}

impl CachedSchedule {
    /// Compiles an object. The compiled spec of `previous` is reused if the spec is the same,
    /// because each write of the status is an update of the object.
    pub(super) fn new(
        object: &StoredObject,
        previous: Option<&Self>,
        settings: &Settings,
        hasher: &RandomState,
    ) -> Self {
        // An object that can't be decoded counts as one without a spec, which is an error.
        let Fields { metadata, spec, status } = object.decode().unwrap_or_default();
        let spec = text(spec);
        let spec_hash = hasher.hash_one(spec);
        let unchanged = previous.filter(|previous| previous.spec_hash == spec_hash);
        let unchanged_metric = unchanged.and_then(|previous| previous.metric.as_ref().ok());
        let status: Option<ScalingScheduleStatus> =
            serde_json::from_str(text(status)).unwrap_or_default();
        let decoded = decode_labels(text(metadata.labels)).and_then(|labels| {
            let metric = match unchanged_metric {
                Some(metric) => metric.clone(),
                None => Arc::new(compile(spec, settings)?),
            };
            Ok((labels, metric))
        });
        let (labels, metric) = match decoded {
            Ok((labels, metric)) => (labels, Ok(metric)),
            Err(error) => (BTreeMap::new(), Err(error)),
        };
        let labels_size: usize = labels.iter().map(|(key, value)| key.len() + value.len()).sum();
        // Two strings for each label, and as much again for the nodes of the map.
        let labels_size = labels_size + labels.len() * 4 * size_of::<String>();
        // Errors of entries quote the spec.
        let metric_size = metric.as_ref().map_or(0, |metric| metric.entries_size() + spec.len());
        Self {
            labels,
            resource_version: object.resource_version().unwrap_or_default(),
            is_active: status.unwrap_or_default().active,
            spec_hash,
            size: labels_size + metric_size,
            metric,
            last_evaluation: Mutex::default(),
            evaluation_lock: tokio::sync::Mutex::default(),
        }
    }

    /// The schedule with an error instead of its metric, and without labels.
    fn with_error(self, error: String) -> Self {
        Self { labels: BTreeMap::new(), size: 0, metric: Err(error), ..self }
    }

    /// The cached evaluation, if it applies at a time.
    pub(super) fn evaluation_at(&self, now: Timestamp) -> Option<Evaluation> {
        let last = self.last_evaluation.lock();
        last.current.as_ref().filter(|evaluation| evaluation.is_valid_at(now)).cloned()
    }

    /// Stores an evaluation that was made at `now`.
    pub(super) fn set_evaluation(&self, evaluation: Evaluation, now: Timestamp) {
        let mut last = self.last_evaluation.lock();
        let expired = last.current.as_ref().and_then(|previous| previous.expired_at(now));
        last.last_change = expired.or(last.last_change);
        last.current = Some(evaluation);
    }

    /// The time at which an autoscaler must read the value again. See
    /// [`super::Schedules::next_change`].
    pub(super) fn next_change(&self, since: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let last = self.last_evaluation.lock();
        let evaluation = last.current.as_ref()?;
        let last_change = evaluation.expired_at(now).or(last.last_change);
        let missed = last_change.filter(|at| *at > since);
        let reread = missed.and_then(|_| now.checked_add(REREAD_DELAY).ok());
        evaluation.next_change(now).into_iter().chain(reread).min()
    }
}

/// The delay after which a value that changed since its last read is read again.
const REREAD_DELAY: SignedDuration = SignedDuration::from_secs(1);

/// The fields of a schedule that are read. Each stays text, because each has its own errors.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Fields<'a> {
    #[serde(borrow)]
    metadata: FieldsOfMetadata<'a>,
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct FieldsOfMetadata<'a> {
    #[serde(borrow)]
    labels: Option<&'a RawValue>,
}

/// The text of a field. A missing field is null.
fn text(field: Option<&RawValue>) -> &str {
    field.map_or("null", RawValue::get)
}

fn decode_labels(labels: &str) -> Result<BTreeMap<String, String>, String> {
    let len = labels.len();
    if len > MAX_LABELS_BYTES {
        return Err(format!("metadata.labels: {len} bytes, at most {MAX_LABELS_BYTES} are read"));
    }
    let labels: serde_json::Result<Option<_>> = serde_json::from_str(labels);
    labels.map(Option::unwrap_or_default).map_err(|error| format!("metadata.labels: {error}"))
}

fn compile(spec: &str, settings: &Settings) -> Result<ScheduledMetric, String> {
    let len = spec.len();
    if len > MAX_SPEC_BYTES {
        return Err(format!("spec: {len} bytes, at most {MAX_SPEC_BYTES} are read"));
    }
    let spec: ScalingScheduleSpec =
        serde_json::from_str(spec).map_err(|error| format!("spec: {error}"))?;
    let metric = ScheduledMetric::new(&spec, settings).map_err(|error| error.to_string())?;
    Ok(metric.without_problems())
}

impl State {
    /// Adds a schedule. If the schedules of the namespace would then be too large, the added one
    /// has an error instead of a value.
    fn add(&mut self, key: ScheduleKey, entry: CachedSchedule) {
        let used = self.used.entry((key.kind, key.namespace.clone())).or_default();
        let entry = if *used + entry.size > MAX_NAMESPACE_BYTES {
            let schedules = match key.kind {
                ScheduleKind::Namespaced => "the schedules of the namespace",
                ScheduleKind::Cluster => "the cluster-scoped schedules",
            };
            entry.with_error(format!("{schedules} need more than {MAX_NAMESPACE_BYTES} bytes"))
        } else {
            entry
        };
        *used += entry.size;
        self.entries.insert(key, Arc::new(entry));
    }

    fn remove(&mut self, key: &ScheduleKey) -> Option<Arc<CachedSchedule>> {
        let entry = self.entries.remove(key)?;
        let scope = (key.kind, key.namespace.clone());
        let used = self.used.get(&scope).map_or(0, |used| used.saturating_sub(entry.size));
        if used == 0 {
            self.used.remove(&scope);
        } else {
            self.used.insert(scope, used);
        }
        Some(entry)
    }

    /// Removes the schedules of a watch that are not in `listed`, and returns them.
    fn remove_unlisted(
        &mut self,
        kind: ScheduleKind,
        namespace: &str,
        listed: &BTreeSet<ScheduleKey>,
    ) -> Vec<ScheduleKey> {
        let unlisted = |key: &&ScheduleKey| key.is_in(kind, namespace) && !listed.contains(*key);
        let removed: Vec<_> = self.entries.keys().filter(unlisted).cloned().collect();
        for key in &removed {
            self.remove(key);
        }
        removed
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
        self.all().into_iter().filter(|(key, _)| key.is_in(kind, namespace)).collect()
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

    /// Whether a first list is in progress, or no watch has started.
    pub(super) fn is_listing(&self) -> bool {
        let state = self.state.read();
        state.health.is_empty()
            || state.health.values().any(|health| *health == Health::NotSynced(None))
    }

    /// A message for each kind with a watch that has not synced, or one if no watch has started.
    pub(super) fn problems(&self) -> Vec<String> {
        let state = self.state.read();
        if state.health.is_empty() {
            return vec!["scaling schedules are not synced yet".to_owned()];
        }
        let not_synced = state.health.iter().filter_map(|((kind, _), health)| match health {
            Health::NotSynced(_) => Some(format!("{} are not synced yet", kind.resource())),
            Health::Synced | Health::NotInstalled => None,
        });
        let mut problems: Vec<_> = not_synced.collect();
        problems.dedup();
        problems
    }

    /// A receiver that is notified of changes of schedules and of watches.
    pub(super) fn subscribe(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Sets the health of a watch. If the resource is not installed, its schedules are removed and
    /// returned. A failure after the first list changes nothing.
    pub(super) fn update_health(
        &self,
        kind: ScheduleKind,
        namespace: &str,
        health: Health,
    ) -> Vec<ScheduleKey> {
        let mut state = self.state.write();
        let current =
            state.health.entry((kind, namespace.to_owned())).or_insert(Health::NotSynced(None));
        if *current == health
            || *current == Health::Synced && matches!(health, Health::NotSynced(_))
        {
            return Vec::new();
        }
        current.clone_from(&health);
        let removed = match health {
            Health::NotInstalled => state.remove_unlisted(kind, namespace, &BTreeSet::new()),
            Health::Synced | Health::NotSynced(_) => Vec::new(),
        };
        drop(state);
        self.changes.send_replace(());
        removed
    }

    /// Removes the schedules of a watch that are not in `listed`, and returns them. The watch has
    /// synced then.
    pub(super) fn finish_list(
        &self,
        kind: ScheduleKind,
        namespace: &str,
        listed: &BTreeSet<ScheduleKey>,
    ) -> Vec<ScheduleKey> {
        let removed = self.state.write().remove_unlisted(kind, namespace, listed);
        if !removed.is_empty() {
            self.changes.send_replace(());
        }
        self.update_health(kind, namespace, Health::Synced);
        removed
    }

    /// Adds or replaces a schedule. Returns whether its values may differ.
    pub(super) fn insert(&self, key: ScheduleKey, mut entry: CachedSchedule) -> bool {
        let mut state = self.state.write();
        let previous = state.remove(&key);
        let unchanged = previous.filter(|previous| previous.spec_hash == entry.spec_hash);
        if let Some(previous) = &unchanged {
            entry.last_evaluation = Mutex::new(previous.last_evaluation.lock().clone());
        }
        state.add(key.clone(), entry);
        let added = state.entries.get(&key);
        let is_same = unchanged
            .zip(added)
            .is_some_and(|(old, new)| old.metric.as_ref().err() == new.metric.as_ref().err());
        drop(state);
        self.changes.send_replace(());
        !is_same
    }

    pub(super) fn remove(&self, key: &ScheduleKey) {
        self.state.write().remove(key);
        self.changes.send_replace(());
    }
}
