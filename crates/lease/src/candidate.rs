//! An instance in an election.

use std::sync::Arc;

use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{
    clock::Clock,
    election::{Election, LeaseHooks},
    elector::Elector,
    leadership::Leadership,
};

/// An instance in an election, or a single instance without an election. If the leader's candidate
/// is dropped without [`Candidate::release`], the next leader has to wait until the lease expires.
pub struct Candidate {
    leadership: Leadership,
    release: CancellationToken,
    elector: Option<AbortOnDropHandle<()>>,
}

impl Candidate {
    /// Joins the election: spawns the elector as a task, which needs a tokio runtime. Without an
    /// election, this instance is the leader. `clock` provides the times that are written to the
    /// lease, and reveals a suspension of the machine.
    pub fn new(
        election: Option<&Election>,
        clock: Arc<dyn Clock>,
        hooks: Arc<dyn LeaseHooks>,
    ) -> Self {
        let release = CancellationToken::new();
        let Some(election) = election else {
            return Self { leadership: Leadership::without_election(), release, elector: None };
        };
        let (elector, state) = Elector::new(election, clock.clone(), hooks);
        // Not on a thread of its own, although other work on this runtime delays renewals: a
        // process whose runtime is stuck must lose the lease. By default, a renewal may be 8 s
        // late. The longest steps decode a response, whose length is limited (64 MiB of a metrics
        // API). Evaluations whose length a tenant influences must run on blocking threads.
        let elector = AbortOnDropHandle::new(tokio::spawn(elector.run(release.clone())));
        Self { leadership: Leadership::new(state, clock), release, elector: Some(elector) }
    }

    pub fn leadership(&self) -> &Leadership {
        &self.leadership
    }

    /// Releases the lease, if this instance holds it. The caller must not write anything after
    /// that.
    pub async fn release(self) {
        self.release.cancel();
        if let Some(elector) = self.elector {
            // If its task failed, the lease expires.
            elector.await.ok();
        }
    }
}
