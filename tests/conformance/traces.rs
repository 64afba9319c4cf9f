//! `traces*`: an autoscaler that is reconciled repeatedly while its workload changes.

use std::{collections::BTreeMap, sync::Arc};

use hpa_calc::{
    api::{
        HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec, HorizontalPodAutoscalerStatus, Pod,
        Scale,
    },
    conclude::{Conclusion, ScaleWriteError},
    history::History,
    plan::{ScaleReadError, SelectedPods},
    readings::{MetricQuery, MetricsApi, ReadError, Reading, Readings},
    report::Inputs,
    selector::Selector,
    settings::Settings,
};
use hpa_controller::shadow::{self, Comparison, PeerStatus};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    compare::{difference, normalize},
    explanations, responses,
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Trace {
    #[expect(dead_code, reason = "a known field; `main` prints it from the JSON")]
    name: String,
    start: Timestamp,
    config: Config,
    hpa: HorizontalPodAutoscaler,
    #[serde(default)]
    other_hpa_selectors: BTreeMap<String, String>,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    cpu_initialization_period_seconds: i64,
    downscale_stabilization_seconds: i64,
    initial_readiness_delay_seconds: i64,
    scale_to_zero: bool,
    tolerance: f64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Step {
    at: i64,
    spec: Option<HorizontalPodAutoscalerSpec>,
    scale: Option<StepScale>,
    scale_error: Option<String>,
    update_error: Option<String>,
    pods: Option<Vec<Arc<Pod>>>,
    #[serde(default)]
    pod_metrics: Value,
    pod_metrics_error: Option<String>,
    #[serde(default)]
    custom_metrics: BTreeMap<String, Value>,
    custom_metrics_error: Option<String>,
    #[serde(default)]
    external_metrics: BTreeMap<String, Value>,
    external_metrics_error: Option<String>,
    expect: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct StepScale {
    #[serde(default)]
    spec_replicas: i32,
    #[serde(default)]
    status_replicas: i32,
    #[serde(default)]
    selector: String,
}

pub(crate) fn check(line: &Value) -> Result<(), String> {
    let Trace { start, config, mut hpa, other_hpa_selectors, steps, .. } =
        Trace::deserialize(line).map_err(|error| format!("invalid line: {error}"))?;
    let seconds = SignedDuration::from_secs;
    let settings = Settings::default().with(|settings| {
        settings.tolerance = config.tolerance;
        settings.downscale_stabilization = seconds(config.downscale_stabilization_seconds);
        settings.cpu_initialization_period = seconds(config.cpu_initialization_period_seconds);
        settings.initial_readiness_delay = seconds(config.initial_readiness_delay_seconds);
        settings.scale_to_zero = config.scale_to_zero;
    });
    let other_selectors = parse_selectors(&other_hpa_selectors)?;
    let mut history = History::default();
    let mut shadow = Shadow::new(&hpa);
    for (number, step) in steps.into_iter().enumerate() {
        if let Some(spec) = &step.spec {
            hpa.spec = spec.clone();
        }
        let now = start + seconds(step.at);
        let scale = step.scale(&hpa);
        let inputs = step.inputs(&hpa, scale, &settings, &other_selectors, history, now);
        let conclusion = inputs.decide().conclude(step.write_outcome(), now);
        if let Some(difference) = compare(&step.expect, &conclusion) {
            return Err(format!("step {number} at {}s: {difference}", step.at));
        }
        let scaled_to = step.expect["scaleTo"].as_i64();
        let write_failed = step.update_error.is_some();
        explanations::check(&inputs, scaled_to, write_failed).map_err(|difference| {
            format!("step {number} at {}s, in the report: {difference}", step.at)
        })?;
        shadow.compare(&step, &hpa, &settings, &other_selectors, now).map_err(|difference| {
            format!("step {number} at {}s, in shadow mode: {difference}", step.at)
        })?;
        hpa.status = conclusion.status;
        history = conclusion.history;
    }
    Ok(())
}

/// This controller in shadow mode beside the reference. It reads the reference's decisions only
/// from the stored status, and from whether a step changed that status.
struct Shadow {
    /// The last status that the reference stored.
    stored: HorizontalPodAutoscalerStatus,
    history: History,
}

impl Shadow {
    fn new(hpa: &HorizontalPodAutoscaler) -> Self {
        Self { stored: hpa.status.clone(), history: History::default() }
    }

    /// Decides as in shadow mode, and compares with the status that the reference stored in a step.
    /// At that time, the target already has the replicas that the reference set.
    fn compare(
        &mut self,
        step: &Step,
        hpa: &HorizontalPodAutoscaler,
        settings: &Settings,
        other_selectors: &[(String, Selector)],
        now: Timestamp,
    ) -> Result<(), String> {
        let reference_status = HorizontalPodAutoscalerStatus::deserialize(&step.expect["status"])
            .map_err(|error| format!("invalid line: {error}"))?;
        let previous_status = std::mem::replace(&mut self.stored, reference_status);
        let reference_status = &self.stored;
        let is_status_changed = previous_status != *reference_status;
        let scaled_to =
            step.expect["scaleTo"].as_i64().and_then(|replicas| i32::try_from(replicas).ok());
        let hpa = HorizontalPodAutoscaler { status: previous_status, ..hpa.clone() };
        let scale = step.scale(&hpa).map(|scale| {
            let current_replicas = scaled_to.unwrap_or(scale.spec_replicas);
            let scale = Scale { spec_replicas: current_replicas, ..scale };
            if is_status_changed {
                shadow::scale_as_seen_by_peer(reference_status, scale)
            } else {
                scale
            }
        });
        let history = std::mem::take(&mut self.history);
        let inputs = step.inputs(&hpa, scale, settings, other_selectors, history, now);
        let peer = PeerStatus { status: reference_status, is_new: is_status_changed };
        let Comparison { conclusion, differences, .. } =
            shadow::compare(inputs.decide(), peer, now);
        self.history = conclusion.history;
        match differences.first() {
            Some(difference) => Err(difference.to_string()),
            None => Ok(()),
        }
    }
}

fn parse_selectors(
    selectors: &BTreeMap<String, String>,
) -> Result<Vec<(String, Selector)>, String> {
    let parse = |(key, text): (&String, &String)| {
        let selector =
            Selector::parse(text).map_err(|error| format!("selector of {key}: {error}"))?;
        Ok((key.clone(), selector))
    };
    selectors.iter().map(parse).collect()
}

impl Step {
    fn inputs(
        &self,
        hpa: &HorizontalPodAutoscaler,
        scale: Result<Scale, ScaleReadError>,
        settings: &Settings,
        other_selectors: &[(String, Selector)],
        history: History,
        now: Timestamp,
    ) -> Inputs {
        let selector = scale.as_ref().ok().and_then(|scale| Selector::parse(&scale.selector).ok());
        let selected = selector.map(|selector| self.select(hpa, other_selectors, &selector));
        let inputs = Inputs {
            hpa: hpa.clone(),
            scale,
            settings: settings.clone(),
            selected: selected.unwrap_or_default(),
            readings: Readings::new(),
            history: Some(history),
            now,
        };
        let plan = inputs.plan();
        let readings = plan.queries().map(|(metric, query)| (metric, self.read_metric(hpa, query)));
        let readings = readings.collect();
        Inputs { readings, ..inputs }
    }

    /// The recorded outcome of the scale write.
    fn write_outcome(&self) -> Result<(), ScaleWriteError> {
        self.update_error.as_ref().map(ScaleWriteError::failed).map_or(Ok(()), Err)
    }

    /// The target's scale. Fails like the reference for an invalid API version, for an unknown
    /// kind, or with the recorded error.
    fn scale(&self, hpa: &HorizontalPodAutoscaler) -> Result<Scale, ScaleReadError> {
        let target = &hpa.spec.scale_target_ref;
        let (group, version) =
            target.api_version.split_once('/').unwrap_or(("", &target.api_version));
        if version.contains('/') {
            let text = format!("unexpected GroupVersion string: {}", target.api_version);
            return Err(ScaleReadError::InvalidApiVersion(text));
        }
        let kind = target.kind.as_str();
        let is_served = match group {
            "apps" => matches!(kind, "Deployment" | "StatefulSet" | "ReplicaSet"),
            "" => kind == "ReplicationController",
            _ => false,
        };
        if !is_served {
            let text = format!("no matches for kind {kind:?} in group {group:?}");
            return Err(ScaleReadError::UnknownKind(text));
        }
        match (&self.scale_error, &self.scale) {
            (Some(error), _) => Err(ScaleReadError::Read(error.clone())),
            (None, None) => Err(ScaleReadError::Read("the step has no scale".to_owned())),
            (None, Some(scale)) => Ok(Scale {
                spec_replicas: scale.spec_replicas,
                status_replicas: scale.status_replicas,
                selector: scale.selector.clone(),
            }),
        }
    }

    fn select(
        &self,
        hpa: &HorizontalPodAutoscaler,
        other_selectors: &[(String, Selector)],
        selector: &Selector,
    ) -> SelectedPods {
        let is_selected =
            |selector: &Selector, pod: &Pod| selector.matches_by(|key| pod.label(key));
        let pods: Vec<Arc<Pod>> =
            self.pods.iter().flatten().filter(|pod| is_selected(selector, pod)).cloned().collect();
        let own_key = format!("{}/{}", hpa.metadata.namespace, hpa.metadata.name);
        // A selector selects pods of its autoscaler's namespace only.
        let namespace = format!("{}/", hpa.metadata.namespace);
        let other_selectors = other_selectors.iter().filter(|(key, selector)| {
            key.starts_with(&namespace) && pods.iter().any(|pod| is_selected(selector, pod))
        });
        let mut autoscalers: Vec<String> = other_selectors.map(|(key, _)| key.clone()).collect();
        autoscalers.extend((!pods.is_empty()).then_some(own_key));
        autoscalers.sort();
        SelectedPods { pods, autoscalers, ..SelectedPods::default() }
    }

    fn read_metric(
        &self,
        hpa: &HorizontalPodAutoscaler,
        query: &MetricQuery,
    ) -> Result<Reading, ReadError> {
        let fail = |error: &Option<String>, api| match error {
            Some(message) => Err(ReadError::Fetch { api, message: message.clone() }),
            None => Ok(()),
        };
        match query {
            MetricQuery::Resource { resource, container } => {
                fail(&self.pod_metrics_error, MetricsApi::Resource)?;
                responses::resource(&self.pod_metrics, resource, container.as_deref())
            }
            MetricQuery::Pods { metric, .. } => {
                fail(&self.custom_metrics_error, MetricsApi::Custom)?;
                responses::pods(self.custom_items(&format!("pods/*/{metric}")))
            }
            MetricQuery::Object { object, metric, .. } => {
                fail(&self.custom_metrics_error, MetricsApi::Custom)?;
                let (resource, name) = match object.kind.as_str() {
                    "Namespace" => ("namespaces", hpa.metadata.namespace.as_str()),
                    "Service" => ("services", object.name.as_str()),
                    _ => ("deployments.apps", object.name.as_str()),
                };
                responses::object(self.custom_items(&format!("{resource}/{name}/{metric}")))
            }
            MetricQuery::External { metric, metric_selector } => {
                fail(&self.external_metrics_error, MetricsApi::External)?;
                responses::external(
                    self.external_metrics.get(metric).unwrap_or(&Value::Null),
                    metric_selector,
                )
            }
        }
    }

    fn custom_items(&self, key: &str) -> &Value {
        self.custom_metrics.get(key).unwrap_or(&Value::Null)
    }
}

fn compare(expect: &Value, conclusion: &Conclusion) -> Option<String> {
    let mut expect = expect.clone();
    if let Some(fields) = expect.as_object_mut() {
        // The error of the reconcile is not compared.
        fields.remove("error");
    }
    let events: Vec<Value> = conclusion.events.iter().map(event).collect();
    let mut actual =
        json!({ "status": conclusion.status, "events": events, "scaleTo": conclusion.scaled_to });
    normalize(&mut expect);
    normalize(&mut actual);
    ignore_names_of_failed_metrics(&expect, &mut actual);
    difference("", &expect, &actual)
}

fn event(event: &hpa_calc::event::Event) -> Value {
    json!({
        "type": event.event_type.as_str(), "reason": event.reason.as_str(),
        "message": event.message,
    })
}

/// Ignores a difference for failed metrics: the reference stores an empty entry, this controller
/// may name the metric.
fn ignore_names_of_failed_metrics(expect: &Value, actual: &mut Value) {
    let path = "/status/currentMetrics";
    let (Some(Value::Array(expected)), Some(Value::Array(actual))) =
        (expect.pointer(path), actual.pointer_mut(path))
    else {
        return;
    };
    for (expected, actual) in expected.iter().zip(actual) {
        if *expected == json!({}) {
            *actual = json!({});
        }
    }
}
