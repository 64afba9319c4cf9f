//! Leader election with a Lease, so that only one of several instances writes. The leader writes
//! with a fenced client and a recorder of events.
//!
//! ```text
//!   Candidate ──── spawns ───▶ elector ◀── get, watch, create, replace ──▶ Lease
//!       │                         │ decide (pure) ─▶ create, acquire, renew, wait, lost
//!       ▼                         │
//!   Leadership ◀── ElectionState ─┘ ── calls ──▶ LeaseHooks: annotations, resource versions
//!       │ acquired, lost, is_leader
//!       └ fence(client): writes only while this instance is the leader
//! ```
//!
//! [`Candidate`] joins an election. [`lead`] joins it again after each lost lease, for work that
//! can be restarted. [`LeaderTask`] is work that only the leader does; [`TaskPanics`] reports
//! panics of such tasks and others. [`events`] writes Kubernetes events. [`LeaseHooks`] adds
//! annotations to the lease, and gets its resource versions, its other holders and the time since
//! which requests for it fail.
//!
//! Protocol, flags, defaults and fields are those of client-go, and instances that use client-go
//! can compete for the same lease. The differences:
//!
//! - A standby not only polls but also watches the lease, and acquires a released lease at once.
//! - A standby acquires an expired lease at the time of expiry, not at the next poll.
//! - A deleted lease remains its holder's until it would have expired.
//! - The leader may write until the renew deadline, counted from the time when it sent the last
//!   renewal ([`Leadership::fence`]). A process that was suspended or cut off writes nothing after
//!   the deadline. The monotonic clock stops while a machine is suspended, so the leadership also
//!   ends by the wall clock.

mod candidate;
mod clock;
mod decision;
mod election;
mod elector;
pub mod events;
mod identity;
mod leadership;
mod lease;
mod record;
mod request_error;
mod task;

pub use candidate::Candidate;
pub use clock::{Clock, Instants, SystemClock};
pub use election::{Election, ElectionConfig, LeaseHooks};
pub use identity::identity;
pub use leadership::{Leadership, NotLeader, Predecessor};
pub use lease::{ElectionLease, ElectionLeaseSpec, LeaseTime};
pub use task::{LeaderContext, LeaderTask, TaskPanicked, TaskPanics, lead};
