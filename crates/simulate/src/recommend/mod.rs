//! Searches for better settings of an autoscaler: simulates many of them and compares cost and risk.

mod candidate;
mod evaluate;
mod options;
mod pareto;
mod sample;
mod targets;
#[cfg(test)]
mod tests;
mod tuning;
mod why;

use std::cmp::Ordering;

use serde::Serialize;
use serde_json::Value;

use self::{
    candidate::Candidate,
    evaluate::{COST_STEP, Evaluator, RISK_STEP, Trial},
    pareto::{Limits, best_ranks, front},
    sample::Sampler,
    why::{effects, prune},
};
use crate::{file::Variant, report::percent};

pub use self::{evaluate::Score, options::SearchOptions, sample::Accepts, why::Effect};

/// A slowdown at the 99th percentile that is accepted even if the default behavior is faster: a
/// utilization of 90 %.
const ACCEPTED_LATENCY: f64 = 10.0;
/// Settings that risk so many times more than the default behavior, or than is low enough, are only
/// of interest if there are no others.
const INTERESTING: f64 = 5.0;

/// Settings with what they cost and risk.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Choice {
    /// The differences from the scenario's autoscaler in a few words.
    pub settings: Vec<String>,
    pub score: Score,
    /// A merge patch of the autoscaler.
    pub patch: Value,
}

/// The result of a search.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Recommendation {
    /// The autoscaler as it is.
    pub current: Score,
    /// The autoscaler without `behavior`.
    pub default_behavior: Score,
    /// The settings that no other ones beat in both cost and risk, cheapest first.
    pub front: Vec<Choice>,
    /// The suggestion. `None` if nothing is better than the current and the default behavior.
    pub suggested: Option<Choice>,
    /// What each changed setting of the suggestion does: the result without it.
    pub effects: Vec<Effect>,
    /// Why it was chosen.
    pub reason: String,
    pub assumptions: Vec<String>,
    /// How many settings were simulated.
    pub tried: usize,
}

/// Searches. `on_run` is called after each run.
pub fn recommend(
    base: &Variant,
    options: &SearchOptions,
    accepts: Accepts<'_>,
    on_run: &(dyn Fn() + Sync),
) -> Recommendation {
    let evaluator = Evaluator::new(base, options, on_run);
    let current = evaluator.all(&Candidate::current(base));
    let default_behavior = evaluator.all(&Candidate::default_behavior(base));
    let mut sampler = Sampler::new(base, accepts);
    let refined = options.refined();
    let mut trials = evaluator.first(sampler.random(options.candidates.saturating_sub(refined)));
    let limits = Limits {
        risk: default_behavior.risk.max(options.max_risk) * INTERESTING,
        latency: default_behavior.latency_p99.max(ACCEPTED_LATENCY),
    };
    let best = best_ranks(&trials, (refined / 4).max(1), limits);
    trials.extend(evaluator.first(sampler.mutations(&best, refined)));
    let tried = trials.len();
    let finalists = best_ranks(&trials, options.finalists(), limits);
    let mut scored = evaluator.complete(finalists);
    scored.retain(|trial| trial.score.latency_p99 <= limits.latency);
    let (suggested, reason) = suggest(&scored, &current, &default_behavior, options);
    let suggested = suggested.map(|trial| prune(base, trial, &default_behavior, &evaluator));
    let effects =
        suggested.as_ref().map(|trial| effects(base, trial, &evaluator)).unwrap_or_default();
    Recommendation {
        current,
        default_behavior,
        front: front(&scored).iter().map(|trial| option(base, trial)).collect(),
        suggested: suggested.as_ref().map(|trial| option(base, trial)),
        effects,
        reason,
        assumptions: assumptions(base, options),
        tried,
    }
}

fn option(base: &Variant, trial: &Trial) -> Choice {
    Choice {
        settings: trial.candidate.tuning.describe(base),
        score: trial.score,
        patch: trial.candidate.patch(base),
    }
}

/// Chooses the cheapest that risks no more than the default behavior, or, if that risks too much, the
/// one with the least risk that costs no more.
fn suggest(
    trials: &[Trial],
    current: &Score,
    default: &Score,
    options: &SearchOptions,
) -> (Option<Trial>, String) {
    let by_cost = |one: &&Trial, other: &&Trial| {
        (one.score.cost(), one.score.risk)
            .partial_cmp(&(other.score.cost(), other.score.risk))
            .unwrap_or(Ordering::Equal)
    };
    let safer = trials
        .iter()
        .filter(|trial| trial.score.cost() <= default.cost())
        .min_by(|one, other| {
            one.score.risk.total_cmp(&other.score.risk).then_with(|| by_cost(one, other))
        })
        .filter(|trial| trial.score.risk < default.risk - RISK_STEP);
    let cheaper = trials
        .iter()
        .filter(|trial| trial.score.risk <= default.risk + RISK_STEP)
        .min_by(by_cost)
        .filter(|trial| trial.score.cost() < default.cost() * (1.0 - COST_STEP));
    let is_risky = default.risk > options.max_risk;
    let (first, second) = if is_risky { (safer, cheaper) } else { (cheaper, safer) };
    let Some(trial) = first.or(second) else {
        let text = "no settings cost less at the same risk, or risk less at the same cost";
        return (None, text.to_owned());
    };
    let is_current_better = current.cost() <= trial.score.cost() * (1.0 + COST_STEP)
        && current.risk <= trial.score.risk + RISK_STEP
        && current.latency_p99 <= trial.score.latency_p99.max(ACCEPTED_LATENCY);
    if is_current_better {
        return (None, "the current settings are as good as the best that were found".to_owned());
    }
    let reason = if trial.score.risk < default.risk - RISK_STEP && is_risky {
        "least risk at no more cost than the default behavior"
    } else {
        "least cost at no more risk than the default behavior"
    };
    (Some(trial.clone()), reason.to_owned())
}

fn assumptions(base: &Variant, options: &SearchOptions) -> Vec<String> {
    let factors: Vec<String> = options.load_factors.iter().map(|factor| percent(*factor)).collect();
    vec![
        "risk is the share of the load beyond the capacity of the ready pods, or of the queued \
            work that waits too long, in the worst of the runs (99th percentile)"
            .to_owned(),
        format!(
            "runs: {} seeds from {} on, each with {} of the scenario's load",
            options.seeds,
            base.cluster.seed,
            factors.join(", ")
        ),
        format!(
            "a request may take {ACCEPTED_LATENCY} times as long as on an idle pod at the 99th \
                percentile, or as long as with the default behavior"
        ),
        format!("risks that differ by less than {} % of the load are equal", RISK_STEP * 100.0),
        "minReplicas is not lowered below 2, and maxReplicas is not lowered".to_owned(),
        "settings that hpa lint objects to are left out".to_owned(),
    ]
}
