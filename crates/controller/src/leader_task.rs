//! Work of others that only the leader may do.

use std::{fmt, sync::Arc};

use futures::future::BoxFuture;
use kube::Client;

use crate::events::EventRecorder;

/// What a [`LeaderTask`] works with.
#[derive(Clone)]
pub struct LeaderContext {
    /// Sends write requests only while this instance is the leader.
    pub client: Client,
    /// Writes events only while this instance is the leader.
    pub events: EventRecorder,
}

type Start = dyn Fn(LeaderContext) -> BoxFuture<'static, ()> + Send + Sync;

/// A task that runs while this instance is the leader. It is aborted when that ends.
#[derive(Clone)]
pub struct LeaderTask(Arc<Start>);

impl LeaderTask {
    /// A task that `start` returns when this instance becomes the leader.
    pub fn new(
        start: impl Fn(LeaderContext) -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(start))
    }

    /// The task.
    pub fn run(&self, context: LeaderContext) -> BoxFuture<'static, ()> {
        (self.0)(context)
    }
}

impl fmt::Debug for LeaderTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderTask").finish_non_exhaustive()
    }
}
