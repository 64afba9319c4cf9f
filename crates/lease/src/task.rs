//! Work that only the leader does.

use std::{fmt, sync::Arc};

use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::{Candidate, Clock, Election, Leadership};

/// Calls `lead` whenever this instance becomes the leader, until `stop` is cancelled. Drops the
/// future when the leadership ends, and then takes part in the election again. At the end, releases
/// the lease.
pub async fn lead<F: Future<Output = ()>>(
    election: Option<&Election>,
    clock: Arc<dyn Clock>,
    stop: &CancellationToken,
    lead: impl Fn(Leadership) -> F,
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
                () = async { lead(leadership.clone()).await; std::future::pending().await } => {}
            }
        };
        tokio::select! {
            () = term => {}
            () = stop.cancelled() => {}
        }
        candidate.release().await;
    }
}

type Start<C> = dyn Fn(C) -> BoxFuture<'static, ()> + Send + Sync;

/// A task that runs while this instance is the leader. It is aborted when that ends. `C` is what it
/// works with, such as a client that [`Leadership::fence`] returned.
pub struct LeaderTask<C>(Arc<Start<C>>);

impl<C> LeaderTask<C> {
    /// A task that `start` returns when this instance becomes the leader.
    pub fn new(start: impl Fn(C) -> BoxFuture<'static, ()> + Send + Sync + 'static) -> Self {
        Self(Arc::new(start))
    }

    pub fn run(&self, context: C) -> BoxFuture<'static, ()> {
        (self.0)(context)
    }
}

impl<C> Clone for LeaderTask<C> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<C> fmt::Debug for LeaderTask<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderTask").finish_non_exhaustive()
    }
}
