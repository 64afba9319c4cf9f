//! The whole controller against a faulty API server: the testbed with faults, in virtual time.
//!
//! - [`named`], [`random`]: scenarios that run with faults, and most of them also without. Soon
//!   after the faults end, both runs must agree. The [`invariants`] must hold throughout.
//! - [`reference_failures`]: failures that the reference is known to have
//! - [`isolation`]: a failing dependency must not affect other autoscalers
//! - [`forecasts`]: sources of past loads with faults
//! - [`cluster`], [`workloads`], [`targets`], [`journal`]: the cluster of the tests, and its record
//!
//! Random scenarios run for a few dozen seeds, for 300 with `HPA_LONG_TESTS=1`, or for
//! `RELIABILITY_SEEDS` (a count, or `FROM..TO`). `RELIABILITY_SEED=N` runs one seed, and
//! prints its journal if it fails. `RELIABILITY_JOURNAL=1` makes named scenarios print the journal
//! of each run with faults.

#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a failed step fails the test")]

mod cluster;
mod forecasts;
mod invariants;
mod isolation;
mod journal;
mod named;
mod random;
mod reference_failures;
mod targets;
mod workloads;

use std::time::Duration;

use hpa_tests::harness::NAMESPACE;

/// The sync period.
const PERIOD: Duration = Duration::from_secs(15);
/// The time from the end of the faults until their effects are gone: half a period until a failed
/// watch restarts, and two reconciles. One is not enough, because without a behavior a scale-up
/// goes from one replica to at most four. This is not a multiple of the period, so that no
/// reconcile is in progress.
const RECOVERY: Duration = Duration::from_millis(PERIOD.as_secs() * 2500);
/// The lease duration of elected instances. The standby waits for it when the leader ends.
const LEASE_DURATION: Duration = Duration::from_secs(15);
/// Downscale stabilization of autoscalers without a behavior.
const WINDOW: Duration = Duration::from_secs(60);
/// `maxReplicas` of autoscalers without forecasts. With more replicas, a difference of one is
/// within the tolerance, and the final replicas would depend on the previous ones.
const MAX_REPLICAS: i32 = 8;
