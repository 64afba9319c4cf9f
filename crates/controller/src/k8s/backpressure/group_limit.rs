//! Limits the concurrent requests for each API group.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::Semaphore;

/// A semaphore for each API group, so that a group whose requests hang leaves connections to the
/// others.
#[derive(Debug)]
pub(super) struct GroupLimit {
    max: usize,
    groups: Mutex<HashMap<Box<str>, Arc<Semaphore>>>,
}

impl GroupLimit {
    pub(super) fn new(max: usize) -> Self {
        Self { max, groups: Mutex::default() }
    }

    /// The semaphore of a group. It is never closed.
    pub(super) fn of(&self, group: &str) -> Arc<Semaphore> {
        let mut groups = self.groups.lock();
        if let Some(semaphore) = groups.get(group) {
            return semaphore.clone();
        }
        // Users can name any group as a target, so groups without requests are removed.
        groups.retain(|_, semaphore| semaphore.available_permits() < self.max);
        let semaphore = Arc::new(Semaphore::new(self.max));
        groups.insert(group.into(), semaphore.clone());
        semaphore
    }
}
