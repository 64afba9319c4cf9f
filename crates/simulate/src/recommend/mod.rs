//! Searches for better settings of an autoscaler, by simulations that compare cost and risk.

mod evaluate;
mod sample;
mod targets;
#[cfg(test)]
mod tests;
mod tuning;

use std::{cmp::Ordering, fmt::Write as _};

use hpa_calc::explain::counted;
use serde::Serialize;
use serde_json::Value;

pub use self::{evaluate::Score, sample::SettingsFilter};
use self::{
    evaluate::{COST_STEP, Evaluator, Limits, RISK_STEP, Trial, best_trials, pareto_front},
    sample::{Sampler, highest_max_replicas},
    targets::TargetLevels,
    tuning::{Candidate, Change, Setting, Tuning},
};
use crate::{
    file::Variant,
    measure::ACCEPTED_LATENCY,
    report::{percent, samples_note, six_digits},
};

/// Settings with more than this multiple of [`SearchOptions::max_risk`], or of the default
/// behavior's risk if that is higher, rank after all others.
const MAX_RISK_RATIO: f64 = 5.0;
/// If the risk of the best settings is above [`SearchOptions::max_risk`], a changed setting is kept
/// only if it reduces the risk by more than this share of the load.
const UNREACHED_RISK_STEP: f64 = 1e-3;
/// If the risk of the best settings is above [`SearchOptions::max_risk`], they are only suggested
/// if they are clearly cheaper, or reduce the current risk by more than this share of it.
const MIN_RISK_REDUCTION: f64 = 0.05;

/// Settings with their cost and risk.
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
    /// The score of the scenario's autoscaler.
    pub current: Score,
    /// The score of the autoscaler without `behavior`.
    pub default_behavior: Score,
    /// The Pareto front of cost and risk, from the settings that are fast enough, cheapest first.
    pub front: Vec<Choice>,
    /// The suggestion. `None` if no settings are fast enough, or if none are better than the
    /// current settings and the default behavior.
    pub suggested: Option<Choice>,
    /// For each change of the suggestion, the score without it.
    pub effects: Vec<Effect>,
    /// The reason for the suggestion, or for having none.
    pub reason: String,
    pub assumptions: Vec<String>,
    /// The number of simulated candidates.
    pub tried: usize,
}

/// Searches for better settings. `on_run` is called after each run.
pub fn recommend(
    base: &Variant,
    options: &SearchOptions,
    accepts: SettingsFilter<'_>,
    on_run: &(dyn Fn() + Sync),
) -> Recommendation {
    let evaluator = Evaluator::new(base, options, on_run);
    let current = evaluator.run_all(Candidate::current(base)).score;
    let default_behavior = evaluator.run_all(Candidate::default_behavior(base)).score;
    let mut sampler = Sampler::new(base, accepts);
    let refined_count = options.refined_count();
    let mut trials =
        evaluator.run_first(sampler.random(options.candidates.saturating_sub(refined_count)));
    let limits = Limits {
        risk: default_behavior.risk.max(options.max_risk) * MAX_RISK_RATIO,
        latency: default_behavior.latency_p99.max(ACCEPTED_LATENCY),
    };
    let best = best_trials(&trials, (refined_count / 4).max(1), limits);
    trials.extend(evaluator.run_first(sampler.mutations(&best, refined_count)));
    let tried = trials.len();
    let finalists = best_trials(&trials, options.finalist_count(), limits);
    let mut scored = evaluator.run_remaining(finalists);
    scored.retain(|trial| trial.score.latency_p99 <= limits.latency);
    let goal = Goal { current, default: default_behavior, max_risk: options.max_risk };
    let (suggested, reason) = match suggest(base, &mut scored, &goal, &evaluator) {
        Ok(trial) => {
            let reason = reason(base, &trial, &goal);
            (Some(trial), reason)
        }
        Err(refusal) => (None, refusal.to_owned()),
    };
    let effects =
        suggested.as_ref().map(|trial| effects(base, trial, &evaluator)).unwrap_or_default();
    Recommendation {
        current,
        default_behavior,
        front: pareto_front(&scored).iter().map(|trial| choice(base, trial)).collect(),
        suggested: suggested.as_ref().map(|trial| choice(base, trial)),
        effects,
        reason,
        assumptions: assumptions(base, options),
        tried,
    }
}

fn choice(base: &Variant, trial: &Trial) -> Choice {
    Choice {
        settings: trial.candidate.describe(base),
        score: trial.score,
        patch: trial.candidate.patch(base),
    }
}

/// Chooses the best trial in the order of [`Goal::compare`]. Drops its changes that have no
/// effect, also in `trials`. The error is the reason to suggest none: no trial is fast enough, or
/// none is better than the current settings and the default behavior.
fn suggest(
    base: &Variant,
    trials: &mut [Trial],
    goal: &Goal,
    evaluator: &Evaluator<'_>,
) -> Result<Trial, &'static str> {
    let best = trials.iter_mut().min_by(|one, other| goal.compare(&one.score, &other.score));
    let best = best.ok_or("no settings are fast enough")?;
    goal.check_improvement(&best.score)?;
    *best = prune(base, best.clone(), goal, evaluator);
    goal.check_improvement(&best.score)?;
    Ok(best.clone())
}

/// The reason for a suggestion. States if the search didn't try higher `maxReplicas`, or targets
/// beyond the suggested ones.
fn reason(base: &Variant, suggested: &Trial, goal: &Goal) -> String {
    let (max_risk, default) = (goal.max_risk, &goal.default);
    let mut reason = match suggested.score.risk {
        risk if default.risk <= max_risk && risk <= default.risk + RISK_STEP => {
            "the lowest cost among the tried settings with no more risk than the default behavior"
                .to_owned()
        }
        risk if risk <= max_risk + RISK_STEP => {
            format!(
                "the lowest cost among the tried settings with a risk of at most {}",
                percent(max_risk)
            )
        }
        risk => format!(
            "the least risk: none of the settings that were tried reach {}, these {}",
            percent(max_risk),
            percent(risk)
        ),
    };
    let highest = highest_max_replicas(base);
    if suggested.candidate.variant.autoscaler.spec.max_replicas == highest {
        let _ = write!(reason, "; maxReplicas above {highest} was not tried");
    }
    if let Some(untried) = TargetLevels::new(base).untried(base, &suggested.candidate.variant) {
        let _ = write!(reason, "; {untried} were not tried");
    }
    reason
}

/// The order of settings: first by risk, then by cost. Risk up to the smaller of `max_risk` and the
/// risk of the default behavior counts as none.
struct Goal {
    current: Score,
    /// The score of the default behavior.
    default: Score,
    max_risk: f64,
}

impl Goal {
    /// Orders settings from the best to the worst.
    fn compare(&self, one: &Score, other: &Score) -> Ordering {
        let accepted_risk = self.default.risk.min(self.max_risk);
        let key = |score: &Score| {
            // A sum with 0.0 is never -0.0, which `total_cmp` orders before 0.0.
            let excess = ((score.risk - accepted_risk) / RISK_STEP).round().max(0.0) + 0.0;
            [excess, score.pod_hours, score.risk, score.rescales]
        };
        let (one, other) = (key(one), key(other));
        let differing = one.iter().zip(&other).map(|(one, other)| one.total_cmp(other));
        differing.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }

    /// Whether `one` exceeds the accepted risk by less or, if equal, has a clearly lower cost.
    fn is_better(&self, one: &Score, other: &Score) -> bool {
        let cheaper = Score { pod_hours: other.pod_hours * (1.0 - COST_STEP), ..*other };
        self.compare(one, &cheaper).is_lt()
    }

    /// Whether the risk of `one` is above `max_risk`, and `one` is hardly better than `other`: its
    /// risk is not lower by more than [`MIN_RISK_REDUCTION`], and its cost is not clearly lower.
    fn is_hardly_safer(&self, one: &Score, other: &Score) -> bool {
        one.risk > self.max_risk + RISK_STEP
            && one.risk >= other.risk * (1.0 - MIN_RISK_REDUCTION)
            && one.pod_hours >= other.pod_hours * (1.0 - COST_STEP)
    }

    /// Checks that settings are better than the current ones, and than the default behavior. Skips
    /// a comparison if the other settings are slower and have more than [`ACCEPTED_LATENCY`]. The
    /// error is the reason not to suggest the settings.
    fn check_improvement(&self, score: &Score) -> Result<(), &'static str> {
        let accepts_latency =
            |other: &Score| other.latency_p99 <= score.latency_p99.max(ACCEPTED_LATENCY);
        if accepts_latency(&self.current) && !self.is_better(score, &self.current) {
            return Err("the current settings are as good as the best that were found");
        }
        if accepts_latency(&self.current) && self.is_hardly_safer(score, &self.current) {
            return Err(
                "no settings lower the risk by more than a twentieth of it: keep the current ones",
            );
        }
        if accepts_latency(&self.default) && !self.is_better(score, &self.default) {
            return Err(
                "no settings have less risk than the default behavior, or cost less at its risk",
            );
        }
        Ok(())
    }

    /// The largest increase of the risk, as a share of the load, at which a change is dropped.
    /// `score` is that of the settings with the change. If its risk is above `max_risk`, a larger
    /// increase is accepted.
    fn accepted_increase(&self, score: &Score) -> f64 {
        if score.risk > self.max_risk + RISK_STEP { UNREACHED_RISK_STEP } else { RISK_STEP / 2.0 }
    }
}

fn assumptions(base: &Variant, options: &SearchOptions) -> Vec<String> {
    let factors: Vec<String> = options.load_factors.iter().map(|factor| percent(*factor)).collect();
    let capacity = six_digits(base.pod_capacity());
    let mut assumptions = vec![
        format!("the capacity of a pod is {capacity} {}", base.load_unit),
        "risk is the share of the load beyond the capacity of the ready pods, or of the queued \
            work that waits too long, in the worst of the runs (99th percentile)"
            .to_owned(),
        format!(
            "less risk comes before less cost, until it is at most {} and at most that of the \
                default behavior",
            percent(options.max_risk)
        ),
        format!(
            "runs: {} from {} on, each with {} of the scenario's load",
            counted(options.seeds, "seed"),
            base.scenario.seed,
            factors.join(", ")
        ),
        format!(
            "a request may take {ACCEPTED_LATENCY} times as long as on an idle pod at the 99th \
                percentile, or as long as with the default behavior"
        ),
        format!("risks that differ by less than {} % of the load are equal", RISK_STEP * 100.0),
        TargetLevels::new(base).assumption(base),
        "minReplicas is not lowered below 2, and maxReplicas is not lowered".to_owned(),
        "settings that hpa lint objects to are left out".to_owned(),
    ];
    assumptions.extend(base.caution.clone());
    assumptions.extend(samples_note(base));
    let problems = base.resolved_settings().problems.into_iter();
    assumptions.extend(problems.map(|problem| format!("a setting has no effect: {problem}")));
    assumptions
}

/// The size of a search, and the accepted risk.
#[derive(Clone, Debug)]
pub struct SearchOptions {
    /// The maximum number of settings to try.
    pub candidates: usize,
    /// The number of seeds with which each finalist is run.
    pub seeds: u64,
    /// Factors that the load is multiplied by, at least one. Each seed is run with each factor.
    pub load_factors: Vec<f64>,
    /// The accepted risk, unless that of the default behavior is lower. Among settings with at most
    /// the accepted risk, the cheapest are the best.
    pub max_risk: f64,
}

impl SearchOptions {
    /// An estimate of the number of runs of a search, for a progress bar. Leaves out the runs
    /// without one of the suggestion's changes.
    pub fn estimated_runs(&self) -> usize {
        // All candidates, the current settings and the default behavior are run once. These two and
        // the finalists are also run with the remaining seeds and loads.
        let remaining_runs = self.runs_per_candidate().saturating_sub(1);
        self.candidates + 2 + (self.finalist_count() + 2) * remaining_runs
    }

    /// The number of candidates that are changes of the best ones.
    fn refined_count(&self) -> usize {
        self.candidates * 3 / 10
    }

    /// The number of candidates that are run with all seeds and loads.
    fn finalist_count(&self) -> usize {
        (self.candidates / 4).max(1)
    }

    fn runs_per_candidate(&self) -> usize {
        usize::try_from(self.seeds).unwrap_or(usize::MAX).saturating_mul(self.load_factors.len())
    }
}

/// The effect of a change in the suggestion: the score without it. All rules of `behavior` that the
/// suggestion removes are one change.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Effect {
    /// The change in a few words.
    pub setting: String,
    pub without: Score,
}

/// Drops each change that hardly improves the score. If the trial costs and risks at most as much
/// as the default behavior, so does the result.
fn prune(base: &Variant, mut trial: Trial, goal: &Goal, evaluator: &Evaluator<'_>) -> Trial {
    let (original, default) = (trial.score, &goal.default);
    for setting in Setting::ALL {
        if !trial.candidate.tuning.changes.contains_key(&setting) {
            continue;
        }
        let tuning = trial.candidate.tuning.without(setting);
        let Some(candidate) = Candidate::new(base, tuning) else { continue };
        let simpler = evaluator.run_all(candidate);
        if is_as_good(&simpler.score, &original, goal.accepted_increase(&original))
            && (is_within_default(&simpler.score, default)
                || !is_within_default(&original, default))
        {
            trial = simpler;
        }
    }
    trial
}

/// Whether neither the cost nor the risk exceeds that of the default behavior.
fn is_within_default(score: &Score, default: &Score) -> bool {
    score.pod_hours <= default.pod_hours && score.risk <= default.risk + RISK_STEP
}

/// Whether the score is hardly worse than the baseline. A risk that is higher by less than
/// `risk_step` counts as equal.
fn is_as_good(score: &Score, baseline: &Score, risk_step: f64) -> bool {
    score.pod_hours <= baseline.pod_hours * (1.0 + COST_STEP / 2.0)
        && score.risk <= baseline.risk + risk_step
        && score.latency_p99 <= baseline.latency_p99 * 1.1
        && score.rescales <= baseline.rescales * 1.2 + 1.0
}

/// Scores the trial without each of its changed settings, and with the rules of the scenario's
/// `behavior` that it removes.
fn effects(base: &Variant, trial: &Trial, evaluator: &Evaluator<'_>) -> Vec<Effect> {
    let tuning = &trial.candidate.tuning;
    let effect = |(setting, tuning): (String, Tuning)| {
        let candidate = Candidate::new(base, tuning)?;
        Some(Effect { setting, without: evaluator.run_all(candidate).score })
    };
    let without =
        |(setting, change): (&Setting, &Change)| (change.text.clone(), tuning.without(*setting));
    let removed = trial.candidate.removed_rules(base);
    let with_behavior = Tuning { replaces_behavior: false, ..tuning.clone() };
    let removal = (!removed.is_empty()).then(|| (removed.join("; "), with_behavior));
    tuning.changes.iter().map(without).chain(removal).filter_map(effect).collect()
}
