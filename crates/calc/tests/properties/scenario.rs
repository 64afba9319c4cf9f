//! Generated inputs of a reconcile, and reconciles with them.

use std::sync::Arc;

use hpa_calc::{
    Conclusion, History, HorizontalPodAutoscaler, Inputs, MetricsApi, MilliValue, Plan, Pod,
    PodSample, PodSamples, ReadError, Reading, Readings, Scale, ScaleWriteError, SelectedPods,
    Settings,
    api::ConditionType,
    defaults::apply_defaults,
    history::{Recommendation, ScaleEvent},
    settings::{DOMAIN, ProblemKind, SettingPolicy, SettingProblem},
    validation::{ValidationOptions, validate},
};
use jiff::{SignedDuration, Timestamp};
use proptest::{collection::vec, option, prelude::*, sample::select};
use serde_json::{Value, json};

const NOW: i64 = 10_000;

pub(super) fn at(ago: i64) -> Timestamp {
    Timestamp::from_second(NOW - ago).unwrap()
}

/// A pod and its sample in milli-units. Every pod requests 1000m of CPU, and its limit is 2000m.
/// The start and the last change of the readiness are in seconds before the reconcile.
#[derive(Clone, Debug)]
pub(super) struct GeneratedPod {
    pub(super) phase: &'static str,
    pub(super) ready: &'static str,
    pub(super) terminating: bool,
    pub(super) started_ago: i64,
    pub(super) changed_ago: i64,
    pub(super) sample: Option<i64>,
}

/// The inputs of a reconcile.
#[derive(Clone, Debug)]
pub(super) struct Scenario {
    pub(super) hpa: HorizontalPodAutoscaler,
    pub(super) scale: Scale,
    pub(super) pods: Vec<GeneratedPod>,
    /// The value of Object and External metrics in milli-units.
    pub(super) value: i64,
    /// Whether each metric can be read.
    pub(super) readable: Vec<bool>,
    pub(super) history: History,
}

fn pod() -> impl Strategy<Value = GeneratedPod> {
    let phase = select(vec!["Running", "Running", "Running", "Pending", "Failed"]);
    let ready = select(vec!["True", "True", "False", "Unknown"]);
    let sample = option::weighted(0.8, 0..3000_i64);
    (phase, ready, prop::bool::weighted(0.1), 0..600_i64, 0..600_i64, sample).prop_map(
        |(phase, ready, terminating, started_ago, changed_ago, sample)| GeneratedPod {
            phase,
            ready,
            terminating,
            started_ago,
            changed_ago,
            sample,
        },
    )
}

fn metric() -> impl Strategy<Value = Value> {
    let resource = |target: Value| {
        json!({ "type": "Resource", "resource":
            { "name": "cpu", "target": target } })
    };
    let average =
        |amount: i64| json!({ "type": "AverageValue", "averageValue": format!("{amount}m") });
    let value = |amount: i64| json!({ "type": "Value", "value": format!("{amount}m") });
    let external = |target: Value| {
        json!({ "type": "External", "external":
            { "metric": { "name": "m" }, "target": target } })
    };
    let object = |target: Value| {
        let described = json!({ "kind": "Service", "name": "s", "apiVersion": "v1" });
        json!({ "type": "Object", "object":
            { "describedObject": described, "metric": { "name": "m" }, "target": target } })
    };
    let pods = |target: Value| {
        json!({ "type": "Pods", "pods":
            { "metric": { "name": "m" }, "target": target } })
    };
    prop_oneof![
        (1..250_i32).prop_map(move |percent| resource(
            json!({ "type": "Utilization", "averageUtilization": percent })
        )),
        (1..2000_i64).prop_map(move |amount| resource(average(amount))),
        (1..2000_i64).prop_map(move |amount| pods(average(amount))),
        (1..2000_i64).prop_map(move |amount| external(average(amount))),
        (1..2000_i64).prop_map(move |amount| external(value(amount))),
        (1..2000_i64).prop_map(move |amount| object(average(amount))),
        (1..2000_i64).prop_map(move |amount| object(value(amount))),
    ]
}

fn rules() -> impl Strategy<Value = Value> {
    let policy = (select(vec!["Pods", "Percent"]), 1..200_i32, 1..600_i32).prop_map(
        |(name, value, period)| json!({ "type": name, "value": value, "periodSeconds": period }),
    );
    let selected = select(vec!["Max", "Min", "Disabled"]);
    (option::of(0..600_i32), selected, vec(policy, 1..3), option::of(0..500_i32)).prop_map(
        |(window, select, policies, tolerance)| {
            json!({
                "stabilizationWindowSeconds": window,
                "selectPolicy": select,
                "policies": policies,
                "tolerance": tolerance.map(|milli| format!("{milli}m")),
            })
        },
    )
}

fn hpas(metrics: std::ops::Range<usize>) -> impl Strategy<Value = HorizontalPodAutoscaler> {
    let behavior = option::of(
        (rules(), rules()).prop_map(|(up, down)| json!({ "scaleUp": up, "scaleDown": down })),
    );
    (0..6_i32, 1..30_i32, vec(metric(), metrics), behavior, any::<bool>(), 0..3_i64)
        .prop_filter_map(
            "the API server would refuse it",
            |(min, span, metrics, behavior, marked, generation)| {
                let marker = json!({
                    "type": "ScaledToZero",
                    "status": if marked { "True" } else { "False" },
                });
                let mut hpa: HorizontalPodAutoscaler = serde_json::from_value(json!({
                    "metadata": { "name": "web", "namespace": "shop", "generation": generation },
                    "spec": {
                        "scaleTargetRef": {
                            "apiVersion": "apps/v1",
                            "kind": "Deployment",
                            "name": "web",
                        },
                        "minReplicas": min,
                        "maxReplicas": min + span,
                        "metrics": metrics,
                        "behavior": behavior,
                    },
                    "status": { "desiredReplicas": 77, "conditions": [marker] },
                }))
                .unwrap();
                apply_defaults(&mut hpa.spec);
                validate(&hpa.spec, &ValidationOptions::default()).is_empty().then_some(hpa)
            },
        )
}

fn histories() -> impl Strategy<Value = History> {
    let recommendations = vec((0..40_i32, 0..700_i64), 0..4).prop_map(|all| {
        all.into_iter().map(|(replicas, ago)| Recommendation { replicas, at: at(ago) }).collect()
    });
    let events = || {
        vec((1..20_i32, 0..700_i64, any::<bool>()), 0..3).prop_map(|all| {
            all.into_iter()
                .map(|(change, ago, outdated)| ScaleEvent { change, at: at(ago), outdated })
                .collect()
        })
    };
    (recommendations, events(), events()).prop_map(|(recommendations, scale_ups, scale_downs)| {
        History { recommendations, scale_ups, scale_downs, ..History::default() }
    })
}

/// Values of settings, other than their defaults. Fallbacks are generated separately.
const SETTINGS: &[(&str, &[&str])] = &[
    ("pause", &["true", "up", "down"]),
    ("dry-run", &["true"]),
    ("sync-period", &["1m"]),
    ("pods", &["owned"]),
    ("rollout", &["ignore-surge"]),
    (
        "bounds",
        &[
            r#"[{"start": "00:00", "end": "00:00", "minReplicas": 3, "maxReplicas": 7}]"#,
            r#"[{"start": "02:00", "end": "03:00", "timeZone": "Asia/Kolkata", "minReplicas": 40},
                {"days": ["Mon"], "start": "08:00", "end": "20:00", "maxReplicas": 1}]"#,
        ],
    ),
    ("zero-after", &["1m", "24h"]),
    ("tolerance", &["0", "0.3", "1"]),
    ("downscale-stabilization", &["0s", "1h"]),
    ("cpu-initialization-period", &["0s", "1h"]),
    ("initial-readiness-delay", &["0s", "1h"]),
    ("activation", &["500m", "20"]),
    ("max-sample-age", &["1s", "1h"]),
    ("aggregate", &["p90", "p95", "p99", "max"]),
    ("utilization-of", &["limits"]),
    ("requests", &["actual"]),
    ("missing-requests", &["skip-pod"]),
];

/// The defaults of settings, as the texts of annotations.
pub(super) const DEFAULTS: &[(&str, &str)] = &[
    ("pause", "false"),
    ("dry-run", "false"),
    ("pods", "selected"),
    ("rollout", "count-surge"),
    ("zero-after", "0s"),
    ("tolerance", "0.1"),
    ("downscale-stabilization", "5m"),
    ("cpu-initialization-period", "5m"),
    ("initial-readiness-delay", "30s"),
    ("activation", "0"),
    ("aggregate", "average"),
    ("utilization-of", "requests"),
    ("requests", "spec"),
    ("missing-requests", "fail"),
];

/// No settings, or some settings of an autoscaler, by name.
pub(super) fn settings() -> impl Strategy<Value = Vec<(&'static str, &'static str)>> {
    let each = |(name, values): &(&'static str, &'static [&'static str])| {
        let name = *name;
        option::weighted(0.3, select(values.to_vec()).prop_map(move |value| (name, value)))
    };
    let all: Vec<_> = SETTINGS.iter().map(each).collect();
    let some = all.prop_map(|drawn| drawn.into_iter().flatten().collect());
    prop_oneof![Just(Vec::new()), some]
}

pub(super) fn fallbacks() -> impl Strategy<Value = String> {
    let behaviors =
        ["static", "currentReplicas", "currentReplicasIfHigher", "currentReplicasIfLower"];
    (0..40_i32, select(behaviors.to_vec())).prop_map(|(replicas, behavior)| {
        json!({ "replicas": replicas, "failureDurationSeconds": 30, "behavior": behavior })
            .to_string()
    })
}

/// Scenarios whose scale is mostly within bounds.
pub(super) fn scenarios(metrics: std::ops::Range<usize>) -> impl Strategy<Value = Scenario> {
    let replicas = (0..40_i32, 0..40_i32, prop::bool::weighted(0.9));
    let readable = vec(prop::bool::weighted(0.8), 4);
    (hpas(metrics), replicas, vec(pod(), 0..12), 0..40_000_i64, readable, histories()).prop_map(
        |(hpa, (any, status_replicas, within), pods, value, readable, history)| {
            let (min, max) = (hpa.spec.effective_min_replicas(), hpa.spec.max_replicas);
            let spec_replicas = if within { min + any % (max - min + 1) } else { any };
            let scale = Scale { spec_replicas, status_replicas, selector: "app=web".into() };
            Scenario { hpa, scale, pods, value, readable, history }
        },
    )
}

impl Scenario {
    pub(super) fn api_pods(&self) -> Vec<Arc<Pod>> {
        let pod = |(index, generated): (usize, &GeneratedPod)| {
            let deleted = generated.terminating.then(|| at(0).to_string());
            let pod: Pod = serde_json::from_value(json!({
                "metadata": { "name": index.to_string(), "deletionTimestamp": deleted },
                "spec": {
                    "containers": [{ "name": "c", "resources": {
                        "requests": { "cpu": "1" }, "limits": { "cpu": "2" },
                    } }],
                },
                "status": {
                    "phase": generated.phase,
                    "startTime": at(generated.started_ago).to_string(),
                    "conditions": [{
                        "type": "Ready",
                        "status": generated.ready,
                        "lastTransitionTime": at(generated.changed_ago).to_string(),
                    }],
                },
            }))
            .unwrap();
            Arc::new(pod)
        };
        self.pods.iter().enumerate().map(pod).collect()
    }

    fn samples(&self) -> PodSamples {
        let window = SignedDuration::from_secs(30);
        let sample = |(index, generated): (usize, &GeneratedPod)| {
            Some((
                index.to_string(),
                PodSample {
                    value: MilliValue::from_milli(generated.sample?),
                    timestamp: at(5),
                    window,
                },
            ))
        };
        self.pods.iter().enumerate().filter_map(sample).collect()
    }

    pub(super) fn reconcile(&self, written: Result<(), ScaleWriteError>) -> Conclusion {
        self.conclude(&Settings::default(), self.api_pods(), self.readings(), at(0), written)
    }

    pub(super) fn reconcile_with_settings(&self, settings: &Settings) -> Conclusion {
        self.reconcile_at(settings, at(0))
    }

    pub(super) fn reconcile_pods(&self, settings: &Settings, pods: Vec<Arc<Pod>>) -> Conclusion {
        self.conclude(settings, pods, self.readings(), at(0), Ok(()))
    }

    pub(super) fn reconcile_readings(&self, settings: &Settings, readings: Readings) -> Conclusion {
        self.conclude(settings, self.api_pods(), readings, at(0), Ok(()))
    }

    pub(super) fn reconcile_at(&self, settings: &Settings, now: Timestamp) -> Conclusion {
        self.conclude(settings, self.api_pods(), self.readings(), now, Ok(()))
    }

    fn conclude(
        &self,
        settings: &Settings,
        pods: Vec<Arc<Pod>>,
        readings: Readings,
        now: Timestamp,
        written: Result<(), ScaleWriteError>,
    ) -> Conclusion {
        let select = |_: &_| SelectedPods::new(pods);
        let plan = Plan::new(&self.hpa, Ok(self.scale.clone()), settings, select);
        plan.decide(readings, self.history.clone(), now).conclude(written, now)
    }

    /// The effective settings with these annotations, which may have no metric that they apply to,
    /// or be overridden by the behavior.
    pub(super) fn resolve(&self, annotations: &[(&str, &str)]) -> Settings {
        let mut hpa = self.hpa.clone();
        hpa.metadata.annotations = annotations
            .iter()
            .map(|(name, value)| (format!("{DOMAIN}/{name}"), (*value).to_owned()))
            .collect();
        let resolved = Settings::default().for_autoscaler(&hpa, &SettingPolicy::default());
        let is_unused = |problem: &SettingProblem| {
            matches!(problem.kind, ProblemKind::NoSuchMetric | ProblemKind::Overridden)
        };
        assert!(resolved.problems.iter().all(is_unused), "{:?}", resolved.problems);
        resolved.settings
    }

    /// The result of a reconcile with these settings, without the parts that only report settings.
    pub(super) fn effect_of(&self, settings: &Settings) -> String {
        let mut conclusion = self.reconcile_with_settings(settings);
        conclusion.history.failing_metrics.clear();
        conclusion.explanation.bounds = None;
        conclusion
            .status
            .conditions
            .retain(|condition| condition.condition_type != ConditionType::CustomSettings);
        format!("{conclusion:?}")
    }

    pub(super) fn inputs(&self) -> Inputs {
        Inputs {
            hpa: self.hpa.clone(),
            scale: Ok(self.scale.clone()),
            settings: Settings::default(),
            selected: SelectedPods::new(self.api_pods()),
            readings: self.readings(),
            history: Some(self.history.clone()),
            now: at(0),
        }
    }

    pub(super) fn readings(&self) -> Readings {
        let reading = |index: usize, source_type: &str| {
            if !self.readable[index] {
                return Err(ReadError::Empty(MetricsApi::Custom));
            }
            Ok(match source_type {
                "Object" => Reading::Object(MilliValue::from_milli(self.value).into()),
                "External" => {
                    let series = [self.value / 2, self.value - self.value / 2];
                    Reading::External(series.map(MilliValue::from_milli).to_vec().into())
                }
                _ => Reading::Pods(self.samples()),
            })
        };
        let metrics = self.hpa.spec.metrics.iter().enumerate();
        metrics
            .map(|(index, metric)| (index, reading(index, metric.source_type.as_str())))
            .collect()
    }

    pub(super) fn disables(&self, direction: &str) -> bool {
        let spec = serde_json::to_value(&self.hpa.spec).unwrap();
        spec["behavior"][direction]["selectPolicy"] == "Disabled"
    }
}
