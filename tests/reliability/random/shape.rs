//! The cluster of a run, drawn from a seed. Most clusters are small, to keep seeds cheap.

use std::time::Duration;

use fastrand::Rng;

use super::settings::settings;
use crate::{
    NAMESPACE,
    cluster::{Shape, TARGETS},
    targets::{Id, Kind, Source, Target},
    workloads::Delays,
};

const NAMESPACES: [&str; 3] = [NAMESPACE, "team-a", "team-b"];

pub(super) fn shape(seed: u64, rng: &mut Rng) -> Shape {
    let count = match seed % 500 {
        250 => 200,
        remainder if remainder % 50 == 17 => 24,
        _ => rng.usize(3..7),
    };
    let named = TARGETS.iter().map(|name| Target::in_shop(name));
    let targets = named.chain((TARGETS.len()..count).map(|index| target(index, rng)));
    let mut targets: Vec<_> = targets.collect();
    // Settings have their own generator, so that the rest of a seed's plan doesn't depend on them.
    let mut settings_rng = Rng::with_seed(!seed);
    for target in &mut targets {
        target.settings = settings(target, &mut settings_rng);
    }
    let workers = if rng.bool() { 5 } else { 2 };
    Shape { targets, delays: delays(rng), workers, has_leader_election: rng.u8(..4) == 0 }
}

/// A target. It may have one of the names in [`TARGETS`], in another namespace.
fn target(index: usize, rng: &mut Rng) -> Target {
    let namespace = NAMESPACES[rng.usize(..NAMESPACES.len())];
    let source = [Source::Cpu, Source::Pods, Source::External][rng.usize(..3)];
    let kind = Kind::ALL[rng.usize(..Kind::ALL.len())];
    let id = if index < 2 * TARGETS.len() && namespace != NAMESPACE {
        Id::new(NAMESPACES[1], TARGETS[index % TARGETS.len()])
    } else {
        Id::new(namespace, &format!("app{index}"))
    };
    let can_scale_to_zero = source == Source::External && rng.bool();
    Target { id, kind, source, can_scale_to_zero, settings: Vec::new() }
}

fn delays(rng: &mut Rng) -> Delays {
    let mut delay = |max: u64| {
        let is_late = rng.bool();
        let seconds = rng.u64(1..max);
        if is_late { Duration::from_secs(seconds) } else { Duration::ZERO }
    };
    // A rollout of eight pods ends before the faults do.
    Delays { startup: delay(14), status: delay(20), metrics: delay(30) }
}
