//! The open connections, and which one to close when there are too many.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// How many connections may be open. Another one replaces the oldest that is idle, so that idle
/// connections can't keep the kubelet's probes out.
pub(super) const MAX_CONNECTIONS: usize = 64;

/// How many connections may wait for `/metrics`, or receive it. Each may hold megabytes until its
/// client has read them. Another one replaces the oldest.
pub(super) const MAX_SCRAPES: usize = 4;

/// The open connections.
#[derive(Default)]
pub(super) struct Connections {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    open: HashMap<u64, Entry>,
    /// Incremented with each change, to order the changes.
    sequence: u64,
}

struct Entry {
    activity: Activity,
    /// The sequence number when `activity` started.
    since: u64,
    close: CancellationToken,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Activity {
    /// Waits for a request head, or for the client to read a short response.
    Idle,
    /// A scrape of `/metrics` is in progress.
    Scrape,
}

impl Connections {
    /// Adds a connection. If there are too many, closes the oldest idle one.
    pub(super) fn open(self: &Arc<Self>) -> Connection {
        let mut state = self.state.lock();
        if state.open.len() >= MAX_CONNECTIONS {
            // Fewer than all connections have a scrape, so one is idle.
            state.close_oldest(Activity::Idle);
        }
        let id = state.next_sequence();
        let close = CancellationToken::new();
        let entry = Entry { activity: Activity::Idle, since: id, close: close.clone() };
        state.open.insert(id, entry);
        Connection { connections: self.clone(), id, close }
    }
}

impl State {
    fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    fn close_oldest(&mut self, activity: Activity) {
        let of_activity = self.open.iter().filter(|(_, entry)| entry.activity == activity);
        let oldest = of_activity.min_by_key(|(_, entry)| entry.since).map(|(id, _)| *id);
        if let Some(entry) = oldest.and_then(|id| self.open.remove(&id)) {
            entry.close.cancel();
        }
    }

    fn scrapes(&self) -> usize {
        self.open.values().filter(|entry| entry.activity == Activity::Scrape).count()
    }

    fn set(&mut self, id: u64, activity: Activity) {
        let since = self.next_sequence();
        if let Some(entry) = self.open.get_mut(&id) {
            entry.activity = activity;
            entry.since = since;
        }
    }
}

/// An open connection. Dropping it removes it.
pub(super) struct Connection {
    connections: Arc<Connections>,
    id: u64,
    close: CancellationToken,
}

impl Connection {
    /// Waits until the connection has to make room for another one.
    pub(super) async fn replaced(&self) {
        self.close.cancelled().await;
    }

    /// A request arrived that is answered at once.
    pub(super) fn touch(&self) {
        self.connections.state.lock().set(self.id, Activity::Idle);
    }

    /// Starts a scrape. If there are too many, closes the connection with the oldest one.
    pub(super) fn begin_scrape(&self) -> Scrape {
        let mut state = self.connections.state.lock();
        if state.scrapes() >= MAX_SCRAPES {
            state.close_oldest(Activity::Scrape);
        }
        state.set(self.id, Activity::Scrape);
        Scrape { connections: self.connections.clone(), id: self.id }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.connections.state.lock().open.remove(&self.id);
    }
}

/// A scrape in progress. It ends when this is dropped.
pub(super) struct Scrape {
    connections: Arc<Connections>,
    id: u64,
}

impl Drop for Scrape {
    fn drop(&mut self) {
        self.connections.state.lock().set(self.id, Activity::Idle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_replaced(connection: &Connection) -> bool {
        connection.close.is_cancelled()
    }

    #[test]
    fn oldest_idle_connection_is_replaced_when_all_are_taken() {
        let connections = Arc::new(Connections::default());
        let open: Vec<_> = (0..MAX_CONNECTIONS).map(|_| connections.open()).collect();
        let _scrape = open[0].begin_scrape();
        open[1].touch();
        let _next = connections.open();
        let replaced: Vec<_> = (0..MAX_CONNECTIONS).filter(|at| is_replaced(&open[*at])).collect();
        assert_eq!(replaced, [2]);
    }

    #[test]
    fn closed_connection_makes_room() {
        let connections = Arc::new(Connections::default());
        let mut open: Vec<_> = (0..MAX_CONNECTIONS).map(|_| connections.open()).collect();
        open.pop();
        open.push(connections.open());
        assert!(!open.iter().any(is_replaced));
    }

    #[test]
    fn oldest_scrape_is_replaced_when_there_are_too_many() {
        let connections = Arc::new(Connections::default());
        let open: Vec<_> = (0..=MAX_SCRAPES).map(|_| connections.open()).collect();
        let mut scrapes: Vec<_> =
            open.iter().take(MAX_SCRAPES).map(Connection::begin_scrape).collect();
        scrapes.remove(0);
        scrapes.push(open[MAX_SCRAPES].begin_scrape());
        assert!(!open.iter().any(is_replaced));
        scrapes.push(open[0].begin_scrape());
        assert!(is_replaced(&open[1]) && !is_replaced(&open[2]));
    }
}
