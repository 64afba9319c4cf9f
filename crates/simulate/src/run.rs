//! A run: the cluster advances second by second, and the controller reconciles when it is due.

use hpa_calc::{
    Explanation, History, HorizontalPodAutoscaler, Plan, Readings, Scale, SelectedPods, Settings,
    explain::{Reason, metric_name},
    settings::PodSelection,
};
use serde::Serialize;

use crate::{
    cluster::Cluster,
    file::Variant,
    forecast::Forecasts,
    measure::{Measurements, Outcome},
    readings::MetricsApis,
    workload::{
        scenario::MAX_PODS,
        seconds::{HOUR, timestamp_at},
    },
};

/// The scalings, problems and outcome of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    pub outcome: Outcome,
    pub steps: Vec<Scaling>,
    pub problems: Vec<Problem>,
    /// The autoscaler's metrics that the scenario doesn't have. They have no value in the run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub absent_metrics: Vec<String>,
    pub reconciles: Reconciles,
    /// Whether the autoscaler scaled to more than [`MAX_PODS`] replicas. The run has at most that
    /// many pods.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub exceeds_pod_limit: bool,
    /// One point per reconcile. Empty unless [`RunOptions::records_timeline`] is set.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub timeline: Vec<TimelinePoint>,
}

/// The numbers of reconciles with and without a decision. Reconciles that only return the replicas
/// to their bounds read no metric, and are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reconciles {
    /// A metric determined the desired replicas.
    pub decided: u32,
    /// The reconcile failed, or scaling was disabled.
    pub failed: u32,
}

impl Reconciles {
    /// Whether reconciles failed and no metric ever determined the desired replicas.
    pub fn never_decided(self) -> bool {
        self.decided == 0 && self.failed > 0
    }

    /// The share of the counted reconciles that failed. 0 if none are counted.
    pub fn failed_share(self) -> f64 {
        let counted = self.decided.saturating_add(self.failed).max(1);
        f64::from(self.failed) / f64::from(counted)
    }

    fn add(&mut self, explanation: &Explanation) {
        if is_failure(explanation) {
            self.failed = self.failed.saturating_add(1);
        } else if explanation.winner.is_some() {
            self.decided = self.decided.saturating_add(1);
        }
    }
}

/// Whether the reconcile failed or scaling was disabled.
fn is_failure(explanation: &Explanation) -> bool {
    matches!(explanation.reason(), Reason::Failed | Reason::ScalingDisabled)
}

impl Run {
    /// The sentence of the longest problem. The earliest one if several are equally long.
    pub fn main_problem(&self) -> Option<&str> {
        let problems = self.problems.iter().rev();
        let longest =
            problems.max_by(|one, other| (one.to - one.from).total_cmp(&(other.to - other.from)));
        longest.map(|problem| problem.sentence.as_str())
    }
}

/// A change of the workload's replicas by the autoscaler.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Scaling {
    /// Seconds since the start.
    pub second: f64,
    pub from: u32,
    pub to: u32,
    pub reason: Reason,
    /// The decision in one sentence.
    pub sentence: String,
}

/// A period in which the autoscaler could not decide or was disabled.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// Seconds since the start.
    pub from: f64,
    /// A sync period after the last reconcile of the problem, or the end of the run if that is
    /// earlier, in seconds since the start.
    pub to: f64,
    pub sentence: String,
}

/// The cluster and the decision at one reconcile. Rates are in units per second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TimelinePoint {
    /// Seconds since the start.
    pub second: f64,
    /// Load and arrivals in queues.
    pub load: f64,
    /// The part of the load that is served, and the work that is drained from queues.
    pub served: f64,
    /// The capacity of the ready pods.
    pub capacity: f64,
    /// The backlog of the queue that has the largest one.
    pub backlog: f64,
    pub ready: u32,
    pub pods: u32,
    /// `spec.replicas` after the reconcile.
    pub replicas: u32,
    /// The recommendation of the metrics, before stabilization, policies and bounds.
    pub recommended: Option<u32>,
}

/// Options of a run, which don't change its outcome.
#[derive(Clone, Copy, Default)]
pub struct RunOptions<'a> {
    /// Whether to record every reconcile.
    pub records_timeline: bool,
    /// Called after each simulated hour.
    pub on_hour: Option<&'a (dyn Fn() + Sync)>,
}

impl Variant {
    /// Runs the variant to its end, without a timeline.
    pub fn run(&self) -> Run {
        self.run_with(RunOptions::default())
    }

    /// Runs the variant to its end with `options`.
    pub fn run_with(&self, options: RunOptions<'_>) -> Run {
        Simulator::new(self, options).run()
    }
}

/// A run in progress.
struct Simulator<'a> {
    variant: &'a Variant,
    settings: Settings,
    /// In seconds.
    sync_period: f64,
    cluster: Cluster,
    hpa: HorizontalPodAutoscaler,
    history: History,
    forecasts: Option<Forecasts<'a>>,
    measurements: Measurements,
    /// The metrics that the scenario doesn't have. `None` before metrics are read.
    absent_metrics: Option<Vec<String>>,
    run: Run,
    options: RunOptions<'a>,
}

impl<'a> Simulator<'a> {
    fn new(variant: &'a Variant, options: RunOptions<'a>) -> Self {
        let cluster = Cluster::new(variant, variant.start);
        let measurements =
            Measurements::new(variant.objective.clone(), variant.cost.clone(), &cluster.state());
        let hpa = variant.autoscaler.clone();
        let settings = variant.settings();
        Self {
            variant,
            forecasts: Forecasts::new(variant, &settings, variant.start),
            settings,
            sync_period: variant.sync_period(),
            cluster,
            hpa,
            history: History::default(),
            measurements,
            absent_metrics: None,
            run: Run::default(),
            options,
        }
    }

    fn run(mut self) -> Run {
        let (period, end) = (self.sync_period, self.variant.scenario.duration.get());
        let mut due = self.variant.controller.first_reconcile(self.variant.scenario.seed);
        let mut reconcile_at = due;
        let pod_capacity = self.variant.pod_capacity();
        let mut second = 1.0;
        while second <= end {
            while reconcile_at < second {
                self.reconcile(reconcile_at);
                if reconcile_at >= due {
                    due += period;
                }
                reconcile_at = self.next_reconcile(reconcile_at, due);
            }
            self.cluster.tick(second);
            let state = self.cluster.state();
            self.measurements.add_second(second, &state, f64::from(state.ready) * pod_capacity);
            if second % HOUR == 0.0
                && let Some(on_hour) = self.options.on_hour
            {
                on_hour();
            }
            second += 1.0;
        }
        self.run.absent_metrics = self.absent_metrics.unwrap_or_default();
        self.run.outcome = self.measurements.finish();
        self.run
    }

    /// The second of the next reconcile: the next change of scheduled bounds, or `due` if that is
    /// earlier. A reconcile for a change of bounds doesn't shift the periodic ones.
    fn next_reconcile(&self, second: f64, due: f64) -> f64 {
        let start = self.variant.start;
        let now = timestamp_at(start, second);
        let change = self.settings.next_bounds_change(&self.hpa.spec, now);
        let change = change.map(|change| change.at.duration_since(start).as_secs_f64());
        change.map_or(due, |change| change.min(due))
    }

    fn reconcile(&mut self, second: f64) {
        let now = timestamp_at(self.variant.start, second);
        let scale = Scale {
            spec_replicas: i32::try_from(self.cluster.replicas).unwrap_or(i32::MAX),
            status_replicas: i32::try_from(self.cluster.status_replicas).unwrap_or(i32::MAX),
            selector: format!("app={}", self.variant.workload.name),
        };
        let (cluster, settings) = (&self.cluster, &self.settings);
        let plan = Plan::new(&self.hpa, Ok(scale), settings, |_| {
            let mut pods = cluster.pods();
            if settings.pods == PodSelection::Selected {
                pods.extend(cluster.other_pods(second).flat_map(|others| others.pods.clone()));
            }
            SelectedPods::new(pods)
        });
        let namespace = &self.hpa.metadata.namespace;
        let apis = MetricsApis::new(cluster, namespace, self.variant.start, second);
        let mut readings: Readings =
            plan.queries().map(|(index, query)| (index, apis.read(query))).collect();
        if self.absent_metrics.is_none() {
            self.absent_metrics = absent_metrics(&plan, &apis, &self.hpa);
        }
        if let Some(forecasts) = &mut self.forecasts {
            let state = cluster.state();
            forecasts.add_to(&mut readings, &plan, state.offered + state.arriving, now);
        }
        let history = std::mem::take(&mut self.history);
        let decision = plan.decide(readings, history, now);
        let conclusion = decision.conclude(Ok(()), now);
        let explanation = conclusion.explanation;
        if let Some(to) = conclusion.scaled_to {
            self.scale(second, u32::try_from(to).unwrap_or_default(), &explanation);
        }
        self.run.reconciles.add(&explanation);
        self.add_problem(second, &explanation);
        if self.options.records_timeline {
            self.add_point(second, &explanation);
        }
        self.hpa.status = conclusion.status;
        self.history = conclusion.history;
    }

    fn scale(&mut self, second: f64, to: u32, explanation: &Explanation) {
        let from = self.cluster.replicas;
        let (reason, sentence) = (explanation.reason(), explanation.sentence(&self.hpa));
        self.run.steps.push(Scaling { second, from, to, reason, sentence });
        self.measurements.add_rescale(second, from, to);
        self.cluster.scale(to);
        self.run.exceeds_pod_limit |= to > MAX_PODS;
    }

    fn add_problem(&mut self, second: f64, explanation: &Explanation) {
        if !is_failure(explanation) {
            return;
        }
        let sentence = explanation.sentence(&self.hpa);
        let to = (second + self.sync_period).min(self.variant.scenario.duration.get());
        match self.run.problems.last_mut() {
            Some(last) if last.to >= second && last.sentence == sentence => last.to = to,
            _ => self.run.problems.push(Problem { from: second, to, sentence }),
        }
    }

    fn add_point(&mut self, second: f64, explanation: &Explanation) {
        let state = self.cluster.state();
        self.run.timeline.push(TimelinePoint {
            second,
            load: state.offered + state.arriving,
            served: state.served + state.drained,
            capacity: f64::from(state.ready) * self.variant.pod_capacity(),
            backlog: state.queues.iter().map(|queue| queue.backlog.waiting).fold(0.0, f64::max),
            ready: state.ready,
            pods: state.pods,
            replicas: self.cluster.replicas,
            recommended: explanation.proposed_replicas.and_then(|count| count.try_into().ok()),
        });
    }
}

/// The metrics of the autoscaler that the scenario doesn't have. `None` if the plan reads none.
fn absent_metrics(
    plan: &Plan<'_>,
    apis: &MetricsApis<'_>,
    hpa: &HorizontalPodAutoscaler,
) -> Option<Vec<String>> {
    let mut queries = plan.queries().peekable();
    queries.peek()?;
    let absent = queries.filter(|(_, query)| !apis.has(query));
    Some(absent.map(|(index, _)| metric_name(&hpa.spec.metrics, index)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ScenarioFile;

    fn run(scenario: &str) -> Run {
        let options = RunOptions { records_timeline: true, ..RunOptions::default() };
        ScenarioFile::parse_alone(scenario).unwrap().variants[0].run_with(options)
    }

    #[test]
    fn rollout_of_a_stateful_set_starts_without_another_change() {
        let scenario = r"
name: rollout
duration: 20m
autoscaler:
  metadata: {name: web}
  spec:
    scaleTargetRef: {apiVersion: apps/v1, kind: StatefulSet, name: web}
    minReplicas: 3
    maxReplicas: 3
workload: {kind: StatefulSet, load: {constant: 100}}
incidents: [{kind: rollout, at: 10m}]
";
        let run = run(scenario);
        let ready = |from: f64, to: f64| {
            let points = run.timeline.iter().filter(|point| (from..to).contains(&point.second));
            points.map(|point| point.ready).min()
        };
        assert_eq!(ready(300.0, 600.0), Some(3));
        assert!(ready(600.0, 1200.0) < Some(3), "{:?}", run.timeline);
    }

    #[test]
    fn warm_start_creates_all_pods_of_a_large_stateful_set() {
        let scenario = r"
duration: 1m
autoscaler:
  metadata: {name: db}
  spec:
    scaleTargetRef: {apiVersion: apps/v1, kind: StatefulSet, name: db}
    minReplicas: 250
    maxReplicas: 300
workload: {load: {constant: 100}}
";
        let run = run(scenario);
        assert_eq!(run.timeline[0].ready, 250, "{:?}", run.timeline);
    }

    #[test]
    fn scheduled_bounds_hold_at_their_time_of_day() {
        let scenario = r#"
duration: 30m
start: 2026-11-27T06:30:00Z
autoscaler:
  metadata:
    name: web
    annotations:
      autoscaling.hpa-rs.dev/bounds: >-
        [{"days": ["Fri"], "start": "06:45", "end": "09:00", "timeZone": "UTC", "minReplicas": 5}]
  spec:
    scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
    maxReplicas: 9
workload: {load: {constant: 1}}
"#;
        let run = run(scenario);
        let first = run.steps.first().expect("a scaling to the scheduled minimum");
        assert_eq!((first.from, first.to), (1, 5));
        assert!((first.second - 900.0).abs() < 2.0, "{first:?}");
    }

    #[test]
    fn huge_load_does_not_create_pods_without_limit() {
        let text = r"
duration: 45s
autoscaler:
  metadata: {name: web}
  spec:
    scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
    maxReplicas: 2147483647
    metrics:
    - type: External
      external: {metric: {name: rps}, target: {type: AverageValue, averageValue: 1m}}
    behavior:
      scaleUp: {policies: [{type: Pods, value: 2000000000, periodSeconds: 15}]}
workload: {load: {constant: 1}}
externalMetrics: [{metric: rps, value: {curve: {constant: 1000000}}}]
";
        let scenario_file = ScenarioFile::parse_alone(text).unwrap();
        let run = scenario_file.variants[0]
            .run_with(RunOptions { records_timeline: true, ..RunOptions::default() });
        assert!(run.steps.iter().any(|step| step.to > MAX_PODS), "{:?}", run.steps);
        let pods = run.timeline.iter().map(|point| point.pods).max();
        assert_eq!(pods, Some(MAX_PODS), "{:?}", run.steps);
        assert!(run.exceeds_pod_limit);
        let answer = crate::report::answer_sentence(&[(scenario_file.variants[0].clone(), run)]);
        let expected = "The autoscaler scaled to more than 10000 replicas, and a simulation has at \
                        most that many pods. The pods were ";
        assert!(answer.starts_with(expected), "{answer}");
    }
}
