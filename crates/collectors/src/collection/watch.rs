//! Watches autoscalers, whose annotations and metrics configure a [`Collection`].

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicUsize, Ordering},
};

use futures::{StreamExt, future::join_all};
use hpa_calc::HorizontalPodAutoscaler;
use kube::{
    Api, Client, ResourceExt,
    api::DynamicObject,
    core::ApiResource,
    runtime::{WatchStreamExt, watcher},
};
use serde_json::{Value, json};
use tracing::warn;

use super::{Collection, index::AutoscalerKey};

/// An API with autoscalers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoscalerGroup {
    /// `autoscaling/v2`
    Core,
    /// `autoscaling.hpa-rs.dev/v2`
    Custom,
}

impl AutoscalerGroup {
    fn name(self) -> &'static str {
        match self {
            Self::Core => "autoscaling",
            Self::Custom => "autoscaling.hpa-rs.dev",
        }
    }

    fn resource(self) -> ApiResource {
        ApiResource {
            group: self.name().to_owned(),
            version: "v2".to_owned(),
            api_version: format!("{}/v2", self.name()),
            kind: "HorizontalPodAutoscaler".to_owned(),
            plural: "horizontalpodautoscalers".to_owned(),
        }
    }
}

impl Collection {
    /// Watches the autoscalers of these APIs, in one or all namespaces, and updates the metrics.
    /// Never returns.
    pub async fn watch(&self, client: Client, groups: &[AutoscalerGroup], namespace: Option<&str>) {
        let pending = AtomicUsize::new(groups.len());
        let apis = groups.iter().map(|group| {
            let resource = group.resource();
            let api = match namespace {
                Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
                None => Api::all_with(client.clone(), &resource),
            };
            self.watch_group(*group, api, &pending)
        });
        join_all(apis).await;
    }

    /// Watches one API. `pending` counts the APIs whose first list is incomplete.
    async fn watch_group(
        &self,
        group: AutoscalerGroup,
        api: Api<DynamicObject>,
        pending: &AtomicUsize,
    ) {
        let mut events = std::pin::pin!(watcher(api, watcher::Config::default()).default_backoff());
        let mut listed = BTreeSet::new();
        let (mut has_failed, mut has_listed) = (false, false);
        let mut mark_listed = || {
            let is_first = !std::mem::replace(&mut has_listed, true);
            if is_first && pending.fetch_sub(1, Ordering::Relaxed) == 1 {
                self.sync_state.set_synced();
            }
        };
        while let Some(event) = events.next().await {
            match event {
                Ok(watcher::Event::Init) => listed.clear(),
                Ok(watcher::Event::InitApply(object)) => {
                    listed.insert(self.apply_object(group, object));
                }
                Ok(watcher::Event::InitDone) => {
                    self.remove_unlisted(group.name(), &std::mem::take(&mut listed));
                    mark_listed();
                    self.reader.observer.watch_succeeded();
                    has_failed = false;
                }
                // The watch works again: it may resume without a relist.
                Ok(watcher::Event::Apply(object)) => {
                    self.apply_object(group, object);
                    has_failed = false;
                }
                Ok(watcher::Event::Delete(object)) => {
                    self.remove(&key(group, &object));
                    has_failed = false;
                }
                // An API that isn't installed has no autoscalers.
                Err(error) if is_not_installed(&error) => {
                    mark_listed();
                    has_failed = false;
                }
                Err(error) => {
                    self.sync_state.set_failed(&error);
                    self.reader.observer.watch_failed();
                    if !std::mem::replace(&mut has_failed, true) {
                        let error = hpa_metrics::describe(&error);
                        let group = group.name();
                        warn!(group, error, "unable to watch autoscalers for collectors, retrying");
                    }
                }
            }
        }
    }

    fn apply_object(&self, group: AutoscalerGroup, object: DynamicObject) -> AutoscalerKey {
        let key = key(group, &object);
        match decode(object) {
            Some(hpa) => self.apply(key.clone(), &hpa),
            // The controller reports undecodable objects.
            None => self.remove(&key),
        }
        key
    }
}

fn is_not_installed(error: &watcher::Error) -> bool {
    matches!(
        error,
        watcher::Error::InitialListFailed(kube::Error::Api(status)) if status.code == 404
    )
}

fn key(group: AutoscalerGroup, object: &DynamicObject) -> AutoscalerKey {
    (group.name().to_owned(), object.namespace().unwrap_or_default(), object.name_any())
}

/// Decodes the fields that collectors need.
fn decode(object: DynamicObject) -> Option<HorizontalPodAutoscaler> {
    let DynamicObject { metadata, mut data, .. } = object;
    let annotations: BTreeMap<String, String> = metadata.annotations.unwrap_or_default();
    let relevant = annotations.into_iter().filter(|(name, _)| name.starts_with("metric-config."));
    let hpa = json!({
        "metadata": {
            "name": metadata.name, "namespace": metadata.namespace, "uid": metadata.uid,
            "resourceVersion": metadata.resource_version,
            "annotations": relevant.collect::<BTreeMap<_, _>>(),
        },
        "spec": data.get_mut("spec").map(Value::take),
    });
    serde_json::from_value(hpa).ok()
}
