//! Lists and caches objects of an API server.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;
use futures::StreamExt;
use hpa_calc::{Selector, selector::exceed_label_limits};
use jiff::Timestamp;
use kube::{
    Api, Client, Resource, ResourceExt, api::ListParams, core::GroupVersionKind, runtime::watcher,
};
use parking_lot::RwLock;
use serde::{Deserialize, de::IgnoredAny};

use crate::{
    LABEL_LIMIT_LOG, ObjectKey, StoredObject, describe,
    objects::{ListError, ObjectLister, ObjectMetadata, Pod},
    resource::{ApiResource, GroupResource},
    stored_object::list_metadata,
    sync_state::SyncState,
    watch_events::{is_within_list, watch_events},
};

/// The maximum number of objects in one response of a list.
const PAGE_SIZE: u32 = 500;

/// The objects of an API server. For resource metrics, pods and nodes come from caches that
/// [`Self::watch_pods`] and [`Self::watch_nodes`] keep up to date. For custom metrics, names of
/// pods come from the cache if it has synced (unless [`Self::with_pod_lists`] is set), and names of
/// other objects are listed for each query.
pub struct KubeObjects {
    client: Client,
    /// The namespace of the cached pods. `None` for all namespaces.
    namespace: Option<String>,
    pods: ObjectCache,
    nodes: ObjectCache,
    /// Whether pods are listed for each custom metric, although they are cached.
    lists_pods: bool,
}

/// The fields of a pod or a node that are decoded.
#[derive(Debug, Deserialize)]
struct SlimObject {
    metadata: SlimMetadata,
    #[serde(default)]
    status: Option<SlimStatus>,
}

/// The times are not parsed: see [`StoredObject`].
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SlimMetadata {
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
    #[serde(default)]
    deletion_timestamp: Option<IgnoredAny>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SlimStatus {
    #[serde(default)]
    phase: Option<String>,
    #[serde(default, rename = "podIP")]
    pod_ip: Option<String>,
    #[serde(default)]
    conditions: Option<Vec<SlimCondition>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SlimCondition {
    #[serde(default)]
    r#type: String,
    #[serde(default)]
    status: String,
    #[serde(default)]
    last_transition_time: Option<String>,
}

impl SlimStatus {
    /// The time since which the object is ready, or the Unix epoch if the condition has no valid
    /// time. `None` if the object isn't ready.
    fn ready_since(&self) -> Option<Timestamp> {
        let mut conditions = self.conditions.iter().flatten();
        let ready = conditions
            .find(|condition| condition.r#type == "Ready" && condition.status == "True")?;
        let since = ready.last_transition_time.as_ref().and_then(|time| time.parse().ok());
        Some(since.unwrap_or_default())
    }
}

/// The objects of a resource, by namespace and name.
#[derive(Debug, Default)]
struct ObjectCache {
    /// The plural name of the resource, for messages.
    resource: &'static str,
    /// `None` before the first list is complete.
    objects: RwLock<Option<ObjectsByNamespace>>,
    sync_state: SyncState,
    is_watched: AtomicBool,
    /// Whether selectors match any number of labels. Tenants write the labels of pods, but not
    /// those of nodes.
    has_unlimited_labels: bool,
}

type ObjectsByNamespace = HashMap<String, BTreeMap<String, CachedObject>>;

#[derive(Clone, Debug)]
struct CachedObject {
    /// Without labels if they exceed the limits.
    metadata: ObjectMetadata,
    /// No selector matches such an object.
    exceeds_label_limits: bool,
    is_running: bool,
    ip: Option<IpAddr>,
    ready_since: Option<Timestamp>,
    is_terminating: bool,
}

impl CachedObject {
    fn is_selected_by(&self, selector: &Selector) -> bool {
        !self.exceeds_label_limits && self.metadata.labels.are_selected_by(selector)
    }
}

impl KubeObjects {
    /// Creates empty caches of pods and nodes. [`Self::watch_pods`] and [`Self::watch_nodes`] fill
    /// them.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            namespace: None,
            pods: ObjectCache { resource: "pods", ..ObjectCache::default() },
            nodes: ObjectCache {
                resource: "nodes",
                has_unlimited_labels: true,
                ..ObjectCache::default()
            },
            lists_pods: false,
        }
    }

    /// Lists pods for each custom metric, as prometheus-adapter does. Pods for resource metrics
    /// come from the cache.
    #[must_use]
    pub fn with_pod_lists(self) -> Self {
        Self { lists_pods: true, ..self }
    }

    /// Caches only the pods of `namespace`. `None` stands for all namespaces.
    #[must_use]
    pub fn with_namespace(self, namespace: Option<String>) -> Self {
        Self { namespace, ..self }
    }

    /// Waits until the first list of pods has succeeded or failed. [`Self::watch_pods`] must run.
    pub async fn wait_for_pod_list(&self) {
        self.pods.sync_state.wait_for_first_outcome().await;
    }

    /// Keeps the cache of pods up to date. Never ends.
    pub async fn watch_pods(&self) {
        let kind = kube_resource(&GroupResource::pods(), "v1", "Pod");
        let namespace = self.namespace.as_deref().unwrap_or_default();
        self.pods.watch(StoredObject::api(self.client.clone(), namespace, &kind)).await;
    }

    /// The selected pods of a namespace, with their addresses. Fails before the cache has synced.
    pub fn pods(&self, namespace: &str, selector: &Selector) -> Result<Vec<Pod>, ListError> {
        self.pods.select_pods(namespace, selector)
    }

    /// Keeps the cache of nodes up to date. Never ends.
    pub async fn watch_nodes(&self) {
        let kind = kube_resource(&GroupResource::nodes(), "v1", "Node");
        self.nodes.watch(StoredObject::api(self.client.clone(), "", &kind)).await;
    }

    async fn list_names(
        &self,
        resource: &ApiResource,
        namespace: &str,
        selector: &Selector,
    ) -> Result<Vec<String>, ListError> {
        let kind = kube_resource(&resource.group_resource, &resource.version, &resource.kind);
        let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
        let mut params = ListParams::default().labels(&selector.to_string()).limit(PAGE_SIZE);
        let mut names = Vec::new();
        loop {
            let page = list_metadata(&self.client, &kind, namespace, &params).await;
            let page = page.map_err(|error| ListError::Request {
                resource: resource.group_resource.to_string(),
                source: Arc::new(error),
            })?;
            names.extend(page.items.iter().filter_map(|object| object.meta().name.clone()));
            match page.metadata.continue_ {
                Some(token) if !token.is_empty() => params = params.continue_token(&token),
                _ => return Ok(names),
            }
        }
    }
}

fn kube_resource(resource: &GroupResource, version: &str, kind: &str) -> kube::core::ApiResource {
    let kind = GroupVersionKind::gvk(&resource.group, version, kind);
    kube::core::ApiResource::from_gvk_with_plural(&kind, &resource.resource)
}

#[async_trait]
impl ObjectLister for KubeObjects {
    async fn names(
        &self,
        resource: &ApiResource,
        namespace: &str,
        selector: &Selector,
    ) -> Result<Vec<String>, ListError> {
        if resource.group_resource == GroupResource::pods()
            && !self.lists_pods
            && let Ok(pods) = self.pods.select(namespace, selector, |_| true)
        {
            return Ok(pods.into_iter().map(|pod| pod.key.name).collect());
        }
        self.list_names(resource, namespace, selector).await
    }

    async fn running_pods(
        &self,
        namespace: &str,
        selector: &Selector,
    ) -> Result<Vec<ObjectMetadata>, ListError> {
        self.pods.select(namespace, selector, |pod| pod.is_running)
    }

    async fn running_pod(&self, pod: &ObjectKey) -> Result<Option<ObjectMetadata>, ListError> {
        let pod = self.pods.get(pod)?;
        Ok(pod.filter(|pod| pod.is_running).map(|pod| pod.metadata))
    }

    async fn nodes(&self, selector: &Selector) -> Result<Vec<ObjectMetadata>, ListError> {
        self.nodes.select("", selector, |_| true)
    }

    async fn node(&self, name: &str) -> Result<Option<ObjectMetadata>, ListError> {
        let node = self.nodes.get(&ObjectKey::new("", name))?;
        Ok(node.map(|node| node.metadata))
    }

    fn unsynced_caches(&self) -> Vec<String> {
        [&self.pods, &self.nodes].into_iter().filter_map(ObjectCache::unsynced_text).collect()
    }
}

impl ObjectCache {
    /// Lists and watches all objects. Logs the first of consecutive failures, and their end. Never
    /// ends.
    async fn watch(&self, api: Api<StoredObject>) {
        let resource = self.resource;
        self.is_watched.store(true, Ordering::Relaxed);
        let mut events = watch_events(api, watcher::Config::default());
        let mut listed = ObjectsByNamespace::default();
        let mut is_failing = false;
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    if !is_within_list(&event) && std::mem::take(&mut is_failing) {
                        tracing::info!(resource, "objects for metrics are watched again");
                    }
                    self.apply(event, &mut listed);
                }
                Err(error) => {
                    self.sync_state.set_failed(&error);
                    let error = describe(&error);
                    if std::mem::replace(&mut is_failing, true) {
                        tracing::debug!(resource, error, "unable to watch objects for metrics");
                    } else {
                        tracing::warn!(
                            resource,
                            error,
                            "unable to watch objects for metrics, retrying"
                        );
                    }
                }
            }
        }
    }

    fn apply(&self, event: watcher::Event<StoredObject>, listed: &mut ObjectsByNamespace) {
        match event {
            watcher::Event::Init => listed.clear(),
            watcher::Event::InitApply(object) => self.insert(listed, &object),
            watcher::Event::InitDone => {
                *self.objects.write() = Some(std::mem::take(listed));
                LABEL_LIMIT_LOG.log_if_due();
                self.sync_state.set_synced();
            }
            watcher::Event::Apply(object) => {
                if let Some(objects) = &mut *self.objects.write() {
                    self.insert(objects, &object);
                    LABEL_LIMIT_LOG.log_if_due();
                }
            }
            watcher::Event::Delete(object) => {
                if let Some(objects) = &mut *self.objects.write() {
                    remove(objects, &key(&object));
                }
            }
        }
    }

    /// Adds or replaces an object. An undecodable one is removed.
    fn insert(&self, objects: &mut ObjectsByNamespace, object: &StoredObject) {
        let key = key(object);
        let SlimObject { metadata, status } = match object.decode() {
            Ok(decoded) => decoded,
            Err(error) => {
                tracing::warn!(object = %key, %error, "ignoring an undecodable object for metrics");
                remove(objects, &key);
                return;
            }
        };
        let status = status.unwrap_or_default();
        let mut labels = metadata.labels.unwrap_or_default();
        let pairs = labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let exceeds_label_limits = !self.has_unlimited_labels && exceed_label_limits(pairs);
        if exceeds_label_limits {
            labels.clear();
            LABEL_LIMIT_LOG.add(&key.namespace, &key.name);
        }
        let cached = CachedObject {
            metadata: ObjectMetadata { key: key.clone(), labels: labels.iter().collect() },
            exceeds_label_limits,
            is_running: status.phase.as_deref() == Some("Running"),
            ip: status.pod_ip.as_ref().and_then(|ip| ip.parse().ok()),
            ready_since: status.ready_since(),
            is_terminating: metadata.deletion_timestamp.is_some(),
        };
        objects.entry(key.namespace).or_default().insert(key.name, cached);
    }

    /// A text that names the cache if it is watched and has not synced yet.
    fn unsynced_text(&self) -> Option<String> {
        let is_unsynced = self.is_watched.load(Ordering::Relaxed) && !self.sync_state.is_synced();
        is_unsynced.then(|| self.not_synced().to_string())
    }

    fn not_synced(&self) -> ListError {
        ListError::NotSynced(self.resource)
    }

    /// The selected objects, sorted. Fails before the cache has synced.
    fn select(
        &self,
        namespace: &str,
        selector: &Selector,
        filter: impl Fn(&CachedObject) -> bool,
    ) -> Result<Vec<ObjectMetadata>, ListError> {
        let guard = self.objects.read();
        let objects = guard.as_ref().ok_or_else(|| self.not_synced())?;
        let is_selected =
            |object: &&CachedObject| filter(object) && object.is_selected_by(selector);
        if !namespace.is_empty() {
            let all = objects.get(namespace).into_iter().flat_map(BTreeMap::values);
            return Ok(all.filter(is_selected).map(|object| object.metadata.clone()).collect());
        }
        let all = objects.values().flat_map(BTreeMap::values).filter(is_selected);
        let mut all: Vec<ObjectMetadata> = all.map(|object| object.metadata.clone()).collect();
        all.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(all)
    }

    /// The selected pods of a namespace. Fails before the cache has synced.
    fn select_pods(&self, namespace: &str, selector: &Selector) -> Result<Vec<Pod>, ListError> {
        let guard = self.objects.read();
        let objects = guard.as_ref().ok_or_else(|| self.not_synced())?;
        let all = objects.get(namespace).into_iter().flat_map(BTreeMap::values);
        let selected = all.filter(|pod| pod.is_selected_by(selector));
        let pod = |cached: &CachedObject| Pod {
            name: cached.metadata.key.name.clone(),
            ip: cached.ip.map(|ip| ip.to_string()).unwrap_or_default(),
            ready_since: cached.ready_since,
            is_terminating: cached.is_terminating,
        };
        Ok(selected.map(pod).collect())
    }

    fn get(&self, key: &ObjectKey) -> Result<Option<CachedObject>, ListError> {
        let guard = self.objects.read();
        let objects = guard.as_ref().ok_or_else(|| self.not_synced())?;
        Ok(objects.get(&key.namespace).and_then(|by_name| by_name.get(&key.name)).cloned())
    }
}

fn key(object: &StoredObject) -> ObjectKey {
    ObjectKey { namespace: object.namespace().unwrap_or_default(), name: object.name_any() }
}

fn remove(objects: &mut ObjectsByNamespace, key: &ObjectKey) {
    let Some(in_namespace) = objects.get_mut(&key.namespace) else { return };
    in_namespace.remove(&key.name);
    if in_namespace.is_empty() {
        objects.remove(&key.namespace);
    }
}
