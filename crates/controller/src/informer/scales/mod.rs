//! Informers of scales, so that a reconcile needn't read its target's scale.
//!
//! ```text
//! watch of a target kind ─▶ ScalePaths (derive a scale) ─▶ ScaleCache ─▶ ScaleInformers::get
//!                    responses to our own reads and writes ─▲ observe_response
//! ```
//!
//! The first autoscaler that names a kind starts its informer. A cached scale may be stale. Each
//! scale write therefore carries the resource version of the scale that was decided on: on a
//! conflict, the reconcile reads the scale and decides again. Responses to the controller's own
//! reads and writes update the cache. After a failed watch, the cache returns nothing until the
//! relist. It also returns nothing while its watch is silent for too long.

mod definition;
#[cfg(any(test, fuzzing))]
pub(crate) mod differential;
mod scale_paths;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use hashbrown::HashMap;
use kube::{
    Client,
    core::{ApiResource, GroupVersionKind},
    runtime::watcher::Event,
};
use parking_lot::Mutex;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};
use tracing::info;

use self::scale_paths::ScalePaths;
use super::{
    WatchIntervals,
    stream::{Interruption, WatchStream},
};
use crate::{
    cache::{ScaleCache, StrPair, WatchAges},
    k8s::PartialObject,
    key::{ByScope, Scope},
    scale_target::{Mapping, ScaleObject},
};

/// The delay before a forbidden watch or a definition is first requested again. It is short because
/// an API server that has just started may answer 403 until it has loaded RBAC.
const MIN_RETRY_DELAY: Duration = Duration::from_secs(10);
/// The maximum of that delay.
const MAX_RETRY_DELAY: Duration = Duration::from_mins(10);

/// The delay after `delay`, before the next retry.
fn next_retry_delay(delay: Duration) -> Duration {
    (delay * 2).min(MAX_RETRY_DELAY)
}

/// The scales of all namespaced kinds that autoscalers name as targets.
pub struct ScaleInformers {
    client: Client,
    scopes: Vec<Scope>,
    intervals: WatchIntervals,
    watch_ages: Arc<WatchAges>,
    kinds: Mutex<Kinds>,
    watches: Mutex<JoinSet<()>>,
}

/// Kinds by group and resource.
type Kinds = HashMap<(Box<str>, Box<str>), Arc<KindCaches>>;

/// The scales of one kind: a cache for each scope, because each scope has its own watch.
type KindCaches = ByScope<Arc<ScaleCache>>;

impl ScaleInformers {
    /// Starts no informer yet. The ages of the watches are added to `watch_ages`.
    pub fn new(
        client: Client,
        scopes: Vec<Scope>,
        intervals: WatchIntervals,
        watch_ages: Arc<WatchAges>,
    ) -> Self {
        let (kinds, watches) = (Mutex::default(), Mutex::default());
        Self { client, scopes, intervals, watch_ages, kinds, watches }
    }

    /// The cached scale of a target. The first call for a kind starts the kind's informer. Needs a
    /// tokio runtime.
    ///
    /// `None` if the scale isn't cached or the kind is cluster-scoped. Also `None` if the cache
    /// isn't synced, if its last list started before `listed_after`, or if it is older than
    /// [`WatchIntervals::max_age`].
    pub fn get(
        &self,
        mapping: &Mapping,
        namespace: &str,
        name: &str,
        listed_after: Option<Instant>,
    ) -> Option<ScaleObject> {
        self.caches_of_kind(mapping)?.for_namespace(namespace)?.get(namespace, name, listed_after)
    }

    /// Caches the API server's response to a read or write of a scale. The first call for a kind
    /// starts the kind's informer.
    pub fn observe_response(
        &self,
        mapping: &Mapping,
        namespace: &str,
        name: &str,
        scale: &ScaleObject,
    ) {
        let kind = self.caches_of_kind(mapping);
        if let Some(cache) = kind.as_ref().and_then(|kind| kind.for_namespace(namespace)) {
            cache.observe_response(namespace, name, scale);
        }
    }

    /// The caches of a kind. The first call for a kind starts its informer. `None` for
    /// cluster-scoped kinds: an autoscaler's target is in its namespace.
    fn caches_of_kind(&self, mapping: &Mapping) -> Option<Arc<KindCaches>> {
        if !mapping.namespaced {
            return None;
        }
        let mut kinds = self.kinds.lock();
        if let Some(kind) = kinds.get(&StrPair(&mapping.group, &mapping.resource)) {
            return Some(kind.clone());
        }
        let cache = || Arc::new(ScaleCache::new(self.intervals.max_age));
        let kind = Arc::new(KindCaches::new(&self.scopes, cache));
        kinds.insert(((&*mapping.group).into(), (&*mapping.resource).into()), kind.clone());
        self.spawn_watches(mapping, &kind);
        Some(kind)
    }

    fn spawn_watches(&self, mapping: &Mapping, kind: &KindCaches) {
        let mut watches = self.watches.lock();
        for (scope, cache) in kind.entries() {
            self.watch_ages.add(mapping.to_string(), cache.watch_age().clone());
            let watch = ScaleWatch {
                client: self.client.clone(),
                mapping: mapping.clone(),
                scope: scope.clone(),
                intervals: self.intervals,
                cache: cache.clone(),
                watch_ages: self.watch_ages.clone(),
            };
            watches.spawn(watch.run());
        }
    }
}

/// The watch of one kind in one scope.
struct ScaleWatch {
    client: Client,
    mapping: Mapping,
    scope: Scope,
    intervals: WatchIntervals,
    cache: Arc<ScaleCache>,
    watch_ages: Arc<WatchAges>,
}

impl ScaleWatch {
    /// Keeps the cache up to date, and doesn't return. Retries a forbidden watch with a delay that
    /// doubles. After a watch that lasted for [`MAX_RETRY_DELAY`], the delay is short again.
    async fn run(self) {
        let mut is_logged = false;
        let mut retry_delay = MIN_RETRY_DELAY;
        loop {
            let started = Instant::now();
            if self.mapping.is_builtin_workload() {
                fill_cache(self.stream(), &self.cache, &ScalePaths::of_workloads()).await;
            } else {
                self.fill_custom_cache().await;
            }
            if !std::mem::replace(&mut is_logged, true) {
                info!(
                    kind = %self.mapping,
                    "not allowed to watch this kind: each reconcile reads the target's scale"
                );
            }
            if started.elapsed() >= MAX_RETRY_DELAY {
                retry_delay = MIN_RETRY_DELAY;
            }
            sleep(retry_delay).await;
            retry_delay = next_retry_delay(retry_delay);
        }
    }

    /// Keeps the cache of a custom resource's kind up to date. If the scale paths change, it
    /// relists. Returns when the watch is forbidden.
    async fn fill_custom_cache(&self) {
        let Self { client, mapping, cache, .. } = self;
        loop {
            // Nothing is watched without the paths.
            cache.watch_age().set_unwatched();
            let paths = definition::scale_paths(client, mapping).await;
            let min_interval = self.intervals.relist;
            let changed =
                definition::scale_paths_changed(client, mapping, &paths, cache, min_interval);
            tokio::select! {
                () = fill_cache(self.stream(), cache, &paths) => return,
                () = changed => {}
            }
            cache.invalidate();
            info!(kind = %mapping, "the scale paths in the kind's definition changed; relisting");
        }
    }

    fn stream(&self) -> WatchStream {
        let Self { client, mapping, scope, intervals, cache, watch_ages } = self;
        let kind = GroupVersionKind::gvk(&mapping.group, &mapping.version, &mapping.kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, &mapping.resource);
        let (name, age) = (mapping.to_string(), cache.watch_age().clone());
        let mut stream =
            WatchStream::new(name, &resource, client, scope, *intervals, age, watch_ages);
        stream.tolerates_forbidden = true;
        stream
    }
}

/// Keeps a cache up to date. Returns when the watch is forbidden.
async fn fill_cache(mut stream: WatchStream, cache: &ScaleCache, paths: &ScalePaths) {
    loop {
        match stream.next_or_interrupted().await {
            Err(Interruption { is_forbidden, .. }) => {
                cache.invalidate();
                if is_forbidden {
                    return;
                }
                // A resumed watch delivers no event that shows its recovery, but a list does.
                stream.schedule_relist();
            }
            Ok(None) => return,
            Ok(Some(Event::Init)) => cache.begin_list(),
            Ok(Some(Event::InitApply(object))) => {
                if object.is_named()
                    && let Some(scale) = paths.scale(&object)
                {
                    cache.list_apply(object.namespace(), object.name(), &scale);
                }
            }
            Ok(Some(Event::InitDone)) => cache.finish_list(),
            Ok(Some(Event::Apply(object))) => {
                // An object without a valid scale is removed from the cache: the reconcile then
                // reads the scale and reports the API server's error.
                let scale = paths.scale(&object);
                apply_event(&object, scale.as_ref(), cache, &mut stream);
            }
            Ok(Some(Event::Delete(object))) => apply_event(&object, None, cache, &mut stream),
        }
    }
}

/// Caches the scale of an object in a watch event, or removes the cached one if `scale` is `None`.
fn apply_event(
    object: &PartialObject,
    scale: Option<&ScaleObject>,
    cache: &ScaleCache,
    stream: &mut WatchStream,
) {
    if !object.is_named() {
        // The event may be about any object.
        cache.invalidate();
        stream.schedule_relist_for_undecodable();
        return;
    }
    let (namespace, name) = (object.namespace(), object.name());
    match scale {
        Some(scale) => cache.apply(namespace, name, scale),
        None => cache.delete(namespace, name, object.resource_version()),
    }
}
