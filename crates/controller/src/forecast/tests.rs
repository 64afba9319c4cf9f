use std::sync::Arc;

use hpa_calc::{
    ForecastReason, HorizontalPodAutoscaler, MetricsApi, MilliValue, Plan, Pod, ReadError, Reading,
    Readings, Scale, SelectedPods, Settings,
    settings::{ForecastMode, SettingPolicy},
};
use hpa_forecast::{Trace, decide};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::*;

const MINUTES_PER_DAY: i64 = 1440;

/// Half past seven on a Monday, half an hour before the load triples.
fn now() -> Timestamp {
    "2026-02-02T07:30:00Z".parse().unwrap()
}

fn hpa(metrics: &[Value]) -> HorizontalPodAutoscaler {
    serde_json::from_value(json!({
        "metadata": { "name": "web", "namespace": "shop", "uid": "1",
            "annotations": { "autoscaling.hpa-rs.dev/forecast": "scale" } },
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
            "minReplicas": 1, "maxReplicas": 100, "metrics": metrics,
        },
    }))
    .unwrap()
}

fn requests_metric(target: &str) -> Value {
    let target = json!({ "type": "AverageValue", "averageValue": target });
    let external = json!({ "metric": { "name": "requests" }, "target": target });
    json!({ "type": "External", "external": external })
}

/// 2000 requests, and 6000 from eight to eighteen o'clock, with a rise of ten minutes.
pub(crate) fn office_hours_load(minute: i64) -> f64 {
    let minute = minute.rem_euclid(MINUTES_PER_DAY);
    let share = (minute - 480).clamp(0, 10).min((1080 - minute).clamp(0, 10));
    2000.0 + 400.0 * share as f64
}

fn past_loads(days: i64) -> Trace {
    let end = now().as_second() / 60;
    let minutes = (end - days * MINUTES_PER_DAY)..end;
    Trace::new(minutes.map(|at| (Timestamp::from_second(at * 60).unwrap(), office_hours_load(at))))
}

fn settings(hpa: &HorizontalPodAutoscaler) -> Settings {
    Settings::default().for_autoscaler(hpa, &SettingPolicy::default()).settings
}

/// Observes a value at a time, and returns the readings with their forecasts.
fn observe(
    forecasts: &mut AutoscalerForecasts,
    shared: &Forecasts,
    hpa: &HorizontalPodAutoscaler,
    value: Option<i64>,
    now: Timestamp,
) -> Readings {
    let settings = settings(hpa);
    assert_eq!(settings.forecasts.mode, ForecastMode::Scale);
    let scale = Scale { spec_replicas: 20, status_replicas: 20, selector: "app=web".into() };
    let pods: Vec<Arc<Pod>> = Vec::new();
    let plan = Plan::new(hpa, Ok(scale), &settings, |_| SelectedPods::default());
    let mut readings = Readings::new();
    for metric in 0..hpa.spec.metrics.len() {
        let value = value.map(|value| vec![MilliValue::from_units(value)]);
        let reading = value.map(|value| Reading::External(value.into()));
        readings.insert(metric, reading.ok_or(ReadError::Empty(MetricsApi::External)));
    }
    let observation = LoadObservation { hpa, settings: &settings, plan: &plan, pods: &pods, now };
    forecasts.observe(shared, &observation, &mut readings);
    readings
}

/// Checks the forecasts on a past, as `forecast_checks` does.
fn run_check(
    forecasts: &mut AutoscalerForecasts,
    shared: &Forecasts,
    hpa: &HorizontalPodAutoscaler,
    result: Result<Trace, PastError>,
    now: Timestamp,
) {
    let check = forecasts.start_due_check(shared, hpa, &settings(hpa)).expect("a check is due");
    let result = result.map(|past| (decide(&past, &check.settings), Past::Read(past)));
    forecasts.finish_check(&check, result, 0.5, now);
}

/// Forecasts after a load and a check on four weeks.
fn checked_forecasts(shared: &Forecasts, hpa: &HorizontalPodAutoscaler) -> AutoscalerForecasts {
    let mut forecasts = AutoscalerForecasts::default();
    observe(&mut forecasts, shared, hpa, Some(2000), now());
    run_check(&mut forecasts, shared, hpa, Ok(past_loads(28)), now());
    forecasts
}

fn reason(readings: &Readings) -> Option<ForecastReason> {
    readings.forecast(0).map(|forecast| forecast.reason)
}

fn failure() -> Result<Trace, PastError> {
    Err(PastError::failed("connection refused"))
}

#[tokio::test(start_paused = true)]
async fn forecast_follows_the_check() {
    let (shared, hpa) = (Forecasts::default(), hpa(&[requests_metric("100")]));
    let mut forecasts = AutoscalerForecasts::default();
    let readings = observe(&mut forecasts, &shared, &hpa, Some(2000), now());
    assert_eq!(reason(&readings), None, "not checked yet");
    run_check(&mut forecasts, &shared, &hpa, Ok(past_loads(28)), now());
    // Half past seven: nothing changes soon.
    let readings = observe(&mut forecasts, &shared, &hpa, Some(2000), now());
    let forecast = readings.forecast(0).unwrap();
    assert_eq!(forecast.reason, ForecastReason::Forecasting, "{forecast:?}");
    let load = forecast.forecast.unwrap();
    // The horizon starts at the measurement a minute ago. It consists of this minute, two minutes
    // until pods are ready, and the sync period of 15 s.
    assert_eq!(load.at, now() + SignedDuration::from_secs(135));
    assert_eq!((load.load.round(), load.quantile, load.days), (2000.0, 0.8, 14));
    // Two minutes to eight: the load is about to rise. The buckets of five minutes smooth it.
    let later = now() + SignedDuration::from_mins(28);
    let readings = observe(&mut forecasts, &shared, &hpa, Some(2500), later);
    let load = readings.forecast(0).unwrap().forecast.unwrap().load;
    assert!((3000.0..4200.0).contains(&load), "{load}");
    let readings = observe(&mut forecasts, &shared, &hpa, None, later);
    assert_eq!(readings.forecast(0).unwrap().forecast, None, "the metric failed");
    assert_eq!(reason(&readings), Some(ForecastReason::Forecasting));
}

#[tokio::test(start_paused = true)]
async fn last_check_holds_for_two_days_if_the_source_fails() {
    let (shared, hpa) = (Forecasts::default(), hpa(&[requests_metric("100")]));
    let mut forecasts = checked_forecasts(&shared, &hpa);
    let at = |hours| now() + SignedDuration::from_hours(hours);
    assert!(forecasts.start_due_check(&shared, &hpa, &settings(&hpa)).is_none());
    // The second check follows within the day, at a time that differs by autoscaler.
    tokio::time::advance(Duration::from_hours(12)).await;
    run_check(&mut forecasts, &shared, &hpa, failure(), at(12));
    let reason_at = |forecasts: &mut AutoscalerForecasts, hours| {
        reason(&observe(forecasts, &shared, &hpa, Some(2000), at(hours)))
    };
    assert_eq!(reason_at(&mut forecasts, 48), Some(ForecastReason::Forecasting));
    assert_eq!(reason_at(&mut forecasts, 49), Some(ForecastReason::SourceFailed));
    for _ in 0..8 {
        assert!(forecasts.start_due_check(&shared, &hpa, &settings(&hpa)).is_none(), "a backoff");
        tokio::time::advance(Duration::from_hours(1)).await;
        run_check(&mut forecasts, &shared, &hpa, failure(), at(49));
    }
    let readings = observe(&mut forecasts, &shared, &hpa, Some(2000), at(49));
    let text = &readings.forecast(0).unwrap().text;
    assert_eq!(&**text, "the metric's past can't be read: connection refused");
    tokio::time::advance(Duration::from_hours(1)).await;
    run_check(&mut forecasts, &shared, &hpa, Ok(past_loads(28)), at(50));
    assert_eq!(reason_at(&mut forecasts, 50), Some(ForecastReason::Forecasting));
}

#[tokio::test(start_paused = true)]
async fn history_is_dropped_with_another_metric_or_target() {
    let shared = Forecasts::default();
    let mut forecasts = checked_forecasts(&shared, &hpa(&[requests_metric("100")]));
    let mut reason_of = |hpa: &HorizontalPodAutoscaler| {
        reason(&observe(&mut forecasts, &shared, hpa, Some(2000), now()))
    };
    let other_value = hpa(&[requests_metric("50")]);
    assert_eq!(reason_of(&other_value), Some(ForecastReason::Forecasting));
    let mut other_metric = requests_metric("100");
    other_metric["external"]["metric"]["name"] = "others".into();
    assert_eq!(reason_of(&hpa(&[other_metric, requests_metric("100")])), None);
    assert_eq!(reason_of(&hpa(&[requests_metric("100")])), Some(ForecastReason::Forecasting));
    let mut other_target = hpa(&[requests_metric("100")]);
    other_target.spec.scale_target_ref.name = "api".to_owned();
    assert_eq!(reason_of(&other_target), None);
}

#[tokio::test(start_paused = true)]
async fn histories_are_limited_by_autoscaler_namespace_and_controller() {
    let shared = Forecasts::default();
    let many: Vec<_> = (0..20).map(|_| requests_metric("100")).collect();
    let in_namespace = |namespace: &str| {
        let mut hpa = hpa(&many);
        hpa.metadata.namespace = namespace.to_owned();
        hpa
    };
    let (shop, bank, victim) = (in_namespace("shop"), in_namespace("bank"), in_namespace("victim"));
    let states = |forecasts: &AutoscalerForecasts| forecasts.metrics.iter().flatten().count();
    let fill = |hpa: &HorizontalPodAutoscaler, value| {
        let all = (0..=MAX_HISTORIES / MAX_FORECAST_METRICS).map(|_| {
            let mut forecasts = AutoscalerForecasts::default();
            observe(&mut forecasts, &shared, hpa, value, now());
            forecasts
        });
        all.collect::<Vec<_>>()
    };
    let sum = |all: &[AutoscalerForecasts]| all.iter().map(states).sum::<usize>();
    assert_eq!(sum(&fill(&shop, None)), 0, "no history without a load");
    let mut all = fill(&shop, Some(2000));
    assert_eq!(sum(&all), MAX_HISTORIES / 2, "half for a namespace");
    assert_eq!(all.first().map(states), Some(MAX_FORECAST_METRICS));
    let readings = observe(all.last_mut().unwrap(), &shared, &shop, Some(2000), now());
    assert_eq!(reason(&readings), Some(ForecastReason::NotEnoughHistory));
    let others = fill(&bank, Some(2000));
    assert_eq!(sum(&others), MAX_HISTORIES / 2);
    let mut last = AutoscalerForecasts::default();
    let readings = observe(&mut last, &shared, &victim, Some(2000), now());
    assert_eq!(reason(&readings), Some(ForecastReason::NotEnoughHistory));
    // A deleted autoscaler returns its permits.
    all.swap_remove(0);
    observe(&mut last, &shared, &victim, Some(2000), now());
    assert_eq!(states(&last), MAX_FORECAST_METRICS);
    drop((all, others, last));
    let (all, others) = (fill(&shop, Some(2000)), fill(&bank, Some(2000)));
    assert_eq!(sum(&all) + sum(&others), MAX_HISTORIES);
}

#[tokio::test(start_paused = true)]
async fn changed_metric_reuses_the_permit_of_the_old_metric() {
    let shared = Forecasts::default();
    let namespaces = ["bank", "victim"].into_iter().cycle().take(MAX_HISTORIES - 1);
    let _others: Vec<_> =
        namespaces.map(|namespace| shared.histories.try_acquire(namespace).unwrap()).collect();
    let mut forecasts = AutoscalerForecasts::default();
    observe(&mut forecasts, &shared, &hpa(&[requests_metric("100")]), Some(2000), now());
    let mut other_metric = requests_metric("100");
    other_metric["external"]["metric"]["name"] = "others".into();
    let readings = observe(&mut forecasts, &shared, &hpa(&[other_metric]), Some(2000), now());
    assert_eq!(reason(&readings), None, "not checked yet");
}

#[tokio::test(start_paused = true)]
async fn view_has_the_accuracy_of_the_past_day() {
    let (shared, hpa) = (Forecasts::default(), hpa(&[requests_metric("100")]));
    assert_eq!(AutoscalerForecasts::default().view(now()), []);
    let mut forecasts = checked_forecasts(&shared, &hpa);
    observe(&mut forecasts, &shared, &hpa, Some(2000), now());
    let views = forecasts.view(now());
    let [view] = views.as_slice() else { panic!("{views:?}") };
    assert_eq!((view.metric.as_str(), view.reason.as_deref()), ("requests", Some("Forecasting")));
    let (with, without) = view.overload_minutes.unwrap();
    assert!(with < without, "{with} {without}");
    let yesterday = view.yesterday.unwrap();
    assert!(yesterday.compared > 130 && yesterday.covered > 0.9, "{yesterday:?}");
    assert!(yesterday.error < 0.02, "{yesterday:?}");
    let newest = view.newest().unwrap();
    assert_eq!(
        newest.forecast.map(|forecast| forecast.at),
        view.points.last().map(|point| point.at)
    );
    assert!(newest.forecast.is_some());
    let read = view.read.unwrap();
    assert_eq!((read.at, read.load, view.unit.as_deref()), (now(), 2000.0, None));
    let json = serde_json::to_value(view).unwrap();
    assert_eq!(serde_json::from_value::<ForecastView>(json).unwrap(), *view);
}

#[tokio::test(start_paused = true)]
async fn view_has_the_past_hour_and_the_horizon_in_detail() {
    let (shared, hpa) = (Forecasts::default(), hpa(&[requests_metric("100")]));
    let mut forecasts = checked_forecasts(&shared, &hpa);
    observe(&mut forecasts, &shared, &hpa, Some(2000), now());
    let views = forecasts.view(now());
    let recent = &views.first().unwrap().recent;
    let (first, last) = (recent.first().unwrap(), recent.last().unwrap());
    assert_eq!(last.at, now() + SignedDuration::from_secs(135), "the horizon");
    assert_eq!(last.load, None);
    assert!(first.at <= now() - SignedDuration::from_mins(58), "{first:?}");
    assert_eq!(first.load.map(f64::round), Some(2000.0));
    assert!((55..=64).contains(&recent.len()), "{}", recent.len());
    assert!(recent.is_sorted_by_key(|point| point.at));
    assert!(recent.iter().any(|point| point.load.is_none() && point.at > now()), "{last:?}");
    // It is also the newest point of the past day, which decisions use.
    assert_eq!(Some(last), views.first().unwrap().points.last());
}

#[tokio::test(start_paused = true)]
async fn view_has_no_future_if_the_metric_failed() {
    let (shared, hpa) = (Forecasts::default(), hpa(&[requests_metric("100")]));
    let mut forecasts = checked_forecasts(&shared, &hpa);
    for (minutes, has_future) in [(1, true), (10, false), (60, false)] {
        let now = now() + SignedDuration::from_mins(minutes);
        observe(&mut forecasts, &shared, &hpa, None, now);
        let views = forecasts.view(now);
        let view = views.first().unwrap();
        let newest = view.newest().unwrap();
        assert_eq!(newest.forecast.is_some(), has_future, "after {minutes} minutes");
        let last = view.recent.last();
        assert_eq!(last.is_some_and(|last| last.load.is_none()), has_future, "{last:?}");
    }
}

#[test]
fn loads_of_resources_are_in_cores_or_bytes() {
    let unit = |metric: Value| {
        let spec = serde_json::from_value(metric).unwrap();
        view::unit(&spec)
    };
    let target = json!({ "type": "Utilization", "averageUtilization": 60 });
    let resource =
        |name| json!({ "type": "Resource", "resource": { "name": name, "target": target } });
    assert_eq!(unit(resource("cpu")), Some("cores"));
    assert_eq!(unit(resource("memory")), Some("bytes"));
    assert_eq!(unit(resource("ephemeral-storage")), None);
    let pods = json!({ "type": "Pods", "pods": { "metric": { "name": "cpu" },
        "target": { "type": "AverageValue", "averageValue": "1" } } });
    assert_eq!(unit(pods), None);
}

#[tokio::test(start_paused = true)]
async fn forecasts_continue_after_the_clock_was_ahead() {
    let (shared, hpa) = (Forecasts::default(), hpa(&[requests_metric("100")]));
    for ahead in [SignedDuration::from_hours(1), SignedDuration::from_hours(24 * 30)] {
        let mut forecasts = checked_forecasts(&shared, &hpa);
        let mut forecast_at = |now| {
            let readings = observe(&mut forecasts, &shared, &hpa, Some(2000), now);
            readings.forecast(0).is_some_and(|reading| reading.forecast.is_some())
        };
        assert!(forecast_at(now()));
        forecast_at(now() + ahead);
        // A jump that is longer than the history empties it.
        assert_eq!(forecast_at(now()), ahead < SignedDuration::from_hours(24));
        tokio::time::advance(CHECK_PERIOD).await;
        run_check(&mut forecasts, &shared, &hpa, Ok(past_loads(28)), now());
        let readings = observe(&mut forecasts, &shared, &hpa, Some(2000), now());
        let forecast = readings.forecast(0).unwrap();
        assert_eq!(forecast.reason, ForecastReason::Forecasting, "{forecast:?}");
        assert!(forecast.forecast.is_some(), "{forecast:?}");
    }
}
