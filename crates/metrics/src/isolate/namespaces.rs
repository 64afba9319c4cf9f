//! The limits of the namespaces of one API.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use tokio::sync::Semaphore;

/// The semaphores of namespaces with requests that wait or are in flight.
pub(super) struct Namespaces {
    concurrency: usize,
    slots: HashMap<Arc<str>, Weak<Semaphore>>,
    /// When to remove the unused ones: at this number of entries.
    sweep_at: usize,
}

impl Namespaces {
    const MIN_SWEEP: usize = 64;

    pub(super) fn new(concurrency: usize) -> Self {
        Self { concurrency, slots: HashMap::new(), sweep_at: Self::MIN_SWEEP }
    }

    pub(super) fn slots(&mut self, namespace: &Arc<str>) -> Arc<Semaphore> {
        if let Some(slots) = self.slots.get(namespace).and_then(Weak::upgrade) {
            return slots;
        }
        if self.slots.len() >= self.sweep_at {
            self.slots.retain(|_, slots| slots.strong_count() > 0);
            self.sweep_at = (self.slots.len() * 2).max(Self::MIN_SWEEP);
        }
        let slots = Arc::new(Semaphore::new(self.concurrency));
        self.slots.insert(Arc::clone(namespace), Arc::downgrade(&slots));
        slots
    }
}
