//! What each setting of a suggestion does.

use serde::Serialize;

use super::{
    candidate::Candidate,
    evaluate::{COST_STEP, Evaluator, RISK_STEP, Score, Trial},
    tuning::{Dimension, Tuning},
};
use crate::file::Variant;

/// A setting of the suggestion, and the result if it alone is set back.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Effect {
    pub setting: String,
    pub without: Score,
}

/// Sets back every setting that makes no difference.
pub(super) fn prune(
    base: &Variant,
    mut trial: Trial,
    default: &Score,
    evaluator: &Evaluator<'_>,
) -> Trial {
    let found = trial.score;
    for dimension in Dimension::ALL {
        if !trial.candidate.tuning.is_set(dimension) {
            continue;
        }
        let mut tuning = trial.candidate.tuning.clone();
        tuning.reset(dimension);
        let Some(candidate) = Candidate::new(base, tuning) else { continue };
        let score = evaluator.all(&candidate);
        if is_as_good(&score, &found) && (is_within(&score, default) || !is_within(&found, default))
        {
            trial.candidate = candidate;
            trial.score = score;
        }
    }
    trial
}

/// Whether the cost and the risk are both no more than those of the default behavior.
fn is_within(score: &Score, default: &Score) -> bool {
    score.cost() <= default.cost() && score.risk <= default.risk + RISK_STEP
}

fn is_as_good(score: &Score, than: &Score) -> bool {
    score.cost() <= than.cost() * (1.0 + COST_STEP / 2.0)
        && score.risk <= than.risk + RISK_STEP / 2.0
        && score.latency_p99 <= than.latency_p99 * 1.1
        && score.rescales <= than.rescales * 1.2 + 1.0
}

/// Sets back one setting at a time.
pub(super) fn effects(base: &Variant, trial: &Trial, evaluator: &Evaluator<'_>) -> Vec<Effect> {
    let tuning = &trial.candidate.tuning;
    let set = Dimension::ALL.into_iter().filter(|dimension| tuning.is_set(*dimension));
    set.filter_map(|dimension| {
        let mut without = tuning.clone();
        without.reset(dimension);
        let candidate = Candidate::new(base, without)?;
        let setting = only(tuning, dimension).describe(base).join(", ");
        Some(Effect { setting, without: evaluator.all(&candidate) })
    })
    .collect()
}

/// The settings with only one of them.
fn only(tuning: &Tuning, kept: Dimension) -> Tuning {
    let mut only = Tuning { replaces_behavior: false, ..tuning.clone() };
    let others = Dimension::ALL.into_iter().filter(|dimension| *dimension != kept);
    others.for_each(|dimension| only.reset(dimension));
    only
}
