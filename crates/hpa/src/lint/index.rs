//! Indexes of a workspace's objects. With them, the work of a rule for one autoscaler doesn't grow
//! with the number of objects, so the work of a check is linear in the size of its input.

use std::collections::{HashMap, HashSet};

use hpa_controller::AutoscalerApi;
use serde_json::Value;

use super::object::{
    Reference, TARGET_POINTER, autoscaler_api, group, is_autoscaler, is_scalable, namespace,
    pod_template, qualified_name,
};
use crate::manifests::{Manifest, string_at};

const KEDA: &str = "keda.sh";

/// Indexes of objects by namespace and reference.
type ByReference = HashMap<(String, Reference), Vec<usize>>;

/// Indexes into the objects of a workspace, each in the order of the objects.
#[derive(Default)]
pub(super) struct Index {
    objects: ByReference,
    /// The first object with a namespace, by group, kind and name.
    first_in_a_namespace: HashMap<Reference, usize>,
    /// By the target. Autoscalers with equal API, namespace and name count as one: the first.
    autoscalers: HashMap<(AutoscalerApi, String, Reference), Vec<usize>>,
    /// The autoscalers in a namespace that doesn't have their target, by the target.
    autoscalers_without_target: HashMap<(AutoscalerApi, Reference), Vec<usize>>,
    /// KEDA's `ScaledObject`s by their target.
    scaled_objects: ByReference,
    /// `VerticalPodAutoscaler`s by their target.
    vertical_autoscalers: ByReference,
    /// Namespace and resource of the default requests of `LimitRange`s.
    default_requests: HashSet<(String, String)>,
    /// Group and kind of custom resources that have a scale without `labelSelectorPath`.
    kinds_without_selector: HashSet<(String, String)>,
    /// Objects with pods and without an owner, by namespace.
    workloads: HashMap<String, Vec<usize>>,
    /// The objects of `workloads` by namespace, and by key and value of a label of their pods.
    workloads_by_label: HashMap<(String, String, String), Vec<usize>>,
    unscaled: UnscaledObjects,
}

/// The objects with pods and a scale that no autoscaler has as its target.
#[derive(Default)]
struct UnscaledObjects {
    /// The first by group, kind and name, in any namespace.
    anywhere: HashMap<Reference, usize>,
    /// The first by namespace and name, of any kind.
    by_name: HashMap<(String, String), usize>,
    /// By namespace, group and kind.
    by_kind: HashMap<(String, String, String), Vec<usize>>,
}

impl Index {
    pub(super) fn new(objects: &[Manifest]) -> Self {
        let mut index = Self::default();
        for (at, object) in objects.iter().enumerate() {
            index.add_object(at, object);
            index.add_workload(at, object);
            match object.kind() {
                "ScaledObject" => index.add_scaled_object(at, object),
                "VerticalPodAutoscaler" => {
                    let target = Reference::at(&object.object, "/spec/targetRef");
                    add(&mut index.vertical_autoscalers, (owned_namespace(object), target), at);
                }
                "LimitRange" => index.add_default_requests(object),
                "CustomResourceDefinition" => index.add_definition(object),
                _ => {}
            }
        }
        let mut identities = HashSet::new();
        for (at, object) in objects.iter().enumerate().filter(|(_, one)| is_autoscaler(one)) {
            let target = Reference::at(&object.object, TARGET_POINTER);
            if identities.insert((autoscaler_api(object), qualified_name(object), target.clone())) {
                index.add_autoscaler(at, object, target);
            }
        }
        for (at, object) in objects.iter().enumerate() {
            index.add_unscaled(at, object);
        }
        index
    }

    fn add_object(&mut self, at: usize, object: &Manifest) {
        let reference = Reference::to(object);
        if !namespace(object).is_empty() {
            self.first_in_a_namespace.entry(reference.clone()).or_insert(at);
        }
        add(&mut self.objects, (owned_namespace(object), reference), at);
    }

    fn add_workload(&mut self, at: usize, object: &Manifest) {
        // An object with an owner is a part of a workload, such as a Deployment's ReplicaSet.
        let has_owner = object.object.pointer("/metadata/ownerReferences").is_some();
        let Some(template) = pod_template(&object.object).filter(|_| !has_owner) else { return };
        add(&mut self.workloads, owned_namespace(object), at);
        let labels = template.pointer("/metadata/labels").and_then(Value::as_object);
        for (name, value) in labels.into_iter().flatten() {
            let Some(value) = value.as_str() else { continue };
            let label = (owned_namespace(object), name.clone(), value.to_owned());
            add(&mut self.workloads_by_label, label, at);
        }
    }

    fn add_scaled_object(&mut self, at: usize, object: &Manifest) {
        if group(string_at(&object.object, "/apiVersion")) != KEDA {
            return;
        }
        let reference = object.object.pointer(TARGET_POINTER).unwrap_or(&Value::Null);
        let text_or = |pointer, default| match string_at(reference, pointer) {
            "" => default,
            value => value,
        };
        let target = Reference {
            group: group(text_or("/apiVersion", "apps/v1")).to_owned(),
            kind: text_or("/kind", "Deployment").to_owned(),
            name: string_at(reference, "/name").to_owned(),
        };
        add(&mut self.scaled_objects, (owned_namespace(object), target), at);
    }

    /// The API server derives missing defaults from the default limit, the minimum or the maximum.
    fn add_default_requests(&mut self, object: &Manifest) {
        let limits = object.object.pointer("/spec/limits").and_then(Value::as_array);
        let limits = limits.into_iter().flatten();
        for limit in limits.filter(|limit| string_at(limit, "/type") == "Container") {
            let members = ["defaultRequest", "default", "min", "max"];
            let members = members.iter().filter_map(|member| limit.get(member)?.as_object());
            for resource in members.flat_map(serde_json::Map::keys) {
                self.default_requests.insert((owned_namespace(object), resource.clone()));
            }
        }
    }

    fn add_definition(&mut self, definition: &Manifest) {
        let versions = definition.object.pointer("/spec/versions").and_then(Value::as_array);
        let mut scales = versions.into_iter().flatten().filter_map(|version| {
            version
                .pointer("/subresources/scale")
                .map(|scale| string_at(scale, "/labelSelectorPath"))
        });
        if scales.any(str::is_empty) {
            let at = |pointer| string_at(&definition.object, pointer).to_owned();
            self.kinds_without_selector.insert((at("/spec/group"), at("/spec/names/kind")));
        }
    }

    fn add_autoscaler(&mut self, at: usize, object: &Manifest, target: Reference) {
        let (api, namespace) = (autoscaler_api(object), owned_namespace(object));
        if !namespace.is_empty() && self.objects(&namespace, &target).is_empty() {
            add(&mut self.autoscalers_without_target, (api, target.clone()), at);
        }
        add(&mut self.autoscalers, (api, namespace, target), at);
    }

    fn add_unscaled(&mut self, at: usize, object: &Manifest) {
        let reference = Reference::to(object);
        let has_autoscaler =
            |api: AutoscalerApi| !self.autoscalers(api, namespace(object), &reference).is_empty();
        let is_scaled = || AutoscalerApi::ALL.into_iter().any(has_autoscaler);
        if pod_template(&object.object).is_none() || !is_scalable(&reference) || is_scaled() {
            return;
        }
        self.unscaled.anywhere.entry(reference.clone()).or_insert(at);
        let Reference { group, kind, name } = reference;
        self.unscaled.by_name.entry((owned_namespace(object), name)).or_insert(at);
        add(&mut self.unscaled.by_kind, (owned_namespace(object), group, kind), at);
    }

    /// The objects of a namespace with this group, kind and name.
    pub(super) fn objects(&self, namespace: &str, reference: &Reference) -> &[usize] {
        get(&self.objects, &(namespace.to_owned(), reference.clone()))
    }

    /// The first object with any namespace, and with this group, kind and name.
    pub(super) fn first_in_a_namespace(&self, reference: &Reference) -> Option<usize> {
        self.first_in_a_namespace.get(reference).copied()
    }

    /// The autoscalers of a namespace with this target. Those with equal names count as one.
    pub(super) fn autoscalers(
        &self,
        api: AutoscalerApi,
        namespace: &str,
        target: &Reference,
    ) -> &[usize] {
        get(&self.autoscalers, &(api, namespace.to_owned(), target.clone()))
    }

    /// The autoscalers with this target in the namespaces that don't have it.
    pub(super) fn autoscalers_without_target(
        &self,
        api: AutoscalerApi,
        target: &Reference,
    ) -> &[usize] {
        get(&self.autoscalers_without_target, &(api, target.clone()))
    }

    /// The `ScaledObject`s of a namespace with this target.
    pub(super) fn scaled_objects(&self, namespace: &str, target: &Reference) -> &[usize] {
        get(&self.scaled_objects, &(namespace.to_owned(), target.clone()))
    }

    /// The `VerticalPodAutoscaler`s of a namespace with this target.
    pub(super) fn vertical_autoscalers(&self, namespace: &str, target: &Reference) -> &[usize] {
        get(&self.vertical_autoscalers, &(namespace.to_owned(), target.clone()))
    }

    /// Whether a `LimitRange` of the namespace sets a default request for the resource.
    pub(super) fn has_default_request(&self, namespace: &str, resource: &str) -> bool {
        self.default_requests.contains(&(namespace.to_owned(), resource.to_owned()))
    }

    /// Whether the definition of a custom resource has a scale without `labelSelectorPath`.
    pub(super) fn lacks_selector(&self, group: &str, kind: &str) -> bool {
        self.kinds_without_selector.contains(&(group.to_owned(), kind.to_owned()))
    }

    /// The objects with pods in a namespace. If there are labels, only those whose pods have the
    /// rarest of these labels.
    pub(super) fn workloads<'a>(
        &self,
        namespace: &str,
        labels: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> &[usize] {
        let with_label = |(name, value): (&str, &str)| {
            let label = (namespace.to_owned(), name.to_owned(), value.to_owned());
            get(&self.workloads_by_label, &label)
        };
        let rarest = labels.map(with_label).min_by_key(|workloads| workloads.len());
        rarest.unwrap_or_else(|| get(&self.workloads, &namespace.to_owned()))
    }

    /// The first object with this group, kind and name, in any namespace, that no autoscaler
    /// scales.
    pub(super) fn unscaled_anywhere(&self, reference: &Reference) -> Option<usize> {
        self.unscaled.anywhere.get(reference).copied()
    }

    /// The first object of any kind with this name that no autoscaler scales.
    pub(super) fn unscaled_by_name(&self, namespace: &str, name: &str) -> Option<usize> {
        self.unscaled.by_name.get(&(namespace.to_owned(), name.to_owned())).copied()
    }

    /// The objects of the reference's group and kind that no autoscaler scales.
    pub(super) fn unscaled_of_kind(&self, namespace: &str, reference: &Reference) -> &[usize] {
        let Reference { group, kind, .. } = reference.clone();
        get(&self.unscaled.by_kind, &(namespace.to_owned(), group, kind))
    }
}

fn add<K: Eq + std::hash::Hash>(index: &mut HashMap<K, Vec<usize>>, key: K, at: usize) {
    index.entry(key).or_default().push(at);
}

fn get<'a, K: Eq + std::hash::Hash>(index: &'a HashMap<K, Vec<usize>>, key: &K) -> &'a [usize] {
    index.get(key).map(Vec::as_slice).unwrap_or_default()
}

fn owned_namespace(object: &Manifest) -> String {
    namespace(object).to_owned()
}
