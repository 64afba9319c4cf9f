//! Collected values, with a bounded age.

use std::collections::BTreeMap;

use hpa_calc::Selector;
use jiff::{SignedDuration, Timestamp};

use crate::Compat;

type Labels = BTreeMap<String, String>;

/// A resource of the API: its plural, and its group.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "as in the API")]
pub struct GroupResource {
    pub resource: String,
    pub group: String,
}

impl GroupResource {
    /// The resource under which the reference stores a kind. Of other kinds than those of its
    /// collectors it is empty, so that their values can't be read.
    pub fn for_kind(kind: &str, api_version: &str) -> Self {
        let (resource, default_group) = match kind {
            "Pod" => return Self { resource: "pods".to_owned(), group: String::new() },
            "Ingress" => ("ingresses", "networking.k8s.io"),
            "RouteGroup" => ("routegroups", "zalando.org"),
            "ScalingSchedule" => ("scalingschedules", "zalando.org"),
            "ClusterScalingSchedule" => ("clusterscalingschedules", "zalando.org"),
            _ => return Self::default(),
        };
        let group = match api_version.split('/').collect::<Vec<_>>().as_slice() {
            [_version] => "",
            [group, _version] => group,
            _ => default_group,
        };
        Self { resource: resource.to_owned(), group: group.to_owned() }
    }
}

/// A metric of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "as in the API")]
pub struct ObjectKey {
    pub metric: String,
    pub resource: GroupResource,
    /// Empty for an object of the cluster.
    pub namespace: String,
    pub name: String,
}

/// A value, and when it was collected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored<V> {
    /// The value.
    pub value: V,
    /// The labels of the metric's selector. `None` without a selector.
    pub labels: Option<Labels>,
    /// When it was collected.
    pub at: Timestamp,
}

/// Values of objects and external values. By default, a read returns only values that are not older
/// than the bound. The reference returns a value until [`Self::remove_expired`] has removed it.
#[derive(Debug)]
pub struct Store<V> {
    max_age: SignedDuration,
    compat: Compat,
    objects: BTreeMap<ObjectKey, BTreeMap<Labels, Stored<V>>>,
    external: BTreeMap<(String, String), BTreeMap<Labels, Stored<V>>>,
}

impl<V> Store<V> {
    /// An empty store.
    pub fn new(max_age: SignedDuration, compat: Compat) -> Self {
        Self { max_age, compat, objects: BTreeMap::new(), external: BTreeMap::new() }
    }

    /// Stores a value of an object. It replaces one with equal labels.
    pub fn insert(&mut self, key: ObjectKey, stored: Stored<V>) {
        let labels = stored.labels.clone().unwrap_or_default();
        self.objects.entry(key).or_default().insert(labels, stored);
    }

    /// Stores an external value. It replaces one with equal labels.
    pub fn insert_external(&mut self, namespace: &str, metric: &str, stored: Stored<V>) {
        let key = (namespace.to_owned(), metric.to_owned());
        let labels = stored.labels.clone().unwrap_or_default();
        self.external.entry(key).or_default().insert(labels, stored);
    }

    /// The values of the objects in a namespace, or in all of them, whose labels match. `None` if
    /// there is no value of the metric for any object of the resource.
    pub fn by_selector(
        &self,
        metric: &str,
        resource: &GroupResource,
        namespace: Option<&str>,
        selector: &Selector,
        now: Timestamp,
    ) -> Option<Vec<&Stored<V>>> {
        let mut is_known = false;
        let mut found = Vec::new();
        for (key, values) in self.of_metric(metric, resource) {
            let fresh = values.values().filter(|stored| self.is_readable(stored, now));
            for stored in fresh {
                is_known = true;
                let is_in_scope = namespace.is_none_or(|namespace| key.namespace == namespace);
                // A value without a selector matches none. The reference panics on one if all
                // namespaces are read.
                let matches = |labels: &Labels| selector.matches(labels);
                if is_in_scope && stored.labels.as_ref().is_some_and(matches) {
                    found.push(stored);
                }
            }
        }
        is_known.then_some(found)
    }

    /// The value of one object whose labels match: of several, that with the first labels. Without
    /// a namespace, the object can be in any, as in the reference.
    pub fn by_name(
        &self,
        metric: &str,
        resource: &GroupResource,
        namespace: Option<&str>,
        name: &str,
        selector: &Selector,
        now: Timestamp,
    ) -> Option<&Stored<V>> {
        let is_object = |key: &ObjectKey| {
            key.name == name && namespace.is_none_or(|namespace| key.namespace == namespace)
        };
        self.of_metric(metric, resource)
            .filter(|(key, _)| is_object(key))
            .flat_map(|(_, values)| values)
            .find(|(labels, stored)| selector.matches(*labels) && self.is_readable(stored, now))
            .map(|(_, stored)| stored)
    }

    /// The values of an external metric whose labels match.
    pub fn external(
        &self,
        namespace: &str,
        metric: &str,
        selector: &Selector,
        now: Timestamp,
    ) -> Vec<&Stored<V>> {
        let values = self.external.get(&(namespace.to_owned(), metric.to_owned()));
        let values = values.into_iter().flatten();
        values
            .filter(|(labels, stored)| selector.matches(*labels) && self.is_readable(stored, now))
            .map(|(_, stored)| stored)
            .collect()
    }

    /// Metric, resource and namespace of all values of objects, once each.
    pub fn metrics(&self) -> Vec<(&str, &GroupResource, &str)> {
        let keys = self.objects.keys();
        let mut metrics: Vec<_> =
            keys.map(|key| (key.metric.as_str(), &key.resource, key.namespace.as_str())).collect();
        metrics.dedup();
        metrics
    }

    /// Namespace and metric of all external values, once each.
    pub fn external_metrics(&self) -> impl Iterator<Item = (&str, &str)> {
        self.external.keys().map(|(namespace, metric)| (namespace.as_str(), metric.as_str()))
    }

    /// Removes the values of an object that no longer exists.
    pub fn remove_object(&mut self, resource: &GroupResource, namespace: &str, name: &str) {
        self.objects.retain(|key, _| {
            key.resource != *resource || key.namespace != namespace || key.name != name
        });
    }

    /// Removes an external metric that no autoscaler has any more.
    pub fn remove_external(&mut self, namespace: &str, metric: &str, labels: &Labels) {
        let key = (namespace.to_owned(), metric.to_owned());
        if let Some(values) = self.external.get_mut(&key) {
            values.remove(labels);
            if values.is_empty() {
                self.external.remove(&key);
            }
        }
    }

    /// Removes values that are too old.
    pub fn remove_expired(&mut self, now: Timestamp) {
        let max_age = self.max_age;
        let keep = |values: &mut BTreeMap<Labels, Stored<V>>| {
            values.retain(|_, stored| now.duration_since(stored.at) <= max_age);
            !values.is_empty()
        };
        self.objects.retain(|_, values| keep(values));
        self.external.retain(|_, values| keep(values));
    }

    /// Whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.external.is_empty()
    }

    fn of_metric<'s>(
        &'s self,
        metric: &str,
        resource: &GroupResource,
    ) -> impl Iterator<Item = (&'s ObjectKey, &'s BTreeMap<Labels, Stored<V>>)> {
        let first = ObjectKey {
            metric: metric.to_owned(),
            resource: resource.clone(),
            namespace: String::new(),
            name: String::new(),
        };
        let (metric, resource) = (metric.to_owned(), resource.clone());
        self.objects
            .range(first..)
            .take_while(move |(key, _)| key.metric == metric && key.resource == resource)
    }

    fn is_readable(&self, stored: &Stored<V>, now: Timestamp) -> bool {
        self.compat == Compat::KubeMetricsAdapter || now.duration_since(stored.at) <= self.max_age
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).expect("a time")
    }

    fn pod(name: &str) -> ObjectKey {
        ObjectKey {
            metric: "rps".to_owned(),
            resource: GroupResource::for_kind("Pod", "v1"),
            namespace: "shop".to_owned(),
            name: name.to_owned(),
        }
    }

    fn store(compat: Compat) -> Store<u32> {
        let mut store = Store::new(SignedDuration::from_secs(60), compat);
        let labels = Some(Labels::from([("app".to_owned(), "web".to_owned())]));
        for (name, value) in [("web-0", 1), ("web-1", 2)] {
            store.insert(pod(name), Stored { value, labels: labels.clone(), at: at(0) });
        }
        store.insert_external("shop", "lag", Stored { value: 3, labels, at: at(0) });
        store
    }

    fn values(store: &Store<u32>, now: Timestamp) -> Option<Vec<u32>> {
        let selector = Selector::parse("app=web").expect("a selector");
        let resource = GroupResource::for_kind("Pod", "v1");
        let found = store.by_selector("rps", &resource, Some("shop"), &selector, now);
        found.map(|found| found.iter().map(|stored| stored.value).collect())
    }

    #[test]
    fn value_is_not_read_after_its_bounded_age() {
        let everything = Selector::everything();
        let own = store(Compat::Off);
        assert_eq!(values(&own, at(60)), Some(vec![1, 2]));
        assert_eq!(values(&own, at(61)), None);
        assert!(own.external("shop", "lag", &everything, at(61)).is_empty());
        let reference = store(Compat::KubeMetricsAdapter);
        assert_eq!(values(&reference, at(10_000)), Some(vec![1, 2]));
    }

    #[test]
    fn values_of_a_deleted_pod_disappear_at_once() {
        let mut store = store(Compat::Off);
        store.remove_object(&GroupResource::for_kind("Pod", "v1"), "shop", "web-0");
        assert_eq!(values(&store, at(1)), Some(vec![2]));
        store.remove_object(&GroupResource::for_kind("Pod", "v1"), "shop", "web-1");
        assert_eq!(values(&store, at(1)), None);
        store.remove_external("shop", "lag", &Labels::from([("app".to_owned(), "web".to_owned())]));
        assert!(store.is_empty());
    }

    #[test]
    fn nothing_remains_of_many_metrics_that_are_gone() {
        let mut store = Store::new(SignedDuration::from_secs(60), Compat::Off);
        for index in 0..10_000 {
            let stored = Stored { value: index, labels: None, at: at(0) };
            store.insert(ObjectKey { metric: format!("m{index}"), ..pod("web-0") }, stored.clone());
            store.insert_external("shop", &format!("m{index}"), stored);
        }
        store.remove_expired(at(61));
        assert!(store.is_empty());
    }

    #[test]
    fn value_without_a_selector_matches_none_and_is_found_by_name() {
        let mut store = store(Compat::Off);
        store.insert(pod("solo"), Stored { value: 9, labels: None, at: at(0) });
        let (resource, everything) = (GroupResource::for_kind("Pod", ""), Selector::everything());
        let all = store.by_selector("rps", &resource, None, &everything, at(0));
        assert_eq!(all.map(|found| found.len()), Some(2));
        let found = store.by_name("rps", &resource, Some("shop"), "solo", &everything, at(0));
        assert_eq!(found.map(|stored| stored.value), Some(9));
    }
}
