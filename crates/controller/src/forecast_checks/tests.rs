use std::{future::ready, sync::Arc, time::Duration};

use futures::{FutureExt, future::BoxFuture};
use hpa_calc::{
    HorizontalPodAutoscaler, MetricsApi, MilliValue, Plan, ReadError, Reading, Readings, Scale,
    SelectedPods,
    settings::{SettingPolicy, Settings},
};
use hpa_forecast::Trace;
use hpa_lease::SystemClock;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::json;
use tokio::{task::AbortHandle, time::sleep};

use super::ForecastChecks;
use crate::{
    cache::Origin,
    forecast::{
        self, FIRST_CHECK_PERIOD, ForecastSource, Forecasts, LoadObservation, PastError, PastLoads,
        PastRange,
    },
    key::HpaKey,
    settings::SettingSource,
};

type Answer = fn(PastRange) -> BoxFuture<'static, Result<Trace, PastError>>;

/// Records the requests, and answers them with `answer`.
struct FakePastLoads {
    /// The name of the metric of each request.
    metrics: Mutex<Vec<String>>,
    answer: Answer,
}

impl PastLoads for FakePastLoads {
    fn load<'a>(
        &'a self,
        hpa: &'a HorizontalPodAutoscaler,
        metric: usize,
        range: PastRange,
    ) -> BoxFuture<'a, Result<Trace, PastError>> {
        self.metrics.lock().push(hpa.spec.metrics[metric].metric_name().to_owned());
        (self.answer)(range)
    }
}

/// The checks, with autoscalers that read external metrics.
struct Fixture {
    source: Arc<FakePastLoads>,
    checks: ForecastChecks,
}

impl Fixture {
    fn new(answer: Answer) -> Self {
        let source = Arc::new(FakePastLoads { metrics: Mutex::default(), answer });
        let past = ForecastSource { past: Some(source.clone()), ..ForecastSource::default() };
        let settings = SettingSource::new(Settings::default(), SettingPolicy::default());
        let checks = ForecastChecks {
            forecasts: Arc::new(Forecasts::new(past, Duration::from_secs(15))),
            autoscalers: Arc::default(),
            settings: Arc::new(settings),
            clock: Arc::new(SystemClock::default()),
        };
        Self { source, checks }
    }

    fn start(&self) -> AbortHandle {
        tokio::spawn(self.checks.clone().run()).abort_handle()
    }

    fn add(&self, name: &str) {
        self.apply(name, "web", &["requests"]);
    }

    /// The key of `NAMESPACE/NAME`, or of a name in the namespace `shop`.
    fn key(name: &str) -> HpaKey {
        let (namespace, name) = name.split_once('/').unwrap_or(("shop", name));
        HpaKey::new(namespace, name)
    }

    /// Creates or replaces an autoscaler.
    fn apply(&self, name: &str, target: &str, metrics: &[&str]) {
        let metric = |name: &&str| {
            let target = json!({ "type": "AverageValue", "averageValue": "100" });
            let external = json!({ "metric": { "name": name }, "target": target });
            json!({ "type": "External", "external": external })
        };
        let (key, metrics) = (Self::key(name), metrics.iter().map(metric).collect::<Vec<_>>());
        let hpa: HorizontalPodAutoscaler = serde_json::from_value(json!({
            "metadata": { "name": *key.name, "namespace": *key.namespace, "uid": name,
                "annotations": { "autoscaling.hpa-rs.dev/forecast": "scale" } },
            "spec": {
                "scaleTargetRef":
                    { "apiVersion": "apps/v1", "kind": "Deployment", "name": target },
                "maxReplicas": 100, "metrics": metrics,
            },
        }))
        .unwrap();
        self.checks.autoscalers.apply(&key, hpa, Origin::List);
    }

    /// Observes a load as a reconcile does. Returns the reason of the forecast and its text.
    fn observe(&self, name: &str) -> Option<(String, String)> {
        let value = vec![MilliValue::from_units(2000)];
        self.observe_reading(name, Ok(Reading::External(value.into())))
    }

    fn observe_reading(
        &self,
        name: &str,
        reading: Result<Reading, ReadError>,
    ) -> Option<(String, String)> {
        let ForecastChecks { forecasts, autoscalers, settings, clock } = &self.checks;
        let key = Self::key(name);
        let autoscaler = autoscalers.get(&key).unwrap();
        let (hpa, effective) = autoscaler.object_with_settings(settings);
        let scale = Scale { spec_replicas: 20, status_replicas: 20, selector: "a=b".into() };
        let select = |_: &_| SelectedPods::default();
        let plan = Plan::new(&hpa, Ok(scale), &effective, select);
        let metrics = 0..hpa.spec.metrics.len();
        let mut readings: Readings = metrics.map(|metric| (metric, reading.clone())).collect();
        let observation = LoadObservation {
            hpa: &hpa,
            settings: &effective,
            plan: &plan,
            pods: &[],
            now: clock.now(),
        };
        let mut state = autoscaler.forecasts.lock();
        let state = state.get_or_insert_with(Box::default);
        state.observe(forecasts, &observation, &mut readings);
        let forecast = readings.forecast(0);
        forecast.map(|forecast| (forecast.reason.as_str().to_owned(), forecast.text.to_string()))
    }

    fn request_count(&self) -> usize {
        self.source.metrics.lock().len()
    }
}

/// Runs the checks of one autoscaler for `duration`. Returns the reason of the forecast with its
/// text, and the number of requests.
async fn check_for(answer: Answer, duration: Duration) -> (Option<(String, String)>, usize) {
    let fixture = Fixture::new(answer);
    fixture.add("web");
    let task = fixture.start();
    fixture.observe("web");
    sleep(duration).await;
    task.abort();
    (fixture.observe("web"), fixture.request_count())
}

/// A load that triples for ten hours of each day. Days are counted from the end of the range, so
/// that the test doesn't depend on the time of day.
fn office_hours_load(range: PastRange) -> Trace {
    let (from, until) = (range.from.as_second() / 60, range.until.as_second() / 60);
    let load = |minute: i64| forecast::tests::office_hours_load(minute - until);
    Trace::new((from..until).map(|at| (Timestamp::from_second(at * 60).unwrap(), load(at))))
}

fn answer_with_office_hours(range: PastRange) -> BoxFuture<'static, Result<Trace, PastError>> {
    ready(Ok(office_hours_load(range))).boxed()
}

const HOUR: Duration = Duration::from_hours(1);

#[tokio::test(start_paused = true)]
async fn past_is_read_at_the_first_load_and_every_day() {
    let (forecast, requests) = check_for(answer_with_office_hours, HOUR).await;
    assert_eq!((forecast.unwrap().0.as_str(), requests), ("Forecasting", 1));
    let days = 4;
    let (_, requests) = check_for(answer_with_office_hours, 24 * days * HOUR).await;
    // The first check runs at once, the second one after a part of a day, then one a day.
    assert!((4..=5).contains(&requests), "{requests}");
}

#[tokio::test(start_paused = true)]
async fn forecasts_have_no_benefit_while_scheduled_bounds_suffice() {
    let fixture = Fixture::new(answer_with_office_hours);
    fixture.add("web");
    let (key, autoscalers) = (Fixture::key("web"), &fixture.checks.autoscalers);
    let mut hpa = HorizontalPodAutoscaler::clone(&autoscalers.get(&key).unwrap().object());
    // The highest load needs 60 pods.
    let bounds = r#"[{"start": "00:00", "end": "00:00", "timeZone": "UTC", "minReplicas": 90}]"#;
    let annotation = "autoscaling.hpa-rs.dev/bounds".to_owned();
    hpa.metadata.annotations.insert(annotation, bounds.to_owned());
    autoscalers.apply(&key, hpa, Origin::List);
    let task = fixture.start();
    fixture.observe("web");
    sleep(HOUR).await;
    task.abort();
    let (reason, text) = fixture.observe("web").unwrap();
    assert_eq!(reason, "NoBenefit", "{text}");
}

#[tokio::test(start_paused = true)]
async fn added_autoscaler_is_checked_at_once() {
    let fixture = Fixture::new(answer_with_office_hours);
    let task = fixture.start();
    for (checked, name) in [(1, "web"), (2, "api")] {
        fixture.add(name);
        fixture.observe(name);
        sleep(Duration::from_secs(1)).await;
        assert_eq!(fixture.request_count(), checked, "{name}");
    }
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn first_load_is_checked_at_once() {
    let fixture = Fixture::new(answer_with_office_hours);
    let task = fixture.start();
    fixture.add("web");
    fixture.observe_reading("web", Err(ReadError::Empty(MetricsApi::External)));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(fixture.request_count(), 0);
    fixture.observe("web");
    sleep(Duration::from_secs(1)).await;
    assert_eq!(fixture.request_count(), 1);
    task.abort();
}

/// The metrics whose pasts are read if the spec changes while the first past is read. If
/// `is_change_observed`, a reconcile observes the change before the read ends.
async fn metrics_read_around_a_spec_change(
    target: &str,
    metrics: &[&str],
    is_change_observed: bool,
) -> Vec<String> {
    let slow = |range| {
        let answer = async move {
            sleep(Duration::from_secs(40)).await;
            Ok(office_hours_load(range))
        };
        answer.boxed()
    };
    let fixture = Fixture::new(slow);
    fixture.apply("web", "web", &["a", "b"]);
    let task = fixture.start();
    fixture.observe("web");
    sleep(Duration::from_secs(20)).await;
    fixture.apply("web", target, metrics);
    if is_change_observed {
        fixture.observe("web");
    }
    sleep(Duration::from_secs(120) + FIRST_CHECK_PERIOD).await;
    task.abort();
    let read = fixture.source.metrics.lock();
    read.clone()
}

#[tokio::test(start_paused = true)]
async fn metric_of_a_changed_spec_does_not_get_the_past_of_another() {
    assert_eq!(metrics_read_around_a_spec_change("web", &["c", "b"], true).await, ["a", "b", "c"]);
    // The next reconcile drops the state of the old metrics.
    assert_eq!(metrics_read_around_a_spec_change("web", &["c", "b"], false).await, ["a"]);
    assert_eq!(metrics_read_around_a_spec_change("api", &["a", "b"], false).await, ["a"]);
}

/// Answers after two seconds that the metric is unknown.
fn slow_source(_: PastRange) -> BoxFuture<'static, Result<Trace, PastError>> {
    let answer = async {
        sleep(Duration::from_secs(2)).await;
        Err(PastError::Unknown("no rule".to_owned()))
    };
    answer.boxed()
}

#[tokio::test(start_paused = true)]
async fn tenants_that_change_their_metrics_do_not_starve_others() {
    let fixture = Fixture::new(slow_source);
    let task = fixture.start();
    let hostile = ["hostile1/web", "hostile2/web"];
    for step in 0..720 {
        for name in hostile {
            let metrics = (0..4).map(|metric| format!("m{step}-{metric}"));
            let metrics: Vec<String> = metrics.collect();
            let metrics: Vec<&str> = metrics.iter().map(String::as_str).collect();
            fixture.apply(name, name, &metrics);
            fixture.observe(name);
        }
        if step == 1 {
            fixture.apply("victim/web", "web", &["v"]);
            fixture.observe("victim/web");
        }
        sleep(Duration::from_secs(5)).await;
    }
    task.abort();
    let read = fixture.source.metrics.lock();
    // Before it, each of the two has at most one turn of `MAX_FORECAST_METRICS` checks.
    let position = read.iter().position(|metric| metric == "v");
    assert!(position.is_some_and(|position| position <= 16), "{position:?}");
    // In an hour, each of the two gets up to four first checks seven times, and the victim one.
    assert!(read.len() <= 57, "{}", read.len());
}

#[tokio::test(start_paused = true)]
async fn namespace_with_many_slow_metrics_gets_one_check_at_a_time() {
    let fixture = Fixture::new(slow_source);
    for index in 0..100 {
        let name = format!("hostile/{index}");
        fixture.apply(&name, &name, &["a", "b", "c", "d"]);
        fixture.observe(&name);
    }
    let task = fixture.start();
    sleep(Duration::from_secs(1)).await;
    for name in ["bank/web", "shop/web"] {
        fixture.apply(name, "web", &[name]);
        fixture.observe(name);
    }
    sleep(Duration::from_secs(5)).await;
    task.abort();
    let read = fixture.source.metrics.lock();
    // The four reads of an autoscaler take 8 s. If `hostile` had both permits, no metric of another
    // namespace would have been read by now.
    let of_others = read.iter().filter(|metric| metric.contains('/')).count();
    assert_eq!(of_others, 2, "{read:?}");
}

#[tokio::test(start_paused = true)]
async fn failed_read_is_repeated_with_a_backoff() {
    let refused = |_| {
        let (error, cause) = ("http://p/secret: refused".to_owned(), "refused".to_owned());
        async move { Err(PastError::Failed { error, cause }) }.boxed()
    };
    let (forecast, requests) = check_for(refused, 6 * HOUR).await;
    let text = "the metric's past can't be read: refused";
    assert_eq!(forecast, Some(("SourceFailed".to_owned(), text.to_owned())));
    // About at 0, 5, 15, 35 and 75 minutes, and then every hour: nine requests.
    assert!((7..=11).contains(&requests), "{requests}");
}

#[tokio::test(start_paused = true)]
async fn hanging_source_times_out() {
    let (forecast, requests) = check_for(|_| std::future::pending().boxed(), HOUR).await;
    let (reason, text) = forecast.unwrap();
    assert_eq!(reason, "SourceFailed");
    assert_eq!(text, "the metric's past can't be read: not read within 60s");
    // About at 0, 6, 17 and 38 minutes: each request first times out after a minute.
    assert!((3..=6).contains(&requests), "{requests}");
}

#[tokio::test(start_paused = true)]
async fn metric_unknown_to_the_source_is_checked_on_observed_loads() {
    let unknown = |_| async { Err(PastError::Unknown("no rule".to_owned())) }.boxed();
    let (forecast, requests) = check_for(unknown, HOUR).await;
    let (reason, text) = forecast.unwrap();
    assert_eq!((reason.as_str(), requests), ("NotEnoughHistory", 1));
    assert!(text.ends_with("; no rule"), "{text}");
}
