//! The watches that feed the caches.

use std::{
    collections::{BTreeSet, HashSet},
    fmt::Debug,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::{Stream, StreamExt, TryStreamExt, stream};
use hpa_calc::api::{HorizontalPodAutoscaler, Pod};
use hpa_metrics_client::describe;
use kube::{
    Api, Client, Resource,
    runtime::{
        WatchStreamExt,
        utils::Backoff,
        watcher::{self, DefaultBackoff, watcher},
    },
};
use tokio::{sync::watch, time::Instant};
use tracing::{info, warn};

use crate::{
    autoscalers::{Autoscalers, Change, Seen},
    pods::{Pods, Scope},
    queue::WorkQueue,
    selectors::{HpaKey, SelectorIndex},
    spread::Spread,
    watched::{Watched, WatchedKind},
};

/// Objects a page of a list holds: it bounds what is in memory before it is made small.
const PAGE_SIZE: u32 = 500;

/// A failure this long after the last one is news.
const QUIET: Duration = Duration::from_mins(1);

/// A watch's events, a failure being what a retry follows on.
type Events<K> = stream::BoxStream<'static, watcher::Result<watcher::Event<Watched<K>>>>;

/// Watches the objects of a kind in a scope, without end, backing off after failures.
fn events<K>(client: &Client, scope: &Scope) -> Events<K>
where
    K: WatchedKind + Clone + Debug + Send + Sync + 'static,
{
    let api: Api<Watched<K>> = match scope {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let config = watcher::Config::default().page_size(PAGE_SIZE);
    watcher(api, config).backoff(SteadyBackoff(DefaultBackoff::default())).boxed()
}

/// kube's backoff, which an event does not reset: every retry of a list begins with one, though nothing has been
/// answered yet. It resets itself after two minutes without a failure.
struct SteadyBackoff(DefaultBackoff);

impl Iterator for SteadyBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.0.next()
    }
}

impl Backoff for SteadyBackoff {
    fn reset(&mut self) {}
}

/// Logs the failures of a watch once when they begin and once when they end.
struct Health {
    what: &'static str,
    scope: String,
    /// When it failed last, if it did not work since.
    failed: Option<Instant>,
}

impl Health {
    fn new(what: &'static str, scope: &Scope) -> Self {
        let scope = scope.clone().unwrap_or_else(|| "all namespaces".to_owned());
        Self { what, scope, failed: None }
    }

    fn failed(&mut self, error: &watcher::Error) {
        let now = Instant::now();
        // A watch that goes on where it broke off shows in nothing that it works again.
        if self.failed.replace(now).is_none_or(|last| now.duration_since(last) > QUIET) {
            warn!(
                watch = self.what,
                scope = self.scope,
                error = describe(error),
                "the watch failed; retrying"
            );
        }
    }

    fn succeeded(&mut self) {
        if self.failed.take().is_some() {
            info!(watch = self.what, scope = self.scope, "the watch works again");
        }
    }
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
        let mut events = events::<Pod>(&client, &scope);
        while let Some(event) = next(&mut events, &mut health).await {
            match event {
                watcher::Event::Init => index.begin_init(),
                watcher::Event::InitApply(pod) => {
                    let key = key_of(&pod);
                    if let Some(pod) = self.decoded(&key, pod) {
                        index.init_apply(&key.namespace, pod);
                    }
                }
                watcher::Event::InitDone => {
                    index.init_done();
                    synced.send_replace(true);
                }
                watcher::Event::Apply(pod) => {
                    let key = key_of(&pod);
                    match self.decoded(&key, pod) {
                        Some(pod) => index.apply(&key.namespace, pod),
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

    /// The object, unless it cannot be decoded: then it is counted, logged and left out.
    fn decoded<K: WatchedKind>(&self, key: &HpaKey, object: Watched<K>) -> Option<K> {
        let decoded = object.into_result();
        let kind = K::Api::kind(&());
        decoded
            .inspect_err(|error| {
                self.undecodable.fetch_add(1, Ordering::Relaxed);
                warn!(%kind, object = %key, error, "skipping an object that cannot be decoded");
            })
            .ok()
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
        let mut events = events::<HorizontalPodAutoscaler>(&client, &scope);
        let mut listed = HashSet::new();
        // By namespace: those that can share a request come close to each other. It outlives a list that breaks off.
        let mut created = BTreeSet::new();
        while let Some(event) = next(&mut events, &mut health).await {
            match event {
                watcher::Event::Init => listed.clear(),
                watcher::Event::InitApply(object) => {
                    let key = key_of(&object);
                    match self.apply(&key, object, Seen::Listed) {
                        Some(Change::Created) => _ = created.insert(key.clone()),
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
                    let count = created.len();
                    for (index, key) in std::mem::take(&mut created).into_iter().enumerate() {
                        self.queue.add_after(key, spread.delay(index, count));
                    }
                    listed.clear();
                    synced.send_replace(true);
                }
                watcher::Event::Apply(object) => {
                    let key = key_of(&object);
                    let change = self.apply(&key, object, Seen::Changed);
                    if let Some(Change::Created | Change::SpecChanged) = change {
                        self.queue.add(key);
                    }
                }
                watcher::Event::Delete(object) => self.forget(&key_of(&object)),
            }
        }
    }

    fn apply(&self, key: &HpaKey, object: Watched<HorizontalPodAutoscaler>, seen: Seen) -> Option<Change> {
        let Some(object) = self.decoded(key, object) else {
            // What it asked for before is not what it asks for now.
            self.forget(key);
            return None;
        };
        let change = self.autoscalers.apply(key, object, seen);
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

/// The next event of a watch; failures are logged and waited out.
async fn next<K>(
    events: &mut (impl Stream<Item = watcher::Result<watcher::Event<K>>> + Unpin),
    health: &mut Health,
) -> Option<watcher::Event<K>> {
    loop {
        match events.try_next().await {
            Ok(event) => {
                // A list begins with every retry, and may break off at a later page.
                if !matches!(event, Some(watcher::Event::Init | watcher::Event::InitApply(_))) {
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
