//! Random scenarios. A seed runs with faults, and without faults as the baseline. At the end of
//! both runs, the replicas must match the load. There is no baseline for large clusters, nor for
//! restored API servers.

mod expectation;
mod faults;
mod plan;
mod settings;
mod shape;

use std::{
    io::Write,
    ops::Range,
    panic::catch_unwind,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use hpa_testbed::{Effect, Fault, FaultId, Faults, Match, Restart, Snapshot};
use hpa_tests::harness::are_long_tests_enabled;
use parking_lot::Mutex;
use serde_json::{Value, json};

use self::{
    expectation::{unexpected_replicas, unexplained_gaps},
    plan::{CHANGE_SECONDS, Change, Plan, Restore, Step, plan},
};
use crate::{
    PERIOD, RECOVERY, WINDOW, cluster::Cluster, invariants::violations_with, targets::Target,
    workloads::REVISION,
};

/// End of the faults. By then, every recommendation from before the last change of the load has
/// left the stabilization windows.
const FAULTS_END: Duration = Duration::from_secs(CHANGE_SECONDS.end + 120 + WINDOW.as_secs());
/// The number of seeds without `HPA_LONG_TESTS`.
const SEED_COUNT: u64 = 40;
/// The number of seeds with `HPA_LONG_TESTS`.
const LONG_SEED_COUNT: u64 = 300;
/// Clusters with more targets run without a baseline.
const MAX_BASELINE_TARGETS: usize = 10;
/// The interval at which ended elected instances are replaced.
const RESTART_INTERVAL: Duration = Duration::from_secs(5);
/// The number of writes by other clients between a snapshot and its restore, so that a rewind is
/// detected before all resource versions are in use again.
const OTHER_WRITES: u64 = 500;
/// Real-time limit of a seed.
const LIMIT: Duration = Duration::from_mins(2);

pub(crate) fn env_number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|value| value.parse().expect("a number"))
}

fn env_range(variable: &str) -> Option<Range<u64>> {
    let text = std::env::var(variable).ok()?;
    let (from, to) = text.split_once("..").unwrap_or(("0", &text));
    Some(from.parse().expect("a number")..to.parse().expect("a number"))
}

#[test]
fn random_faults_leave_no_trace() {
    let seeds = match env_number("RELIABILITY_SEED") {
        Some(seed) => seed..seed + 1,
        None => env_range("RELIABILITY_SEEDS")
            .unwrap_or(0..if are_long_tests_enabled() { LONG_SEED_COUNT } else { SEED_COUNT }),
    };
    let (next, failures) = (AtomicU64::new(seeds.start), Mutex::new(Vec::new()));
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let running: Vec<Mutex<Option<(u64, Instant)>>> =
        (0..workers).map(|_| Mutex::default()).collect();
    let active_workers = AtomicUsize::new(workers);
    thread::scope(|scope| {
        for running_seed in &running {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        break;
                    }
                    *running_seed.lock() = Some((seed, Instant::now()));
                    // Not in one expression with the lock, which must not be held during the run.
                    let failure = catch_unwind(|| run_seed(seed))
                        .unwrap_or_else(|_| Err(format!("seed {seed} panicked")))
                        .err();
                    failures.lock().extend(failure);
                }
                *running_seed.lock() = None;
                active_workers.fetch_sub(1, Ordering::Relaxed);
            });
        }
        scope.spawn(|| watchdog(&running, &active_workers));
    });
    let failures = failures.into_inner();
    let count = seeds.end - seeds.start;
    assert!(
        failures.is_empty(),
        "{} of {count} seeds failed:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

/// With this seed, the first list after a restart is from before the scale to zero. The autoscaler
/// must not be disabled.
#[test]
fn outdated_list_does_not_disable_scaling_from_zero() {
    assert_eq!(run_seed(7454), Ok(()));
}

/// Exits the process if a seed hangs. Timeouts in the run don't help: an endless loop without
/// waiting stops virtual time.
fn watchdog(running: &[Mutex<Option<(u64, Instant)>>], active_workers: &AtomicUsize) {
    while active_workers.load(Ordering::Relaxed) > 0 {
        for (seed, since) in running.iter().filter_map(|one| *one.lock()) {
            if since.elapsed() > LIMIT {
                // Not captured by the test runner, which prints nothing after `exit`.
                _ = writeln!(std::io::stderr(), "seed {seed} hangs:\n{}", plan(seed));
                std::process::exit(1);
            }
        }
        thread::park_timeout(Duration::from_millis(100));
    }
}

/// The result of a run.
struct Outcome {
    /// By target, after [`RECOVERY`].
    replicas: Vec<i64>,
    /// By target, a stabilization window later.
    statuses: Vec<Value>,
    violations: Vec<String>,
    journal: String,
}

/// Runs a seed. The error contains the violations and the plan.
fn run_seed(seed: u64) -> Result<(), String> {
    let plan = plan(seed);
    let extra_recovery = plan.extra_recovery();
    let faulty = in_virtual_time(run(&plan, extra_recovery));
    let mut violations = faulty.violations.clone();
    // A restored server has lost changes of users that the baseline has.
    if plan.shape.targets.len() <= MAX_BASELINE_TARGETS && !plan.restores() {
        let baseline = in_virtual_time(run(&plan.baseline(), extra_recovery));
        violations.extend(differences(&plan, &faulty, &baseline));
    }
    if violations.is_empty() {
        return Ok(());
    }
    let journal =
        if env_number("RELIABILITY_SEED").is_some() { faulty.journal } else { String::new() };
    Err(format!("seed {seed}:\n  {}\n{plan}{journal}", violations.join("\n  ")))
}

/// The differences between the run with faults and the baseline.
fn differences(plan: &Plan, faulty: &Outcome, baseline: &Outcome) -> Vec<String> {
    let mut wrong: Vec<_> =
        baseline.violations.iter().map(|violation| format!("baseline: {violation}")).collect();
    for (index, target) in plan.shape.targets.iter().enumerate() {
        let (replicas, expected) = (faulty.replicas[index], baseline.replicas[index]);
        // A new autoscaler is disabled if it finds its target at zero.
        let can_be_disabled = target.can_scale_to_zero && plan.recreates_autoscaler(index);
        if can_be_disabled && (replicas == 0) != (expected == 0) {
            continue;
        }
        if replicas != expected {
            wrong.push(format!("{} has {replicas} replicas, baseline {expected}", target.id));
        }
        let (status, expected) = (&faulty.statuses[index], &baseline.statuses[index]);
        // Either the old autoscaler has scaled to zero, and the new one is disabled, or the new one
        // has scaled to zero.
        let is_zero_either_way = plan.recreates_autoscaler(index)
            && [status, expected].iter().all(|status| status["desiredReplicas"] == 0);
        if status != expected && !is_zero_either_way {
            wrong.push(format!("the status of {} is {status}, baseline {expected}", target.id));
        }
    }
    wrong
}

/// Runs a future in paused time, outside `tokio::test`.
pub(crate) fn in_virtual_time<T>(run: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime").block_on(run)
}

/// The state of a run.
struct Run {
    cluster: Cluster,
    /// The last snapshot, with its resource version.
    saved: Option<(Snapshot, u64)>,
    faults: Faults,
    silences: Vec<FaultId>,
}

/// Runs a plan. `extra_recovery` is that of the plan with faults, also for its baseline: both runs
/// are compared at the same times.
async fn run(plan: &Plan, extra_recovery: Duration) -> Outcome {
    let faults = Faults::new(plan.seed);
    let cluster = Cluster::with_shape(&faults, plan.shape.clone());
    let mut run = Run { cluster, saved: None, faults: faults.clone(), silences: Vec::new() };
    let mut temporary: Vec<FaultId> = Vec::new();
    for planned in &plan.faults {
        let id = faults.add(planned.fault.clone());
        temporary.extend((!planned.is_lasting).then_some(id));
    }
    let mut steps = [plan.common_steps.as_slice(), &plan.incidents].concat();
    steps.sort_by_key(|(at, _)| *at);
    for (at, step) in steps {
        run.wait_until_age(at).await;
        run.apply(step).await;
    }
    run.wait_until_age(FAULTS_END).await;
    for id in temporary {
        faults.remove(id);
    }
    let recovered = FAULTS_END + extra_recovery;
    run.wait_until_age(recovered + RECOVERY).await;
    let targets = &plan.shape.targets;
    let replicas = targets.iter().map(|target| run.cluster.replicas(target)).collect();
    let mut violations = unexpected_replicas(plan, &run.cluster);
    run.wait_until_age(recovered + 4 * PERIOD + WINDOW).await;
    let cluster = &run.cluster;
    violations.extend(violations_with(cluster, plan.shows_all_pods()));
    violations.extend(unexplained_gaps(plan, cluster));
    if !cluster.has_running_controller() {
        violations.push("the controller has exited".to_owned());
    }
    let statuses = targets.iter().map(|target| status(cluster, target)).collect();
    let journal = cluster.journal.to_string();
    run.cluster.shut_down().await;
    Outcome { replicas, statuses, violations, journal }
}

impl Run {
    /// Waits until the cluster has this age. The kubelet restarts elected instances that exit.
    async fn wait_until_age(&mut self, age: Duration) {
        let cluster = &mut self.cluster;
        while cluster.shape.has_leader_election && cluster.clock.age() + RESTART_INTERVAL < age {
            cluster.sleep(RESTART_INTERVAL).await;
            cluster.start_missing_instances();
        }
        cluster.wait_until_age(age).await;
    }

    async fn apply(&mut self, step: Step) {
        let cluster = &mut self.cluster;
        match step {
            Step::Change(index, change) => {
                apply_change(cluster, &cluster.shape.targets[index], change);
            }
            Step::Kill => cluster.kill_controller().await,
            Step::Stop => cluster.stop_controller().await,
            Step::Start if cluster.shape.has_leader_election => cluster.start_missing_instances(),
            Step::Start if cluster.has_running_controller() => {}
            Step::Start => cluster.start_controller(),
            Step::RestartApi(down_for) => cluster.testbed.restart(Restart::Same, down_for),
            Step::Compact => cluster.expire_watches(),
            Step::Save => {
                self.saved = Some((cluster.testbed.snapshot(), cluster.testbed.resource_version()));
            }
            Step::Restore(restore) => {
                let Some((saved, version)) = self.saved.take() else { return };
                let state = match restore {
                    Restore::Bumped => Restart::Older(saved),
                    Restore::Rewound => {
                        cluster.write_elsewhere_until(version + OTHER_WRITES);
                        Restart::Rewound(saved)
                    }
                };
                cluster.restart(state, Duration::from_secs(2));
            }
            Step::Skew(by) => cluster.controller_clock.set_skew(by),
            Step::Silence(resource) => {
                let watches = Match::verb("watch").resource(resource);
                let silent = Fault::on(watches).effect(Effect::SilentWatch { after: 0 });
                self.silences.push(self.faults.add(silent));
                cluster.testbed.end_watches();
            }
            Step::EndSilence => {
                for silence in self.silences.drain(..) {
                    self.faults.remove(silence);
                }
            }
        }
    }
}

fn apply_change(cluster: &Cluster, target: &Target, change: Change) {
    let annotate = |name: &str| {
        let age = cluster.clock.age().as_millis().to_string();
        cluster.edit(cluster.workload(target), |object| {
            let annotations = &mut object["metadata"]["annotations"];
            annotations[name] = json!(age);
        });
    };
    let edit_spec = |object: Option<Value>, member: &str, value: i64| {
        cluster.edit(object, |object| object["spec"][member] = value.into());
    };
    match change {
        Change::Load(load) => cluster.loads.set_of(&target.id, load),
        Change::Scale(replicas) => edit_spec(cluster.workload(target), "replicas", replicas),
        Change::Max(max) => edit_spec(cluster.autoscaler(target), "maxReplicas", max),
        Change::Min(min) => edit_spec(cluster.autoscaler(target), "minReplicas", min),
        Change::Touch => annotate("touched"),
        Change::Rollout => annotate(REVISION),
        Change::RecreateAutoscaler => {
            cluster.delete_in("autoscaling/v2", "HorizontalPodAutoscaler", &target.id);
            cluster.apply(target.autoscaler());
        }
        Change::RecreateTarget(replicas) => {
            cluster.delete_in(target.kind.api_version(), target.kind.name(), &target.id);
            cluster.apply(target.workload(replicas));
        }
    }
}

/// The status without traces of the past: times, and conditions that remain with status `False`.
fn status(cluster: &Cluster, target: &Target) -> Value {
    let mut status =
        cluster.autoscaler(target).map_or(Value::Null, |object| object["status"].clone());
    if let Some(status) = status.as_object_mut() {
        status.remove("lastScaleTime");
        // The generation is the same, but the last status write may precede the last edit.
        status.remove("observedGeneration");
    }
    let mut conditions: Vec<Value> = status["conditions"].as_array().cloned().unwrap_or_default();
    let remaining_conditions = ["ScaledToZero", "ExternalMetricFallbackActive"];
    conditions.retain(|condition| {
        let remains = remaining_conditions.iter().any(|name| condition["type"] == *name);
        !remains || condition["status"] == "True"
    });
    // If a reconcile decides nothing, ScalingLimited is from an earlier one.
    let is_active =
        |condition: &Value| condition["type"] == "ScalingActive" && condition["status"] == "True";
    if !conditions.iter().any(is_active) {
        conditions.retain(|condition| condition["type"] != "ScalingLimited");
    }
    for condition in conditions.iter_mut().filter_map(Value::as_object_mut) {
        condition.remove("lastTransitionTime");
        condition.remove("observedGeneration");
    }
    conditions.sort_by_key(|condition| condition["type"].to_string());
    status["conditions"] = conditions.into();
    status
}
