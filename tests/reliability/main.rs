//! The whole controller against a faulty API server: the testbed with faults, in virtual time.
//!
//! Named scenarios and random ones run twice, with faults and without. Soon after the faults end,
//! both runs must agree, and the [`invariants`] must hold throughout.
//!
//! Random scenarios run for a few dozen seeds, for 300 with `HPA_LONG_TESTS=1`, or for
//! `RELIABILITY_SEEDS` (a count, or `FROM..TO`). `RELIABILITY_SEED=N` runs one seed and prints
//! its journal. `RELIABILITY_JOURNAL=1` makes named scenarios print their journal.

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
/// Time after the faults until their effect is gone. A failed watch restarts within half a period.
/// Two reconciles follow, because without a behavior a scale-up goes from one replica to at most
/// four. Not a multiple of the period: no reconcile is in progress at the end.
const RECOVERY: Duration = Duration::from_millis(PERIOD.as_secs() * 2500);
/// Downscale stabilization of autoscalers without a behavior.
const WINDOW: Duration = Duration::from_secs(60);
/// `maxReplicas` of all autoscalers. With more replicas, a difference of one is within the
/// tolerance, and the final replicas would depend on the previous ones.
const MAX: i32 = 8;
