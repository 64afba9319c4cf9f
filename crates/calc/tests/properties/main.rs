//! Properties of every reconcile, for generated specs, scales, pods, metrics and histories.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod scenario;

use hpa_calc::{
    Conclusion, ForecastReason, History, LoadForecast, MetricForecast, MilliValue, Scale,
    ScaleWriteError, Settings,
    api::HorizontalPodAutoscalerStatus,
    history::{Direction, Recommendation},
    pods::PodCounts,
    report::Trigger,
    settings::{ForecastMode, MetricSettings, ScheduledBounds},
};
use jiff::{SignedDuration, Timestamp};
use proptest::{collection::vec, option, prelude::*, sample::Index};
use serde_json::json;

use self::scenario::{DEFAULTS, GeneratedPod, Scenario, at, fallbacks, scenarios, settings};

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

/// The elements in reverse order, rotated by a random number.
fn reordered<T>(mut all: Vec<T>, by: Index) -> Vec<T> {
    all.reverse();
    if !all.is_empty() {
        let middle = by.index(all.len());
        all.rotate_left(middle);
    }
    all
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
        let with = scenario.reconcile_with_settings(&settings);
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
        let off = with(ForecastMode::Off);
        prop_assert_eq!(format!("{off:?}"), format!("{without:?}"));
        let observed = with(ForecastMode::Observe);
        prop_assert_eq!(observed.scaled_to, without.scaled_to);
        prop_assert_eq!(&observed.history, &without.history);
        prop_assert_eq!(observed.explanation.winner, without.explanation.winner);
        let scaled = with(ForecastMode::Scale);
        let metrics = scaled.explanation.metrics.iter();
        let asked = metrics.filter_map(|it| Some(it.forecast.as_ref()?.proposed_replicas)).max();
        let proposed = without.explanation.proposed_replicas;
        // `None` is less than any number.
        if asked <= proposed {
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
    fn scale_stays_within_bounds_and_permitted_directions(
        mut scenario in scenarios(1..4), mut drawn in settings(),
        fallback in option::of(fallbacks()), failed_for in 0..100_i64
    ) {
        drawn.extend(fallback.as_deref().map(|text| ("fallback", text)));
        let settings = scenario.resolve(&drawn);
        // Metrics that can't be read now could not be read then.
        let earlier = scenario.reconcile_at(&settings, at(failed_for));
        scenario.history.failing_metrics = earlier.history.failing_metrics;
        let conclusion = scenario.reconcile_with_settings(&settings);
        let bounds = settings.bounds_at(&scenario.hpa.spec, at(0));
        let (min, max) = (bounds.min_replicas, bounds.max_replicas);
        let from = scenario.scale.spec_replicas;
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
    fn failed_metric_without_a_fallback_never_scales_down(
        mut scenario in scenarios(1..4), drawn in settings(), failed in any::<Index>()
    ) {
        let settings = scenario.resolve(&drawn);
        let bounds = settings.bounds_at(&scenario.hpa.spec, at(0));
        let current = scenario.scale.spec_replicas;
        prop_assume!((bounds.min_replicas..=bounds.max_replicas).contains(&current));
        scenario.readable[failed.index(scenario.hpa.spec.metrics.len())] = false;
        let conclusion = scenario.reconcile_with_settings(&settings);
        prop_assert!(replicas_after(&scenario, &conclusion) >= current);
    }

    #[test]
    fn conclusions_ignore_pod_order_and_round_trip(
        scenario in scenarios(1..4), drawn in settings(), by in any::<Index>()
    ) {
        let settings = scenario.resolve(&drawn);
        let pods = scenario.api_pods();
        let conclusion = scenario.reconcile_pods(&settings, pods.clone());
        let other = scenario.reconcile_pods(&settings, reordered(pods, by));
        prop_assert_eq!(format!("{conclusion:?}"), format!("{other:?}"));
        let text = serde_json::to_string(&conclusion.status).unwrap();
        let status: HorizontalPodAutoscalerStatus = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(status, conclusion.status);
        let text = serde_json::to_string(&conclusion.history).unwrap();
        prop_assert_eq!(serde_json::from_str::<History>(&text).unwrap(), conclusion.history);
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
            let Trigger::Metric { metric, direction, value, current, utilization } =
                change.trigger.clone() else { continue };
            // The value is the nearest one: one step closer to the current value, the replicas
            // don't change in that direction.
            let step = if direction == Direction::Up { -1 } else { 1 };
            let closer_value = MilliValue::from_milli(value.as_milli() + step);
            let closer =
                Trigger::Metric { metric, direction, value: closer_value, current, utilization };
            let replicas = closer.apply(&inputs).resulting_replicas();
            let is_unchanged =
                if direction == Direction::Up { replicas <= now } else { replicas >= now };
            // The average is truncated, so the replicas may change at the current value.
            let is_reported_at_current = direction == Direction::Down && closer_value > current;
            prop_assert!(
                is_unchanged || is_reported_at_current,
                "{:?}: {} one step closer", change, replicas
            );
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
    fn failed_write_keeps_the_desired_replicas(scenario in scenarios(1..4)) {
        let written = scenario.reconcile(Ok(()));
        let refused = scenario.reconcile(Err(ScaleWriteError::failed("refused")));
        if written.scaled_to.is_some() {
            let status = &scenario.hpa.status;
            prop_assert_eq!(refused.status.desired_replicas, status.desired_replicas);
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
