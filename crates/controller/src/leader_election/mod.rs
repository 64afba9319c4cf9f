//! Leader election by a Lease: which of several instances writes.
//!
//! Same protocol, flags, defaults and fields as client-go, so that either waits for the other. The
//! differences:
//!
//! - A standby polls the lease and watches it too, so that it acquires a released lease at once.
//! - A standby acquires an expired lease at the time of expiry, not at the next poll.
//! - A deleted lease remains its holder's until it would have expired.
//! - The leader may write until the renew deadline after it sent the last renewal
//!   ([`Leadership::fence`]). A process that was suspended or cut off writes nothing after that.
//!   The monotonic clock stops while a machine is suspended, so time that only the wall clock has
//!   counts too.

mod decision;
mod elector;
mod identity;
mod leadership;
mod lease;

use std::{sync::Arc, time::Duration};

use kube::Client;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

pub use identity::identity;
pub use leadership::{Leadership, NotLeader, Predecessor};

use crate::{cache::WatchAges, clock::Clock, history_store::HistoryHealth};
use elector::Elector;

/// Settings of the leader election. `lease_duration` must be longer than `renew_deadline`, which
/// must be longer than 1.2 times `retry_period`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElectionConfig {
    pub namespace: String,
    pub name: String,
    /// Unique among all instances, see [`identity`].
    pub identity: String,
    /// How long a standby waits after the last renewal that it observed.
    pub lease_duration: Duration,
    /// How long the leader goes on after its last renewal.
    pub renew_deadline: Duration,
    /// Interval of renewals, and minimum interval of a standby's polls.
    pub retry_period: Duration,
    /// Store histories for the next leader.
    pub keep_history: bool,
}

/// An election to take part in.
#[derive(Clone)]
pub struct Election {
    /// For the lease and the stored histories. It must not be shared: if renewals queue behind
    /// other requests, the lease is lost.
    pub client: Client,
    pub config: ElectionConfig,
}

/// An instance in an election, or a single instance without one. If it is dropped without
/// [`Candidate::release`], its successor has to wait until the lease expires.
pub struct Candidate {
    leadership: Leadership,
    release: CancellationToken,
    elector: Option<AbortOnDropHandle<()>>,
}

impl Candidate {
    /// Joins the election. Without one, this instance is the leader. `clock` provides the times
    /// that are written to the lease, and reveals a suspension of the machine.
    pub fn new(election: Option<&Election>, clock: Arc<dyn Clock>) -> Self {
        Self::for_controller(election, clock, Arc::default(), Arc::default())
    }

    /// Like [`Candidate::new`]. The lease says how complete the stored histories are, and its
    /// resource versions reveal that the API server was rewound.
    pub(crate) fn for_controller(
        election: Option<&Election>,
        clock: Arc<dyn Clock>,
        history: Arc<HistoryHealth>,
        watch_ages: Arc<WatchAges>,
    ) -> Self {
        let release = CancellationToken::new();
        let Some(election) = election else {
            return Self { leadership: Leadership::without_election(), release, elector: None };
        };
        let (elector, state) = Elector::new(election, clock.clone(), history, watch_ages);
        let elector = AbortOnDropHandle::new(tokio::spawn(elector.run(release.clone())));
        Self { leadership: Leadership::new(state, clock), release, elector: Some(elector) }
    }

    pub fn leadership(&self) -> &Leadership {
        &self.leadership
    }

    /// Releases the lease, if this instance holds it. The caller must not write anything after that.
    pub async fn release(self) {
        self.release.cancel();
        if let Some(elector) = self.elector {
            // If its task failed, the lease expires.
            elector.await.ok();
        }
    }
}
