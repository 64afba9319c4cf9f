//! One pod → one class: does it count, and with what?

use serde::Serialize;

use crate::{
    api::{Pod, PodPhase, ReadyCondition},
    readings::PodSample,
    settings::{Readiness, after},
};

/// How a pod takes part in an average over pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PodClass {
    /// Its sample counts.
    Ready,
    /// Not up yet, so its sample does not count: on a scale-up it stands in with no usage.
    Unready,
    /// Up, but without a sample: it stands in with no usage on a scale-up, with the target (or all it requests)
    /// on a scale-down.
    Missing,
    /// On its way out, or at its end: it takes no part.
    Ignored,
}

/// How many pods there are of each class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Census {
    /// Pods whose sample counts.
    pub ready: usize,
    /// Pods that are not up yet.
    pub unready: usize,
    /// Pods without a sample.
    pub missing: usize,
    /// Pods on their way out, or at their end.
    pub ignored: usize,
}

impl Census {
    /// Counts one pod.
    pub fn count(&mut self, class: PodClass) {
        match class {
            PodClass::Ready => self.ready += 1,
            PodClass::Unready => self.unready += 1,
            PodClass::Missing => self.missing += 1,
            PodClass::Ignored => self.ignored += 1,
        }
    }
}

/// The class of a pod for one metric, from its life and its sample.
///
/// Readiness matters for CPU only, since it is start-up that burns CPU: within the CPU initialization period a
/// sample counts once the pod is ready and a full window has passed since; after it, unless the pod has never been
/// ready. (<https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/#algorithm-details>;
/// Succeeded pods are ignored like Failed ones, kubernetes#141302.)
pub fn classify(pod: &Pod, sample: Option<&PodSample>, is_cpu: bool, rules: &Readiness) -> PodClass {
    if pod.terminating || matches!(pod.phase, PodPhase::Failed | PodPhase::Succeeded) {
        return PodClass::Ignored;
    }
    if pod.phase == PodPhase::Pending {
        return PodClass::Unready;
    }
    let Some(sample) = sample else { return PodClass::Missing };
    if is_cpu && !cpu_sample_counts(pod, sample, rules) { PodClass::Unready } else { PodClass::Ready }
}

fn cpu_sample_counts(pod: &Pod, sample: &PodSample, rules: &Readiness) -> bool {
    let (Some(ReadyCondition { status, last_transition_time }), Some(start)) = (pod.ready, pod.start_time) else {
        return false;
    };
    let unready = status == Some(false);
    if after(start, rules.cpu_initialization_period) > rules.now {
        !unready && sample.timestamp >= after(last_transition_time, sample.window)
    } else {
        !unready || after(start, rules.initial_readiness_delay) <= last_transition_time
    }
}
