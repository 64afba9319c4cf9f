//! A model of the store of kube-metrics-adapter.

use std::collections::BTreeMap;

use hpa_calc::Selector;
use hpa_collectors::Compat;
use hpa_metrics::resource::GroupResource;
use jiff::{SignedDuration, Timestamp};

type Labels = BTreeMap<String, String>;

/// The resource under which kube-metrics-adapter stores values of a kind. Empty for kinds without a
/// collector: their values can't be read.
pub(crate) fn stored_resource(kind: &str, api_version: &str) -> GroupResource {
    let (resource, default_group) = match kind {
        "Pod" => return GroupResource::pods(),
        "Ingress" => ("ingresses", "networking.k8s.io"),
        "RouteGroup" => ("routegroups", "zalando.org"),
        "ScalingSchedule" => ("scalingschedules", "zalando.org"),
        "ClusterScalingSchedule" => ("clusterscalingschedules", "zalando.org"),
        _ => return GroupResource::default(),
    };
    let group = match api_version.split('/').collect::<Vec<_>>().as_slice() {
        [_version] => "",
        [group, _version] => group,
        _ => default_group,
    };
    GroupResource::new(group, resource)
}

/// A metric of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ObjectKey {
    pub(crate) metric: String,
    pub(crate) resource: GroupResource,
    /// Empty for cluster-scoped objects.
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// A value with the time of its collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CollectedValue<V> {
    pub(crate) value: V,
    /// The labels of the metric's selector or, for a pod, of its target's selector. `None` if there
    /// is no selector.
    pub(crate) labels: Option<Labels>,
    pub(crate) at: Timestamp,
}

/// Values of objects and external values. Reads leave out expired values, except with
/// [`Compat::Reference`]: then expired values are returned until [`Self::remove_expired`].
#[derive(Debug)]
pub(crate) struct Store<V> {
    max_age: SignedDuration,
    compat: Compat,
    objects: BTreeMap<ObjectKey, BTreeMap<Labels, CollectedValue<V>>>,
    external: BTreeMap<(String, String), BTreeMap<Labels, CollectedValue<V>>>,
}

impl<V> Store<V> {
    pub(crate) fn new(max_age: SignedDuration, compat: Compat) -> Self {
        Self { max_age, compat, objects: BTreeMap::new(), external: BTreeMap::new() }
    }

    /// Stores a value of an object. Replaces one with equal labels.
    pub(crate) fn insert(&mut self, key: ObjectKey, stored: CollectedValue<V>) {
        let labels = stored.labels.clone().unwrap_or_default();
        self.objects.entry(key).or_default().insert(labels, stored);
    }

    /// Stores an external value. Replaces one with equal labels.
    pub(crate) fn insert_external(
        &mut self,
        namespace: &str,
        metric: &str,
        stored: CollectedValue<V>,
    ) {
        let key = (namespace.to_owned(), metric.to_owned());
        let labels = stored.labels.clone().unwrap_or_default();
        self.external.entry(key).or_default().insert(labels, stored);
    }

    /// The values of objects whose labels match, in one namespace or in all. `None` if no object of
    /// the resource has the metric in any namespace.
    pub(crate) fn by_selector(
        &self,
        metric: &str,
        resource: &GroupResource,
        namespace: Option<&str>,
        selector: &Selector,
        now: Timestamp,
    ) -> Option<Vec<&CollectedValue<V>>> {
        let mut is_known = false;
        let mut matching = Vec::new();
        for (key, values) in self.values_of_metric(metric, resource) {
            let readable = values.values().filter(|stored| self.is_readable(stored, now));
            for stored in readable {
                is_known = true;
                let is_in_scope = namespace.is_none_or(|namespace| key.namespace == namespace);
                // A value without labels matches no selector. kube-metrics-adapter panics if it
                // reads such a value from all namespaces.
                let matches = |labels: &Labels| selector.matches(labels);
                if is_in_scope && stored.labels.as_ref().is_some_and(matches) {
                    matching.push(stored);
                }
            }
        }
        is_known.then_some(matching)
    }

    /// A value of one object whose labels match. If there are several, the first one in the order
    /// of their labels. Without a namespace, an object of any namespace is read, as in
    /// kube-metrics-adapter.
    pub(crate) fn by_name(
        &self,
        metric: &str,
        resource: &GroupResource,
        namespace: Option<&str>,
        name: &str,
        selector: &Selector,
        now: Timestamp,
    ) -> Option<&CollectedValue<V>> {
        let is_object = |key: &ObjectKey| {
            key.name == name && namespace.is_none_or(|namespace| key.namespace == namespace)
        };
        self.values_of_metric(metric, resource)
            .filter(|(key, _)| is_object(key))
            .flat_map(|(_, values)| values)
            .find(|(labels, stored)| selector.matches(*labels) && self.is_readable(stored, now))
            .map(|(_, stored)| stored)
    }

    /// The values of an external metric whose labels match.
    pub(crate) fn external(
        &self,
        namespace: &str,
        metric: &str,
        selector: &Selector,
        now: Timestamp,
    ) -> Vec<&CollectedValue<V>> {
        let values = self.external.get(&(namespace.to_owned(), metric.to_owned()));
        let values = values.into_iter().flatten();
        values
            .filter(|(labels, stored)| selector.matches(*labels) && self.is_readable(stored, now))
            .map(|(_, stored)| stored)
            .collect()
    }

    /// The distinct metrics, resources and namespaces of all values of objects.
    pub(crate) fn metrics(&self) -> Vec<(&str, &GroupResource, &str)> {
        let keys = self.objects.keys();
        let mut metrics: Vec<_> =
            keys.map(|key| (key.metric.as_str(), &key.resource, key.namespace.as_str())).collect();
        metrics.dedup();
        metrics
    }

    /// The distinct namespaces and metrics of all external values.
    pub(crate) fn external_metrics(&self) -> impl Iterator<Item = (&str, &str)> {
        self.external.keys().map(|(namespace, metric)| (namespace.as_str(), metric.as_str()))
    }

    /// Removes expired values.
    pub(crate) fn remove_expired(&mut self, now: Timestamp) {
        let max_age = self.max_age;
        let keep = |values: &mut BTreeMap<Labels, CollectedValue<V>>| {
            values.retain(|_, stored| now.duration_since(stored.at) <= max_age);
            !values.is_empty()
        };
        self.objects.retain(|_, values| keep(values));
        self.external.retain(|_, values| keep(values));
    }

    fn values_of_metric<'s>(
        &'s self,
        metric: &str,
        resource: &GroupResource,
    ) -> impl Iterator<Item = (&'s ObjectKey, &'s BTreeMap<Labels, CollectedValue<V>>)> {
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

    fn is_readable(&self, stored: &CollectedValue<V>, now: Timestamp) -> bool {
        self.compat == Compat::Reference || now.duration_since(stored.at) <= self.max_age
    }
}
