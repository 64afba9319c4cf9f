//! When a connection is idle, so that it can be closed.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

/// How long a new connection may take until its first request.
const FIRST_REQUEST: Duration = Duration::from_secs(32);

/// How long a connection may be idle between requests. As in kube-apiserver.
const BETWEEN_REQUESTS: Duration = Duration::from_secs(90);

/// The requests of a connection.
#[derive(Debug)]
pub(crate) struct Activity(Mutex<State>);

#[derive(Debug)]
struct State {
    running: usize,
    /// When the connection is idle for too long, if no request runs or starts until then.
    deadline: Instant,
}

/// A request in progress, until it is dropped.
#[derive(Debug)]
pub(crate) struct Running(Arc<Activity>);

impl Activity {
    /// The activity of a new connection.
    pub(crate) fn new() -> Arc<Self> {
        let deadline = Instant::now() + FIRST_REQUEST;
        Arc::new(Self(Mutex::new(State { running: 0, deadline })))
    }

    /// Starts a request.
    pub(crate) fn start(self: &Arc<Self>) -> Running {
        self.0.lock().running += 1;
        Running(self.clone())
    }

    /// Waits until the connection has been idle for too long.
    pub(crate) async fn idle(&self) {
        loop {
            let now = Instant::now();
            let next_check = {
                let state = self.0.lock();
                match state.running {
                    0 if now >= state.deadline => return,
                    0 => state.deadline,
                    _ => now + BETWEEN_REQUESTS,
                }
            };
            sleep_until(next_check).await;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        state.running -= 1;
        state.deadline = Instant::now() + BETWEEN_REQUESTS;
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn connection_without_a_request_is_idle_after_32_seconds() {
        let started = Instant::now();
        Activity::new().idle().await;
        assert_eq!(started.elapsed(), FIRST_REQUEST);
    }

    #[tokio::test(start_paused = true)]
    async fn connection_is_idle_90_seconds_after_its_last_request() {
        let started = Instant::now();
        let activity = Activity::new();
        let requests = async {
            for _ in 0..2 {
                let request = activity.start();
                sleep(Duration::from_mins(5)).await;
                drop(request);
                sleep(Duration::from_mins(1)).await;
            }
        };
        let (idle_after, ()) = tokio::join!(
            async {
                activity.idle().await;
                started.elapsed()
            },
            requests
        );
        assert_eq!(idle_after, Duration::from_mins(11) + BETWEEN_REQUESTS);
    }
}
