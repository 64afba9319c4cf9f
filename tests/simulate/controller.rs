//! The controller on the testbed, in virtual time.

use std::{sync::Arc, time::Duration};

use hpa_controller::{
    Clock, Dependencies, Observer, Options, ReconcileBeforeStatusWrite,
    k8s::{ClientLimits, Clients},
};
use hpa_simulate::Variant;
use hpa_testbed::{
    Testbed,
    clock::SimulatedClock,
    workload::{Simulation, scenario::Scenario},
};
use hpa_tests::harness::{ControllerClock, RunningController, controller_options};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::json;

/// The second at which the controller starts. It is not a whole number, so that no reconcile
/// coincides with a step of the simulation.
const CONTROLLER_START: f64 = 7.4;

/// A change of the replicas by an autoscaler.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scaling {
    pub(crate) second: f64,
    pub(crate) from: u32,
    pub(crate) to: u32,
}

impl Scaling {
    /// Compares the replicas, and the times with a tolerance of half a second.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (self.from, self.to) == (other.from, other.to) && (self.second - other.second).abs() < 0.5
    }
}

struct Recorder {
    clock: Arc<ControllerClock>,
    /// The second of each reconcile, and its scaling.
    reconciles: Mutex<Vec<(f64, Option<Scaling>)>>,
}

impl Observer for Recorder {
    fn concluded(&self, concluded: &ReconcileBeforeStatusWrite<'_>) {
        let second = self.clock.instants().monotonic.as_secs_f64();
        let conclusion = concluded.conclusion;
        let count = |replicas: i32| u32::try_from(replicas).expect("replicas");
        let scaling = conclusion.scaled_to.map(|to| Scaling {
            second,
            from: count(conclusion.explanation.current_replicas),
            to: count(to),
        });
        self.reconciles.lock().push((second, scaling));
    }
}

/// Returns the second of the first reconcile, and the scalings before the end of the scenario.
pub(crate) async fn run_controller(variant: &Variant) -> (f64, Vec<Scaling>) {
    let start: Timestamp = "2026-01-05T00:00:00Z".parse().expect("a time");
    let clock = SimulatedClock::new(start, 1.0);
    let simulation = Simulation::new(scenario_with_hpa(variant), clock.clone());
    let testbed = Testbed::new(simulation.config());
    let running = simulation.start(&testbed).expect("the objects are valid");
    clock.sleep(CONTROLLER_START).await;
    let options = Options {
        settings: variant.controller.decision_settings(),
        sync_period: Duration::from_secs_f64(variant.controller.sync_period.get()),
        ..controller_options()
    };
    let limits = ClientLimits::default();
    let clients = Clients::from_service(testbed.service_named("hpa-rs"), &limits);
    let clock = Arc::new(ControllerClock::new(clock, start));
    let recorder = Arc::new(Recorder { clock: Arc::clone(&clock), reconciles: Mutex::default() });
    let dependencies = Dependencies {
        clock: clock.clone(),
        observer: recorder.clone(),
        ..Dependencies::new(clients, &options)
    };
    let controller = RunningController::start(dependencies, options);
    let end = variant.scenario.duration.get();
    simulation.wait_for(|seen| seen.second >= end).await;
    controller.kill().await;
    drop(running);
    let reconciles = std::mem::take(&mut *recorder.reconciles.lock());
    let (first, _) = *reconciles.first().expect("a reconcile");
    let scalings = reconciles.into_iter().filter(|(second, _)| *second < end);
    (first, scalings.filter_map(|(_, scaling)| scaling).collect())
}

/// The variant's scenario for the testbed, with the autoscaler as its only manifest.
fn scenario_with_hpa(variant: &Variant) -> Scenario {
    let mut manifest = variant.manifest.clone();
    manifest["apiVersion"] = json!("autoscaling/v2");
    manifest["kind"] = json!("HorizontalPodAutoscaler");
    manifest["metadata"] = json!(variant.autoscaler.metadata);
    Scenario { manifests: vec![manifest], ..variant.scenario.clone() }
}
