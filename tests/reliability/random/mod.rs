//! Random scenarios. Each seed runs twice: with faults, and without them as the baseline.

mod plan;

use std::{
    collections::BTreeMap,
    ops::Range,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use hpa_test_harness::{TestbedExt, long_tests, objects};
use hpa_testbed::{Faults, Restart};
use parking_lot::Mutex;
use serde_json::{Value, json};

use self::plan::{BUSY, Plan, Step, plan};
use crate::{
    PERIOD, RECOVERY, WINDOW,
    cluster::{Cluster, TARGETS, hpa},
    invariants::violations,
};

/// End of the faults. By then, every recommendation from before the last change of the load has
/// left the stabilization windows.
const FAULTS_END: Duration = Duration::from_secs(BUSY[1] + 120 + WINDOW.as_secs());
/// Client name of the controller.
pub(crate) const CONTROLLER: &str = "controller";
const SEEDS: u64 = 40;
/// With `HPA_LONG_TESTS`.
const MANY_SEEDS: u64 = 1000;
/// Real-time limit of a seed.
const LIMIT: Duration = Duration::from_mins(2);

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|value| value.parse().expect("a number"))
}

fn range(variable: &str) -> Option<Range<u64>> {
    let text = std::env::var(variable).ok()?;
    let (from, to) = text.split_once("..").unwrap_or(("0", &text));
    Some(from.parse().expect("a number")..to.parse().expect("a number"))
}

#[test]
fn random_faults_leave_no_trace() {
    let seeds = match number("RELIABILITY_SEED") {
        Some(seed) => seed..seed + 1,
        None => {
            range("RELIABILITY_SEEDS").unwrap_or(0..if long_tests() { MANY_SEEDS } else { SEEDS })
        }
    };
    let (next, failures) = (AtomicU64::new(seeds.start), Mutex::new(Vec::new()));
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let running: Vec<Mutex<Option<(u64, Instant)>>> =
        (0..workers).map(|_| Mutex::default()).collect();
    let left = AtomicUsize::new(workers);
    thread::scope(|scope| {
        for own in &running {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        break;
                    }
                    *own.lock() = Some((seed, Instant::now()));
                    // In two steps: the lock must not be held while the seed runs.
                    let failure = run_seed(seed).err();
                    failures.lock().extend(failure);
                }
                *own.lock() = None;
                left.fetch_sub(1, Ordering::Relaxed);
            });
        }
        scope.spawn(|| watchdog(&running, &left));
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

/// Exits the process if a seed hangs. An endless loop without waiting stops virtual time, so no
/// timeout inside the run could fire.
fn watchdog(running: &[Mutex<Option<(u64, Instant)>>], left: &AtomicUsize) {
    while left.load(Ordering::Relaxed) > 0 {
        for (seed, since) in running.iter().filter_map(|one| *one.lock()) {
            if since.elapsed() > LIMIT {
                eprintln!("seed {seed} hangs:\n{}", plan(seed));
                std::process::exit(1);
            }
        }
        thread::park_timeout(Duration::from_millis(100));
    }
}

/// The result of a run.
struct Outcome {
    /// After [`RECOVERY`].
    replicas: BTreeMap<&'static str, i64>,
    /// A stabilization window later.
    statuses: BTreeMap<&'static str, Value>,
    violations: Vec<String>,
    journal: String,
}

/// Runs a seed. The error describes what is wrong, and the plan.
fn run_seed(seed: u64) -> Result<(), String> {
    let plan = plan(seed);
    let baseline = in_virtual_time(run(&plan, false));
    let faulty = in_virtual_time(run(&plan, true));
    let mut wrong = Vec::new();
    wrong.extend(baseline.violations.iter().map(|what| format!("baseline: {what}")));
    wrong.extend(faulty.violations.iter().cloned());
    if faulty.replicas != baseline.replicas {
        wrong.push(format!(
            "replicas after recovery {:?}, baseline {:?}",
            faulty.replicas, baseline.replicas
        ));
    }
    for (name, status) in &faulty.statuses {
        let expected = &baseline.statuses[name];
        // A new autoscaler is disabled if it finds its target at zero. With faults, the old one may
        // not have scaled to zero yet, and the new one does.
        let is_zero_either_way = plan.recreates_autoscaler(name)
            && [status, expected].iter().all(|status| status["desiredReplicas"] == 0);
        if status != expected && !is_zero_either_way {
            wrong.push(format!("the status of {name} is {status}, baseline {expected}"));
        }
    }
    if wrong.is_empty() {
        return Ok(());
    }
    let journal = if number("RELIABILITY_SEED").is_some() { faulty.journal } else { String::new() };
    Err(format!(
        "seed {seed}:
  {}
{plan}{journal}",
        wrong.join(
            "
  "
        )
    ))
}

fn in_virtual_time<T>(run: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime").block_on(run)
}

async fn run(plan: &Plan, is_faulty: bool) -> Outcome {
    let faults = Faults::new(plan.seed);
    let mut cluster = Cluster::with_faults(&faults);
    let mut steps = plan.common_steps.clone();
    if is_faulty {
        plan.faults.iter().for_each(|fault| _ = faults.add(fault.clone()));
        steps.extend(plan.incidents.iter().cloned());
    }
    steps.sort_by_key(|(at, _)| *at);
    for (at, step) in steps {
        cluster.until(at).await;
        apply(&mut cluster, step).await;
    }
    cluster.until(FAULTS_END).await;
    faults.clear();
    let extra_recovery = if plan.has_restart() { WINDOW } else { Duration::ZERO };
    cluster.until(FAULTS_END + extra_recovery + RECOVERY).await;
    let replicas = TARGETS.map(|name| (name, cluster.testbed.replicas(name))).into();
    cluster.until(FAULTS_END + extra_recovery + 4 * PERIOD + WINDOW).await;
    let journal = cluster.journal.to_string();
    let mut violations = violations(&cluster);
    if !cluster.is_controlled() {
        violations.push("the controller has exited".to_owned());
    }
    Outcome {
        replicas,
        statuses: TARGETS.map(|name| (name, status(&cluster, name))).into(),
        violations,
        journal,
    }
}

async fn apply(cluster: &mut Cluster, step: Step) {
    match step {
        Step::Load(name, load) => cluster.loads.set(name, load),
        Step::Scale(name, replicas) => cluster.scale(name, replicas),
        Step::Max(name, max) => cluster.edit(cluster.testbed.hpa(name), |object| {
            object["spec"]["maxReplicas"] = max.into();
        }),
        Step::Min(name, min) => cluster.edit(cluster.testbed.hpa(name), |object| {
            object["spec"]["minReplicas"] = min.into();
        }),
        Step::Touch(name) => cluster.edit(cluster.testbed.deployment(name), |object| {
            object["metadata"]["annotations"] =
                json!({ "touched": cluster.clock.age().as_millis().to_string() });
        }),
        Step::RecreateAutoscaler(name) => {
            cluster.delete("autoscaling/v2", "HorizontalPodAutoscaler", name);
            cluster.apply(hpa(name));
        }
        Step::RecreateTarget(name, replicas) => {
            cluster.delete("apps/v1", "Deployment", name);
            cluster.apply(objects::deployment(name, replicas));
        }
        Step::Kill => cluster.kill_controller().await,
        Step::Stop => cluster.stop_controller().await,
        Step::Start if cluster.is_controlled() => {}
        Step::Start => cluster.start_controller(),
        Step::RestartApi(down_for) => cluster.testbed.restart(Restart::Same, down_for),
        Step::Compact => {
            cluster.testbed.compact();
            cluster.testbed.drop_watches();
        }
        Step::Skew(by) => cluster.controller_clock.skew(by),
    }
}

/// The status without traces of its past: times, and `ScaledToZero=False`.
fn status(cluster: &Cluster, name: &str) -> Value {
    let mut status =
        cluster.testbed.hpa(name).map_or(Value::Null, |object| object["status"].clone());
    if let Some(status) = status.as_object_mut() {
        status.remove("lastScaleTime");
        // The generation is the same, but the last status write may precede the last edit.
        status.remove("observedGeneration");
    }
    let mut conditions: Vec<Value> = status["conditions"].as_array().cloned().unwrap_or_default();
    conditions
        .retain(|condition| condition["type"] != "ScaledToZero" || condition["status"] == "True");
    // Without a decision, ScalingLimited is left from before.
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
