//! The open connections, and which one to close when there are too many.

use std::sync::Arc;

use hpa_adapter::serve::OpenConnections;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// How many connections may be open. Another one replaces the oldest that is idle, so that idle
/// connections can't keep the kubelet's probes out.
pub(super) const MAX_CONNECTIONS: usize = 64;

/// The open connections.
pub(crate) struct Connections {
    open: Mutex<OpenConnections<Activity>>,
    max_long_responses: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Activity {
    /// Waits for a request head, or for the client to read a short response.
    Idle,
    /// A long response is in progress.
    LongResponse,
}

impl Connections {
    /// `max_long_responses` connections may wait for a long response, or receive one. Each may hold
    /// megabytes until its client has read them. Another one replaces the oldest.
    pub(super) fn new(max_long_responses: usize) -> Self {
        Self { open: Mutex::default(), max_long_responses }
    }

    /// Adds a connection. If there are too many, closes the oldest idle one.
    pub(super) fn open(self: &Arc<Self>) -> Connection {
        let mut open = self.open.lock();
        if open.len() >= MAX_CONNECTIONS {
            // Fewer than all connections have a long response, so one is idle.
            open.close_oldest(Activity::Idle);
        }
        let (id, close) = open.add(Activity::Idle);
        Connection { connections: self.clone(), id, close }
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
    pub(super) async fn replaced(&self) {
        self.close.cancelled().await;
    }

    /// A request arrived that is answered at once.
    pub(crate) fn touch(&self) {
        self.connections.open.lock().set(self.id, Activity::Idle);
    }

    /// Starts a long response. If there are too many, closes the connection with the oldest one.
    pub(crate) fn begin_long_response(&self) -> LongResponse {
        let mut open = self.connections.open.lock();
        if open.count(Activity::LongResponse) >= self.connections.max_long_responses {
            open.close_oldest(Activity::LongResponse);
        }
        open.set(self.id, Activity::LongResponse);
        LongResponse { connections: self.connections.clone(), id: self.id }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.connections.open.lock().remove(self.id);
    }
}

/// A long response in progress. It ends when this is dropped.
pub(crate) struct LongResponse {
    connections: Arc<Connections>,
    id: u64,
}

impl Drop for LongResponse {
    fn drop(&mut self) {
        self.connections.open.lock().set(self.id, Activity::Idle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_LONG: usize = 4;

    fn is_replaced(connection: &Connection) -> bool {
        connection.close.is_cancelled()
    }

    #[test]
    fn oldest_idle_connection_is_replaced_when_all_are_taken() {
        let connections = Arc::new(Connections::new(MAX_LONG));
        let open: Vec<_> = (0..MAX_CONNECTIONS).map(|_| connections.open()).collect();
        let _response = open[0].begin_long_response();
        open[1].touch();
        let _next = connections.open();
        let replaced: Vec<_> = (0..MAX_CONNECTIONS).filter(|at| is_replaced(&open[*at])).collect();
        assert_eq!(replaced, [2]);
    }

    #[test]
    fn closed_connection_makes_room() {
        let connections = Arc::new(Connections::new(MAX_LONG));
        let mut open: Vec<_> = (0..MAX_CONNECTIONS).map(|_| connections.open()).collect();
        open.pop();
        open.push(connections.open());
        assert!(!open.iter().any(is_replaced));
    }

    #[test]
    fn oldest_long_response_is_replaced_when_there_are_too_many() {
        let connections = Arc::new(Connections::new(MAX_LONG));
        let open: Vec<_> = (0..=MAX_LONG).map(|_| connections.open()).collect();
        let mut responses: Vec<_> =
            open.iter().take(MAX_LONG).map(Connection::begin_long_response).collect();
        responses.remove(0);
        responses.push(open[MAX_LONG].begin_long_response());
        assert!(!open.iter().any(is_replaced));
        responses.push(open[0].begin_long_response());
        assert!(is_replaced(&open[1]) && !is_replaced(&open[2]));
    }
}
