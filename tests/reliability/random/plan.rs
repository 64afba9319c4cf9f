//! The plan of a run, drawn from a seed.

use std::{fmt, ops::Range, time::Duration};

use fastrand::Rng;
use jiff::SignedDuration;

use super::{
    FAULTS_END,
    faults::{PlannedFault, fault, lasting_silence},
    shape::shape,
};
use crate::{MAX_REPLICAS, PERIOD, WINDOW, cluster::Shape};

/// The seconds in which loads change and users act.
pub(super) const CHANGE_SECONDS: Range<u64> = 60..240;

/// The maximum time from the end of a controller to the start of the next one.
pub(super) const MAX_RESTART_DELAY: Duration = Duration::from_secs(60);

/// The maximum time until a silent watch is replaced and two reconciles have followed.
const STALENESS: Duration = Duration::from_secs(4 * PERIOD.as_secs());
/// The time until a new leader replaces an ended one: the lease duration, the retry interval of
/// standbys, and the restart of the process.
const ELECTION: Duration = Duration::from_secs(30);

/// A change of a target or its autoscaler.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    Load(i64),
    Scale(i64),
    Max(i64),
    Min(i64),
    /// Changes an annotation of the target.
    Touch,
    /// Replaces all pods of the target.
    Rollout,
    RecreateAutoscaler,
    RecreateTarget(i64),
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    /// A change of the target with this index.
    Change(usize, Change),
    Kill,
    Stop,
    Start,
    RestartApi(Duration),
    Compact,
    Save,
    /// Restores the last snapshot.
    Restore(Restore),
    Skew(SignedDuration),
    /// The watches of this resource become silent.
    Silence(&'static str),
    EndSilence,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Restore {
    /// Resource versions continue.
    Bumped,
    /// Resource versions are reused.
    Rewound,
}

#[derive(Clone)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) shape: Shape,
    /// Steps of the run with faults and of the baseline.
    pub(super) common_steps: Vec<(Duration, Step)>,
    /// Steps of the run with faults only.
    pub(super) incidents: Vec<(Duration, Step)>,
    pub(super) faults: Vec<PlannedFault>,
}

impl Plan {
    /// The plan without incidents and faults.
    pub(super) fn baseline(&self) -> Self {
        Self { incidents: Vec::new(), faults: Vec::new(), ..self.clone() }
    }

    /// The changes of a target, in order.
    pub(super) fn changes_of(&self, target: usize) -> impl Iterator<Item = Change> {
        self.common_steps.iter().filter_map(move |(_, step)| match step {
            Step::Change(index, change) if *index == target => Some(*change),
            _ => None,
        })
    }

    pub(super) fn recreates_autoscaler(&self, target: usize) -> bool {
        self.changes_of(target).any(|change| matches!(change, Change::RecreateAutoscaler))
    }

    /// Whether every decision uses the metrics of all pods. This requires that no fault hides pods
    /// or metrics, and that pods start at once: a controller only estimates the load of a starting
    /// pod.
    pub(super) fn shows_all_pods(&self) -> bool {
        let hides = self.restores() || self.faults.iter().any(|fault| fault.hides_pods_or_metrics);
        self.shape.delays.startup.is_zero() && !hides
    }

    pub(super) fn restores(&self) -> bool {
        self.incidents.iter().any(|(_, step)| matches!(step, Step::Restore(_)))
    }

    /// The time of the recovery in addition to [`RECOVERY`](crate::RECOVERY).
    pub(super) fn extra_recovery(&self) -> Duration {
        let is_stale = self.faults.iter().any(|fault| fault.is_lasting);
        let extras = [
            (self.has_restart(), WINDOW),
            (self.shape.has_leader_election, ELECTION),
            (is_stale || self.restores(), STALENESS),
        ];
        extras.into_iter().filter(|(is_needed, _)| *is_needed).map(|(_, extra)| extra).sum()
    }

    /// Whether a controller starts during the run. A new controller stabilizes the current replicas
    /// for a window, which may begin only after the faults.
    fn has_restart(&self) -> bool {
        self.shape.has_leader_election
            || self.incidents.iter().any(|(_, step)| matches!(step, Step::Start))
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  {:?}", self.shape)?;
        for (label, steps) in [("step", &self.common_steps), ("incident", &self.incidents)] {
            for (at, step) in steps {
                writeln!(f, "  {label} at {at:?}: {step:?}")?;
            }
        }
        self.faults.iter().try_for_each(|fault| writeln!(f, "  {fault:?}"))
    }
}

pub(super) fn plan(seed: u64) -> Plan {
    let mut rng = Rng::with_seed(seed);
    let shape = shape(seed, &mut rng);
    let mut common_steps = Vec::new();
    let count = shape.targets.len();
    for _ in 0..rng.usize(count..2 * count) {
        let target = rng.usize(..count);
        let mut time = random_time(&mut rng, CHANGE_SECONDS);
        // Changes in quick succession meet in one reconcile.
        for _ in 0..rng.usize(1..4) {
            let change = change(&mut rng, &shape, target);
            common_steps.push((time, Step::Change(target, change)));
            time = (time + Duration::from_millis(rng.u64(..10_000)))
                .min(Duration::from_secs(CHANGE_SECONDS.end));
        }
    }
    let mut incidents = Vec::new();
    if rng.bool() {
        let race = race(&mut rng, &shape);
        common_steps.extend(race.changes);
        incidents.extend(race.incidents);
    }
    for _ in 0..rng.usize(0..3) {
        incidents.extend(incident(&mut rng, &shape));
    }
    let mut faults: Vec<_> = (0..rng.usize(1..7)).map(|_| fault(&mut rng, &shape)).collect();
    if rng.u8(..8) == 0 {
        faults.push(lasting_silence(&mut rng, &shape));
    }
    common_steps.sort_by_key(|(at, _)| *at);
    incidents.sort_by_key(|(at, _)| *at);
    Plan { seed, shape, common_steps, incidents, faults }
}

pub(super) fn random_time(rng: &mut Rng, Range { start, end }: Range<u64>) -> Duration {
    Duration::from_millis(rng.u64(start * 1000..end * 1000))
}

fn change(rng: &mut Rng, shape: &Shape, target: usize) -> Change {
    let max = i64::from(MAX_REPLICAS);
    let target = &shape.targets[target];
    match rng.u8(..18) {
        0..8 => Change::Load(rng.i64(target.min_load()..=max)),
        8 => Change::Max(rng.i64(4..=max)),
        9 => Change::Min(rng.i64(1..=3)),
        10 => Change::RecreateAutoscaler,
        11 => Change::RecreateTarget(rng.i64(1..=max)),
        12 => Change::Touch,
        13 | 14 => Change::Rollout,
        // No zero for an autoscaler that can scale to zero: a race would decide whether it is a
        // pause.
        _ => Change::Scale(rng.i64(1 - target.min_load()..=max)),
    }
}

/// Changes that the controller detects only when it writes.
struct Race {
    changes: Vec<(Duration, Step)>,
    incidents: Vec<(Duration, Step)>,
}

/// The load of a target changes, and during a silent watch also the autoscaler or the target's
/// replicas. The next reconcile decides on the old autoscaler or replicas.
fn race(rng: &mut Rng, shape: &Shape) -> Race {
    let index = rng.usize(..shape.targets.len());
    let target = &shape.targets[index];
    let (silent, change) = match rng.u8(..4) {
        0 => ("horizontalpodautoscalers", Change::RecreateAutoscaler),
        1 | 2 => ("horizontalpodautoscalers", Change::Max(rng.i64(4..=5))),
        _ => (target.kind.plural(), Change::Scale(rng.i64(1..=3))),
    };
    let begin = random_time(rng, CHANGE_SECONDS.start..CHANGE_SECONDS.end - 2);
    let load = Change::Load(rng.i64(6..=i64::from(MAX_REPLICAS)));
    let changed = begin + Duration::from_millis(rng.u64(1..2_000));
    Race {
        changes: vec![(begin, Step::Change(index, load)), (changed, Step::Change(index, change))],
        incidents: vec![
            (begin, Step::Silence(silent)),
            (begin + PERIOD + Duration::from_secs(2), Step::EndSilence),
        ],
    }
}

/// An incident that affects more than single requests.
fn incident(rng: &mut Rng, shape: &Shape) -> Vec<(Duration, Step)> {
    // A new controller stabilizes the current replicas for a window.
    let last_start = FAULTS_END.as_secs() - WINDOW.as_secs() - 2 * PERIOD.as_secs();
    let max_delay = MAX_RESTART_DELAY.as_secs();
    let begin = random_time(rng, CHANGE_SECONDS.start..last_start - max_delay);
    match rng.u8(..7) {
        0 => {
            let end = if rng.bool() { Step::Kill } else { Step::Stop };
            let delay = Duration::from_millis(rng.u64(..max_delay * 1000));
            vec![(begin, end), (begin + delay, Step::Start)]
        }
        1 => vec![(begin, Step::RestartApi(Duration::from_millis(rng.u64(..45_000))))],
        2 => vec![(begin, Step::Compact)],
        // A restored lease has an earlier holder: later writes can't be checked against it.
        3 if !shape.has_leader_election => {
            let restore = if rng.bool() { Restore::Bumped } else { Restore::Rewound };
            let end = begin + Duration::from_millis(rng.u64(1..45_000));
            vec![(begin, Step::Save), (end, Step::Restore(restore))]
        }
        _ => {
            let skew = SignedDuration::from_secs(rng.i64(-4000..4000));
            let end = begin + Duration::from_secs(rng.u64(1..90));
            vec![(begin, Step::Skew(skew)), (end, Step::Skew(SignedDuration::ZERO))]
        }
    }
}
