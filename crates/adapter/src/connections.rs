//! The open connections, and which one to close when there are too many.

use std::sync::Arc;

use crate::serve::OpenConnections;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// The open connections. Another one than the limit allows replaces the one that has been idle for
/// the longest time, so that idle connections can't keep out the API server or the kubelet's probes.
pub(crate) struct Connections {
    max: usize,
    open: Mutex<OpenConnections<Usage>>,
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
        Arc::new(Self { max, open: Mutex::default() })
    }

    /// Adds a connection. `None` if there are too many, and none of them is idle.
    pub(crate) fn open(self: &Arc<Self>) -> Option<Connection> {
        let mut open = self.open.lock();
        if open.len() >= self.max && !open.close_oldest(Usage::Idle) {
            return None;
        }
        let (id, close) = open.add(Usage::Idle);
        Some(Connection { connections: self.clone(), id, close })
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
        let mut open = self.connections.open.lock();
        if open.usage(self.id) != Some(Usage::Reserved) {
            open.set(self.id, usage);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.connections.open.lock().remove(self.id);
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
