//! The scales of targets, known from watches instead of asked for at each reconcile.
//!
//! ```text
//! watch of the targets' kind ─▶ Scaled (what a scale is made of) ─▶ Store ─▶ ScaleCache::get
//!                                              answers to our own reads and writes ─▲ learn
//! ```
//!
//! A kind is watched from when an autoscaler first names it. What is known is as old as the watch is behind, so whoever
//! decides on it writes with the version that it has, and on a conflict decides anew on what the API server says. It is
//! never older than what we have written or read ourselves, and after a watch failed nothing is known until all was
//! listed anew.

mod custom;
mod scaled;
mod store;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use hashbrown::HashMap;
use kube::{
    Api, Client,
    core::{ApiResource, DynamicResourceScope, Resource},
    runtime::watcher::Event,
};
use parking_lot::Mutex;
use tokio::{task::JoinSet, time::sleep};
use tracing::info;

use self::{
    custom::Custom,
    scaled::{ScalePaths, Scaled, Workload},
    store::Store,
};
use crate::{
    cache::pods::Pair,
    informer::stream::{Interrupted, WatchStream, Watchable},
    scale_target::{Mapping, ReadScale},
    scope::Scope,
};

/// The scales of all kinds that autoscalers name.
pub struct ScaleCache {
    client: Client,
    scopes: Vec<Scope>,
    /// How long a watch that failed waits at most.
    pace: Duration,
    kinds: Mutex<Kinds>,
    watches: Mutex<JoinSet<()>>,
}

/// By group and resource.
type Kinds = HashMap<(Box<str>, Box<str>), Arc<Kind>>;

/// The scales of one kind: a store for each scope, since each is fed by a watch of its own.
struct Kind {
    stores: Vec<(Scope, Arc<Store>)>,
}

impl Kind {
    fn store(&self, namespace: &str) -> Option<&Arc<Store>> {
        let is_in = |scope: &Scope| scope.as_deref().is_none_or(|scope| scope == namespace);
        self.stores.iter().find(|(scope, _)| is_in(scope)).map(|(_, store)| store)
    }
}

impl ScaleCache {
    /// A cache that knows nothing yet.
    pub fn new(client: Client, scopes: Vec<Scope>, pace: Duration) -> Self {
        Self { client, scopes, pace, kinds: Mutex::default(), watches: Mutex::default() }
    }

    /// The scale of a target, if it is known. Of a kind that is asked for the first time nothing is known yet: it is
    /// watched from now on. Needs a tokio runtime.
    pub fn get(&self, mapping: &Mapping, namespace: &str, name: &str) -> Option<ReadScale> {
        self.kind(mapping)?.store(namespace)?.get(namespace, name)
    }

    /// Takes in what the API server answered to a read or a write of a scale. Its kind is watched from now on.
    pub fn observe_response(
        &self,
        mapping: &Mapping,
        namespace: &str,
        name: &str,
        read: &ReadScale,
    ) {
        if let Some(store) = self.kind(mapping).as_ref().and_then(|kind| kind.store(namespace)) {
            store.observe_response(namespace, name, read);
        }
    }

    /// What is known of a kind, which is watched if it is not yet. Objects outside of namespaces are never found by an
    /// autoscaler.
    fn kind(&self, mapping: &Mapping) -> Option<Arc<Kind>> {
        if !mapping.namespaced {
            return None;
        }
        let mut kinds = self.kinds.lock();
        if let Some(kind) = kinds.get(&Pair(&mapping.group, &mapping.resource)) {
            return Some(kind.clone());
        }
        let stores = self.scopes.iter().map(|scope| (scope.clone(), Arc::default())).collect();
        let kind = Arc::new(Kind { stores });
        kinds.insert(((&*mapping.group).into(), (&*mapping.resource).into()), kind.clone());
        self.watch(mapping, &kind);
        Some(kind)
    }

    fn watch(&self, mapping: &Mapping, kind: &Kind) {
        let mut watches = self.watches.lock();
        for (scope, store) in &kind.stores {
            let (client, scope, store, pace) =
                (self.client.clone(), scope.clone(), store.clone(), self.pace);
            let mapping = mapping.clone();
            watches.spawn(async move {
                let mut is_told = false;
                loop {
                    if has_known_paths(&mapping) {
                        let feed = feed::<Workload>(client.clone(), &mapping, &scope, pace);
                        keep(feed, &store, &ScalePaths::default()).await;
                    } else {
                        let paths = custom::paths(&client, &mapping).await;
                        let feed = feed::<Custom>(client.clone(), &mapping, &scope, pace);
                        keep(feed, &store, &paths).await;
                    }
                    if !std::mem::replace(&mut is_told, true) {
                        info!(kind = %mapping, "no right to watch them: their scales are read one by one");
                    }
                    sleep(PATIENCE).await;
                }
            });
        }
    }
}

/// How long to wait before something is asked for again that is not permitted, or not there.
const PATIENCE: Duration = Duration::from_mins(10);

/// Whether a kind has its scale where Kubernetes' own workloads have it.
fn has_known_paths(mapping: &Mapping) -> bool {
    &*mapping.group == "apps"
        && matches!(&*mapping.resource, "deployments" | "statefulsets" | "replicasets")
}

fn feed<T>(client: Client, mapping: &Mapping, scope: &Scope, pace: Duration) -> WatchStream<T>
where
    T: Watchable + Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>,
{
    let (group, version) = (mapping.group.to_string(), mapping.version.to_string());
    let api_version = if group.is_empty() { version.clone() } else { format!("{group}/{version}") };
    let (kind, plural) = (mapping.kind.to_string(), mapping.resource.to_string());
    let resource = ApiResource { group, version, api_version, kind, plural };
    let api = match scope {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    };
    WatchStream::new(mapping.to_string(), api, scope, pace).tolerate_forbidden()
}

/// Keeps the scales of one kind in a scope, as long as it is permitted.
async fn keep<T: Watchable + Scaled>(mut feed: WatchStream<T>, store: &Store, paths: &ScalePaths) {
    loop {
        match feed.next_or_interrupted().await {
            Err(Interrupted { is_forbidden, .. }) => {
                store.lost();
                if is_forbidden {
                    return;
                }
                // A watch that goes on where it broke off shows in nothing that it works again, but a list does.
                feed.relist();
            }
            Ok(None) => return,
            Ok(Some(Event::Init)) => store.begin_list(),
            Ok(Some(Event::InitApply(object))) => {
                if let (Some((namespace, name)), Some(read)) = (object.name(), object.scale(paths))
                {
                    store.listed(namespace, name, &read);
                }
            }
            Ok(Some(Event::InitDone)) => store.end_list(),
            Ok(Some(Event::Apply(object))) => {
                let Some((namespace, name)) = object.name() else { continue };
                match object.scale(paths) {
                    Some(read) => store.apply(namespace, name, &read),
                    // It is for the API server to say what is wrong with it.
                    None => store.delete(namespace, name, object.version()),
                }
            }
            Ok(Some(Event::Delete(object))) => {
                if let Some((namespace, name)) = object.name() {
                    store.delete(namespace, name, object.version());
                }
            }
        }
    }
}
