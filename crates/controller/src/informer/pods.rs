//! The informer of pods.

use hpa_calc::api::Pod;
use kube::{Client, runtime::watcher};
use tokio::sync::watch;

use super::{Informers, api_in_scope, stream::WatchStream};
use crate::{k8s::PartialObject, scope::Scope};

impl Informers {
    /// Keeps the cached pods of a scope up to date and doesn't return. Sends `true` to `synced`
    /// after the first list.
    pub async fn watch_pods(self, client: Client, scope: Scope, synced: watch::Sender<bool>) {
        let pods = &self.caches.pods;
        let Some(index) = pods.index(scope.as_deref().unwrap_or_default()) else { return };
        let mut stream = WatchStream::<PartialObject<Pod>>::new(
            "pods",
            &client,
            &scope,
            self.relist_interval,
            api_in_scope,
        );
        let mut list_is_incomplete = false;
        loop {
            let event = match stream.next_or_interrupted().await {
                Ok(Some(event)) => event,
                Ok(None) => return,
                Err(interrupted) => {
                    if interrupted.event_lost {
                        index.set_incomplete(true);
                    }
                    continue;
                }
            };
            match event {
                watcher::Event::Init => {
                    list_is_incomplete = false;
                    index.begin_list();
                }
                watcher::Event::InitApply(object) => {
                    if let Some((namespace, pod)) = self.decode_pod(object) {
                        index.list_apply(&namespace, pod);
                    } else {
                        list_is_incomplete = true;
                        stream.schedule_relist();
                    }
                }
                watcher::Event::InitDone => {
                    index.finish_list();
                    index.set_incomplete(list_is_incomplete);
                    synced.send_replace(true);
                }
                watcher::Event::Apply(object) => {
                    if let Some((namespace, pod)) = self.decode_pod(object) {
                        index.apply(&namespace, pod);
                    } else {
                        // The cache keeps the previous version of the pod until the relist.
                        index.set_incomplete(true);
                        stream.schedule_relist();
                    }
                }
                watcher::Event::Delete(object) => {
                    index.delete(object.namespace(), object.name());
                }
            }
        }
    }

    /// The pod and its namespace.
    fn decode_pod(&self, object: PartialObject<Pod>) -> Option<(String, Pod)> {
        let (namespace, name) = (object.namespace().to_owned(), object.name().to_owned());
        let pod = self.decode(format_args!("{namespace}/{name}"), object)?;
        Some((namespace, pod))
    }
}
