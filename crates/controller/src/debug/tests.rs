use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use hpa_calc::{
    Conclusion, Explanation, History, HorizontalPodAutoscaler, MilliValue, ReconcileError,
    Settings,
    api::{HorizontalPodAutoscalerStatus, MetricSourceType, MetricSpec, ResourceMetricSource},
    explain::{MetricExplanation, MetricFailure, Summary, TargetValue, UnschedulablePods},
};
use hpa_lease::{Clock, Instants, SystemClock};
use jiff::{SignedDuration, Timestamp};

use super::*;
use crate::{
    cache::{Autoscaler, Origin},
    key::{AutoscalerApi, HpaKey},
    metrics::{Telemetry, TelemetrySources},
    reconcile::{Observer, ReconcileBeforeStatusWrite},
};

const START: Timestamp = Timestamp::constant(1_780_000_000, 0);

/// A controller with cached autoscalers whose decisions are recorded.
struct Controller {
    sources: TelemetrySources,
    telemetry: Arc<Telemetry>,
    recorder: Arc<DecisionRecorder>,
    view: DebugView,
}

impl Controller {
    fn new(keys: &[HpaKey], limit: usize) -> Self {
        let (telemetry, sources) = (Arc::new(Telemetry::default()), TelemetrySources::default());
        for key in keys {
            sources.autoscalers.apply(key, hpa(&key.to_string()), Origin::WatchOrResponse);
        }
        telemetry.attach(sources.clone());
        let recorder = Arc::new(DecisionRecorder::new(telemetry.clone(), limit));
        let clock = Arc::new(StoppedClock(START + SignedDuration::from_secs(15)));
        let view = view(telemetry.clone(), recorder.clone(), clock);
        Self { sources, telemetry, recorder, view }
    }

    /// A controller with one autoscaler.
    fn with_one() -> (HpaKey, Self) {
        let key = HpaKey::new("shop", "web");
        let controller = Self::new(std::slice::from_ref(&key), 1 << 20);
        (key, controller)
    }

    fn record(&self, key: &HpaKey, second: i64, conclusion: &Conclusion) {
        self.recorder.concluded(&ReconcileBeforeStatusWrite {
            key,
            hpa: &hpa(&key.to_string()),
            settings: &Settings::default(),
            conclusion,
            at: START + SignedDuration::from_secs(second),
            duration: Duration::ZERO,
            read_durations: &[],
        });
    }
}

fn view(
    telemetry: Arc<Telemetry>,
    recorder: Arc<DecisionRecorder>,
    clock: Arc<dyn Clock>,
) -> DebugView {
    DebugView {
        telemetry,
        recorder,
        clock,
        sync_period: Duration::from_secs(15),
        decision_settings: Settings::default(),
        dry_run: false,
        keep_history: true,
        refused_rules_file: Box::new(|| None),
    }
}

/// A clock that stands still at a time.
struct StoppedClock(Timestamp);

impl Clock for StoppedClock {
    fn instants(&self) -> Instants {
        Instants { wall: self.0, monotonic: Duration::ZERO }
    }
}

/// A clock that records whether the autoscaler's forecasts are locked while the clock is read.
struct LockProbe {
    autoscaler: Arc<Autoscaler>,
    was_locked: AtomicBool,
}

impl Clock for LockProbe {
    fn instants(&self) -> Instants {
        let is_locked = self.autoscaler.forecasts.try_lock().is_none();
        self.was_locked.fetch_or(is_locked, Ordering::Relaxed);
        SystemClock::default().instants()
    }
}

#[tokio::test]
async fn view_of_forecasts_is_computed_without_their_lock() {
    let (key, Controller { sources, telemetry, recorder, .. }) = Controller::with_one();
    let autoscaler = sources.autoscalers.get(&key).unwrap();
    *autoscaler.forecasts.lock() = Some(Box::default());
    let probe = Arc::new(LockProbe { autoscaler, was_locked: AtomicBool::new(false) });
    let view = view(telemetry, recorder, probe.clone());
    assert!(view.autoscaler(&key, None).is_some());
    assert!(!probe.was_locked.load(Ordering::Relaxed));
}

fn hpa(uid: &str) -> HorizontalPodAutoscaler {
    let mut hpa = HorizontalPodAutoscaler::default();
    uid.clone_into(&mut hpa.metadata.uid);
    hpa.spec.max_replicas = 10;
    hpa.spec.metrics = vec![MetricSpec {
        source_type: MetricSourceType::Resource,
        resource: Some(Box::new(ResourceMetricSource {
            name: "cpu".into(),
            ..ResourceMetricSource::default()
        })),
        ..MetricSpec::default()
    }];
    hpa
}

/// A decision on a usage of CPU in percent of the requests, with a target of 50 %.
fn conclusion(current: i32, desired: i32, percent: i32) -> Conclusion {
    let metric = MetricExplanation {
        metric: "cpu resource utilization (percentage of request)".into(),
        usage: Some(MilliValue::from_milli(i64::from(percent) * 10)),
        utilization: Some(percent),
        target: Some(TargetValue::Utilization(50)),
        ratio: Some(f64::from(percent) / 50.0),
        proposed_replicas: Some(desired),
        ..MetricExplanation::default()
    };
    let summary = if current == desired {
        Summary::NoChange
    } else {
        Summary::Rescale("cpu above target".into())
    };
    let explanation = Explanation {
        current_replicas: current,
        desired_replicas: desired,
        metrics: vec![metric],
        winner: Some(0),
        proposed_replicas: Some(desired),
        summary,
        ..Explanation::default()
    };
    Conclusion {
        status: HorizontalPodAutoscalerStatus::default(),
        events: Vec::new(),
        history: History::default(),
        explanation,
        scaled_to: (current != desired).then_some(desired),
        error: None,
    }
}

fn failed_conclusion(message: &str) -> Conclusion {
    let error =
        ReconcileError::ReadScale { target: "Deployment/shop/web".into(), message: message.into() };
    let explanation =
        Explanation { summary: Summary::Failed(error.to_string()), ..Explanation::default() };
    Conclusion { explanation, scaled_to: None, error: Some(error), ..conclusion(0, 0, 0) }
}

#[test]
fn detail_has_runs_samples_and_history() {
    let (key, controller) = Controller::with_one();
    controller.record(&key, 0, &conclusion(2, 2, 50));
    controller.record(&key, 15, &conclusion(2, 2, 52));
    controller.record(&key, 30, &conclusion(2, 4, 99));
    controller.record(&key, 45, &failed_conclusion("gone"));
    let detail = controller.view.autoscaler(&key, None).unwrap();
    let runs: Vec<_> = detail
        .runs
        .iter()
        .map(|run| {
            let Decision { current_replicas, scaled_to, sentence, .. } = &run.decision;
            (run.count, *current_replicas, *scaled_to, sentence.as_str())
        })
        .collect();
    assert_eq!(
        runs,
        [
            (2, Some(2), None, "cpu is at 52% of requests, target 50%; metrics ask for 2"),
            (1, Some(2), Some(4), "cpu is at 99% of requests, target 50%"),
            (1, None, None, "failed to query scale subresource for Deployment/shop/web: gone"),
        ]
    );
    let values: Vec<_> = detail.samples.iter().map(|sample| sample.values.clone()).collect();
    assert_eq!(values, [[Some(50)], [Some(52)], [Some(99)], [None]]);
    assert_eq!(detail.metric_names, ["cpu"]);
    let decision = detail.decision_in_effect().unwrap();
    let failure = "failed to query scale subresource for Deployment/shop/web: gone";
    assert_eq!((&*decision.action(), decision.failure()), ("can't decide", Some(failure)));
    let json = serde_json::to_value(&detail).unwrap();
    let explanation = json.pointer("/runs/1/explanation/metrics/0/utilization");
    assert_eq!(explanation, Some(&99.into()));
    assert_eq!(json.pointer("/runs/1/decision/reason"), Some(&"metrics".into()));
    assert!(detail.history.is_none(), "a standby has none");
    controller.telemetry.set_working(true);
    assert!(controller.view.autoscaler(&key, None).unwrap().history.is_some());
}

#[test]
fn scaling_that_could_not_be_written_is_no_decision_to_stay() {
    let (key, controller) = Controller::with_one();
    let stay = || controller.view.autoscaler(&key, None).unwrap().current_stay();
    controller.record(&key, 0, &conclusion(2, 2, 50));
    assert_eq!(stay().map(|stay| stay.replicas), Some(2));
    controller.record(&key, 15, &Conclusion { scaled_to: None, ..conclusion(2, 4, 99) });
    assert_eq!(stay(), None);
}

#[test]
fn detail_since_a_time_has_the_run_of_that_time() {
    let (key, controller) = Controller::with_one();
    for (second, current) in [(0, 2), (15, 3), (30, 3), (45, 4)] {
        controller.record(&key, second, &conclusion(current, current, 50));
    }
    let since = START + SignedDuration::from_secs(20);
    let detail = controller.view.autoscaler(&key, Some(since)).unwrap();
    assert_eq!(detail.runs.iter().map(|run| run.count).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(detail.samples.len(), 2);
    assert!(controller.view.autoscaler(&HpaKey::new("shop", "other"), None).is_none());
}

#[test]
fn errors_that_only_differ_in_metric_texts_are_one_run() {
    let (key, controller) = Controller::with_one();
    for (second, text) in [(0, "timeout after 10.001s"), (15, "timeout after 10.002s")] {
        let mut conclusion = conclusion(2, 2, 50);
        let metric = &mut conclusion.explanation.metrics[0];
        metric.failure = Some(MetricFailure::Fetch);
        metric.error = Some(text.to_owned());
        conclusion.error = Some(ReconcileError::SomeMetrics(text.to_owned()));
        controller.record(&key, second, &conclusion);
    }
    controller.record(&key, 30, &failed_conclusion("gone"));
    controller.record(&key, 45, &failed_conclusion("forbidden"));
    let detail = controller.view.autoscaler(&key, None).unwrap();
    assert_eq!(detail.runs.iter().map(|run| run.count).collect::<Vec<_>>(), [2, 1, 1]);
    let sentence = &detail.runs[0].decision.sentence;
    assert!(sentence.starts_with("cpu is at 50% of requests, target 50%"), "{sentence}");
    assert!(sentence.ends_with("; cpu cannot be read: timeout after 10.002s"), "{sentence}");
}

#[test]
fn detail_has_the_last_errors_of_metrics() {
    let (key, controller) = Controller::with_one();
    let errors = || controller.view.autoscaler(&key, None).unwrap().last_errors();
    let mut failed = conclusion(2, 2, 50);
    failed.explanation.metrics[0].error = Some("no metrics returned".to_owned());
    controller.record(&key, 0, &failed);
    assert_eq!(errors(), [Some("no metrics returned".to_owned())]);
    controller.record(&key, 15, &conclusion(2, 2, 50));
    assert_eq!(errors(), [None::<String>]);
}

#[test]
fn failed_status_writes_are_counted_while_the_stored_statuses_are_outdated() {
    let keys = ["a", "b"].map(|name| HpaKey::new("shop", name));
    let controller = Controller::new(&keys, 1 << 20);
    let failed = || controller.view.status().failed_status_writes;
    assert_eq!(failed(), None);
    let autoscaler = controller.sources.autoscalers.get(&keys[0]).unwrap();
    autoscaler.replace_status_failure(Some("forbidden".to_owned()));
    assert_eq!(failed(), Some(FailedStatusWrites { autoscalers: 1, error: "forbidden".into() }));
    let list = controller.view.autoscalers(&ListFilter { limit: 9, ..ListFilter::default() });
    let errors: Vec<_> = list.items.into_iter().map(|item| item.status_write_error).collect();
    assert_eq!(errors, [Some("forbidden".to_owned()), None]);

    // The load, and with it the status, is as before the failure, so nothing is written.
    autoscaler.set_status_stored();
    assert_eq!(failed(), None);
}

#[test]
fn overwritten_scalings_are_counted() {
    let keys = ["a", "b"].map(|name| HpaKey::new("shop", name));
    let controller = Controller::new(&keys, 1 << 20);
    controller.telemetry.set_working(true);
    let autoscaler = controller.sources.autoscalers.get(&keys[1]).unwrap();
    let now = controller.view.clock.now();
    for _ in 0..3 {
        assert_eq!(controller.view.status().overwritten, 0);
        let mut overwritten = autoscaler.overwritten_replicas.lock();
        overwritten.record_write(5, now);
        overwritten.observe(2, now);
    }
    assert_eq!(controller.view.status().overwritten, 1);
    let list = controller.view.autoscalers(&ListFilter { limit: 9, ..ListFilter::default() });
    let overwritten = |item: &AutoscalerItem| (item.overwritten_scalings, item.overwritten_at);
    let overwritten: Vec<_> = list.items.iter().map(overwritten).collect();
    assert_eq!(overwritten, [(0, None), (3, Some(now))]);
    controller.telemetry.set_working(false);
    assert_eq!(controller.view.status().overwritten, 0, "another instance may be the leader");
}

#[test]
fn autoscalers_with_unschedulable_pods_are_counted_by_their_recent_decision() {
    let keys = ["a", "b"].map(|name| HpaKey::new("shop", name));
    let controller = Controller::new(&keys, 1 << 20);
    let mut blocked = conclusion(2, 2, 50);
    let pods = UnschedulablePods { count: 1, total: 2 };
    blocked.explanation.unschedulable_pods = Some(pods);
    controller.record(&keys[0], 0, &conclusion(2, 2, 50));
    controller.record(&keys[1], 0, &blocked);
    assert_eq!(controller.view.status().unschedulable, 1);
    let list = controller.view.autoscalers(&ListFilter { limit: 9, ..ListFilter::default() });
    let decisions = list.items.iter().map(|item| &item.last.as_ref().unwrap().decision);
    let decisions: Vec<_> = decisions.collect();
    assert_eq!(decisions[0].unschedulable_pods, None);
    assert_eq!(decisions[1].unschedulable_pods, Some(pods));
    let sentence = &decisions[1].sentence;
    assert!(sentence.ends_with("; 1 of 2 pods can't be scheduled"), "{sentence}");
    assert_eq!(list.items[1].activity(list.now).unschedulable_pods, Some(pods));
    let mut unready = conclusion(2, 2, 50);
    unready.explanation.unready_pods = Some(2);
    controller.record(&keys[0], 15, &unready);
    let list = controller.view.autoscalers(&ListFilter { limit: 9, ..ListFilter::default() });
    let decision = &list.items[0].last.as_ref().unwrap().decision;
    assert!(decision.sentence.ends_with("; none of the 2 pods is ready"), "{decision:?}");
    assert_eq!(decision.unready_pods, Some(2));
    controller.record(&keys[1], 15, &conclusion(2, 2, 50));
    assert_eq!(controller.view.status().unschedulable, 0);

    // Another controller has made the decisions since then.
    let former = Controller::new(&keys, 1 << 20);
    former.record(&keys[1], -60, &blocked);
    assert_eq!(former.view.status().unschedulable, 0);
}

#[test]
fn lists_have_pages_in_order() {
    let mut keys: Vec<_> = ["b/x", "a/z", "a/y", "a-b/x"]
        .map(|key| key.split_once('/').unwrap())
        .map(|(namespace, name)| HpaKey::new(namespace, name))
        .to_vec();
    keys.push(HpaKey::for_api(AutoscalerApi::Custom, "a", "y"));
    let controller = Controller::new(&keys, 1 << 20);
    controller.record(&keys[0], 0, &conclusion(2, 4, 99));
    let (mut pages, mut after) = (Vec::new(), None);
    loop {
        let filter = ListFilter { limit: 2, after, ..ListFilter::default() };
        let page = controller.view.autoscalers(&filter);
        pages.push(page.items.iter().map(|item| item.uid.clone()).collect::<Vec<_>>());
        after = page.next;
        if after.is_none() {
            let last = page.items.last().unwrap().last.as_ref().unwrap();
            assert!(last.explanation.is_none() && last.decision.scaled_to == Some(4));
            break;
        }
    }
    let expected: [&[&str]; 3] = [&["a-b/x", "a/y"], &["rhpa/a/y", "a/z"], &["b/x"]];
    assert_eq!(pages, expected);
    let filter = ListFilter { namespace: Some("a".into()), limit: 9, after: None };
    assert_eq!(controller.view.autoscalers(&filter).items.len(), 3);
}

#[test]
fn all_autoscalers_stay_within_the_limit() {
    let keys: Vec<_> = (0..500).map(|index| HpaKey::new("shop", format!("web-{index}"))).collect();
    let limit = 2 << 20;
    let controller = Controller::new(&keys, limit);
    for second in 0..100 {
        for key in &keys {
            let replicas = i32::try_from(second).unwrap() / 3;
            controller.record(key, second * 15, &conclusion(replicas, replicas, 50));
        }
    }
    let DecisionMemory { used_bytes, limit_bytes, per_autoscaler_bytes } =
        controller.view.status().decision_memory;
    assert_eq!((limit_bytes, per_autoscaler_bytes), (limit, limit / 500));
    assert!(used_bytes <= limit && used_bytes > limit / 2, "{used_bytes}");
}

#[test]
fn nothing_is_recorded_without_a_recorder() {
    let (key, controller) = Controller::with_one();
    let hpa = hpa("web");
    controller.telemetry.concluded(&ReconcileBeforeStatusWrite {
        key: &key,
        hpa: &hpa,
        settings: &Settings::default(),
        conclusion: &conclusion(2, 2, 50),
        at: START,
        duration: Duration::ZERO,
        read_durations: &[Duration::ZERO],
    });
    let autoscaler = controller.sources.autoscalers.get(&key).unwrap();
    assert!(autoscaler.decisions.lock().is_none());
}

#[test]
fn decision_settings_round_trip_through_json() {
    let settings = Settings::default().with(|settings| {
        settings.tolerance = 0.05;
        settings.downscale_stabilization = SignedDuration::from_millis(90_500);
        settings.scale_to_zero = false;
        settings.exact_schedules = true;
    });
    let json = serde_json::to_string(&DecisionSettings::from(&settings)).unwrap();
    let decoded: DecisionSettings = serde_json::from_str(&json).unwrap();
    assert_eq!(Settings::from(decoded), settings);
}

#[test]
fn status_has_the_refused_rules_file() {
    let Controller { view, .. } = Controller::new(&[], 1 << 20);
    assert_eq!(view.status().refused_rules_file, None);
    let (path, error) = ("rules.yaml".to_owned(), "it has no rules".to_owned());
    let refused = RefusedRulesFile { path, changed_at: Some(START), error };
    let expected = refused.clone();
    let view = DebugView { refused_rules_file: Box::new(move || Some(refused.clone())), ..view };
    let json = serde_json::to_value(view.status()).unwrap();
    let decoded: ControllerStatus = serde_json::from_value(json).unwrap();
    assert_eq!(decoded.refused_rules_file, Some(expected));
}

#[test]
fn slow_response_is_no_lag_of_the_clock() {
    let at = |second| Timestamp::from_second(second).unwrap();
    let lag = |second| clock_lag(at(second), at(100), at(120)).as_secs();
    assert_eq!([40, 100, 119, 125].map(lag), [60, 0, 0, -5]);
}

#[test]
fn settings_of_the_controller_are_effective_unless_flags_set_others() {
    let defaults = Settings::default();
    let controller = defaults.clone().with(|settings| settings.tolerance = 0.05);
    let flags = defaults.clone().with(|settings| settings.tolerance = 0.2);
    let strict = defaults.clone().with(|settings| settings.strict_scale_to_zero = true);
    let exact = defaults.clone().with(|settings| settings.exact_schedules = true);
    let strict_controller = controller.clone().with(|one| one.strict_scale_to_zero = true);
    let exact_controller = controller.clone().with(|one| one.exact_schedules = true);
    for (flags, served, expected) in [
        (&flags, None, flags.clone()),
        (&defaults, Some(&controller), controller.clone()),
        (&flags, Some(&controller), flags.clone()),
        (&strict, Some(&controller), strict_controller),
        (&exact, Some(&controller), exact_controller),
        (&flags, Some(&exact), flags.clone().with(|settings| settings.exact_schedules = true)),
        (&exact, Some(&exact), exact.clone()),
    ] {
        let effective = effective_settings(flags.clone(), served.cloned());
        assert_eq!(effective, expected, "{flags:?} {served:?}");
    }
}

#[test]
fn sentence_about_stale_caches_has_their_ages_and_the_error_of_a_watch() {
    let mut status = Controller::with_one().1.view.status();
    status.never_listed_caches.clear();
    status.cache_ages_seconds = [("pods".to_owned(), 120.0)].into();
    assert_eq!(status.stale_caches_sentence(), None);
    status.cache_ages_seconds.insert("pods".to_owned(), 121.0);
    assert_eq!(
        status.stale_caches_sentence().as_deref(),
        Some(
            "The controller may decide without newer changes, because its watches fail or are \
             silent (pods for 121s): its log says why, often a right is missing."
        )
    );
    status.watch_errors.insert("pods".to_owned(), "list failed: pods is forbidden".to_owned());
    let sentence = status.stale_caches_sentence().unwrap_or_default();
    let end = "(pods for 121s): the watch of pods fails: list failed: pods is forbidden.";
    assert!(sentence.ends_with(end), "{sentence}");
}
