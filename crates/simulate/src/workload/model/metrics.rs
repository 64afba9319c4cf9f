//! The metric sources: their scrapes, samples and outages.

use std::collections::BTreeMap;

use super::{
    pod::{Pod, UsageSample},
    workload::{Queue, Workload, WorkloadId},
};
use crate::workload::{
    number, random,
    scenario::{MetricsSettings, ObjectRef, OutageScope, Scenario, ValueSource},
    series::{Sample, Series, SourceSettings},
};

/// The shortest time over which metrics-server averages a container's CPU usage, in seconds.
const SHORTEST_WINDOW: f64 = 10.0;

/// A metric that doesn't belong to a pod.
#[derive(Clone, Debug)]
pub struct Metric {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    value_source: ValueSource,
    /// The workload that `value_source` refers to.
    workload: Option<WorkloadId>,
    /// Selects the random numbers of the scrapes.
    random_key: u64,
    /// Value and time of the counter at the last scrape, to compute rates.
    last_counter: Option<(f64, f64)>,
    pub series: Series<f64>,
}

/// A custom metric of an object.
#[derive(Clone, Debug)]
pub struct ObjectMetric {
    pub object: ObjectRef,
    pub metric: Metric,
}

/// The settings of all metric sources, and the metrics that don't belong to pods.
#[derive(Debug)]
pub struct MetricSources {
    pub settings: MetricsSettings,
    pub objects: Vec<ObjectMetric>,
    pub externals: Vec<Metric>,
    /// All outages so far: source and end time. `None` stands for all sources.
    outages: Vec<(Option<OutageScope>, f64)>,
}

impl MetricSources {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let objects = scenario.object_metrics.iter().filter_map(|spec| {
            let ObjectRef { kind, namespace, name, .. } = &spec.object;
            let owner = [kind, namespace, name].map(String::as_str);
            let metric = Metric::new(&owner, &spec.metric, &spec.labels, &spec.value, scenario)?;
            Some(ObjectMetric { object: spec.object.clone(), metric })
        });
        let externals = scenario
            .external_metrics
            .iter()
            .filter_map(|spec| Metric::new(&[], &spec.metric, &spec.labels, &spec.value, scenario));
        Self {
            settings: scenario.metrics.clone(),
            objects: objects.collect(),
            externals: externals.collect(),
            outages: Vec::new(),
        }
    }

    /// Makes a source unavailable. `None` selects all sources.
    pub fn begin_outage(&mut self, source: Option<OutageScope>, until: f64) {
        self.outages.push((source, until));
    }

    pub fn is_down(&self, source: OutageScope, now: f64) -> bool {
        let affects = |affected: Option<OutageScope>| affected.is_none_or(|one| one == source);
        self.outages.iter().any(|(affected, until)| affects(*affected) && now < *until)
    }

    /// The time after which every source has scraped at least twice and its samples are readable.
    pub(super) fn warm_up_seconds(&self) -> f64 {
        let MetricsSettings { resource, pods, object, external } = &self.settings;
        let seconds = [resource, pods, object, external]
            .map(|source| 2.0 * source.resolution.get() + source.delay.get());
        seconds.into_iter().fold(0.0, f64::max).ceil()
    }

    /// Scrapes every source for which a scrape became due after `previous`, up to `now`.
    pub(super) fn scrape(
        &mut self,
        workloads: &mut BTreeMap<WorkloadId, Workload>,
        queues: &mut [Queue],
        seed: u64,
        previous: f64,
        now: f64,
    ) {
        let MetricsSettings { resource, pods, object, external } = &self.settings;
        let due = |settings| Scrape::if_due(seed, settings, previous, now);
        let (usage, rates) = (due(resource), due(pods));
        if usage.is_some() || rates.is_some() {
            for pod in workloads.values_mut().flat_map(|workload| workload.pods.values_mut()) {
                if let Some(scrape) = &usage {
                    scrape_usage(pod, scrape);
                }
                if let Some(scrape) = &rates {
                    scrape_rate(pod, scrape);
                }
            }
        }
        let backlogs: BTreeMap<String, f64> =
            queues.iter().map(|queue| (queue.spec.name.clone(), queue.backlog.waiting)).collect();
        if let Some(scrape) = due(object) {
            for one in &mut self.objects {
                one.metric.scrape(&scrape, workloads, &backlogs);
            }
        }
        if let Some(scrape) = due(external) {
            for metric in &mut self.externals {
                metric.scrape(&scrape, workloads, &backlogs);
            }
            for queue in queues {
                let key = random::hash(&["queue", &queue.spec.name]);
                scrape.record(&mut queue.series, key, queue.backlog.waiting);
            }
        }
    }
}

impl Metric {
    /// `owner` has the kind, namespace and name of the metric's object. It is empty for external
    /// metrics.
    fn new(
        owner: &[&str],
        name: &str,
        labels: &BTreeMap<String, String>,
        value_source: &ValueSource,
        scenario: &Scenario,
    ) -> Option<Self> {
        let workload = match value_source {
            ValueSource::Load(workload)
            | ValueSource::LoadPerPod(workload)
            | ValueSource::Served(workload) => {
                Some(WorkloadId::for_spec(scenario.workload(workload)?))
            }
            ValueSource::Backlog(_) | ValueSource::Curve(_) => None,
        };
        let label_parts = labels.iter().flat_map(|(key, value)| [key.as_str(), value.as_str()]);
        let subject: Vec<_> = owner.iter().copied().chain([name]).chain(label_parts).collect();
        Some(Self {
            name: name.to_owned(),
            random_key: random::hash(&subject),
            labels: labels.clone(),
            value_source: value_source.clone(),
            workload,
            last_counter: None,
            series: Series::default(),
        })
    }

    /// Records a sample of the current value. A rate is the average since the last scrape.
    fn scrape(
        &mut self,
        scrape: &Scrape<'_>,
        workloads: &BTreeMap<WorkloadId, Workload>,
        backlogs: &BTreeMap<String, f64>,
    ) {
        let workload = self.workload.as_ref().and_then(|id| workloads.get(id));
        let counters = workload.map(|workload| workload.counters).unwrap_or_default();
        let value = match &self.value_source {
            ValueSource::Load(_) => self.rate(scrape, counters.offered),
            ValueSource::LoadPerPod(_) => {
                let ready = workload.map_or(0, |workload| workload.ready_pods().count());
                let load = self.rate(scrape, counters.offered);
                load.map(|load| load / ready.max(1) as f64)
            }
            ValueSource::Served(_) => self.rate(scrape, counters.served),
            ValueSource::Backlog(queue) => backlogs.get(queue).copied(),
            ValueSource::Curve(load) => Some(load.at(scrape.at.max(0.0))),
        };
        if let Some(value) = value {
            scrape.record(&mut self.series, self.random_key, value);
        }
    }

    fn rate(&mut self, scrape: &Scrape<'_>, counter: f64) -> Option<f64> {
        let (last, since) = self.last_counter.replace((counter, scrape.at))?;
        Some((counter - last) / (scrape.at - since))
    }
}

/// One scrape of a metric source.
struct Scrape<'a> {
    seed: u64,
    at: f64,
    /// Index of the scrape, counted from second 0.
    index: u64,
    settings: &'a SourceSettings,
}

impl<'a> Scrape<'a> {
    /// The scrape at `now`, if one became due since `previous`.
    fn if_due(seed: u64, settings: &'a SourceSettings, previous: f64, now: f64) -> Option<Self> {
        let index = |time: f64| number::round((time / settings.resolution.get()).floor());
        let current = index(now);
        let scrape = Self { seed, at: now, index: current.cast_unsigned(), settings };
        (current != index(previous)).then_some(scrape)
    }

    /// Whether the scrape misses the pod or object `key`.
    fn is_missed(&self, key: u64) -> bool {
        let gaps = self.settings.gaps;
        gaps > 0.0 && random::rng(self.seed ^ random::MISSED_SCRAPES, key, self.index).f64() < gaps
    }

    /// Adds a random measurement error to a value.
    fn with_noise(&self, value: f64, key: u64) -> f64 {
        if self.settings.noise <= 0.0 {
            return value;
        }
        let mut rng = random::rng(self.seed ^ random::NOISE, key, self.index);
        let error = random::deviation(&mut rng) * self.settings.noise;
        (value * (1.0 + error)).max(0.0)
    }

    fn record(&self, series: &mut Series<f64>, key: u64, value: f64) {
        if !self.is_missed(key) {
            let window = self.settings.resolution.get();
            let value = self.with_noise(value, key);
            series.push(Sample { at: self.at, window, value }, self.settings);
        }
    }
}

/// Records CPU and memory as metrics-server does: CPU is the average since the last scrape or the
/// start of the containers, and containers that started too recently have no sample.
fn scrape_usage(pod: &mut Pod, scrape: &Scrape<'_>) {
    let window = scrape.at - pod.usage_scraped_at;
    let shortest = SHORTEST_WINDOW.min(scrape.settings.resolution.get());
    if !pod.lifecycle.is_running() || window < shortest {
        return;
    }
    pod.usage_scraped_at = scrape.at;
    let is_recorded = scrape.at >= pod.no_metrics_until && !scrape.is_missed(pod.random_key);
    let mut sample = UsageSample::with_capacity(pod.containers.len());
    for (index, container) in (0_u64..).zip(&mut pod.containers) {
        let cpu = (container.cpu_seconds - container.scraped_cpu_seconds) / window;
        container.scraped_cpu_seconds = container.cpu_seconds;
        let key = pod.random_key ^ (index << 1);
        let cpu = scrape.with_noise(cpu, key);
        let memory = scrape.with_noise(container.memory, key ^ 1);
        sample.push((container.name.clone(), cpu, memory));
    }
    if is_recorded {
        pod.usage.push(Sample { at: scrape.at, window, value: sample }, scrape.settings);
    }
}

/// Records the load that the pod served per second since the last scrape.
fn scrape_rate(pod: &mut Pod, scrape: &Scrape<'_>) {
    let window = scrape.at - pod.rate_scraped_at;
    if !pod.lifecycle.is_running() || window <= 0.0 {
        return;
    }
    let rate = (pod.served - pod.scraped_served) / window;
    pod.rate_scraped_at = scrape.at;
    pod.scraped_served = pod.served;
    // Inverted, because the keys of the usage differ from `random_key` in a few bits only: the gaps
    // and errors of both must be independent.
    let key = !pod.random_key;
    if scrape.at >= pod.no_metrics_until && !scrape.is_missed(key) {
        let value = scrape.with_noise(rate, key);
        pod.rate.push(Sample { at: scrape.at, window, value }, scrape.settings);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scrape(settings: &SourceSettings, seed: u64, index: u64) -> Scrape<'_> {
        Scrape { seed, at: 0.0, index, settings }
    }

    #[test]
    fn noise_is_deterministic_and_bounded() {
        let settings = SourceSettings { noise: 0.1, ..SourceSettings::default() };
        let measure = |seed, index| scrape(&settings, seed, index).with_noise(100.0, 42);
        let values: Vec<f64> = (0..2000).map(|index| measure(1, index)).collect();
        assert_eq!(values, (0..2000).map(|index| measure(1, index)).collect::<Vec<_>>());
        assert_ne!(values, (0..2000).map(|index| measure(2, index)).collect::<Vec<_>>());
        assert!(values.iter().all(|value| (70.0..=130.0).contains(value)));
        let mean = values.iter().sum::<f64>() / 2000.0;
        let deviation =
            (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 2000.0).sqrt();
        assert!(
            (mean - 100.0).abs() < 1.0 && (deviation - 10.0).abs() < 1.0,
            "{mean} ± {deviation}"
        );
    }

    #[test]
    fn scrapes_are_missed_at_the_configured_rate() {
        let settings = SourceSettings { gaps: 0.2, ..SourceSettings::default() };
        let missed = (0..5000).filter(|index| scrape(&settings, 1, *index).is_missed(42)).count();
        assert!((900..1100).contains(&missed), "{missed}");
    }
}
