//! Lists cached pods as the objects of a metric source.

use std::sync::{Arc, Weak};

use async_trait::async_trait;
use hpa_calc::{Pod, Selector, api::PodPhase};
use hpa_controller::cache::PodLookup;
use hpa_metrics::{
    ListError, ObjectKey, ObjectLister, ObjectMetadata,
    resource::{ApiResource, GroupResource},
};
use parking_lot::RwLock;

/// Selects pods in memory, without a request to the API server.
pub(crate) trait SelectPods: Send + Sync {
    /// The selected pods. `None` if they are not cached.
    fn select(&self, namespace: &str, selector: &Selector) -> Option<Vec<Arc<Pod>>>;
}

/// The pod cache of a controller.
impl SelectPods for PodLookup {
    fn select(&self, namespace: &str, selector: &Selector) -> Option<Vec<Arc<Pod>>> {
        // The inherent method.
        self.select(namespace, selector)
    }
}

/// The pods that a command has read, by namespace and selector.
#[derive(Default)]
pub(crate) struct FetchedPods(RwLock<Vec<Weak<PodSelection>>>);

/// The pods that match a selector in a namespace. [`FetchedPods`] returns those of the newest
/// selection that is not dropped.
pub(crate) struct PodSelection {
    namespace: String,
    selector: Selector,
    pods: Vec<Arc<Pod>>,
}

impl FetchedPods {
    /// Adds the pods that match a selector in a namespace, until the returned selection is dropped.
    pub(crate) fn add(
        &self,
        namespace: &str,
        selector: &Selector,
        pods: Vec<Arc<Pod>>,
    ) -> Arc<PodSelection> {
        let (namespace, selector) = (namespace.to_owned(), selector.clone());
        let selection = Arc::new(PodSelection { namespace, selector, pods });
        let mut selections = self.0.write();
        selections.retain(|selection| selection.strong_count() > 0);
        selections.push(Arc::downgrade(&selection));
        selection
    }
}

impl SelectPods for Arc<FetchedPods> {
    fn select(&self, namespace: &str, selector: &Selector) -> Option<Vec<Arc<Pod>>> {
        let selections = self.0.read();
        let mut newest_first = selections.iter().rev().filter_map(Weak::upgrade);
        let is_same = |selection: &Arc<PodSelection>| {
            selection.namespace == namespace && selection.selector == *selector
        };
        newest_first.find(is_same).map(|selection| selection.pods.clone())
    }
}

/// Lists pods, and no other objects, from a cache.
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
            labels: pod.labels.iter().map(|(key, value)| (key, value)).collect(),
        });
        Ok(metadata.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fetched_pods_are_cached_by_namespace_and_selector_until_dropped() {
        let fetched = Arc::new(FetchedPods::default());
        let selector = |text: &str| Selector::parse(text).unwrap();
        let pods = |names: &[&str]| {
            let pod = |name: &&str| {
                let pod = serde_json::json!({ "metadata": { "name": name } });
                Arc::new(serde_json::from_value(pod).unwrap())
            };
            names.iter().map(pod).collect::<Vec<_>>()
        };
        let names = |namespace: &str, text: &str| {
            let pods = fetched.select(namespace, &selector(text))?;
            Some(pods.iter().map(|pod| pod.name.to_string()).collect::<Vec<_>>())
        };
        let old = fetched.add("shop", &selector("app=web"), pods(&["old"]));
        let new = fetched.add("shop", &selector("app=web"), pods(&["new"]));
        let other = fetched.add("test", &selector("app=web"), pods(&["other"]));
        assert_eq!(names("shop", "app=web"), Some(vec!["new".to_owned()]));
        assert_eq!(names("test", "app=web"), Some(vec!["other".to_owned()]));
        assert_eq!(names("shop", "app=db"), None);
        drop(new);
        assert_eq!(names("shop", "app=web"), Some(vec!["old".to_owned()]));
        drop((old, other));
        assert_eq!(names("shop", "app=web"), None);
        assert_eq!(names("test", "app=web"), None);
    }
}
