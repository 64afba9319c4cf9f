//! The records of all autoscalers of the demo, which the terminal view and the summary show.

use std::collections::BTreeSet;

use hpa_calc::{Settings, api::HorizontalPodAutoscaler, crd::KIND, settings::Bounds};
use hpa_controller::HpaKey;
use hpa_testbed::{
    Testbed,
    workload::{Observation, WorkloadId, scenario::Scenario},
};
use serde_json::Value;

use super::{
    autoscaler_record::{AutoscalerRecord, QueueTotals, WorkloadSample},
    decision::{Decision, downscale_window, target_id},
};
use crate::manifests::string_at;

const API_VERSION: &str = "autoscaling/v2";
const MAX_RECENT_SCALINGS: usize = 50;

/// The autoscalers of the demo with their decisions and samples.
#[derive(Debug)]
pub(crate) struct DemoRecords {
    /// The scenario's autoscalers in its order, then others.
    pub(crate) autoscalers: Vec<AutoscalerRecord>,
    /// The last decisions that scaled, oldest first.
    pub(crate) recent_scalings: Vec<Decision>,
    /// Simulated second of the last observation.
    pub(crate) second: f64,
    /// The workload that drains each queue, in the order of the scenario.
    queue_workloads: Vec<WorkloadId>,
    /// The workloads for which the scenario sets a target load.
    workloads_with_target_load: BTreeSet<WorkloadId>,
}

impl DemoRecords {
    /// Empty records of the autoscalers that the scenario created in the testbed.
    pub(crate) fn new(testbed: &Testbed, scenario: &Scenario) -> Self {
        let workloads = scenario.workloads.iter();
        let with_target_load =
            workloads.filter(|workload| scenario.profile(workload).target_load.is_some());
        let queues = scenario.queues.iter();
        let draining_workloads = queues.filter_map(|queue| scenario.workload(&queue.workload));
        let mut records = Self {
            autoscalers: Vec::new(),
            recent_scalings: Vec::new(),
            second: 0.0,
            queue_workloads: draining_workloads.map(WorkloadId::for_spec).collect(),
            workloads_with_target_load: with_target_load.map(WorkloadId::for_spec).collect(),
        };
        for hpa in autoscalers_in_order(testbed, scenario) {
            let key = HpaKey::new(hpa.metadata.namespace.as_str(), hpa.metadata.name.as_str());
            let record = records.new_record(key, target_id(&hpa), Bounds::of_spec(&hpa.spec));
            let downscale_window = downscale_window(&hpa, &Settings::default());
            records.autoscalers.push(AutoscalerRecord {
                is_in_scenario: true,
                downscale_window,
                ..record
            });
        }
        records
    }

    fn new_record(&self, key: HpaKey, target: WorkloadId, bounds: Bounds) -> AutoscalerRecord {
        AutoscalerRecord {
            has_queue: self.queue_workloads.contains(&target),
            has_target_load: self.workloads_with_target_load.contains(&target),
            ..AutoscalerRecord::new(key, target, bounds)
        }
    }

    /// Adds a decision. Returns the previous one of the same autoscaler.
    pub(crate) fn record_decision(&mut self, decision: Decision) -> Option<Decision> {
        if self.autoscalers.iter().all(|record| record.key != decision.key) {
            let (key, target) = (decision.key.clone(), decision.target.clone());
            self.autoscalers.push(self.new_record(key, target, decision.bounds));
        }
        if decision.to.is_some() {
            self.recent_scalings.push(decision.clone());
            let excess = self.recent_scalings.len().saturating_sub(MAX_RECENT_SCALINGS);
            self.recent_scalings.drain(..excess);
        }
        let record = self.autoscalers.iter_mut().find(|record| record.key == decision.key)?;
        record.record_decision(decision)
    }

    /// Removes the autoscalers that no longer exist.
    pub(crate) fn remove_deleted(&mut self, testbed: &Testbed) {
        self.autoscalers.retain(|AutoscalerRecord { key, .. }| {
            testbed.get(API_VERSION, KIND, &key.namespace, &key.name).is_some()
        });
    }

    /// Adds a sample to each autoscaler whose workload was observed.
    pub(crate) fn record_observation(&mut self, observation: &Observation) {
        self.second = observation.second;
        for record in &mut self.autoscalers {
            let is_target = |id: &WorkloadId| *id == record.target;
            let workload = observation.workloads.iter().find(|workload| is_target(&workload.id));
            let Some(workload) = workload else { continue };
            let backlogs = || {
                let queues = observation.queues.iter();
                queues.filter(|queue| is_target(&queue.workload)).map(|queue| queue.backlog)
            };
            let sample = WorkloadSample {
                second: observation.second,
                offered: workload.offered,
                served: workload.served,
                backlog: backlogs().map(|backlog| backlog.waiting).sum(),
                needed: workload.needed,
                desired: workload.desired,
                ready: workload.ready,
            };
            record.queue_totals = QueueTotals {
                arrived: backlogs().map(|backlog| backlog.arrived).sum(),
                drained: backlogs().map(|backlog| backlog.drained).sum(),
            };
            record.workload = Some(workload.clone());
            record.record_sample(sample);
        }
    }
}

/// The autoscalers of the testbed in the order of the scenario's manifests.
fn autoscalers_in_order(testbed: &Testbed, scenario: &Scenario) -> Vec<HorizontalPodAutoscaler> {
    let position = |hpa: &HorizontalPodAutoscaler| {
        scenario.manifests.iter().position(|manifest: &Value| {
            let namespace = match string_at(manifest, "/metadata/namespace") {
                "" => "default",
                namespace => namespace,
            };
            string_at(manifest, "/kind") == KIND
                && namespace == hpa.metadata.namespace
                && string_at(manifest, "/metadata/name") == hpa.metadata.name
        })
    };
    let listed = testbed.list(API_VERSION, KIND);
    let mut autoscalers: Vec<HorizontalPodAutoscaler> =
        listed.into_iter().filter_map(|hpa| serde_json::from_value(hpa).ok()).collect();
    autoscalers.sort_by_key(position);
    autoscalers
}

#[cfg(test)]
mod tests {
    use hpa_testbed::Config;
    use serde_json::json;

    use super::*;

    const SCENARIO: &str = "
workloads:
- {name: worker, namespace: shop}
- {name: worker, namespace: bank}
queues:
- {name: jobs, metric: jobs, workload: shop/worker, arrivals: {constant: 1}}
- {name: bills, metric: bills, workload: bank/worker, arrivals: {constant: 1}}
";

    #[test]
    fn queues_belong_to_the_workloads_that_drain_them() {
        let scenario = Scenario::parse(SCENARIO).expect("the scenario is valid");
        let records = DemoRecords::new(&Testbed::new(Config::default()), &scenario);
        let worker = |namespace: &str| WorkloadId::new(namespace, "Deployment", "worker");
        assert_eq!(records.queue_workloads, [worker("shop"), worker("bank")]);
    }

    #[test]
    fn autoscalers_with_equal_names_are_in_the_order_of_the_scenario() {
        let testbed = Testbed::new(Config::default());
        let manifest = |namespace: &str| {
            let target = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" });
            json!({
                "apiVersion": API_VERSION, "kind": KIND,
                "metadata": { "namespace": namespace, "name": "web" },
                "spec": { "maxReplicas": 3, "scaleTargetRef": target },
            })
        };
        for namespace in ["bank", "shop"] {
            let metadata = json!({ "name": namespace });
            let object = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata });
            for object in [object, manifest(namespace)] {
                testbed.apply(object).expect("a valid object");
            }
        }
        let manifests = vec![manifest("shop"), manifest("bank")];
        let scenario = Scenario { manifests, ..Scenario::default() };
        let records = DemoRecords::new(&testbed, &scenario);
        let keys = records.autoscalers.iter().map(|record| record.key.to_string());
        assert_eq!(keys.collect::<Vec<_>>(), ["shop/web", "bank/web"]);
    }
}
