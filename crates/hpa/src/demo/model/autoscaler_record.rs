//! One autoscaler and its workload over time.

use hpa_calc::settings::Bounds;
use hpa_controller::HpaKey;
use hpa_testbed::workload::{WorkloadId, WorkloadObservation};

use super::decision::Decision;

/// The maximum number of samples per autoscaler. If there are more, every second one is dropped,
/// but neither the first nor the last. The number is even, so the last one has an even index.
const MAX_SAMPLES: usize = 8192;

/// A workload at one time. Loads are in units per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct WorkloadSample {
    /// Simulated seconds since the start.
    pub(crate) second: f64,
    pub(crate) offered: f64,
    pub(crate) served: f64,
    /// Units waiting in the queues of the workload.
    pub(crate) backlog: f64,
    /// Pods needed for the offered load plus the work arriving in queues. Computed from the target
    /// load per pod, or without one from a pod's capacity.
    pub(crate) needed: u32,
    /// `spec.replicas`.
    pub(crate) desired: u32,
    /// Ready pods.
    pub(crate) ready: u32,
}

/// Units that the queues of a workload received and that its pods drained, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct QueueTotals {
    pub(crate) arrived: f64,
    pub(crate) drained: f64,
}

/// An autoscaler, its decisions and its workload.
#[derive(Clone, Debug)]
pub(crate) struct AutoscalerRecord {
    pub(crate) key: HpaKey,
    pub(crate) target: WorkloadId,
    pub(crate) bounds: Bounds,
    /// Stabilization window for scaling down, in seconds: at the last decision, or else at the
    /// start.
    pub(crate) downscale_window: f64,
    /// False if the autoscaler was created with kubectl after the start.
    pub(crate) is_in_scenario: bool,
    /// Whether its workload drains a queue.
    pub(crate) has_queue: bool,
    /// Whether the scenario sets a target load per pod. If not, `needed` is computed from the
    /// capacity of pods, and more replicas are not a violation.
    pub(crate) has_target_load: bool,
    pub(crate) decision_count: u32,
    pub(crate) scale_up_count: u32,
    pub(crate) scale_down_count: u32,
    /// Simulated second of the last scale-down.
    pub(crate) last_scale_down: Option<f64>,
    pub(crate) last_decision: Option<Decision>,
    pub(crate) samples: Vec<WorkloadSample>,
    pub(crate) queue_totals: QueueTotals,
    /// The last observation of the workload.
    pub(crate) workload: Option<WorkloadObservation>,
}

impl AutoscalerRecord {
    /// The record of an autoscaler before its first decision, without a stabilization window.
    pub(super) fn new(key: HpaKey, target: WorkloadId, bounds: Bounds) -> Self {
        Self {
            key,
            target,
            bounds,
            downscale_window: 0.0,
            is_in_scenario: false,
            has_queue: false,
            has_target_load: false,
            decision_count: 0,
            scale_up_count: 0,
            scale_down_count: 0,
            last_scale_down: None,
            last_decision: None,
            samples: Vec::new(),
            queue_totals: QueueTotals::default(),
            workload: None,
        }
    }

    /// Records a decision. Returns the previous one.
    pub(super) fn record_decision(&mut self, decision: Decision) -> Option<Decision> {
        self.decision_count += 1;
        self.bounds = decision.bounds;
        self.downscale_window = decision.downscale_window;
        match decision.to {
            Some(to) if to > decision.from => self.scale_up_count += 1,
            Some(_) => {
                self.scale_down_count += 1;
                self.last_scale_down = Some(decision.second);
            }
            None => {}
        }
        self.last_decision.replace(decision)
    }

    pub(super) fn record_sample(&mut self, sample: WorkloadSample) {
        self.samples.push(sample);
        if self.samples.len() > MAX_SAMPLES {
            let mut is_kept = false;
            self.samples.retain(|_| {
                is_kept = !is_kept;
                is_kept
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::model::bounds;

    #[test]
    fn first_and_last_sample_are_kept_if_there_are_too_many() {
        let target = WorkloadId::new("shop", "Deployment", "web");
        let mut record = AutoscalerRecord::new(HpaKey::new("shop", "web"), target, bounds(1, 5));
        for second in 0..=8192 {
            let second = f64::from(second);
            record.record_sample(WorkloadSample { second, ..WorkloadSample::default() });
        }
        let seconds: Vec<f64> = record.samples.iter().map(|sample| sample.second).collect();
        assert_eq!((seconds.len(), seconds.first()), (4097, Some(&0.0)));
        assert_eq!(seconds.last(), Some(&8192.0));
    }
}
