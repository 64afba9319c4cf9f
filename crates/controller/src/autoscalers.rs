//! The autoscalers that are known: each one's object as last seen, and the history of its decisions.

use std::sync::Arc;

use hpa_calc::{
    api::{HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec, HorizontalPodAutoscalerStatus, ObjectMeta},
    defaults::apply_defaults,
    history::History,
};
use k8s_openapi::api::autoscaling::v2 as k8s;
use kube::Resource;
use parking_lot::{Mutex, RwLock};
use serde::Deserialize;

use crate::selectors::HpaKey;

/// autoscaling/v2 HorizontalPodAutoscaler as the watch delivers it: metadata as kube needs it, spec and status in
/// the engine's types, which keep fields they do not know.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = k8s::HorizontalPodAutoscaler)]
pub struct WatchedAutoscaler {
    metadata: kube::api::ObjectMeta,
    spec: HorizontalPodAutoscalerSpec,
    #[serde(default)]
    status: Option<HorizontalPodAutoscalerStatus>,
}

impl From<WatchedAutoscaler> for HorizontalPodAutoscaler {
    fn from(watched: WatchedAutoscaler) -> Self {
        let WatchedAutoscaler { metadata, mut spec, status } = watched;
        // The API server has done so; a spec that reached us another way is not to be read differently.
        apply_defaults(&mut spec);
        let metadata = ObjectMeta {
            name: metadata.name.unwrap_or_default(),
            namespace: metadata.namespace.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
            generation: metadata.generation,
            ..ObjectMeta::default()
        };
        Self { metadata, spec, status: status.unwrap_or_default() }
    }
}

/// One autoscaler, from its creation to its deletion: a re-created one of the same name is another.
#[derive(Debug)]
pub struct Autoscaler {
    uid: String,
    object: RwLock<Arc<HorizontalPodAutoscaler>>,
    history: Mutex<History>,
}

impl Autoscaler {
    fn new(object: HorizontalPodAutoscaler) -> Self {
        let uid = object.metadata.uid.clone();
        Self { uid, object: RwLock::new(Arc::new(object)), history: Mutex::default() }
    }

    /// The object as last seen.
    pub fn object(&self) -> Arc<HorizontalPodAutoscaler> {
        self.object.read().clone()
    }

    /// A copy of the history, to decide on.
    pub fn history(&self) -> History {
        self.history.lock().clone()
    }

    /// Keeps what a decision left of the history.
    pub fn set_history(&self, history: History) {
        *self.history.lock() = history;
    }

    /// Takes over a version of the object unless a newer one is known; whether it changed the spec.
    fn update(&self, object: HorizontalPodAutoscaler) -> bool {
        let mut known = self.object.write();
        if is_older(&object.metadata, &known.metadata) {
            return false;
        }
        let spec_changed = known.spec != object.spec;
        *known = Arc::new(object);
        spec_changed
    }
}

/// Whether a version is older than another. Versions are numbers that grow (KEP-5504); one that is none is taken as
/// it comes.
fn is_older(version: &ObjectMeta, than: &ObjectMeta) -> bool {
    match (version.resource_version.parse::<u64>(), than.resource_version.parse::<u64>()) {
        (Ok(version), Ok(than)) => version < than,
        _ => false,
    }
}

/// What a new version of an object means for its autoscaler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is new, or was re-created.
    Created,
    /// Its spec is another.
    SpecChanged,
    /// Nothing that calls for a reconcile, for example our own write of the status.
    Nothing,
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

    /// Takes over a version of an object.
    pub fn apply(&self, key: &HpaKey, object: HorizontalPodAutoscaler) -> Change {
        if let Some(known) = self.get(key).filter(|known| known.uid == object.metadata.uid) {
            return if known.update(object) { Change::SpecChanged } else { Change::Nothing };
        }
        self.by_key.write().insert(key.clone(), Arc::new(Autoscaler::new(object)));
        Change::Created
    }

    /// Takes over what the API answered to our own write, if the object is still the one that is known.
    pub fn apply_known(&self, key: &HpaKey, object: HorizontalPodAutoscaler) -> bool {
        let known = self.get(key).filter(|known| known.uid == object.metadata.uid);
        // A spec that was edited meanwhile is left for the watch to tell.
        known.is_some_and(|known| known.object().spec == object.spec && !known.update(object))
    }

    /// Forgets an autoscaler; whether it was known.
    pub fn remove(&self, key: &HpaKey) -> bool {
        self.by_key.write().remove(key).is_some()
    }

    /// The autoscalers of a namespace, or of all, for which the condition holds.
    pub fn keys_where(&self, holds: impl Fn(&HpaKey) -> bool) -> Vec<HpaKey> {
        self.by_key.read().keys().filter(|key| holds(key)).cloned().collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> HpaKey {
        HpaKey::new("shop", "web")
    }

    fn object(uid: &str, version: &str, max_replicas: i32) -> HorizontalPodAutoscaler {
        let mut object = HorizontalPodAutoscaler::default();
        object.metadata.uid = uid.into();
        object.metadata.resource_version = version.into();
        object.spec.max_replicas = max_replicas;
        object
    }

    #[test]
    fn status_only_change_calls_for_nothing() {
        let autoscalers = Autoscalers::default();
        assert_eq!(autoscalers.apply(&key(), object("a", "1", 5)), Change::Created);
        let mut next = object("a", "2", 5);
        next.status.desired_replicas = 3;
        assert_eq!(autoscalers.apply(&key(), next), Change::Nothing);
        let known = autoscalers.get(&key()).expect("it was applied");
        assert_eq!(known.object().status.desired_replicas, 3);
    }

    #[test]
    fn spec_change_is_told() {
        let autoscalers = Autoscalers::default();
        autoscalers.apply(&key(), object("a", "1", 5));
        assert_eq!(autoscalers.apply(&key(), object("a", "2", 6)), Change::SpecChanged);
    }

    #[test]
    fn older_version_is_not_taken_over() {
        let autoscalers = Autoscalers::default();
        autoscalers.apply(&key(), object("a", "10", 6));
        assert_eq!(autoscalers.apply(&key(), object("a", "9", 5)), Change::Nothing);
        let known = autoscalers.get(&key()).expect("it was applied");
        assert_eq!(known.object().spec.max_replicas, 6);
    }

    #[test]
    fn re_created_object_inherits_no_history() {
        let autoscalers = Autoscalers::default();
        autoscalers.apply(&key(), object("a", "1", 5));
        let mut history = History::default();
        history.scale_ups.push(hpa_calc::history::ScaleEvent {
            change: 1,
            at: jiff::Timestamp::UNIX_EPOCH,
            outdated: false,
        });
        autoscalers.get(&key()).expect("it was applied").set_history(history);
        assert_eq!(autoscalers.apply(&key(), object("b", "2", 5)), Change::Created);
        let known = autoscalers.get(&key()).expect("it was applied");
        assert_eq!(known.history(), History::default());
    }
}
