//! Work that only the leader does.

use std::{fmt, sync::Arc};

use futures::future::BoxFuture;
use kube::Client;
use tokio_util::sync::CancellationToken;
use tracing::info;

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
            if leadership.acquired().await.is_none() {
                return;
            }
            tokio::select! {
                () = leadership.lost() => info!("lost the leader lease"),
                () = async { work(leadership.clone()).await; std::future::pending().await } => {}
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
pub struct LeaderTask(Arc<Start>);

impl LeaderTask {
    /// `start` is called when this instance becomes the leader, and returns the work.
    pub fn new(
        start: impl Fn(LeaderContext) -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(start))
    }

    pub fn run(&self, context: LeaderContext) -> BoxFuture<'static, ()> {
        (self.0)(context)
    }
}

impl fmt::Debug for LeaderTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderTask").finish_non_exhaustive()
    }
}
