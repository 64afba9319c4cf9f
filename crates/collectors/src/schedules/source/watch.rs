//! Watches schedules.

use std::collections::BTreeSet;

use futures::future::join_all;
use hpa_metrics::StoredObject;
use kube::{Client, ResourceExt, runtime::watcher};
use tokio::task::spawn_blocking;
use tracing::info;

use super::{
    Schedules,
    cache::{CachedSchedule, Health},
    kind::{ScheduleKey, ScheduleKind},
};
use crate::object_watch::{ObjectWatch, WatchFailure};

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
        self.cache.update_health(kind, namespace, Health::NotSynced(None));
        let description = "scaling schedules";
        let mut watch = ObjectWatch::new(client, &kind.api_resource(), namespace, description);
        // A list that starts again finds the schedules of the interrupted list unchanged. `Init`
        // therefore keeps `changed_in_list`.
        let (mut listed, mut changed_in_list) = (BTreeSet::new(), BTreeSet::new());
        let key = |object: &StoredObject| {
            ScheduleKey::new(kind, &object.namespace().unwrap_or_default(), &object.name_any())
        };
        while let Some(event) = watch.next().await {
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
                    let listed = std::mem::take(&mut listed);
                    changed_in_list.extend(self.cache.finish_list(kind, namespace, &listed));
                    std::mem::take(&mut changed_in_list).into_iter().collect()
                }
                Ok(watcher::Event::Apply(object)) => {
                    let key = key(&object);
                    if !self.compile_and_cache(key.clone(), object).await {
                        continue;
                    }
                    vec![key]
                }
                Ok(watcher::Event::Delete(object)) => {
                    let key = key(&object);
                    self.cache.remove(&key);
                    vec![key]
                }
                Err(WatchFailure::NotServed { is_repeated }) => {
                    if !is_repeated {
                        let resource = kind.resource();
                        info!(%resource, "resource not installed, its schedules are unavailable");
                    }
                    // Returns the schedules that it removes.
                    self.cache.update_health(kind, namespace, Health::NotInstalled)
                }
                Err(WatchFailure::Other(error)) => {
                    let reason = hpa_metrics::describe(&error);
                    self.cache.update_health(kind, namespace, Health::NotSynced(Some(reason)))
                }
            };
            if !changed.is_empty() {
                on_change(&changed);
            }
        }
    }

    /// Adds or replaces a schedule. Returns whether its values may differ. If the compilation
    /// panics, the previous schedule stays.
    async fn compile_and_cache(&self, key: ScheduleKey, object: StoredObject) -> bool {
        let (settings, hasher) = (self.settings.clone(), self.hasher.clone());
        let previous = self.cache.get(&key);
        // On a blocking thread, because the object may be large.
        let compiled = spawn_blocking(move || {
            CachedSchedule::new(&object, previous.as_deref(), &settings, &hasher)
        });
        compiled.await.is_ok_and(|entry| self.cache.insert(key, entry))
    }
}
