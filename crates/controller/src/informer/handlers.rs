//! The watches that feed the caches.

use std::{
    collections::{BTreeSet, HashSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use hpa_calc::api::{HorizontalPodAutoscaler, Pod};
use kube::{Api, Client, Resource, core::NamespaceResourceScope, runtime::watcher};
use tokio::sync::watch;
use tracing::{info, warn};

use crate::{
    annotations::AnnotationSettings,
    cache::hpas::{Autoscalers, Change, Origin},
    cache::pods::Pods,
    cache::selectors::SelectorIndex,
    informer::stream::WatchStream,
    k8s::autoscaler_kind::{AutoscalerKind, CustomAutoscaler},
    k8s::partial_object::{CachedKind, PartialObject},
    key::{AutoscalerApi, HpaKey},
    queue::WorkQueue,
    queue::initial_delay::InitialDelay,
    scope::Scope,
};

/// The caches, and what tells when they are filled.
#[derive(Clone)]
pub struct Caches {
    /// Autoscalers.
    pub autoscalers: Arc<Autoscalers>,
    /// Pods.
    pub pods: Arc<Pods>,
    /// Selectors of autoscalers.
    pub selectors: Arc<SelectorIndex>,
    /// What waits to be reconciled.
    pub queue: Arc<WorkQueue<HpaKey>>,
    /// Objects skipped because they could not be decoded.
    pub undecodable: Arc<AtomicU64>,
    /// How soon everything is listed anew because of one, and how long a watch that failed waits at most.
    pub pace: Duration,
    /// Whether nothing is written for any autoscaler.
    pub dry_run: bool,
}

impl Caches {
    /// Keeps the pods of a scope in the index, without end. `synced` is told once the first list is in.
    pub async fn watch_pods(self, client: Client, scope: Scope, synced: watch::Sender<bool>) {
        let Some(index) = self.pods.index(scope.as_deref().unwrap_or_default()) else { return };
        let api = api_in::<PartialObject<Pod>>(client, &scope);
        let mut feed = WatchStream::new("pods", api, &scope, self.pace);
        let mut is_garbled = false;
        loop {
            let event = match feed.next_or_interrupted().await {
                Ok(Some(event)) => event,
                Ok(None) => return,
                Err(interrupted) => {
                    if interrupted.is_lost {
                        index.set_incomplete(true);
                    }
                    continue;
                }
            };
            match event {
                watcher::Event::Init => {
                    is_garbled = false;
                    index.begin_init();
                }
                watcher::Event::InitApply(pod) => {
                    let key = key_of(&pod);
                    if let Some(pod) = self.decoded(&key, pod) {
                        index.init_apply(&key.namespace, pod);
                    } else {
                        is_garbled = true;
                        feed.relist();
                    }
                }
                watcher::Event::InitDone => {
                    index.init_done();
                    index.set_incomplete(is_garbled);
                    synced.send_replace(true);
                }
                watcher::Event::Apply(pod) => {
                    let key = key_of(&pod);
                    if let Some(pod) = self.decoded(&key, pod) {
                        index.apply(&key.namespace, pod);
                    } else {
                        // It stays as it was until the list has it.
                        index.set_incomplete(true);
                        feed.relist();
                    }
                }
                watcher::Event::Delete(pod) => {
                    let key = key_of(&pod);
                    index.delete(&key.namespace, &key.name);
                }
            }
        }
    }

    /// The object, unless it cannot be decoded: then it is counted, logged and left out.
    fn decoded<K: CachedKind>(&self, key: &HpaKey, object: PartialObject<K>) -> Option<K> {
        let decoded = object.decode();
        let kind = K::KIND;
        decoded
            .inspect_err(|error| {
                self.undecodable.fetch_add(1, Ordering::Relaxed);
                warn!(%kind, object = %key, error, "skipping an object that cannot be decoded");
            })
            .ok()
    }

    /// Keeps the autoscalers of Kubernetes' own API in a scope: as all autoscalers are kept.
    pub async fn watch_autoscalers(
        self,
        client: Client,
        scope: Scope,
        synced: watch::Sender<bool>,
        spread: InitialDelay,
    ) {
        let what = "horizontalpodautoscalers";
        let api = api_in::<PartialObject<HorizontalPodAutoscaler>>(client, &scope);
        let feed = WatchStream::new(what, api, &scope, self.pace);
        self.watch_autoscalers_of(feed, scope, synced, spread).await;
    }

    /// Keeps the autoscalers of our own API in a scope, if it is installed. Until it is, there are none, which
    /// `synced` is told too: those of Kubernetes' own API are not to wait for it.
    pub async fn watch_own_autoscalers(
        self,
        client: Client,
        scope: Scope,
        synced: watch::Sender<bool>,
        spread: InitialDelay,
    ) {
        let what = "horizontalpodautoscalers.autoscaling.hpa-rs.dev";
        let api = api_in::<PartialObject<CustomAutoscaler>>(client, &scope);
        let feed = WatchStream::new(what, api, &scope, self.pace)
            .optional(CustomAutoscaler::GROUP, synced.clone());
        self.watch_autoscalers_of(feed, scope, synced, spread).await;
    }

    /// Keeps the autoscalers of one API in a scope, without end, and queues those that are new or changed. `synced` is
    /// told once the first list is in.
    async fn watch_autoscalers_of<K>(
        self,
        mut feed: WatchStream<PartialObject<K>>,
        scope: Scope,
        synced: watch::Sender<bool>,
        spread: InitialDelay,
    ) where
        K: AutoscalerKind,
    {
        let key_of = |object: &PartialObject<K>| key_in(K::API, object);
        let mut listed = HashSet::new();
        // By namespace: those that can share a request come close to each other. It outlives a list that breaks off.
        let mut created = BTreeSet::new();
        while let Some(event) = feed.next().await {
            match event {
                watcher::Event::Init => listed.clear(),
                watcher::Event::InitApply(object) => {
                    let key = key_of(&object);
                    match self.apply(&key, object, Origin::List) {
                        Some(Change::Created) => _ = created.insert(key.clone()),
                        Some(change) => self.changed(&key, change),
                        None => feed.relist(),
                    }
                    listed.insert(key);
                }
                watcher::Event::InitDone => {
                    let gone = self.autoscalers.keys_where(|key| {
                        let is_in_scope =
                            scope.as_deref().is_none_or(|scope| *scope == *key.namespace);
                        key.api == K::API && is_in_scope && !listed.contains(key)
                    });
                    for key in &gone {
                        self.forget(key);
                    }
                    let count = created.len();
                    for (index, key) in std::mem::take(&mut created).into_iter().enumerate() {
                        self.queue.add_after(key, spread.delay(index, count));
                    }
                    listed.clear();
                    synced.send_replace(true);
                }
                watcher::Event::Apply(object) => {
                    let key = key_of(&object);
                    match self.apply(&key, object, Origin::Watch) {
                        Some(change) => self.changed(&key, change),
                        None => feed.relist(),
                    }
                }
                watcher::Event::Delete(object) => self.forget(&key_of(&object)),
            }
        }
    }

    /// Has an autoscaler looked at as soon as its change calls for it. One that another controller handles is when that
    /// one has answered, and not before.
    fn changed(&self, key: &HpaKey, change: Change) {
        let is_due = match change {
            Change::Created => true,
            Change::SpecChanged => !self.is_shadowed(key),
            Change::StatusChanged => self.is_shadowed(key),
            Change::Unchanged => false,
        };
        if is_due {
            self.queue.add(key.clone());
        }
    }

    /// Whether nothing is written for an autoscaler.
    fn is_shadowed(&self, key: &HpaKey) -> bool {
        let is_asked = || {
            self.autoscalers
                .get(key)
                .is_some_and(|known| AnnotationSettings::from_hpa(&known.object()).dry_run)
        };
        self.dry_run || is_asked()
    }

    /// Queues all autoscalers anew, spread as at a start: what became due while another instance led is not to be
    /// worked off at once.
    pub fn requeue_all(&self, spread: InitialDelay) {
        let keys: BTreeSet<_> = self.autoscalers.keys_where(|_| true).into_iter().collect();
        let count = keys.len();
        for (index, key) in keys.into_iter().enumerate() {
            self.queue.forget(&key);
            self.queue.add_after(key, spread.delay(index, count));
        }
    }

    fn apply<K: AutoscalerKind>(
        &self,
        key: &HpaKey,
        object: PartialObject<K>,
        seen: Origin,
    ) -> Option<Change> {
        if seen == Origin::Watch && self.autoscalers.has(key, object.uid(), object.version()) {
            // Mostly our own write, whose answer has told of it.
            return Some(Change::Unchanged);
        }
        let Some(object) = self.decoded(key, object) else {
            // What it asked for before need not be what it asks for now.
            self.autoscalers.suspend(key);
            return None;
        };
        let change = self.autoscalers.apply(key, object.into(), seen);
        if change == Change::Created {
            self.selectors.set(key, None);
        }
        Some(change)
    }

    fn forget(&self, key: &HpaKey) {
        if self.autoscalers.remove(key) {
            info!(hpa = %key, "the autoscaler is gone");
        }
        self.selectors.remove(key);
        self.queue.forget(key);
    }
}

/// The objects of a kind in a scope.
fn api_in<T>(client: Client, scope: &Scope) -> Api<T>
where
    T: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    match scope {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    }
}

/// The name of an object that is no autoscaler.
fn key_of<K>(object: &PartialObject<K>) -> HpaKey {
    key_in(AutoscalerApi::Core, object)
}

fn key_in<K>(api: AutoscalerApi, object: &PartialObject<K>) -> HpaKey {
    HpaKey::for_api(api, object.namespace(), object.name())
}
