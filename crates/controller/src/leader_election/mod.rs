//! Leader election by a Lease: which one of several instances writes.
//!
//! As client-go does it, with the same flags, defaults and fields, so that either waits for the other. What differs:
//!
//! - A standby watches the lease, besides polling it, and so takes over at once when it is released.
//! - It takes a lease over at the moment it expires, not at the next poll after that.
//! - A lease that was deleted is still its holder's until it would have expired.
//! - The leader's right to write ends by itself, at the renew deadline after the last renewal was sent
//!   ([`Leadership::fence`]); a process that was stopped or cut off writes nothing after that.

mod decision;
mod elector;
mod fence;
mod identity;
mod record;

use std::{sync::Arc, time::Duration};

use kube::Client;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

pub use decision::{Record, Step, View, decide};
pub use fence::{Leadership, NotLeading, Predecessor};
pub use identity::identity;

use crate::clock::Clock;
use elector::Elector;

/// How a leader is elected. `lease_duration` must be longer than `renew_deadline`, and that longer than 1.2 times
/// `retry_period`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElectionConfig {
    /// The lease's namespace.
    pub namespace: String,
    /// The lease's name.
    pub name: String,
    /// Who we are: no other instance's name, see [`identity`].
    pub identity: String,
    /// How long others wait after the last renewal that they saw.
    pub lease_duration: Duration,
    /// How long after its last renewal the leader goes on.
    pub renew_deadline: Duration,
    /// How often the lease is renewed, or looked at.
    pub retry_period: Duration,
    /// Whether the histories are kept for the next leader, see [`crate::history_store`].
    pub keep_history: bool,
}

/// An election to take part in.
#[derive(Clone)]
pub struct Election {
    /// For the lease and the kept histories. One that nothing else uses, lest the lease be lost in a queue.
    pub client: Client,
    /// How it is done.
    pub config: ElectionConfig,
}

/// An instance that takes part in an election, or needs none. Dropped, it ends as if killed: the lease has to expire.
pub struct Candidate {
    leadership: Leadership,
    release: CancellationToken,
    elector: Option<AbortOnDropHandle<()>>,
}

impl Candidate {
    /// Takes part in an election; without one, leads. `clock` gives the times that are written.
    pub fn new(election: Option<&Election>, clock: Arc<dyn Clock>) -> Self {
        let release = CancellationToken::new();
        let Some(election) = election else {
            return Self { leadership: Leadership::without_election(), release, elector: None };
        };
        let (elector, state) = Elector::new(election, clock);
        let elector = AbortOnDropHandle::new(tokio::spawn(elector.run(release.clone())));
        Self { leadership: Leadership::of(state), release, elector: Some(elector) }
    }

    /// Whether it leads.
    pub fn leadership(&self) -> &Leadership {
        &self.leadership
    }

    /// Ends it in order: a lease that is held is released. Nothing may be written any more.
    pub async fn leave(self) {
        self.release.cancel();
        if let Some(elector) = self.elector {
            // Should it have failed, the lease expires.
            elector.await.ok();
        }
    }
}
