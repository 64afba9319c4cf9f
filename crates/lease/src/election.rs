//! The settings of an election, and the hooks of its elector.

use std::{collections::BTreeMap, time::Duration};

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
    /// Written to the lease. Standbys acquire the lease if they observe no renewal for this time.
    pub lease_duration: Duration,
    /// The time for which the leader keeps working after it sent its last successful renewal.
    pub renew_deadline: Duration,
    /// Interval of renewals, and minimum interval of a standby's polls.
    pub retry_period: Duration,
}

/// A lease to compete for.
#[derive(Clone)]
pub struct Election {
    /// Used for the lease only: if renewals queue behind other requests, the lease can be lost.
    pub client: Client,
    pub config: ElectionConfig,
}

/// Callbacks of the elector. Those of `()` do nothing.
pub trait LeaseHooks: Send + Sync {
    /// The annotations that the holder writes when it acquires, renews or releases the lease.
    /// `None` removes one. The next leader finds them in
    /// [`Predecessor::annotations`](crate::Predecessor::annotations).
    fn annotations(&self) -> Vec<(&'static str, Option<String>)> {
        Vec::new()
    }

    /// Called after each GET, acquisition or renewal that returned the lease, except the first.
    /// `known` is the lease's resource version before the request, `response` the one in the
    /// response, and `sent` the time of the request. If `response` is lower, the API server was
    /// rewound.
    fn on_lease_version(&self, _known: &str, _response: &str, _sent: Instant) {}

    /// Called when the lease names another holder than before, with the annotations of the lease.
    /// It isn't called for this instance.
    fn on_new_holder(&self, _holder: &str, _annotations: &BTreeMap<String, String>) {}

    /// Called with the time at which the first of consecutive requests for the lease failed, and
    /// with `None` when requests succeed again. A conflict is not a failure.
    fn on_failing_since(&self, _since: Option<Instant>) {}
}

impl LeaseHooks for () {}
