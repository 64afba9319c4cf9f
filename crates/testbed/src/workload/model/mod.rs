//! The state of the simulated cluster and how it goes on: no I/O, and no clock but the seconds it is given.

mod load;
mod metrics;
mod observe;
mod pod;

use std::{collections::BTreeMap, sync::Arc};

pub use self::observe::{Observation, QueueObservation, WorkloadObservation};
pub(crate) use self::{
    metrics::{External, ObjectMetric, UsageSample},
    pod::{Container, Pod},
};
use super::{
    backlog::Backlog,
    lifecycle::{Lifecycle, State, Times},
    load::Load,
    number,
    profile::{PodProfile, UseOfLoad},
    random,
    scenario::{MetricsSettings, MetricsSource, PodMetricSpec, QueueSpec, Scenario, WorkloadSpec},
    series::Series,
};

/// How long the pods that a warm simulation starts with have been there, in seconds.
pub(crate) const WARM_AGE: f64 = 600.0;
const HOUR: f64 = 3600.0;

/// A workload: what keeps pods and is not kept by anything else.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkloadId {
    /// Its namespace.
    pub namespace: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
}

impl WorkloadId {
    /// The workload of these names.
    pub fn new(
        namespace: impl Into<String>,
        kind: impl Into<String>,
        name: impl Into<String>,
    ) -> Self {
        Self { namespace: namespace.into(), kind: kind.into(), name: name.into() }
    }

    pub(crate) fn of(spec: &WorkloadSpec) -> Self {
        Self::new(&spec.namespace, &spec.kind, &spec.name)
    }
}

/// What a workload did from the start on, in units of load and in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Totals {
    pub(crate) offered: f64,
    pub(crate) served: f64,
    pub(crate) pod_seconds: f64,
    pub(crate) short_seconds: f64,
}

/// A workload's load and pods.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) profile: Arc<PodProfile>,
    /// What the profile says of load.
    pub(crate) costs: UseOfLoad,
    pub(crate) load: Load,
    pub(crate) pod_metrics: Vec<PodMetricSpec>,
    /// By name.
    pub(crate) pods: BTreeMap<String, Pod>,
    /// How many replicas its object asks for.
    pub(crate) desired: u32,
    /// The load now, in units a second.
    pub(crate) offered: f64,
    /// What of it is served, and what is drained from queues.
    pub(crate) served: f64,
    pub(crate) drained: f64,
    /// What arrives in the queues it drains.
    pub(crate) arriving: f64,
    /// Since ever; a rate is their difference.
    pub(crate) meter: Totals,
    /// Since the start.
    pub(crate) totals: Totals,
    /// Whether the scenario names it: it then stays when its object is gone.
    in_scenario: bool,
}

/// A queue.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) spec: QueueSpec,
    pub(crate) workload: WorkloadId,
    pub(crate) backlog: Backlog,
    pub(crate) series: Series<f64>,
}

/// The cluster.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) seed: u64,
    pub(crate) settings: MetricsSettings,
    /// Simulated seconds since the start.
    pub(crate) now: f64,
    pub(crate) workloads: BTreeMap<WorkloadId, Workload>,
    /// Whose a pod is, by its namespace and name.
    index: BTreeMap<(String, String), WorkloadId>,
    pub(crate) queues: Vec<Queue>,
    pub(crate) objects: Vec<ObjectMetric>,
    pub(crate) externals: Vec<External>,
    /// Which metrics are down until when.
    outages: Vec<(MetricsSource, f64)>,
    default_profile: Arc<PodProfile>,
    max_pods: Option<u32>,
    created: u64,
}

impl Model {
    /// The cluster of a scenario before its objects are there.
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let default_profile = Arc::new(scenario.default_profile.clone());
        let workload = |spec: &WorkloadSpec| {
            let profile = spec
                .profile
                .as_ref()
                .map_or_else(|| default_profile.clone(), |one| Arc::new(one.clone()));
            (
                WorkloadId::of(spec),
                Workload::new(profile, spec.load.clone(), spec.pod_metrics.clone(), true),
            )
        };
        let workloads = scenario.workloads.iter().map(workload).collect();
        let queue = |spec: &QueueSpec| {
            let workload = WorkloadId::of(scenario.workload(&spec.workload)?);
            let backlog = Backlog { waiting: spec.backlog, ..Backlog::default() };
            Some(Queue { spec: spec.clone(), workload, backlog, series: Series::default() })
        };
        Self {
            seed: scenario.seed,
            settings: scenario.metrics.clone(),
            now: 0.0,
            workloads,
            index: BTreeMap::new(),
            queues: scenario.queues.iter().filter_map(queue).collect(),
            objects: metrics::objects(scenario),
            externals: metrics::externals(scenario),
            outages: Vec::new(),
            default_profile,
            max_pods: scenario.max_pods,
            created: 0,
        }
    }

    /// Goes on to a moment: pods, load, and looks of the metrics sources.
    pub(crate) fn step(&mut self, now: f64) {
        let span = now - self.now;
        if span <= 0.0 {
            return;
        }
        let before = std::mem::replace(&mut self.now, now);
        self.advance_pods(span);
        self.share_load(span);
        self.look(before);
    }

    /// Lets chance strike, and pods go on.
    fn advance_pods(&mut self, span: f64) {
        let (now, seed) = (self.now, self.seed);
        let mut free = self.max_pods.map_or(u32::MAX, |most| most.saturating_sub(self.placed()));
        for workload in self.workloads.values_mut() {
            let profile = Arc::clone(&workload.profile);
            for pod in workload.pods.values_mut() {
                pod.meet_chance(&profile, seed, now, span);
                let was_placed = pod.is_placed();
                let changed = pod.lifecycle.advance(now, free > 0);
                pod.changed |= changed;
                if pod.is_placed() && !was_placed {
                    free = free.saturating_sub(1);
                }
            }
        }
    }

    /// How many pods have a node.
    fn placed(&self) -> u32 {
        number::count(self.pods().filter(|pod| pod.is_placed()).count())
    }

    /// All pods, by workload and name.
    pub(crate) fn pods(&self) -> impl Iterator<Item = &Pod> {
        self.workloads.values().flat_map(|workload| workload.pods.values())
    }

    /// All pods, to change.
    pub(crate) fn pods_mut(&mut self) -> impl Iterator<Item = &mut Pod> {
        self.workloads.values_mut().flat_map(|workload| workload.pods.values_mut())
    }

    /// A pod, by namespace and name.
    pub(crate) fn pod(&self, id: &(String, String)) -> Option<(&Workload, &Pod)> {
        let workload = self.workloads.get(self.index.get(id)?)?;
        Some((workload, workload.pods.get(&id.1)?))
    }

    /// A workload, which begins if it is not there.
    pub(crate) fn workload(&mut self, id: &WorkloadId) -> &mut Workload {
        let profile = &self.default_profile;
        self.workloads
            .entry(id.clone())
            .or_insert_with(|| Workload::new(profile.clone(), Load::default(), Vec::new(), false))
    }

    /// A new name for something of `owner`'s: its name, and five characters.
    pub(crate) fn name(&mut self, owner: &str) -> String {
        self.created += 1;
        let mut rng = random::numbers(self.seed, random::hash(&[owner]), self.created);
        format!("{owner}-{}", random::letters(&mut rng, 5))
    }

    /// Takes up a new pod.
    pub(crate) fn add_pod(&mut self, id: &WorkloadId, mut pod: Pod) {
        let (seed, now) = (self.seed, self.now);
        let workload = self.workload(id);
        let mut rng = random::numbers(seed, pod.thing, 0);
        pod.weight = 1.0 + workload.profile.imbalance * (2.0 * rng.f64() - 1.0);
        pod.lifecycle = Lifecycle::new(now, times(&workload.profile, &mut rng));
        let key = (pod.namespace.clone(), pod.name.clone());
        workload.pods.insert(pod.name.clone(), pod);
        self.index.insert(key, id.clone());
    }

    /// Forgets the pods for which `keep` does not hold.
    pub(crate) fn retain_pods(&mut self, keep: impl Fn(&Pod) -> bool) {
        let index = &mut self.index;
        for workload in self.workloads.values_mut() {
            workload.pods.retain(|_, pod| {
                let kept = keep(pod);
                if !kept {
                    index.remove(&(pod.namespace.clone(), pod.name.clone()));
                }
                kept
            });
        }
    }

    /// Forgets the workloads without an object, without pods, and without a place in the scenario.
    pub(crate) fn retain_workloads(&mut self, exists: impl Fn(&WorkloadId) -> bool) {
        self.workloads.retain(|id, one| {
            let there = exists(id);
            one.desired = if there { one.desired } else { 0 };
            there || one.in_scenario || !one.pods.is_empty()
        });
    }

    /// Lets a metrics API, or all of them, fail until then.
    pub(crate) fn begin_outage(&mut self, source: Option<MetricsSource>, until: f64) {
        let all = [
            MetricsSource::Resource,
            MetricsSource::Pods,
            MetricsSource::Object,
            MetricsSource::External,
        ];
        let affected = all.into_iter().filter(|one| source.is_none_or(|source| source == *one));
        self.outages.extend(affected.map(|one| (one, until)));
    }

    pub(crate) fn is_down(&self, source: MetricsSource, now: f64) -> bool {
        self.outages.iter().any(|(one, until)| *one == source && now < *until)
    }

    /// Makes all pods as if they had been ready for long, and measures them for a while.
    pub(crate) fn warm_up(&mut self) {
        for pod in self.pods_mut() {
            pod.lifecycle.age(WARM_AGE);
            pod.changed = true;
        }
        let settings = [
            &self.settings.resource,
            &self.settings.pods,
            &self.settings.object,
            &self.settings.external,
        ];
        let longest = settings.map(|one| 2.0 * one.resolution.get() + one.delay.get());
        let mut second = -longest.into_iter().fold(0.0, f64::max).ceil();
        self.now = second;
        while second < 0.0 {
            second += 1.0;
            self.step(second);
        }
    }
}

impl Workload {
    fn new(
        profile: Arc<PodProfile>,
        load: Load,
        pod_metrics: Vec<PodMetricSpec>,
        in_scenario: bool,
    ) -> Self {
        Self {
            costs: profile.use_of_load(),
            profile,
            load,
            pod_metrics,
            pods: BTreeMap::new(),
            desired: 0,
            offered: 0.0,
            served: 0.0,
            drained: 0.0,
            arriving: 0.0,
            meter: Totals::default(),
            totals: Totals::default(),
            in_scenario,
        }
    }
}

/// How long the steps of one pod take.
fn times(profile: &PodProfile, rng: &mut fastrand::Rng) -> Times {
    let mut jittered = |time: super::seconds::Seconds| {
        time.get() * (1.0 + profile.jitter * (2.0 * rng.f64() - 1.0))
    };
    Times {
        scheduling: jittered(profile.scheduling),
        starting: jittered(profile.starting),
        readiness: jittered(profile.readiness),
        termination: jittered(profile.termination),
    }
}
