//! When a connection has to be closed: it is idle, or its client doesn't read a response.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use hyper::body::Bytes;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

use crate::connections::Connection;

/// How long a new connection may take until its first request.
const FIRST_REQUEST: Duration = Duration::from_secs(32);

/// How long a connection may be idle between requests. As in kube-apiserver.
const BETWEEN_REQUESTS: Duration = Duration::from_secs(90);

/// How long a client may take to read a response.
const RESPONSE: Duration = Duration::from_secs(60);

/// How often a connection with requests is checked.
const CHECK: Duration = Duration::from_secs(5);

/// The requests of a connection.
pub(crate) struct Activity {
    connection: Connection,
    state: Mutex<State>,
}

struct State {
    /// Requests that are being answered, and those whose responses have not been sent.
    running: usize,
    /// When responses that have not been sent were ready. The first one is the oldest.
    unsent: BTreeMap<u64, Instant>,
    last_response: u64,
    /// When the connection is idle for too long, if no request runs or starts until then.
    deadline: Instant,
}

/// Why a connection has to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expiry {
    /// It has been idle for too long.
    Idle,
    /// The client has not read a response.
    Unread,
}

/// A request in progress, until its response has been sent.
pub(crate) struct Running {
    activity: Arc<Activity>,
    response: Option<u64>,
}

/// A response that has been sent when this is dropped.
struct Sending {
    bytes: Bytes,
    _running: Running,
}

impl AsRef<[u8]> for Sending {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Activity {
    /// The activity of a new connection.
    pub(crate) fn new(connection: Connection) -> Arc<Self> {
        let deadline = Instant::now() + FIRST_REQUEST;
        let state = State { running: 0, unsent: BTreeMap::new(), last_response: 0, deadline };
        Arc::new(Self { connection, state: Mutex::new(state) })
    }

    /// Starts a request.
    pub(crate) fn start(self: &Arc<Self>) -> Running {
        let mut state = self.state.lock();
        state.running += 1;
        self.connection.set_busy(true);
        drop(state);
        Running { activity: self.clone(), response: None }
    }

    /// Protects the connection of a front proxy from being replaced.
    pub(crate) fn reserve(&self) {
        self.connection.reserve();
    }

    /// Waits until the connection has to make room for another one.
    pub(crate) async fn replaced(&self) {
        self.connection.replaced().await;
    }

    /// Waits until the connection has to be closed.
    pub(crate) async fn expired(&self) -> Expiry {
        loop {
            let now = Instant::now();
            let next_check = {
                let state = self.state.lock();
                let oldest = state.unsent.values().next();
                match state.running {
                    _ if oldest.is_some_and(|ready| now >= *ready + RESPONSE) => {
                        return Expiry::Unread;
                    }
                    0 if now >= state.deadline => return Expiry::Idle,
                    0 => state.deadline,
                    _ => now + CHECK,
                }
            };
            // A request can start in the meantime.
            sleep_until(next_check.min(now + CHECK)).await;
        }
    }
}

impl Running {
    /// The bytes of the response. The request ends when they have been sent.
    pub(crate) fn send(mut self, bytes: Bytes) -> Bytes {
        let mut state = self.activity.state.lock();
        state.last_response += 1;
        let response = state.last_response;
        state.unsent.insert(response, Instant::now());
        drop(state);
        self.response = Some(response);
        Bytes::from_owner(Sending { bytes, _running: self })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut state = self.activity.state.lock();
        if let Some(response) = self.response {
            state.unsent.remove(&response);
        }
        state.running -= 1;
        state.deadline = Instant::now() + BETWEEN_REQUESTS;
        if state.running == 0 {
            self.activity.connection.set_busy(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;
    use crate::connections::Connections;

    fn activity() -> Arc<Activity> {
        Activity::new(Connections::new(1).open().unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn connection_without_a_request_is_idle_after_32_seconds() {
        let started = Instant::now();
        assert_eq!(activity().expired().await, Expiry::Idle);
        assert_eq!(started.elapsed(), FIRST_REQUEST);
    }

    #[tokio::test(start_paused = true)]
    async fn connection_is_idle_90_seconds_after_its_last_request() {
        let started = Instant::now();
        let activity = activity();
        let requests = async {
            for _ in 0..2 {
                let request = activity.start();
                sleep(Duration::from_mins(5)).await;
                drop(request.send(Bytes::from_static(b"ok")));
                sleep(Duration::from_mins(1)).await;
            }
        };
        let ((expiry, idle_after), ()) =
            tokio::join!(async { (activity.expired().await, started.elapsed()) }, requests);
        assert_eq!(expiry, Expiry::Idle);
        assert_eq!(idle_after, Duration::from_mins(11) + BETWEEN_REQUESTS);
    }

    #[tokio::test(start_paused = true)]
    async fn connection_expires_60_seconds_after_a_response_that_is_not_read() {
        let activity = activity();
        let first = activity.start().send(Bytes::from_static(b"read"));
        sleep(Duration::from_secs(50)).await;
        let second = activity.start().send(Bytes::from_static(b"not read"));
        drop(first);
        let started = Instant::now();
        assert_eq!(activity.expired().await, Expiry::Unread);
        assert!(started.elapsed() <= RESPONSE + CHECK, "{:?}", started.elapsed());
        assert!(started.elapsed() >= RESPONSE);
        drop(second);
    }
}
