//! Work that only the leader does, and panics of tasks.

use std::{future::pending, panic::AssertUnwindSafe, sync::Arc};

use futures::{FutureExt, future::BoxFuture};
use kube::Client;
use tokio::{sync::watch, task::JoinHandle};
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use crate::{
    candidate::Candidate, clock::Clock, election::Election, events::EventRecorder,
    leadership::Leadership,
};

/// Calls `work` whenever this instance becomes the leader, until `stop` is cancelled. When the
/// leadership ends, drops the future of `work` and joins the election again. If `work` completes
/// before that, this instance stays the leader. Releases the lease at the end.
pub async fn lead<F: Future<Output = ()>>(
    election: Option<&Election>,
    clock: Arc<dyn Clock>,
    stop: &CancellationToken,
    work: impl Fn(Leadership) -> F,
) {
    while !stop.is_cancelled() {
        let candidate = Candidate::new(election, clock.clone(), Arc::new(()));
        let leadership = candidate.leadership();
        let term = async {
            if leadership.acquired().await.is_err() {
                return;
            }
            tokio::select! {
                () = leadership.lost() => info!("lost the leader lease"),
                () = async { work(leadership.clone()).await; pending().await } => {}
            }
        };
        tokio::select! {
            () = term => {}
            () = stop.cancelled() => {}
        }
        candidate.release().await;
    }
}

/// The client and the recorder of a [`LeaderTask`].
#[derive(Clone)]
pub struct LeaderContext {
    /// Sends write requests only while this instance is the leader.
    pub client: Client,
    /// Writes events only while this instance is the leader.
    pub events: EventRecorder,
}

type Start = dyn Fn(LeaderContext) -> BoxFuture<'static, ()> + Send + Sync;

/// Work that only the leader may do. It is aborted when the leadership ends or the controller shuts
/// down.
#[derive(Clone)]
pub struct LeaderTask {
    name: &'static str,
    start: Arc<Start>,
}

impl LeaderTask {
    /// `start` is called when this instance becomes the leader, and returns the work. The name is
    /// for the error if the work panics.
    pub fn new(
        name: &'static str,
        start: impl Fn(LeaderContext) -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) -> Self {
        Self { name, start: Arc::new(start) }
    }

    /// Does the work. A panic is reported to `panics`.
    pub async fn run(self, context: LeaderContext, panics: TaskPanics) {
        let Self { name, start } = self;
        panics.catch(name, async move { start(context).await }).await;
    }
}

/// A task that is needed all the time panicked. The process must end, so that a restart or another
/// instance does the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {0} panicked")]
pub struct TaskPanicked(&'static str);

/// Detects panics of tasks that are needed all the time. The work of such a task would stop
/// unnoticed, so a panic ends the process, as in Kubernetes' own controllers.
#[derive(Clone, Debug, Default)]
pub struct TaskPanics(watch::Sender<Option<TaskPanicked>>);

impl TaskPanics {
    /// Spawns a task. The error of a panic has the name.
    pub fn spawn(
        &self,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> JoinHandle<()> {
        tokio::spawn(self.clone().catch(name, task))
    }

    /// Runs a task to its end, or until it panics.
    pub async fn catch(self, name: &'static str, task: impl Future<Output = ()>) {
        if AssertUnwindSafe(task).catch_unwind().await.is_err() {
            let panicked = TaskPanicked(name);
            error!("{panicked}");
            self.0.send_replace(Some(panicked));
        }
    }

    /// Does `work`. If a task panics, cancels `stop`, waits until `work` has ended, and fails.
    pub async fn stop_at_panic<T>(
        &self,
        stop: &CancellationToken,
        mut work: impl Future<Output = T> + Unpin,
    ) -> Result<T, TaskPanicked> {
        tokio::select! {
            outcome = &mut work => Ok(outcome),
            panicked = self.panicked() => {
                stop.cancel();
                work.await;
                Err(panicked)
            }
        }
    }

    /// Waits for a panic.
    pub async fn panicked(&self) -> TaskPanicked {
        let mut receiver = self.0.subscribe();
        let panicked = receiver.wait_for(Option::is_some).await.map(|panicked| *panicked);
        match panicked {
            Ok(Some(panicked)) => panicked,
            // The sender of `self` is not dropped.
            Ok(None) | Err(_) => pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, pin::pin};

    use http::{Request, Response};
    use kube::client::Body;
    use tower::service_fn;

    use super::*;

    #[tokio::test]
    async fn panic_of_a_task_stops_the_work() {
        let (panics, stop) = (TaskPanics::default(), CancellationToken::new());
        panics.spawn("test task", async { panic!("a bug") });
        let outcome = panics.stop_at_panic(&stop, pin!(stop.cancelled())).await;
        assert_eq!(outcome.unwrap_err().to_string(), "the test task panicked");
    }

    #[tokio::test]
    async fn panic_before_the_work_of_a_leader_task_is_reported() {
        let never = service_fn(|_: Request<Body>| pending::<Result<Response<Body>, Infallible>>());
        let client = Client::new(never, "default");
        let (events, _writer) = EventRecorder::new(client.clone());
        let (panics, context) = (TaskPanics::default(), LeaderContext { client, events });
        let task = LeaderTask::new("test task", |_| panic!("a bug"));
        task.run(context, panics.clone()).await;
        assert_eq!(panics.panicked().await.to_string(), "the test task panicked");
    }
}
