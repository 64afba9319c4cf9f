//! Whatever the spec, the scale, the pods, the metrics and the past: no panic, and a scale within bounds.
#![no_main]

use std::sync::Arc;

use arbitrary::Arbitrary;
use hpa_calc::{
    api::{HorizontalPodAutoscaler, Pod, Scale},
    defaults::apply_defaults,
    history::{History, Recommendation, ScaleEvent},
    plan::{Plan, ScaleReadError, SelectedPods},
    readings::{MetricQuery, MetricsApi, PodSample, PodSamples, ReadError, Reading},
    settings::Settings,
    validation::{ValidationOptions, validate},
};
use jiff::{SignedDuration, Timestamp};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    /// JSON.
    hpa: &'a [u8],
    /// JSON.
    pods: &'a [u8],
    scale: Option<(i32, i32, &'a str)>,
    autoscalers: u8,
    samples: Vec<(u8, i64, i64, i64)>,
    values: Vec<i64>,
    unread: bool,
    recommendations: Vec<(i32, i64)>,
    scale_events: Vec<(i32, i64, bool)>,
    now: i64,
    tolerance: f64,
    spans: [i64; 3],
    scale_to_zero: bool,
    written: bool,
}

fn time(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap_or(Timestamp::UNIX_EPOCH)
}

fuzz_target!(|input: Input<'_>| {
    let Ok(mut hpa) = serde_json::from_slice::<HorizontalPodAutoscaler>(input.hpa) else { return };
    apply_defaults(&mut hpa.spec);
    let pods: Vec<Pod> = serde_json::from_slice(input.pods).unwrap_or_default();
    let pods: Vec<Arc<Pod>> = pods.into_iter().map(Arc::new).collect();
    let [downscale_stabilization, cpu_initialization_period, initial_readiness_delay] =
        input.spans.map(SignedDuration::from_secs);
    let settings = Settings {
        tolerance: input.tolerance,
        downscale_stabilization,
        cpu_initialization_period,
        initial_readiness_delay,
        scale_to_zero: input.scale_to_zero,
    };
    let scale = input.scale.map(|(spec_replicas, status_replicas, selector)| Scale {
        spec_replicas,
        status_replicas,
        selector: selector.to_owned(),
    });
    let scale = scale.ok_or_else(|| ScaleReadError::Read("gone".into()));
    let sampled: PodSamples = (input.samples.iter())
        .map(|(pod, value, at, window)| {
            let name = pods
                .get(usize::from(*pod))
                .map_or_else(|| pod.to_string(), |pod| pod.name.to_string());
            let window = SignedDuration::from_secs(*window);
            (name, PodSample { value: *value, timestamp: time(*at), window })
        })
        .collect();
    let event = |(change, at, outdated): &(i32, i64, bool)| ScaleEvent {
        change: *change,
        at: time(*at),
        outdated: *outdated,
    };
    let recommendation =
        |(replicas, at): &(i32, i64)| Recommendation { replicas: *replicas, at: time(*at) };
    let history = History {
        recommendations: input.recommendations.iter().map(recommendation).collect(),
        scale_ups: input.scale_events.iter().map(event).collect(),
        scale_downs: input.scale_events.iter().map(event).collect(),
    };
    let now = time(input.now);
    let autoscalers = (0..input.autoscalers % 3).map(|index| index.to_string()).collect();
    let plan = Plan::new(&hpa, scale.clone(), &settings, |_| SelectedPods {
        pods: pods.clone(),
        autoscalers,
    });
    let mut readings: Vec<_> = hpa.spec.metrics.iter().map(|_| None).collect();
    for (index, query) in plan.queries() {
        readings[index] = Some(match query {
            _ if input.unread => Err(ReadError::Empty(MetricsApi::Custom)),
            MetricQuery::Resource { .. } | MetricQuery::Pods { .. } => {
                Ok(Reading::Pods(sampled.clone()))
            }
            MetricQuery::Object { .. } => {
                Ok(Reading::Object(input.values.first().copied().unwrap_or_default()))
            }
            MetricQuery::External { .. } => Ok(Reading::External(input.values.clone())),
        });
    }
    let decision = plan.decide(readings, history, now);
    let is_valid = validate(&hpa.spec, &ValidationOptions::default()).is_empty();
    if let (true, Some(replicas), Ok(scale)) = (is_valid, decision.scale_to(), scale) {
        let bounds = hpa.spec.effective_min_replicas()..=hpa.spec.max_replicas;
        assert!(bounds.contains(&replicas), "{replicas} is out of {bounds:?}");
        assert_ne!(replicas, scale.spec_replicas);
    }
    let _ = decision.explanation().to_string();
    let _ = decision.conclude(if input.written { Ok(()) } else { Err("refused".into()) }, now);
});
