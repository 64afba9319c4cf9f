//! What becomes of autoscaled workloads when the API misbehaves: the whole controller against the testbed, in virtual
//! time.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test may stop where it was misled"
)]

mod cluster;
mod invariants;
mod journal;
mod named;
mod random;
mod weak_spots;
mod workloads;

use std::time::Duration;

use hpa_test_harness::NAMESPACE;

/// The sync period.
const PERIOD: Duration = Duration::from_secs(15);
/// How long after the faults all is as if there had been none: a watch that failed is back within half a period, and from
/// then on it takes two reconciles, since without a behavior one replica becomes four at most at once. It is no multiple of
/// a period, at which a reconcile may be just under way.
const RECOVERY: Duration = Duration::from_millis(PERIOD.as_secs() * 2500);
/// The downscale stabilization of autoscalers that have no behavior.
const WINDOW: Duration = Duration::from_secs(60);
/// No autoscaler goes higher. With more replicas than this one more or less could be within the tolerance, and where an
/// autoscaler comes to rest would depend on where it came from.
const MAX: i32 = 8;
