//! Indexes of a workspace's objects. With them, the work of a rule for one autoscaler doesn't grow
//! with the number of objects. So the work of a check is linear in the size of its input.

use std::collections::{HashMap, HashSet};

use hpa_controller::AutoscalerApi;
use serde_json::Value;

use super::object::{
    Reference, TARGET_POINTER, autoscaler_api, group, is_autoscaler, is_scalable, namespace,
    pod_template, qualified_name,
};
use crate::manifests::{Manifest, items, string_at};

const KEDA: &str = "keda.sh";

/// Indexes into the objects, by a namespace and a reference.
type ByReference = HashMap<(String, Reference), Vec<usize>>;

/// Indexes into the objects of a workspace, each in the order of the objects.
#[derive(Default)]
pub(super) struct Index {
    /// All objects, by their own namespace, group, kind and name.
    objects: ByReference,
    /// The first object with a namespace, by group, kind and name.
    pub(super) first_in_a_namespace: HashMap<Reference, usize>,
    /// Autoscalers by API, namespace and target. Of those with equal names, only the first.
    autoscalers: HashMap<(AutoscalerApi, String, Reference), Vec<usize>>,
    /// The autoscalers in a namespace that doesn't have their target, by the target.
    pub(super) autoscalers_without_target: HashMap<(AutoscalerApi, Reference), Vec<usize>>,
    /// KEDA's `ScaledObject`s by their target.
    pub(super) scaled_objects: ByReference,
    /// `VerticalPodAutoscaler`s by their target.
    pub(super) vertical_autoscalers: ByReference,
    /// Namespace and resource of the default requests of `LimitRange`s.
    pub(super) default_requests: HashSet<(String, String)>,
    /// Group and kind of custom resources that have a scale without `labelSelectorPath`.
    pub(super) kinds_without_selector: HashSet<(String, String)>,
    /// Objects that create pods and have no owner, by namespace.
    workloads: HashMap<String, Vec<usize>>,
    /// The objects of `workloads` by namespace, and by key and value of a label of their pods.
    workloads_by_label: HashMap<(String, String, String), Vec<usize>>,
    /// The first object with pods and a scale that no autoscaler has as its target, by group, kind
    /// and name, in any namespace.
    pub(super) unscaled: HashMap<Reference, usize>,
    /// Like `unscaled`, by namespace and name, of any kind.
    pub(super) unscaled_by_name: HashMap<(String, String), usize>,
    /// All objects like those of `unscaled`, by namespace, group and kind.
    pub(super) unscaled_by_kind: HashMap<(String, String, String), Vec<usize>>,
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
        let limits = items(object.object.pointer("/spec/limits"));
        for limit in limits.filter(|limit| string_at(limit, "/type") == "Container") {
            let members = ["defaultRequest", "default", "min", "max"];
            let members = members.iter().filter_map(|member| limit.get(member)?.as_object());
            for resource in members.flat_map(serde_json::Map::keys) {
                self.default_requests.insert((owned_namespace(object), resource.clone()));
            }
        }
    }

    fn add_definition(&mut self, definition: &Manifest) {
        let versions = items(definition.object.pointer("/spec/versions"));
        let mut scales = versions.filter_map(|version| {
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
        self.unscaled.entry(reference.clone()).or_insert(at);
        let Reference { group, kind, name } = reference;
        self.unscaled_by_name.entry((owned_namespace(object), name)).or_insert(at);
        add(&mut self.unscaled_by_kind, (owned_namespace(object), group, kind), at);
    }

    /// The objects of a namespace with this group, kind and name.
    pub(super) fn objects(&self, namespace: &str, reference: &Reference) -> &[usize] {
        get(&self.objects, &(namespace.to_owned(), reference.clone()))
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
}

fn add<K: Eq + std::hash::Hash>(index: &mut HashMap<K, Vec<usize>>, key: K, at: usize) {
    index.entry(key).or_default().push(at);
}

pub(super) fn get<'a, K: Eq + std::hash::Hash>(
    index: &'a HashMap<K, Vec<usize>>,
    key: &K,
) -> &'a [usize] {
    index.get(key).map(Vec::as_slice).unwrap_or_default()
}

fn owned_namespace(object: &Manifest) -> String {
    namespace(object).to_owned()
}
