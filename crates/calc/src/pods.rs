//! Classifies a pod: whether and how it counts in an average over pods, and whether it may still be
//! starting.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;

use crate::{
    api::{Pod, PodPhase, ReadyCondition},
    readings::PodSample,
    settings::{ReadinessRules, Settings},
    time::after,
};

/// Whether and how a pod counts in an average over pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum PodClass {
    /// The pod counts with its sample.
    Ready,
    /// The pod is pending. For CPU, also a pod that is not ready, or whose sample covers time
    /// before it was ready (see [`classify`]). The sample is not used. For a scale-up the pod
    /// counts with no usage. For a scale-down it doesn't count.
    Unready,
    /// The pod has no sample. For a scale-up it counts with no usage. For a scale-down it counts
    /// with the target value. For a utilization target, that is the target's percentage of its
    /// request, or the whole request if the target is below 100 %.
    Missing,
    /// The pod has failed or succeeded, or is being deleted. It doesn't count.
    Ignored,
}

/// The reason for the class of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum PodClassReason {
    /// The pod has a sample that counts.
    SampleCounts,
    /// The pod is being deleted.
    Terminating,
    /// The pod has failed.
    Failed,
    /// The pod has succeeded.
    Succeeded,
    /// The pod has not started.
    Pending,
    /// The metrics API, or the controller's own source, has no value of the pod.
    NoSample,
    /// The pod has no start time or no `Ready` condition.
    NoReadyCondition,
    /// The pod is not ready, and its CPU initialization period has not ended.
    StartingUnready,
    /// The pod's CPU initialization period has not ended, and the window of its CPU sample began
    /// before its readiness last changed.
    SampleBeforeReady,
    /// The pod is not ready, and became so within the initial readiness delay after its start. This
    /// counts as never having been ready.
    NeverReady,
}

impl PodClass {
    /// All classes.
    pub const ALL: [Self; 4] = [Self::Ready, Self::Unready, Self::Missing, Self::Ignored];

    /// The class in one word, for people. The word for [`Self::Ready`] is `counted`, because such a
    /// pod need not be ready.
    pub fn label(self) -> &'static str {
        match self {
            Self::Ready => "counted",
            Self::Unready => "unready",
            Self::Missing => "missing",
            Self::Ignored => "ignored",
        }
    }
}

impl PodClassReason {
    /// The class that the reason leads to.
    pub fn class(self) -> PodClass {
        match self {
            Self::SampleCounts => PodClass::Ready,
            Self::Terminating | Self::Failed | Self::Succeeded => PodClass::Ignored,
            Self::NoSample => PodClass::Missing,
            Self::Pending
            | Self::NoReadyCondition
            | Self::StartingUnready
            | Self::SampleBeforeReady
            | Self::NeverReady => PodClass::Unready,
        }
    }

    /// The reason as the rest of a sentence that starts with the name of the pod.
    pub fn text(self) -> &'static str {
        match self {
            Self::SampleCounts => "has a sample",
            Self::Terminating => "is being deleted",
            Self::Failed => "has failed",
            Self::Succeeded => "has succeeded",
            Self::Pending => "is pending",
            // The sample may also be NaN.
            Self::NoSample => "has no value",
            Self::NoReadyCondition => "has no start time or no Ready condition",
            Self::StartingUnready => "started recently and is not ready",
            Self::SampleBeforeReady => {
                "started recently, and its sample covers time before it was ready"
            }
            Self::NeverReady => "has never been ready",
        }
    }
}

/// The number of pods of each class. For a `value` target, there are only two classes: pods that
/// run and are ready, and all others, which count as unready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PodCounts {
    /// See [`PodClass::Ready`].
    pub ready: usize,
    /// See [`PodClass::Unready`].
    pub unready: usize,
    /// See [`PodClass::Missing`].
    pub missing: usize,
    /// See [`PodClass::Ignored`].
    pub ignored: usize,
}

impl PodCounts {
    /// The number of pods of all classes.
    pub fn total(&self) -> usize {
        self.ready + self.unready + self.missing + self.ignored
    }

    /// Adds one pod.
    pub fn add(&mut self, class: PodClass) {
        match class {
            PodClass::Ready => self.ready += 1,
            PodClass::Unready => self.unready += 1,
            PodClass::Missing => self.missing += 1,
            PodClass::Ignored => self.ignored += 1,
        }
    }
}

/// Classifies a pod for one metric, by its status and its sample of the metric.
///
/// Readiness matters for CPU only, because pods use CPU while they start. Within the CPU
/// initialization period, a CPU sample counts if the pod is ready and became ready before the
/// sample's window began. After that period, a CPU sample counts unless the pod has never been
/// ready. A readiness of `Unknown` counts as ready.
///
/// Source: [algorithm details]. Succeeded pods are ignored like Failed ones (kubernetes#141302).
///
/// [algorithm details]: https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/#algorithm-details
pub fn classify(
    pod: &Pod,
    sample: Option<&PodSample>,
    is_cpu: bool,
    readiness: &ReadinessRules,
) -> PodClass {
    class_reason(pod, sample, is_cpu, readiness).class()
}

/// The reason for the class that [`classify`] returns.
pub fn class_reason(
    pod: &Pod,
    sample: Option<&PodSample>,
    is_cpu: bool,
    readiness: &ReadinessRules,
) -> PodClassReason {
    match pod.phase {
        _ if pod.terminating => return PodClassReason::Terminating,
        PodPhase::Failed => return PodClassReason::Failed,
        PodPhase::Succeeded => return PodClassReason::Succeeded,
        PodPhase::Pending => return PodClassReason::Pending,
        PodPhase::Running | PodPhase::Other(_) => {}
    }
    match sample {
        None => PodClassReason::NoSample,
        Some(sample) if is_cpu => cpu_sample_reason(pod, sample, readiness),
        Some(_) => PodClassReason::SampleCounts,
    }
}

fn cpu_sample_reason(pod: &Pod, sample: &PodSample, readiness: &ReadinessRules) -> PodClassReason {
    let (Some(ReadyCondition { last_transition_time, .. }), Some(start)) =
        (pod.ready, pod.start_time)
    else {
        return PodClassReason::NoReadyCondition;
    };
    let is_unready = is_unready(pod);
    if after(start, readiness.cpu_initialization_period) > readiness.now {
        if is_unready {
            PodClassReason::StartingUnready
        } else if sample.timestamp < after(last_transition_time, sample.window) {
            PodClassReason::SampleBeforeReady
        } else {
            PodClassReason::SampleCounts
        }
    } else if is_unready && last_transition_time < after(start, readiness.initial_readiness_delay) {
        PodClassReason::NeverReady
    } else {
        PodClassReason::SampleCounts
    }
}

/// Whether the condition `Ready` of a pod is `False`.
pub(crate) fn is_unready(pod: &Pod) -> bool {
    pod.ready.is_some_and(|ready| ready.status == Some(false))
}

/// Whether a pod is pending or not ready, although the scheduler can place it.
pub(crate) fn is_pending_or_unready(pod: &Pod) -> bool {
    !pod.unschedulable && (pod.phase == PodPhase::Pending || is_unready(pod))
}

/// Whether a pod that started at `start` is in the CPU initialization period, and may be unready or
/// not measured because it is still starting. A pod that was ready and no longer is has started.
pub(crate) fn is_in_start_up(
    pod: &Pod,
    start: Timestamp,
    settings: &Settings,
    now: Timestamp,
) -> bool {
    // By the rule of `PodClassReason::NeverReady`.
    let first_change = after(start, settings.initial_readiness_delay);
    let was_ready = is_unready(pod)
        && pod.ready.is_some_and(|ready| ready.last_transition_time >= first_change);
    now.duration_since(start) < settings.cpu_initialization_period && !was_ready
}

/// The number of active pods of a selector, if none of them is ready. `None` if all of them may
/// still be starting, or if the scheduler can't place one.
pub(crate) fn count_if_none_ready(
    pods: &[Arc<Pod>],
    settings: &Settings,
    now: Timestamp,
) -> Option<usize> {
    let active = pods.iter().filter(|pod| pod.is_active());
    let none_is_ready = active.clone().all(|pod| is_pending_or_unready(pod));
    let has_started = |pod: &Arc<Pod>| {
        pod.start_time.is_some_and(|start| !is_in_start_up(pod, start, settings, now))
    };
    (none_is_ready && active.clone().any(has_started)).then(|| active.count())
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use rstest::rstest;

    use super::*;
    use crate::quantity::MilliValue;
    use PodClass::{Ignored, Missing, Ready, Unready};

    const CPU: bool = true;
    const MEMORY: bool = false;
    const NEVER: i64 = i64::MIN;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// A pod that started at second 0. Its readiness last changed at second `readiness_changed`.
    /// With [`NEVER`], it has no `Ready` condition.
    fn pod(phase: &str, ready: Option<bool>, readiness_changed: i64) -> Pod {
        let last_transition_time = at(readiness_changed.max(-1));
        Pod {
            name: "pod".into(),
            labels: [].into(),
            exceeds_label_limits: false,
            terminating: false,
            unschedulable: false,
            phase: phase.into(),
            start_time: Some(at(0)),
            ready: (readiness_changed != NEVER)
                .then_some(ReadyCondition { status: ready, last_transition_time }),
            resources: Arc::default(),
            controller: None,
        }
    }

    /// The class of a pod at second `now`, with a sample of the 30 seconds before `sampled_at`, or
    /// without a sample ([`NEVER`]).
    fn class(pod: &Pod, sampled_at: i64, is_cpu: bool, now: i64) -> PodClass {
        let window = SignedDuration::from_secs(30);
        let sample = (sampled_at != NEVER).then(|| PodSample {
            value: MilliValue::from_milli(1),
            timestamp: at(sampled_at),
            window,
        });
        let readiness = ReadinessRules {
            now: at(now),
            cpu_initialization_period: SignedDuration::from_secs(300),
            initial_readiness_delay: SignedDuration::from_secs(20),
        };
        classify(pod, sample.as_ref(), is_cpu, &readiness)
    }

    #[rstest]
    #[case::running("Running", 500, Ready)]
    #[case::running_without_sample("Running", NEVER, Missing)]
    #[case::unknown_phase("Unknown", 500, Ready)]
    #[case::no_phase_and_no_sample("", NEVER, Missing)]
    #[case::pending("Pending", 500, Unready)]
    #[case::pending_without_sample("Pending", NEVER, Unready)]
    #[case::failed("Failed", 500, Ignored)]
    #[case::failed_without_sample("Failed", NEVER, Ignored)]
    #[case::succeeded("Succeeded", 500, Ignored)]
    fn phase_decides_the_class(
        #[case] phase: &str,
        #[case] sampled_at: i64,
        #[case] expected: PodClass,
        #[values(CPU, MEMORY)] is_cpu: bool,
    ) {
        let mut pod = pod(phase, Some(true), 10);
        assert_eq!(class(&pod, sampled_at, is_cpu, 500), expected);
        pod.terminating = true;
        assert_eq!(class(&pod, sampled_at, is_cpu, 500), Ignored);
    }

    // Within the CPU initialization period, up to second 299.
    #[rstest]
    #[case::a_full_window_since_ready(Some(true), 100, 130, 299, Ready)]
    #[case::less_than_a_window_since_ready(Some(true), 100, 129, 299, Unready)]
    #[case::not_ready(Some(false), 100, 200, 299, Unready)]
    #[case::unknown_with_a_window(None, 100, 130, 299, Ready)]
    #[case::unknown_without_a_window(None, 100, 129, 299, Unready)]
    // After it, from second 300 on.
    #[case::ready_with_any_sample(Some(true), 100, 101, 300, Ready)]
    #[case::unknown(None, 100, 101, 300, Ready)]
    #[case::was_ready_once(Some(false), 20, 200, 300, Ready)]
    #[case::unready_within_the_delay(Some(false), 19, 200, 300, Unready)]
    #[case::never_ready(None, NEVER, 200, 300, Unready)]
    fn cpu_samples_count_by_readiness(
        #[case] ready: Option<bool>,
        #[case] readiness_changed: i64,
        #[case] sampled_at: i64,
        #[case] now: i64,
        #[case] expected: PodClass,
    ) {
        let mut pod = pod("Running", ready, readiness_changed);
        assert_eq!(class(&pod, sampled_at, CPU, now), expected);
        assert_eq!(class(&pod, sampled_at, MEMORY, now), Ready);
        pod.start_time = None;
        assert_eq!(class(&pod, sampled_at, CPU, now), Unready);
    }

    #[test]
    fn classification_with_extreme_times_does_not_overflow() {
        let readiness = ReadinessRules {
            now: Timestamp::MAX,
            cpu_initialization_period: SignedDuration::MAX,
            initial_readiness_delay: SignedDuration::MIN,
        };
        let sample = PodSample {
            value: MilliValue::from_milli(1),
            timestamp: Timestamp::MIN,
            window: SignedDuration::MIN,
        };
        assert_eq!(classify(&pod("Running", Some(true), 0), Some(&sample), CPU, &readiness), Ready);
        assert_eq!(
            classify(&pod("Running", Some(false), 0), Some(&sample), CPU, &readiness),
            Ready
        );
    }

    #[test]
    fn counts_pods_by_class() {
        let mut counts = PodCounts::default();
        for class in
            [Ready, Unready, Unready, Missing, Missing, Missing, Ignored, Ignored, Ignored, Ignored]
        {
            counts.add(class);
        }
        assert_eq!(counts, PodCounts { ready: 1, unready: 2, missing: 3, ignored: 4 });
    }
}
