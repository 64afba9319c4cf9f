//! The watches that feed the caches.

use std::{
    collections::HashSet,
    fmt::Debug,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use futures::{Stream, StreamExt, TryStreamExt, stream};
use hpa_calc::api::Pod;
use hpa_metrics_client::describe;
use kube::{
    Api, Client, Resource,
    core::{DeserializeGuard, NamespaceResourceScope},
    runtime::{WatchStreamExt, watcher},
};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tracing::{info, warn};

use crate::{
    autoscalers::{Autoscalers, Change, WatchedAutoscaler},
    pods::{Pods, Scope, WatchedPod},
    queue::WorkQueue,
    selectors::{HpaKey, SelectorIndex},
    spread::Spread,
};

/// Objects a page of a list holds: it bounds what is in memory before it is made small.
const PAGE_SIZE: u32 = 500;

/// A watch's events, a failure being what a retry follows on.
type Events<K> = stream::BoxStream<'static, watcher::Result<watcher::Event<DeserializeGuard<K>>>>;

/// Watches the objects of a kind in a scope, without end, backing off after failures.
fn events<K>(client: &Client, scope: &Scope) -> Events<K>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + DeserializeOwned
        + Clone
        + Debug
        + Send
        + Sync
        + 'static,
{
    let api: Api<DeserializeGuard<K>> = match scope {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    watcher(api, watcher::Config::default().page_size(PAGE_SIZE)).default_backoff().boxed()
}

/// Logs the failures of a watch once when they begin and once when they end.
struct Health {
    what: &'static str,
    scope: String,
    failing: bool,
}

impl Health {
    fn new(what: &'static str, scope: &Scope) -> Self {
        let scope = scope.clone().unwrap_or_else(|| "all namespaces".to_owned());
        Self { what, scope, failing: false }
    }

    fn failed(&mut self, error: &watcher::Error) {
        if !std::mem::replace(&mut self.failing, true) {
            warn!(
                watch = self.what,
                scope = self.scope,
                error = describe(error),
                "the watch failed; retrying"
            );
        }
    }

    fn succeeded(&mut self) {
        if std::mem::replace(&mut self.failing, false) {
            info!(watch = self.what, scope = self.scope, "the watch works again");
        }
    }
}

/// Counts objects that could not be decoded; logs each.
fn skip_undecodable(error: &kube::core::error_boundary::InvalidObject, what: &str, skipped: &AtomicU64) {
    skipped.fetch_add(1, Ordering::Relaxed);
    let (namespace, name) = (error.metadata.namespace.as_deref(), error.metadata.name.as_deref());
    let object = format!("{}/{}", namespace.unwrap_or_default(), name.unwrap_or_default());
    warn!(kind = what, object, error = error.error, "skipping an object that cannot be decoded");
}

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
}

impl Caches {
    /// Keeps the pods of a scope in the index, without end. `synced` is told once the first list is in.
    pub async fn watch_pods(self, client: Client, scope: Scope, synced: watch::Sender<bool>) {
        let mut health = Health::new("pods", &scope);
        let Some(index) = self.pods.index(scope.as_deref().unwrap_or_default()) else { return };
        let mut events = events::<WatchedPod>(&client, &scope);
        while let Some(event) = next(&mut events, &mut health).await {
            match event {
                watcher::Event::Init => index.begin_init(),
                watcher::Event::InitApply(pod) => {
                    if let Some((namespace, pod)) = self.decoded_pod(pod) {
                        index.init_apply(&namespace, pod);
                    }
                }
                watcher::Event::InitDone => {
                    index.init_done();
                    synced.send_replace(true);
                }
                watcher::Event::Apply(pod) => {
                    let key = key_of(&pod);
                    match self.decoded_pod(pod) {
                        Some((namespace, pod)) => index.apply(&namespace, pod),
                        None => _ = index.delete(&key.namespace, &key.name),
                    }
                }
                watcher::Event::Delete(pod) => {
                    let key = key_of(&pod);
                    index.delete(&key.namespace, &key.name);
                }
            }
        }
    }

    fn decoded_pod(&self, pod: DeserializeGuard<WatchedPod>) -> Option<(String, Pod)> {
        match pod.0 {
            Ok(pod) => Some(pod.into_pod()),
            Err(error) => {
                skip_undecodable(&error, "Pod", &self.undecodable);
                None
            }
        }
    }

    /// Keeps the autoscalers of a scope, without end, and queues those that are new or changed. `synced` is told
    /// once the first list is in.
    pub async fn watch_autoscalers(
        self,
        client: Client,
        scope: Scope,
        synced: watch::Sender<bool>,
        spread: Spread,
    ) {
        let mut health = Health::new("horizontalpodautoscalers", &scope);
        let mut events = events::<WatchedAutoscaler>(&client, &scope);
        let mut listed = HashSet::new();
        let mut created = Vec::new();
        while let Some(event) = next(&mut events, &mut health).await {
            match event {
                watcher::Event::Init => {
                    listed.clear();
                    created.clear();
                }
                watcher::Event::InitApply(object) => {
                    let key = key_of(&object);
                    match self.apply(&key, object) {
                        Some(Change::Created) => created.push(key.clone()),
                        Some(Change::SpecChanged) => self.queue.add(key.clone()),
                        _ => {}
                    }
                    listed.insert(key);
                }
                watcher::Event::InitDone => {
                    let gone = self.autoscalers.keys_where(|key| {
                        scope.as_deref().is_none_or(|scope| *scope == *key.namespace) && !listed.contains(key)
                    });
                    for key in &gone {
                        self.forget(key);
                    }
                    // By namespace: those that can share a request come close to each other.
                    created.sort();
                    let count = created.len();
                    for (index, key) in created.drain(..).enumerate() {
                        self.queue.add_after(key, spread.delay(index, count));
                    }
                    listed.clear();
                    synced.send_replace(true);
                }
                watcher::Event::Apply(object) => {
                    let key = key_of(&object);
                    if let Some(Change::Created | Change::SpecChanged) = self.apply(&key, object) {
                        self.queue.add(key);
                    }
                }
                watcher::Event::Delete(object) => self.forget(&key_of(&object)),
            }
        }
    }

    fn apply(&self, key: &HpaKey, object: DeserializeGuard<WatchedAutoscaler>) -> Option<Change> {
        match object.0 {
            Ok(object) => {
                let change = self.autoscalers.apply(key, object.into());
                if change == Change::Created {
                    self.selectors.set(key, None);
                }
                Some(change)
            }
            Err(error) => {
                skip_undecodable(&error, "HorizontalPodAutoscaler", &self.undecodable);
                // What it asked for before is not what it asks for now.
                self.forget(key);
                None
            }
        }
    }

    fn forget(&self, key: &HpaKey) {
        if self.autoscalers.remove(key) {
            info!(hpa = %key, "the autoscaler is gone");
        }
        self.selectors.remove(key);
        self.queue.forget(key);
    }
}

/// The next event of a watch; failures are logged and waited out.
async fn next<K>(
    events: &mut (impl Stream<Item = watcher::Result<watcher::Event<K>>> + Unpin),
    health: &mut Health,
) -> Option<watcher::Event<K>> {
    loop {
        match events.try_next().await {
            Ok(event) => {
                // A new list begins with every retry: only what comes after it shows that the API answers.
                if !matches!(event, Some(watcher::Event::Init)) {
                    health.succeeded();
                }
                return event;
            }
            Err(error) => health.failed(&error),
        }
    }
}

fn key_of<K: Resource>(object: &K) -> HpaKey {
    let meta = object.meta();
    HpaKey::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
}
