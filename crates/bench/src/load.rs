//! The load of all targets, and the metrics that tell of it.

use std::{
    collections::{BTreeMap, HashMap},
    f64::consts::TAU,
    fmt::Write as _,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::body::Bytes;
use hpa_calc::selector::Selector;
use hpa_testbed::{ApiError, ExternalMetric, ExternalMetricQuery, MetricsProvider};
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::{
    args::{Change, Population},
    objects::{CPU_USE, EXTERNAL_TARGET, pod_name},
};

/// How many periods a wave takes.
const WAVE: f64 = 40.0;
/// How far it goes from the middle.
const AMPLITUDE: f64 = 0.5;
/// What of a wave is between two targets: the golden ratio spreads any number of them evenly.
const BETWEEN: f64 = 0.618_033_988_749_895;
/// How far measurements are off, one after the other. All differ, so that it does not matter which are seen; a tenth would
/// be enough to scale.
const JITTER: [f64; 7] = [-0.012, 0.004, -0.004, 0.012, 0.0, 0.008, -0.008];
/// How many measurements there are in a period. With one, two reconciles a period apart could see the same, if one is a
/// little early or late.
const MEASUREMENTS: u32 = 2;
const NANO_OF_MILLI: f64 = 1e6;

/// What pods use and what the external metric is.
pub(crate) struct Load {
    change: Change,
    period: Duration,
    /// From one measurement to the next.
    resolution: Duration,
    start: Instant,
    /// For how many pods each target has load in the middle.
    pods: u32,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By namespace and name.
    targets: BTreeMap<String, BTreeMap<String, Target>>,
    /// What was measured last, by namespace.
    measured: HashMap<String, Measured>,
}

struct Target {
    replicas: u32,
    /// One for each target: where in the wave it begins, and in the jitter.
    index: u32,
}

/// The metrics of a namespace's pods: a metrics server measures once in a while, whoever asks how often.
#[derive(Clone)]
struct Measured {
    tick: u128,
    /// By target the items of its pods, separated by commas.
    items: Arc<Vec<(String, String)>>,
}

impl Load {
    pub(crate) fn new(population: &Population) -> Self {
        Self {
            change: population.change,
            period: population.period,
            resolution: (population.period / MEASUREMENTS).max(Duration::from_nanos(1)),
            start: Instant::now(),
            pods: population.pods,
            state: Mutex::default(),
        }
    }

    /// Adds a target.
    pub(crate) fn add(&self, namespace: &str, name: &str, index: u32) {
        let target = Target { replicas: self.pods, index };
        let mut state = self.state.lock();
        state.targets.entry(namespace.to_owned()).or_default().insert(name.to_owned(), target);
        state.measured.remove(namespace);
    }

    /// How many pods a target has; none if it is not known.
    pub(crate) fn replicas(&self, namespace: &str, name: &str) -> Option<u32> {
        Some(self.state.lock().targets.get(namespace)?.get(name)?.replicas)
    }

    /// A target has that many pods from now on.
    pub(crate) fn set_replicas(&self, namespace: &str, name: &str, replicas: u32) {
        let mut state = self.state.lock();
        let target = state.targets.get_mut(namespace).and_then(|targets| targets.get_mut(name));
        if let Some(target) = target {
            target.replicas = replicas;
        }
    }

    /// How many pods' worth of load a target has.
    fn load(&self, target: &Target, elapsed: Duration) -> f64 {
        let factor = match self.change {
            Change::Steady => 1.0,
            Change::Jitter => self.jitter(target, elapsed),
            Change::Wave => {
                let phase = (f64::from(target.index) * BETWEEN).fract();
                let waves = elapsed.as_secs_f64() / (self.period.as_secs_f64() * WAVE);
                // At its height a wave hardly changes.
                (1.0 + AMPLITUDE * (TAU * (waves + phase)).sin()) * self.jitter(target, elapsed)
            }
        };
        f64::from(self.pods) * factor
    }

    fn jitter(&self, target: &Target, elapsed: Duration) -> f64 {
        let at = self.tick(elapsed).wrapping_add(u128::from(target.index)) % JITTER.len() as u128;
        let off = usize::try_from(at).ok().and_then(|at| JITTER.get(at)).copied();
        1.0 + off.unwrap_or_default()
    }

    /// How many measurements there were.
    fn tick(&self, elapsed: Duration) -> u128 {
        elapsed.as_nanos() / self.resolution.as_nanos()
    }

    /// The answer of metrics.k8s.io: the pods of a namespace (of all if it is empty) that a selector selects.
    pub(crate) fn pod_metrics(&self, version: &str, namespace: &str, selector: &Selector) -> Bytes {
        let namespaces = match namespace {
            "" => self.state.lock().targets.keys().cloned().collect(),
            one => vec![one.to_owned()],
        };
        let mut body = format!(
            r#"{{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/{version}","metadata":{{}},"items":["#
        );
        for namespace in namespaces {
            for (app, items) in self.measured(&namespace).iter() {
                let is_selected = selector.matches_by(|key| (key == "app").then_some(app.as_str()));
                if is_selected && !items.is_empty() {
                    if !body.ends_with('[') {
                        body.push(',');
                    }
                    body.push_str(items);
                }
            }
        }
        body.push_str("]}");
        body.into()
    }

    /// The items of a namespace, measured now and then.
    fn measured(&self, namespace: &str) -> Arc<Vec<(String, String)>> {
        let elapsed = self.start.elapsed();
        let tick = self.tick(elapsed);
        let mut state = self.state.lock();
        if let Some(measured) =
            state.measured.get(namespace).filter(|measured| measured.tick == tick)
        {
            return Arc::clone(&measured.items);
        }
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let targets = state.targets.get(namespace).into_iter().flatten();
        let items = targets.map(|(name, target)| {
            (name.clone(), self.items(namespace, name, target, elapsed, &now))
        });
        let items: Arc<Vec<_>> = Arc::new(items.collect());
        state.measured.insert(namespace.to_owned(), Measured { tick, items: Arc::clone(&items) });
        items
    }

    fn items(
        &self,
        namespace: &str,
        name: &str,
        target: &Target,
        elapsed: Duration,
        now: &str,
    ) -> String {
        let load = self.load(target, elapsed) * f64::from(CPU_USE) * NANO_OF_MILLI;
        let each = load / f64::from(target.replicas.max(1));
        let window = self.resolution.as_secs().max(1);
        let mut items = String::new();
        for index in 0..target.replicas {
            let comma = if index == 0 { "" } else { "," };
            let pod = pod_name(name, index);
            // A string takes whatever is written to it.
            let _ = write!(
                items,
                r#"{comma}{{"metadata":{{"name":"{pod}","namespace":"{namespace}","creationTimestamp":"{now}","labels":{{"app":"{name}"}}}},"timestamp":"{now}","window":"{window}s","containers":[{{"name":"app","usage":{{"cpu":"{each:.0}n","memory":"131072Ki"}}}}]}}"#
            );
        }
        items
    }
}

impl MetricsProvider for Load {
    fn external(&self, query: &ExternalMetricQuery) -> Result<Vec<ExternalMetric>, ApiError> {
        let elapsed = self.start.elapsed();
        let state = self.state.lock();
        let targets = state.targets.get(&query.namespace).into_iter().flatten();
        let selected = targets
            .filter(|(name, _)| query.selector.matches_by(|key| (key == "app").then_some(name)));
        let series = selected.map(|(name, target)| ExternalMetric {
            metric_name: query.metric.clone(),
            metric_labels: BTreeMap::from([("app".to_owned(), name.clone())]),
            timestamp: String::new(),
            value: format!("{:.0}", self.load(target, elapsed) * f64::from(EXTERNAL_TARGET)),
        });
        Ok(series.collect())
    }
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::expect_used,
        clippy::float_cmp,
        clippy::indexing_slicing,
        reason = "a test may stop where it was misled"
    )]

    use serde_json::Value;

    use super::*;
    use crate::args::Metric;

    fn load(change: Change) -> Load {
        let period = Duration::from_hours(1);
        let population = Population {
            autoscalers: 2,
            pods: 4,
            namespaces: 1,
            metric: Metric::Cpu,
            change,
            period,
        };
        let load = Load::new(&population);
        load.add("n", "a", 0);
        load.add("n", "b", 1);
        load
    }

    fn cpu(load: &Load, selector: &str) -> Vec<(String, String)> {
        let selector = Selector::parse(selector).expect("a selector");
        let answer: Value =
            serde_json::from_slice(&load.pod_metrics("v1", "n", &selector)).expect("JSON");
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let items = answer["items"].as_array().expect("items").iter();
        items
            .map(|item| {
                (text(&item["metadata"]["name"]), text(&item["containers"][0]["usage"]["cpu"]))
            })
            .collect()
    }

    #[test]
    fn pods_share_the_load_and_a_selector_selects() {
        let load = load(Change::Steady);
        assert_eq!(cpu(&load, "").len(), 8);
        let each = |name: &str| (name.to_owned(), "500000000n".to_owned());
        assert_eq!(cpu(&load, "app=b"), ["b-0", "b-1", "b-2", "b-3"].map(each));
        assert_eq!(cpu(&load, "app=c"), []);
    }

    #[test]
    fn metrics_are_measured_now_and_then() {
        let load = load(Change::Steady);
        assert_eq!(cpu(&load, "app=a").len(), 4);
        load.set_replicas("n", "a", 2);
        assert_eq!(cpu(&load, "app=a").len(), 4, "measured before");
        // Whoever is new is measured at once.
        load.add("n", "c", 2);
        let twice = |name: &str| (name.to_owned(), "1000000000n".to_owned());
        assert_eq!(cpu(&load, "app=a"), ["a-0", "a-1"].map(twice));
    }

    #[test]
    fn wave_comes_and_goes_and_targets_are_apart() {
        let load = load(Change::Wave);
        let at = |index: u32, periods: u64| {
            load.load(&Target { replicas: 4, index }, Duration::from_hours(periods)).round()
        };
        assert_eq!(
            [at(0, 0), at(0, 10), at(0, 20), at(0, 30), at(0, 40)],
            [4.0, 6.0, 4.0, 2.0, 4.0]
        );
        assert_eq!([at(1, 0), at(2, 0)], [3.0, 6.0]);
    }

    #[test]
    fn jitter_differs_from_the_last_measurements_and_is_too_little_to_scale() {
        let load = load(Change::Jitter);
        let half_hours = |count: u64| Duration::from_mins(30 * count + 1);
        for index in [0, 1, 1_000_000] {
            let target = Target { replicas: 4, index };
            let all: Vec<f64> = (0..50).map(|tick| load.load(&target, half_hours(tick))).collect();
            for (tick, one) in all.iter().enumerate() {
                assert!((one / 4.0 - 1.0).abs() < 0.02, "{one}");
                // A tenth of a percent of the target shows in a status: it has thousandths of a CPU.
                let before = &all[tick.saturating_sub(6)..tick];
                assert!(
                    before.iter().all(|before| (one - before).abs() > 4.0 * 0.003),
                    "{before:?} {one}"
                );
            }
        }
        let (a, b) = (Target { replicas: 4, index: 0 }, Target { replicas: 4, index: 1 });
        assert_ne!(load.load(&a, half_hours(0)), load.load(&b, half_hours(0)), "not all in step");
        // Half a period is a measurement: two reconciles a period apart never see the same.
        assert_eq!(load.load(&a, Duration::ZERO), load.load(&a, Duration::from_mins(29)));
        assert_ne!(load.load(&a, Duration::ZERO), load.load(&a, Duration::from_mins(30)));
    }
}
