//! Reads the inputs of a decision from files.

mod missing_objects;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use anyhow::Context;
use hpa_calc::{
    HorizontalPodAutoscaler, Inputs, MetricQuery, MetricsApi, Pod, ReadError, Reading, Readings,
    Scale, ScaleReadError, SelectedPods, Selector, Settings,
    api::CrossVersionObjectReference,
    defaults::prepare_spec,
    report::FILES_LACK_OWNERS,
    selector::LabelSelector,
    settings::{PodSelection, SettingPolicy},
};
use hpa_controller::{
    AutoscalerApi,
    debug::{ActingController, AutoscalerDetail, effective_settings, settings_of_controller},
    k8s::StatusController,
    scale_target::{replica_failure, scheduling_failures},
};
use hpa_metrics::{
    decode_value,
    wire::{self, ExternalMetricValue, ListItem, MetricValue, PodMetrics, decode_list},
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::subject::{FoundController, Subject, is_reported_ambiguous};
use crate::{
    autoscaler_name::{self, describe, is_in_namespace},
    debug_client::Unavailable,
    listed_autoscalers::{ListedAutoscaler, set_other_autoscalers},
    manifests::{self, Manifest, string_at},
};

/// The kinds whose scale is derived from the object, as in the API server.
pub(super) const SCALABLE: [&str; 3] = ["Deployment", "ReplicaSet", "StatefulSet"];

/// The kind of scales.
const SCALE: &str = "Scale";

/// Objects and metrics from files, such as a dump of a cluster.
pub(super) struct Dump {
    objects: Vec<Value>,
}

impl Dump {
    pub(super) fn read(files: &[PathBuf]) -> anyhow::Result<Self> {
        Ok(Self::new(manifests::read_files(files)?))
    }

    pub(super) fn new(manifests: Vec<Manifest>) -> Self {
        Self { objects: manifests.into_iter().map(|manifest| manifest.object).collect() }
    }

    /// Finds the autoscaler of this name, or the only one, and all inputs of its decision.
    /// `namespace` is the flag `--namespace`. `at` is the time of the decision, by default that of
    /// the newest sample.
    pub(super) fn subject(
        &self,
        name: Option<&str>,
        namespace: Option<&str>,
        settings: Settings,
        policy: &SettingPolicy,
        at: Option<Timestamp>,
    ) -> anyhow::Result<Subject> {
        let object = autoscaler_name::find_in_files(self.objects.iter(), name, namespace)?;
        let controller = StatusController::of_object(object, Timestamp::now());
        let mut hpa = autoscaler_name::decode(object)?;
        prepare_spec(&mut hpa.spec);
        let scale = self.scale(&hpa);
        let record = self.record(object, &hpa)?;
        let detail = record.as_ref().ok();
        let controller_settings = detail.map(|detail| detail.settings.into());
        let settings = effective_settings(settings, controller_settings);
        // A controller that has a record of the autoscaler may not have stored its status yet.
        let acting = ActingController::of_status(&controller, record.is_ok());
        let settings = settings_of_controller(settings, &hpa, policy, acting);
        let now = at.or_else(|| self.newest_sample()).unwrap_or_else(Timestamp::now);
        let selected = self.select(object, &hpa, scale.as_ref().ok(), &settings, detail, now)?;
        let mut inputs = Inputs {
            scale,
            settings,
            selected,
            readings: Readings::new(),
            history: detail.and_then(|detail| detail.history.clone()),
            now,
            hpa,
        };
        inputs.readings = {
            let (namespace, pods) = (&inputs.hpa.metadata.namespace, &inputs.selected.pods);
            let plan = inputs.plan();
            let queries = plan.queries();
            queries.map(|(index, query)| (index, self.reading(query, namespace, pods))).collect()
        };
        Ok(Subject {
            missing_object_advice: self.missing_object_advice(&inputs),
            overwritten_scalings: detail.and_then(|detail| detail.autoscaler.overwritten()),
            assumes_replicas: self.assumes_replicas(&inputs.hpa),
            has_status_replicas: self.has_status_replicas(&inputs.hpa),
            inputs,
            controller,
            found: FoundController {
                record,
                record_source: None,
                idle: None,
                conflict: None,
                is_hidden: false,
                clock_lead: SignedDuration::ZERO,
            },
            read_by_controller: Vec::new(),
            warning: None,
            name: None,
            metric_advice: BTreeMap::new(),
            placeholders: Vec::new(),
            similar_target: None,
        })
    }

    /// The pods of the target, and the autoscalers that select them or have the same target.
    /// `object` is the autoscaler as it is in the file.
    fn select(
        &self,
        object: &Value,
        hpa: &HorizontalPodAutoscaler,
        scale: Option<&Scale>,
        settings: &Settings,
        record: Option<&AutoscalerDetail>,
        now: Timestamp,
    ) -> anyhow::Result<SelectedPods> {
        let namespace = &hpa.metadata.namespace;
        let pods = match scale.and_then(Scale::usable_selector) {
            Some(selector) => self.pods(namespace, &selector)?,
            None => Vec::new(),
        };
        let (sharing_target, bounds_conflict) = self.others_of_target(object, hpa, now);
        let selects_owned_pods = settings.pods == PodSelection::Owned;
        // A Scale has no conditions, so this reads the target even if there is a Scale.
        let target = self.named_like_target(hpa, &hpa.spec.scale_target_ref.kind);
        Ok(SelectedPods {
            autoscalers: self.autoscalers_selecting(hpa, &pods, record, settings.dry_run),
            pods,
            ownership_error: selects_owned_pods.then(|| FILES_LACK_OWNERS.to_owned()),
            own_name: None,
            bounds_conflict,
            sharing_target,
            replica_failure: target.and_then(replica_failure),
            scheduling_failures: scheduling_failures(self.pod_objects(namespace)),
        })
    }

    /// The document of the debug API about an autoscaler, or the reason why there is none. Fails if
    /// it can't be decoded. `object` is the autoscaler as it is in the file.
    fn record(
        &self,
        object: &Value,
        hpa: &HorizontalPodAutoscaler,
    ) -> anyhow::Result<Result<AutoscalerDetail, Unavailable>> {
        let api = AutoscalerApi::from_api_version(string_at(object, "/apiVersion"));
        let is_about = |document: &&Value| {
            string_at(document, "/autoscaler/name") == hpa.metadata.name
                && string_at(document, "/autoscaler/namespace") == hpa.metadata.namespace
                && api.is_none_or(|api| string_at(document, "/autoscaler/api") == api.name())
        };
        let Some(document) = self.of_kind(AutoscalerDetail::KIND).find(is_about) else {
            return Ok(Err(Unavailable::NotInFiles));
        };
        let decoded = serde_json::from_value(document.clone());
        Ok(Ok(decoded.context("unable to decode the document of the debug API")?))
    }

    fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.objects.iter().filter(move |object| string_at(object, "/kind") == kind)
    }

    /// An object of the kind with the name and the namespace of the autoscaler's target.
    fn named_like_target(&self, hpa: &HorizontalPodAutoscaler, kind: &str) -> Option<&Value> {
        let (name, namespace) = (&hpa.spec.scale_target_ref.name, &hpa.metadata.namespace);
        self.objects.iter().find(|object| {
            string_at(object, "/kind") == kind
                && string_at(object, "/metadata/name") == name
                && is_in_namespace(object, namespace)
        })
    }

    /// The object with the scale of the target: a Scale with its name, or else the target if its
    /// scale can be derived from it.
    fn scale_object(&self, hpa: &HorizontalPodAutoscaler) -> Option<&Value> {
        let kind = hpa.spec.scale_target_ref.kind.as_str();
        let target = || self.named_like_target(hpa, kind).filter(|_| SCALABLE.contains(&kind));
        self.named_like_target(hpa, SCALE).or_else(target)
    }

    /// Whether the scale is derived from a target that doesn't set its replicas.
    fn assumes_replicas(&self, hpa: &HorizontalPodAutoscaler) -> bool {
        self.scale_object(hpa).is_some_and(|object| {
            let replicas = object.pointer("/spec/replicas");
            string_at(object, "/kind") != SCALE && replicas.is_none_or(Value::is_null)
        })
    }

    /// Whether the files have the number of the target's pods: a Scale, or a target with a status.
    fn has_status_replicas(&self, hpa: &HorizontalPodAutoscaler) -> bool {
        self.scale_object(hpa).and_then(status_replicas).is_some()
    }

    fn scale(&self, hpa: &HorizontalPodAutoscaler) -> Result<Scale, ScaleReadError> {
        let CrossVersionObjectReference { kind, name, .. } = &hpa.spec.scale_target_ref;
        match self.scale_object(hpa) {
            Some(scale) if string_at(scale, "/kind") == SCALE => {
                Ok(build_scale(scale, 0, string_at(scale, "/status/selector").to_owned()))
            }
            Some(target) => {
                let selector = serde_json::from_value(
                    target.pointer("/spec/selector").cloned().unwrap_or_default(),
                );
                let selector = selector.map_err(ScaleReadError::read)?;
                let selector =
                    Selector::from_label_selector(Some(&selector)).map_err(ScaleReadError::read)?;
                Ok(build_scale(target, 1, selector.to_string()))
            }
            None => Err(ScaleReadError::read(format!(
                "the files have neither a Scale nor a {kind} of the name {name}"
            ))),
        }
    }

    fn pod_objects<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a Value> {
        self.of_kind("Pod").filter(move |object| is_in_namespace(object, namespace))
    }

    fn pods(&self, namespace: &str, selector: &Selector) -> anyhow::Result<Vec<Arc<Pod>>> {
        let mut selected = Vec::new();
        for object in self.pod_objects(namespace) {
            let pod: Pod = decode_value(object.clone())
                .with_context(|| format!("unable to decode {}", describe(object)))?;
            if pod.is_selected_by(selector) {
                selected.push(Arc::new(pod));
            }
        }
        Ok(selected)
    }

    /// The autoscalers that select any of the pods: this one and, if the controller reports that
    /// they prevent its scaling, the others of the namespace.
    fn autoscalers_selecting(
        &self,
        hpa: &HorizontalPodAutoscaler,
        pods: &[Arc<Pod>],
        record: Option<&AutoscalerDetail>,
        is_dry_run: bool,
    ) -> Vec<String> {
        let namespace = &hpa.metadata.namespace;
        let objects = self.of_kind(hpa_calc::crd::KIND);
        let objects = objects.filter(|object| is_in_namespace(object, namespace));
        let autoscalers = objects.filter_map(|object| serde_json::from_value(object.clone()).ok());
        let autoscalers = autoscalers.map(|mut other: HorizontalPodAutoscaler| {
            other.metadata.namespace.clone_from(namespace);
            other
        });
        let (own, others): (Vec<_>, Vec<_>) =
            autoscalers.partition(|other| other.metadata == hpa.metadata);
        let name = hpa.metadata.qualified_name();
        let is_ambiguous = is_reported_ambiguous(hpa, &name, record, is_dry_run, others.iter());
        let others = others.into_iter().filter(|_| is_ambiguous);
        let selecting = own.into_iter().chain(others).filter_map(|one| {
            let selector = self.scale(&one).ok()?.usable_selector()?;
            let selects = pods.iter().any(|pod| pod.is_selected_by(&selector));
            selects.then(|| one.metadata.qualified_name())
        });
        let mut names: Vec<_> = selecting.collect();
        names.sort();
        names
    }

    /// The names of the other autoscalers of the target, and the conflict with their bounds.
    fn others_of_target(
        &self,
        object: &Value,
        hpa: &HorizontalPodAutoscaler,
        now: Timestamp,
    ) -> (Vec<String>, Option<String>) {
        let autoscalers = self.of_kind(hpa_calc::crd::KIND).filter_map(|object| {
            let version = string_at(object, "/apiVersion");
            let api = AutoscalerApi::from_api_version(version)?;
            let mut one = ListedAutoscaler::decode(api, object).ok()?;
            // A manifest may have no namespace.
            one.name = one.name.trim_start_matches('/').to_owned();
            Some(one)
        });
        let mut autoscalers: Vec<_> = autoscalers.collect();
        set_other_autoscalers(&mut autoscalers, now);
        let version = string_at(object, "/apiVersion");
        let is_own = |one: &ListedAutoscaler| {
            one.hpa.metadata == hpa.metadata && one.api.api_version() == version
        };
        let own = autoscalers.into_iter().find(is_own);
        own.map(|own| (own.other_autoscalers, own.bounds_conflict)).unwrap_or_default()
    }

    fn reading(
        &self,
        query: &MetricQuery,
        namespace: &str,
        pods: &[Arc<Pod>],
    ) -> Result<Reading, ReadError> {
        let (api, metric) = (query.api(), query.metric_name());
        let kind = match api {
            MetricsApi::Resource => "PodMetrics",
            MetricsApi::Custom => "MetricValue",
            MetricsApi::External => "ExternalMetricValue",
        };
        let objects: Vec<&Value> = self.of_kind(kind).collect();
        if objects.is_empty() {
            return Err(ReadError::NotRead(format!("the files have no {kind}")));
        }
        let is_pod = |name: &str| pods.iter().any(|pod| pod.name.as_ref() == name);
        let has_name = |object: &&Value| {
            [string_at(object, "/metricName"), string_at(object, "/metric/name")].contains(&metric)
        };
        let describes =
            |object: &Value, kind: &str| string_at(object, "/describedObject/kind") == kind;
        // Objects of two namespaces can have the same name.
        let is_of_namespace = |object: &&Value| {
            let pointers = ["/metadata/namespace", "/describedObject/namespace"];
            let mut namespaces = pointers.into_iter().map(|pointer| string_at(object, pointer));
            namespaces.all(|other| other.is_empty() || namespace.is_empty() || other == namespace)
        };
        let objects = objects.into_iter().filter(is_of_namespace);
        match query {
            MetricQuery::Resource { resource, container } => {
                let items = objects.filter(|object| is_pod(string_at(object, "/metadata/name")));
                decode::<PodMetrics>(api, items).and_then(|items| {
                    let samples = wire::resource_samples(&items, resource, container.as_deref());
                    samples.map(Reading::Pods)
                })
            }
            MetricQuery::Pods { metric_selector, .. } => {
                let items = objects.filter(has_name).filter(|object| {
                    describes(object, "Pod") && is_pod(string_at(object, "/describedObject/name"))
                });
                decode::<MetricValue>(api, with_selector(items, metric_selector))
                    .and_then(|items| wire::pod_samples(&items).map(Reading::Pods))
            }
            MetricQuery::Object { object: target, metric_selector, .. } => {
                let name = if target.is_namespace() { namespace } else { target.name.as_str() };
                let items = objects.filter(has_name).filter(|object| {
                    describes(object, &target.kind)
                        && (name.is_empty() || string_at(object, "/describedObject/name") == name)
                });
                decode::<MetricValue>(api, with_selector(items, metric_selector))
                    .and_then(|items| wire::object_value(&items).map(Reading::Object))
            }
            MetricQuery::External { metric_selector, .. } => {
                // The series may be those of another metric with the name. An API may leave out
                // their labels.
                let is_other = |object: &Value| {
                    let label = |key: &str| object.get("metricLabels")?.get(key)?.as_str();
                    let mut pairs = metric_selector.required_pairs();
                    pairs.any(|(key, value)| label(key).is_some_and(|label| label != value))
                };
                // The API is asked for the name in lower case, and may answer with it.
                let has_name =
                    |object: &&Value| string_at(object, "/metricName").eq_ignore_ascii_case(metric);
                let items = objects.filter(has_name).filter(|object| !is_other(object));
                decode::<ExternalMetricValue>(api, items)
                    .and_then(|items| wire::external_values(&items).map(Reading::External))
            }
        }
    }

    fn newest_sample(&self) -> Option<Timestamp> {
        let samples = self.objects.iter().filter(|object| {
            ["PodMetrics", "MetricValue", "ExternalMetricValue"]
                .contains(&string_at(object, "/kind"))
        });
        samples.filter_map(|object| string_at(object, "/timestamp").parse().ok()).max()
    }
}

/// The values of a metric with the selector. An API may leave out the selector in its values, so if
/// no value has it, these are the values without one.
fn with_selector<'a>(
    values: impl Iterator<Item = &'a Value>,
    selector: &Selector,
) -> impl Iterator<Item = &'a Value> {
    let expected = selector.to_string();
    let values: Vec<_> = values.map(|value| (selector_of(value), value)).collect();
    let is_in_values = values.iter().any(|(text, _)| text.as_ref() == Some(&expected));
    let wanted = if is_in_values { expected } else { String::new() };
    let values = values.into_iter().filter(move |(text, _)| text.as_ref() == Some(&wanted));
    values.map(|(_, value)| value)
}

/// The selector of a `MetricValue`, empty if it has none. `None` if it is invalid.
fn selector_of(value: &Value) -> Option<String> {
    // v1beta2 has it in `metric`, v1beta1 beside the name.
    let members = [value.pointer("/metric/selector"), value.get("selector")];
    let Some(selector) = members.into_iter().flatten().find(|selector| !selector.is_null()) else {
        return Some(String::new());
    };
    let selector: LabelSelector = serde_json::from_value(selector.clone()).ok()?;
    Some(selector.to_selector().ok()?.to_string())
}

fn decode<'a, I: ListItem>(
    api: MetricsApi,
    items: impl Iterator<Item = &'a Value>,
) -> Result<Vec<I>, ReadError> {
    let items: Vec<&Value> = items.collect();
    let list = json!({ "kind": I::LIST_KIND, "items": items }).to_string();
    decode_list(list.as_bytes())
        .map_err(|error| ReadError::fetch(api, hpa_metrics::describe(&error)))
}

/// Reads a scale from a Scale or its target. `default` is used if `spec.replicas` is absent. If the
/// status lacks the number of pods, the desired number is assumed.
fn build_scale(object: &Value, default: i32, selector: String) -> Scale {
    let spec_replicas = number_at(object, "/spec/replicas").unwrap_or(default);
    let status_replicas = status_replicas(object).unwrap_or(spec_replicas);
    Scale { spec_replicas, status_replicas, selector }
}

/// The number of pods in the status of a Scale or its target. `None` if a manifest has no status.
fn status_replicas(object: &Value) -> Option<i32> {
    let has_status =
        object.get("status").and_then(Value::as_object).is_some_and(|it| !it.is_empty());
    // The API server leaves out a zero, except in a Scale.
    let is_zero = has_status && string_at(object, "/kind") != SCALE;
    number_at(object, "/status/replicas").or_else(|| is_zero.then_some(0))
}

fn number_at(object: &Value, pointer: &str) -> Option<i32> {
    let number = object.pointer(pointer).and_then(Value::as_i64);
    number.and_then(|number| i32::try_from(number).ok())
}
