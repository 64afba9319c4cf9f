//! Pods that are known already, as the objects of a provider of metrics.

use std::sync::Arc;

use async_trait::async_trait;
use hpa_calc::{Pod, Selector, api::PodPhase};
use hpa_controller::cache::PodLookup;
use hpa_provider::{ListError, ObjectKey, ObjectLister, ObjectMetadata};
use hpa_rules::{ApiResource, GroupResource};
use parking_lot::RwLock;

/// Selects pods without a request.
pub(crate) trait SelectPods: Send + Sync {
    /// The selected pods. `None` if they are not known.
    fn select(&self, namespace: &str, selector: &Selector) -> Option<Vec<Arc<Pod>>>;
}

/// The cache of a controller.
impl SelectPods for PodLookup {
    fn select(&self, namespace: &str, selector: &Selector) -> Option<Vec<Arc<Pod>>> {
        self.select(namespace, selector)
    }
}

/// The pods that a command has read, all of one namespace.
#[derive(Default)]
pub(crate) struct ReadPods(RwLock<Vec<Arc<Pod>>>);

impl ReadPods {
    pub(crate) fn set(&self, pods: Vec<Arc<Pod>>) {
        *self.0.write() = pods;
    }
}

impl SelectPods for Arc<ReadPods> {
    fn select(&self, _: &str, selector: &Selector) -> Option<Vec<Arc<Pod>>> {
        let pods = self.0.read();
        let selected = pods.iter().filter(|pod| selector.matches_by(|key| pod.label(key)));
        Some(selected.cloned().collect())
    }
}

/// Pods as the objects of a provider. It has no other objects.
pub(crate) struct CachedPods<S>(pub(crate) S);

impl<S: SelectPods> CachedPods<S> {
    fn select(&self, namespace: &str, selector: &Selector) -> Result<Vec<Arc<Pod>>, ListError> {
        self.0.select(namespace, selector).ok_or(ListError::NotSynced("pods"))
    }
}

#[async_trait]
impl<S: SelectPods> ObjectLister for CachedPods<S> {
    async fn names(
        &self,
        resource: &ApiResource,
        namespace: &str,
        selector: &Selector,
    ) -> Result<Vec<String>, ListError> {
        if resource.group_resource != GroupResource::pods() {
            return Err(ListError::NotCached(resource.group_resource.to_string()));
        }
        let pods = self.select(namespace, selector)?;
        Ok(pods.iter().map(|pod| pod.name.to_string()).collect())
    }

    async fn running_pods(
        &self,
        namespace: &str,
        selector: &Selector,
    ) -> Result<Vec<ObjectMetadata>, ListError> {
        let pods = self.select(namespace, selector)?;
        let running = pods.iter().filter(|pod| pod.phase == PodPhase::Running);
        let metadata = running.map(|pod| ObjectMetadata {
            key: ObjectKey::new(namespace, &pod.name),
            labels: pod
                .labels
                .iter()
                .map(|(key, value)| (key.to_string(), value.to_string()))
                .collect(),
            creation_timestamp: None,
        });
        Ok(metadata.collect())
    }

    async fn running_pod(&self, pod: &ObjectKey) -> Result<Option<ObjectMetadata>, ListError> {
        let pods = self.running_pods(&pod.namespace, &Selector::everything()).await?;
        Ok(pods.into_iter().find(|own| own.key == *pod))
    }

    async fn nodes(&self, _: &Selector) -> Result<Vec<ObjectMetadata>, ListError> {
        Err(ListError::NotCached("nodes".to_owned()))
    }

    async fn node(&self, _: &str) -> Result<Option<ObjectMetadata>, ListError> {
        Err(ListError::NotCached("nodes".to_owned()))
    }
}
