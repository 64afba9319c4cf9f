//! The input of the checks: objects, and the metrics that are served.

use std::{collections::BTreeSet, ptr};

use hpa_controller::AutoscalerApi;

use super::{
    index::{self, Index},
    object::{Reference, is_autoscaler, namespace},
    served::ServedMetrics,
};
use crate::{collectors::InProcessSources, manifests::Manifest};

/// Objects from files or from a cluster.
#[derive(Default)]
pub(super) struct Workspace {
    objects: Vec<Manifest>,
    index: Index,
    /// Group and kind of the lists that succeeded. `None` for objects from files.
    listed_kinds: Option<BTreeSet<(String, String)>>,
    /// The metrics that the cluster or a rules file serves. `None` if unknown.
    pub(super) served: Option<ServedMetrics>,
    pub(super) in_process_sources: InProcessSources,
}

impl Workspace {
    pub(super) fn from_manifests(objects: Vec<Manifest>) -> Self {
        Self { index: Index::new(&objects), objects, ..Self::default() }
    }

    pub(super) fn from_cluster(
        objects: Vec<Manifest>,
        listed_kinds: BTreeSet<(String, String)>,
        served: ServedMetrics,
    ) -> Self {
        let (listed_kinds, served) = (Some(listed_kinds), Some(served));
        let index = Index::new(&objects);
        Self { objects, index, listed_kinds, served, ..Self::default() }
    }

    /// Sets the namespace of the objects that have none, as `kubectl apply --namespace` does.
    pub(super) fn set_namespace(&mut self, name: Option<&str>) {
        let Some(name) = name else { return };
        for manifest in &mut self.objects {
            if namespace(manifest).is_empty()
                && let Some(metadata) = manifest.object.get_mut("metadata")
                && let Some(metadata) = metadata.as_object_mut()
            {
                metadata.insert("namespace".to_owned(), name.into());
            }
        }
        self.index = Index::new(&self.objects);
    }

    /// Whether the objects are from files, not from a cluster.
    pub(super) fn is_from_files(&self) -> bool {
        self.listed_kinds.is_none()
    }

    /// Whether the workspace has all objects of the reference's kind in the checked namespaces.
    pub(super) fn has_all_of_kind(&self, reference: &Reference) -> bool {
        let kind = (reference.group.clone(), reference.kind.clone());
        self.listed_kinds.as_ref().is_some_and(|kinds| kinds.contains(&kind))
    }

    pub(super) fn objects(&self) -> impl Iterator<Item = &Manifest> {
        self.objects.iter()
    }

    pub(super) fn autoscalers(&self) -> impl Iterator<Item = &Manifest> {
        self.objects.iter().filter(|manifest| is_autoscaler(manifest))
    }

    /// The object to which `from` refers, in the same namespace. A manifest without a namespace may
    /// be in any.
    pub(super) fn referenced_object(
        &self,
        from: &Manifest,
        reference: &Reference,
    ) -> Option<&Manifest> {
        self.object_for(namespace(from), reference)
    }

    /// The object to which a manifest of this namespace refers, as in [`Self::referenced_object`].
    fn object_for(&self, namespace: &str, reference: &Reference) -> Option<&Manifest> {
        let elsewhere = || match namespace {
            "" => self.index.first_in_a_namespace.get(reference).copied(),
            _ => self.index.objects("", reference).first().copied(),
        };
        let first = self.index.objects(namespace, reference).first().copied();
        self.objects.get(first.or_else(elsewhere)?)
    }

    /// Whether the namespace of `from` has the object.
    pub(super) fn has_in_namespace(&self, from: &Manifest, reference: &Reference) -> bool {
        !self.index.objects(namespace(from), reference).is_empty()
    }

    /// The objects after `object` with the same namespace, group, kind and name.
    pub(super) fn later_namesakes(&self, object: &Manifest) -> impl Iterator<Item = &Manifest> {
        let namesakes = self.index.objects(namespace(object), &Reference::to(object));
        // The objects are in one vector, so their addresses have the order of their indexes.
        let is_later = |at: &usize| {
            self.objects.get(*at).is_some_and(|other| ptr::from_ref(other) > ptr::from_ref(object))
        };
        let first_later = namesakes.partition_point(|at| !is_later(at));
        self.at(namesakes.get(first_later..).unwrap_or_default())
    }

    /// The autoscalers of one API in the namespace of `from` with this target. Those with equal
    /// names, such as those of several environments, count as one.
    pub(super) fn autoscalers_of(
        &self,
        api: AutoscalerApi,
        from: &Manifest,
        target: &Reference,
    ) -> impl Iterator<Item = &Manifest> {
        self.at(self.index.autoscalers(api, namespace(from), target))
    }

    /// The autoscalers of one API that may share the target of the autoscaler `from`. One of both
    /// manifests has no namespace, and both references lead to the same object.
    pub(super) fn possible_autoscalers_of(
        &self,
        api: AutoscalerApi,
        from: &Manifest,
        target: &Reference,
    ) -> impl Iterator<Item = &Manifest> {
        let found: &[usize] = match (self.referenced_object(from, target), namespace(from)) {
            (None, _) => &[],
            (Some(object), "") if namespace(object).is_empty() => {
                index::get(&self.index.autoscalers_without_target, &(api, target.clone()))
            }
            (Some(object), "") => self.index.autoscalers(api, namespace(object), target),
            (Some(object), _) => {
                let fits = self.object_for("", target).is_some_and(|one| ptr::eq(one, object));
                if fits { self.index.autoscalers(api, "", target) } else { &[] }
            }
        };
        self.at(found)
    }

    /// KEDA's `ScaledObject`s in the namespace of `from` with this target.
    pub(super) fn scaled_objects_of(
        &self,
        from: &Manifest,
        target: &Reference,
    ) -> impl Iterator<Item = &Manifest> {
        self.at(index::get(&self.index.scaled_objects, &key(from, target)))
    }

    /// The `VerticalPodAutoscaler`s in the namespace of `from` with this target.
    pub(super) fn vertical_autoscalers_of(
        &self,
        from: &Manifest,
        target: &Reference,
    ) -> impl Iterator<Item = &Manifest> {
        self.at(index::get(&self.index.vertical_autoscalers, &key(from, target)))
    }

    /// The objects that create pods and have no owner, in the namespace of `from`. May leave out
    /// objects whose pods lack one of the labels.
    pub(super) fn workloads<'a>(
        &self,
        from: &Manifest,
        labels: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> impl Iterator<Item = &Manifest> {
        self.at(self.index.workloads(namespace(from), labels))
    }

    /// The first object with this group, kind and name, in any namespace, that has pods and that no
    /// autoscaler scales.
    pub(super) fn unscaled_anywhere(&self, reference: &Reference) -> Option<&Manifest> {
        self.objects.get(*self.index.unscaled.get(reference)?)
    }

    /// The first object of any kind in the namespace of `from` with this name, if it has pods and
    /// no autoscaler scales it.
    pub(super) fn unscaled_by_name(&self, from: &Manifest, name: &str) -> Option<&Manifest> {
        let key = (namespace(from).to_owned(), name.to_owned());
        self.objects.get(*self.index.unscaled_by_name.get(&key)?)
    }

    /// The objects of the reference's group and kind, in the namespace of `from`, that have pods
    /// and that no autoscaler scales.
    pub(super) fn unscaled_of_kind(
        &self,
        from: &Manifest,
        reference: &Reference,
    ) -> impl Iterator<Item = &Manifest> {
        let Reference { group, kind, .. } = reference.clone();
        let key = (namespace(from).to_owned(), group, kind);
        self.at(index::get(&self.index.unscaled_by_kind, &key))
    }

    /// Whether a `LimitRange` in the namespace of `from` sets a default request for the resource.
    pub(super) fn has_default_request(&self, from: &Manifest, resource: &str) -> bool {
        self.index.default_requests.contains(&(namespace(from).to_owned(), resource.to_owned()))
    }

    /// Whether the definition of a custom resource has a scale without `labelSelectorPath`.
    pub(super) fn lacks_selector(&self, reference: &Reference) -> bool {
        let Reference { group, kind, .. } = reference.clone();
        self.index.kinds_without_selector.contains(&(group, kind))
    }

    fn at<'a>(&'a self, indexes: &'a [usize]) -> impl Iterator<Item = &'a Manifest> {
        indexes.iter().filter_map(|at| self.objects.get(*at))
    }
}

/// The namespace of an object, and the target that it refers to.
fn key(from: &Manifest, target: &Reference) -> (String, Reference) {
    (namespace(from).to_owned(), target.clone())
}
