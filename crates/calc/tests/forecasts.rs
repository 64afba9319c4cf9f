//! Decisions with forecasts of the load.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod common;

use std::sync::Arc;

use common::{old_history, ready_pod};
use hpa_calc::{
    Conclusion, ForecastReason, HorizontalPodAutoscaler, LoadForecast, MetricForecast, MetricsApi,
    MilliValue, Plan, Pod, PodSample, ReadError, Reading, Readings, Scale, SelectedPods, Settings,
    replicas::Load, settings::SettingPolicy,
};
use jiff::{SignedDuration, Timestamp};
use rstest::rstest;
use serde_json::{Value, json};

fn now() -> Timestamp {
    "2026-01-05T08:00:00Z".parse().unwrap()
}

fn cpu() -> Value {
    let target = json!({ "type": "Utilization", "averageUtilization": 60 });
    json!({ "type": "Resource", "resource": { "name": "cpu", "target": target } })
}

fn external(name: &str, target: &Value) -> Value {
    json!({ "type": "External", "external": { "metric": { "name": name }, "target": target } })
}

fn requests() -> Value {
    external("requests", &json!({ "type": "AverageValue", "averageValue": "100" }))
}

fn hpa(mode: &str, metrics: &[Value], rest: &Value) -> HorizontalPodAutoscaler {
    let mut hpa = json!({
        "metadata": { "name": "web", "namespace": "shop",
            "annotations": { "autoscaling.hpa-rs.dev/forecast": mode } },
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
            "minReplicas": 1, "maxReplicas": 20, "metrics": metrics,
        },
    });
    for (member, value) in rest.as_object().unwrap() {
        hpa[member] = value.clone();
    }
    serde_json::from_value(hpa).unwrap()
}

/// A ready pod that requests half a core.
fn pod(index: usize) -> Arc<Pod> {
    ready_pod(&index.to_string(), &json!({ "requests": { "cpu": "500m" } }), &json!({}))
}

/// A reading in which each of 4 pods uses this many milli-cores.
#[expect(clippy::unnecessary_wraps, reason = "other readings fail")]
fn usage(milli: i64) -> Result<Reading, ReadError> {
    let sample = |index: usize| {
        let value = MilliValue::from_milli(milli);
        let sample = PodSample { value, timestamp: now(), window: SignedDuration::from_secs(30) };
        (index.to_string(), sample)
    };
    Ok(Reading::Pods((0..4).map(sample).collect()))
}

#[expect(clippy::unnecessary_wraps, reason = "other readings fail")]
fn value(units: i64) -> Result<Reading, ReadError> {
    Ok(Reading::External(vec![MilliValue::from_units(units)].into()))
}

fn failed() -> Result<Reading, ReadError> {
    Err(ReadError::Empty(MetricsApi::External))
}

fn metric_forecast(reason: ForecastReason, load: Option<f64>) -> MetricForecast {
    let at = now() + SignedDuration::from_mins(4);
    let forecast = load.map(|load| LoadForecast { at, load, quantile: 0.8, days: 14 });
    let text = format!("the text of {}", reason.as_str()).into();
    MetricForecast { reason, text, forecast }
}

#[expect(clippy::unnecessary_wraps, reason = "other metrics have no forecast")]
fn active_forecast(load: f64) -> Option<MetricForecast> {
    Some(metric_forecast(ForecastReason::Forecasting, Some(load)))
}

type Metric = (Result<Reading, ReadError>, Option<MetricForecast>);

/// Decides for 4 replicas.
fn decide(hpa: &HorizontalPodAutoscaler, metrics: &[Metric]) -> (Vec<Option<Load>>, Conclusion) {
    let resolved = Settings::default().for_autoscaler(hpa, &SettingPolicy::default());
    assert_eq!(resolved.problems, []);
    let scale = Scale { spec_replicas: 4, status_replicas: 4, selector: "app=web".into() };
    let pods: Vec<_> = (0..4).map(pod).collect();
    let select = |_: &_| SelectedPods::new(pods);
    let plan = Plan::new(hpa, Ok(scale), &resolved.settings, select);
    let mut readings = Readings::new();
    for (index, (reading, forecast)) in metrics.iter().enumerate() {
        readings.insert(index, reading.clone());
        if let Some(forecast) = forecast.clone() {
            readings.insert_forecast(index, forecast);
        }
    }
    let loads = plan.loads(&readings, metrics.len(), now());
    let first = plan.loads(&readings, 1, now());
    assert_eq!(first, loads.get(..1).unwrap_or_default(), "the count is a limit");
    (loads, plan.decide(readings, old_history(), now()).conclude(Ok(()), now()))
}

fn condition(conclusion: &Conclusion) -> Option<(&str, &str, &str)> {
    let mut conditions = conclusion.status.conditions.iter();
    let condition = conditions.find(|it| it.condition_type.as_str() == "ForecastActive")?;
    Some((condition.status.as_str(), condition.reason.as_str(), &condition.message))
}

fn events(conclusion: &Conclusion) -> Vec<&str> {
    conclusion.events.iter().map(|event| event.reason.as_str()).collect()
}

#[test]
fn forecast_raises_the_replicas_and_is_explained() {
    let hpa = hpa("scale", &[cpu()], &json!({}));
    // The load is that of 4 pods at 60 % of half a core.
    let (loads, conclusion) = decide(&hpa, &[(usage(300), active_forecast(2.05))]);
    assert_eq!(loads, [Some(Load { total: 1.2, per_replica: 0.3 })]);
    assert_eq!(conclusion.scaled_to, Some(7));
    assert_eq!(
        conclusion.explanation.sentence(&hpa),
        "cpu is at 60% of requests, target 60%; forecast: 7 replicas for a load of 2.05 at \
            2026-01-05T08:04:00Z (now 1.2; quantile 80%)"
    );
    let rescaled = conclusion.events.iter().find(|it| it.reason.as_str() == "SuccessfulRescale");
    assert_eq!(
        rescaled.unwrap().message,
        "New size: 7; reason: the forecast of cpu resource utilization (percentage of request) \
            above target"
    );
    let forecast = conclusion.explanation.metrics[0].forecast.as_deref().unwrap();
    assert_eq!((forecast.proposed_replicas, forecast.may_raise), (7, true));
}

#[rstest]
#[case::lower_load(requests(), value(400), 200.0, None)]
#[case::within_tolerance(requests(), value(400), 440.0, None)]
#[case::above_tolerance(requests(), value(400), 440.1, Some(5))]
#[case::equal_to_the_reading(requests(), value(900), 900.0, Some(8))]
#[case::rounding_error(requests(), value(400), 600.000_01, Some(6))]
#[case::more_than_max(requests(), value(400), 1e300, Some(8))]
#[case::not_finite(requests(), value(400), f64::INFINITY, None)]
#[case::not_a_number(requests(), value(400), f64::NAN, None)]
#[case::negative(requests(), value(400), -1e9, None)]
#[case::value_is_shared(external("m", &json!({ "type": "Value", "value": "10" })), value(10), 60.0,
    Some(6))]
fn forecast_is_compared_with_the_target_of_its_metric(
    #[case] metric: Value,
    #[case] reading: Result<Reading, ReadError>,
    #[case] load: f64,
    #[case] scaled_to: Option<i32>,
) {
    let hpa = hpa("scale", &[metric], &json!({}));
    // Without a behavior, a scale-up at most doubles the replicas.
    let (_, conclusion) = decide(&hpa, &[(reading, active_forecast(load))]);
    assert_eq!(conclusion.scaled_to, scaled_to);
}

#[test]
fn observed_forecast_is_explained_and_changes_nothing() {
    let hpa = hpa("observe", &[requests()], &json!({}));
    let (_, conclusion) = decide(&hpa, &[(value(400), active_forecast(700.0))]);
    assert_eq!(conclusion.scaled_to, None);
    assert!(
        conclusion.explanation.sentence(&hpa).ends_with(
            "forecast: observed only; it would ask for 7 replicas for a load of 700 at \
                2026-01-05T08:04:00Z (now 400; quantile 80%)"
        ),
        "{}",
        conclusion.explanation.sentence(&hpa)
    );
    let message = "requests: the text of Forecasting; observed only, the replicas don't change";
    assert_eq!(condition(&conclusion), Some(("True", "Forecasting", message)));
}

#[test]
fn failed_metric_has_no_forecast() {
    let hpa = hpa("scale", &[requests(), cpu()], &json!({}));
    let (loads, conclusion) =
        decide(&hpa, &[(failed(), active_forecast(700.0)), (usage(300), None)]);
    assert_eq!(loads[0], None);
    assert_eq!(conclusion.scaled_to, None);
    assert_eq!(conclusion.explanation.metrics[0].forecast, None);
    // The condition still has the reason of its forecasts.
    let message = "requests: the text of Forecasting, without effect while the metric has no value";
    assert_eq!(condition(&conclusion), Some(("True", "Forecasting", message)));
}

#[test]
fn active_fallback_replaces_the_forecast() {
    let conditions = json!([{ "type": "ExternalMetricFallbackActive", "status": "True",
        "lastTransitionTime": "2026-01-05T07:00:00Z" }]);
    let mut hpa = hpa("scale", &[requests()], &json!({ "status": { "conditions": conditions } }));
    let fallback = r#"{"replicas": 5, "failureDurationSeconds": 30}"#.to_owned();
    hpa.metadata.annotations.insert("autoscaling.hpa-rs.dev/fallback".to_owned(), fallback);
    let resolved = Settings::default().for_autoscaler(&hpa, &SettingPolicy::default());
    let scale = Scale { spec_replicas: 4, status_replicas: 4, selector: "app=web".into() };
    let mut inputs = hpa_calc::Inputs {
        hpa,
        scale: Ok(scale),
        settings: resolved.settings,
        selected: SelectedPods::new([pod(0)]),
        readings: Readings::from_iter([(0, failed())]),
        history: None,
        now: now(),
    };
    inputs.readings.insert_forecast(0, active_forecast(700.0).unwrap());
    assert_eq!(inputs.resulting_replicas(), 5);
}

#[rstest]
#[case::stays_inactive("False", &[Some(ForecastReason::NoSeason)], Some("NoSeason"), &[])]
#[case::becomes_active("False", &[Some(ForecastReason::Forecasting)], Some("Forecasting"),
    &["ForecastStarted"])]
#[case::becomes_inactive("True", &[Some(ForecastReason::NoBenefit)], Some("NoBenefit"),
    &["ForecastStopped"])]
#[case::stays_active("True", &[Some(ForecastReason::Forecasting)], Some("Forecasting"), &[])]
#[case::unknown_keeps_the_condition("True", &[None], None, &[])]
#[case::one_of_two_is_enough("False",
    &[Some(ForecastReason::SourceFailed), Some(ForecastReason::Forecasting)],
    Some("Forecasting"), &["ForecastStarted"])]
#[case::unknown_part_keeps_the_condition("True", &[Some(ForecastReason::SourceFailed), None], None,
    &[])]
fn condition_follows_the_forecast_reasons(
    #[case] before: &str,
    #[case] reasons: &[Option<ForecastReason>],
    #[case] reason: Option<&str>,
    #[case] expected: &[&str],
) {
    let conditions = json!([{ "type": "ForecastActive", "status": before, "reason": "Before" }]);
    let metrics: Vec<_> = reasons.iter().map(|_| requests()).collect();
    let hpa = hpa("scale", &metrics, &json!({ "status": { "conditions": conditions } }));
    let readings: Vec<Metric> = reasons
        .iter()
        .map(|reason| (value(400), reason.map(|it| metric_forecast(it, None))))
        .collect();
    let (_, conclusion) = decide(&hpa, &readings);
    let (status, after, _) = condition(&conclusion).unwrap();
    assert_eq!(after, reason.unwrap_or("Before"));
    let is_active = reason.map_or(before == "True", |reason| reason == "Forecasting");
    assert_eq!(status, if is_active { "True" } else { "False" });
    assert_eq!(events(&conclusion), expected);
}

#[test]
fn forecasts_that_are_off_have_no_condition_and_no_effect() {
    let conditions = json!([{ "type": "ForecastActive", "status": "True" }]);
    let hpa = hpa("off", &[requests()], &json!({ "status": { "conditions": conditions } }));
    let (_, conclusion) = decide(&hpa, &[(value(400), active_forecast(700.0))]);
    assert_eq!((condition(&conclusion), conclusion.scaled_to), (None, None));
    assert_eq!(conclusion.explanation.metrics[0].forecast, None);
}

#[test]
fn pause_and_bounds_apply_to_a_forecast() {
    let mut hpa = hpa("scale", &[requests()], &json!({}));
    hpa.spec.max_replicas = 5;
    let (_, conclusion) = decide(&hpa, &[(value(400), active_forecast(700.0))]);
    assert_eq!(conclusion.scaled_to, Some(5));
    let paused = [("autoscaling.hpa-rs.dev/pause".to_owned(), "up".to_owned())];
    hpa.metadata.annotations.extend(paused);
    let (_, conclusion) = decide(&hpa, &[(value(400), active_forecast(700.0))]);
    assert_eq!(conclusion.scaled_to, None);
}
