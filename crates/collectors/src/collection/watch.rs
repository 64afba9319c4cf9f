//! Watches autoscalers, whose annotations and metrics configure a [`CollectedMetrics`].

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicUsize, Ordering},
};

use futures::future::join_all;
use hpa_calc::{HorizontalPodAutoscaler, api::ObjectMeta};
use hpa_metrics::StoredObject;
use kube::{Client, ResourceExt, core::ApiResource, runtime::watcher};
use tracing::error;

use super::{CollectedMetrics, cluster::SpecAndAnnotations, index::AutoscalerKey};
use crate::{
    annotations::PREFIX,
    object_watch::{ObjectWatch, WatchFailure},
};

impl CollectedMetrics {
    /// Watches the autoscalers of these APIs, in one or all namespaces, and updates the metrics.
    /// The APIs must have different groups. Never returns.
    pub async fn watch(&self, client: Client, apis: &[ApiResource], namespace: Option<&str>) {
        let pending = AtomicUsize::new(apis.len());
        let watches = apis.iter().map(|api| {
            let namespace = namespace.unwrap_or_default();
            let description = "autoscalers for collectors";
            let watch = ObjectWatch::new(client.clone(), api, namespace, description);
            self.watch_group(&api.group, watch, &pending)
        });
        join_all(watches).await;
    }

    /// Watches one API. `pending` counts the APIs whose first list is incomplete.
    async fn watch_group(&self, group: &str, mut watch: ObjectWatch, pending: &AtomicUsize) {
        let mut listed = BTreeSet::new();
        // Taken by the first list.
        let mut pending = Some(pending);
        let mut mark_listed = || {
            if pending.take().is_some_and(|pending| pending.fetch_sub(1, Ordering::Relaxed) == 1) {
                self.sync_state.set_synced();
            }
        };
        while let Some(event) = watch.next().await {
            match event {
                Ok(watcher::Event::Init) => listed.clear(),
                Ok(watcher::Event::InitApply(object)) => {
                    listed.insert(self.apply_object(group, object));
                }
                Ok(watcher::Event::InitDone) => {
                    self.remove_unlisted(group, &std::mem::take(&mut listed));
                    mark_listed();
                    self.reader.observer.watch_succeeded();
                }
                Ok(watcher::Event::Apply(object)) => _ = self.apply_object(group, object),
                Ok(watcher::Event::Delete(object)) => self.remove(&key(group, &object)),
                // An API that isn't installed has no autoscalers.
                Err(WatchFailure::NotServed { .. }) => {
                    self.remove_unlisted(group, &BTreeSet::new());
                    mark_listed();
                }
                Err(WatchFailure::Other(error)) => {
                    self.sync_state.set_failed(&error);
                    self.reader.observer.watch_failed();
                }
            }
        }
    }

    /// Adds or replaces an autoscaler. A panic on one must not end the watch of the others.
    fn apply_object(&self, group: &str, object: StoredObject) -> AutoscalerKey {
        let key = key(group, &object);
        let apply = || match decode(&object) {
            Some(hpa) => self.apply(key.clone(), &hpa),
            // The controller reports undecodable objects.
            None => self.remove(&key),
        };
        if catch_unwind(AssertUnwindSafe(apply)).is_err() {
            let AutoscalerKey { namespace, name, .. } = &key;
            error!(namespace, name, "the annotations of an autoscaler caused a panic");
            self.remove(&key);
        }
        key
    }
}

fn key(group: &str, object: &StoredObject) -> AutoscalerKey {
    let namespace = object.namespace().unwrap_or_default();
    AutoscalerKey { group: group.to_owned(), namespace, name: object.name_any() }
}

/// Decodes the fields that collectors need. `None` for an undecodable object.
fn decode(object: &StoredObject) -> Option<HorizontalPodAutoscaler> {
    let SpecAndAnnotations { metadata, spec } = object.decode().ok()?;
    let mut annotations = metadata.annotations.unwrap_or_default();
    annotations.retain(|key, _| key.starts_with(PREFIX));
    let metadata = ObjectMeta {
        name: object.name_any(),
        namespace: object.namespace().unwrap_or_default(),
        uid: object.uid().unwrap_or_default(),
        resource_version: object.resource_version().unwrap_or_default(),
        annotations,
        ..ObjectMeta::default()
    };
    Some(HorizontalPodAutoscaler { metadata, spec, ..HorizontalPodAutoscaler::default() })
}
