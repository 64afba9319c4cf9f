//! The cache of autoscalers, with the state that reconciles keep for each of them.

mod autoscaler;
mod change_reconciles;
mod decisions;
mod early_retries;
mod last_reconcile;
mod overwritten_replicas;
mod peer_writes;
mod replica_mismatch;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use hpa_calc::api::HorizontalPodAutoscaler;
use parking_lot::RwLock;

pub(crate) use autoscaler::desired_state_eq;
pub use autoscaler::{Autoscaler, Change, FailureChange, Origin};
pub use decisions::DecisionSample;
pub(crate) use decisions::{DecisionRun, Decisions};
pub(crate) use early_retries::NextDue;
pub use last_reconcile::ErrorClass;
pub(crate) use last_reconcile::{MetricProposal, ReconcileDetail};
pub use overwritten_replicas::overwritten_by_event;
pub(crate) use peer_writes::PeerWrite;

use crate::{k8s::StoredHpa, key::HpaKey};

/// The cached autoscalers by key.
#[derive(Debug, Default)]
pub struct Autoscalers {
    by_key: RwLock<hashbrown::HashMap<HpaKey, Arc<Autoscaler>>>,
}

impl Autoscalers {
    pub fn get(&self, key: &HpaKey) -> Option<Arc<Autoscaler>> {
        self.by_key.read().get(key).cloned()
    }

    /// Whether this version of an object is the cached one.
    pub fn has_version(&self, key: &HpaKey, uid: &str, resource_version: &str) -> bool {
        let by_key = self.by_key.read();
        by_key.get(key).is_some_and(|cached| cached.has_version(uid, resource_version))
    }

    /// Stores a version of an object. A version from a watch or a response is ignored if a newer
    /// one is cached.
    pub fn apply(&self, key: &HpaKey, object: HorizontalPodAutoscaler, origin: Origin) -> Change {
        if let Some(cached) = self.get(key).filter(|cached| cached.has_uid(&object.metadata.uid)) {
            return cached.update(object, origin, None);
        }
        self.by_key.write().insert(key.clone(), Arc::new(Autoscaler::new(object, origin)));
        Change::Created
    }

    /// Stores the response to our own status write. Ignores it if no object with this UID is
    /// cached, or if it has another spec or other annotations: the watch delivers that change.
    pub(crate) fn apply_own_write(&self, key: &HpaKey, StoredHpa { object, spec_hash }: StoredHpa) {
        if let Some(cached) = self.get(key)
            && cached.has_uid(&object.metadata.uid)
            && desired_state_eq(&cached.object(), &object)
        {
            cached.update(object, Origin::WatchOrResponse, Some(spec_hash));
        }
    }

    /// Sets [`Autoscaler::is_undecodable`]. The autoscaler keeps its state.
    pub fn mark_undecodable(&self, key: &HpaKey) {
        if let Some(cached) = self.get(key) {
            cached.mark_undecodable();
        }
    }

    /// Returns whether the autoscaler was cached.
    pub fn remove(&self, key: &HpaKey) -> bool {
        self.by_key.write().remove(key).is_some()
    }

    pub fn keys_where(&self, predicate: impl Fn(&HpaKey) -> bool) -> Vec<HpaKey> {
        self.by_key.read().keys().filter(|key| predicate(key)).cloned().collect()
    }

    /// All autoscalers in arbitrary order.
    pub fn all(&self) -> Vec<(HpaKey, Arc<Autoscaler>)> {
        let by_key = self.by_key.read();
        by_key.iter().map(|(key, autoscaler)| (key.clone(), autoscaler.clone())).collect()
    }

    pub fn len(&self) -> usize {
        self.by_key.read().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
