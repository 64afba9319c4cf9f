//! The comparison of variants, and the scalings of a variant, as text.

use std::collections::BTreeSet;

use hpa_calc::explain::{counted, number};
use jiff::Timestamp;

use super::{
    VariantRun,
    times::{TimeFormat, format_duration},
};
use crate::{
    file::{Cost, Variant},
    measure::{ACCEPTED_LATENCY, Rescales},
    run::Run,
    workload::scenario::MAX_PODS,
};

/// The header of a column, and a function that returns the cell of a result. If it returns `None`
/// for all results, the column is left out.
type Column = (&'static str, Box<dyn Fn(&VariantRun) -> Option<String>>);

/// The comparison of variants as text, one line per variant.
pub fn comparison_text(results: &[VariantRun]) -> String {
    let (headers, rows) = comparison_cells(results);
    let mut lines = vec![headers];
    lines.extend(rows);
    let columns = lines.first().map_or(0, Vec::len);
    let width = |column: usize| {
        lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or_default()).collect();
    let mut text = String::new();
    for line in &lines {
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        let line = cells.collect::<Vec<_>>().join("   ");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// The headers and the cells of the comparison.
pub(super) fn comparison_cells(results: &[VariantRun]) -> (Vec<String>, Vec<Vec<String>>) {
    let columns: Vec<Column> = columns(results)
        .into_iter()
        .filter(|(_, cell)| results.iter().any(|result| cell(result).is_some()))
        .collect();
    let headers = columns.iter().map(|(header, _)| (*header).to_owned()).collect();
    let row = |result: &VariantRun| {
        columns.iter().map(|(_, cell)| cell(result).unwrap_or_else(|| "-".to_owned())).collect()
    };
    (headers, results.iter().map(row).collect())
}

fn columns(results: &[VariantRun]) -> Vec<Column> {
    let base = results.first().map(|(_, run)| run.outcome.pod_hours).unwrap_or_default();
    let name = results.first().map(|(variant, _)| variant.name.clone()).unwrap_or_default();
    let pod_hours = move |(variant, run): &VariantRun| {
        let hours = number(run.outcome.pod_hours);
        let change = relative_change(run.outcome.pod_hours, base).filter(|_| variant.name != name);
        Some(change.map_or(hours.clone(), |change| format!("{hours} ({change})")))
    };
    vec![
        ("VARIANT", Box::new(|(variant, _)| Some(variant.name.clone()))),
        ("POD-HOURS", Box::new(pod_hours)),
        ("COST", Box::new(|(variant, run)| cost(variant, run))),
        ("OVERLOAD", Box::new(|(_, run)| Some(percent(run.outcome.overload.share_of_load)))),
        ("OVERLOAD TIME", Box::new(|(_, run)| Some(format_duration(run.outcome.overload.seconds)))),
        ("LATENCY P99", Box::new(|(_, run)| latency(run))),
        ("WAIT P99", Box::new(|(_, run)| Some(format_duration(run.outcome.queue?.p99_seconds)))),
        ("REPLICAS", Box::new(|(_, run)| Some(replicas(run)))),
        ("SCALINGS", Box::new(|(_, run)| Some(run.outcome.rescales.total().to_string()))),
        ("REVERSALS", Box::new(|(_, run)| Some(run.outcome.rescales.reversals.to_string()))),
        ("REACTION", Box::new(|(_, run)| reaction(run))),
    ]
}

fn cost(variant: &Variant, run: &Run) -> Option<String> {
    (variant.cost.per_pod_hour > 0.0).then(|| money(run.outcome.cost, &variant.cost))
}

fn latency(run: &Run) -> Option<String> {
    let latency = run.outcome.latency?;
    Some(format!("{}×", number(latency.p99)))
}

/// The minimum, mean and maximum replicas.
fn replicas(run: &Run) -> String {
    let replicas = run.outcome.replicas;
    format!("{}-{}, mean {}", replicas.min, replicas.max, number(replicas.mean))
}

/// The longest time with too few ready pods.
fn reaction(run: &Run) -> Option<String> {
    let reaction = run.outcome.reaction;
    (reaction.shortages > 0).then(|| format_duration(reaction.max_seconds))
}

/// Overloads are compared in steps of this share of the load.
const OVERLOAD_STEP: f64 = 1e-4;

/// The index of the variant with the least overload, in steps of [`OVERLOAD_STEP`]. If several are
/// equal, those that are not too slow come first (see [`is_too_slow`]), then those without any
/// overload, then those with the lowest cost or the fewest pod-hours (see [`cost_order`]). `None`
/// for a single variant.
pub(super) fn best_index(results: &[VariantRun]) -> Option<usize> {
    let has_prices = has_prices(results);
    let accepted_latency = accepted_latency(results);
    let key = |(_, run): &VariantRun| {
        let outcome = &run.outcome;
        let cost = if has_prices { outcome.cost } else { outcome.pod_hours };
        let overload = (outcome.overload.share_of_load / OVERLOAD_STEP).round();
        let is_slow = is_too_slow(run, accepted_latency);
        (overload, (is_slow, outcome.overload.seconds > 0.0), cost)
    };
    let keys = results.iter().map(key).enumerate();
    let best = keys.min_by(|(_, one), (_, other)| {
        one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)).then(one.2.total_cmp(&other.2))
    });
    best.map(|(index, _)| index).filter(|_| results.len() > 1)
}

/// The p99 latency up to which a variant isn't too slow: [`ACCEPTED_LATENCY`], or that of the base.
fn accepted_latency(results: &[VariantRun]) -> f64 {
    let base = results.first().and_then(|(_, run)| run.outcome.latency);
    base.map_or(ACCEPTED_LATENCY, |latency| latency.p99.max(ACCEPTED_LATENCY))
}

/// Whether the p99 latency is above the accepted one. A run at the limit of its capacity without
/// overload is that slow.
fn is_too_slow(run: &Run, accepted_latency: f64) -> bool {
    run.outcome.latency.is_some_and(|latency| latency.p99 > accepted_latency)
}

/// Whether all variants have a price. If so, they are compared by money, otherwise by pod-hours.
fn has_prices(results: &[VariantRun]) -> bool {
    results.iter().all(|(variant, _)| variant.cost.per_pod_hour > 0.0)
}

/// The criterion that decides between variants with the same overload.
pub(super) fn cost_order(results: &[VariantRun]) -> &'static str {
    if has_prices(results) { "lowest cost" } else { "fewest pod-hours" }
}

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
    (!base.caution.is_empty()).then(|| base.caution.clone())
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

/// The scalings and problems of a run in order of time: second, replicas or duration, sentence.
pub(super) fn scalings_and_problems(run: &Run) -> Vec<(f64, String, &str)> {
    let steps = run
        .steps
        .iter()
        .map(|one| (one.second, format!("{} → {}", one.from, one.to), one.sentence.as_str()));
    let problems = run.problems.iter().map(|one| {
        (one.from, format!("for {}", format_duration(one.to - one.from)), one.sentence.as_str())
    });
    let mut rows: Vec<_> = steps.chain(problems).collect();
    rows.sort_by(|one, other| one.0.total_cmp(&other.0));
    rows
}

/// The scalings and problems of a run, one per line, with calendar times if `start` is set.
pub fn scalings_text(run: &Run, start: Option<Timestamp>) -> String {
    let line = |(second, change, sentence): (f64, String, &str)| {
        let change = change.replace('→', "->");
        format!("{:>11}  {change}: {sentence}\n", TimeFormat::of_run(start).text(second))
    };
    scalings_and_problems(run).into_iter().map(line).collect()
}

/// A share in percent with three significant digits, or `<0.01 %`.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 0.01 {
        return "<0.01 %".to_owned();
    }
    format!("{} %", number(percent))
}

/// Rounds to six significant digits, to keep files and texts short.
pub fn six_digits(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

/// The difference of a value from `base`, in percent of `base`, with a sign. `None` without a base.
pub fn relative_change(value: f64, base: f64) -> Option<String> {
    if base <= 0.0 {
        return None;
    }
    let change = (value / base - 1.0) * 100.0;
    let sign = if change < 0.0 { "−" } else { "+" };
    Some(if change.abs() < 0.05 {
        "±0 %".to_owned()
    } else {
        format!("{sign}{} %", number(change.abs()))
    })
}

fn money(amount: f64, cost: &Cost) -> String {
    format!("{}{amount:.2}", cost.currency)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(90.0, 100.0, Some("−10 %"))]
    #[case(150.0, 100.0, Some("+50 %"))]
    #[case(100.0, 100.0, Some("±0 %"))]
    #[case(1.0, 0.0, None)]
    fn relative_change_has_a_sign(
        #[case] value: f64,
        #[case] base: f64,
        #[case] text: Option<&str>,
    ) {
        assert_eq!(relative_change(value, base).as_deref(), text);
    }

    #[test]
    fn small_shares_are_not_rounded_to_zero() {
        assert_eq!(
            [percent(0.0), percent(0.000_01), percent(0.1234)],
            ["0 %", "<0.01 %", "12.3 %"]
        );
    }
}
