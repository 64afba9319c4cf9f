//! Decides for any spec, scale, pods, metrics and history. No input causes a panic, and a valid
//! spec causes no scale out of bounds.
#![no_main]

use std::sync::Arc;

use arbitrary::Arbitrary;
use hpa_calc::{
    History, HorizontalPodAutoscaler, MetricQuery, MetricsApi, MilliValue, Pause, Plan, Pod,
    PodSample, PodSamples, ReadError, Reading, Scale, ScaleReadError, ScaleWriteError,
    SelectedPods, Settings,
    defaults::apply_defaults,
    history::{Recommendation, ScaleEvent},
    validation::{ValidationOptions, validate},
};
use jiff::{SignedDuration, Timestamp};
use libfuzzer_sys::fuzz_target;

/// Autoscalers for inputs whose `hpa` can't be decoded, like most inputs until the fuzzer finds
/// valid ones.
const DEFAULT_HPAS: [&str; 3] = [
    r#"{ "metadata": { "name": "h", "namespace": "n" },
        "spec": { "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "d" },
            "minReplicas": 2, "maxReplicas": 20,
            "metrics": [{ "type": "Resource", "resource": { "name": "cpu",
                "target": { "type": "Utilization", "averageUtilization": 60 } } }] } }"#,
    r#"{ "metadata": { "name": "h", "namespace": "n", "generation": 3 },
        "spec": { "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "d" },
            "minReplicas": 0, "maxReplicas": 9,
            "metrics": [
                { "type": "External", "external": { "metric": { "name": "e" },
                    "target": { "type": "AverageValue", "averageValue": "2500m" } } },
                { "type": "Pods", "pods": { "metric": { "name": "p" },
                    "target": { "type": "AverageValue", "averageValue": "1" } } }],
            "behavior": {
                "scaleUp": { "stabilizationWindowSeconds": 60, "selectPolicy": "Min",
                    "policies": [{ "type": "Pods", "value": 2, "periodSeconds": 30 },
                        { "type": "Percent", "value": 50, "periodSeconds": 90 }] },
                "scaleDown": { "tolerance": "200m" } } },
        "status": { "desiredReplicas": 0, "conditions": [
            { "type": "ScaledToZero", "status": "True" }] } }"#,
    r#"{ "spec": { "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "d" },
            "maxReplicas": 2147483647,
            "metrics": [{ "type": "Object", "object": {
                "describedObject": { "kind": "Service", "name": "s", "apiVersion": "v1" },
                "metric": { "name": "o" }, "target": { "type": "Value", "value": "1n" } } }],
            "behavior": { "scaleDown": { "selectPolicy": "Disabled" } } } }"#,
];

/// A ready pod, an unready one and one that is being deleted.
const PODS: &str = r#"[
    { "metadata": { "name": "a" },
        "spec": { "containers": [{ "name": "c", "resources": { "requests": { "cpu": "1" } } }] },
        "status": { "phase": "Running", "startTime": "2026-01-01T00:00:00Z", "conditions": [{
            "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:09Z" }] } },
    { "metadata": { "name": "b" },
        "spec": { "containers": [{ "name": "c", "resources": { "requests": { "cpu": "3m" } } }] },
        "status": { "phase": "Running", "startTime": "2026-01-01T00:00:00Z" } },
    { "metadata": { "name": "c", "deletionTimestamp": "2026-01-01T00:00:00Z" },
        "spec": { "containers": [{ "name": "c", "resources": { "requests": { "cpu": "9E" } } }] } }
]"#;

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    /// Selects one of [`DEFAULT_HPAS`] if `hpa` is invalid.
    default_hpa: u8,
    /// An autoscaler as JSON.
    hpa: &'a [u8],
    /// A list of pods as JSON.
    pods: &'a [u8],
    /// `spec.replicas`, `status.replicas` and selector.
    scale: Option<(i32, i32, &'a str)>,
    /// The number of autoscalers that select the pods, modulo 3.
    autoscaler_count: u8,
    /// Pod index, milli-units, and seconds of timestamp and window.
    samples: Vec<(u8, i64, i64, i64)>,
    /// Milli-units of Object and External metrics.
    values: Vec<i64>,
    metrics_fail: bool,
    /// Replicas, and seconds of the time.
    recommendations: Vec<(i32, i64)>,
    /// Change of replicas, seconds of the time, and whether the event is outdated.
    scale_events: Vec<(i32, i64, bool)>,
    /// Seconds of the time of the decision.
    now: i64,
    tolerance: f64,
    /// Seconds of downscale stabilization, CPU initialization period and initial readiness delay.
    durations: [i64; 3],
    scale_to_zero: bool,
    strict_scale_to_zero: bool,
    /// Whether scaling up and scaling down are paused.
    pause: (bool, bool),
    write_succeeds: bool,
}

impl Input<'_> {
    fn settings(&self) -> Settings {
        let [downscale_stabilization, cpu_initialization, initial_readiness] =
            self.durations.map(SignedDuration::from_secs);
        Settings::default().with(|settings| {
            settings.tolerance = self.tolerance;
            settings.downscale_stabilization = downscale_stabilization;
            settings.cpu_initialization_period = cpu_initialization;
            settings.initial_readiness_delay = initial_readiness;
            settings.scale_to_zero = self.scale_to_zero;
            settings.strict_scale_to_zero = self.strict_scale_to_zero;
        })
    }

    fn scale(&self) -> Result<Scale, ScaleReadError> {
        let (spec_replicas, status_replicas, selector) =
            self.scale.ok_or_else(|| ScaleReadError::read("not found"))?;
        Ok(Scale { spec_replicas, status_replicas, selector: selector.to_owned() })
    }

    fn samples(&self, pods: &[Arc<Pod>]) -> PodSamples {
        let sample = |(pod, value, at, window): &(u8, i64, i64, i64)| {
            let name = pods.get(usize::from(*pod)).map(|pod| pod.name.to_string());
            let (value, window) =
                (MilliValue::from_milli(*value), SignedDuration::from_secs(*window));
            let sample = PodSample { value, timestamp: time(*at), window };
            (name.unwrap_or_else(|| pod.to_string()), sample)
        };
        self.samples.iter().map(sample).collect()
    }

    fn history(&self) -> History {
        let event = |(change, at, outdated): &(i32, i64, bool)| ScaleEvent {
            change: *change,
            at: time(*at),
            outdated: *outdated,
        };
        let recommendation =
            |(replicas, at): &(i32, i64)| Recommendation { replicas: *replicas, at: time(*at) };
        History {
            recommendations: self.recommendations.iter().map(recommendation).collect(),
            scale_ups: self.scale_events.iter().map(event).collect(),
            scale_downs: self.scale_events.iter().map(event).collect(),
            ..History::default()
        }
    }

    fn reading(&self, query: &MetricQuery, samples: &PodSamples) -> Result<Reading, ReadError> {
        if self.metrics_fail {
            return Err(ReadError::Empty(MetricsApi::Custom));
        }
        let mut values = self.values.iter().copied().map(MilliValue::from_milli);
        Ok(match query {
            MetricQuery::Resource { .. } | MetricQuery::Pods { .. } => {
                Reading::Pods(samples.clone())
            }
            MetricQuery::Object { .. } => Reading::Object(values.next().unwrap_or_default().into()),
            MetricQuery::External { .. } => Reading::External(values.collect::<Vec<_>>().into()),
        })
    }
}

fn time(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap_or(Timestamp::UNIX_EPOCH)
}

fuzz_target!(|input: Input<'_>| {
    let default_hpa = DEFAULT_HPAS[usize::from(input.default_hpa) % DEFAULT_HPAS.len()];
    let hpa = serde_json::from_slice(input.hpa).or_else(|_| serde_json::from_str(default_hpa));
    let mut hpa: HorizontalPodAutoscaler = hpa.expect("the default autoscalers are valid");
    apply_defaults(&mut hpa.spec);
    let pods = serde_json::from_slice(input.pods).or_else(|_| serde_json::from_str(PODS));
    let pods: Vec<Pod> = pods.expect("the pods are valid");
    let pods: Vec<Arc<Pod>> = pods.into_iter().map(Arc::new).collect();
    let (up, down) = input.pause;
    let settings = input.settings().with(|settings| settings.pause = Pause { up, down });
    let (scale, now) = (input.scale(), time(input.now));
    let autoscalers = (0..input.autoscaler_count % 3).map(|index| index.to_string()).collect();
    let plan = Plan::new(&hpa, scale.clone(), &settings, |_| SelectedPods {
        pods: pods.clone(),
        autoscalers,
        ..SelectedPods::default()
    });
    let samples = input.samples(&pods);
    let readings =
        plan.queries().map(|(metric, query)| (metric, input.reading(query, &samples))).collect();
    let decision = plan.decide(readings, input.history(), now);
    let is_valid = validate(&hpa.spec, &ValidationOptions::default()).is_empty();
    if let (true, Some(replicas), Ok(scale)) = (is_valid, decision.scale_to(), scale) {
        let bounds = hpa.spec.effective_min_replicas()..=hpa.spec.max_replicas;
        assert!(bounds.contains(&replicas), "{replicas} is out of {bounds:?}");
        assert_ne!(replicas, scale.spec_replicas);
    }
    let _ = decision.explanation().to_string();
    let _ = decision.status_before_scale();
    let written = input.write_succeeds.then_some(()).ok_or(ScaleWriteError::failed("refused"));
    let _ = decision.conclude(written, now);
});
