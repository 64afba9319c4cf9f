//! The informers of autoscalers. They queue new and changed autoscalers.

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
    time::Duration,
};

use kube::{Client, runtime::watcher};
use tokio::{sync::watch, time::Instant};
use tracing::info;

use super::{
    Informers,
    stream::{Interruption, WatchStream},
};
use crate::{
    cache::{Change, Origin},
    k8s::PartialObject,
    key::{AutoscalerApi, HpaKey, Scope},
    queue::initial_delay,
    settings::SyncPeriod,
};

/// If the API has not been installed for this time, its autoscalers count as deleted with its
/// definition. If it is missing for a shorter time, the API server may just be starting.
const DELETED_AFTER: Duration = Duration::from_mins(1);

/// The autoscalers of a list in progress.
#[derive(Default)]
struct ListInProgress {
    keys: HashSet<HpaKey>,
    /// Whether the list has objects without a name.
    has_unnamed: bool,
}

impl Informers {
    /// Keeps the cached autoscalers of one API and scope up to date, queues those that are new or
    /// changed, and doesn't return. Sends `true` to `synced` after the first list, or when the
    /// custom API turns out not to be installed: core autoscalers must not wait for it.
    pub async fn watch_autoscalers(
        self,
        api: AutoscalerApi,
        client: Client,
        scope: Scope,
        synced: watch::Sender<bool>,
    ) {
        let name = match api {
            AutoscalerApi::Core => "horizontalpodautoscalers",
            AutoscalerApi::Custom => "horizontalpodautoscalers.autoscaling.hpa-rs.dev",
        };
        let mut stream = self.stream(name, &api.resource(), &client, &scope, Arc::default());
        if api == AutoscalerApi::Custom {
            stream.optional = Some((hpa_calc::crd::GROUP, synced.clone()));
        }
        self.handle_autoscalers(api, stream, scope, synced).await;
    }

    async fn handle_autoscalers(
        self,
        api: AutoscalerApi,
        mut stream: WatchStream,
        scope: Scope,
        synced: watch::Sender<bool>,
    ) {
        let key_of =
            |object: &PartialObject| HpaKey::for_api(api, object.namespace(), object.name());
        let mut list = ListInProgress::default();
        // Sorted by namespace, so that autoscalers that can share a metrics request get initial
        // delays close to each other. Not cleared when a list fails midway, because the next list
        // no longer reports them as created.
        let mut created = BTreeSet::new();
        let mut not_installed_since: Option<Instant> = None;
        loop {
            let event = match stream.next_or_interrupted().await {
                Ok(Some(event)) => event,
                Ok(None) => return,
                Err(Interruption { is_not_installed: true, .. }) => {
                    let since = *not_installed_since.get_or_insert_with(Instant::now);
                    if since.elapsed() >= DELETED_AFTER {
                        created.clear();
                        self.delete_all(api, &mut stream, &scope);
                    }
                    continue;
                }
                Err(_) => {
                    not_installed_since = None;
                    continue;
                }
            };
            // Every retry of a list starts with `Init`.
            if !matches!(event, watcher::Event::Init) {
                not_installed_since = None;
            }
            match event {
                watcher::Event::Init => list = ListInProgress::default(),
                watcher::Event::InitApply(object) => {
                    let key = key_of(&object);
                    list.has_unnamed |= !object.is_named();
                    match self.apply(&key, object, Origin::List) {
                        Some(Change::Created) => _ = created.insert(key.clone()),
                        Some(change) => self.on_change(&key, change),
                        None => stream.schedule_relist_for_undecodable(),
                    }
                    list.keys.insert(key);
                }
                watcher::Event::InitDone => {
                    self.remove_unlisted(api, &scope, &std::mem::take(&mut list));
                    self.queue_distributed(std::mem::take(&mut created));
                    synced.send_replace(true);
                }
                watcher::Event::Apply(object) => {
                    let key = key_of(&object);
                    match self.apply(&key, object, Origin::WatchOrResponse) {
                        Some(change) => self.on_change(&key, change),
                        None => stream.schedule_relist_for_undecodable(),
                    }
                }
                watcher::Event::Delete(object) if object.is_named() => {
                    self.on_delete(&key_of(&object));
                }
                watcher::Event::Delete(_) => stream.schedule_relist_for_undecodable(),
            }
        }
    }

    /// Deletes the cached autoscalers of a scope, because their API is not installed.
    fn delete_all(&self, api: AutoscalerApi, stream: &mut WatchStream, scope: &Scope) {
        for key in self.keys_in_scope(api, scope) {
            self.on_delete(&key);
            // If the API is installed again, a watch that resumes would deliver only autoscalers
            // that change.
            stream.schedule_relist();
        }
    }

    /// Deletes the cached autoscalers of one API and scope that a list didn't have.
    fn remove_unlisted(&self, api: AutoscalerApi, scope: &Scope, list: &ListInProgress) {
        let mut missing = self.keys_in_scope(api, scope);
        missing.retain(|key| !list.keys.contains(key));
        for key in &missing {
            if list.has_unnamed {
                // The missing autoscaler may be one of the objects without a name.
                self.caches.autoscalers.mark_undecodable(key);
            } else {
                self.on_delete(key);
            }
        }
    }

    /// The cached autoscalers of one API and scope.
    fn keys_in_scope(&self, api: AutoscalerApi, scope: &Scope) -> Vec<HpaKey> {
        self.caches.autoscalers.keys_where(|key| {
            let is_in_scope = scope.as_deref().is_none_or(|scope| *scope == *key.namespace);
            key.api == api && is_in_scope
        })
    }

    /// Stores an object in the cache. `None` if it can't be decoded.
    fn apply(&self, key: &HpaKey, object: PartialObject, origin: Origin) -> Option<Change> {
        let autoscalers = &self.caches.autoscalers;
        if origin == Origin::WatchOrResponse
            && autoscalers.has_version(key, object.uid(), object.resource_version())
        {
            // Usually the event of our own status write, whose response is already cached.
            return Some(Change::Unchanged);
        }
        let peer_write = object.newest_status_write(self.field_manager.as_ref(), self.clock.now());
        let Some(object) = self.decode(key, object) else {
            // The cached spec may be outdated.
            autoscalers.mark_undecodable(key);
            return None;
        };
        let change = autoscalers.apply(key, object, origin);
        if change == Change::Created {
            self.caches.selectors.set(key, None);
        }
        if let Some(write) = peer_write
            && let Some(autoscaler) = autoscalers.get(key)
        {
            autoscaler.peer_writes.observe(write, change == Change::Created);
        }
        Some(change)
    }

    /// Queues an autoscaler if the change requires a reconcile. In shadow mode, a status change
    /// requires one, and a spec change does not: only the status shows the peer's decision.
    fn on_change(&self, key: &HpaKey, change: Change) {
        let needs_reconcile = match change {
            Change::Created => true,
            Change::SpecChanged => !self.is_shadowed(key),
            Change::StatusChanged => self.is_shadowed(key),
            Change::Unchanged => false,
        };
        if needs_reconcile {
            self.queue.add(key.clone());
        }
    }

    fn on_delete(&self, key: &HpaKey) {
        if self.caches.autoscalers.remove(key) {
            info!(hpa = %key, "autoscaler deleted");
        }
        self.caches.selectors.remove(key);
        self.queue.remove(key);
    }

    /// Whether an autoscaler is in shadow mode: nothing is written for it.
    pub(super) fn is_shadowed(&self, key: &HpaKey) -> bool {
        let has_setting = || {
            let autoscaler = self.caches.autoscalers.get(key);
            autoscaler.is_some_and(|autoscaler| autoscaler.settings(&self.settings).dry_run)
        };
        self.dry_run || has_setting()
    }

    /// Requeues all autoscalers, distributed over the sync period. A new leader calls this after it
    /// has started the queue.
    pub fn requeue_all(&self) {
        let keys: BTreeSet<_> = self.caches.autoscalers.keys_where(|_| true).into_iter().collect();
        for key in &keys {
            self.queue.remove(key);
        }
        self.queue_distributed(keys);
    }

    fn queue_distributed(&self, keys: BTreeSet<HpaKey>) {
        let count = keys.len();
        for (index, key) in keys.into_iter().enumerate() {
            let delay = initial_delay(self.sync_period, index, count);
            // With a shorter sync period of its own, an autoscaler waits no longer than that.
            let period = self.caches.autoscalers.get(&key).map_or(self.sync_period, |autoscaler| {
                SyncPeriod::new(self.sync_period, &autoscaler.settings(&self.settings)).length()
            });
            self.queue.add_after(key, delay.min(period));
        }
    }
}
