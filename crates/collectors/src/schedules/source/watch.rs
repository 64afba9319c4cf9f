//! Watches schedules.

use std::{collections::BTreeSet, time::Duration};

use futures::{StreamExt, future::join_all};
use kube::{
    Api, Client, ResourceExt,
    runtime::{WatchStreamExt, watcher},
};
use tokio::{task::spawn_blocking, time::sleep};
use tracing::{info, warn};

use super::{
    Schedules,
    cache::{CachedSchedule, Health},
    kind::{ScheduleKey, ScheduleKind},
};
use crate::stored_object::{PAGE_SIZE, StoredObject};

/// The delay of a new list after the resource's definition has disappeared during a watch.
const RELIST_DELAY: Duration = Duration::from_secs(5);

impl Schedules {
    /// Watches the schedules of these namespaces, and all cluster-scoped ones. An empty list means
    /// all namespaces. Calls `on_change` with the schedules whose values may have changed.
    ///
    /// Never returns: if a resource is not installed, it may be installed later.
    pub async fn watch(
        &self,
        client: Client,
        namespaces: &[String],
        on_change: impl Fn(&[ScheduleKey]) + Sync,
    ) {
        let all = [String::new()];
        let scopes = if namespaces.is_empty() { &all[..] } else { namespaces };
        let scopes = scopes.iter().map(|scope| (ScheduleKind::Namespaced, &**scope));
        let scopes = scopes.chain([(ScheduleKind::Cluster, "")]);
        let watches = scopes
            .map(|(kind, namespace)| self.watch_scope(client.clone(), kind, namespace, &on_change));
        join_all(watches).await;
    }

    async fn watch_scope(
        &self,
        client: Client,
        kind: ScheduleKind,
        namespace: &str,
        on_change: &(impl Fn(&[ScheduleKey]) + Sync),
    ) {
        self.cache.set_health(kind, namespace, Health::NotSynced(None));
        let resource = kind.api_resource();
        let api: Api<StoredObject> = if namespace.is_empty() {
            Api::all_with(client, &resource)
        } else {
            Api::namespaced_with(client, namespace, &resource)
        };
        let config = watcher::Config::default().page_size(PAGE_SIZE);
        let start_watch = || watcher(api.clone(), config.clone()).default_backoff();
        let mut events = std::pin::pin!(start_watch());
        let (mut listed, mut changed_in_list) = (BTreeSet::new(), BTreeSet::new());
        let (mut has_failed, mut must_relist) = (false, false);
        let key = |object: &StoredObject| {
            ScheduleKey::new(kind, &object.namespace().unwrap_or_default(), &object.name_any())
        };
        while let Some(event) = events.next().await {
            let changed = match event {
                Ok(watcher::Event::Init) => {
                    listed.clear();
                    continue;
                }
                Ok(watcher::Event::InitApply(object)) => {
                    let key = key(&object);
                    if self.compile_and_cache(key.clone(), object).await {
                        changed_in_list.insert(key.clone());
                    }
                    listed.insert(key);
                    continue;
                }
                Ok(watcher::Event::InitDone) => {
                    log_recovery(kind, &mut has_failed);
                    let listed = std::mem::take(&mut listed);
                    changed_in_list.extend(self.cache.finish_list(kind, namespace, &listed));
                    std::mem::take(&mut changed_in_list).into_iter().collect()
                }
                // The watch works again: it may resume without a relist.
                Ok(watcher::Event::Apply(object)) => {
                    log_recovery(kind, &mut has_failed);
                    self.cache.set_health(kind, namespace, Health::Synced);
                    let key = key(&object);
                    if !self.compile_and_cache(key.clone(), object).await {
                        continue;
                    }
                    vec![key]
                }
                Ok(watcher::Event::Delete(object)) => {
                    log_recovery(kind, &mut has_failed);
                    let key = key(&object);
                    self.cache.remove(&key);
                    vec![key]
                }
                Err(error) => {
                    let is_repeated = std::mem::replace(&mut has_failed, true);
                    let removed = self.handle_failure(kind, namespace, &error, is_repeated);
                    must_relist =
                        !removed.is_empty() && matches!(error, watcher::Error::WatchStartFailed(_));
                    removed
                }
            };
            if !changed.is_empty() {
                on_change(&changed);
            }
            if std::mem::take(&mut must_relist) {
                // A resumed watch would not return the removed schedules.
                sleep(RELIST_DELAY).await;
                events.set(start_watch());
            }
        }
    }

    /// Adds or replaces a schedule. Returns whether its values may differ. If the compilation panics,
    /// the known schedule stays.
    async fn compile_and_cache(&self, key: ScheduleKey, object: StoredObject) -> bool {
        let (settings, hasher) = (self.settings.clone(), self.hasher.clone());
        let compiled = spawn_blocking(move || CachedSchedule::new(&object, &settings, &hasher));
        compiled.await.is_ok_and(|entry| self.cache.insert(key, entry))
    }

    /// Updates the health of the watch. Logs only the first of consecutive failures. Returns the
    /// schedules that disappeared with their resource's definition.
    fn handle_failure(
        &self,
        kind: ScheduleKind,
        namespace: &str,
        error: &watcher::Error,
        is_repeated: bool,
    ) -> Vec<ScheduleKey> {
        let is_absent = matches!(
            error,
            watcher::Error::InitialListFailed(kube::Error::Api(status))
                | watcher::Error::WatchStartFailed(kube::Error::Api(status))
                if status.code == 404
        );
        let resource = kind.resource();
        if is_absent {
            if !is_repeated {
                info!(%resource, "resource not installed, its schedules are unavailable");
            }
            return self.cache.set_health(kind, namespace, Health::NotInstalled);
        }
        let reason = hpa_metrics::describe(error);
        if !is_repeated {
            warn!(%resource, namespace, error = reason, "unable to watch scaling schedules, retrying");
        }
        self.cache.set_health(kind, namespace, Health::NotSynced(Some(reason)))
    }
}

/// Logs the end of consecutive failures.
fn log_recovery(kind: ScheduleKind, has_failed: &mut bool) {
    if std::mem::take(has_failed) {
        info!(resource = %kind.resource(), "scaling schedules are watched again");
    }
}
