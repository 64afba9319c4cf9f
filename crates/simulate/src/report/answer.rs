//! The result in a sentence, and sentences about what restricts it.

use std::collections::BTreeSet;

use hpa_calc::explain::{counted, number};

use super::{
    VariantRun,
    table::{
        accepted_latency, best_index, cost_order, has_prices, is_too_slow, latency, money, percent,
        relative_change,
    },
    times::format_duration,
};
use crate::{
    file::Variant,
    measure::{ACCEPTED_LATENCY, Rescales},
    run::Run,
    workload::scenario::MAX_PODS,
};

/// A note if the recorded samples of the load end before the simulated time does, or after it.
pub fn samples_note(variant: &Variant) -> Option<String> {
    let (last, interval) = variant.workload.load.last_sample()?;
    let end = variant.scenario.duration.get();
    if last + interval < end {
        let last = format_duration(last);
        Some(format!(
            "the samples of the load end at {last}, and the last one counts until the end"
        ))
    } else if last - interval > end {
        let end = format_duration(end);
        Some(format!("the samples of the load after {end} are left out (duration)"))
    } else {
        None
    }
}

/// The caution of the scenario.
pub fn caution(results: &[VariantRun]) -> Option<String> {
    let (base, _) = results.first()?;
    base.caution.clone()
}

/// The result in a sentence, which names the best variant if there are several. Sentences about
/// what restricts the result precede it: the scenario's caution, a pause, settings without effect,
/// metrics that the scenario lacks, reconciles that can't decide, and more pods than a run can
/// have.
pub fn answer_sentence(results: &[VariantRun]) -> String {
    let Some(base) = results.first() else { return String::new() };
    let has_prices = has_prices(results);
    let notes = [
        caution(results),
        pause_sentence(results),
        ineffective_settings_sentence(results),
        absence_sentence(results),
        never_decided_sentence(results),
        failures_sentence(results),
        pod_limit_sentence(results),
    ];
    let notes: String = notes.into_iter().flatten().map(|sentence| sentence + " ").collect();
    let Some(best) = best_index(results).and_then(|index| results.get(index)) else {
        return format!("{notes}The pods were {}.", outcome_clause(base, base, has_prices));
    };
    let accepted_latency = accepted_latency(results);
    let is_slow = |(_, run): &VariantRun| is_too_slow(run, accepted_latency);
    let latency_limit = if results.iter().any(is_slow) {
        format!("p99 latency up to {}×, ", number(accepted_latency))
    } else {
        String::new()
    };
    format!(
        "{notes}Best variant (least overload, {latency_limit}then {}): {}, {}.",
        cost_order(results),
        best.0.name,
        outcome_clause(best, base, has_prices)
    )
}

/// The overload, the cost and its difference from the base, and any slowness or reversals. The
/// choice of the best variant ignores reversals, so they must be visible here.
fn outcome_clause((variant, run): &VariantRun, base: &VariantRun, has_prices: bool) -> String {
    let (outcome, (base, base_run)) = (&run.outcome, base);
    let change = if has_prices {
        relative_change(outcome.cost, base_run.outcome.cost)
    } else {
        relative_change(outcome.pod_hours, base_run.outcome.pod_hours)
    };
    let change = change.filter(|_| variant.name != base.name);
    let change = change.map(|change| format!(" ({change})")).unwrap_or_default();
    let pod_hours = number(outcome.pod_hours);
    let cost = if has_prices {
        format!("{}{change}, {pod_hours} pod-hours", money(outcome.cost, &variant.cost))
    } else {
        format!("{pod_hours} pod-hours{change}")
    };
    let Rescales { reversals, .. } = outcome.rescales;
    let reversals = if reversals > 0 {
        let total = counted(outcome.rescales.total(), "scaling");
        format!(", with {} in {total}", counted(reversals, "reversal"))
    } else {
        String::new()
    };
    let latency = latency(run).filter(|_| is_too_slow(run, ACCEPTED_LATENCY));
    let latency = latency.map(|latency| format!(", with a p99 latency of {latency}"));
    let latency = latency.unwrap_or_default();
    let overload = format_duration(outcome.overload.seconds);
    format!("overloaded for {overload}{latency}, at {cost}{reversals}")
}

/// Names the variants whose autoscaler has a pause or a dry run. `None` if there are none.
pub fn pause_sentence(results: &[VariantRun]) -> Option<String> {
    let (affected, _) = affected_variants(results, |(variant, _)| !variant.may_scale())?;
    Some(format!(
        "The autoscaler has a pause or a dry run{affected}, so it doesn't scale as usual."
    ))
}

/// Names the settings of the autoscalers that are invalid, unknown or otherwise without effect.
/// `None` if there are none.
pub fn ineffective_settings_sentence(results: &[VariantRun]) -> Option<String> {
    let problems = |(variant, _): &VariantRun| {
        variant.resolved_settings().problems.into_iter().map(|problem| problem.to_string())
    };
    let all: BTreeSet<String> = results.iter().flat_map(problems).collect();
    let sentences = all.iter().filter_map(|text| {
        let has_problem = |one: &VariantRun| problems(one).any(|problem| problem == *text);
        let (affected, _) = affected_variants(results, has_problem)?;
        Some(format!("A setting has no effect{affected}: {text}."))
    });
    let sentences: Vec<String> = sentences.collect();
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

/// Names the metrics of the autoscalers that the scenario lacks. `None` if there are none.
fn absence_sentence(results: &[VariantRun]) -> Option<String> {
    let (affected, _) = affected_variants(results, |(_, run)| !run.absent_metrics.is_empty())?;
    let metrics: BTreeSet<&str> =
        results.iter().flat_map(|(_, run)| &run.absent_metrics).map(String::as_str).collect();
    let (verb, pronoun) = if metrics.len() == 1 { ("isn't", "it") } else { ("aren't", "them") };
    let metrics: Vec<&str> = metrics.into_iter().collect();
    Some(format!(
        "{} {verb} in the scenario{affected}, so nothing can scale on {pronoun}.",
        metrics.join(" and ")
    ))
}

/// The smallest share of failed reconciles that the answer reports. Pods without metrics at the
/// start and short outages cause smaller ones. The list of scalings has all failures.
const REPORTED_FAILURES: f64 = 0.1;

/// Names the variants in which no metric ever determined the replicas, with the main problem.
/// `None` if there are none. Leaves out variants with metrics that the scenario lacks:
/// [`absence_sentence`] has them.
fn never_decided_sentence(results: &[VariantRun]) -> Option<String> {
    let undecided =
        |(_, run): &VariantRun| run.absent_metrics.is_empty() && run.reconciles.never_decided();
    let (affected, first) = affected_variants(results, undecided)?;
    let problem = problem_clause(first);
    Some(format!("The autoscaler never decided{affected}: {problem}."))
}

/// States the share of reconciles in which the autoscaler could not decide, and the main problem.
/// `None` if the share is small in all variants. Leaves out the variants of [`absence_sentence`]
/// and of [`never_decided_sentence`].
fn failures_sentence(results: &[VariantRun]) -> Option<String> {
    let often_fails = |(_, run): &VariantRun| {
        let reconciles = run.reconciles;
        run.absent_metrics.is_empty()
            && !reconciles.never_decided()
            && reconciles.failed_share() >= REPORTED_FAILURES
    };
    let (affected, first) = affected_variants(results, often_fails)?;
    let problem = problem_clause(first);
    let failing = results.iter().filter(|one| often_fails(one));
    let shares: Vec<f64> = failing.map(|(_, run)| run.reconciles.failed_share()).collect();
    let bound = if shares.len() > 1 { "up to " } else { "" };
    let share = percent(shares.into_iter().fold(0.0, f64::max));
    Some(format!(
        "The autoscaler could not decide in {bound}{share} of the reconciles{affected}: {problem}."
    ))
}

/// The main problem of a run, without the full stop.
fn problem_clause(run: &Run) -> &str {
    run.main_problem().unwrap_or_default().trim_end_matches('.')
}

/// Names the variants that scale to more pods than a run can have. `None` if there are none.
pub fn pod_limit_sentence(results: &[VariantRun]) -> Option<String> {
    let (affected, _) = affected_variants(results, |(_, run)| run.exceeds_pod_limit)?;
    Some(format!(
        "The autoscaler scaled to more than {MAX_PODS} replicas{affected}, and a simulation has at \
         most that many pods."
    ))
}

/// The names of the variants that match, in parentheses, and the run of the first one. The names
/// are empty if all variants match. `None` if none does.
fn affected_variants(
    results: &[VariantRun],
    matches: impl Fn(&VariantRun) -> bool,
) -> Option<(String, &Run)> {
    let affected: Vec<&VariantRun> = results.iter().filter(|one| matches(one)).collect();
    let (_, first) = affected.first().copied()?;
    let names: Vec<&str> = affected.iter().map(|(variant, _)| variant.name.as_str()).collect();
    let suffix = match names.len() {
        all if all == results.len() => String::new(),
        1 => format!(" (variant {})", names.join(", ")),
        _ => format!(" (variants {})", names.join(", ")),
    };
    Some((suffix, first))
}
