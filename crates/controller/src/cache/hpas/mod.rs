//! The autoscalers that are known: each one's object as last seen, and the history of its decisions.

mod last_reconcile;
#[cfg(test)]
mod tests;

use std::{
    hash::BuildHasher,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use hpa_calc::{
    api::{
        CrossVersionObjectReference, HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec,
        ObjectMeta,
    },
    history::{History, Recommendation},
};
use jiff::SignedDuration;
use parking_lot::{Mutex, RwLock};

pub use last_reconcile::ErrorClass;
pub(crate) use last_reconcile::{LastReconcile, MetricProposal, ReconcileDetail};

use crate::{clock::Instants, hash::HASHER, k8s::StoredHpa, key::HpaKey};

/// One autoscaler, from its creation to its deletion: a re-created one of the same name is another.
#[derive(Debug)]
pub struct Autoscaler {
    known: RwLock<Known>,
    /// It was changed to what cannot be decoded.
    suspended: AtomicBool,
    /// Whether a scale that a watch tells of is at least as new as all that was done to the target.
    scale_is_trusted: AtomicBool,
    past: Mutex<Past>,
    /// Stands for the target of the last reconcile.
    target_hash: Mutex<Option<u64>>,
    /// How the last reconcile failed, if it did.
    failure: Mutex<Option<String>>,
    /// What was last told of its annotations.
    fault: Mutex<Option<String>>,
    pub(crate) last_reconcile: Mutex<LastReconcile>,
}

/// An object as last seen.
#[derive(Debug)]
struct Known {
    object: Arc<HorizontalPodAutoscaler>,
    /// By which its spec is recognized in an answer, once there was one.
    spec_hash: Option<u64>,
}

/// What has become of an autoscaler's failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureChange {
    /// There is none, as before.
    None,
    /// It began, or is another than before.
    New,
    /// It is as before.
    Same,
    /// It ended.
    Ended,
}

/// The history, and when it was kept.
#[derive(Debug, Default)]
struct Past {
    history: History,
    kept: Option<Instants>,
    /// Of a restored history: the replicas that it ends with.
    ends_with: Option<i32>,
}

/// How far the wall clock was set between two moments; less than a second is not told from its regulation.
fn wall_clock_step(earlier: Instants, later: Instants) -> SignedDuration {
    let passed = later.monotonic.saturating_sub(earlier.monotonic);
    let passed = SignedDuration::try_from(passed).unwrap_or(SignedDuration::MAX);
    let set = later.wall.duration_since(earlier.wall).saturating_sub(passed);
    if set.abs() < SignedDuration::from_secs(1) { SignedDuration::ZERO } else { set }
}

impl Autoscaler {
    fn new(object: HorizontalPodAutoscaler) -> Self {
        Self {
            known: RwLock::new(Known { object: Arc::new(object), spec_hash: None }),
            suspended: AtomicBool::new(false),
            scale_is_trusted: AtomicBool::new(false),
            past: Mutex::default(),
            target_hash: Mutex::default(),
            failure: Mutex::default(),
            fault: Mutex::default(),
            last_reconcile: Mutex::default(),
        }
    }

    /// The object as last seen.
    pub fn object(&self) -> Arc<HorizontalPodAutoscaler> {
        self.known.read().object.clone()
    }

    /// Whether it has this UID.
    fn is(&self, uid: &str) -> bool {
        self.known.read().object.metadata.uid == uid
    }

    /// The spec that is known by this hash.
    pub(crate) fn spec_with_hash(&self, spec_hash: u64) -> Option<HorizontalPodAutoscalerSpec> {
        let known = self.known.read();
        (known.spec_hash == Some(spec_hash)).then(|| known.object.spec.clone())
    }

    /// Whether it was changed to what cannot be decoded: nothing is decided until it is known again what it asks for.
    pub fn is_suspended(&self) -> bool {
        self.suspended.load(Ordering::Relaxed)
    }

    /// Whether a scale that a watch tells of may be decided on: the target's was read once, and nothing is uncertain since.
    pub fn scale_is_trusted(&self) -> bool {
        self.scale_is_trusted.load(Ordering::Relaxed)
    }

    /// See [`Autoscaler::scale_is_trusted`].
    pub fn set_scale_trusted(&self, knows: bool) {
        self.scale_is_trusted.store(knows, Ordering::Relaxed);
    }

    /// A copy of the history, to decide on at this moment. Where the wall clock was set since it was kept, its times are set likewise:
    /// a window is a span of time, not of what a clock shows.
    pub fn history(&self, now: Instants) -> History {
        let past = self.past.lock();
        let mut history = past.history.clone();
        if let Some(kept) = past.kept {
            history.shift(wall_clock_step(kept, now));
        }
        history
    }

    /// Keeps what a decision of this moment left of the history.
    pub fn set_history(&self, history: History, now: Instants) {
        *self.past.lock() = Past { history, kept: Some(now), ends_with: None };
    }

    /// Takes over what another leader left of the history, which ends with these replicas.
    pub fn restore(&self, history: History, replicas: i32, now: Instants) {
        *self.past.lock() = Past { history, kept: Some(now), ends_with: Some(replicas) };
    }

    /// Tells the target of a reconcile; whether it is another than that of the last.
    pub fn set_target(&self, target: &CrossVersionObjectReference) -> bool {
        let hash = Some(HASHER.hash_one((&target.api_version, &target.kind, &target.name)));
        std::mem::replace(&mut *self.target_hash.lock(), hash) != hash
    }

    /// Tells the replicas that a reconcile found. If they are not those that a restored history ends with, then what
    /// changed them is not known: as after a start without a history, they are the first recommendation.
    pub fn reconcile_restored_history(&self, replicas: i32, now: Instants) {
        let mut past = self.past.lock();
        if past.ends_with.take().is_some_and(|expected| expected != replicas) {
            past.history.recommendations.push(Recommendation { replicas, at: now.wall });
        }
    }

    /// Keeps how a reconcile failed, if it did.
    pub fn set_failure(&self, failure: Option<String>) -> FailureChange {
        let mut last = self.failure.lock();
        let change = match (last.as_ref(), failure.as_ref()) {
            (None, None) => FailureChange::None,
            (Some(last), Some(failure)) if last == failure => FailureChange::Same,
            (_, Some(_)) => FailureChange::New,
            (Some(_), None) => FailureChange::Ended,
        };
        *last = failure;
        change
    }

    /// Takes over what was read of the object, unless another of its name was read.
    pub(crate) fn refresh(&self, StoredHpa { object, spec_hash }: StoredHpa) {
        if self.is(&object.metadata.uid) {
            self.update(object, Origin::Watch, Some(spec_hash));
        }
    }

    /// Keeps what is wrong with the annotations, if anything; whether that is news to its owner.
    pub fn set_invalid_annotations(&self, fault: Option<&str>) -> bool {
        let mut last = self.fault.lock();
        let is_news = fault.is_some() && last.as_deref() != fault;
        *last = fault.map(ToOwned::to_owned);
        is_news
    }

    /// Takes over a version of the object; what changed. One that could not be decoded before counts as changed. A change
    /// that is older than what is known is left out.
    fn update(
        &self,
        object: HorizontalPodAutoscaler,
        seen: Origin,
        spec_hash: Option<u64>,
    ) -> Change {
        let mut known = self.known.write();
        let Known { object: last, spec_hash: last_hash } = &mut *known;
        if seen == Origin::Watch && is_older(&object.metadata, &last.metadata) {
            return Change::Unchanged;
        }
        let change = match () {
            () if !desired_state_eq(last, &object) => Change::SpecChanged,
            () if last.status != object.status => Change::StatusChanged,
            () => Change::Unchanged,
        };
        *last_hash = spec_hash.or(last_hash.filter(|_| change != Change::SpecChanged));
        *last = Arc::new(object);
        if self.suspended.swap(false, Ordering::Relaxed) {
            return Change::SpecChanged;
        }
        change
    }
}

/// Whether two versions of an object ask for the same, by the spec and by the annotations that are for us.
pub(crate) fn desired_state_eq(a: &HorizontalPodAutoscaler, b: &HorizontalPodAutoscaler) -> bool {
    a.spec == b.spec && a.metadata.annotations == b.metadata.annotations
}

/// Whether a version is older than another. Versions are numbers that grow (KEP-5504); one that is none is taken as
/// it comes.
fn is_older(version: &ObjectMeta, than: &ObjectMeta) -> bool {
    match (version.resource_version.parse::<u64>(), than.resource_version.parse::<u64>()) {
        (Ok(version), Ok(than)) => version < than,
        _ => false,
    }
}

/// How a version of an object came to be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// In a list: that is how it is, even if versions went back because the API server's store was restored.
    List,
    /// As a change, or as the answer to a write: newer ones may have been seen already.
    Watch,
}

/// What a new version of an object means for its autoscaler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is new, or was re-created.
    Created,
    /// Its spec is another, or what its annotations ask of us, or it is known again after it could not be decoded.
    SpecChanged,
    /// Nothing but its status. That calls for no reconcile: it is our own write, unless another controller handles it.
    StatusChanged,
    /// Nothing that is looked at.
    Unchanged,
}

/// All autoscalers that are known, by namespace and name.
#[derive(Debug, Default)]
pub struct Autoscalers {
    by_key: RwLock<hashbrown::HashMap<HpaKey, Arc<Autoscaler>>>,
}

impl Autoscalers {
    /// The autoscaler of this name.
    pub fn get(&self, key: &HpaKey) -> Option<Arc<Autoscaler>> {
        self.by_key.read().get(key).cloned()
    }

    /// Whether this version of an object is known.
    pub fn has_version(&self, key: &HpaKey, uid: &str, version: &str) -> bool {
        let by_key = self.by_key.read();
        by_key.get(key).is_some_and(|known| {
            let metadata = &known.known.read().object.metadata;
            !known.is_suspended() && metadata.uid == uid && metadata.resource_version == version
        })
    }

    /// Takes over a version of an object.
    pub fn apply(&self, key: &HpaKey, object: HorizontalPodAutoscaler, seen: Origin) -> Change {
        if let Some(known) = self.get(key).filter(|known| known.is(&object.metadata.uid)) {
            return known.update(object, seen, None);
        }
        self.by_key.write().insert(key.clone(), Arc::new(Autoscaler::new(object)));
        Change::Created
    }

    /// Takes over what the API answered to our own write, if the object is still the one that is known.
    pub(crate) fn apply_own_write(
        &self,
        key: &HpaKey,
        StoredHpa { object, spec_hash }: StoredHpa,
    ) -> bool {
        let known = self.get(key).filter(|known| known.is(&object.metadata.uid));
        // A spec that was edited meanwhile is left for the watch to tell.
        known.is_some_and(|known| {
            desired_state_eq(&known.object(), &object)
                && known.update(object, Origin::Watch, Some(spec_hash)) != Change::SpecChanged
        })
    }

    /// An autoscaler was changed to what cannot be decoded: it keeps its history until it can be again, or is gone.
    pub fn suspend(&self, key: &HpaKey) {
        if let Some(known) = self.get(key) {
            known.suspended.store(true, Ordering::Relaxed);
        }
    }

    /// Forgets an autoscaler; whether it was known.
    pub fn remove(&self, key: &HpaKey) -> bool {
        self.by_key.write().remove(key).is_some()
    }

    /// The autoscalers of a namespace, or of all, for which the condition holds.
    pub fn keys_where(&self, holds: impl Fn(&HpaKey) -> bool) -> Vec<HpaKey> {
        self.by_key.read().keys().filter(|key| holds(key)).cloned().collect()
    }

    /// All of them, in no order.
    pub fn all(&self) -> Vec<(HpaKey, Arc<Autoscaler>)> {
        self.by_key
            .read()
            .iter()
            .map(|(key, autoscaler)| (key.clone(), autoscaler.clone()))
            .collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_key.read().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
