//! Runs that a seed draws: loads and users do the same in two worlds, of which one has faults too.

mod plan;

use std::{
    collections::BTreeMap,
    ops::Range,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use hpa_test_harness::{TestbedExt, objects};
use hpa_testbed::{Faults, Restart};
use parking_lot::Mutex;
use serde_json::{Value, json};

use self::plan::{BUSY, Plan, Step, plan};
use crate::{
    PERIOD, RECOVERY, WINDOW,
    cluster::{Cluster, TARGETS, hpa},
    invariants::violations,
};

/// When the faults end: all that was before the load's last change has left every window by then.
const CALM: Duration = Duration::from_secs(BUSY[1] + 120 + WINDOW.as_secs());
/// The name of the controller to the API server.
pub(crate) const CONTROLLER: &str = "controller";
/// How many seeds are run unless `RELIABILITY_SEEDS` says otherwise: how many, or `FROM..TO`. `RELIABILITY_SEED` names one
/// to run alone.
const SEEDS: u64 = 1000;
/// No seed takes this long, in real time.
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
fn random_faults() {
    let seeds = match number("RELIABILITY_SEED") {
        Some(seed) => seed..seed + 1,
        None => range("RELIABILITY_SEEDS").unwrap_or(0..SEEDS),
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
                    failures.lock().extend(run(seed).err());
                }
                *own.lock() = None;
                left.fetch_sub(1, Ordering::Relaxed);
            });
        }
        scope.spawn(|| watch_over(&running, &left));
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

/// Ends the process if a seed does not: where something goes on for ever without waiting, virtual time stands still.
fn watch_over(running: &[Mutex<Option<(u64, Instant)>>], left: &AtomicUsize) {
    while left.load(Ordering::Relaxed) > 0 {
        for (seed, since) in running.iter().filter_map(|one| *one.lock()) {
            if since.elapsed() > LIMIT {
                eprintln!("seed {seed} does not end:\n{}", plan(seed));
                std::process::exit(1);
            }
        }
        thread::park_timeout(Duration::from_millis(100));
    }
}

/// What became of a world.
struct End {
    /// Soon after the faults.
    replicas: BTreeMap<&'static str, i64>,
    /// A window later.
    statuses: BTreeMap<&'static str, Value>,
    violations: Vec<String>,
    journal: String,
}

/// Runs a seed; what was wrong, with what happened.
pub(crate) fn run(seed: u64) -> Result<(), String> {
    let plan = plan(seed);
    let without = in_virtual_time(live(&plan, false));
    let with = in_virtual_time(live(&plan, true));
    let mut wrong = Vec::new();
    wrong.extend(without.violations.iter().map(|what| format!("without faults: {what}")));
    wrong.extend(with.violations.iter().cloned());
    if with.replicas != without.replicas {
        wrong.push(format!(
            "soon after the faults {:?}, without them {:?}",
            with.replicas, without.replicas
        ));
    }
    for (name, status) in &with.statuses {
        let expected = &without.statuses[name];
        if status != expected {
            wrong.push(format!("the status of {name} is {status}, without faults {expected}"));
        }
    }
    if wrong.is_empty() {
        return Ok(());
    }
    // All that happened is worth reading only where it is asked for.
    let journal = if number("RELIABILITY_SEED").is_some() { with.journal } else { String::new() };
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

async fn live(plan: &Plan, has_faults: bool) -> End {
    let faults = Faults::new(plan.seed);
    let mut cluster = Cluster::with_faults(&faults);
    let mut steps = plan.life.clone();
    if has_faults {
        plan.faults.iter().for_each(|fault| _ = faults.add(fault.clone()));
        steps.extend(plan.trouble.iter().cloned());
    }
    steps.sort_by_key(|(at, _)| *at);
    for (at, step) in steps {
        cluster.until(at).await;
        take(&mut cluster, step).await;
    }
    cluster.until(CALM).await;
    faults.clear();
    let held = if plan.has_restart() { WINDOW } else { Duration::ZERO };
    cluster.until(CALM + held + RECOVERY).await;
    let replicas = TARGETS.map(|name| (name, cluster.testbed.replicas(name))).into();
    cluster.until(CALM + held + 4 * PERIOD + WINDOW).await;
    let journal = cluster.journal.to_string();
    let mut violations = violations(&cluster);
    if !cluster.is_controlled() {
        violations.push("the controller has ended".to_owned());
    }
    End {
        replicas,
        statuses: TARGETS.map(|name| (name, status(&cluster, name))).into(),
        violations,
        journal,
    }
}

async fn take(cluster: &mut Cluster, step: Step) {
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

/// The status without what tells of its past: times, and that a zero was never by the autoscaler.
fn status(cluster: &Cluster, name: &str) -> Value {
    let mut status =
        cluster.testbed.hpa(name).map_or(Value::Null, |object| object["status"].clone());
    if let Some(status) = status.as_object_mut() {
        status.remove("lastScaleTime");
        // How often the spec was edited is the same, but a status may be of a decision on an earlier one.
        status.remove("observedGeneration");
    }
    let mut conditions: Vec<Value> = status["conditions"].as_array().cloned().unwrap_or_default();
    conditions
        .retain(|condition| condition["type"] != "ScaledToZero" || condition["status"] == "True");
    // Nothing is written of limits while nothing is decided: what there is comes from before.
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
