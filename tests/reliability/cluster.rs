//! A cluster with three autoscalers, users and the controller under test, in virtual time.

use std::{sync::Arc, time::Duration};

use hpa_calc::settings::Settings;
use hpa_controller::{
    Clock, Dependencies, Options, RunError, Telemetry,
    k8s::{ClientLimits, Clients},
    leader_election::Election,
};
use hpa_test_harness::{RunningController, TestbedExt, VirtualClock, election, objects};
use hpa_testbed::{Config, Faults, Testbed};
use jiff::SignedDuration;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    MAX, NAMESPACE, PERIOD, WINDOW,
    journal::{Actor, Journal},
    random::CONTROLLER,
    workloads::{self, Loads, Metrics},
};

/// The targets. `web` is scaled by CPU, `api` by a pods metric and with a behavior, `jobs` by an
/// external metric and down to zero.
pub(crate) const TARGETS: [&str; 3] = ["web", "api", "jobs"];

/// Deadline of a scaling: a stabilization window and some periods.
const SCALING_LIMIT: Duration = Duration::from_mins(5);

pub(crate) struct Cluster {
    pub(crate) testbed: Testbed,
    pub(crate) clock: VirtualClock,
    pub(crate) controller_clock: VirtualClock,
    pub(crate) loads: Arc<Loads>,
    pub(crate) journal: Arc<Journal>,
    /// Metrics of the controller that was started last.
    pub(crate) telemetry: Arc<Telemetry>,
    controller: Option<RunningController>,
    /// A second controller, which waits for the lease.
    standby: Option<RunningController>,
    tasks: JoinSet<()>,
}

impl Cluster {
    /// A cluster without faults, whose controller has just started.
    pub(crate) fn start() -> Self {
        Self::start_with(Config::default())
    }

    /// A cluster whose API server has these faults.
    pub(crate) fn with_faults(faults: &Faults) -> Self {
        Self::start_with(Config {
            interceptor: Some(Arc::new(faults.clone())),
            ..Config::default()
        })
    }

    pub(crate) fn start_with(config: Config) -> Self {
        let clock = VirtualClock::start();
        let (loads, journal) = (Loads::new(clock.clone()), Journal::new(clock.clone()));
        let server_clock = clock.clone();
        let testbed = Testbed::new(Config {
            metrics: Some(Arc::new(Metrics(loads.clone()))),
            listener: Some(journal.clone()),
            clock: Arc::new(move || server_clock.now()),
            ..config
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(workloads::run(testbed.clone(), journal.clone()));
        let controller_clock = clock.fork();
        let mut cluster = Self {
            testbed,
            clock,
            controller_clock,
            loads,
            journal,
            telemetry: Arc::default(),
            controller: None,
            standby: None,
            tasks,
        };
        cluster.apply(objects::namespace());
        for target in TARGETS {
            cluster.loads.set(target, 2);
            cluster.apply(objects::deployment(target, 2));
            cluster.apply(hpa(target));
        }
        cluster.start_controller();
        cluster
    }

    /// Sets the load of all targets from now on.
    pub(crate) fn load_all(&self, load: i64) {
        for target in TARGETS {
            self.loads.set(target, load);
        }
    }

    /// Applies an object as a user.
    pub(crate) fn apply(&self, object: Value) -> Value {
        self.journal.acting(Actor::User, || self.testbed.apply(object)).expect("a valid object")
    }

    /// Changes an object as a user, if it exists.
    pub(crate) fn edit(&self, object: Option<Value>, change: impl FnOnce(&mut Value)) {
        if let Some(mut object) = object {
            change(&mut object);
            self.apply(object);
        }
    }

    /// Scales as a user.
    pub(crate) fn scale(&self, name: &str, replicas: i64) {
        self.edit(self.testbed.deployment(name), |object| {
            object["spec"]["replicas"] = replicas.into();
        });
    }

    pub(crate) fn delete(&self, api_version: &str, kind: &str, name: &str) {
        // It may not exist.
        _ = self
            .journal
            .acting(Actor::User, || self.testbed.delete(api_version, kind, NAMESPACE, name));
    }

    pub(crate) fn start_controller(&mut self) {
        self.controller = Some(self.controller(CONTROLLER, None));
    }

    /// Starts a controller with leader election, which stores its history for the next leader. Its
    /// client name is its identity.
    pub(crate) fn start_elected(&mut self, identity: &str) {
        self.controller = Some(self.controller(identity, Some(self.election(identity))));
    }

    /// Starts a second controller, which waits for the lease.
    pub(crate) fn start_standby(&mut self, identity: &str) {
        self.standby = Some(self.controller(identity, Some(self.election(identity))));
    }

    fn election(&self, identity: &str) -> Election {
        election(self.testbed.client_named(identity), NAMESPACE, identity)
    }

    fn controller(&mut self, client_name: &str, election: Option<Election>) -> RunningController {
        let options = options();
        let limits =
            ClientLimits { request_timeout: options.request_timeout, ..ClientLimits::default() };
        let clients = Clients::from_service(self.testbed.service_named(client_name), &limits);
        self.telemetry = Arc::default();
        let dependencies = Dependencies {
            clock: Arc::new(self.controller_clock.clone()),
            observer: self.journal.clone(),
            election,
            ..Dependencies::with_telemetry(clients, &options, self.telemetry.clone())
        };
        RunningController::start(dependencies, options)
    }

    /// Stops the controller as SIGKILL does, in the middle of whatever it is doing.
    pub(crate) async fn kill_controller(&mut self) {
        if let Some(controller) = self.controller.take() {
            controller.kill().await;
        }
    }

    /// Stops the controller as SIGTERM does.
    pub(crate) async fn stop_controller(&mut self) {
        if let Some(controller) = self.controller.take() {
            controller.stop().await;
        }
    }

    /// Whether a controller is running: the first or the standby.
    pub(crate) fn is_controlled(&self) -> bool {
        self.controller.iter().chain(&self.standby).any(|controller| !controller.is_finished())
    }

    /// Whether the first controller has exited on its own.
    pub(crate) fn has_exited(&self) -> bool {
        self.controller.as_ref().is_some_and(RunningController::is_finished)
    }

    /// Waits until the first controller exits on its own.
    pub(crate) async fn exited(&mut self) -> Result<(), RunError> {
        self.controller.take().expect("a controller").exited().await
    }

    pub(crate) async fn sleep(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// Waits for `spec.replicas` of a target, with a precision of a millisecond.
    pub(crate) async fn scaled_to(&self, name: &str, replicas: i64) {
        let start = self.clock.age();
        while self.testbed.replicas(name) != replicas {
            let waited = self.clock.age().saturating_sub(start);
            assert!(waited < SCALING_LIMIT, "{name} is not scaled to {replicas}");
            self.sleep(Duration::from_millis(1)).await;
        }
    }

    /// `spec.replicas` of all targets.
    pub(crate) fn all_replicas(&self) -> [i64; 3] {
        TARGETS.map(|name| self.testbed.replicas(name))
    }

    /// Kills the controllers and stops all tasks.
    pub(crate) async fn shut_down(mut self) {
        self.kill_controller().await;
        self.controller = self.standby.take();
        self.kill_controller().await;
        self.tasks.shutdown().await;
    }

    /// Waits until the cluster has this age.
    pub(crate) async fn until(&self, age: Duration) {
        self.clock.until(age).await;
    }
}

fn options() -> Options {
    let window = SignedDuration::try_from(WINDOW).expect("a duration in range");
    let settings =
        Settings::default().with_downscale_stabilization(window).with_strict_scale_to_zero(true);
    Options { settings, sync_period: PERIOD, ..hpa_test_harness::options() }
}

/// The autoscaler of one of the [`TARGETS`]. Other targets scale like `jobs`, but not to zero.
pub(crate) fn hpa(name: &str) -> Value {
    let (min, metric) = match name {
        "web" => (1, objects::cpu_metric(50)),
        "api" => (1, objects::pods_metric("requests", "10")),
        name => (i32::from(name != "jobs"), objects::external_metric(name, "10")),
    };
    let mut object = objects::hpa(name, min..=MAX, [metric]);
    if name == "api" {
        // As fast as needed, so that later comparisons don't depend on rate limits.
        let policies = json!([{ "type": "Pods", "value": MAX, "periodSeconds": 15 }]);
        object["spec"]["behavior"] = json!({
            "scaleUp": { "stabilizationWindowSeconds": 0, "policies": policies },
            "scaleDown": { "stabilizationWindowSeconds": 45, "policies": policies },
        });
    }
    object
}
