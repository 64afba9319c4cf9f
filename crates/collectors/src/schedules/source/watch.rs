//! Watches schedules.

use std::collections::BTreeMap;

use futures::{StreamExt, future::join_all};
use kube::{
    Api, Client, ResourceExt,
    api::DynamicObject,
    runtime::{WatchStreamExt, watcher},
};
use tracing::{info, warn};

use super::{
    Schedules,
    cache::{CachedSchedule, Health},
    kind::{ScheduleKey, ScheduleKind},
};

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
        let api: Api<DynamicObject> = if namespace.is_empty() {
            Api::all_with(client, &resource)
        } else {
            Api::namespaced_with(client, namespace, &resource)
        };
        let mut events = std::pin::pin!(watcher(api, watcher::Config::default()).default_backoff());
        let mut listed = BTreeMap::new();
        let mut has_failed = false;
        let key = |object: &DynamicObject| {
            ScheduleKey::new(kind, &object.namespace().unwrap_or_default(), &object.name_any())
        };
        while let Some(event) = events.next().await {
            let changed = match event {
                Ok(watcher::Event::Init) => {
                    listed.clear();
                    continue;
                }
                Ok(watcher::Event::InitApply(object)) => {
                    listed.insert(key(&object), CachedSchedule::new(object, &self.settings));
                    continue;
                }
                Ok(watcher::Event::InitDone) => {
                    log_recovery(kind, &mut has_failed);
                    let listed = std::mem::take(&mut listed);
                    self.cache.replace(kind, namespace, listed).into_iter().collect()
                }
                // The watch works again: it may resume without a relist.
                Ok(watcher::Event::Apply(object)) => {
                    log_recovery(kind, &mut has_failed);
                    self.cache.set_health(kind, namespace, Health::Synced);
                    let key = key(&object);
                    let entry = CachedSchedule::new(object, &self.settings);
                    if !self.cache.insert(key.clone(), entry) {
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
                    self.handle_failure(kind, namespace, &error, is_repeated)
                }
            };
            if !changed.is_empty() {
                on_change(&changed);
            }
        }
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
