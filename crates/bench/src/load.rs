//! The load on all targets, and the metrics that report it.

use std::{
    collections::{BTreeMap, HashMap},
    f64::consts::TAU,
    fmt::Write as _,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::body::Bytes;
use hpa_calc::selector::Selector;
use hpa_testbed::{
    ApiError, CustomMetric, CustomMetricQuery, ExternalMetric, ExternalMetricQuery, MetricsProvider,
};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::json;

use crate::{
    args::{Change, Population},
    objects,
    objects::{CPU_USAGE, EXTERNAL_TARGET, PODS_TARGET, pod_name},
};

/// Length of a wave in periods.
const WAVE_PERIODS: f64 = 40.0;
/// Amplitude of a wave, relative to the average load.
const AMPLITUDE: f64 = 0.5;
/// Phase between two targets, as a fraction of a wave. The golden ratio distributes any number of
/// targets evenly.
const PHASE_STEP: f64 = 0.618_033_988_749_895;
/// Relative deviations of the load in successive ticks. All differ, so that every reconcile reads a
/// new value. All are far below the tolerance of 0.1.
const JITTER: [f64; 7] = [-0.012, 0.004, -0.004, 0.012, 0.0, 0.008, -0.008];
/// The jitter and the scrapes change with each tick. With only one tick per period, a reconcile
/// that is a little early could read the same values as the previous reconcile.
const TICKS_PER_PERIOD: u32 = 2;
const NANOS_PER_MILLI: f64 = 1e6;

/// Determines the usage of pods and the values of custom and external metrics.
pub(crate) struct Load {
    change: Change,
    period: Duration,
    tick_length: Duration,
    start: Instant,
    /// The initial pods of each target, and its average load in pods.
    pub(crate) pods_per_target: u32,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By namespace and name.
    targets: BTreeMap<String, BTreeMap<String, Target>>,
    /// The last scrape, by namespace.
    scrapes: HashMap<String, Scrape>,
}

struct Target {
    replicas: u32,
    /// Unique. Determines where the target starts in the wave and in [`JITTER`].
    index: u32,
}

/// The value of a pod's metric.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PodValue {
    pub(crate) pod: String,
    pub(crate) value: f64,
}

/// The CPU and memory metrics of a namespace's pods. As with metrics-server, they change at
/// intervals, not with every request.
#[derive(Clone)]
struct Scrape {
    tick: u128,
    /// For each target, the items of its pods, separated by commas.
    items: Arc<Vec<(String, String)>>,
}

impl Load {
    pub(crate) fn new(population: &Population) -> Self {
        Self {
            change: population.change,
            period: population.period,
            tick_length: population.period / TICKS_PER_PERIOD,
            start: Instant::now(),
            pods_per_target: population.pods,
            state: Mutex::default(),
        }
    }

    /// Adds a target with its initial pods. `index` must be unique.
    pub(crate) fn add(&self, namespace: &str, name: &str, index: u32) {
        let target = Target { replicas: self.pods_per_target, index };
        let mut state = self.state.lock();
        state.targets.entry(namespace.to_owned()).or_default().insert(name.to_owned(), target);
        state.scrapes.remove(namespace);
    }

    /// Returns the number of pods of a target, or `None` if the target is unknown.
    pub(crate) fn replicas(&self, namespace: &str, name: &str) -> Option<u32> {
        Some(self.state.lock().targets.get(namespace)?.get(name)?.replicas)
    }

    /// Sets the number of pods of a target.
    pub(crate) fn set_replicas(&self, namespace: &str, name: &str, replicas: u32) {
        let mut state = self.state.lock();
        let target = state.targets.get_mut(namespace).and_then(|targets| targets.get_mut(name));
        if let Some(target) = target {
            target.replicas = replicas;
        }
    }

    /// Returns the load of a target, in pods.
    fn target_load(&self, target: &Target, elapsed: Duration) -> f64 {
        let factor = match self.change {
            Change::Steady => 1.0,
            Change::Jitter => self.jitter(target, elapsed),
            Change::Wave => {
                let phase = (f64::from(target.index) * PHASE_STEP).fract();
                let waves = elapsed.as_secs_f64() / (self.period.as_secs_f64() * WAVE_PERIODS);
                // With jitter, because a wave hardly changes at its peak.
                (1.0 + AMPLITUDE * (TAU * (waves + phase)).sin()) * self.jitter(target, elapsed)
            }
        };
        f64::from(self.pods_per_target) * factor
    }

    fn jitter(&self, target: &Target, elapsed: Duration) -> f64 {
        let tick = self.tick(elapsed).wrapping_add(u128::from(target.index));
        let index = usize::try_from(tick % JITTER.len() as u128).ok();
        let deviation = index.and_then(|index| JITTER.get(index)).copied();
        1.0 + deviation.unwrap_or_default()
    }

    /// Returns the index of the tick at `elapsed` after the start.
    fn tick(&self, elapsed: Duration) -> u128 {
        elapsed.as_nanos() / self.tick_length.as_nanos()
    }

    /// Returns the response of metrics.k8s.io for the selected pods of a namespace, or of all
    /// namespaces if `namespace` is empty.
    pub(crate) fn pod_metrics(&self, version: &str, namespace: &str, selector: &Selector) -> Bytes {
        let namespaces: Vec<String> = match namespace {
            "" => self.state.lock().targets.keys().cloned().collect(),
            one => vec![one.to_owned()],
        };
        let scrapes: Vec<_> = namespaces.iter().map(|namespace| self.scrape(namespace)).collect();
        let is_selected = |app: &str| selector.matches_by(|key| (key == "app").then_some(app));
        let targets = scrapes.iter().flat_map(|scrape| scrape.iter());
        let selected = targets.filter(|(app, items)| !items.is_empty() && is_selected(app));
        let items: Vec<&str> = selected.map(|(_, items)| items.as_str()).collect();
        let body = format!(
            concat!(
                r#"{{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/{version}","#,
                r#""metadata":{{}},"items":[{items}]}}"#
            ),
            version = version,
            items = items.join(",")
        );
        body.into()
    }

    /// Returns the values of the pods metric in a namespace: of all pods, or only of those in
    /// `names`.
    pub(crate) fn pod_values(&self, namespace: &str, names: Option<&[String]>) -> Vec<PodValue> {
        let elapsed = self.start.elapsed();
        let state = self.state.lock();
        let Some(targets) = state.targets.get(namespace) else { return Vec::new() };
        let value = |target: &Target| {
            let load = self.target_load(target, elapsed) * f64::from(PODS_TARGET);
            load / f64::from(target.replicas.max(1))
        };
        let Some(names) = names else {
            let target_values = |(name, target): (&String, &Target)| {
                let value = value(target);
                let pods = (0..target.replicas).map(|index| pod_name(name, index));
                pods.map(|pod| PodValue { pod, value }).collect::<Vec<_>>()
            };
            return targets.iter().flat_map(target_values).collect();
        };
        let pod_value = |pod: &String| {
            let (target, index) = pod.rsplit_once('-')?;
            let target = targets.get(target)?;
            let exists = index.parse::<u32>().is_ok_and(|index| index < target.replicas);
            exists.then(|| PodValue { pod: pod.clone(), value: value(target) })
        };
        names.iter().filter_map(pod_value).collect()
    }

    /// Returns the items of a namespace: those of its last scrape, or of a new one in a new tick.
    fn scrape(&self, namespace: &str) -> Arc<Vec<(String, String)>> {
        let elapsed = self.start.elapsed();
        let tick = self.tick(elapsed);
        let mut state = self.state.lock();
        if let Some(scrape) = state.scrapes.get(namespace).filter(|scrape| scrape.tick == tick) {
            return Arc::clone(&scrape.items);
        }
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let targets = state.targets.get(namespace).into_iter().flatten();
        let items = targets.map(|(name, target)| {
            (name.clone(), self.pod_items(namespace, name, target, elapsed, &now))
        });
        let items: Arc<Vec<_>> = Arc::new(items.collect());
        state.scrapes.insert(namespace.to_owned(), Scrape { tick, items: Arc::clone(&items) });
        items
    }

    fn pod_items(
        &self,
        namespace: &str,
        name: &str,
        target: &Target,
        elapsed: Duration,
        now: &str,
    ) -> String {
        let load = self.target_load(target, elapsed) * f64::from(CPU_USAGE) * NANOS_PER_MILLI;
        let nanocores = load / f64::from(target.replicas.max(1));
        let window = self.tick_length.as_secs().max(1);
        let mut items = String::new();
        for index in 0..target.replicas {
            let comma = if index == 0 { "" } else { "," };
            let pod = pod_name(name, index);
            // Writing to a string cannot fail.
            let _ = write!(
                items,
                concat!(
                    r#"{comma}{{"metadata":{{"name":"{pod}","namespace":"{namespace}","#,
                    r#""creationTimestamp":"{now}","labels":{{"app":"{name}"}}}},"#,
                    r#""timestamp":"{now}","window":"{window}s","containers":[{{"name":"app","#,
                    r#""usage":{{"cpu":"{nanocores:.0}n","memory":"131072Ki"}}}}]}}"#,
                ),
                comma = comma,
                pod = pod,
                namespace = namespace,
                now = now,
                name = name,
                window = window,
                nanocores = nanocores,
            );
        }
        items
    }
}

impl MetricsProvider for Load {
    fn custom(&self, query: &CustomMetricQuery) -> Result<Vec<CustomMetric>, ApiError> {
        if query.resource != "pods" || query.metric != objects::PODS_METRIC {
            return Ok(Vec::new());
        }
        // Matches the label `app` by the pod's name, because a testbed that only serves metrics has
        // no pods.
        let is_selected = |pod: &str| {
            let app = pod.rsplit_once('-').map(|(app, _)| app);
            query.selector.matches_by(|key| if key == "app" { app } else { None })
        };
        let values = self.pod_values(&query.namespace, None).into_iter();
        let selected = values.filter(|value| is_selected(&value.pod));
        let metrics = selected.map(|PodValue { pod, value }| CustomMetric {
            described_object: json!({
                "apiVersion": "v1", "kind": "Pod", "namespace": query.namespace, "name": pod,
            }),
            value: format!("{:.0}m", value * 1e3),
            timestamp: String::new(),
            window_seconds: None,
        });
        Ok(metrics.collect())
    }

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
            value: format!("{:.0}", self.target_load(target, elapsed) * f64::from(EXTERNAL_TARGET)),
        });
        Ok(series.collect())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::float_cmp, reason = "the loads are exact")]

    use serde_json::Value;

    use super::*;
    use crate::args::tests::population;

    fn load(change: Change) -> Load {
        let load = Load::new(&Population {
            change,
            ..population(&["--autoscalers=2", "--pods=4", "--namespaces=1", "--period=1h"])
        });
        load.add("n", "a", 0);
        load.add("n", "b", 1);
        load
    }

    fn cpu(load: &Load, selector: &str) -> Vec<(String, String)> {
        let selector = Selector::parse(selector).expect("a selector");
        let response: Value =
            serde_json::from_slice(&load.pod_metrics("v1", "n", &selector)).expect("JSON");
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let items = response["items"].as_array().expect("items").iter();
        items
            .map(|item| {
                (text(&item["metadata"]["name"]), text(&item["containers"][0]["usage"]["cpu"]))
            })
            .collect()
    }

    #[test]
    fn pods_share_the_load_and_are_selected_by_label() {
        let load = load(Change::Steady);
        assert_eq!(cpu(&load, "").len(), 8);
        let half_a_core = |name: &str| (name.to_owned(), "500000000n".to_owned());
        assert_eq!(cpu(&load, "app=b"), ["b-0", "b-1", "b-2", "b-3"].map(half_a_core));
        assert_eq!(cpu(&load, "app=c"), []);
    }

    #[test]
    fn pod_metrics_change_with_the_next_scrape_only() {
        let load = load(Change::Steady);
        assert_eq!(cpu(&load, "app=a").len(), 4);
        load.set_replicas("n", "a", 2);
        assert_eq!(cpu(&load, "app=a").len(), 4, "scraped before");
        // A new target causes a new scrape.
        load.add("n", "c", 2);
        let one_core = |name: &str| (name.to_owned(), "1000000000n".to_owned());
        assert_eq!(cpu(&load, "app=a"), ["a-0", "a-1"].map(one_core));
    }

    #[test]
    fn pod_values_leave_out_pods_that_do_not_exist() {
        let load = load(Change::Steady);
        let pods = |names: Option<&[String]>| {
            let values = load.pod_values("n", names).into_iter();
            values.map(|value| (value.pod, value.value)).collect::<Vec<_>>()
        };
        assert_eq!(pods(None).len(), 8);
        let names = ["b-3", "b-4", "c-0", "a-1", "b"].map(ToOwned::to_owned);
        let each = |name: &str| (name.to_owned(), f64::from(PODS_TARGET));
        assert_eq!(pods(Some(&names)), ["b-3", "a-1"].map(each));
        assert!(load.pod_values("m", None).is_empty());
    }

    #[test]
    fn wave_has_forty_periods_and_a_phase_for_each_target() {
        let load = load(Change::Wave);
        let at = |index: u32, periods: u64| {
            load.target_load(&Target { replicas: 4, index }, Duration::from_hours(periods)).round()
        };
        assert_eq!(
            [at(0, 0), at(0, 10), at(0, 20), at(0, 30), at(0, 40)],
            [4.0, 6.0, 4.0, 2.0, 4.0]
        );
        assert_eq!([at(1, 0), at(2, 0)], [3.0, 6.0]);
    }

    #[test]
    fn jitter_shows_in_the_status_and_stays_within_tolerance() {
        let load = load(Change::Jitter);
        let half_hours = |count: u64| Duration::from_mins(30 * count + 1);
        for index in [0, 1, 1_000_000] {
            let target = Target { replicas: 4, index };
            let all: Vec<f64> =
                (0..50).map(|tick| load.target_load(&target, half_hours(tick))).collect();
            for (tick, one) in all.iter().enumerate() {
                assert!((one / 4.0 - 1.0).abs() < 0.02, "{one}");
                // 0.3 % of the average usage, 500m, is 1.5m, so the status changes: it has whole
                // millicores.
                let before = &all[tick.saturating_sub(6)..tick];
                assert!(
                    before.iter().all(|before| (one - before).abs() > 4.0 * 0.003),
                    "{before:?} {one}"
                );
            }
        }
        let (a, b) = (Target { replicas: 4, index: 0 }, Target { replicas: 4, index: 1 });
        assert_ne!(
            load.target_load(&a, half_hours(0)),
            load.target_load(&b, half_hours(0)),
            "targets differ"
        );
        // The period is an hour, so the value changes after 30 minutes.
        assert_eq!(
            load.target_load(&a, Duration::ZERO),
            load.target_load(&a, Duration::from_mins(29))
        );
        assert_ne!(
            load.target_load(&a, Duration::ZERO),
            load.target_load(&a, Duration::from_mins(30))
        );
    }
}
