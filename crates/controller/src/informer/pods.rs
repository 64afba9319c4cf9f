//! The informer of pods.

use hpa_calc::api::Pod;
use kube::{Client, runtime::watcher};
use tokio::sync::watch;

use super::{
    Informers,
    undecodable::{ObjectId, UndecodableObjects},
};
use crate::{
    cache::PodIndex,
    k8s::{PartialObject, pod_resource},
    key::Scope,
};

impl Informers {
    /// Keeps the cached pods of a scope up to date, and doesn't return. Sends `true` to `synced`
    /// after the first list. If the cache has no such scope, returns at once.
    pub async fn watch_pods(self, client: Client, scope: Scope, synced: watch::Sender<bool>) {
        let pods = &self.caches.pods;
        let Some(index) = pods.index(scope.as_deref().unwrap_or_default()) else { return };
        let age = index.watch_age().clone();
        let mut stream = self.stream("pods", &pod_resource(), &client, &scope, age);
        let mut undecodable = UndecodableObjects::default();
        loop {
            let event = match stream.next_or_interrupted().await {
                Ok(Some(event)) => event,
                Ok(None) => return,
                Err(interrupted) => {
                    if interrupted.is_event_lost {
                        // The event may be about any pod. The stream has scheduled a relist.
                        index.add_undecodable("", "");
                    }
                    continue;
                }
            };
            match event {
                watcher::Event::Init => {
                    undecodable.begin_list();
                    index.begin_list();
                }
                watcher::Event::InitApply(object) => {
                    self.add_listed_pod(object, index, &mut undecodable);
                }
                watcher::Event::InitDone => {
                    index.finish_list();
                    if undecodable.finish_list() {
                        stream.schedule_relist_for_undecodable();
                    }
                    synced.send_replace(true);
                }
                watcher::Event::Apply(object) => {
                    if self.apply_pod(object, index, &mut undecodable) {
                        stream.schedule_relist_for_undecodable();
                    }
                }
                watcher::Event::Delete(object) if object.is_named() => {
                    undecodable.remove(object.uid());
                    index.delete(object.namespace(), object.name());
                }
                watcher::Event::Delete(_) => {
                    // Any pod may have been deleted. The cache keeps that pod until the relist.
                    index.add_undecodable("", "");
                    stream.schedule_relist_for_undecodable();
                }
            }
        }
    }

    /// Adds a pod to the list that the index receives.
    fn add_listed_pod(
        &self,
        object: PartialObject,
        index: &PodIndex,
        undecodable: &mut UndecodableObjects,
    ) {
        match self.decode_pod(object) {
            (id, Some(pod)) => index.list_apply(&id.namespace, pod),
            (id, None) => {
                index.list_add_undecodable(&id.namespace, &id.name);
                undecodable.list_add(id);
            }
        }
    }

    /// Stores the pod of a watch event. Returns whether a relist may help.
    fn apply_pod(
        &self,
        object: PartialObject,
        index: &PodIndex,
        undecodable: &mut UndecodableObjects,
    ) -> bool {
        match self.decode_pod(object) {
            (id, Some(pod)) => {
                undecodable.remove(&id.uid);
                index.apply(&id.namespace, pod);
                false
            }
            (id, None) => {
                // The cache keeps the previous version of the pod until the relist.
                index.add_undecodable(&id.namespace, &id.name);
                undecodable.add(id)
            }
        }
    }

    /// The pod's identity, and the pod if it can be decoded.
    fn decode_pod(&self, object: PartialObject) -> (ObjectId, Option<Pod>) {
        let id = ObjectId::from(&object);
        let pod = self.decode(format_args!("{}/{}", id.namespace, id.name), object);
        (id, pod)
    }
}
