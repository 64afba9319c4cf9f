//! A reconcile of one autoscaler with literal inputs, and its outcome as text.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
#![allow(dead_code, reason = "not every test uses all of it")]

use std::sync::Arc;

use hpa_calc::{
    Conclusion, Decision, History, HorizontalPodAutoscaler, MetricsApi, MilliValue, Pause, Plan,
    Pod, ReadError, Reading, Scale, ScaleReadError, ScaleWriteError, SelectedPods, Settings,
    api::HorizontalPodAutoscalerStatus, history::Recommendation,
};
use jiff::Timestamp;
use serde_json::{Value, json};

pub(crate) const BEFORE: &str = "2026-01-01T00:00:00Z";
pub(crate) const NOW: &str = "2026-01-01T00:01:00Z";

pub(crate) fn now() -> Timestamp {
    NOW.parse().unwrap()
}

/// An External metric with a target of 1 per replica: it proposes as many replicas as its value.
pub(crate) fn external(name: &str) -> Value {
    let target = json!({ "type": "AverageValue", "averageValue": "1" });
    json!({ "type": "External", "external": { "metric": { "name": name }, "target": target } })
}

pub(crate) fn cpu() -> Value {
    let target = json!({ "type": "Utilization", "averageUtilization": 50 });
    json!({ "type": "Resource", "resource": { "name": "cpu", "target": target } })
}

/// An autoscaler with 2 to 10 replicas, these other members of its spec, and this status.
pub(crate) fn hpa(spec: Value, status: Value) -> HorizontalPodAutoscaler {
    let mut hpa = json!({
        "metadata": { "name": "web", "namespace": "shop" },
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
            "minReplicas": 2,
            "maxReplicas": 10,
            "metrics": [external("m")],
        },
        "status": status,
    });
    for (name, value) in spec.as_object().unwrap() {
        hpa["spec"][name] = value.clone();
    }
    serde_json::from_value(hpa).unwrap()
}

/// An autoscaler with one metric and these settings, and with bounds and policies that limit
/// nothing.
pub(crate) fn unlimited_hpa(metric: &Value, settings: &[(&str, &str)]) -> HorizontalPodAutoscaler {
    let annotation = |(name, value): &(&str, &str)| {
        (format!("autoscaling.hpa-rs.dev/{name}"), Value::from(*value))
    };
    let annotations: serde_json::Map<_, _> = settings.iter().map(annotation).collect();
    let policy = json!({ "type": "Pods", "value": 10_000, "periodSeconds": 15 });
    let rules = json!({ "stabilizationWindowSeconds": 0, "policies": [policy] });
    serde_json::from_value(json!({
        "metadata": { "name": "web", "namespace": "shop", "annotations": annotations },
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
            "minReplicas": 1, "maxReplicas": 10_000, "metrics": [metric],
            "behavior": { "scaleUp": rules, "scaleDown": rules },
        },
    }))
    .unwrap()
}

/// A pod that has been ready for long, with these resources of its container and these other
/// members of its status.
pub(crate) fn ready_pod(name: &str, resources: &Value, status: &Value) -> Arc<Pod> {
    let mut pod = json!({
        "metadata": { "name": name },
        "spec": { "containers": [{ "name": "app", "resources": resources }] },
        "status": {
            "phase": "Running",
            "startTime": "1970-01-01T00:00:00Z",
            "conditions": [{ "type": "Ready", "status": "True",
                "lastTransitionTime": "1970-01-01T00:01:00Z" }],
        },
    });
    for (member, value) in status.as_object().unwrap() {
        pod["status"][member] = value.clone();
    }
    Arc::new(serde_json::from_value(pod).unwrap())
}

/// A history that limits no decision: its only recommendation is too old for stabilization.
pub(crate) fn old_history() -> History {
    let long_ago = Recommendation { replicas: 1, at: Timestamp::UNIX_EPOCH };
    History { recommendations: vec![long_ago], ..History::default() }
}

pub(crate) fn scale(replicas: i32) -> Scale {
    // With 0 `status.replicas`, no ratio is within tolerance.
    Scale { spec_replicas: replicas, status_replicas: 0, selector: "app=web".into() }
}

/// The inputs of a reconcile. By default, no recommendation or setting limits the decision.
pub(crate) struct Scenario {
    pub(crate) scale: Result<Scale, ScaleReadError>,
    /// The value of each external metric in whole units; `None` if it can't be read.
    pub(crate) values: Vec<Option<i64>>,
    pub(crate) autoscalers: Vec<String>,
    pub(crate) history: History,
    pub(crate) settings: Settings,
    pub(crate) written: Result<(), ScaleWriteError>,
}

impl Scenario {
    pub(crate) fn new(replicas: i32, values: &[Option<i64>]) -> Self {
        Self {
            scale: Ok(scale(replicas)),
            values: values.to_vec(),
            autoscalers: vec!["shop/web".into()],
            history: old_history(),
            settings: Settings::default(),
            written: Ok(()),
        }
    }

    pub(crate) fn paused(self, pause: Pause) -> Self {
        Self { settings: self.settings.with(|settings| settings.pause = pause), ..self }
    }

    pub(crate) fn reconcile(mut self, hpa: &HorizontalPodAutoscaler) -> Conclusion {
        let written = std::mem::replace(&mut self.written, Ok(()));
        self.decide(hpa, |decision| decision.conclude(written, now()))
    }

    /// The status that is stored before the scale is written.
    pub(crate) fn status_before_scale(
        self,
        hpa: &HorizontalPodAutoscaler,
    ) -> Option<HorizontalPodAutoscalerStatus> {
        self.decide(hpa, |decision| decision.status_before_scale())
    }

    fn decide<T>(self, hpa: &HorizontalPodAutoscaler, then: impl FnOnce(Decision<'_>) -> T) -> T {
        let Self { scale, values, autoscalers, history, settings, .. } = self;
        let pod: Pod = serde_json::from_value(json!({ "metadata": { "name": "p" } })).unwrap();
        let pods = vec![pod.into()];
        let plan = Plan::new(hpa, scale, &settings, |_| SelectedPods {
            pods,
            autoscalers,
            ..SelectedPods::default()
        });
        let read = |value: Option<i64>| match value {
            Some(value) => Ok(Reading::External(vec![MilliValue::from_units(value)].into())),
            None => Err(ReadError::fetch(MetricsApi::External, "down")),
        };
        let readings = values.into_iter().map(read).enumerate().collect();
        then(plan.decide(readings, history, now()))
    }
}

/// Type, status, reason and message of every condition.
pub(crate) fn conditions(conclusion: &Conclusion) -> Vec<String> {
    let conditions = &conclusion.status.conditions;
    conditions
        .iter()
        .map(|one| format!("{}={} {}: {}", one.condition_type, one.status, one.reason, one.message))
        .collect()
}

pub(crate) fn events(conclusion: &Conclusion) -> Vec<String> {
    let events = conclusion.events.iter();
    events
        .map(|event| {
            format!("{} {}: {}", event.event_type.as_str(), event.reason.as_str(), event.message)
        })
        .collect()
}

pub(crate) fn error(conclusion: &Conclusion) -> Option<String> {
    conclusion.error.as_ref().map(ToString::to_string)
}

pub(crate) const ABLE_TO_SCALE: &str = "AbleToScale=True SucceededGetScale: the HPA controller was \
    able to get the target's current scale";
pub(crate) const SCALING_ACTIVE: &str = "ScalingActive=True ValidMetricFound: the HPA was able to \
    successfully calculate a replica count from external metric m(nil)";
pub(crate) const WITHIN_RANGE: &str =
    "ScalingLimited=False DesiredWithinRange: the desired count is within the acceptable range";
pub(crate) const NOT_SCALED_TO_ZERO: &str =
    "ScaledToZero=False NotScaledToZero: the HPA controller did not scale the workload to zero";
