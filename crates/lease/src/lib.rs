//! Leader election by a Lease, to let only one of several instances write. The leader writes with a
//! fenced client and a recorder of events.
//!
//! ```text
//!   Candidate ──── spawns ───▶ elector ◀── get, watch, create, replace ──▶ Lease
//!       │                         │ decide (pure) ─▶ create, acquire, renew, wait, lost
//!       ▼                         │
//!   Leadership ◀── State ─────────┘ ── calls ──▶ LeaseHooks: annotations, resource versions
//!       │ acquired, lost, is_leader
//!       └ fence(client): writes only while this instance is the leader
//! ```
//!
//! [`Candidate`] joins an election. [`lead`] does that in a loop, for work that may start again
//! after the lease was lost. [`LeaderTask`] is work that only the leader does. [`events`] writes
//! Kubernetes events.
//! [`LeaseHooks`] connects the leader's work with the lease: it adds annotations, and it gets the
//! lease's resource versions.
//!
//! Protocol, flags, defaults and fields are those of client-go. Instances of both can compete for a
//! lease. The differences:
//!
//! - A standby not only polls but also watches the lease, and acquires a released lease at once.
//! - A standby acquires an expired lease at the time of expiry, not at the next poll.
//! - A deleted lease remains its holder's until it would have expired.
//! - The leader may write until the renew deadline after it sent the last renewal
//!   ([`Leadership::fence`]). A process that was suspended or cut off writes nothing after that.
//!   The monotonic clock stops while a machine is suspended, so the leadership also ends by the
//!   wall clock.

mod clock;
mod decision;
mod elector;
pub mod events;
mod identity;
mod leadership;
mod record;
mod request_error;
mod task;

use std::{sync::Arc, time::Duration};

use kube::Client;
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

pub use clock::{Clock, Instants, SystemClock};
use elector::Elector;
pub use identity::identity;
pub use leadership::{Leadership, NotLeader, Predecessor};
pub use task::{LeaderContext, LeaderTask, lead};

/// Settings of the leader election. `lease_duration` must be longer than `renew_deadline`, which
/// must be longer than 1.2 times `retry_period`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElectionConfig {
    pub namespace: String,
    pub name: String,
    /// Unique among all instances, see [`identity`].
    pub identity: String,
    /// The time that a standby waits after the last renewal that it observed.
    pub lease_duration: Duration,
    /// The time for which the leader keeps working after its last renewal.
    pub renew_deadline: Duration,
    /// Interval of renewals, and minimum interval of a standby's polls.
    pub retry_period: Duration,
}

/// An election to take part in.
#[derive(Clone)]
pub struct Election {
    /// It must not be shared: if renewals queue behind other requests, the lease is lost.
    pub client: Client,
    pub config: ElectionConfig,
}

/// Called by the elector. `()` does nothing.
pub trait LeaseHooks: Send + Sync {
    /// The annotations that the holder writes with each renewal and the release. `None` removes
    /// one. The next leader finds them in [`Predecessor::annotations`].
    fn annotations(&self) -> Vec<(&'static str, Option<String>)> {
        Vec::new()
    }

    /// Called after each read and write of the lease, every few seconds. `known` is the lease's
    /// resource version before the request, which was sent at `sent`; `response` is the version in
    /// the response. A lower `response` means that the API server was rewound.
    fn compare_versions(&self, _known: &str, _response: &str, _sent: Instant) {}
}

impl LeaseHooks for () {}

/// An instance in an election, or a single instance without an election. If it is dropped without
/// [`Candidate::release`], the next leader has to wait until the lease expires.
pub struct Candidate {
    leadership: Leadership,
    release: CancellationToken,
    elector: Option<AbortOnDropHandle<()>>,
}

impl Candidate {
    /// Joins the election. Without one, this instance is the leader. `clock` provides the times
    /// that are written to the lease, and reveals a suspension of the machine.
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
