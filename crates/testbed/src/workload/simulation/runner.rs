//! Advances the simulation one simulated second at a time: model, incidents, objects.

use std::sync::Arc;

use hpa_simulate::workload::{model::ClusterModel, seconds::timestamp_at};
use jiff::Timestamp;

use super::{
    Shared, State,
    incidents::{apply_incident, take_due},
};
use crate::{Testbed, workload::controllers};

/// Keeps the model and the objects in the testbed consistent.
pub(super) struct Runner {
    testbed: Testbed,
    shared: Arc<Shared>,
    /// The result of [`controllers::latest_version`] after the last reconcile.
    observed_version: u64,
    /// Whether the controllers must run again even if nothing else changes.
    needs_reconcile: bool,
}

impl Runner {
    pub(super) fn new(testbed: Testbed, shared: Arc<Shared>) -> Self {
        Self { testbed, shared, observed_version: 0, needs_reconcile: true }
    }

    /// Creates the pods that exist at the start. If the scenario is warm, they are ready.
    pub(super) fn create_pods(&mut self) {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.state.lock();
        let State { model, start, .. } = &mut *state;
        if shared.scenario.warm {
            controllers::reconcile(&self.testbed, model, *start, true);
            model.warm_up();
        }
        self.reconcile(model, *start);
    }

    /// Runs until the task is aborted.
    pub(super) async fn run(mut self) {
        let start = self.shared.state.lock().start;
        let mut next = 1.0;
        loop {
            self.shared.clock.sleep_until(timestamp_at(start, next)).await;
            self.tick(next);
            next += 1.0;
            // At a very high speed, `sleep_until` doesn't wait. Let other tasks run.
            tokio::task::yield_now().await;
        }
    }

    fn tick(&mut self, second: f64) {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.state.lock();
        state.model.step(second);
        let due = take_due(&mut state, second);
        let State { model, start, .. } = &mut *state;
        for incident in due {
            apply_incident(&self.testbed, &shared.scenario, model, &incident);
        }
        self.remove_finished_pods(model);
        controllers::write_pods(&self.testbed, model, *start);
        let version = controllers::latest_version(&self.testbed);
        if self.needs_reconcile || version != self.observed_version {
            self.reconcile(model, *start);
        }
        drop(state);
        shared.completed.send_replace(second);
    }

    fn reconcile(&mut self, model: &mut ClusterModel, start: Timestamp) {
        self.needs_reconcile = controllers::reconcile(&self.testbed, model, start, false);
        self.observed_version = controllers::latest_version(&self.testbed);
    }

    /// Removes terminated pods, and evicted pods after a while.
    fn remove_finished_pods(&self, model: &mut ClusterModel) {
        let now = model.now;
        for pod in model.pods().filter(|pod| pod.is_finished(now)) {
            // A client may have deleted it already.
            let _ = self.testbed.delete("v1", "Pod", &pod.namespace, &pod.name);
        }
        model.retain_pods(|pod| !pod.is_finished(now));
    }
}
