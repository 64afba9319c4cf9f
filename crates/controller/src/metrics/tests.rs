use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use hpa_calc::{
    api::{HorizontalPodAutoscaler, MetricSpec, ResourceMetricSource},
    conclude::Conclusion,
    explain::{Explanation, MetricExplanation},
    history::{Direction, History},
    readings::MetricsApi,
    settings::Settings,
};
use jiff::SignedDuration;
use rstest::rstest;
use tokio::time::advance;

use super::*;
use crate::{
    cache::{ErrorClass, Origin},
    key::AutoscalerApi,
    reconcile::{FinishedReconcile, Observer, ReconcileBeforeStatusWrite},
    settings::SyncPeriod,
};

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn key(name: &str) -> HpaKey {
    HpaKey::new("shop", name)
}

fn hpa(name: &str, metrics: &[&str]) -> HorizontalPodAutoscaler {
    let mut hpa = HorizontalPodAutoscaler::default();
    hpa.metadata.uid = name.into();
    hpa.status.current_replicas = 2;
    let spec = |resource: &&str| MetricSpec {
        source_type: hpa_calc::api::MetricSourceType::Resource,
        resource: Some(Box::new(ResourceMetricSource {
            name: (*resource).into(),
            ..ResourceMetricSource::default()
        })),
        ..MetricSpec::default()
    };
    hpa.spec.metrics = metrics.iter().map(spec).collect();
    hpa
}

fn per_autoscaler() -> TelemetryOptions {
    TelemetryOptions { per_autoscaler: true, ..TelemetryOptions::default() }
}

/// Telemetry of a controller with these autoscalers in its cache.
fn telemetry(names: &[&str], options: TelemetryOptions) -> (Telemetry, TelemetrySources) {
    let (telemetry, sources) = (Telemetry::new(options), TelemetrySources::default());
    sources.queue.start();
    for name in names {
        sources.autoscalers.apply(&key(name), hpa(name, &["cpu"]), Origin::WatchOrResponse);
    }
    telemetry.attach(sources.clone());
    (telemetry, sources)
}

fn finish(telemetry: &Telemetry, name: &str, desired: Option<i32>, error: Option<ErrorClass>) {
    let key = key(name);
    let scaled = desired.map(|_| Direction::Up);
    let finished = FinishedReconcile {
        key: &key,
        scaled,
        desired_replicas: desired,
        error,
        duration: Duration::from_millis(3),
    };
    telemetry.finished(&finished);
}

/// Reports a reconcile whose metrics made these proposals.
fn reconcile(telemetry: &Telemetry, name: &str, proposals: &[Result<i32, &str>]) {
    let explain = |proposal: &Result<i32, &str>| MetricExplanation {
        proposed_replicas: proposal.ok(),
        error: proposal.err().map(ToOwned::to_owned),
        ..MetricExplanation::default()
    };
    let explanation = Explanation {
        metrics: proposals.iter().map(explain).collect(),
        limited_by: Some(hpa_calc::api::ConditionReason::TooManyReplicas),
        ..Explanation::default()
    };
    let (status, events, history) =
        (hpa_calc::api::HorizontalPodAutoscalerStatus::default(), Vec::new(), History::default());
    let conclusion =
        Conclusion { status, events, history, explanation, scaled_to: None, error: None };
    let hpa = hpa(name, &vec!["cpu"; proposals.len()]);
    let read_durations = vec![Duration::from_millis(5); proposals.len()];
    let key = key(name);
    telemetry.concluded(&ReconcileBeforeStatusWrite {
        key: &key,
        hpa: &hpa,
        settings: &Settings::default(),
        conclusion: &conclusion,
        at: Timestamp::UNIX_EPOCH,
        duration: Duration::ZERO,
        read_durations: &read_durations,
    });
}

fn value(text: &str, series: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
}

/// The sync period of an autoscaler, its own if it has one.
fn period(of_controller: u64, own: Option<i64>) -> SyncPeriod {
    let mut settings = Settings::default();
    settings.sync_period = own.map(SignedDuration::from_secs);
    SyncPeriod::new(seconds(of_controller), &settings)
}

fn controller_period(of_controller: u64) -> SyncPeriod {
    period(of_controller, None)
}

#[tokio::test(start_paused = true)]
async fn exposition_matches_the_recorded_one() {
    let (telemetry, sources) = telemetry(&["web", "api"], per_autoscaler());
    sources.watch_ages.add("pods".to_owned(), Arc::default());
    telemetry.set_leader("hpa-controller", true);
    telemetry.set_working(true);
    reconcile(&telemetry, "web", &[Ok(5), Ok(1), Err("no answer"), Ok(2)]);
    finish(&telemetry, "web", Some(5), None);
    finish(&telemetry, "api", None, Some(ErrorClass::Internal));
    telemetry.peer_wrote(&key("web"));
    telemetry.counters.observe_sample_age(MetricsApi::Resource, seconds(12));
    sources.queue.add(key("web"));
    telemetry.record_dequeued(&key("web"), Duration::from_micros(3), controller_period(15));
    telemetry.record_processed(Duration::from_millis(2));
    telemetry.record_scheduled(&key("web"), Instant::now() + seconds(15), controller_period(15));
    advance(seconds(18)).await;
    telemetry.record_dequeued(&key("web"), seconds(3), controller_period(15));
    let counters = &telemetry.counters;
    counters.requests.with_label_values(&["200", "10.0.0.1:443", "GET"]).inc();
    counters.request_seconds.with_label_values(&["10.0.0.1:443", "GET"]).observe(0.02);
    let text = telemetry.render().replace(env!("CARGO_PKG_VERSION"), "VERSION");
    for (line, recorded) in text.lines().zip(include_str!("exposition.txt").lines()) {
        assert_eq!(line, recorded);
    }
    assert_eq!(text.lines().count(), include_str!("exposition.txt").lines().count());
}

#[tokio::test(start_paused = true)]
async fn time_of_failing_lease_requests_is_exported() {
    let (telemetry, _) = telemetry(&[], per_autoscaler());
    let name = "hpa_controller_lease_failing_seconds";
    telemetry.set_lease_failing_since(Some(Instant::now()));
    advance(seconds(30)).await;
    assert_eq!(value(&telemetry.render(), name), Some(30.0));
    telemetry.set_lease_failing_since(None);
    assert_eq!(value(&telemetry.render(), name), Some(0.0));
}

#[tokio::test]
async fn deleted_autoscaler_has_no_series() {
    let (telemetry, sources) = telemetry(&["web", "api"], per_autoscaler());
    for name in ["web", "api"] {
        reconcile(&telemetry, name, &[Ok(3), Err("no answer")]);
        finish(&telemetry, name, Some(3), Some(ErrorClass::Internal));
    }
    assert_eq!(telemetry.render().matches("hpa_name=\"web\"").count(), 4);
    sources.autoscalers.remove(&key("web"));
    // A reconcile that ran during the deletion ends.
    reconcile(&telemetry, "web", &[Ok(4)]);
    finish(&telemetry, "web", Some(4), None);
    let text = telemetry.render();
    assert!(!text.contains("hpa_name=\"web\""), "{text}");
    assert_eq!(text.matches("hpa_name=\"api\"").count(), 4);
    let count = "horizontal_pod_autoscaler_controller_num_horizontal_pod_autoscalers";
    assert_eq!(value(&text, count), Some(1.0));

    // A re-created autoscaler starts without series.
    sources.autoscalers.apply(&key("web"), hpa("other", &["cpu"]), Origin::WatchOrResponse);
    assert!(!telemetry.render().contains("hpa_name=\"web\""));
}

#[tokio::test]
async fn desired_replicas_stay_after_a_failed_reconcile() {
    let (telemetry, _) = telemetry(&["web"], TelemetryOptions::default());
    finish(&telemetry, "web", Some(3), None);
    finish(&telemetry, "web", None, Some(ErrorClass::Internal));
    let text = telemetry.render();
    let desired = "horizontal_pod_autoscaler_controller_desired_replicas";
    let labels = "hpa_name=\"web\",namespace=\"shop\"";
    assert_eq!(value(&text, &format!("{desired}{{{labels}}}")), Some(3.0));
    assert_eq!(value(&text, "hpa_controller_autoscalers_failing{error=\"internal\"}"), Some(1.0));
    // This metric is exported only with `per_autoscaler`.
    assert!(!text.contains("hpa_controller_failing"));
}

#[tokio::test]
async fn series_per_autoscaler_are_limited() {
    let (telemetry, _) = telemetry(&["web"], per_autoscaler());
    reconcile(&telemetry, "web", &[Ok(1); MAX_METRICS_PER_AUTOSCALER + 5]);
    let text = telemetry.render();
    let proposals = text.matches("\nhpa_controller_proposed_replicas{");
    assert_eq!(proposals.count(), MAX_METRICS_PER_AUTOSCALER);
}

#[rstest]
#[case::of_the_controller("global", None, 10)]
#[case::of_the_autoscaler("spec", Some(10), 15)]
#[tokio::test(start_paused = true)]
async fn only_periodic_reconciles_have_a_delay_ratio(
    #[case] source: &str,
    #[case] own: Option<i64>,
    #[case] of_controller: u64,
) {
    let (telemetry, _) = telemetry(&["web"], TelemetryOptions::default());
    let ratio = |telemetry: &Telemetry, suffix: &str| {
        let name = "horizontal_pod_autoscaler_controller_reconciliation_delay_ratio";
        value(&telemetry.render(), &format!("{name}_{suffix}{{period_source=\"{source}\"}}"))
    };
    let period = period(of_controller, own);
    telemetry.record_dequeued(&key("web"), Duration::ZERO, period);
    assert_eq!(ratio(&telemetry, "count"), None, "the first reconcile");
    telemetry.record_scheduled(&key("web"), Instant::now() + seconds(10), period);
    advance(seconds(4)).await;
    telemetry.record_dequeued(&key("web"), seconds(1), period);
    assert_eq!(ratio(&telemetry, "count"), None, "a changed spec");
    advance(seconds(11)).await;
    telemetry.record_dequeued(&key("web"), seconds(5), period);
    assert_eq!(ratio(&telemetry, "count"), Some(1.0));
    assert_eq!(ratio(&telemetry, "sum"), Some(1.5));
}

#[tokio::test(start_paused = true)]
async fn longer_period_of_an_autoscaler_does_not_age_its_last_reconcile() {
    let (telemetry, _) = telemetry(&["web"], TelemetryOptions::default());
    telemetry.set_working(true);
    let oldest = || value(&telemetry.render(), "hpa_controller_oldest_reconcile_seconds");
    finish(&telemetry, "web", None, None);
    telemetry.record_scheduled(&key("web"), Instant::now() + seconds(3600), period(15, Some(3600)));
    advance(seconds(3600)).await;
    // The excess of its own period over the controller's doesn't count.
    assert_eq!(oldest(), Some(15.0));
    telemetry.record_scheduled(&key("web"), Instant::now() + seconds(5), period(15, Some(5)));
    assert_eq!(oldest(), Some(3600.0));
}

#[tokio::test(start_paused = true)]
async fn workers_are_stuck_without_progress_on_due_items() {
    let (telemetry, sources) = telemetry(&[], TelemetryOptions::default());
    sources.queue.add(key("web"));
    advance(seconds(600)).await;
    assert_eq!(telemetry.alive(), Ok(()), "a standby has no workers");
    telemetry.set_working(true);
    advance(seconds(299)).await;
    assert_eq!(telemetry.alive(), Ok(()));
    advance(seconds(1)).await;
    assert_eq!(telemetry.alive(), Err(HealthError::Stuck(seconds(300))));
    let item = sources.queue.get().await;
    advance(seconds(600)).await;
    assert_eq!(telemetry.alive(), Ok(()), "nothing else is due");
    sources.queue.add(key("api"));
    assert_eq!(telemetry.alive(), Err(HealthError::Stuck(seconds(600))));
    drop(item);
    assert_eq!(telemetry.alive(), Ok(()));
}

#[tokio::test]
async fn controller_is_ready_between_sync_and_shutdown() {
    let telemetry = Telemetry::default();
    assert_eq!(telemetry.ready(), Err(HealthError::NotSynced));
    telemetry.set_synced();
    assert_eq!(telemetry.ready(), Ok(()));
    telemetry.set_stopping();
    assert_eq!(telemetry.ready(), Err(HealthError::Stopping));
}

#[tokio::test]
async fn readiness_names_the_unsynced_caches_of_metrics() {
    let telemetry = Telemetry::default();
    telemetry.set_synced();
    let is_synced = Arc::new(AtomicBool::new(false));
    let state = is_synced.clone();
    telemetry.attach_metric_caches(move || {
        let unsynced = !state.load(Ordering::Relaxed);
        unsynced.then(|| "the cache of pods has not synced yet".to_owned()).into_iter().collect()
    });
    let error = telemetry.ready().expect_err("the cache isn't synced").to_string();
    assert_eq!(error, "metrics in this process: the cache of pods has not synced yet");
    is_synced.store(true, Ordering::Relaxed);
    assert_eq!(telemetry.ready(), Ok(()));
}

#[tokio::test]
async fn scrape_has_three_series_for_each_autoscaler() {
    const COUNT: usize = 10_000;
    let names: Vec<String> = (0..COUNT).map(|index| format!("web-{index}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (telemetry, _) = telemetry(&names, per_autoscaler());
    let empty = telemetry.render().lines().count();
    for name in &names {
        reconcile(&telemetry, name, &[Ok(3)]);
        finish(&telemetry, name, Some(3), None);
    }
    let text = telemetry.render();
    let per_autoscaler = text.lines().filter(|line| line.contains("hpa_name=")).count();
    // Each has `desired_replicas`, `proposed_replicas` and `limited`.
    assert_eq!(per_autoscaler, 3 * COUNT);
    assert!(text.lines().count() < empty + 3 * COUNT + 100);
}

#[tokio::test]
async fn autoscaler_of_the_custom_api_has_its_own_series() {
    let (telemetry, sources) = telemetry(&["web"], TelemetryOptions::default());
    finish(&telemetry, "web", Some(5), None);
    let custom = HpaKey::for_api(AutoscalerApi::Custom, "shop", "web");
    sources.autoscalers.apply(&custom, hpa("custom", &["cpu"]), Origin::WatchOrResponse);
    telemetry.finished(&FinishedReconcile {
        key: &custom,
        scaled: None,
        desired_replicas: Some(7),
        error: None,
        duration: Duration::ZERO,
    });
    let text = telemetry.render();
    let name = "horizontal_pod_autoscaler_controller_desired_replicas";
    assert_eq!(value(&text, &format!("{name}{{hpa_name=\"web\",namespace=\"shop\"}}")), Some(5.0));
    let labels = "hpa_group=\"autoscaling.hpa-rs.dev\",hpa_name=\"web\",namespace=\"shop\"";
    assert_eq!(value(&text, &format!("{name}{{{labels}}}")), Some(7.0));
}
