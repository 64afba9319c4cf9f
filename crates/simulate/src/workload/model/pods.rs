//! The pods of a workload.

use std::slice;

use super::pod::Pod;

/// Pods in the order of their creation. They are iterated several times per simulated second, which
/// is faster than in a map.
#[derive(Debug, Default)]
pub struct Pods {
    /// Sorted by number.
    pods: Vec<Pod>,
    created: u64,
}

impl Pods {
    /// The number of the next pod.
    pub(super) fn next_number(&self) -> u64 {
        self.created
    }

    /// Adds a pod and gives it its number.
    pub(super) fn push(&mut self, mut pod: Pod) -> u64 {
        pod.number = self.created;
        self.created += 1;
        let number = pod.number;
        self.pods.push(pod);
        number
    }

    /// The pod with this number, if it still exists.
    pub fn get(&self, number: u64) -> Option<&Pod> {
        let index = self.pods.binary_search_by_key(&number, |pod| pod.number).ok()?;
        self.pods.get(index)
    }

    pub fn values(&self) -> slice::Iter<'_, Pod> {
        self.pods.iter()
    }

    pub fn values_mut(&mut self) -> slice::IterMut<'_, Pod> {
        self.pods.iter_mut()
    }

    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    pub(super) fn retain(&mut self, keep: impl FnMut(&Pod) -> bool) {
        self.pods.retain(keep);
    }
}
