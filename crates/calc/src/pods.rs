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
pub struct PodCounts {
    /// Pods whose sample counts.
    pub ready: usize,
    /// Pods that are not up yet.
    pub unready: usize,
    /// Pods without a sample.
    pub missing: usize,
    /// Pods on their way out, or at their end.
    pub ignored: usize,
}

impl PodCounts {
    /// All pods.
    pub fn total(&self) -> usize {
        self.ready + self.unready + self.missing + self.ignored
    }

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
pub fn classify(
    pod: &Pod,
    sample: Option<&PodSample>,
    is_cpu: bool,
    rules: &Readiness,
) -> PodClass {
    if pod.terminating || matches!(pod.phase, PodPhase::Failed | PodPhase::Succeeded) {
        return PodClass::Ignored;
    }
    if pod.phase == PodPhase::Pending {
        return PodClass::Unready;
    }
    let Some(sample) = sample else { return PodClass::Missing };
    if is_cpu && !cpu_sample_counts(pod, sample, rules) {
        PodClass::Unready
    } else {
        PodClass::Ready
    }
}

fn cpu_sample_counts(pod: &Pod, sample: &PodSample, rules: &Readiness) -> bool {
    let (Some(ReadyCondition { status, last_transition_time }), Some(start)) =
        (pod.ready, pod.start_time)
    else {
        return false;
    };
    let unready = status == Some(false);
    if after(start, rules.cpu_initialization_period) > rules.now {
        !unready && sample.timestamp >= after(last_transition_time, sample.window)
    } else {
        !unready || after(start, rules.initial_readiness_delay) <= last_transition_time
    }
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};
    use rstest::rstest;

    use super::*;
    use PodClass::{Ignored, Missing, Ready, Unready};

    const CPU: bool = true;
    const MEMORY: bool = false;
    const NEVER: i64 = i64::MIN;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// A pod that started at second 0; its readiness turned at second `turned`, if it has any.
    fn pod(phase: &str, ready: Option<bool>, turned: i64) -> Pod {
        let last_transition_time = at(turned.max(-1));
        Pod {
            name: "pod".into(),
            labels: [].into(),
            terminating: false,
            phase: phase.into(),
            start_time: Some(at(0)),
            ready: (turned != NEVER)
                .then_some(ReadyCondition { status: ready, last_transition_time }),
            requests: std::sync::Arc::default(),
        }
    }

    /// The class of a pod at second `now`, with a sample of the 30 seconds before second `sampled`.
    fn class(pod: &Pod, sampled: i64, is_cpu: bool, now: i64) -> PodClass {
        let window = SignedDuration::from_secs(30);
        let sample =
            (sampled != NEVER).then(|| PodSample { value: 1, timestamp: at(sampled), window });
        let rules = Readiness {
            now: at(now),
            cpu_initialization_period: SignedDuration::from_secs(300),
            initial_readiness_delay: SignedDuration::from_secs(20),
        };
        classify(pod, sample.as_ref(), is_cpu, &rules)
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
    fn phases(
        #[case] phase: &str,
        #[case] sampled: i64,
        #[case] expected: PodClass,
        #[values(CPU, MEMORY)] is_cpu: bool,
    ) {
        let mut pod = pod(phase, Some(true), 10);
        assert_eq!(class(&pod, sampled, is_cpu, 500), expected);
        pod.terminating = true;
        assert_eq!(class(&pod, sampled, is_cpu, 500), Ignored);
    }

    // Within the CPU initialization period, up to second 299.
    #[rstest]
    #[case::a_full_window_since_ready(Some(true), 100, 130, 299, Ready)]
    #[case::less_than_a_window_since_ready(Some(true), 100, 129, 299, Unready)]
    #[case::not_ready(Some(false), 100, 200, 299, Unready)]
    #[case::neither_with_a_window(None, 100, 130, 299, Ready)]
    #[case::neither_without(None, 100, 129, 299, Unready)]
    // After it, from second 300 on.
    #[case::ready_whatever_the_sample(Some(true), 100, 101, 300, Ready)]
    #[case::neither(None, 100, 101, 300, Ready)]
    #[case::was_ready_once(Some(false), 20, 200, 300, Ready)]
    #[case::turned_within_the_delay(Some(false), 19, 200, 300, Unready)]
    #[case::never_ready(None, NEVER, 200, 300, Unready)]
    fn cpu_samples(
        #[case] ready: Option<bool>,
        #[case] turned: i64,
        #[case] sampled: i64,
        #[case] now: i64,
        #[case] expected: PodClass,
    ) {
        let mut pod = pod("Running", ready, turned);
        assert_eq!(class(&pod, sampled, CPU, now), expected);
        assert_eq!(class(&pod, sampled, MEMORY, now), Ready);
        pod.start_time = None;
        assert_eq!(class(&pod, sampled, CPU, now), Unready);
    }

    #[test]
    fn spans_beyond_the_end_of_time() {
        let rules = Readiness {
            now: Timestamp::MAX,
            cpu_initialization_period: SignedDuration::MAX,
            initial_readiness_delay: SignedDuration::MIN,
        };
        let sample = PodSample { value: 1, timestamp: Timestamp::MIN, window: SignedDuration::MIN };
        assert_eq!(classify(&pod("Running", Some(true), 0), Some(&sample), CPU, &rules), Ready);
        assert_eq!(classify(&pod("Running", Some(false), 0), Some(&sample), CPU, &rules), Ready);
    }

    #[test]
    fn census() {
        let mut census = PodCounts::default();
        for class in
            [Ready, Unready, Unready, Missing, Missing, Missing, Ignored, Ignored, Ignored, Ignored]
        {
            census.count(class);
        }
        assert_eq!(census, PodCounts { ready: 1, unready: 2, missing: 3, ignored: 4 });
    }
}
