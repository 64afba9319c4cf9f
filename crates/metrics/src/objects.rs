//! The objects of the cluster that metrics describe.

use std::{error::Error, sync::Arc};

use async_trait::async_trait;
use hpa_calc::Selector;
use jiff::Timestamp;

use crate::{
    FieldRequirement, MetricError, ObjectKey, Objects,
    resource::ApiResource,
    wire::{ItemLabels, ItemMeta},
};

/// Lists objects of the cluster. The default methods are those of a lister without a cache: each
/// list fails with [`ListError::NotCached`].
#[async_trait]
pub trait ObjectLister: Send + Sync {
    /// The names of the selected objects, in the order of the API server's list. The namespace is
    /// empty for all namespaces and for objects without one.
    async fn names(
        &self,
        resource: &ApiResource,
        _namespace: &str,
        _selector: &Selector,
    ) -> Result<Vec<String>, ListError> {
        Err(ListError::NotCached(resource.group_resource.to_string()))
    }

    /// The selected running pods, sorted by namespace and name. An empty namespace stands for all
    /// namespaces.
    async fn running_pods(
        &self,
        _namespace: &str,
        _selector: &Selector,
    ) -> Result<Vec<ObjectMetadata>, ListError> {
        Err(ListError::NotCached("pods".to_owned()))
    }

    /// A running pod. `None` if there is none with this name.
    async fn running_pod(&self, pod: &ObjectKey) -> Result<Option<ObjectMetadata>, ListError> {
        let pods = self.running_pods(&pod.namespace, &Selector::everything()).await?;
        Ok(pods.into_iter().find(|running| running.key == *pod))
    }

    /// The selected nodes, sorted by name.
    async fn nodes(&self, _selector: &Selector) -> Result<Vec<ObjectMetadata>, ListError> {
        Err(ListError::NotCached("nodes".to_owned()))
    }

    /// A node. `None` if there is none with this name.
    async fn node(&self, name: &str) -> Result<Option<ObjectMetadata>, ListError> {
        let nodes = self.nodes(&Selector::everything()).await?;
        Ok(nodes.into_iter().find(|node| node.key.name == name))
    }

    /// A text for each watched cache that has not synced yet. It contains nothing that the API
    /// server sent, because every client of a readiness probe may see it.
    fn unsynced_caches(&self) -> Vec<String> {
        Vec::new()
    }

    /// The running pods of a [`Query::PodUsage`](crate::Query::PodUsage). The error is
    /// [`MetricError::NoSuchObject`] if a named pod isn't running.
    async fn pods_of(
        &self,
        namespace: &str,
        pods: &Objects,
        fields: &[FieldRequirement],
    ) -> Result<Vec<ObjectMetadata>, MetricError> {
        let pods = match pods {
            Objects::Named(name) => {
                let key = ObjectKey::new(namespace, name);
                let pod = self.running_pod(&key).await.map_err(MetricError::List)?;
                vec![pod.ok_or(MetricError::NoSuchObject(key))?]
            }
            Objects::Selected(selector) => {
                self.running_pods(namespace, selector).await.map_err(MetricError::List)?
            }
        };
        Ok(retain_matching(pods, fields))
    }

    /// The nodes of a [`Query::NodeUsage`](crate::Query::NodeUsage). The error is
    /// [`MetricError::NoSuchObject`] if a named node doesn't exist.
    async fn nodes_of(
        &self,
        nodes: &Objects,
        fields: &[FieldRequirement],
    ) -> Result<Vec<ObjectMetadata>, MetricError> {
        let nodes = match nodes {
            Objects::Named(name) => {
                let node = self.node(name).await.map_err(MetricError::List)?;
                vec![node.ok_or_else(|| MetricError::NoSuchObject(ObjectKey::new("", name)))?]
            }
            Objects::Selected(selector) => self.nodes(selector).await.map_err(MetricError::List)?,
        };
        Ok(retain_matching(nodes, fields))
    }
}

fn retain_matching(
    mut objects: Vec<ObjectMetadata>,
    fields: &[FieldRequirement],
) -> Vec<ObjectMetadata> {
    objects.retain(|object| fields.iter().all(|field| field.matches(&object.key)));
    objects
}

/// The metadata that metrics.k8s.io has of a pod or a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectMetadata {
    /// The namespace and the name.
    pub key: ObjectKey,
    /// The labels of the object.
    pub labels: ItemLabels,
}

impl ObjectMetadata {
    /// The metadata of an item of metrics.k8s.io.
    pub fn item_meta(&self) -> ItemMeta {
        ItemMeta {
            name: self.key.name.as_str().into(),
            namespace: self.key.namespace.as_str().into(),
            labels: self.labels.clone(),
        }
    }
}

/// A pod as collectors read it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// The name of the pod.
    pub name: String,
    /// `status.podIP`, IPv4 or IPv6. Empty before the pod has an address.
    pub ip: String,
    /// The time since which the condition `Ready` is `True`, or the Unix epoch if that time is
    /// unknown. `None` for a pod that is not ready.
    pub ready_since: Option<Timestamp>,
    /// Whether the pod has a deletion timestamp.
    pub is_terminating: bool,
}

/// The error of listing objects.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListError {
    /// The API has no such resource.
    #[error(transparent)]
    Resource(#[from] crate::resource::ResourceError),
    /// The request failed.
    #[error("listing {resource} failed")]
    Request {
        /// The resource that was listed, such as `deployments.apps`.
        resource: String,
        /// The error of the client.
        source: Arc<dyn Error + Send + Sync>,
    },
    /// The cache of the objects has not synced yet.
    #[error("the cache of {0} has not synced yet")]
    NotSynced(&'static str),
    /// The lister has no cache of this resource, and sends no requests for it.
    #[error("{0} can't be selected: they are not cached")]
    NotCached(String),
}

/// The lister of sources that select no objects of the cluster. Every call fails.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObjects;

impl ObjectLister for NoObjects {}
