//! A cluster with autoscalers, users and the controller under test, in virtual time.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use hpa_calc::settings::Settings;
use hpa_controller::{
    Clock, Dependencies, Options, RunError, Telemetry,
    forecast::ForecastSource,
    k8s::{ClientLimits, Clients},
};
use hpa_lease::Election;
use hpa_testbed::{Config, Faults, Restart, Testbed};
use hpa_tests::harness::{RunningController, TestbedExt, VirtualClock, election, objects};
use jiff::SignedDuration;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::{
    NAMESPACE, PERIOD, WINDOW,
    journal::{Actor, Journal},
    targets::{Id, Kind, Target, fleet_definition},
    workloads::{Delays, Loads, Metrics, Workloads},
};

/// The client name of a controller without leader election.
pub(crate) const CONTROLLER: &str = "controller";

/// The targets of named scenarios. `web` is scaled by CPU, `api` by a pods metric and with a
/// behavior, `jobs` by an external metric and down to zero.
pub(crate) const TARGETS: [&str; 3] = ["web", "api", "jobs"];

/// Deadline of a scaling: a stabilization window and some periods.
const SCALING_LIMIT: Duration = Duration::from_mins(5);

/// The settings of a cluster.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) targets: Vec<Target>,
    pub(crate) delays: Delays,
    pub(crate) workers: usize,
    /// Whether two instances run with leader election, instead of one without.
    pub(crate) has_leader_election: bool,
}

impl Default for Shape {
    fn default() -> Self {
        let targets = TARGETS.map(Target::in_shop).into();
        Self { targets, delays: Delays::default(), workers: 2, has_leader_election: false }
    }
}

/// A controller under test.
struct Instance {
    name: String,
    controller: RunningController,
}

pub(crate) struct Cluster {
    pub(crate) testbed: Testbed,
    pub(crate) shape: Shape,
    pub(crate) clock: VirtualClock,
    pub(crate) controller_clock: VirtualClock,
    pub(crate) loads: Arc<Loads>,
    pub(crate) journal: Arc<Journal>,
    forecasts: ForecastSource,
    /// The metrics of the last started controller.
    pub(crate) telemetry: Arc<Telemetry>,
    controller: Option<Instance>,
    /// A second controller, which waits for the lease when it starts.
    standby: Option<Instance>,
    /// The number of instances with leader election that were started.
    election_instance_count: usize,
    /// See [`Workloads::is_restored`].
    is_restored: Arc<AtomicBool>,
    tasks: JoinSet<()>,
}

/// A cluster that has been running for a minute without faults, and the handle to add faults.
pub(crate) async fn running_cluster() -> (Cluster, Faults) {
    let faults = Faults::new(1);
    let cluster = Cluster::with_faults(&faults);
    cluster.wait_until_age(Duration::from_secs(61)).await;
    (cluster, faults)
}

impl Cluster {
    /// A cluster without faults, whose controller has just started.
    pub(crate) fn start() -> Self {
        Self::start_with(Config::default())
    }

    /// A cluster whose API server has these faults.
    pub(crate) fn with_faults(faults: &Faults) -> Self {
        Self::with_shape(faults, Shape::default())
    }

    pub(crate) fn with_shape(faults: &Faults, shape: Shape) -> Self {
        let interceptor = Some(Arc::new(faults.clone()) as Arc<_>);
        Self::build(Config { interceptor, ..Config::default() }, shape, ForecastSource::default())
    }

    pub(crate) fn start_with(config: Config) -> Self {
        Self::build(config, Shape::default(), ForecastSource::default())
    }

    /// A cluster without faults, whose controller reads past loads for forecasts from this source.
    pub(crate) fn with_forecasts(forecasts: ForecastSource) -> Self {
        Self::build(Config::default(), Shape::default(), forecasts)
    }

    fn build(config: Config, shape: Shape, forecasts: ForecastSource) -> Self {
        let clock = VirtualClock::start();
        let loads = Loads::new(clock.clone(), shape.delays.metrics);
        let journal = Journal::new(clock.clone());
        let server_clock = clock.clone();
        let testbed = Testbed::new(Config {
            metrics: Some(Arc::new(Metrics(loads.clone()))),
            listener: Some(journal.clone()),
            interceptor: Some(journal.record_requests(config.interceptor)),
            clock: Arc::new(move || server_clock.now()),
            ..config
        });
        let is_restored: Arc<AtomicBool> = Arc::default();
        let workloads = Workloads {
            is_restored: is_restored.clone(),
            testbed: testbed.clone(),
            journal: journal.clone(),
            loads: loads.clone(),
            clock: clock.clone(),
            delays: shape.delays,
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(workloads.run());
        let controller_clock = clock.fork();
        let mut cluster = Self {
            testbed,
            shape,
            clock,
            controller_clock,
            loads,
            journal,
            forecasts,
            telemetry: Arc::default(),
            controller: None,
            standby: None,
            election_instance_count: 0,
            is_restored,
            tasks,
        };
        cluster.create_objects();
        if cluster.shape.has_leader_election {
            cluster.start_missing_instances();
        } else {
            cluster.start_controller();
        }
        cluster
    }

    fn create_objects(&self) {
        let targets = &self.shape.targets;
        let namespaces: BTreeSet<&str> =
            targets.iter().map(|target| target.id.namespace.as_str()).collect();
        for name in namespaces {
            let mut namespace = objects::namespace();
            namespace["metadata"]["name"] = name.into();
            self.apply(namespace);
        }
        if targets.iter().any(|target| target.kind == Kind::Fleet) {
            self.apply(fleet_definition());
        }
        for target in targets {
            self.loads.set_of(&target.id, 2);
            self.apply(target.workload(2));
            self.apply(target.autoscaler());
        }
    }

    /// Sets the load of all [`TARGETS`] from now on.
    pub(crate) fn set_all_loads(&self, load: i64) {
        for target in TARGETS {
            self.loads.set(target, load);
        }
    }

    /// Applies an object as a user.
    pub(crate) fn apply(&self, object: Value) -> Value {
        self.journal.act_as(Actor::User, || self.testbed.apply(object)).expect("a valid object")
    }

    /// Changes an object as a user. `None` is ignored.
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
        self.delete_in(api_version, kind, &Id::in_shop(name));
    }

    pub(crate) fn delete_in(&self, api_version: &str, kind: &str, id: &Id) {
        let Id { namespace, name } = id;
        // The object may not exist.
        _ = self
            .journal
            .act_as(Actor::User, || self.testbed.delete(api_version, kind, namespace, name));
    }

    /// The target of an autoscaler, as stored.
    pub(crate) fn workload(&self, target: &Target) -> Option<Value> {
        let (api_version, kind) = (target.kind.api_version(), target.kind.name());
        self.testbed.get(api_version, kind, &target.id.namespace, &target.id.name)
    }

    /// `spec.replicas` of a target; -1 if it doesn't exist.
    pub(crate) fn replicas(&self, target: &Target) -> i64 {
        let workload = self.workload(target);
        workload.map_or(-1, |object| object["spec"]["replicas"].as_i64().unwrap_or(1))
    }

    pub(crate) fn autoscaler(&self, target: &Target) -> Option<Value> {
        let Id { namespace, name } = &target.id;
        self.testbed.get("autoscaling/v2", "HorizontalPodAutoscaler", namespace, name)
    }

    /// Restarts the API server with another state.
    pub(crate) fn restart(&self, state: Restart, down_for: Duration) {
        self.testbed.restart(state, down_for);
        self.is_restored.store(true, Ordering::Relaxed);
        self.journal.target_changes.notify_one();
    }

    /// Ends all watches, and makes them restart from expired resource versions.
    pub(crate) fn expire_watches(&self) {
        self.testbed.compact();
        self.testbed.end_watches();
    }

    /// Other clients write objects that no controller reads, until this resource version is in use.
    pub(crate) fn write_elsewhere_until(&self, version: u64) {
        while self.testbed.resource_version() < version {
            let mut other = objects::namespace();
            other["metadata"]["name"] = "elsewhere".into();
            let count = self.testbed.resource_version().to_string();
            other["metadata"]["annotations"] = serde_json::json!({ "count": count });
            self.apply(other);
        }
    }

    pub(crate) fn start_controller(&mut self) {
        self.controller = Some(self.start_instance(CONTROLLER, None));
    }

    /// Starts a controller with leader election, which stores its history for the next leader. Its
    /// client name is its identity.
    pub(crate) fn start_with_election(&mut self, identity: &str) {
        self.controller = Some(self.start_instance(identity, Some(self.election(identity))));
    }

    /// Starts a second controller, which waits for the lease.
    pub(crate) fn start_standby(&mut self, identity: &str) {
        self.standby = Some(self.start_instance(identity, Some(self.election(identity))));
    }

    /// Starts each of the two instances that is not running, like the kubelet. New instances have
    /// new identities.
    pub(crate) fn start_missing_instances(&mut self) {
        let is_running =
            |instance: &Option<Instance>| instance.as_ref().is_some_and(Instance::is_running);
        if !is_running(&self.controller) {
            self.record_end(self.controller.as_ref());
            let identity = self.next_identity();
            self.start_with_election(&identity);
        }
        if !is_running(&self.standby) {
            self.record_end(self.standby.as_ref());
            let identity = self.next_identity();
            self.start_standby(&identity);
        }
    }

    fn next_identity(&mut self) -> String {
        self.election_instance_count += 1;
        identity(self.election_instance_count)
    }

    fn record_end(&self, instance: Option<&Instance>) {
        if let Some(instance) = instance {
            self.journal.record_end(&instance.name);
        }
    }

    fn election(&self, identity: &str) -> Election {
        election(self.testbed.client_named(identity), NAMESPACE, identity)
    }

    /// Like [`Self::start_with_election`], with the given clients.
    pub(crate) fn start_with_election_and_clients(&mut self, clients: Clients, identity: &str) {
        let election = Some(self.election(identity));
        self.controller = Some(self.start_instance_with(clients, identity, election));
    }

    fn start_instance(&mut self, name: &str, election: Option<Election>) -> Instance {
        let service = self.testbed.service_named(name);
        self.start_instance_with(Clients::from_service(service, &client_limits()), name, election)
    }

    fn start_instance_with(
        &mut self,
        clients: Clients,
        name: &str,
        election: Option<Election>,
    ) -> Instance {
        let options = Options { workers: self.shape.workers, ..options() };
        self.telemetry = Arc::default();
        let dependencies = Dependencies {
            clock: Arc::new(self.controller_clock.clone()),
            observer: self.journal.observer(name),
            election,
            forecasts: self.forecasts.clone(),
            ..Dependencies::with_telemetry(clients, &options, self.telemetry.clone(), false, None)
        };
        self.journal.record_start(name);
        let controller = RunningController::start(dependencies, options);
        Instance { name: name.to_owned(), controller }
    }

    /// Kills the controller at once, like SIGKILL.
    pub(crate) async fn kill_controller(&mut self) {
        if let Some(instance) = self.controller.take() {
            self.journal.record_end(&instance.name);
            instance.controller.kill().await;
        }
    }

    /// Stops the controller, like SIGTERM. An elected one may have lost the lease.
    pub(crate) async fn stop_controller(&mut self) {
        if let Some(instance) = self.controller.take() {
            let outcome = instance.controller.terminate().await;
            let has_lost_lease =
                self.shape.has_leader_election && matches!(outcome, Err(RunError::LeadershipLost));
            if !has_lost_lease {
                outcome.expect("an orderly shutdown");
            }
            self.journal.record_end(&instance.name);
        }
    }

    /// Whether the first controller or the standby is running.
    pub(crate) fn has_running_controller(&self) -> bool {
        self.controller.iter().chain(&self.standby).any(Instance::is_running)
    }

    /// Whether the first controller has exited on its own.
    pub(crate) fn has_exited(&self) -> bool {
        self.controller.as_ref().is_some_and(|instance| !instance.is_running())
    }

    /// Waits until the first controller exits on its own.
    pub(crate) async fn wait_for_exit(&mut self) -> Result<(), RunError> {
        self.controller.take().expect("a controller").controller.wait_for_exit().await
    }

    pub(crate) async fn sleep(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// Waits for `spec.replicas` of a target, with a precision of a millisecond.
    pub(crate) async fn wait_for_replicas(&self, name: &str, replicas: i64) {
        let start = self.clock.age();
        while self.testbed.replicas(name) != replicas {
            let waited = self.clock.age().saturating_sub(start);
            assert!(waited < SCALING_LIMIT, "{name} is not scaled to {replicas}");
            self.sleep(Duration::from_millis(1)).await;
        }
    }

    /// `spec.replicas` of all [`TARGETS`].
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
    pub(crate) async fn wait_until_age(&self, age: Duration) {
        self.clock.wait_until_age(age).await;
    }
}

impl Instance {
    fn is_running(&self) -> bool {
        !self.controller.is_finished()
    }
}

/// The identity of the nth elected instance.
pub(crate) fn identity(number: usize) -> String {
    format!("instance-{number}")
}

pub(crate) fn client_limits() -> ClientLimits {
    ClientLimits { request_timeout: options().request_timeout, ..ClientLimits::default() }
}

fn options() -> Options {
    let window = SignedDuration::try_from(WINDOW).expect("a duration in range");
    let settings = Settings::default().with(|settings| {
        settings.downscale_stabilization = window;
        settings.strict_scale_to_zero = true;
    });
    Options { settings, sync_period: PERIOD, ..hpa_tests::harness::controller_options() }
}

/// The autoscaler of one of the [`TARGETS`]. Other targets scale like `jobs`, but not to zero.
pub(crate) fn hpa(name: &str) -> Value {
    Target::in_shop(name).autoscaler()
}
