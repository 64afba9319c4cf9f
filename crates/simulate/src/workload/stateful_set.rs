//! The controller of `StatefulSet`s: the next pods to create and to terminate.

use serde_json::Value;

use super::model::{Pod, PodState, Workload};

/// A pod of a `StatefulSet`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct OrdinalPod {
    ordinal: u32,
    state: PodState,
    /// Whether it was created from the current template.
    is_current: bool,
}

/// The fields of a `StatefulSet` that the model uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatefulSetSpec {
    pub replicas: u32,
    /// `podManagementPolicy: Parallel`.
    is_parallel: bool,
    /// Whether pods of an old template are replaced (`updateStrategy: RollingUpdate`).
    replaces_old: bool,
    /// Pods with a lower ordinal keep their template.
    partition: i64,
}

/// The ordinals of the pods to create and to terminate in the next step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Step {
    create: Vec<u32>,
    terminate: Vec<u32>,
}

impl StatefulSetSpec {
    /// Reads the fields of an object's `spec`.
    pub fn new(replicas: u32, spec: &Value) -> Self {
        let text = |pointer: &str| spec.pointer(pointer).and_then(Value::as_str);
        let partition = spec.pointer("/updateStrategy/rollingUpdate/partition");
        Self {
            replicas,
            is_parallel: text("/podManagementPolicy") == Some("Parallel"),
            replaces_old: text("/updateStrategy/type") != Some("OnDelete"),
            partition: partition.and_then(Value::as_i64).unwrap_or_default(),
        }
    }

    /// The same spec with `podManagementPolicy: Parallel`.
    #[must_use]
    pub fn in_parallel(self) -> Self {
        Self { is_parallel: true, ..self }
    }

    /// Takes the next step towards the desired pods: terminates pods, and returns the ordinals of
    /// pods to create. `revision` is the current template.
    pub fn reconcile(
        &self,
        workload: &mut Workload,
        owner_uid: &str,
        revision: &str,
        now: f64,
    ) -> Vec<u32> {
        let owned = workload.pods.values().filter(|pod| pod.owner_uid == owner_uid);
        let mut pods: Vec<OrdinalPod> = owned
            .filter_map(|pod| {
                let (ordinal, state) = (ordinal(pod)?, pod.lifecycle.state);
                Some(OrdinalPod { ordinal, state, is_current: pod.revision == revision })
            })
            .collect();
        pods.sort_by_key(|pod| pod.ordinal);
        let Step { create, terminate } = self.next_step(&pods);
        for pod in workload.pods.values_mut().filter(|pod| pod.owner_uid == owner_uid) {
            if ordinal(pod).is_some_and(|ordinal| terminate.contains(&ordinal)) {
                pod.terminate(now);
            }
        }
        create
    }

    /// The next step towards the desired pods. `pods` are sorted by ordinal.
    fn next_step(&self, pods: &[OrdinalPod]) -> Step {
        let mut step = Step::default();
        let mut all_ready = true;
        let mut existing = pods.iter().peekable();
        for ordinal in 0..self.replicas {
            let pod = existing.next_if(|pod| pod.ordinal == ordinal);
            match pod.map(|pod| pod.state) {
                Some(PodState::Ready) => continue,
                Some(PodState::Evicted { .. }) => step.terminate.push(ordinal),
                Some(_) => {}
                None => step.create.push(ordinal),
            }
            all_ready = false;
            if !self.is_parallel {
                return step;
            }
        }
        let surplus = pods.iter().rev().filter(|pod| pod.ordinal >= self.replicas);
        let at_once = if self.is_parallel { usize::MAX } else { 1 };
        step.terminate.extend(surplus.take(at_once).map(|pod| pod.ordinal));
        if all_ready && step.terminate.is_empty() && self.replaces_old {
            let is_old =
                |pod: &&OrdinalPod| !pod.is_current && i64::from(pod.ordinal) >= self.partition;
            step.terminate.extend(pods.iter().rev().find(is_old).map(|pod| pod.ordinal));
        }
        step
    }
}

fn ordinal(pod: &Pod) -> Option<u32> {
    pod.name.rsplit('-').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: StatefulSetSpec =
        StatefulSetSpec { replicas: 2, is_parallel: false, replaces_old: true, partition: 0 };

    fn pod(ordinal: u32, state: PodState, is_current: bool) -> OrdinalPod {
        OrdinalPod { ordinal, state, is_current }
    }

    fn step(spec: StatefulSetSpec, pods: &[OrdinalPod]) -> (Vec<u32>, Vec<u32>) {
        let Step { create, terminate } = spec.next_step(pods);
        (create, terminate)
    }

    #[test]
    fn pods_are_created_one_after_the_other_unless_parallel() {
        assert_eq!(step(SPEC, &[]), (vec![0], vec![]));
        let starting = pod(0, PodState::Pending { until: 1.0 }, true);
        assert_eq!(step(SPEC, &[starting]), (vec![], vec![]));
        let parallel = StatefulSetSpec { is_parallel: true, ..SPEC };
        assert_eq!(step(parallel, &[starting]), (vec![1], vec![]));
    }

    #[test]
    fn pods_are_removed_and_replaced_from_the_highest_ordinal() {
        let ready = |ordinal, is_current| pod(ordinal, PodState::Ready, is_current);
        let four = [0, 1, 2, 3].map(|ordinal| ready(ordinal, true));
        assert_eq!(step(SPEC, &four), (vec![], vec![3]));
        let parallel = StatefulSetSpec { is_parallel: true, ..SPEC };
        assert_eq!(step(parallel, &four), (vec![], vec![3, 2]));
        let old = [ready(0, false), ready(1, false)];
        assert_eq!(step(SPEC, &old), (vec![], vec![1]));
        assert_eq!(step(StatefulSetSpec { partition: 2, ..SPEC }, &old), (vec![], vec![]));
        let failed = [pod(0, PodState::Evicted { since: 0.0 }, true), ready(1, false)];
        assert_eq!(step(SPEC, &failed), (vec![], vec![0]));
    }
}
