//! A scenario runs with faults, and without faults as the baseline. Changes of the load and by
//! users are the same in both runs.

use std::{collections::BTreeMap, time::Duration};

use hpa_testbed::{Effect, Fault, Faults, Match};
use hpa_tests::harness::TestbedExt;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{
    PERIOD, RECOVERY, WINDOW,
    cluster::{CONTROLLER, Cluster, TARGETS},
    invariants::violations,
};

/// The start of the faults.
const FAULTS_BEGIN: Duration = Duration::from_secs(60);
/// The end of the faults. Late enough that recommendations from before the drop of the load at
/// 120 s have left the stabilization windows ([`WINDOW`]).
const FAULTS_END: Duration = Duration::from_secs(240);

/// A fault that affects the controller from [`FAULTS_BEGIN`] to [`FAULTS_END`].
pub(super) fn on(matching: Match, effect: Effect) -> Fault {
    trigger_on(matching).effect(effect)
}

/// The trigger of [`on`], for more conditions.
pub(super) fn trigger_on(matching: Match) -> Fault {
    Fault::on(matching.client(CONTROLLER)).from(FAULTS_BEGIN).until(FAULTS_END)
}

pub(super) fn scales(verb: &str) -> Match {
    Match::verb(verb).subresource("scale")
}

pub(super) fn autoscalers(verb: &str) -> Match {
    Match::verb(verb).resource("horizontalpodautoscalers")
}

/// Pods, not their metrics.
pub(super) fn pods(verb: &str) -> Match {
    Match::verb(verb).group("").resource("pods")
}

pub(super) fn metrics() -> Match {
    Match::any()
        .group("metrics.k8s.io")
        .group("custom.metrics.k8s.io")
        .group("external.metrics.k8s.io")
}

/// The load at the end of a scenario, after the load has risen and dropped. With `High`, it rises
/// again before the faults end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ending {
    Low,
    High,
}

enum Step {
    Do(Box<dyn Fn(&Cluster)>),
    Kill,
    Stop,
    Start,
    StartWithElection(&'static str),
    StartStandby(&'static str),
}

/// A step at an age of the cluster.
struct TimedStep {
    at: Duration,
    is_in_baseline: bool,
    step: Step,
}

/// Faults, and the steps that are added to [`common_steps`].
#[derive(Default)]
pub(super) struct Scenario {
    faults: Vec<Fault>,
    steps: Vec<TimedStep>,
    extra_recovery: Duration,
}

impl Scenario {
    pub(super) fn with(faults: impl IntoIterator<Item = Fault>) -> Self {
        Self { faults: faults.into_iter().collect(), ..Self::default() }
    }

    /// Extends the recovery by a stabilization window, in which effects of the faults may remain.
    pub(super) fn recovers_after_a_window(mut self) -> Self {
        self.extra_recovery = WINDOW;
        self
    }

    pub(super) fn fault(mut self, fault: Fault) -> Self {
        self.faults.push(fault);
        self
    }

    /// Adds an action after `at` seconds, in both runs.
    pub(super) fn user(self, at: u64, act: impl Fn(&Cluster) + 'static) -> Self {
        self.step(at, true, Step::Do(Box::new(act)))
    }

    /// Adds an incident after `at` seconds. Incidents, and starts and ends of controllers, are not
    /// part of the baseline.
    pub(super) fn incident(self, at: u64, act: impl Fn(&Cluster) + 'static) -> Self {
        self.step(at, false, Step::Do(Box::new(act)))
    }

    pub(super) fn kill(self, at: u64) -> Self {
        self.step(at, false, Step::Kill)
    }

    pub(super) fn stop(self, at: u64) -> Self {
        self.step(at, false, Step::Stop)
    }

    /// Starts a controller without leader election. It stabilizes the current replicas for a
    /// window, so the recovery takes a window longer.
    pub(super) fn start(self, at: u64) -> Self {
        self.recovers_after_a_window().step(at, false, Step::Start)
    }

    /// Starts a controller with leader election.
    pub(super) fn start_with_election(self, at: u64, identity: &'static str) -> Self {
        self.step(at, false, Step::StartWithElection(identity))
    }

    /// Starts a second controller, which waits for the lease.
    pub(super) fn start_standby(self, at: u64, identity: &'static str) -> Self {
        self.step(at, false, Step::StartStandby(identity))
    }

    fn step(mut self, at: u64, is_in_baseline: bool, step: Step) -> Self {
        self.steps.push(TimedStep { at: Duration::from_secs(at), is_in_baseline, step });
        self
    }

    /// Runs the scenario with both endings, and compares with the baseline.
    pub(super) async fn assert_survives(self) {
        for ending in [Ending::Low, Ending::High] {
            let baseline = self.baseline(ending).await;
            let faulty = self.run(ending, true).await;
            assert_eq!(baseline.violations, Vec::<String>::new(), "{ending:?}, baseline");
            assert_eq!(faulty.violations, Vec::<String>::new(), "{ending:?}");
            assert_eq!(faulty.replicas, baseline.replicas, "{ending:?}: soon after the faults");
            assert_eq!(faulty.statuses, baseline.statuses, "{ending:?}: a window after the faults");
        }
    }

    /// The run without faults, cached for scenarios without user actions.
    async fn baseline(&self, ending: Ending) -> Outcome {
        static CACHE: Mutex<BTreeMap<(Ending, Duration), Outcome>> = Mutex::new(BTreeMap::new());
        if self.steps.iter().any(|step| step.is_in_baseline) {
            return self.run(ending, false).await;
        }
        let key = (ending, self.extra_recovery);
        if let Some(outcome) = CACHE.lock().get(&key) {
            return outcome.clone();
        }
        let outcome = self.run(ending, false).await;
        CACHE.lock().insert(key, outcome.clone());
        outcome
    }

    async fn run(&self, ending: Ending, is_faulty: bool) -> Outcome {
        let faults = Faults::new(1);
        let mut cluster = Cluster::with_faults(&faults);
        let added = if is_faulty { self.faults.as_slice() } else { &[] };
        let added: Vec<_> = added.iter().map(|fault| (faults.add(fault.clone()), fault)).collect();
        let common_steps = common_steps(ending);
        let steps = self.steps.iter().chain(&common_steps);
        let mut steps: Vec<_> = steps.filter(|step| step.is_in_baseline || is_faulty).collect();
        steps.sort_by_key(|step| step.at);
        for TimedStep { at, step, .. } in steps {
            cluster.wait_until_age(*at).await;
            apply(&mut cluster, step).await;
        }
        cluster.wait_until_age(FAULTS_END).await;
        faults.clear();
        cluster.wait_until_age(FAULTS_END + self.extra_recovery + RECOVERY).await;
        let replicas = TARGETS.map(|name| (name, cluster.testbed.replicas(name))).into();
        cluster.wait_until_age(FAULTS_END + self.extra_recovery + 4 * PERIOD + WINDOW).await;
        if is_faulty && std::env::var_os("RELIABILITY_JOURNAL").is_some() {
            eprintln!("{}", cluster.journal);
        }
        let mut violations = violations(&cluster);
        let untriggered = added.iter().filter(|(id, _)| faults.hits(*id) == 0);
        violations.extend(untriggered.map(|(_, fault)| format!("never triggered: {fault:?}")));
        if !cluster.has_running_controller() {
            violations.push("the controller has exited".to_owned());
        }
        let statuses = TARGETS.map(|name| (name, status(&cluster, name))).into();
        cluster.shut_down().await;
        Outcome { replicas, statuses, violations }
    }
}

/// The result of a run.
#[derive(Clone)]
struct Outcome {
    /// After [`RECOVERY`].
    replicas: BTreeMap<&'static str, i64>,
    /// Four periods and a window after the faults.
    statuses: BTreeMap<&'static str, Value>,
    violations: Vec<String>,
}

/// The steps that all scenarios share.
fn common_steps(ending: Ending) -> Vec<TimedStep> {
    let set_loads = |loads: [i64; 3]| {
        move |cluster: &Cluster| {
            for (target, load) in TARGETS.iter().zip(loads) {
                cluster.loads.set(target, load);
            }
        }
    };
    let scenario = Scenario::default()
        .user(75, set_loads([6, 5, 7]))
        .user(100, |cluster| cluster.scale("web", 8))
        .user(110, |cluster| {
            cluster.edit(cluster.testbed.hpa("api"), |object| {
                object["spec"]["maxReplicas"] = json!(4);
            });
        })
        .user(120, set_loads([1, 2, 0]));
    match ending {
        Ending::Low => scenario.steps,
        Ending::High => scenario.user(225, set_loads([5, 4, 3])).steps,
    }
}

async fn apply(cluster: &mut Cluster, step: &Step) {
    match step {
        Step::Do(act) => act(cluster),
        Step::Kill => cluster.kill_controller().await,
        Step::Stop => cluster.stop_controller().await,
        Step::Start => cluster.start_controller(),
        Step::StartWithElection(identity) => cluster.start_with_election(identity),
        Step::StartStandby(identity) => cluster.start_standby(identity),
    }
}

/// The status of an autoscaler without traces of its past, such as times.
fn status(cluster: &Cluster, name: &str) -> Value {
    let Some(object) = cluster.testbed.hpa(name) else { return Value::Null };
    let status = &object["status"];
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let is_current =
        |condition: &&Value| condition["type"] != "ScaledToZero" || condition["status"] == "True";
    let text = |condition: &Value| {
        let member = |name: &str| condition[name].as_str().unwrap_or_default().to_owned();
        (member("type"), json!([member("status"), member("reason"), member("message")]))
    };
    let conditions: BTreeMap<String, Value> =
        conditions.iter().filter(is_current).map(text).collect();
    let members = ["currentReplicas", "desiredReplicas", "currentMetrics"]
        .map(|member| status[member].clone());
    json!({ "members": members, "conditions": conditions })
}
