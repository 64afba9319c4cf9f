//! A cluster with some autoscalers, users, and the controller under test, in virtual time.

use std::{sync::Arc, time::Duration};

use hpa_calc::settings::Settings;
use hpa_controller::{
    clock::Clock,
    controller::{Dependencies, Options, RunError},
    k8s::{ClientLimits, Clients},
    leader_election::{Election, ElectionConfig},
    metrics::Telemetry,
};
use hpa_testbed::{Config, Testbed};
use jiff::SignedDuration;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{
    MAX, NAMESPACE, PERIOD, WINDOW,
    cluster::{self, Loads, Metrics},
    journal::{Actor, Journal},
    random::CONTROLLER,
    time::VirtualClock,
};

/// The autoscaled targets: by CPU, by a metric of the pods and with behavior, by an external metric and down to zero.
pub(crate) const TARGETS: [&str; 3] = ["web", "api", "jobs"];

pub(crate) struct World {
    pub(crate) testbed: Testbed,
    pub(crate) clock: VirtualClock,
    pub(crate) controller_clock: VirtualClock,
    pub(crate) loads: Arc<Loads>,
    pub(crate) journal: Arc<Journal>,
    /// Of the controller that was started last.
    pub(crate) telemetry: Arc<Telemetry>,
    controller: Option<Controller>,
    /// A second one, which waits for the lease.
    standby: Option<Controller>,
    tasks: JoinSet<()>,
}

struct Controller {
    shutdown: CancellationToken,
    task: tokio::task::JoinHandle<Result<(), RunError>>,
}

impl World {
    /// A world whose controller has just been started, and whose API may misbehave as `config` says.
    pub(crate) fn start(config: impl FnOnce(&VirtualClock, Config) -> Config) -> Self {
        let clock = VirtualClock::start();
        let (loads, journal) = (Loads::new(clock.clone()), Journal::new(clock.clone()));
        let server_clock = clock.clone();
        let config = config(
            &clock,
            Config {
                metrics: Some(Arc::new(Metrics(loads.clone()))),
                listener: Some(journal.clone()),
                clock: Arc::new(move || server_clock.now()),
                ..Config::default()
            },
        );
        let testbed = Testbed::new(config);
        let mut tasks = JoinSet::new();
        tasks.spawn(cluster::run(testbed.clone(), journal.clone()));
        let controller_clock = clock.another();
        let mut world = Self {
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
        world.apply(
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } }),
        );
        for target in TARGETS {
            world.loads.set(target, 2);
            world.apply(deployment(target, 2));
            world.apply(autoscaler(target));
        }
        world.start_controller();
        world
    }

    /// From now on each target has this load.
    pub(crate) fn load_all(&self, load: i64) {
        for target in TARGETS {
            self.loads.set(target, load);
        }
    }

    /// Does it as a user.
    pub(crate) fn apply(&self, object: Value) -> Value {
        self.journal
            .acting(Actor::User, || self.testbed.apply(object))
            .expect("an object that the API takes")
    }

    pub(crate) fn deployment(&self, name: &str) -> Option<Value> {
        self.testbed.get("apps/v1", "Deployment", NAMESPACE, name)
    }

    pub(crate) fn autoscaler(&self, name: &str) -> Option<Value> {
        self.testbed.get("autoscaling/v2", "HorizontalPodAutoscaler", NAMESPACE, name)
    }

    /// The replicas that a target is asked to have; -1 if it is not there.
    pub(crate) fn replicas(&self, name: &str) -> i64 {
        self.deployment(name)
            .map_or(-1, |deployment| deployment["spec"]["replicas"].as_i64().unwrap_or(1))
    }

    /// Changes an object as a user, if it is there.
    pub(crate) fn edit(&self, object: Option<Value>, change: impl FnOnce(&mut Value)) {
        if let Some(mut object) = object {
            change(&mut object);
            self.apply(object);
        }
    }

    /// Scales by hand.
    pub(crate) fn scale(&self, name: &str, replicas: i64) {
        self.edit(self.deployment(name), |object| object["spec"]["replicas"] = replicas.into());
    }

    pub(crate) fn delete(&self, api_version: &str, kind: &str, name: &str) {
        // It may be gone.
        _ = self
            .journal
            .acting(Actor::User, || self.testbed.delete(api_version, kind, NAMESPACE, name));
    }

    pub(crate) fn start_controller(&mut self) {
        self.controller = Some(self.controller(CONTROLLER, None));
    }

    /// Starts a controller that works once it has the lease, and keeps histories for the next. It has this name, also
    /// to the API server.
    pub(crate) fn start_elected(&mut self, identity: &str) {
        self.controller = Some(self.controller(identity, Some(self.election(identity))));
    }

    /// Starts a second one, which waits for the lease.
    pub(crate) fn start_standby(&mut self, identity: &str) {
        self.standby = Some(self.controller(identity, Some(self.election(identity))));
    }

    fn election(&self, identity: &str) -> Election {
        let config = ElectionConfig {
            namespace: NAMESPACE.into(),
            name: "hpa-controller".into(),
            identity: identity.into(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            keep_history: true,
        };
        Election { client: self.testbed.client_named(identity), config }
    }

    fn controller(&mut self, name: &str, election: Option<Election>) -> Controller {
        let shutdown = CancellationToken::new();
        let options = options();
        let limits =
            ClientLimits { request_timeout: options.request_timeout, ..ClientLimits::default() };
        let clients = Clients::from_service(self.testbed.service_named(name), &limits);
        self.telemetry = Arc::default();
        let parts = Dependencies {
            clock: Arc::new(self.controller_clock.clone()),
            observer: self.journal.clone(),
            election,
            ..Dependencies::with_telemetry(clients, &options, self.telemetry.clone())
        };
        let task = tokio::spawn(hpa_controller::controller::run(parts, options, shutdown.clone()));
        Controller { shutdown, task }
    }

    /// Ends the controller as SIGKILL does: in the middle of whatever it does.
    pub(crate) async fn kill_controller(&mut self) {
        if let Some(controller) = self.controller.take() {
            controller.task.abort();
            _ = controller.task.await;
        }
    }

    /// Ends the controller as SIGTERM does.
    pub(crate) async fn stop_controller(&mut self) {
        if let Some(controller) = self.controller.take() {
            controller.shutdown.cancel();
            controller.task.await.expect("no panic").expect("an orderly end");
        }
    }

    /// Whether the controller runs that should; with a second one, whether either does.
    pub(crate) fn is_controlled(&self) -> bool {
        self.controller.iter().chain(&self.standby).any(|controller| !controller.task.is_finished())
    }

    /// Whether the first controller has ended of itself.
    pub(crate) fn has_given_up(&self) -> bool {
        self.controller.as_ref().is_some_and(|controller| controller.task.is_finished())
    }

    /// Lets some time pass.
    pub(crate) async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// Waits for a target to be asked to have this many replicas, to the millisecond.
    pub(crate) async fn scaled_to(&self, name: &str, replicas: i64) {
        while self.replicas(name) != replicas {
            self.pass(Duration::from_millis(1)).await;
        }
    }

    /// A condition of an autoscaler: status, reason and message.
    pub(crate) fn condition(&self, name: &str, of_type: &str) -> Option<[String; 3]> {
        let conditions = self.autoscaler(name)?["status"]["conditions"].as_array().cloned()?;
        let condition = conditions.into_iter().find(|condition| condition["type"] == of_type)?;
        Some(
            ["status", "reason", "message"]
                .map(|member| condition[member].as_str().unwrap_or_default().into()),
        )
    }

    /// Ends all that runs.
    pub(crate) async fn end(mut self) {
        self.kill_controller().await;
        self.controller = self.standby.take();
        self.kill_controller().await;
        self.tasks.shutdown().await;
    }

    /// Lets the world be until it has this age.
    pub(crate) async fn until(&self, age: Duration) {
        self.clock.until(age).await;
    }
}

fn options() -> Options {
    let settings = Settings {
        downscale_stabilization: SignedDuration::try_from(WINDOW).expect("a span"),
        strict_scale_to_zero: true,
        ..Settings::default()
    };
    Options {
        settings,
        sync_period: PERIOD,
        workers: 2,
        namespaces: Vec::new(),
        shutdown_grace: Duration::from_secs(10),
        request_timeout: Duration::from_secs(10),
        watch_scales: true,
    }
}

pub(crate) fn deployment(name: &str, replicas: i64) -> Value {
    let labels = json!({ "app": name });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": { "replicas": replicas, "selector": { "matchLabels": labels }, "template": {
            "metadata": { "labels": labels }, "spec": { "containers": [{ "name": "app", "image": "none" }] },
        } },
    })
}

pub(crate) fn autoscaler(name: &str) -> Value {
    let average = |value: &str| json!({ "type": "AverageValue", "averageValue": value });
    let metric = match name {
        "web" => json!({ "type": "Resource", "resource": { "name": "cpu",
            "target": { "type": "Utilization", "averageUtilization": 50 } } }),
        "api" => {
            json!({ "type": "Pods", "pods": { "metric": { "name": "requests" }, "target": average("10") } })
        }
        _ => {
            json!({ "type": "External", "external": { "metric": { "name": name }, "target": average("10") } })
        }
    };
    let mut object = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": name },
            "minReplicas": i32::from(name != "jobs"), "maxReplicas": MAX, "metrics": [metric],
        },
    });
    if name == "api" {
        // As fast as there can be need for, so that what is compared later is not a matter of speed.
        let policies = json!([{ "type": "Pods", "value": MAX, "periodSeconds": 15 }]);
        object["spec"]["behavior"] = json!({
            "scaleUp": { "stabilizationWindowSeconds": 0, "policies": policies },
            "scaleDown": { "stabilizationWindowSeconds": 45, "policies": policies },
        });
    }
    object
}
