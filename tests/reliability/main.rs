//! What becomes of autoscaled workloads when the API misbehaves: the whole controller against the testbed, in virtual
//! time.

#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test may stop where it was misled")]

mod cluster;
mod invariants;
mod journal;
mod random;
mod time;
mod world;

use std::time::Duration;

/// Where everything is.
const NAMESPACE: &str = "shop";
/// The sync period.
const PERIOD: Duration = Duration::from_secs(15);
/// The downscale stabilization of autoscalers that have no behavior.
const WINDOW: Duration = Duration::from_secs(60);
/// No autoscaler goes higher. With more replicas than this one more or less could be within the tolerance, and where an
/// autoscaler comes to rest would depend on where it came from.
const MAX: i32 = 8;

/// How many seeds are run unless `RELIABILITY_SEEDS` says otherwise; `RELIABILITY_SEED` names one to run alone.
const SEEDS: u64 = 1000;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|value| value.parse().expect("a number"))
}

#[test]
fn random_faults() {
    let seeds = match number("RELIABILITY_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("RELIABILITY_SEEDS").unwrap_or(SEEDS),
    };
    let next = std::sync::atomic::AtomicU64::new(seeds.start);
    let failures = parking_lot::Mutex::new(Vec::new());
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    if seed >= seeds.end {
                        break;
                    }
                    if let Err(failure) = random::run(seed) {
                        failures.lock().push(failure);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner();
    assert!(
        failures.is_empty(),
        "{} of {} seeds failed:\n{}",
        failures.len(),
        seeds.end - seeds.start,
        failures.join("\n")
    );
}
