//! What the metrics sources see, and what can be read of it.

use std::collections::BTreeMap;

use super::{MetricsSettings, Model, Pod, Scenario, Series, Workload, WorkloadId};
use crate::workload::{
    load::Load,
    number, random,
    scenario::{MetricValue, ObjectRef},
    series::{Sample, SourceSettings},
};

/// A metrics server tells nothing of a container it has not seen for this long, in seconds.
const SHORTEST_WINDOW: f64 = 10.0;

/// By container its CPU in cores and its memory in bytes.
pub(crate) type UsageSample = Vec<(String, f64, f64)>;

/// What a metric measures.
#[derive(Clone, Debug)]
enum Measured {
    Load(WorkloadId),
    Served(WorkloadId),
    Backlog(String),
    Curve(Load),
}

/// A metric that is no pod's.
#[derive(Clone, Debug)]
pub(crate) struct Metric {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    measured: Measured,
    /// What was counted up to the last look, and when that was.
    counted: Option<(f64, f64)>,
    pub(crate) series: Series<f64>,
}

/// A custom metric of an object.
#[derive(Clone, Debug)]
pub(crate) struct ObjectMetric {
    pub(crate) object: ObjectRef,
    pub(crate) metric: Metric,
}

/// An external metric.
pub(crate) type External = Metric;

pub(super) fn objects(scenario: &Scenario) -> Vec<ObjectMetric> {
    let object = |spec: &crate::workload::scenario::ObjectMetricSpec| {
        let metric = Metric::new(&spec.metric, &spec.labels, &spec.value, scenario)?;
        Some(ObjectMetric { object: spec.object.clone(), metric })
    };
    scenario.object_metrics.iter().filter_map(object).collect()
}

pub(super) fn externals(scenario: &Scenario) -> Vec<External> {
    let specs = scenario.external_metrics.iter();
    specs
        .filter_map(|spec| Metric::new(&spec.metric, &spec.labels, &spec.value, scenario))
        .collect()
}

impl Metric {
    fn new(
        name: &str,
        labels: &BTreeMap<String, String>,
        value: &MetricValue,
        scenario: &Scenario,
    ) -> Option<Self> {
        let id = |reference: &str| scenario.workload(reference).map(WorkloadId::of);
        let measured = match value {
            MetricValue::Load(workload) => Measured::Load(id(workload)?),
            MetricValue::Served(workload) => Measured::Served(id(workload)?),
            MetricValue::Backlog(queue) => Measured::Backlog(queue.clone()),
            MetricValue::Curve(load) => Measured::Curve(load.clone()),
        };
        let (name, labels) = (name.to_owned(), labels.clone());
        Some(Self { name, labels, measured, counted: None, series: Series::default() })
    }

    /// Looks at what it measures: of a rate the average since the last look.
    fn look(
        &mut self,
        look: &Look<'_>,
        workloads: &BTreeMap<WorkloadId, Workload>,
        backlogs: &BTreeMap<String, f64>,
    ) {
        let meter =
            |id: &WorkloadId| workloads.get(id).map(|workload| workload.meter).unwrap_or_default();
        let value = match &self.measured {
            Measured::Load(id) => self.rate(look, meter(id).offered),
            Measured::Served(id) => self.rate(look, meter(id).served),
            Measured::Backlog(queue) => backlogs.get(queue).copied(),
            Measured::Curve(load) => Some(load.at(look.at.max(0.0))),
        };
        let labels = self.labels.iter().flat_map(|(key, value)| [key.as_str(), value.as_str()]);
        let thing =
            random::hash(&[self.name.as_str()].into_iter().chain(labels).collect::<Vec<_>>());
        if let Some(value) = value {
            look.push(&mut self.series, thing, value);
        }
    }

    fn rate(&mut self, look: &Look<'_>, counted: f64) -> Option<f64> {
        let (before, since) = self.counted.replace((counted, look.at))?;
        Some((counted - before) / (look.at - since))
    }
}

/// A look of one source.
struct Look<'a> {
    seed: u64,
    at: f64,
    /// Which look it is, counted from the start.
    number: u64,
    settings: &'a SourceSettings,
}

impl<'a> Look<'a> {
    /// The look that is due if it is now and was `before` at the last step.
    fn due(seed: u64, settings: &'a SourceSettings, before: f64, now: f64) -> Option<Self> {
        let look = |time: f64| number::round((time / settings.resolution.get()).floor());
        let number = look(now);
        (number != look(before)).then_some(Self {
            seed,
            at: now,
            number: number.cast_unsigned(),
            settings,
        })
    }

    fn measured(&self, value: f64, thing: u64) -> f64 {
        self.settings.measured(value, self.seed, thing, self.number)
    }

    fn misses(&self, thing: u64) -> bool {
        self.settings.misses(self.seed, thing, self.number)
    }

    fn push(&self, series: &mut Series<f64>, thing: u64, value: f64) {
        if !self.misses(thing) {
            let window = self.settings.resolution.get();
            series.push(
                Sample { at: self.at, window, value: self.measured(value, thing) },
                self.settings,
            );
        }
    }
}

impl Model {
    /// Lets the sources look whose time has come since `before`.
    pub(super) fn look(&mut self, before: f64) {
        let (seed, now) = (self.seed, self.now);
        let MetricsSettings { resource, pods, object, external } = &self.settings;
        let all = self.workloads.values_mut().flat_map(|workload| workload.pods.values_mut());
        let (usage, rates) =
            (Look::due(seed, resource, before, now), Look::due(seed, pods, before, now));
        if usage.is_some() || rates.is_some() {
            for pod in all {
                if let Some(look) = &usage {
                    pod.look_at_usage(look);
                }
                if let Some(look) = &rates {
                    pod.look_at_rate(look);
                }
            }
        }
        let backlogs: BTreeMap<String, f64> = self
            .queues
            .iter()
            .map(|queue| (queue.spec.name.clone(), queue.backlog.waiting))
            .collect();
        if let Some(look) = Look::due(seed, object, before, now) {
            for one in &mut self.objects {
                one.metric.look(&look, &self.workloads, &backlogs);
            }
        }
        if let Some(look) = Look::due(seed, external, before, now) {
            for one in &mut self.externals {
                one.look(&look, &self.workloads, &backlogs);
            }
            for queue in &mut self.queues {
                let thing = random::hash(&["queue", &queue.spec.name]);
                look.push(&mut queue.series, thing, queue.backlog.waiting);
            }
        }
    }
}

impl Pod {
    /// Looks at CPU and memory as a metrics server does: CPU as the average since the last look or since the containers
    /// run, and nothing of those that run too short.
    fn look_at_usage(&mut self, look: &Look<'_>) {
        let window = look.at - self.usage_since;
        if !self.lifecycle.is_running()
            || window < SHORTEST_WINDOW.min(look.settings.resolution.get())
        {
            return;
        }
        self.usage_since = look.at;
        let is_seen = look.at >= self.silent_until && !look.misses(self.thing);
        let mut sample = UsageSample::with_capacity(self.containers.len());
        for (index, container) in (0_u64..).zip(&mut self.containers) {
            let cpu = (container.cpu_seconds - container.seen_cpu_seconds) / window;
            container.seen_cpu_seconds = container.cpu_seconds;
            let thing = self.thing ^ (index << 1);
            let (cpu, memory) =
                (look.measured(cpu, thing), look.measured(container.memory, thing ^ 1));
            sample.push((container.name.clone(), cpu, memory));
        }
        if is_seen {
            self.usage.push(Sample { at: look.at, window, value: sample }, look.settings);
        }
    }

    /// Looks at what it served a second since the last look.
    fn look_at_rate(&mut self, look: &Look<'_>) {
        let window = look.at - self.rate_since;
        if !self.lifecycle.is_running() || window <= 0.0 {
            return;
        }
        let rate = (self.served - self.seen_served) / window;
        self.rate_since = look.at;
        self.seen_served = self.served;
        if look.at >= self.silent_until && !look.misses(self.thing) {
            let value = look.measured(rate, self.thing);
            self.rate.push(Sample { at: look.at, window, value }, look.settings);
        }
    }
}
