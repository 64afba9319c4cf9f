//! Lists and caches objects of an API server.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::Arc,
};

use async_trait::async_trait;
use futures::StreamExt;
use hpa_calc::Selector;
use jiff::Timestamp;
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams},
    core::ObjectMeta,
    runtime::{WatchStreamExt, watcher},
};
use parking_lot::RwLock;
use serde::Deserialize;

use crate::{
    ObjectKey, describe,
    objects::{ListError, ObjectLister, ObjectMetadata, Pod},
    resource::{ApiResource, GroupResource},
    sync_state::SyncState,
};

/// The maximum number of objects in one response of a list.
const PAGE_SIZE: u32 = 500;

/// The objects of an API server. For resource metrics, pods and nodes come from caches that
/// [`KubeObjects::watch`] keeps up to date. For custom metrics, names of pods come from the cache
/// if it has synced (unless [`KubeObjects::with_pod_lists`] is set), and names of other objects are
/// listed for each query.
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
#[derive(Clone, Debug, Deserialize)]
struct SlimObject {
    metadata: ObjectMeta,
    #[serde(default)]
    status: Option<SlimStatus>,
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

impl kube::Resource for SlimObject {
    type DynamicType = kube::core::ApiResource;
    type Scope = kube::core::DynamicResourceScope;

    fn kind(kind: &Self::DynamicType) -> std::borrow::Cow<'_, str> {
        kind.kind.as_str().into()
    }

    fn group(kind: &Self::DynamicType) -> std::borrow::Cow<'_, str> {
        kind.group.as_str().into()
    }

    fn version(kind: &Self::DynamicType) -> std::borrow::Cow<'_, str> {
        kind.version.as_str().into()
    }

    fn plural(kind: &Self::DynamicType) -> std::borrow::Cow<'_, str> {
        kind.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// The objects of a kind, by namespace and name.
#[derive(Debug, Default)]
struct ObjectCache {
    /// `None` before the first list is complete.
    objects: RwLock<Option<ObjectsByNamespace>>,
    sync_state: SyncState,
}

type ObjectsByNamespace = HashMap<String, BTreeMap<String, CachedObject>>;

#[derive(Clone, Debug)]
struct CachedObject {
    metadata: ObjectMetadata,
    is_running: bool,
    ip: Option<IpAddr>,
    ready_since: Option<Timestamp>,
    is_terminating: bool,
}

impl KubeObjects {
    /// Creates empty caches of pods and nodes. [`Self::watch`] fills them.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            namespace: None,
            pods: ObjectCache::default(),
            nodes: ObjectCache::default(),
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

    /// Whether both caches have synced.
    pub fn has_synced(&self) -> bool {
        self.pods.objects.read().is_some() && self.nodes.objects.read().is_some()
    }

    /// Keeps the cache of pods up to date. Never ends.
    pub async fn watch_pods(&self) {
        let kind = kube_resource(&GroupResource::pods(), "v1", "Pod");
        let client = self.client.clone();
        self.pods.watch(api(client, self.namespace.as_deref(), &kind), "pods").await;
    }

    /// The selected pods of a namespace, with their addresses.
    pub fn pods(&self, namespace: &str, selector: &Selector) -> Result<Vec<Pod>, ListError> {
        self.pods.select_pods(namespace, selector).ok_or(ListError::NotSynced("pods"))
    }

    /// Keeps the cache of nodes up to date. Never ends.
    pub async fn watch_nodes(&self) {
        let kind = kube_resource(&GroupResource::nodes(), "v1", "Node");
        self.nodes.watch(api(self.client.clone(), None, &kind), "nodes").await;
    }

    /// Keeps both caches up to date. Never ends.
    pub async fn watch(&self) {
        tokio::join!(self.watch_pods(), self.watch_nodes());
    }

    async fn list_names(
        &self,
        resource: &ApiResource,
        namespace: &str,
        selector: &Selector,
    ) -> Result<Vec<String>, ListError> {
        let kind = kube_resource(&resource.group_resource, &resource.version, &resource.kind);
        let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
        let api: Api<DynamicObject> = api(self.client.clone(), namespace, &kind);
        let mut params = ListParams::default().labels(&selector.to_string()).limit(PAGE_SIZE);
        let mut names = Vec::new();
        loop {
            let page = api.list_metadata(&params).await.map_err(|error| ListError::Request {
                resource: resource.group_resource.to_string(),
                source: Arc::new(error),
            })?;
            names.extend(page.items.into_iter().filter_map(|object| object.metadata.name));
            match page.metadata.continue_ {
                Some(token) if !token.is_empty() => params = params.continue_token(&token),
                _ => return Ok(names),
            }
        }
    }
}

fn api<K>(client: Client, namespace: Option<&str>, kind: &kube::core::ApiResource) -> Api<K>
where
    K: kube::Resource<
            DynamicType = kube::core::ApiResource,
            Scope = kube::core::DynamicResourceScope,
        >,
{
    match namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, kind),
        None => Api::all_with(client, kind),
    }
}

fn kube_resource(resource: &GroupResource, version: &str, kind: &str) -> kube::core::ApiResource {
    let api_version = if resource.group.is_empty() {
        version.to_owned()
    } else {
        format!("{}/{version}", resource.group)
    };
    kube::core::ApiResource {
        group: resource.group.clone(),
        version: version.to_owned(),
        api_version,
        kind: kind.to_owned(),
        plural: resource.resource.clone(),
    }
}

#[async_trait]
impl ObjectLister for KubeObjects {
    async fn names(
        &self,
        resource: &ApiResource,
        namespace: &str,
        selector: &Selector,
    ) -> Result<Vec<String>, ListError> {
        if resource.group_resource == GroupResource::pods() && !self.lists_pods {
            let selected = self.pods.select(namespace, selector, |_| true);
            if let Some(pods) = selected {
                return Ok(pods.into_iter().map(|pod| pod.key.name).collect());
            }
        }
        self.list_names(resource, namespace, selector).await
    }

    async fn running_pods(
        &self,
        namespace: &str,
        selector: &Selector,
    ) -> Result<Vec<ObjectMetadata>, ListError> {
        let selected = self.pods.select(namespace, selector, |pod| pod.is_running);
        selected.ok_or(ListError::NotSynced("pods"))
    }

    async fn running_pod(&self, pod: &ObjectKey) -> Result<Option<ObjectMetadata>, ListError> {
        let pod = self.pods.get(pod, "pods")?;
        Ok(pod.filter(|pod| pod.is_running).map(|pod| pod.metadata))
    }

    async fn nodes(&self, selector: &Selector) -> Result<Vec<ObjectMetadata>, ListError> {
        self.nodes.select("", selector, |_| true).ok_or(ListError::NotSynced("nodes"))
    }

    async fn node(&self, name: &str) -> Result<Option<ObjectMetadata>, ListError> {
        let node = self.nodes.get(&ObjectKey::new("", name), "nodes")?;
        Ok(node.map(|node| node.metadata))
    }
}

impl ObjectCache {
    /// Lists and watches all objects. Never ends.
    async fn watch(&self, api: Api<SlimObject>, resource: &'static str) {
        let events = watcher(api, watcher::Config::default()).default_backoff();
        let mut events = std::pin::pin!(events);
        let mut listed = ObjectsByNamespace::default();
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => self.apply(event, &mut listed),
                Err(error) => {
                    self.sync_state.set_failed(&error);
                    tracing::warn!(
                        resource,
                        error = describe(&error),
                        "unable to watch objects for metrics, retrying"
                    );
                }
            }
        }
    }

    fn apply(&self, event: watcher::Event<SlimObject>, listed: &mut ObjectsByNamespace) {
        match event {
            watcher::Event::Init => listed.clear(),
            watcher::Event::InitApply(object) => insert(listed, object),
            watcher::Event::InitDone => {
                *self.objects.write() = Some(std::mem::take(listed));
                self.sync_state.set_synced();
            }
            watcher::Event::Apply(object) => {
                if let Some(objects) = &mut *self.objects.write() {
                    insert(objects, object);
                }
            }
            watcher::Event::Delete(object) => {
                if let Some(objects) = &mut *self.objects.write() {
                    remove(objects, object.metadata);
                }
            }
        }
    }

    /// The selected objects, sorted. `None` before the cache has synced.
    fn select(
        &self,
        namespace: &str,
        selector: &Selector,
        filter: impl Fn(&CachedObject) -> bool,
    ) -> Option<Vec<ObjectMetadata>> {
        let guard = self.objects.read();
        let objects = guard.as_ref()?;
        let is_selected =
            |object: &&CachedObject| filter(object) && selector.matches(&object.metadata.labels);
        if !namespace.is_empty() {
            let all = objects.get(namespace).into_iter().flat_map(BTreeMap::values);
            return Some(all.filter(is_selected).map(|object| object.metadata.clone()).collect());
        }
        let all = objects.values().flat_map(BTreeMap::values).filter(is_selected);
        let mut all: Vec<ObjectMetadata> = all.map(|object| object.metadata.clone()).collect();
        all.sort_by(|a, b| a.key.cmp(&b.key));
        Some(all)
    }

    /// The selected pods of a namespace. `None` before the cache has synced.
    fn select_pods(&self, namespace: &str, selector: &Selector) -> Option<Vec<Pod>> {
        let guard = self.objects.read();
        let all = guard.as_ref()?.get(namespace).into_iter().flat_map(BTreeMap::values);
        let selected = all.filter(|pod| selector.matches(&pod.metadata.labels));
        let pod = |cached: &CachedObject| Pod {
            name: cached.metadata.key.name.clone(),
            ip: cached.ip.map(|ip| ip.to_string()).unwrap_or_default(),
            ready_since: cached.ready_since,
            is_terminating: cached.is_terminating,
        };
        Some(selected.map(pod).collect())
    }

    fn get(&self, key: &ObjectKey, kind: &'static str) -> Result<Option<CachedObject>, ListError> {
        let guard = self.objects.read();
        let objects = guard.as_ref().ok_or(ListError::NotSynced(kind))?;
        Ok(objects.get(&key.namespace).and_then(|by_name| by_name.get(&key.name)).cloned())
    }
}

fn remove(objects: &mut ObjectsByNamespace, object: ObjectMeta) {
    let namespace = object.namespace.unwrap_or_default();
    let Some(in_namespace) = objects.get_mut(&namespace) else { return };
    in_namespace.remove(&object.name.unwrap_or_default());
    if in_namespace.is_empty() {
        objects.remove(&namespace);
    }
}

fn insert(objects: &mut ObjectsByNamespace, object: SlimObject) {
    let ObjectMeta { name, namespace, labels, deletion_timestamp, .. } = object.metadata;
    let key =
        ObjectKey { namespace: namespace.unwrap_or_default(), name: name.unwrap_or_default() };
    let status = object.status.unwrap_or_default();
    let cached = CachedObject {
        metadata: ObjectMetadata { key: key.clone(), labels: labels.unwrap_or_default() },
        is_running: status.phase.as_deref() == Some("Running"),
        ip: status.pod_ip.as_ref().and_then(|ip| ip.parse().ok()),
        ready_since: status.ready_since(),
        is_terminating: deletion_timestamp.is_some(),
    };
    objects.entry(key.namespace).or_default().insert(key.name, cached);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(namespace: &str, name: &str, app: &str, phase: &str) -> SlimObject {
        serde_json::from_value(serde_json::json!({
            "metadata": { "namespace": namespace, "name": name, "labels": { "app": app } },
            "status": { "phase": phase },
        }))
        .unwrap()
    }

    fn names(cache: &ObjectCache, namespace: &str, selector: &str) -> Option<Vec<String>> {
        let selector = Selector::parse(selector).unwrap();
        let pods = cache.select(namespace, &selector, |pod| pod.is_running)?;
        Some(pods.iter().map(|pod| pod.key.to_string()).collect())
    }

    #[test]
    fn cache_has_the_objects_of_the_last_list_and_later_changes() {
        let (cache, mut listed) = (ObjectCache::default(), ObjectsByNamespace::default());
        let mut apply = |event| cache.apply(event, &mut listed);
        apply(watcher::Event::Init);
        apply(watcher::Event::InitApply(pod("shop", "web-1", "web", "Running")));
        apply(watcher::Event::InitApply(pod("shop", "web-0", "web", "Running")));
        apply(watcher::Event::InitApply(pod("shop", "web-2", "web", "Pending")));
        assert_eq!(names(&cache, "shop", ""), None, "not synced");
        apply(watcher::Event::InitDone);
        assert_eq!(names(&cache, "shop", "app=web").unwrap(), ["shop/web-0", "shop/web-1"]);
        assert_eq!(names(&cache, "shop", "app=api").unwrap(), [""; 0]);

        apply(watcher::Event::Apply(pod("api", "api-0", "api", "Running")));
        apply(watcher::Event::Delete(pod("shop", "web-0", "web", "Running")));
        assert_eq!(names(&cache, "", "").unwrap(), ["api/api-0", "shop/web-1"]);

        apply(watcher::Event::Init);
        apply(watcher::Event::InitDone);
        assert_eq!(names(&cache, "", "").unwrap(), [""; 0]);
    }
}
