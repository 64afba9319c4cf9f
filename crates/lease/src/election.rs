//! The settings of an election, and the hooks of its elector.

use std::time::Duration;

use kube::Client;
use tokio::time::Instant;

/// Settings of the leader election. `lease_duration` must be longer than `renew_deadline`, which
/// must be longer than 1.2 times `retry_period`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElectionConfig {
    pub namespace: String,
    pub name: String,
    /// Unique among all instances, see [`identity`](crate::identity()).
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
    /// one. The next leader finds them in
    /// [`Predecessor::annotations`](crate::Predecessor::annotations).
    fn annotations(&self) -> Vec<(&'static str, Option<String>)> {
        Vec::new()
    }

    /// Called after each read and write of the lease, every few seconds. `known` is the lease's
    /// resource version before the request, which was sent at `sent`; `response` is the version in
    /// the response. A lower `response` means that the API server was rewound.
    fn compare_versions(&self, _known: &str, _response: &str, _sent: Instant) {}
}

impl LeaseHooks for () {}
