//! Checks in the background whether forecasts help: reads the past of a metric, and runs the past
//! two weeks with and without forecasts.
//!
//! A metric is checked when it first has a load, and then every day, spread over the day by a hash
//! of its autoscaler. A failed check is repeated with a backoff. Few checks run at once, and one
//! calculation at a time, in a thread of its own, so that no reconcile waits for them.
//!
//! The autoscalers of a namespace take turns, and so do the namespaces: a tenant whose metrics
//! change all the time, or whose past takes long to read, doesn't delay others for long.

use std::{collections::HashSet, hash::BuildHasher, pin::pin, sync::Arc, time::Duration};

use futures::{StreamExt, stream::FuturesUnordered};
use hpa_forecast::{GateDecision, Trace, gate};
use hpa_lease::Clock;
use hpa_metrics::KeyedSemaphores;
use jiff::{SignedDuration, Timestamp};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout, timeout_at},
};
use tracing::{debug, warn};

use crate::{
    cache::{Autoscaler, Autoscalers},
    forecast::{Check, Forecasts, MAX_METRICS, Past, PastError, PastRange},
    hash::HASHER,
    key::HpaKey,
    settings::SettingSource,
};

/// The maximum number of pasts that are read at once, at most one of a namespace.
const MAX_CONCURRENT: usize = 2;
/// The timeout for reading a past.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// The days that are read: two weeks to run, and as many to learn from.
const READ_DAYS: i64 = 28;
const STEP_SECONDS: u32 = 60;
/// The minimum time between two searches for due checks, unless one is requested. The maximum is
/// twice as long, because settings may change.
const INTERVAL: Duration = Duration::from_secs(30);

/// The leader's task that runs the checks.
pub(crate) struct ForecastChecks {
    pub(crate) forecasts: Arc<Forecasts>,
    pub(crate) autoscalers: Arc<Autoscalers>,
    pub(crate) settings: Arc<SettingSource>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl ForecastChecks {
    /// Runs the checks. Never ends.
    pub(crate) async fn run(self) {
        let (limits, mut checks) = (CheckLimits::new(), FuturesUnordered::new());
        // The autoscalers that are being checked, or wait for a check.
        let mut queued: HashSet<HpaKey> = HashSet::new();
        loop {
            for key in self.forecasts.keys() {
                if queued.insert(key.clone()) {
                    checks.push(self.check_in_turn(key, &limits));
                }
            }
            let next = self.next_check().max(Instant::now() + INTERVAL);
            // An error means that `next` has come without a request.
            let mut search = pin!(timeout_at(next, self.forecasts.check_requested()));
            loop {
                tokio::select! {
                    _ = &mut search => break,
                    Some(key) = checks.next() => queued.remove(&key),
                };
            }
        }
    }

    async fn check_in_turn(&self, key: HpaKey, limits: &CheckLimits) -> HpaKey {
        let namespace = limits.namespaces.of(&key.namespace);
        // Never closed. Permits are given in the order of requests, so namespaces take turns.
        let _namespace = namespace.acquire().await;
        let _permit = limits.all.acquire().await;
        self.check_autoscaler(&key, &limits.calculations).await;
        key
    }

    /// The time of the next due check, at most two intervals from now.
    fn next_check(&self) -> Instant {
        let next = self.forecasts.keys().into_iter().filter_map(|key| {
            let autoscaler = self.autoscalers.get(&key)?;
            let forecasts = autoscaler.forecasts.lock();
            forecasts.as_ref()?.next_check()
        });
        let latest = Instant::now() + 2 * INTERVAL;
        next.min().unwrap_or(latest).min(latest)
    }

    /// Runs all checks of an autoscaler that are due.
    async fn check_autoscaler(&self, key: &HpaKey, calculations: &Semaphore) {
        let Some(autoscaler) = self.autoscalers.get(key) else {
            return self.forecasts.remove(key);
        };
        // Bounded, because a spec that keeps changing makes new checks due while others wait.
        for _ in 0..MAX_METRICS {
            // A reconcile may have changed both since the last check.
            let (hpa, settings) = autoscaler.object_with_settings(&self.settings);
            if !settings.forecasts.is_on() {
                autoscaler.forecasts.lock().take();
                return self.forecasts.remove(key);
            }
            let check = {
                let mut forecasts = autoscaler.forecasts.lock();
                let forecasts = forecasts.as_mut();
                forecasts.and_then(|it| it.due_check(&self.forecasts, &hpa, &settings))
            };
            let Some(check) = check else { return };
            let due = DueCheck { key, autoscaler: &autoscaler, check };
            self.check(due, &hpa, calculations).await;
        }
    }

    async fn check(
        &self,
        DueCheck { key, autoscaler, mut check }: DueCheck<'_>,
        hpa: &hpa_calc::HorizontalPodAutoscaler,
        calculations: &Semaphore,
    ) {
        let now = self.clock.now();
        let result = match self.read(hpa, check.metric, now).await {
            Ok(Ok(past)) => {
                let calculated = self.calculate(past, &check, calculations).await;
                calculated.map(|(decision, past)| (decision, Past::Read(past)))
            }
            Ok(Err(reason)) => {
                let own_past = std::mem::replace(&mut check.own_past, Trace::new([]));
                let calculated = self.calculate(own_past, &check, calculations).await;
                calculated.map(|(decision, _)| (decision, Past::Observed(reason)))
            }
            Err(error) => Err(error),
        };
        self.forecasts.counts.add(result.is_ok());
        let _span = key.span().entered();
        let metric = check.metric;
        match &result {
            Ok((decision, _)) => debug!(metric, reason = ?decision.reason, "checked forecasts"),
            Err(error) => warn!(metric, %error, "unable to check forecasts"),
        }
        let spread = HASHER.hash_one(key) as f64 / u64::MAX as f64;
        if let Some(forecasts) = autoscaler.forecasts.lock().as_mut() {
            forecasts.checked(&check, result, spread, self.clock.now());
        }
    }

    /// Reads the past of a metric. The inner error says why no source has the metric.
    async fn read(
        &self,
        hpa: &hpa_calc::HorizontalPodAutoscaler,
        metric: usize,
        now: Timestamp,
    ) -> Result<Result<Trace, String>, PastError> {
        let Some(source) = &self.forecasts.source.past else {
            return Ok(Err(
                "no Prometheus is configured for past loads (--forecast-prometheus)".to_owned()
            ));
        };
        let from = now.checked_sub(SignedDuration::from_hours(READ_DAYS * 24)).unwrap_or(now);
        let range = PastRange { from, until: now, step: STEP_SECONDS };
        match timeout(READ_TIMEOUT, source.load(hpa, metric, range)).await {
            Ok(Ok(past)) => Ok(Ok(past)),
            Ok(Err(PastError::Unknown(reason))) => Ok(Err(reason)),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(PastError::Failed(format!("not read within {READ_TIMEOUT:?}"))),
        }
    }

    async fn calculate(
        &self,
        past: Trace,
        check: &Check,
        calculations: &Semaphore,
    ) -> Result<(GateDecision, Trace), PastError> {
        let _permit = calculations.acquire().await;
        let settings = check.settings.clone();
        let calculation = tokio::task::spawn_blocking(move || (gate(&past, &settings), past));
        calculation.await.map_err(|error| PastError::Failed(error.to_string()))
    }
}

/// The limits of concurrent checks.
struct CheckLimits {
    all: Semaphore,
    namespaces: KeyedSemaphores,
    calculations: Semaphore,
}

impl CheckLimits {
    fn new() -> Self {
        let (all, calculations) = (Semaphore::new(MAX_CONCURRENT), Semaphore::new(1));
        Self { all, namespaces: KeyedSemaphores::new(1), calculations }
    }
}

/// A due check and its autoscaler.
struct DueCheck<'a> {
    key: &'a HpaKey,
    autoscaler: &'a Autoscaler,
    check: Check,
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::{FutureExt, future::BoxFuture};
    use hpa_calc::{
        HorizontalPodAutoscaler, MetricsApi, MilliValue, Plan, ReadError, Reading, Readings, Scale,
        SelectedPods,
        settings::{SettingPolicy, Settings},
    };
    use hpa_lease::SystemClock;
    use parking_lot::Mutex;
    use serde_json::json;
    use tokio::{task::AbortHandle, time::sleep};

    use super::*;
    use crate::{
        cache::Origin,
        forecast::{FIRST_CHECK_PERIOD, ForecastSource, LoadObservation, PastLoads},
    };

    type Answer = fn(PastRange) -> BoxFuture<'static, Result<Trace, PastError>>;

    /// Answers with `answer`, and counts the requests.
    struct Source {
        requests: AtomicUsize,
        /// The metrics of the requests.
        metrics: Mutex<Vec<String>>,
        answer: Answer,
    }

    impl PastLoads for Source {
        fn load<'a>(
            &'a self,
            hpa: &'a HorizontalPodAutoscaler,
            metric: usize,
            range: PastRange,
        ) -> BoxFuture<'a, Result<Trace, PastError>> {
            self.requests.fetch_add(1, Ordering::Relaxed);
            self.metrics.lock().push(hpa.spec.metrics[metric].metric_name().to_owned());
            (self.answer)(range)
        }
    }

    /// Checks of autoscalers that read one external metric.
    struct Fixture {
        source: Arc<Source>,
        checks: ForecastChecks,
    }

    impl Fixture {
        fn new(answer: Answer) -> Self {
            let (requests, metrics) = (AtomicUsize::new(0), Mutex::default());
            let source = Arc::new(Source { requests, metrics, answer });
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
            let ForecastChecks { forecasts, autoscalers, settings, clock } = &self.checks;
            let checks = ForecastChecks {
                forecasts: forecasts.clone(),
                autoscalers: autoscalers.clone(),
                settings: settings.clone(),
                clock: clock.clone(),
            };
            tokio::spawn(checks.run()).abort_handle()
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

        /// Observes a load as a reconcile does. Returns the reason and its text.
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
            forecasts.add(&key);
            state.observe(forecasts, &observation, &mut readings);
            let forecast = readings.forecast(0);
            forecast.map(|it| (it.reason.as_str().to_owned(), it.text.to_string()))
        }

        fn requests(&self) -> usize {
            self.source.requests.load(Ordering::Relaxed)
        }
    }

    /// Runs checks of one autoscaler for a time, and returns the reason and the requests.
    async fn run(answer: Answer, duration: Duration) -> (Option<(String, String)>, usize) {
        let fixture = Fixture::new(answer);
        fixture.add("web");
        let task = fixture.start();
        fixture.observe("web");
        sleep(duration).await;
        task.abort();
        (fixture.observe("web"), fixture.requests())
    }

    /// A load that triples for ten hours of each day. The days begin at the end of the range, so
    /// that the result doesn't depend on the time of the run.
    fn office(range: PastRange) -> Trace {
        let (from, until) = (range.from.as_second() / 60, range.until.as_second() / 60);
        let load = |minute: i64| {
            let minute = (minute - until).rem_euclid(1440);
            let share = (minute - 480).clamp(0, 10).min((1080 - minute).clamp(0, 10));
            2000.0 + 400.0 * share as f64
        };
        Trace::new((from..until).map(|at| (Timestamp::from_second(at * 60).unwrap(), load(at))))
    }

    const HOUR: Duration = Duration::from_hours(1);

    #[tokio::test(start_paused = true)]
    async fn past_is_read_at_the_start_and_every_day() {
        let (state, requests) = run(|range| async move { Ok(office(range)) }.boxed(), HOUR).await;
        assert_eq!((state.unwrap().0.as_str(), requests), ("Forecasting", 1));
        let days = 4;
        let (_, requests) =
            run(|range| async move { Ok(office(range)) }.boxed(), 24 * days * HOUR).await;
        // At once, then after a part of a day, then daily.
        assert!((4..=5).contains(&requests), "{requests}");
    }

    #[tokio::test(start_paused = true)]
    async fn added_autoscaler_is_checked_at_once() {
        let fixture = Fixture::new(|range| async move { Ok(office(range)) }.boxed());
        let task = fixture.start();
        for (checked, name) in [(1, "web"), (2, "api")] {
            fixture.add(name);
            fixture.observe(name);
            sleep(Duration::from_secs(1)).await;
            assert_eq!(fixture.requests(), checked, "{name}");
        }
        task.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn first_load_is_checked_at_once() {
        let fixture = Fixture::new(|range| async move { Ok(office(range)) }.boxed());
        let task = fixture.start();
        fixture.add("web");
        fixture.observe_reading("web", Err(ReadError::Empty(MetricsApi::External)));
        sleep(Duration::from_secs(1)).await;
        assert_eq!(fixture.requests(), 0);
        fixture.observe("web");
        sleep(Duration::from_secs(1)).await;
        assert_eq!(fixture.requests(), 1);
        task.abort();
    }

    /// The metrics whose pasts are read if the spec changes while the first past is read.
    /// `is_observed`: a reconcile observes the change before the first past has been read.
    async fn metrics_read(target: &str, metrics: &[&str], is_observed: bool) -> Vec<String> {
        let slow = |range| {
            let answer = async move {
                sleep(Duration::from_secs(40)).await;
                Ok(office(range))
            };
            answer.boxed()
        };
        let fixture = Fixture::new(slow);
        fixture.apply("web", "web", &["a", "b"]);
        let task = fixture.start();
        fixture.observe("web");
        sleep(Duration::from_secs(20)).await;
        fixture.apply("web", target, metrics);
        if is_observed {
            fixture.observe("web");
        }
        sleep(Duration::from_secs(120) + FIRST_CHECK_PERIOD).await;
        task.abort();
        let read = fixture.source.metrics.lock();
        read.clone()
    }

    #[tokio::test(start_paused = true)]
    async fn metric_of_a_changed_spec_does_not_get_the_past_of_another() {
        assert_eq!(metrics_read("web", &["c", "b"], true).await, ["a", "b", "c"]);
        // The next reconcile drops the state of the old metrics.
        assert_eq!(metrics_read("web", &["c", "b"], false).await, ["a"]);
        assert_eq!(metrics_read("api", &["a", "b"], false).await, ["a"]);
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
        let evil = ["evil1/web", "evil2/web"];
        for step in 0..720 {
            for name in evil {
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
        let position = read.iter().position(|metric| metric == "v");
        assert!(position.is_some_and(|position| position <= 16), "{position:?}");
        // An hour with up to four first checks of each every ten minutes.
        assert!(read.len() <= 57, "{}", read.len());
    }

    #[tokio::test(start_paused = true)]
    async fn namespace_with_many_slow_metrics_gets_one_check_at_a_time() {
        let fixture = Fixture::new(slow_source);
        for index in 0..100 {
            let name = format!("evil/{index}");
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
        assert!(read.iter().filter(|metric| metric.contains('/')).count() == 2, "{read:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn failed_read_is_repeated_with_a_backoff() {
        let refused =
            |_| async { Err(PastError::Failed("http://prometheus: refused".to_owned())) }.boxed();
        let (state, requests) = run(refused, 6 * HOUR).await;
        let text = "the metric's past can't be read; see the controller log";
        assert_eq!(state, Some(("SourceFailed".to_owned(), text.to_owned())));
        assert!((7..=11).contains(&requests), "{requests}");
    }

    #[tokio::test(start_paused = true)]
    async fn hanging_source_times_out() {
        let (state, requests) = run(|_| std::future::pending().boxed(), HOUR).await;
        let (reason, text) = state.unwrap();
        assert_eq!(reason, "SourceFailed");
        assert_eq!(text, "the metric's past can't be read; see the controller log");
        assert!((3..=6).contains(&requests), "{requests}");
    }

    #[tokio::test(start_paused = true)]
    async fn metric_without_a_source_has_the_past_of_this_process() {
        let unknown = |_| async { Err(PastError::Unknown("no rule".to_owned())) }.boxed();
        let (state, requests) = run(unknown, HOUR).await;
        let (reason, text) = state.unwrap();
        assert_eq!((reason.as_str(), requests), ("NotEnoughHistory", 1));
        assert!(text.ends_with("; no rule"), "{text}");
    }
}
