//! The settings that no other ones beat.

use super::evaluate::{COST_STEP, RISK_STEP, Score, Trial};

/// Settings beyond these limits are only of interest if there are no others.
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
fn dominates(one: &Trial, other: &Trial) -> bool {
    let (one, other) = (&one.score, &other.score);
    let no_worse = one.cost() <= other.cost() && one.risk <= other.risk;
    no_worse && (one.cost() < other.cost() || one.risk < other.risk)
}

/// The trials that no other one dominates, cheapest first. Of those that hardly differ, the one
/// with the fewest scalings.
pub(super) fn front(trials: &[Trial]) -> Vec<Trial> {
    let is_dominated = |trial: &Trial| trials.iter().any(|other| dominates(other, trial));
    let mut front: Vec<Trial> =
        trials.iter().filter(|trial| !is_dominated(trial)).cloned().collect();
    front.sort_by(|one, other| one.score.cost().total_cmp(&other.score.cost()));
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
    (other.score.cost() - one.score.cost()).abs() <= one.score.cost() * COST_STEP
        && (one.score.risk - other.score.risk).abs() <= RISK_STEP
}

/// The best `count` trials: those that few others dominate. Those beyond the limits come last.
pub(super) fn best_ranks(trials: &[Trial], count: usize, limits: Limits) -> Vec<Trial> {
    let is_within = |trial: &&Trial| limits.are_met(&trial.score);
    let rank = |trial: &Trial| {
        let is_beyond = !is_within(&trial);
        let others = trials.iter().filter(|other| is_beyond || is_within(other));
        (is_beyond, others.filter(|other| dominates(other, trial)).count())
    };
    let mut ranked: Vec<_> = trials.iter().map(|trial| (rank(trial), trial)).collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().take(count).map(|(_, trial)| trial.clone()).collect()
}
