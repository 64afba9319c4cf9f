//! The open connections, and which one to close when there are too many.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// The open connections. Another one than the limit allows replaces the one that has been idle for
/// the longest time, so that idle connections can't keep out the API server or the kubelet's probes.
pub(crate) struct Connections {
    max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    open: HashMap<u64, Entry>,
    /// Incremented with each change, to order the changes.
    sequence: u64,
}

struct Entry {
    usage: Usage,
    /// The sequence number when `usage` changed.
    since: u64,
    close: CancellationToken,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Usage {
    /// The handshake is in progress, or no request is.
    Idle,
    /// A request is in progress.
    Busy,
    /// It belongs to a front proxy, whether it is idle or not.
    Reserved,
}

impl Connections {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, state: Mutex::default() })
    }

    /// Adds a connection. `None` if there are too many, and none of them is idle.
    pub(crate) fn open(self: &Arc<Self>) -> Option<Connection> {
        let mut state = self.state.lock();
        if state.open.len() >= self.max && !state.close_oldest_idle() {
            return None;
        }
        state.sequence += 1;
        let (id, close) = (state.sequence, CancellationToken::new());
        let entry = Entry { usage: Usage::Idle, since: id, close: close.clone() };
        state.open.insert(id, entry);
        Some(Connection { connections: self.clone(), id, close })
    }
}

impl State {
    fn close_oldest_idle(&mut self) -> bool {
        let idle = self.open.iter().filter(|(_, entry)| entry.usage == Usage::Idle);
        let oldest = idle.min_by_key(|(_, entry)| entry.since).map(|(id, _)| *id);
        let closed = oldest.and_then(|id| self.open.remove(&id));
        closed.map(|entry| entry.close.cancel()).is_some()
    }
}

/// An open connection. Dropping it removes it.
pub(crate) struct Connection {
    connections: Arc<Connections>,
    id: u64,
    close: CancellationToken,
}

impl Connection {
    /// Waits until the connection has to make room for another one.
    pub(crate) async fn replaced(&self) {
        self.close.cancelled().await;
    }

    /// Whether a request is in progress.
    pub(crate) fn set_busy(&self, is_busy: bool) {
        self.set(if is_busy { Usage::Busy } else { Usage::Idle });
    }

    /// Protects the connection of a front proxy.
    pub(crate) fn reserve(&self) {
        self.set(Usage::Reserved);
    }

    fn set(&self, usage: Usage) {
        let mut state = self.connections.state.lock();
        state.sequence += 1;
        let since = state.sequence;
        if let Some(entry) = state.open.get_mut(&self.id)
            && entry.usage != Usage::Reserved
        {
            (entry.usage, entry.since) = (usage, since);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.connections.state.lock().open.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_that_was_idle_for_the_longest_time_is_replaced() {
        let connections = Connections::new(5);
        let open: Vec<_> = (0..5).map(|_| connections.open().unwrap()).collect();
        open[0].set_busy(true);
        open[1].reserve();
        open[1].set_busy(true);
        open[1].set_busy(false);
        open[2].set_busy(true);
        open[2].set_busy(false);
        let _next = connections.open().unwrap();
        let replaced: Vec<_> = (0..5).filter(|at| open[*at].close.is_cancelled()).collect();
        assert_eq!(replaced, [3]);
    }

    #[test]
    fn connection_is_refused_if_all_are_busy() {
        let connections = Connections::new(2);
        let (busy, front_proxy) = (connections.open().unwrap(), connections.open().unwrap());
        busy.set_busy(true);
        front_proxy.reserve();
        assert!(connections.open().is_none());
        drop(busy);
        assert!(connections.open().is_some());
        assert!(!front_proxy.close.is_cancelled());
    }
}
