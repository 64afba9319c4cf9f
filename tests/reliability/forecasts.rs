//! Forecasts from a source of past loads that is wrong, inconsistent, empty, failing or hanging.
//! Such a source may add pods to autoscalers with forecasts, up to their `maxReplicas`. It must
//! have no other effect.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture};
use hpa_calc::HorizontalPodAutoscaler;
use hpa_controller::forecast::{ForecastSource, PastError, PastLoads, PastRange};
use hpa_forecast::Trace;
use jiff::Timestamp;
use rstest::rstest;

use crate::{PERIOD, cluster::Cluster, targets::Target};

/// `maxReplicas` of the autoscaler with forecasts.
const MAX: i64 = 150;
/// The target usage of a pod of `web`.
const CORES_PER_POD: f64 = 0.5;

type PastResult = Result<Trace, PastError>;

/// A source with a fault. `response` gets the range and the number of earlier reads. If it returns
/// `None`, the source hangs.
struct FaultySource {
    reads: AtomicUsize,
    response: fn(PastRange, usize) -> Option<PastResult>,
}

impl PastLoads for FaultySource {
    fn load<'a>(
        &'a self,
        _: &'a HorizontalPodAutoscaler,
        _: usize,
        range: PastRange,
    ) -> BoxFuture<'a, PastResult> {
        let reads = self.reads.fetch_add(1, Ordering::Relaxed);
        match (self.response)(range, reads) {
            Some(past) => std::future::ready(past).boxed(),
            None => std::future::pending().boxed(),
        }
    }
}

/// A load for each minute of a range.
#[expect(clippy::unnecessary_wraps, reason = "other faults fail")]
fn loads_by_minute(range: PastRange, load: impl Fn(i64) -> f64) -> PastResult {
    let (from, until) = (range.from.as_second() / 60, range.until.as_second() / 60);
    let at = |minute: i64| Timestamp::from_second(minute * 60).expect("a time in range");
    Ok(Trace::new((from..until).map(|minute| (at(minute), load(minute)))))
}

/// The number of pods that a load needs: 20, and up to 120 for about an hour in each 96 minutes.
/// Because the load rises within six minutes, the controller's backtest finds that forecasts help.
fn needed_pods(minute: i64) -> f64 {
    let minute = minute.rem_euclid(96);
    let share = (minute - 20).clamp(0, 6).min((90 - minute).clamp(0, 6));
    20.0 + 100.0 * share as f64 / 6.0
}

#[expect(clippy::unnecessary_wraps, reason = "other faults hang")]
fn wrong_loads(range: PastRange, _: usize) -> Option<PastResult> {
    Some(loads_by_minute(range, |minute| CORES_PER_POD * needed_pods(minute)))
}

/// Like [`wrong_loads`], but the loads differ from response to response.
#[expect(clippy::unnecessary_wraps, reason = "other faults hang")]
fn inconsistent_loads(range: PastRange, reads: usize) -> Option<PastResult> {
    let shift = i64::try_from(reads).expect("few reads") * 17;
    let factor = if reads.is_multiple_of(2) { 1.0 } else { 1e6 };
    Some(loads_by_minute(range, |minute| CORES_PER_POD * factor * needed_pods(minute + shift)))
}

/// Times and values that no load can have.
#[expect(clippy::unnecessary_wraps, reason = "other faults hang")]
fn impossible_values(range: PastRange, _: usize) -> Option<PastResult> {
    let values = [f64::NAN, f64::INFINITY, -5.0, f64::MAX, 1e-300];
    let times = [Timestamp::MAX, Timestamp::MIN, range.from, range.until, range.from];
    Some(Ok(Trace::new(times.into_iter().cycle().zip(values).take(10_000))))
}

/// The replicas after each period: of `web`, which has forecasts, and of the other targets.
struct Run {
    web: Vec<i64>,
    others: Vec<[i64; 2]>,
    reads: usize,
}

/// Runs a controller, with forecasts if there is a response. The load rises and falls for three
/// hours. Then forecasts are switched off.
async fn run(response: Option<fn(PastRange, usize) -> Option<PastResult>>) -> Run {
    let source =
        response.map(|response| Arc::new(FaultySource { reads: AtomicUsize::new(0), response }));
    let past = source.clone().map(|source| source as Arc<dyn PastLoads>);
    let forecasts = ForecastSource { past, ..ForecastSource::default() };
    let cluster = Cluster::with_forecasts(forecasts);
    let web = Target::in_shop("web");
    let annotate = |value: Option<&str>| {
        cluster.edit(cluster.autoscaler(&web), |object| {
            let annotations = &mut object["metadata"]["annotations"];
            annotations["autoscaling.hpa-rs.dev/forecast"] = value.into();
            object["spec"]["maxReplicas"] = MAX.into();
        });
    };
    annotate(source.as_ref().map(|_| "scale"));
    let mut run = Run { web: Vec::new(), others: Vec::new(), reads: 0 };
    let mut observe = async |load: i64, duration: Duration| {
        cluster.set_all_loads(load);
        for _ in 0..duration.as_secs() / PERIOD.as_secs() {
            cluster.sleep(PERIOD).await;
            let [web, others @ ..] = cluster.all_replicas();
            run.web.push(web);
            run.others.push(others);
            cluster.telemetry.alive().expect("the controller is alive");
        }
    };
    for load in [2, 5, 1, 7, 3, 2] {
        observe(load, Duration::from_mins(30)).await;
    }
    if source.is_some() {
        annotate(Some("off"));
    }
    observe(2, Duration::from_mins(10)).await;
    run.reads = source.map_or(0, |source| source.reads.load(Ordering::Relaxed));
    cluster.shut_down().await;
    run
}

#[rstest]
#[case::wrong_loads(wrong_loads, true)]
#[case::inconsistent_loads(inconsistent_loads, true)]
#[case::impossible_values(impossible_values, false)]
#[case::empty(|_, _| Some(Ok(Trace::new([]))), false)]
#[case::fails(|_, _| Some(Err(PastError::failed("refused"))), false)]
#[case::hangs(|_, _| None, false)]
#[tokio::test(start_paused = true)]
async fn wrong_past_costs_at_most_pods_up_to_the_maximum(
    #[case] response: fn(PastRange, usize) -> Option<PastResult>,
    #[case] costs_pods: bool,
) {
    let expected = run(None).await;
    let run = run(Some(response)).await;
    assert!(run.reads > 0, "the past was read");
    assert_eq!(run.others, expected.others, "other autoscalers");
    let pairs = || run.web.iter().zip(&expected.web);
    assert!(run.web.iter().all(|replicas| *replicas <= MAX), "{:?}", run.web);
    assert!(pairs().all(|(with, without)| with >= without), "{:?} {:?}", run.web, expected.web);
    let has_cost = pairs().any(|(with, without)| with > without);
    assert_eq!(has_cost, costs_pods, "{:?} {:?}", run.web, expected.web);
    assert_eq!(run.web.last(), expected.web.last(), "it scales down later");
}
