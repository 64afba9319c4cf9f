//! A cluster with some autoscalers, users, and the controller under test, in virtual time.

use std::{sync::Arc, time::Duration};

use hpa_calc::settings::Settings;
use hpa_controller::{
    client::{ClientLimits, Clients},
    clock::Clock,
    run::{Options, Parts, RunError},
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
    controller: Option<Controller>,
    _cluster: JoinSet<()>,
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
        let mut world =
            Self { testbed, clock, controller_clock, loads, journal, controller: None, _cluster: tasks };
        world.apply(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } }));
        for target in TARGETS {
            world.loads.set(target, 2);
            world.apply(deployment(target, 2));
            world.apply(autoscaler(target));
        }
        world.start_controller();
        world
    }

    /// Does it as a user.
    pub(crate) fn apply(&self, object: Value) -> Value {
        self.journal.acting(Actor::User, || self.testbed.apply(object)).expect("an object that the API takes")
    }

    pub(crate) fn deployment(&self, name: &str) -> Option<Value> {
        self.testbed.get("apps/v1", "Deployment", NAMESPACE, name)
    }

    pub(crate) fn autoscaler(&self, name: &str) -> Option<Value> {
        self.testbed.get("autoscaling/v2", "HorizontalPodAutoscaler", NAMESPACE, name)
    }

    /// The replicas that a target is asked to have; -1 if it is not there.
    pub(crate) fn replicas(&self, name: &str) -> i64 {
        self.deployment(name).map_or(-1, |deployment| deployment["spec"]["replicas"].as_i64().unwrap_or(1))
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
        _ = self.journal.acting(Actor::User, || self.testbed.delete(api_version, kind, NAMESPACE, name));
    }

    pub(crate) fn start_controller(&mut self) {
        let shutdown = CancellationToken::new();
        let options = options();
        let limits = ClientLimits { request_timeout: options.request_timeout, ..ClientLimits::default() };
        let clients = Clients::of(self.testbed.service_named(CONTROLLER), &limits);
        let parts = Parts {
            clock: Arc::new(self.controller_clock.clone()),
            observer: self.journal.clone(),
            ..Parts::new(clients, &options)
        };
        let task = tokio::spawn(hpa_controller::run::run(parts, options, shutdown.clone()));
        self.controller = Some(Controller { shutdown, task });
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

    /// Whether the controller runs that should.
    pub(crate) fn is_controlled(&self) -> bool {
        self.controller.as_ref().is_some_and(|controller| !controller.task.is_finished())
    }

    /// Lets the world be until it has this age.
    pub(crate) async fn until(&self, age: Duration) {
        self.clock.until(age).await;
    }
}

fn options() -> Options {
    let settings = Settings {
        downscale_stabilization: SignedDuration::try_from(WINDOW).expect("a span"),
        corrected_zero: true,
        ..Settings::default()
    };
    Options {
        settings,
        sync_period: PERIOD,
        workers: 2,
        namespaces: Vec::new(),
        shutdown_grace: Duration::from_secs(10),
        request_timeout: Duration::from_secs(10),
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
