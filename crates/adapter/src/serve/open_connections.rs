//! The open connections of a server, and what each is used for.

use std::collections::HashMap;

use tokio_util::sync::CancellationToken;

/// The open connections of a server, so that it can close one of them when there are too many. `U`
/// is what a connection is used for.
#[derive(Debug)]
pub struct OpenConnections<U> {
    by_id: HashMap<u64, Entry<U>>,
    /// Incremented with each change, to order the changes.
    sequence: u64,
}

#[derive(Debug)]
struct Entry<U> {
    usage: U,
    /// The sequence number when `usage` was set.
    since: u64,
    close: CancellationToken,
}

impl<U> Default for OpenConnections<U> {
    fn default() -> Self {
        Self { by_id: HashMap::new(), sequence: 0 }
    }
}

impl<U: Copy + PartialEq> OpenConnections<U> {
    /// The number of connections.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there are no connections.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// The number of connections with this usage.
    pub fn count(&self, usage: U) -> usize {
        self.by_id.values().filter(|entry| entry.usage == usage).count()
    }

    /// Adds a connection. Returns its ID, and a token that is cancelled when it must be closed.
    pub fn add(&mut self, usage: U) -> (u64, CancellationToken) {
        let id = self.next_sequence();
        let close = CancellationToken::new();
        self.by_id.insert(id, Entry { usage, since: id, close: close.clone() });
        (id, close)
    }

    /// The usage of a connection that was neither removed nor closed.
    pub fn usage(&self, id: u64) -> Option<U> {
        self.by_id.get(&id).map(|entry| entry.usage)
    }

    /// Sets the usage of a connection, from now on.
    pub fn set(&mut self, id: u64, usage: U) {
        let since = self.next_sequence();
        if let Some(entry) = self.by_id.get_mut(&id) {
            (entry.usage, entry.since) = (usage, since);
        }
    }

    /// Closes the connection that has had this usage for the longest time. Returns whether there was
    /// one.
    pub fn close_oldest(&mut self, usage: U) -> bool {
        let with_usage = self.by_id.iter().filter(|(_, entry)| entry.usage == usage);
        let oldest = with_usage.min_by_key(|(_, entry)| entry.since).map(|(id, _)| *id);
        let closed = oldest.and_then(|id| self.by_id.remove(&id));
        closed.map(|entry| entry.close.cancel()).is_some()
    }

    /// Removes a connection that has ended.
    pub fn remove(&mut self, id: u64) {
        self.by_id.remove(&id);
    }

    fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }
}
