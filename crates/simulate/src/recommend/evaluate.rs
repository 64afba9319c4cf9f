//! Runs the scenario with candidate settings and scores them.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use serde::Serialize;

use super::{SearchOptions, tuning::Candidate};
use crate::{
    file::Variant,
    measure::{Outcome, PERCENTILE},
    parallel::map_parallel,
    workload::number,
};

/// A suggestion counts as cheaper only if its cost is lower by more than this share.
pub(super) const COST_STEP: f64 = 0.005;
/// Risks are compared in steps of this share of the load.
pub(super) const RISK_STEP: f64 = 1e-4;

/// The measurements of some settings, over all their runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Score {
    /// The mean pod-hours: the cost in comparisons.
    pub pod_hours: f64,
    /// The mean overload, as a share of the load.
    pub overload: f64,
    /// The 99th percentile of the overload over the runs, as a share of the load.
    pub risk: f64,
    /// The largest 99th percentile of the latency, as a multiple of the latency on an idle pod.
    pub latency_p99: f64,
    /// The largest 99th percentile of the waits in queues, in seconds.
    pub wait_p99_seconds: f64,
    /// The mean number of scalings.
    pub rescales: f64,
    /// The mean number of reversals.
    pub reversals: f64,
}

impl Score {
    fn new(outcomes: &[Outcome]) -> Self {
        let count = outcomes.len().max(1) as f64;
        let mean = |value: fn(&Outcome) -> f64| outcomes.iter().map(value).sum::<f64>() / count;
        let max = |value: fn(&Outcome) -> f64| outcomes.iter().map(value).fold(0.0, f64::max);
        let mut risks: Vec<f64> =
            outcomes.iter().map(|outcome| outcome.overload.share_of_load).collect();
        risks.sort_by(f64::total_cmp);
        Self {
            pod_hours: mean(|outcome| outcome.pod_hours),
            overload: mean(|outcome| outcome.overload.share_of_load),
            risk: percentile(&risks),
            latency_p99: max(|outcome| outcome.latency.map_or(1.0, |latency| latency.p99)),
            wait_p99_seconds: max(|outcome| outcome.queue.map_or(0.0, |queue| queue.p99_seconds)),
            rescales: mean(|outcome| f64::from(outcome.rescales.total())),
            reversals: mean(|outcome| f64::from(outcome.rescales.reversals)),
        }
    }
}

/// The 99th percentile of sorted values, by nearest rank.
fn percentile(sorted: &[f64]) -> f64 {
    let rank = number::ceil(PERCENTILE * sorted.len() as f64) as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

/// A candidate, the outcomes of its runs so far, and their score.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    pub(super) candidate: Candidate,
    outcomes: Vec<Outcome>,
    pub(super) score: Score,
}

impl Trial {
    fn new(candidate: Candidate, outcomes: Vec<Outcome>) -> Self {
        Self { candidate, score: Score::new(&outcomes), outcomes }
    }
}

/// Runs settings with the first, the remaining or all pairs of seed and load.
pub(super) struct Evaluator<'a> {
    /// Seed and factor of the load of each run.
    runs: Vec<(u64, f64)>,
    /// Called after each run.
    on_run: &'a (dyn Fn() + Sync),
    /// The trials of [`Self::run_all`], by the manifest of the candidate. `prune` and `effects`
    /// drop the same changes, so they need many of the same trials.
    completed: Mutex<HashMap<String, Trial>>,
}

impl<'a> Evaluator<'a> {
    pub(super) fn new(
        base: &Variant,
        options: &SearchOptions,
        on_run: &'a (dyn Fn() + Sync),
    ) -> Self {
        let seeds = 0..options.seeds.max(1);
        let runs = seeds.flat_map(|seed| {
            let seed = base.scenario.seed.wrapping_add(seed);
            options.load_factors.iter().map(move |factor| (seed, *factor))
        });
        let mut runs: Vec<(u64, f64)> = runs.collect();
        // The first run selects the finalists, so it is one with the highest load.
        runs.sort_by(|one, other| other.1.total_cmp(&one.1));
        Self { runs, on_run, completed: Mutex::default() }
    }

    /// Runs a candidate with all seeds and loads, unless this was done before.
    pub(super) fn run_all(&self, candidate: Candidate) -> Trial {
        let completed = || self.completed.lock().unwrap_or_else(PoisonError::into_inner);
        let manifest = candidate.variant.manifest.to_string();
        let known = completed().get(&manifest).cloned();
        if let Some(known) = known {
            return Trial { candidate, ..known };
        }
        let outcomes = map_parallel(&self.runs, |run| self.run(&candidate, *run));
        let trial = Trial::new(candidate, outcomes);
        completed().insert(manifest, trial.clone());
        trial
    }

    /// Runs each candidate with the first seed and load.
    pub(super) fn run_first(&self, candidates: Vec<Candidate>) -> Vec<Trial> {
        let first = self.runs.first().copied().unwrap_or_default();
        let outcomes = map_parallel(&candidates, |one| self.run(one, first));
        let trials = candidates.into_iter().zip(outcomes);
        trials.map(|(candidate, outcome)| Trial::new(candidate, vec![outcome])).collect()
    }

    /// Runs each trial with the remaining seeds and loads.
    pub(super) fn run_remaining(&self, mut trials: Vec<Trial>) -> Vec<Trial> {
        let remaining = self.runs.get(1..).unwrap_or_default();
        let work = trials.iter().flat_map(|trial| remaining.iter().map(move |run| (trial, *run)));
        let work: Vec<(&Trial, (u64, f64))> = work.collect();
        let outcomes = map_parallel(&work, |(trial, run)| self.run(&trial.candidate, *run));
        let mut outcomes = outcomes.into_iter();
        for trial in &mut trials {
            trial.outcomes.extend(outcomes.by_ref().take(remaining.len()));
            trial.score = Score::new(&trial.outcomes);
        }
        trials
    }

    fn run(&self, candidate: &Candidate, (seed, factor): (u64, f64)) -> Outcome {
        let mut variant = candidate.variant.with_seed(seed);
        if (factor - 1.0).abs() > f64::EPSILON {
            variant.scale_load(factor);
        }
        let outcome = variant.run().outcome;
        (self.on_run)();
        outcome
    }
}

/// Trials beyond these limits rank after all others.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    pub(super) risk: f64,
    pub(super) latency: f64,
}

impl Limits {
    fn are_met(self, score: &Score) -> bool {
        score.risk <= self.risk && score.latency_p99 <= self.latency
    }
}

/// Whether `one` is at least as good in cost and risk, and better in one of them.
pub(super) fn dominates(one: &Score, other: &Score) -> bool {
    let no_worse = one.pod_hours <= other.pod_hours && one.risk <= other.risk;
    no_worse && (one.pod_hours < other.pod_hours || one.risk < other.risk)
}

/// The trials that no other trial dominates, cheapest first. Of trials that hardly differ, only the
/// one with the fewest scalings remains.
pub(super) fn pareto_front(trials: &[Trial]) -> Vec<Trial> {
    let is_dominated =
        |trial: &Trial| trials.iter().any(|other| dominates(&other.score, &trial.score));
    let mut front: Vec<Trial> =
        trials.iter().filter(|trial| !is_dominated(trial)).cloned().collect();
    front.sort_by(|one, other| one.score.pod_hours.total_cmp(&other.score.pod_hours));
    let mut distinct: Vec<Trial> = Vec::new();
    for trial in front {
        match distinct.last_mut().filter(|last| is_close(last, &trial)) {
            Some(last) if trial.score.rescales < last.score.rescales => *last = trial,
            Some(_) => {}
            None => distinct.push(trial),
        }
    }
    distinct
}

fn is_close(one: &Trial, other: &Trial) -> bool {
    (other.score.pod_hours - one.score.pod_hours).abs() <= one.score.pod_hours * COST_STEP
        && (one.score.risk - other.score.risk).abs() <= RISK_STEP
}

/// The best `count` trials, in order of the number of trials that dominate them. Trials beyond the
/// limits come last.
pub(super) fn best_trials(trials: &[Trial], count: usize, limits: Limits) -> Vec<Trial> {
    let is_within = |trial: &&Trial| limits.are_met(&trial.score);
    let rank = |trial: &Trial| {
        let is_beyond = !is_within(&trial);
        let others = trials.iter().filter(|other| is_beyond || is_within(other));
        (is_beyond, others.filter(|other| dominates(&other.score, &trial.score)).count())
    };
    let mut ranked: Vec<_> = trials.iter().map(|trial| (rank(trial), trial)).collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().take(count).map(|(_, trial)| trial.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentile_is_by_nearest_rank() {
        assert!((percentile(&[0.1, 0.2, 0.3]) - 0.3).abs() < 1e-9);
        let many: Vec<f64> = (1..=1000).map(f64::from).collect();
        assert!((percentile(&many) - 990.0).abs() < 1e-9);
    }
}
