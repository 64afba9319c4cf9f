//! Collects the metrics of autoscalers into stored values and events.

use std::{net::IpAddr, sync::Arc};

use hpa_calc::{
    MilliValue,
    api::{CrossVersionObjectReference, HorizontalPodAutoscaler},
};
use hpa_collectors::{
    Clients, CollectorPlan, Compat, ConfigError, Context, Environment, LookupError, MetricConfig,
    Policy, Sample, Settings,
    annotations::{Annotations, MetricType},
    metric_configs,
    schedules::{ScalingScheduleSpec, ScheduledMetric},
};
use hpa_prometheus::client::Client;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::Value;

use super::objects::Objects;
use crate::{
    adapter::prometheus::Prometheus,
    store::{CollectedValue, ObjectKey, Store, stored_resource},
};

const COMPAT: Compat = Compat::Reference;

#[derive(Clone, Debug)]
pub(super) struct ObjectValue {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) value: MilliValue,
}

pub(super) struct CollectedMetrics {
    pub(super) store: Store<ObjectValue>,
    /// The autoscaler and the message of each event.
    pub(super) events: Vec<(String, String)>,
}

struct Collection<'c> {
    objects: &'c Arc<Objects>,
    clients: Clients,
    environment: Environment,
    disregards_incompatible: bool,
    now: Timestamp,
    collected: CollectedMetrics,
}

/// Collects the metrics of all autoscalers of a line, once.
pub(super) async fn collect(
    line: &Value,
    objects: &Arc<Objects>,
    prometheus: &Prometheus,
    now: Timestamp,
) -> Result<CollectedMetrics, String> {
    let url = format!("http://{}", prometheus.address);
    let settings = hpa_prometheus::client::Settings::new("prometheus", &url);
    let settings = settings.map_err(|error| error.to_string())?;
    let client = Client::new(settings, Arc::new(())).map_err(|error| error.to_string())?;
    let policy = Policy { addresses: vec![IpAddr::from([127, 0, 0, 1])], ..Policy::default() };
    let settings = Settings {
        compat: COMPAT,
        policy,
        prometheus: Some(client),
        weight_annotations: vec!["zalando.org/backend-weights".to_owned()],
        ..Settings::default()
    };
    let clients = Clients::new(settings, objects.clone()).map_err(|error| error.to_string())?;
    let flags = line["flags"].as_array().into_iter().flatten();
    let mut flags = flags.filter_map(Value::as_str);
    let store = Store::new(SignedDuration::from_mins(15), COMPAT);
    let mut collection = Collection {
        objects,
        clients,
        environment: Environment { compat: COMPAT, ..Environment::default() },
        disregards_incompatible: flags.any(|flag| flag == "--disregard-incompatible-hpas"),
        now,
        collected: CollectedMetrics { store, events: Vec::new() },
    };
    for hpa in line["hpas"].as_array().into_iter().flatten() {
        let hpa = HorizontalPodAutoscaler::deserialize(hpa).map_err(|error| error.to_string())?;
        collection.collect_autoscaler(&hpa).await?;
    }
    Ok(collection.collected)
}

/// Whether a later metric replaces an earlier one. kube-metrics-adapter has one collector for
/// metrics of an autoscaler with the same type and name and without a selector, even if their
/// objects differ.
fn is_replaced(earlier: &MetricConfig, later: &MetricConfig) -> bool {
    let without_selector = earlier.metric.selector.is_none() && later.metric.selector.is_none();
    without_selector
        && earlier.metric_type == later.metric_type
        && earlier.metric.name == later.metric.name
}

impl Collection<'_> {
    async fn collect_autoscaler(&mut self, hpa: &HorizontalPodAutoscaler) -> Result<(), String> {
        let annotations = Annotations::parse(&hpa.metadata.annotations);
        // kube-metrics-adapter only logs an invalid annotation.
        let configs = metric_configs(hpa, &annotations, COMPAT).unwrap_or_default();
        let (namespace, target) = (&hpa.metadata.namespace, &hpa.spec.scale_target_ref);
        let mut plans: Vec<(&MetricConfig, CollectorPlan)> = Vec::new();
        for config in &configs {
            match self.plan(config, namespace, target) {
                Ok(Some(plan)) => {
                    plans.retain(|(earlier, _)| !is_replaced(earlier, config));
                    plans.push((config, plan));
                }
                Ok(None) => {}
                Err(reason) => {
                    let object = format!("{namespace}/{}", hpa.metadata.name);
                    let message = format!("Failed to create new metrics collector: {reason}");
                    self.collected.events.push((object, message));
                }
            }
        }
        for (config, plan) in plans {
            self.collect_metric(config, &plan, namespace, target).await?;
        }
        Ok(())
    }

    /// Plans a metric. `None` if no collector reads the metric and the flags disregard that. As in
    /// kube-metrics-adapter, the target of a pods metric is looked up first.
    fn plan(
        &self,
        config: &MetricConfig,
        namespace: &str,
        target: &CrossVersionObjectReference,
    ) -> Result<Option<CollectorPlan>, String> {
        if config.metric_type == MetricType::Pods
            && let Err(LookupError::NotFound { name, .. }) =
                self.objects.pod_labels(namespace, target)
        {
            let group = if target.kind == "Rollout" { "argoproj.io" } else { "apps" };
            let resource = format!("{}s.{group}", target.kind.to_lowercase());
            return Err(format!(
                "failed to get pod label selector: {resource} \"{name}\" not found"
            ));
        }
        match CollectorPlan::new(config, &self.environment) {
            Err(ConfigError::NoCollector(_)) if self.disregards_incompatible => Ok(None),
            plan => plan.map(Some).map_err(|error| error.to_string()),
        }
    }

    async fn collect_metric(
        &mut self,
        config: &MetricConfig,
        plan: &CollectorPlan,
        namespace: &str,
        target: &CrossVersionObjectReference,
    ) -> Result<(), String> {
        let samples = match &config.object {
            Some(object) if plan.name == "schedule" => {
                let is_cluster_scoped = object.kind == "ClusterScalingSchedule";
                let namespace = if is_cluster_scoped { "" } else { config.namespace.as_str() };
                self.sample_of_schedule(&object.kind, namespace, &object.name).into_iter().collect()
            }
            _ => {
                let context = Context::new(&self.clients, namespace, target, self.now);
                // kube-metrics-adapter only logs a failure.
                let values = plan.read(&context).await;
                values.map(|values| values.samples).unwrap_or_default()
            }
        };
        for sample in samples {
            self.store(config, namespace, target, sample)?;
        }
        Ok(())
    }

    fn sample_of_schedule(&self, kind: &str, namespace: &str, name: &str) -> Option<Sample> {
        let schedule = self.objects.get(kind, namespace, name)?;
        let spec = ScalingScheduleSpec::deserialize(&schedule["spec"]).ok()?;
        let settings = hpa_collectors::schedules::Settings { compat: COMPAT, ..Default::default() };
        let metric = ScheduledMetric::new(&spec, &settings).ok()?;
        let value = MilliValue::from_units(metric.value_at(self.now).ok()?);
        Some(Sample { pod: None, value, at: self.now })
    }

    fn store(
        &mut self,
        config: &MetricConfig,
        namespace: &str,
        target: &CrossVersionObjectReference,
        sample: Sample,
    ) -> Result<(), String> {
        let metric = config.metric.name.clone();
        let (api_version, kind, name, labels) = match (&sample.pod, &config.object) {
            (Some(pod), _) => {
                let labels = self.objects.pod_labels(namespace, target);
                let labels = labels.map_err(|error| error.to_string())?;
                ("v1".to_owned(), "Pod".to_owned(), pod.clone(), Some(labels))
            }
            (None, Some(object)) => {
                let labels = config.labels().cloned();
                (object.api_version.clone(), object.kind.clone(), object.name.clone(), labels)
            }
            (None, None) => (String::new(), String::new(), String::new(), config.labels().cloned()),
        };
        let key = ObjectKey {
            metric: metric.clone(),
            resource: stored_resource(&kind, &api_version),
            namespace: namespace.to_owned(),
            name: name.clone(),
        };
        let value = ObjectValue { api_version, kind, name, value: sample.value };
        let stored = CollectedValue { value, labels, at: sample.at };
        match config.metric_type {
            MetricType::External => {
                self.collected.store.insert_external(namespace, &metric, stored);
            }
            _ => self.collected.store.insert(key, stored),
        }
        Ok(())
    }
}
