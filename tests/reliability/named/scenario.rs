//! How a scenario is run: loads and users do the same in two worlds, of which one has faults too.

use std::{collections::BTreeMap, time::Duration};

use hpa_test_harness::TestbedExt;
use hpa_testbed::{Effect, Fault, Faults, Match, Trigger};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{
    PERIOD, RECOVERY, WINDOW,
    cluster::{Cluster, TARGETS},
    invariants::violations,
    random::CONTROLLER,
};

/// When the faults begin, and when they end. By then all that was before the last fall of the load has left its window.
pub(crate) const BEGIN: Duration = Duration::from_secs(60);
pub(crate) const END: Duration = Duration::from_secs(240);

/// A fault of the API, for the controller and as long as faults are.
pub(super) fn on(matching: Match, effect: Effect) -> Fault {
    during(matching).effect(effect)
}

/// As [`on`], for what is more than which requests and what becomes of them.
pub(super) fn during(matching: Match) -> Trigger {
    Fault::on(matching.client(CONTROLLER)).from(BEGIN).until(END)
}

/// Requests for scales.
pub(super) fn scales(verb: &str) -> Match {
    Match::verb(verb).subresource("scale")
}

/// Requests for autoscalers.
pub(super) fn autoscalers(verb: &str) -> Match {
    Match::verb(verb).resource("horizontalpodautoscalers")
}

/// Requests for pods, not for their metrics.
pub(super) fn pods(verb: &str) -> Match {
    Match::verb(verb).group("").resource("pods")
}

/// Requests for metrics.
pub(super) fn metrics() -> Match {
    Match::any()
        .group("metrics.k8s.io")
        .group("custom.metrics.k8s.io")
        .group("external.metrics.k8s.io")
}

/// How the load goes. It rises, a user scales by hand, another edits a bound, it falls; and it may rise again while there
/// still are faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Low,
    High,
}

/// Something that is done.
enum Step {
    Do(Box<dyn Fn(&Cluster)>),
    Kill,
    Stop,
    Start,
    Elect(&'static str),
    StandBy(&'static str),
}

/// What happens besides the loads of every scenario, in which there are three autoscalers.
#[derive(Default)]
pub(super) struct Scenario {
    faults: Vec<Fault>,
    /// Whether it is in the world without faults too.
    steps: Vec<(Duration, bool, Step)>,
    held: Duration,
}

impl Scenario {
    /// These faults.
    pub(super) fn of(faults: impl IntoIterator<Item = Fault>) -> Self {
        Self { faults: faults.into_iter().collect(), ..Self::default() }
    }

    /// What is done because of the faults is held for a window.
    pub(super) fn held(mut self) -> Self {
        self.held = WINDOW;
        self
    }

    /// And this fault.
    pub(super) fn fault(mut self, fault: Fault) -> Self {
        self.faults.push(fault);
        self
    }

    /// In both worlds: what users do, at so many seconds.
    pub(super) fn user(self, at: u64, act: impl Fn(&Cluster) + 'static) -> Self {
        self.step(at, true, Step::Do(Box::new(act)))
    }

    /// In the world with faults: what goes wrong at so many seconds.
    pub(super) fn trouble(self, at: u64, act: impl Fn(&Cluster) + 'static) -> Self {
        self.step(at, false, Step::Do(Box::new(act)))
    }

    /// In the world with faults: the controller is killed.
    pub(super) fn kill(self, at: u64) -> Self {
        self.step(at, false, Step::Kill)
    }

    /// In the world with faults: the controller is told to end.
    pub(super) fn stop(self, at: u64) -> Self {
        self.step(at, false, Step::Stop)
    }

    /// In the world with faults: a controller starts, which holds what it finds for a window.
    pub(super) fn start(self, at: u64) -> Self {
        self.held().step(at, false, Step::Start)
    }

    /// In the world with faults: a controller of this name starts, and works once it has the lease.
    pub(super) fn elect(self, at: u64, identity: &'static str) -> Self {
        self.step(at, false, Step::Elect(identity))
    }

    /// In the world with faults: a second controller waits for the lease.
    pub(super) fn stand_by(self, at: u64, identity: &'static str) -> Self {
        self.step(at, false, Step::StandBy(identity))
    }

    fn step(mut self, at: u64, in_both: bool, step: Step) -> Self {
        self.steps.push((Duration::from_secs(at), in_both, step));
        self.steps.sort_by_key(|(at, ..)| *at);
        self
    }

    /// Runs it, both with a load that is low in the end and with one that rises before the faults end.
    pub(super) async fn survives(self) {
        for ending in [Ending::Low, Ending::High] {
            let without = self.without_faults(ending).await;
            let with = self.live(ending, true).await;
            assert_eq!(without.violations, Vec::<String>::new(), "{ending:?}, without faults");
            assert_eq!(with.violations, Vec::<String>::new(), "{ending:?}");
            assert_eq!(with.replicas, without.replicas, "{ending:?}: soon after the faults");
            assert_eq!(with.statuses, without.statuses, "{ending:?}: a window later");
        }
    }

    /// What becomes of the world without faults: the same in all scenarios in which users do nothing of their own.
    async fn without_faults(&self, ending: Ending) -> End {
        static KNOWN: Mutex<Vec<(Ending, Duration, End)>> = Mutex::new(Vec::new());
        if self.steps.iter().any(|(_, in_both, _)| *in_both) {
            return self.live(ending, false).await;
        }
        let is_it = |known: &&(Ending, Duration, End)| known.0 == ending && known.1 == self.held;
        if let Some((.., end)) = KNOWN.lock().iter().find(is_it) {
            return end.clone();
        }
        let end = self.live(ending, false).await;
        KNOWN.lock().push((ending, self.held, end.clone()));
        end
    }

    async fn live(&self, ending: Ending, has_faults: bool) -> End {
        let faults = Faults::new(1);
        let mut cluster = Cluster::with_faults(&faults);
        let added = if has_faults { self.faults.clone() } else { Vec::new() };
        let added: Vec<_> =
            added.into_iter().map(|fault| (faults.add(fault.clone()), fault)).collect();
        let life = life(ending);
        let steps = self.steps.iter().filter(|(_, in_both, _)| *in_both || has_faults);
        let mut steps: Vec<_> = steps
            .map(|(at, _, step)| (*at, step))
            .chain(life.iter().map(|(at, step)| (*at, step)))
            .collect();
        steps.sort_by_key(|(at, _)| *at);
        for (at, step) in steps {
            cluster.until(at).await;
            take(&mut cluster, step).await;
        }
        cluster.until(END).await;
        faults.clear();
        cluster.until(END + self.held + RECOVERY).await;
        let replicas = TARGETS.map(|name| (name, cluster.testbed.replicas(name))).into();
        cluster.until(END + self.held + 4 * PERIOD + WINDOW).await;
        if has_faults && std::env::var_os("RELIABILITY_JOURNAL").is_some() {
            eprintln!("{}", cluster.journal);
        }
        let mut violations = violations(&cluster);
        let idle = added.iter().filter(|(id, _)| faults.hits(*id) == 0);
        violations.extend(idle.map(|(_, fault)| format!("met by nothing: {fault:?}")));
        if !cluster.is_controlled() {
            violations.push("the controller has ended".to_owned());
        }
        let statuses = TARGETS.map(|name| (name, status(&cluster, name))).into();
        cluster.shut_down().await;
        End { replicas, statuses, violations }
    }
}

/// What became of a world.
#[derive(Clone)]
struct End {
    /// Soon after the faults.
    replicas: BTreeMap<&'static str, i64>,
    /// A window later.
    statuses: BTreeMap<&'static str, Value>,
    violations: Vec<String>,
}

/// What happens in every scenario.
fn life(ending: Ending) -> Vec<(Duration, Step)> {
    let loads = |at, loads: [i64; 3]| {
        let set = move |cluster: &Cluster| {
            for (target, load) in TARGETS.iter().zip(loads) {
                cluster.loads.set(target, load);
            }
        };
        (Duration::from_secs(at), Step::Do(Box::new(set)))
    };
    let act = |at, act: fn(&Cluster)| (Duration::from_secs(at), Step::Do(Box::new(act)));
    let mut life = vec![
        loads(75, [6, 5, 7]),
        act(100, |cluster| cluster.scale("web", 8)),
        act(110, |cluster| {
            cluster.edit(cluster.testbed.hpa("api"), |object| {
                object["spec"]["maxReplicas"] = json!(4)
            });
        }),
        loads(120, [1, 2, 0]),
    ];
    if matches!(ending, Ending::High) {
        life.push(loads(225, [5, 4, 3]));
    }
    life
}

async fn take(cluster: &mut Cluster, step: &Step) {
    match step {
        Step::Do(act) => act(cluster),
        Step::Kill => cluster.kill_controller().await,
        Step::Stop => cluster.stop_controller().await,
        Step::Start => cluster.start_controller(),
        Step::Elect(identity) => cluster.start_elected(identity),
        Step::StandBy(identity) => cluster.start_standby(identity),
    }
}

/// What a user sees of an autoscaler, without what tells of its past.
fn status(cluster: &Cluster, name: &str) -> Value {
    let Some(object) = cluster.testbed.hpa(name) else { return Value::Null };
    let status = &object["status"];
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let is_of_now =
        |condition: &&Value| condition["type"] != "ScaledToZero" || condition["status"] == "True";
    let told = |condition: &Value| {
        let of = |member: &str| condition[member].as_str().unwrap_or_default().to_owned();
        (of("type"), json!([of("status"), of("reason"), of("message")]))
    };
    let conditions: BTreeMap<String, Value> =
        conditions.iter().filter(is_of_now).map(told).collect();
    let members = ["currentReplicas", "desiredReplicas", "currentMetrics"]
        .map(|member| status[member].clone());
    json!({ "members": members, "conditions": conditions })
}
