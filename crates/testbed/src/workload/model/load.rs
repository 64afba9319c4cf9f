//! How load is spread over pods and queues are drained.

use std::collections::BTreeMap;

use super::{Model, Pod, Totals, Workload, WorkloadId};

impl Model {
    /// Serves the load of a span that ends now.
    pub(super) fn share_load(&mut self, span: f64) {
        let now = self.now;
        for workload in self.workloads.values_mut() {
            workload.serve(now.max(0.0));
        }
        self.drain(span);
        for workload in self.workloads.values_mut() {
            workload.account(span, now > 0.0);
            let costs = workload.costs;
            for pod in workload.pods.values_mut() {
                pod.work(&costs, now, span);
            }
        }
    }

    /// Lets work arrive in the queues, and pods with capacity left work it off. Nothing arrives before the start.
    fn drain(&mut self, span: f64) {
        let (now, mut arriving) = (self.now, BTreeMap::<WorkloadId, f64>::new());
        for queue in self.queues.iter_mut().filter(|_| now > 0.0) {
            let rate = queue.spec.arrivals.at(now);
            *arriving.entry(queue.workload.clone()).or_default() += rate;
            let Some(workload) = self.workloads.get_mut(&queue.workload) else { continue };
            let able = workload.spare(queue.spec.drain_per_pod);
            let drained = queue.backlog.pass(rate * span, able * span) / span;
            workload.give(drained, able, queue.spec.drain_per_pod);
        }
        for (id, rate) in arriving {
            if let Some(workload) = self.workloads.get_mut(&id) {
                workload.arriving = rate;
            }
        }
    }
}

impl Workload {
    /// Spreads the load over the ready pods by their weights. What is beyond a pod's capacity is lost.
    fn serve(&mut self, now: f64) {
        self.offered = self.load.at(now);
        let capacity = self.costs.capacity;
        let weights: f64 = self.ready().map(|pod| pod.weight).sum();
        for pod in self.pods.values_mut() {
            let share = if pod.lifecycle.is_ready() { pod.weight / weights } else { 0.0 };
            // No weight at all is no share.
            pod.load = if share > 0.0 { (self.offered * share).min(capacity) } else { 0.0 };
        }
        self.served = self.pods.values().map(|pod| pod.load).sum();
        self.drained = 0.0;
    }

    pub(crate) fn ready(&self) -> impl Iterator<Item = &Pod> {
        self.pods.values().filter(|pod| pod.lifecycle.is_ready())
    }

    /// What the ready pods can drain of a queue, in units a second.
    fn spare(&self, per_pod: Option<f64>) -> f64 {
        let capacity = self.costs.capacity;
        self.ready().map(|pod| spare_of(pod, capacity, per_pod)).sum()
    }

    /// Gives the ready pods work from a queue, each by what it has to spare.
    fn give(&mut self, drained: f64, able: f64, per_pod: Option<f64>) {
        if able <= 0.0 {
            return;
        }
        let capacity = self.costs.capacity;
        for pod in self.pods.values_mut().filter(|pod| pod.lifecycle.is_ready()) {
            pod.load += drained * spare_of(pod, capacity, per_pod) / able;
        }
        self.drained += drained;
    }

    /// Adds a span to what has been so far.
    fn account(&mut self, span: f64, has_started: bool) {
        let active = self.pods.values().filter(|pod| pod.lifecycle.is_active()).count();
        let is_short = self.served < self.offered * (1.0 - 1e-9);
        let add = |totals: &mut Totals| {
            totals.offered += self.offered * span;
            totals.served += self.served * span;
            totals.pod_seconds += active as f64 * span;
            totals.short_seconds += if is_short { span } else { 0.0 };
        };
        add(&mut self.meter);
        if has_started {
            add(&mut self.totals);
        }
    }
}

fn spare_of(pod: &Pod, capacity: f64, per_pod: Option<f64>) -> f64 {
    let spare = (capacity - pod.load).max(0.0);
    per_pod.map_or(spare, |most| spare.min(most))
}
