//! The open connections, and which one to close when there are too many.

use std::sync::Arc;

use hpa_serve::OpenConnections;
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
    open: Mutex<OpenConnections<Activity>>,
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
        let mut open = self.open.lock();
        if open.len() >= MAX_CONNECTIONS {
            // Fewer than all connections have a scrape, so one is idle.
            open.close_oldest(Activity::Idle);
        }
        let (id, close) = open.add(Activity::Idle);
        Connection { connections: self.clone(), id, close }
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
        self.connections.open.lock().set(self.id, Activity::Idle);
    }

    /// Starts a scrape. If there are too many, closes the connection with the oldest one.
    pub(super) fn begin_scrape(&self) -> Scrape {
        let mut open = self.connections.open.lock();
        if open.count(Activity::Scrape) >= MAX_SCRAPES {
            open.close_oldest(Activity::Scrape);
        }
        open.set(self.id, Activity::Scrape);
        Scrape { connections: self.connections.clone(), id: self.id }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.connections.open.lock().remove(self.id);
    }
}

/// A scrape in progress. It ends when this is dropped.
pub(super) struct Scrape {
    connections: Arc<Connections>,
    id: u64,
}

impl Drop for Scrape {
    fn drop(&mut self) {
        self.connections.open.lock().set(self.id, Activity::Idle);
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
