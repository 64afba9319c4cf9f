//! Properties of every reconcile, for generated specs, scales, pods, metrics and histories.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::sync::Arc;

use hpa_calc::{
    Conclusion, ForecastReason, History, HorizontalPodAutoscaler, Inputs, LoadForecast,
    MetricForecast, MetricsApi, MilliValue, Plan, Pod, PodSample, PodSamples, ReadError, Reading,
    Readings, Scale, ScaleWriteError, SelectedPods, Settings,
    api::{ConditionType, HorizontalPodAutoscalerStatus},
    defaults::apply_defaults,
    history::{Direction, Recommendation, ScaleEvent},
    pods::PodCounts,
    report::Trigger,
    settings::{
        DOMAIN, Forecasting, MetricSettings, ProblemKind, ScheduledBounds, SettingPolicy,
        SettingProblem,
    },
    validation::{ValidationOptions, validate},
};
use jiff::{SignedDuration, Timestamp};
use proptest::{
    collection::vec,
    option,
    prelude::*,
    sample::{Index, select},
};
use serde_json::{Value, json};

const NOW: i64 = 10_000;

fn at(ago: i64) -> Timestamp {
    Timestamp::from_second(NOW - ago).unwrap()
}

/// A pod and its sample in milli-units. Every pod requests 1000m of CPU, and its limit is 2000m.
#[derive(Clone, Debug)]
struct GeneratedPod {
    phase: &'static str,
    ready: &'static str,
    terminating: bool,
    started_ago: i64,
    changed_ago: i64,
    sample: Option<i64>,
}

/// The inputs of a reconcile.
#[derive(Clone, Debug)]
struct Scenario {
    hpa: HorizontalPodAutoscaler,
    scale: Scale,
    pods: Vec<GeneratedPod>,
    /// The value of Object and External metrics in milli-units.
    value: i64,
    /// Whether each metric can be read.
    readable: Vec<bool>,
    history: History,
}

fn pods() -> impl Strategy<Value = GeneratedPod> {
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
        json!({
            "type": "Resource",
            "resource": { "name": "cpu", "target": target },
        })
    };
    let average =
        |amount: i64| json!({ "type": "AverageValue", "averageValue": format!("{amount}m") });
    let value = |amount: i64| json!({ "type": "Value", "value": format!("{amount}m") });
    let external = |target: Value| {
        json!({
            "type": "External",
            "external": { "metric": { "name": "m" }, "target": target },
        })
    };
    let object = |target: Value| {
        let described = json!({ "kind": "Service", "name": "s", "apiVersion": "v1" });
        json!({ "type": "Object", "object":
            { "describedObject": described, "metric": { "name": "m" }, "target": target } })
    };
    let pods = |target: Value| {
        json!({
            "type": "Pods",
            "pods": { "metric": { "name": "m" }, "target": target },
        })
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
const DEFAULTS: &[(&str, &str)] = &[
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

/// Some settings of an autoscaler, by name.
fn settings() -> impl Strategy<Value = Vec<(&'static str, &'static str)>> {
    let each = |(name, values): &(&'static str, &'static [&'static str])| {
        let name = *name;
        option::weighted(0.3, select(values.to_vec()).prop_map(move |value| (name, value)))
    };
    let all: Vec<_> = SETTINGS.iter().map(each).collect();
    all.prop_map(|drawn| drawn.into_iter().flatten().collect())
}

fn fallbacks() -> impl Strategy<Value = String> {
    let behaviors =
        ["static", "currentReplicas", "currentReplicasIfHigher", "currentReplicasIfLower"];
    (0..40_i32, select(behaviors.to_vec())).prop_map(|(replicas, behavior)| {
        json!({ "replicas": replicas, "failureDurationSeconds": 30, "behavior": behavior })
            .to_string()
    })
}

/// Scenarios whose scale is mostly within bounds.
fn scenarios(metrics: std::ops::Range<usize>) -> impl Strategy<Value = Scenario> {
    let replicas = (0..40_i32, 0..40_i32, prop::bool::weighted(0.9));
    let readable = vec(prop::bool::weighted(0.8), 4);
    (hpas(metrics), replicas, vec(pods(), 0..12), 0..40_000_i64, readable, histories()).prop_map(
        |(hpa, (any, status_replicas, within), pods, value, readable, history)| {
            let (min, max) = (hpa.spec.effective_min_replicas(), hpa.spec.max_replicas);
            let spec_replicas = if within { min + any % (max - min + 1) } else { any };
            let scale = Scale { spec_replicas, status_replicas, selector: "app=web".into() };
            Scenario { hpa, scale, pods, value, readable, history }
        },
    )
}

impl Scenario {
    fn api_pods(&self) -> Vec<Arc<Pod>> {
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

    fn reconcile(&self, written: Result<(), ScaleWriteError>) -> Conclusion {
        self.reconcile_pods(self.api_pods(), written)
    }

    fn reconcile_pods(
        &self,
        pods: Vec<Arc<Pod>>,
        written: Result<(), ScaleWriteError>,
    ) -> Conclusion {
        self.reconcile_with_settings(&Settings::default(), pods, written)
    }

    fn reconcile_with_settings(
        &self,
        settings: &Settings,
        pods: Vec<Arc<Pod>>,
        written: Result<(), ScaleWriteError>,
    ) -> Conclusion {
        let plan =
            Plan::new(&self.hpa, Ok(self.scale.clone()), settings, |_| SelectedPods::new(pods));
        plan.decide(self.readings(), self.history.clone(), at(0)).conclude(written, at(0))
    }

    fn reconcile_readings(&self, settings: &Settings, readings: Readings) -> Conclusion {
        let select = |_: &_| SelectedPods::new(self.api_pods());
        let plan = Plan::new(&self.hpa, Ok(self.scale.clone()), settings, select);
        plan.decide(readings, self.history.clone(), at(0)).conclude(Ok(()), at(0))
    }

    fn reconcile_at(&self, settings: &Settings, now: Timestamp) -> Conclusion {
        let select = |_: &_| SelectedPods::new(self.api_pods());
        let plan = Plan::new(&self.hpa, Ok(self.scale.clone()), settings, select);
        plan.decide(self.readings(), self.history.clone(), now).conclude(Ok(()), now)
    }

    /// The effective settings with these annotations, which may have no metric that they apply to.
    fn resolve(&self, annotations: &[(&str, &str)]) -> Settings {
        let mut hpa = self.hpa.clone();
        hpa.metadata.annotations = annotations
            .iter()
            .map(|(name, value)| (format!("{DOMAIN}/{name}"), (*value).to_owned()))
            .collect();
        let resolved = Settings::default().for_autoscaler(&hpa, &SettingPolicy::default());
        let is_unused = |problem: &SettingProblem| problem.kind == ProblemKind::NoSuchMetric;
        assert!(resolved.problems.iter().all(is_unused), "{:?}", resolved.problems);
        resolved.settings
    }

    /// The result of a reconcile with these settings, without the parts that only report settings.
    fn effect_of(&self, settings: &Settings) -> String {
        let mut conclusion = self.reconcile_with_settings(settings, self.api_pods(), Ok(()));
        conclusion.history.failing_metrics.clear();
        conclusion.explanation.bounds = None;
        conclusion
            .status
            .conditions
            .retain(|condition| condition.condition_type != ConditionType::CustomSettings);
        format!("{conclusion:?}")
    }

    fn inputs(&self) -> Inputs {
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

    fn readings(&self) -> Readings {
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

    /// Whether the replicas are within the bounds of the spec.
    fn is_within_bounds(&self) -> bool {
        let spec = &self.hpa.spec;
        (spec.effective_min_replicas()..=spec.max_replicas).contains(&self.scale.spec_replicas)
    }

    fn disables(&self, direction: &str) -> bool {
        let spec = serde_json::to_value(&self.hpa.spec).unwrap();
        spec["behavior"][direction]["selectPolicy"] == "Disabled"
    }
}

/// The target's replicas after a reconcile.
fn replicas_after(scenario: &Scenario, conclusion: &Conclusion) -> i32 {
    conclusion.scaled_to.unwrap_or(scenario.scale.spec_replicas)
}

/// Whether the algorithm guarantees that more load does not lead to fewer replicas in a scenario.
///
/// In general it does not. Within tolerance, a metric proposes the current replicas. Beyond it, the
/// proposal is in proportion to the counted pods: if 5 of 10 replicas are ready, a ratio of 1.05
/// proposes 10 and a ratio of 1.2 proposes 6. The guarantee holds
/// - for average values by replica (Object, External), because they count no pods;
/// - for values (Object, External), if all current replicas are ready or there are none;
/// - for averages over pods, if all current replicas are ready;
/// - for averages over pods with a missing pod, because then no proposal reverses its direction;
/// - for averages over pods with an unready pod and at most the current replicas ready, because
///   then no upward proposal reverses its direction.
fn is_monotonic(scenario: &Scenario, conclusion: &Conclusion) -> bool {
    let current = usize::try_from(scenario.scale.spec_replicas).unwrap();
    let metric = &scenario.hpa.spec.metrics[0];
    let target = metric.external.as_ref().map(|source| &source.target);
    if let Some(target) = target.or(metric.object.as_ref().map(|source| &source.target)) {
        let ready = scenario.api_pods().iter().filter(|pod| pod.is_running_and_ready()).count();
        return target.value.is_none() || current == 0 || ready == current;
    }
    let counts =
        conclusion.explanation.metrics.first().and_then(|metric| metric.pods).unwrap_or_default();
    counts.ready == current || counts.missing > 0 || (counts.unready > 0 && counts.ready <= current)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn schedule_with_the_bounds_of_the_spec_changes_nothing(scenario in scenarios(1..4)) {
        let spec = &scenario.hpa.spec;
        let entry: ScheduledBounds = serde_json::from_value(json!({
            "start": "00:00",
            "end": "00:00",
            "minReplicas": spec.effective_min_replicas(),
            "maxReplicas": spec.max_replicas,
        })).unwrap();
        let mut settings = Settings::default();
        let without = scenario.effect_of(&settings);
        settings.bounds = Some(vec![entry].into());
        prop_assert_eq!(scenario.effect_of(&settings), without);
    }

    #[test]
    fn zero_after_affects_only_scaling_to_zero(scenario in scenarios(1..4)) {
        let mut settings = Settings::default();
        let without = scenario.reconcile(Ok(()));
        settings.zero_after = SignedDuration::from_hours(1);
        let with = scenario.reconcile_with_settings(&settings, scenario.api_pods(), Ok(()));
        let expected = match without.scaled_to {
            Some(0) => Some(1).filter(|_| scenario.scale.spec_replicas > 1),
            other => other,
        };
        prop_assert_eq!(with.scaled_to, expected);
    }

    #[test]
    fn fallback_of_a_metric_that_has_just_failed_changes_nothing(scenario in scenarios(1..4)) {
        let fallback = json!({ "replicas": 17, "failureDurationSeconds": 30 });
        let mut metric = MetricSettings::default();
        metric.fallback = Some(serde_json::from_value(fallback).unwrap());
        let mut settings = Settings::default();
        let without = scenario.effect_of(&settings);
        settings.metrics = Some(vec![metric; scenario.hpa.spec.metrics.len()].into());
        prop_assert_eq!(scenario.effect_of(&settings), without);
    }

    #[test]
    fn forecast_raises_the_replicas_or_changes_nothing(
        scenario in scenarios(1..4),
        loads in vec(option::of(0.0..60.0_f64), 4),
    ) {
        let without = scenario.reconcile(Ok(()));
        let with = |mode| {
            let mut settings = Settings::default();
            settings.forecasts.mode = mode;
            let mut readings = scenario.readings();
            for (metric, load) in loads.iter().enumerate() {
                let forecast = load.map(|load| LoadForecast {
                    at: at(-300), load, quantile: 0.8, days: 14,
                });
                let (reason, text) = (ForecastReason::Forecasting, "helps".into());
                readings.insert_forecast(metric, MetricForecast { reason, text, forecast });
            }
            scenario.reconcile_readings(&settings, readings)
        };
        let off = with(Forecasting::Off);
        prop_assert_eq!(format!("{off:?}"), format!("{without:?}"));
        let observed = with(Forecasting::Observe);
        prop_assert_eq!(observed.scaled_to, without.scaled_to);
        prop_assert_eq!(&observed.history, &without.history);
        prop_assert_eq!(observed.explanation.winner, without.explanation.winner);
        let scaled = with(Forecasting::Scale);
        let metrics = scaled.explanation.metrics.iter();
        let asked = metrics.filter_map(|it| Some(it.forecast.as_ref()?.proposed_replicas)).max();
        let proposed = without.explanation.proposed_replicas;
        if asked.is_none() || proposed.is_some() && asked <= proposed {
            prop_assert_eq!(scaled.scaled_to, without.scaled_to);
            prop_assert_eq!(&scaled.history, &without.history);
            prop_assert_eq!(scaled.explanation.winner, without.explanation.winner);
        } else {
            prop_assert!(replicas_after(&scenario, &scaled) >= replicas_after(&scenario, &without));
        }
    }

    #[test]
    fn explicit_defaults_change_nothing(scenario in scenarios(1..4)) {
        let without = scenario.effect_of(&Settings::default());
        prop_assert_eq!(scenario.effect_of(&scenario.resolve(DEFAULTS)), without);
    }

    #[test]
    fn settings_never_scale_out_of_bounds_or_in_a_paused_direction(
        scenario in scenarios(1..4), mut drawn in settings(), fallback in fallbacks(),
        failed_for in 0..100_i64
    ) {
        drawn.push(("fallback", &fallback));
        let settings = scenario.resolve(&drawn);
        let mut scenario = scenario;
        // Metrics that can't be read now could not be read then.
        let earlier = scenario.reconcile_at(&settings, at(failed_for));
        scenario.history.failing_metrics = earlier.history.failing_metrics;
        let conclusion = scenario.reconcile_with_settings(&settings, scenario.api_pods(), Ok(()));
        let bounds = settings.bounds_at(&scenario.hpa.spec, at(0));
        let (min, max, from) = (bounds.min_replicas, bounds.max_replicas, scenario.scale.spec_replicas);
        let Some(to) = conclusion.scaled_to else { return Ok(()) };
        prop_assert!((min..=max).contains(&to), "{} of {:?}", to, bounds);
        prop_assert_ne!(to, from);
        let pause = drawn.iter().find(|(name, _)| *name == "pause").map(|(_, value)| *value);
        let expected = if to > from { [None, Some("down")] } else { [None, Some("up")] };
        prop_assert!(expected.contains(&pause), "{:?}: from {} to {}", pause, from, to);
        if (min..=max).contains(&from) {
            let direction = if to > from { "scaleUp" } else { "scaleDown" };
            prop_assert!(!scenario.disables(direction), "{}: from {} to {}", direction, from, to);
        }
    }

    #[test]
    fn settings_without_a_fallback_never_scale_down_if_a_metric_fails(
        mut scenario in scenarios(1..4), drawn in settings(), failed in any::<Index>()
    ) {
        let settings = scenario.resolve(&drawn);
        let bounds = settings.bounds_at(&scenario.hpa.spec, at(0));
        let current = scenario.scale.spec_replicas;
        prop_assume!((bounds.min_replicas..=bounds.max_replicas).contains(&current));
        scenario.readable[failed.index(scenario.hpa.spec.metrics.len())] = false;
        let conclusion = scenario.reconcile_with_settings(&settings, scenario.api_pods(), Ok(()));
        prop_assert!(replicas_after(&scenario, &conclusion) >= current);
    }

    #[test]
    fn settings_do_not_depend_on_the_order_of_pods_and_round_trip(
        scenario in scenarios(1..4), drawn in settings(), by in any::<Index>()
    ) {
        let settings = scenario.resolve(&drawn);
        let mut pods = scenario.api_pods();
        let conclusion = scenario.reconcile_with_settings(&settings, pods.clone(), Ok(()));
        pods.reverse();
        if !pods.is_empty() {
            let middle = by.index(pods.len());
            pods.rotate_left(middle);
        }
        let other = scenario.reconcile_with_settings(&settings, pods, Ok(()));
        prop_assert_eq!(format!("{conclusion:?}"), format!("{other:?}"));
        let text = serde_json::to_string(&conclusion.status).unwrap();
        let status: HorizontalPodAutoscalerStatus = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(status, conclusion.status);
        let text = serde_json::to_string(&conclusion.history).unwrap();
        prop_assert_eq!(serde_json::from_str::<History>(&text).unwrap(), conclusion.history);
    }

    #[test]
    fn written_scale_is_within_bounds_and_differs(scenario in scenarios(1..4)) {
        if let Some(replicas) = scenario.reconcile(Ok(())).scaled_to {
            let spec = &scenario.hpa.spec;
            prop_assert!((spec.effective_min_replicas()..=spec.max_replicas).contains(&replicas));
            prop_assert_ne!(replicas, scenario.scale.spec_replicas);
        }
    }

    #[test]
    fn reported_change_changes_the_replicas(scenario in scenarios(1..4)) {
        let inputs = scenario.inputs();
        let report = inputs.report();
        let now = inputs.resulting_replicas();
        for change in &report.changes {
            let changed = change.trigger.apply(&inputs).resulting_replicas();
            prop_assert_eq!(changed, change.replicas, "{:?}", change);
            prop_assert_ne!(changed, now, "{:?}", change);
            let Trigger::Metric { metric, direction, value, now: value_now, utilization } =
                change.trigger.clone() else { continue };
            // The value is the nearest one: one step closer to the current value, the replicas
            // don't change in that direction.
            let step = if direction == Direction::Up { -1 } else { 1 };
            let value = MilliValue::from_milli(value.as_milli() + step);
            let before = Trigger::Metric { metric, direction, value, now: value_now, utilization };
            let before = before.apply(&inputs).resulting_replicas();
            let is_unchanged =
                if direction == Direction::Up { before <= now } else { before >= now };
            // The average is truncated, so the replicas may change at the current value.
            let is_at_now = direction == Direction::Down && value > value_now;
            prop_assert!(is_unchanged || is_at_now, "{:?}: {} before", change, before);
        }
    }

    #[test]
    fn report_agrees_with_the_decision(scenario in scenarios(1..4)) {
        let report = scenario.inputs().report();
        let conclusion = scenario.reconcile(Ok(()));
        prop_assert_eq!(report.scale_to, conclusion.scaled_to);
        for metric in &report.metrics {
            let Some(counts) = metric.explanation.pods else { continue };
            let mut listed = PodCounts::default();
            metric.pod_list.iter().for_each(|pod| listed.add(pod.class));
            prop_assert_eq!(listed, counts);
        }
    }

    #[test]
    fn decisions_are_deterministic(scenario in scenarios(1..4)) {
        let reconcile = || format!("{:?}", scenario.reconcile(Ok(())));
        prop_assert_eq!(reconcile(), reconcile());
    }

    #[test]
    fn order_of_pods_does_not_matter(scenario in scenarios(1..4), by in any::<Index>()) {
        let mut pods = scenario.api_pods();
        pods.reverse();
        if !pods.is_empty() {
            let middle = by.index(pods.len());
            pods.rotate_left(middle);
        }
        let other = scenario.reconcile_pods(pods, Ok(()));
        prop_assert_eq!(format!("{:?}", scenario.reconcile(Ok(()))), format!("{other:?}"));
    }

    #[test]
    fn failed_metric_never_scales_down(mut scenario in scenarios(1..4), failed in any::<Index>()) {
        prop_assume!(scenario.is_within_bounds());
        scenario.readable[failed.index(scenario.hpa.spec.metrics.len())] = false;
        let conclusion = scenario.reconcile(Ok(()));
        prop_assert!(replicas_after(&scenario, &conclusion) >= scenario.scale.spec_replicas);
    }

    #[test]
    fn disabled_direction_never_scales_within_bounds(scenario in scenarios(1..4)) {
        prop_assume!(scenario.is_within_bounds());
        let after = replicas_after(&scenario, &scenario.reconcile(Ok(())));
        prop_assert!(!scenario.disables("scaleUp") || after <= scenario.scale.spec_replicas);
        prop_assert!(!scenario.disables("scaleDown") || after >= scenario.scale.spec_replicas);
    }

    #[test]
    fn failed_write_keeps_the_desired_replicas(scenario in scenarios(1..4)) {
        let written = scenario.reconcile(Ok(()));
        let refused = scenario.reconcile(Err(ScaleWriteError::failed("refused")));
        if written.scaled_to.is_some() {
            prop_assert_eq!(refused.status.desired_replicas, 77);
            prop_assert!(refused.error.is_some());
            prop_assert_eq!(refused.status.last_scale_time, None);
            prop_assert_eq!(refused.history.scale_ups, scenario.history.scale_ups);
            prop_assert_eq!(refused.history.scale_downs, scenario.history.scale_downs);
        } else {
            prop_assert_eq!(format!("{written:?}"), format!("{refused:?}"));
        }
        prop_assert_eq!(refused.scaled_to, None);
    }

    #[test]
    fn status_and_history_round_trip_through_json(scenario in scenarios(1..4)) {
        let conclusion = scenario.reconcile(Ok(()));
        let text = serde_json::to_string(&conclusion.status).unwrap();
        let status: HorizontalPodAutoscalerStatus = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(status, conclusion.status);
        let text = serde_json::to_string(&conclusion.history).unwrap();
        prop_assert_eq!(serde_json::from_str::<History>(&text).unwrap(), conclusion.history);
    }

    #[test]
    fn more_load_never_means_fewer_replicas(
        mut scenario in scenarios(1..2), added in vec(0..2000_i64, 12), all_ready in any::<bool>()
    ) {
        scenario.readable = vec![true; 4];
        if all_ready {
            let count = scenario.pods.len();
            scenario.scale.spec_replicas = i32::try_from(count).unwrap();
            for pod in &mut scenario.pods {
                (pod.phase, pod.ready) = ("Running", "True");
                (pod.terminating, pod.changed_ago) = (false, 100);
                pod.sample.get_or_insert(100);
            }
        }
        let before = scenario.reconcile(Ok(()));
        prop_assume!(is_monotonic(&scenario, &before));
        let mut busier = scenario.clone();
        busier.value += added[0] * 10;
        for (pod, added) in busier.pods.iter_mut().zip(added) {
            pod.sample = pod.sample.map(|value| value + added);
        }
        let after = busier.reconcile(Ok(()));
        prop_assert!(
            replicas_after(&busier, &after) >= replicas_after(&scenario, &before),
            "{} | {}", before.explanation, after.explanation
        );
    }
}

/// The example in the documentation of [`is_monotonic`].
#[test]
fn more_load_may_mean_fewer_replicas_if_pods_are_not_ready() {
    let target = json!({ "type": "Value", "value": "1" });
    let metric =
        json!({ "type": "External", "external": { "metric": { "name": "m" }, "target": target } });
    let hpa = serde_json::from_value(json!({ "spec": { "maxReplicas": 20, "metrics": [metric] } }))
        .unwrap();
    let pod = |ready| GeneratedPod {
        phase: "Running",
        ready,
        terminating: false,
        started_ago: 600,
        changed_ago: 600,
        sample: None,
    };
    let history = vec![Recommendation { replicas: 1, at: Timestamp::UNIX_EPOCH }];
    let mut scenario = Scenario {
        hpa,
        scale: Scale { spec_replicas: 10, status_replicas: 10, selector: "app=web".into() },
        pods: [vec![pod("True"); 5], vec![pod("False"); 5]].concat(),
        value: 1050,
        readable: vec![true],
        history: History { recommendations: history, ..History::default() },
    };
    assert_eq!(scenario.reconcile(Ok(())).scaled_to, None);
    scenario.value = 1200;
    assert_eq!(scenario.reconcile(Ok(())).scaled_to, Some(6));
}
