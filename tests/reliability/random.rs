//! Runs that a seed draws: loads and users do the same in two worlds, of which one has faults too.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use fastrand::Rng;
use hpa_testbed::{Effect, Fault, Faults, Match, Restart};
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::{
    MAX, PERIOD, WINDOW,
    invariants::violations,
    world::{TARGETS, World, autoscaler, deployment},
};

/// When loads and users begin to change things, and when they leave off.
const BUSY: [u64; 2] = [60, 240];
/// When the faults end: all that was before the load's last change has left every window by then.
const CALM: Duration = Duration::from_secs(BUSY[1] + 120 + WINDOW.as_secs());
/// The name of the controller to the API server.
pub(crate) const CONTROLLER: &str = "controller";

/// Something that happens at a time.
#[derive(Clone, Debug)]
enum Step {
    Load(&'static str, i64),
    Scale(&'static str, i64),
    Max(&'static str, i64),
    Min(&'static str, i64),
    /// The target changes in something else.
    Touch(&'static str),
    RecreateAutoscaler(&'static str),
    RecreateTarget(&'static str, i64),
    Kill,
    Stop,
    Start,
    RestartApi(Duration),
    Compact,
    Skew(SignedDuration),
}

/// What happens in a run; the same for the same seed.
struct Plan {
    seed: u64,
    /// In both worlds.
    life: Vec<(Duration, Step)>,
    /// In the one with faults.
    trouble: Vec<(Duration, Step)>,
    faults: Vec<Fault>,
}

impl Plan {
    /// Whether a controller starts on the way. It holds what it finds for a window, and faults may keep it from finding
    /// anything until they end.
    fn has_restart(&self) -> bool {
        self.trouble.iter().any(|(_, step)| matches!(step, Step::Start))
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, steps) in [("life", &self.life), ("trouble", &self.trouble)] {
            for (at, step) in steps {
                writeln!(f, "  {what} at {at:?}: {step:?}")?;
            }
        }
        self.faults.iter().try_for_each(|fault| writeln!(f, "  {fault:?}"))
    }
}

fn plan(seed: u64) -> Plan {
    let mut rng = Rng::with_seed(seed);
    let mut life = Vec::new();
    for _ in 0..rng.usize(3..12) {
        life.push((at(&mut rng, BUSY), change(&mut rng)));
    }
    let mut trouble = Vec::new();
    for _ in 0..rng.usize(0..3) {
        trouble.extend(accident(&mut rng));
    }
    let faults = (0..rng.usize(1..7)).map(|_| fault(&mut rng)).collect();
    life.sort_by_key(|(at, _)| *at);
    trouble.sort_by_key(|(at, _)| *at);
    Plan { seed, life, trouble, faults }
}

fn at(rng: &mut Rng, [from, to]: [u64; 2]) -> Duration {
    Duration::from_millis(rng.u64(from * 1000..to * 1000))
}

fn change(rng: &mut Rng) -> Step {
    let name = TARGETS[rng.usize(..TARGETS.len())];
    let max = i64::from(MAX);
    match rng.u8(..16) {
        0..8 => Step::Load(name, rng.i64(i64::from(name != "jobs")..=max)),
        8 => Step::Max(name, rng.i64(4..=max)),
        9 => Step::Min(name, rng.i64(1..=3)),
        10 => Step::RecreateAutoscaler(name),
        11 => Step::RecreateTarget(name, rng.i64(1..=max)),
        12 => Step::Touch(name),
        // Whether a zero by hand is a pause depends on who was first where an autoscaler goes there on its own.
        _ => Step::Scale(name, rng.i64(i64::from(name == "jobs")..=max)),
    }
}

/// What needs more than one request to go wrong.
fn accident(rng: &mut Rng) -> Vec<(Duration, Step)> {
    // A controller that starts holds what it finds for a window.
    let last_start = CALM.as_secs() - WINDOW.as_secs() - 2 * PERIOD.as_secs();
    let begin = at(rng, [BUSY[0], last_start - 60]);
    match rng.u8(..5) {
        0 => {
            let end = if rng.bool() { Step::Kill } else { Step::Stop };
            vec![(begin, end), (begin + Duration::from_millis(rng.u64(..60_000)), Step::Start)]
        }
        1 => vec![(begin, Step::RestartApi(Duration::from_millis(rng.u64(..45_000))))],
        2 => vec![(begin, Step::Compact)],
        _ => {
            let skew = SignedDuration::from_secs(rng.i64(-4000..4000));
            let end = begin + Duration::from_secs(rng.u64(1..90));
            vec![(begin, Step::Skew(skew)), (end, Step::Skew(SignedDuration::ZERO))]
        }
    }
}

/// A fault of the API for a time, for the controller only.
fn fault(rng: &mut Rng) -> Fault {
    let (matching, effect) = match rng.u8(..10) {
        0..5 => (request(rng), failure(rng)),
        5 => (watches(rng), broken_watch(rng)),
        6 | 7 => malformed(rng),
        8 => {
            let groups =
                ["metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io", "apps", "autoscaling"];
            (Match::any(), Effect::MissingGroup { group: groups[rng.usize(..groups.len())].to_owned() })
        }
        // A single object is never stale: an API server reads it from its store, or waits for its cache.
        _ => (Match::verb("list"), Effect::Stale { revisions: rng.u64(1..20) }),
    };
    let from = at(rng, [BUSY[0], CALM.as_secs() - 1]);
    let until = (from + Duration::from_millis(rng.u64(1..150_000))).min(CALM);
    let trigger = Fault::on(matching.client(CONTROLLER)).from(from).until(until);
    let trigger = match rng.u8(..5) {
        0 => trigger.probability(rng.f64()),
        1 => trigger.first(rng.u64(1..6)),
        2 => trigger.every(rng.u64(2..5)),
        3 => trigger.nth(rng.u64(1..8)),
        _ => trigger,
    };
    trigger.effect(effect)
}

fn request(rng: &mut Rng) -> Match {
    let scale = |verb| Match::verb(verb).subresource("scale");
    let of = |resource, verb| Match::verb(verb).resource(resource);
    match rng.u8(..12) {
        0 => Match::any(),
        1 => scale("get"),
        2 | 3 => scale("update"),
        4 => of("horizontalpodautoscalers", "get"),
        5 | 6 => of("horizontalpodautoscalers", "patch"),
        7 => of("horizontalpodautoscalers", "list"),
        8 => Match::verb("list").group("").resource("pods"),
        9 => Match::any().group("metrics.k8s.io"),
        10 => Match::any().group("custom.metrics.k8s.io"),
        _ => Match::any().group("external.metrics.k8s.io"),
    }
}

fn failure(rng: &mut Rng) -> Effect {
    match rng.u8(..14) {
        0 => Effect::Conflict,
        1 => Effect::Expired,
        2 => Effect::TooManyRequests { retry_after_seconds: rng.bool().then(|| rng.u32(..20)) },
        3 => Effect::InternalError,
        4 => Effect::ServiceUnavailable,
        5 => Effect::Timeout,
        6 => Effect::Html { code: if rng.bool() { 502 } else { 200 } },
        7 => Effect::Disconnect { applied: rng.bool() },
        8 => Effect::LostAnswer,
        9 | 10 => Effect::Slow { by: Duration::from_millis(rng.u64(1..30_000)) },
        11 => Effect::Stall,
        12 => Effect::HalfBody,
        _ => Effect::Status {
            code: 403,
            reason: "Forbidden".into(),
            message: "no".into(),
            retry_after_seconds: None,
        },
    }
}

fn watches(rng: &mut Rng) -> Match {
    let watches = Match::verb("watch");
    match rng.u8(..3) {
        0 => watches,
        1 => watches.resource("pods"),
        _ => watches.resource("horizontalpodautoscalers"),
    }
}

fn broken_watch(rng: &mut Rng) -> Effect {
    let after = rng.usize(..4);
    match rng.u8(..5) {
        0 => Effect::DropWatch { after },
        1 => Effect::HalfEvent { after },
        2 => Effect::Expired,
        3 => Effect::TooManyRequests { retry_after_seconds: Some(1) },
        _ => Effect::SilentWatch { after },
    }
}

fn malformed(rng: &mut Rng) -> (Match, Effect) {
    let reads = Match::verbs(["get", "list", "watch"]);
    let kinds: [(Match, &[(&str, Value)]); 6] = [
        (
            reads.clone().resource("horizontalpodautoscalers"),
            &[
                ("/spec/maxReplicas", json!("many")),
                ("/metadata", json!(null)),
                ("/status/conditions", json!(7)),
            ],
        ),
        (
            reads.clone().group("").resource("pods"),
            &[
                ("/spec/containers/0/resources/requests/cpu", json!("much")),
                ("/metadata/name", json!(null)),
                ("/status/conditions", json!("none")),
            ],
        ),
        (
            reads.clone().subresource("scale"),
            &[("/spec/replicas", json!("two")), ("/status/selector", json!(null))],
        ),
        (
            reads.clone().group("metrics.k8s.io"),
            &[
                ("/containers/0/usage/cpu", json!("warm")),
                ("/containers/0/usage", json!(null)),
                ("/metadata/name", json!(5)),
                ("/timestamp", json!("yesterday")),
            ],
        ),
        (
            reads.clone().group("custom.metrics.k8s.io"),
            &[("/value", json!("")), ("/describedObject", json!(null))],
        ),
        (reads.group("external.metrics.k8s.io"), &[("/value", json!([])), ("/metricName", json!(1))]),
    ];
    let (matching, members) = &kinds[rng.usize(..kinds.len())];
    let (pointer, value) = &members[rng.usize(..members.len())];
    let object = String::new();
    (matching.clone(), Effect::Malformed { object, pointer: (*pointer).to_owned(), value: value.clone() })
}

/// What became of a world.
#[derive(Debug, PartialEq)]
struct End {
    /// Two periods after the faults.
    replicas: BTreeMap<&'static str, i64>,
    /// A window later.
    statuses: BTreeMap<&'static str, Value>,
    violations: Vec<String>,
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
            "two periods after the faults {:?}, without them {:?}",
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
        Ok(())
    } else {
        Err(format!("seed {}:\n  {}\n{plan}", plan.seed, wrong.join("\n  ")))
    }
}

fn in_virtual_time<T>(run: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime").block_on(run)
}

async fn live(plan: &Plan, has_faults: bool) -> End {
    let faults = Faults::new(plan.seed);
    let mut world = World::start(|_, config| hpa_testbed::Config {
        interceptor: Some(Arc::new(faults.clone())),
        ..config
    });
    let mut steps = plan.life.clone();
    if has_faults {
        plan.faults.iter().for_each(|fault| _ = faults.add(fault.clone()));
        steps.extend(plan.trouble.iter().cloned());
    }
    steps.sort_by_key(|(at, _)| *at);
    for (at, step) in steps {
        world.until(at).await;
        take(&mut world, step).await;
    }
    world.until(CALM).await;
    faults.clear();
    let held = if plan.has_restart() { WINDOW } else { Duration::ZERO };
    world.until(CALM + held + 2 * PERIOD).await;
    let replicas = TARGETS.map(|name| (name, world.replicas(name))).into();
    world.until(CALM + held + 4 * PERIOD + WINDOW).await;
    if has_faults && std::env::var_os("RELIABILITY_SEED").is_some() {
        world.journal.print();
    }
    let mut violations = violations(&world);
    if !world.is_controlled() {
        violations.push("the controller has ended".to_owned());
    }
    End { replicas, statuses: TARGETS.map(|name| (name, status(&world, name))).into(), violations }
}

async fn take(world: &mut World, step: Step) {
    match step {
        Step::Load(name, load) => world.loads.set(name, load),
        Step::Scale(name, replicas) => world.scale(name, replicas),
        Step::Max(name, max) => {
            world.edit(world.autoscaler(name), |object| object["spec"]["maxReplicas"] = max.into())
        }
        Step::Min(name, min) => {
            world.edit(world.autoscaler(name), |object| object["spec"]["minReplicas"] = min.into())
        }
        Step::Touch(name) => world.edit(world.deployment(name), |object| {
            object["metadata"]["annotations"] =
                json!({ "touched": world.clock.age().as_millis().to_string() });
        }),
        Step::RecreateAutoscaler(name) => {
            world.delete("autoscaling/v2", "HorizontalPodAutoscaler", name);
            world.apply(autoscaler(name));
        }
        Step::RecreateTarget(name, replicas) => {
            world.delete("apps/v1", "Deployment", name);
            world.apply(deployment(name, replicas));
        }
        Step::Kill => world.kill_controller().await,
        Step::Stop => world.stop_controller().await,
        Step::Start if world.is_controlled() => {}
        Step::Start => world.start_controller(),
        Step::RestartApi(down_for) => world.testbed.restart(Restart::Same, down_for),
        Step::Compact => {
            world.testbed.compact();
            world.testbed.drop_watches();
        }
        Step::Skew(by) => world.controller_clock.skew(by),
    }
}

/// The status without what tells of its past: times, and that a zero was never by the autoscaler.
fn status(world: &World, name: &str) -> Value {
    let mut status = world.autoscaler(name).map_or(Value::Null, |object| object["status"].clone());
    if let Some(status) = status.as_object_mut() {
        status.remove("lastScaleTime");
        // How often the spec was edited is the same, but a status may be of a decision on an earlier one.
        status.remove("observedGeneration");
    }
    let mut conditions: Vec<Value> = status["conditions"].as_array().cloned().unwrap_or_default();
    conditions.retain(|condition| condition["type"] != "ScaledToZero" || condition["status"] == "True");
    // Nothing is written of limits while nothing is decided: what there is comes from before.
    let is_active = |condition: &Value| condition["type"] == "ScalingActive" && condition["status"] == "True";
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
