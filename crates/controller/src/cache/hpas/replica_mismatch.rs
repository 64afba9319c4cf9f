//! Detects that a target's replicas differ from its pods for several reconciles.

use hpa_calc::api::Pod;

/// After this many consecutive reconciles with a mismatch, the scale is read. In a rollout, the
/// target reports new replicas within seconds.
const READ_AFTER: u32 = 3;

/// A mismatch may last, because a selector may also match other pods. So the scale is read again
/// only after this many further reconciles.
const READ_AGAIN_AFTER: u32 = 20;

/// Counts the consecutive reconciles in which the target's replicas differed from its pods.
#[derive(Debug, Default)]
pub(super) struct ReplicaMismatch {
    reconcile_count: u32,
}

impl ReplicaMismatch {
    /// Compares the replicas that a target reports with its pods. Returns whether the next
    /// reconcile must read the scale.
    ///
    /// Some kinds count pods that are being deleted or have finished, others don't. So any number
    /// from the active pods to all pods matches.
    pub(super) fn observe<'a>(
        &mut self,
        replicas: i32,
        pods: impl Iterator<Item = &'a Pod>,
    ) -> bool {
        let (mut active, mut all) = (0, 0);
        for pod in pods {
            active += usize::from(pod.is_active());
            all += 1;
        }
        if usize::try_from(replicas).is_ok_and(|replicas| (active..=all).contains(&replicas)) {
            self.reconcile_count = 0;
            return false;
        }
        self.reconcile_count = self.reconcile_count.saturating_add(1);
        let further = self.reconcile_count.checked_sub(READ_AFTER);
        further.is_some_and(|further| further % READ_AGAIN_AFTER == 0)
    }
}

#[cfg(test)]
mod tests {
    use hpa_calc::api::{PodPhase, PodSpec, PodStatus};

    use super::*;

    fn pod(phase: PodPhase, terminating: bool) -> Pod {
        let (spec, status) = (PodSpec::default(), PodStatus::default());
        Pod { phase, ..Pod::new("web-0".into(), [], terminating, &spec, &status) }
    }

    fn running(count: usize) -> Vec<Pod> {
        vec![pod(PodPhase::Running, false); count]
    }

    #[test]
    fn lasting_mismatch_requires_a_read_after_three_reconciles_and_then_rarely() {
        let mut mismatch = ReplicaMismatch::default();
        let pods = running(2);
        let required: Vec<u32> = (1..=45).filter(|_| mismatch.observe(4, pods.iter())).collect();
        assert_eq!(required, [3, 23, 43]);
    }

    #[test]
    fn short_mismatches_require_no_read() {
        let mut mismatch = ReplicaMismatch::default();
        let pods = running(3);
        for _ in 0..10 {
            let replicas = [4, 2, 3];
            assert_eq!(
                replicas.map(|replicas| mismatch.observe(replicas, pods.iter())),
                [false; 3]
            );
        }
    }

    #[test]
    fn replicas_may_include_terminating_and_failed_pods() {
        let mut mismatch = ReplicaMismatch::default();
        let mut pods = running(2);
        pods.extend([pod(PodPhase::Running, true), pod(PodPhase::Failed, false)]);
        for replicas in [2, 3, 4, 2, 3, 4] {
            assert!(!mismatch.observe(replicas, pods.iter()));
        }
        let required = (0..3).any(|_| mismatch.observe(5, pods.iter()));
        assert!(required);
    }
}
