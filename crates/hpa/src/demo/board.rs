//! What is known of each autoscaler: its decisions and how its workload fared.

use std::collections::BTreeMap;

use hpa_calc::api::HorizontalPodAutoscaler;
use hpa_controller::key::HpaKey;
use hpa_testbed::{
    Testbed,
    workload::{Observation, WorkloadId, WorkloadObservation, scenario::Scenario},
};
use serde_json::{Value, json};

use super::decision::{Decision, bounds, window};

/// So many samples are kept; when there are more, every other one is forgotten.
const MOST_SAMPLES: usize = 8192;
/// How many scalings are remembered for the view.
const RECENT: usize = 50;

/// A workload at a moment. Loads are in units a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sample {
    /// When, in simulated seconds since the start.
    pub(crate) second: f64,
    /// The load on it.
    pub(crate) offered: f64,
    /// What of that it serves.
    pub(crate) served: f64,
    /// What waits in its queues, in units.
    pub(crate) waiting: f64,
    /// How many pods would serve the load as they should.
    pub(crate) needed: u32,
    /// How many replicas it was scaled to.
    pub(crate) desired: u32,
    /// How many pods are ready.
    pub(crate) ready: u32,
}

/// An autoscaler and its workload.
#[derive(Clone, Debug)]
pub(crate) struct Track {
    /// The autoscaler.
    pub(crate) key: HpaKey,
    /// Its workload.
    pub(crate) target: WorkloadId,
    /// `minReplicas` and `maxReplicas`.
    pub(crate) bounds: (i32, i32),
    /// For how many seconds a higher wish holds.
    pub(crate) window: f64,
    /// Whether the scenario has it, as opposed to somebody who came by with kubectl.
    pub(crate) is_of_scenario: bool,
    /// Whether its workload drains a queue.
    pub(crate) has_queue: bool,
    /// Whether the scenario says what its pods should serve, so that what is needed means something.
    pub(crate) has_target_load: bool,
    /// How often it was decided.
    pub(crate) decisions: u32,
    /// How often it was scaled up.
    pub(crate) ups: u32,
    /// How often it was scaled down.
    pub(crate) downs: u32,
    /// When it was last scaled down.
    pub(crate) scaled_down_at: Option<f64>,
    /// The last decision.
    pub(crate) last: Option<Decision>,
    /// The workload over time.
    pub(crate) samples: Vec<Sample>,
    /// What arrived in its queues, and what of that was worked off, in units.
    pub(crate) queued: (f64, f64),
    /// The workload as last seen.
    pub(crate) seen: Option<WorkloadObservation>,
}

/// All autoscalers.
#[derive(Debug)]
pub(crate) struct Dashboard {
    /// By namespace and name, those of the scenario in its order and first.
    pub(crate) tracks: Vec<Track>,
    /// The last scalings, the oldest first.
    pub(crate) recent: Vec<Decision>,
    /// The simulated second up to which is known what happened.
    pub(crate) second: f64,
    /// The workload that drains each queue, in the order of the scenario.
    queues: Vec<WorkloadId>,
    target_loads: BTreeMap<WorkloadId, bool>,
}

impl Dashboard {
    /// The autoscalers of the testbed, those of the scenario.
    pub(crate) fn new(testbed: &Testbed, scenario: &Scenario) -> Self {
        let ids = scenario.workloads.iter().map(|one| {
            let profile = one.profile.as_ref().unwrap_or(&scenario.default_profile);
            (WorkloadId::new(&one.namespace, &one.kind, &one.name), profile.target_load.is_some())
        });
        let target_loads: BTreeMap<WorkloadId, bool> = ids.collect();
        let find = |reference: &str| {
            let is_it = |id: &&WorkloadId| {
                id.name == reference || format!("{}/{}", id.namespace, id.name) == reference
            };
            target_loads.keys().find(is_it).cloned()
        };
        let queues = scenario.queues.iter().filter_map(|queue| find(&queue.workload)).collect();
        let mut board =
            Self { tracks: Vec::new(), recent: Vec::new(), second: 0.0, queues, target_loads };
        let listed = testbed.list("autoscaling/v2", "HorizontalPodAutoscaler");
        let place = |hpa: &HorizontalPodAutoscaler| {
            let is_it = |one: &Value| {
                one.pointer("/kind") == Some(&json!("HorizontalPodAutoscaler"))
                    && one.pointer("/metadata/name") == Some(&json!(hpa.metadata.name))
            };
            scenario.manifests.iter().position(is_it)
        };
        let mut autoscalers: Vec<HorizontalPodAutoscaler> =
            listed.into_iter().filter_map(|hpa| serde_json::from_value(hpa).ok()).collect();
        autoscalers.sort_by_key(place);
        for hpa in autoscalers {
            let target = &hpa.spec.scale_target_ref;
            let target = WorkloadId::new(&hpa.metadata.namespace, &target.kind, &target.name);
            let key = HpaKey::new(hpa.metadata.namespace.as_str(), hpa.metadata.name.as_str());
            let track = board.track(key, target, bounds(&hpa), f64::from(window(&hpa)));
            board.tracks.push(Track { is_of_scenario: true, ..track });
        }
        board
    }

    fn track(&self, key: HpaKey, target: WorkloadId, bounds: (i32, i32), window: f64) -> Track {
        Track {
            key,
            bounds,
            window,
            is_of_scenario: false,
            has_queue: self.queues.contains(&target),
            has_target_load: self.target_loads.get(&target).is_some_and(|has| *has),
            target,
            decisions: 0,
            ups: 0,
            downs: 0,
            scaled_down_at: None,
            last: None,
            samples: Vec::new(),
            queued: (0.0, 0.0),
            seen: None,
        }
    }

    /// Takes note of a decision; what the last one of this autoscaler was.
    pub(crate) fn decided(&mut self, decision: Decision) -> Option<Decision> {
        if self.tracks.iter().all(|track| track.key != decision.key) {
            let Decision { key, target, bounds, window, .. } = decision.clone();
            let track = self.track(key, target, bounds, window);
            self.tracks.push(track);
        }
        if decision.to.is_some() {
            self.recent.push(decision.clone());
            let superfluous = self.recent.len().saturating_sub(RECENT);
            self.recent.drain(..superfluous);
        }
        let track = self.tracks.iter_mut().find(|track| track.key == decision.key)?;
        track.decisions += 1;
        track.bounds = decision.bounds;
        track.window = decision.window;
        match decision.to {
            Some(to) if to > decision.from => track.ups += 1,
            Some(_) => {
                track.downs += 1;
                track.scaled_down_at = Some(decision.second);
            }
            None => {}
        }
        track.last.replace(decision)
    }

    /// Takes note of how everything is.
    pub(crate) fn observed(&mut self, seen: &Observation) {
        self.second = seen.second;
        for track in &mut self.tracks {
            let Some(workload) = seen.workloads.iter().find(|one| one.id == track.target) else {
                continue;
            };
            let queues = || {
                let all = self.queues.iter().zip(&seen.queues);
                all.filter(|(id, _)| **id == track.target).map(|(_, queue)| queue)
            };
            track.samples.push(Sample {
                second: seen.second,
                offered: workload.offered,
                served: workload.served,
                waiting: queues().map(|queue| queue.backlog).sum(),
                needed: workload.needed,
                desired: workload.desired,
                ready: workload.ready,
            });
            track.queued = (
                queues().map(|queue| queue.arrived).sum(),
                queues().map(|queue| queue.drained).sum(),
            );
            track.seen = Some(workload.clone());
            if track.samples.len() > MOST_SAMPLES {
                let mut index = 0_usize;
                track.samples.retain(|_| {
                    index += 1;
                    index.is_multiple_of(2)
                });
            }
        }
    }
}
