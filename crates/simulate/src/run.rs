//! A run: the cluster advances second by second, the controller reconciles at its times.

use crate::workload::seconds::timestamp_at;
use hpa_calc::{
    Explanation, History, HorizontalPodAutoscaler, Plan, Readings, Scale, SelectedPods, Settings,
    explain::Reason, pause::Pause,
};
use jiff::Timestamp;
use serde::Serialize;

use crate::{
    cluster::Cluster, file::Variant, measure::Measure, outcome::Outcome, readings::MetricsApis,
};

/// The annotation that pauses an autoscaler.
const PAUSE: &str = "autoscaling.hpa-rs.dev/pause";
const SECONDS_PER_HOUR: f64 = 3600.0;
/// When every run starts: a Monday.
const START: Timestamp = Timestamp::constant(1_767_571_200, 0);

/// A run and its result.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    pub outcome: Outcome,
    pub steps: Vec<Step>,
    pub problems: Vec<Problem>,
    /// One per reconcile. Empty if it was not asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub timeline: Vec<Point>,
}

/// A scaling.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// Seconds since the start.
    pub second: f64,
    pub from: u32,
    pub to: u32,
    pub reason: Reason,
    /// The decision in one sentence.
    pub sentence: String,
}

/// A time in which the autoscaler could not decide, or was disabled.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// Seconds since the start.
    pub from: f64,
    pub to: f64,
    pub sentence: String,
}

/// The cluster and the decision at one reconcile. Rates are in units per second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Point {
    /// Seconds since the start.
    pub second: f64,
    /// Load and arrivals in queues.
    pub load: f64,
    /// The part of the load that is served, and the work that is drained from queues.
    pub served: f64,
    /// What the ready pods can serve.
    pub capacity: f64,
    pub backlog: f64,
    pub ready: u32,
    pub pods: u32,
    /// `spec.replicas` after the reconcile.
    pub replicas: u32,
    /// What the metrics ask for, before stabilization, policies and bounds.
    pub recommended: Option<u32>,
}

struct Simulator<'a> {
    variant: &'a Variant,
    settings: Settings,
    cluster: Cluster,
    hpa: HorizontalPodAutoscaler,
    pause: Pause,
    history: History,
    measure: Measure,
    run: Run,
    options: RunOptions<'a>,
}

/// What a run does beside simulating.
#[derive(Clone, Copy, Default)]
pub struct RunOptions<'a> {
    /// Whether to record every reconcile.
    pub records_timeline: bool,
    /// Called after each simulated hour.
    pub on_hour: Option<&'a (dyn Fn() + Sync)>,
}

impl Variant {
    /// Runs the variant to its end.
    pub fn run(&self) -> Run {
        self.run_with(RunOptions::default())
    }

    /// Runs the variant to its end.
    pub fn run_with(&self, options: RunOptions<'_>) -> Run {
        Simulator::new(self, options).run()
    }
}

impl<'a> Simulator<'a> {
    fn new(variant: &'a Variant, options: RunOptions<'a>) -> Self {
        let cluster = Cluster::new(&variant.cluster, &variant.workload, START);
        let measure =
            Measure::new(variant.objective.clone(), variant.cost.clone(), &cluster.observe());
        let hpa = variant.autoscaler.clone();
        let pause = hpa.metadata.annotations.get(PAUSE);
        let pause = pause.and_then(|pause| pause.parse().ok()).unwrap_or_default();
        Self {
            variant,
            settings: variant.controller.engine(),
            cluster,
            hpa,
            pause,
            history: History::default(),
            measure,
            run: Run {
                outcome: Outcome::default(),
                steps: Vec::new(),
                problems: Vec::new(),
                timeline: Vec::new(),
            },
            options,
        }
    }

    fn run(mut self) -> Run {
        let controller = &self.variant.controller;
        let (period, end) = (controller.sync_period.get(), self.variant.cluster.duration.get());
        let mut reconcile_at = controller.first_reconcile(self.variant.cluster.seed);
        let pod_capacity = self.variant.pod_capacity();
        let mut second = 1.0;
        while second <= end {
            while reconcile_at < second {
                self.reconcile(reconcile_at);
                reconcile_at += period;
            }
            self.cluster.tick(second);
            let seen = self.cluster.observe();
            self.measure.add_second(second, &seen, f64::from(seen.ready) * pod_capacity);
            if second % SECONDS_PER_HOUR == 0.0
                && let Some(on_hour) = self.options.on_hour
            {
                on_hour();
            }
            second += 1.0;
        }
        self.run.outcome = self.measure.finish();
        self.run
    }

    fn reconcile(&mut self, second: f64) {
        let now = timestamp_at(START, second);
        let from = self.cluster.replicas;
        let scale = Scale {
            spec_replicas: i32::try_from(from).unwrap_or(i32::MAX),
            status_replicas: i32::try_from(self.cluster.status_replicas).unwrap_or(i32::MAX),
            selector: format!("app={}", self.variant.workload.name),
        };
        let cluster = &self.cluster;
        let plan =
            Plan::new(&self.hpa, Ok(scale), &self.settings, |_| SelectedPods::new(cluster.pods()));
        let namespace = &self.hpa.metadata.namespace;
        let apis = MetricsApis::new(cluster, namespace, START, second);
        let readings: Readings =
            plan.queries().map(|(index, query)| (index, apis.read(query))).collect();
        let history = std::mem::take(&mut self.history);
        let decision = plan.decide(readings, history, now).with_pause(self.pause);
        let conclusion = decision.conclude(Ok(()), now);
        let explanation = conclusion.explanation;
        if let Some(to) = conclusion.scaled_to {
            let to = u32::try_from(to).unwrap_or_default();
            self.run.steps.push(Step {
                second,
                from,
                to,
                reason: explanation.reason(),
                sentence: explanation.sentence(&self.hpa),
            });
            self.measure.add_rescale(second, from, to);
            self.cluster.scale(to);
        }
        self.add_problem(second, &explanation);
        if self.options.records_timeline {
            self.add_point(second, &explanation);
        }
        self.hpa.status = conclusion.status;
        self.history = conclusion.history;
    }

    fn add_problem(&mut self, second: f64, explanation: &Explanation) {
        if !matches!(explanation.reason(), Reason::Failed | Reason::ScalingDisabled) {
            return;
        }
        let sentence = explanation.sentence(&self.hpa);
        let to = second + self.variant.controller.sync_period.get();
        match self.run.problems.last_mut() {
            Some(last) if last.to >= second && last.sentence == sentence => last.to = to,
            _ => self.run.problems.push(Problem { from: second, to, sentence }),
        }
    }

    fn add_point(&mut self, second: f64, explanation: &Explanation) {
        let seen = self.cluster.observe();
        self.run.timeline.push(Point {
            second,
            load: seen.offered + seen.arriving,
            served: seen.served + seen.drained,
            capacity: f64::from(seen.ready) * self.variant.pod_capacity(),
            backlog: seen.queues.iter().map(|queue| queue.backlog.waiting).fold(0.0, f64::max),
            ready: seen.ready,
            pods: seen.pods,
            replicas: self.cluster.replicas,
            recommended: explanation
                .proposed_replicas
                .and_then(|replicas| u32::try_from(replicas).ok()),
        });
    }
}
