//! `hpa recommend`: searches for better settings of autoscalers, with simulations.

use std::{
    fmt::Write as _,
    process::ExitCode,
    slice,
    thread::available_parallelism,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use hpa_calc::{
    crd::{API_VERSION, KIND, SHORT_NAME},
    shell::{quote, quote_always},
};
use hpa_simulate::{
    MAX_PODS, Run, Variant,
    recommend::{Choice, Recommendation, Score, SearchOptions, recommend},
    report::{format_duration, percent, relative_change},
};
use serde_json::{Value, json};

use crate::{
    args::{RecommendArguments, RecommendationFormat},
    lint,
    manifests::file_name,
    simulate::{Progress, load_scenario_file, simulate},
    terminal::{self, escape_line, print, print_json},
};

/// A search that takes longer starts with a warning.
const LONG_SEARCH: Duration = Duration::from_mins(10);

const MARKDOWN_HEADER: &str = "\
| scenario | default behavior: pod-hours, risk | suggestion: pod-hours, risk | settings |
|---|---|---|---|
";

/// Searches for better settings of the autoscalers of scenarios. The exit status is 0 if each
/// scenario has a suggestion, else 1.
pub(crate) fn run(arguments: &RecommendArguments) -> anyhow::Result<ExitCode> {
    let mut has_all_suggestions = true;
    if arguments.output == RecommendationFormat::Markdown {
        print(MARKDOWN_HEADER)?;
    }
    for (index, file) in arguments.scenarios.iter().enumerate() {
        let scenario_file = load_scenario_file(file)?;
        let base = scenario_file.variants.first().context("the scenario is empty")?;
        let started = Instant::now();
        let runs = simulate(slice::from_ref(base), false);
        let (_, run) = runs.into_iter().next().context("the scenario is empty")?;
        let run_time = started.elapsed();
        ensure_is_improvable(base, &run).with_context(|| file_name(file))?;
        let recommendation = search(base, arguments, run_time);
        has_all_suggestions &= recommendation.suggested.is_some();
        if let Some(caution) = &base.caution
            && arguments.output != RecommendationFormat::Text
        {
            terminal::warn(format!("{}: {caution}", file_name(file)));
        }
        match arguments.output {
            RecommendationFormat::Text => {
                let separator = if index > 0 { "\n" } else { "" };
                print(&format!("{separator}{}", text(base, &recommendation)))?;
            }
            RecommendationFormat::Json => print_json(&terminal::json(&recommendation)?)?,
            RecommendationFormat::Patch => {
                let suggested = recommendation.suggested.as_ref();
                let patch = suggested.map(|suggested| format!("{}\n", suggested.patch));
                print_json(&patch.unwrap_or_default())?;
            }
            RecommendationFormat::Markdown => {
                print(&markdown_row(&scenario_file.name, &recommendation))?;
            }
        }
    }
    Ok(if has_all_suggestions { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Fails if no settings can improve the autoscaler. `run` is a simulation of its own settings.
fn ensure_is_improvable(base: &Variant, run: &Run) -> anyhow::Result<()> {
    ensure!(
        !run.exceeds_pod_limit,
        "the autoscaler scales to more than {MAX_PODS} replicas, but a simulation has at most that \
         many pods"
    );
    ensure!(
        base.may_scale(),
        "the autoscaler is paused or in a dry run: remove that setting from the scenario"
    );
    ensure!(
        run.absent_metrics.is_empty(),
        "the scenario lacks metrics of the autoscaler: {}",
        run.absent_metrics.join(", ")
    );
    ensure!(
        !run.reconciles.never_decided(),
        "the autoscaler never decided: {}",
        run.main_problem().unwrap_or_default()
    );
    Ok(())
}

/// Searches for settings. `run_time` is the time that a run took, on one core.
fn search(base: &Variant, arguments: &RecommendArguments, run_time: Duration) -> Recommendation {
    let options = SearchOptions {
        candidates: usize::try_from(arguments.candidates).unwrap_or(usize::MAX),
        seeds: arguments.seeds.into(),
        load_factors: arguments.load_factors.clone(),
        max_risk: arguments.max_risk / 100.0,
    };
    let existing_violations = lint_violations(base, &base.manifest);
    let runs = options.estimated_runs() as f64;
    let cores = available_parallelism().map_or(1.0, |cores| cores.get() as f64);
    let expected = Duration::try_from_secs_f64(run_time.as_secs_f64() * runs / cores);
    let expected = expected.unwrap_or(Duration::MAX);
    if let Some(warning) = long_search_warning(options.candidates, expected) {
        terminal::warn(warning);
    }
    let progress = Progress::new(runs, "runs").expecting(expected);
    // Checks of settings take time too, but don't count as progress.
    let accepts = |manifest: &Value| {
        progress.refresh();
        let violations = lint_violations(base, manifest);
        violations.iter().all(|violation| existing_violations.contains(violation))
    };
    let recommendation = recommend(base, &options, &accepts, &|| progress.add(1.0));
    progress.finish();
    recommendation
}

/// A warning if a search takes longer than [`LONG_SEARCH`], with a number of candidates that takes
/// that long.
fn long_search_warning(candidates: usize, expected: Duration) -> Option<String> {
    if expected <= LONG_SEARCH {
        return None;
    }
    let share = LONG_SEARCH.as_secs_f64() / expected.as_secs_f64();
    let fewer = (candidates as f64 * share).floor().max(1.0);
    Some(format!(
        "the search takes about {}: the time grows with that of the scenario. --candidates {fewer} \
         takes about {}; hpa replay --since 1d makes a shorter scenario",
        format_duration(expected.as_secs_f64()),
        format_duration(LONG_SEARCH.as_secs_f64())
    ))
}

fn markdown_row(name: &str, recommendation: &Recommendation) -> String {
    let score = |score: &Score| format!("{:.2}, {}", score.pod_hours, percent(score.risk));
    let default = score(&recommendation.default_behavior);
    match &recommendation.suggested {
        Some(suggested) => format!(
            "| {name} | {default} | {} | {} |\n",
            score(&suggested.score),
            suggested.settings.join("; ")
        ),
        None => format!("| {name} | {default} | - | {} |\n", recommendation.reason),
    }
}

/// The rules of `hpa lint` that a manifest violates on the target of the scenario.
fn lint_violations(base: &Variant, manifest: &Value) -> Vec<&'static str> {
    let mut hpa = manifest.clone();
    let metadata = serde_json::to_value(&base.autoscaler.metadata).unwrap_or_default();
    if let Some(members) = hpa.as_object_mut() {
        members.insert("apiVersion".to_owned(), "autoscaling/v2".into());
        members.insert("kind".to_owned(), KIND.into());
        members.insert("metadata".to_owned(), metadata);
    }
    lint::violated_rules(vec![hpa, target_manifest(base)])
}

/// The target as a manifest, for the lint rules about requests.
fn target_manifest(base: &Variant) -> Value {
    let (workload, reference) = (&base.workload, &base.autoscaler.spec.scale_target_ref);
    let profile = base.scenario.profile(workload);
    json!({
        "apiVersion": reference.api_version, "kind": reference.kind,
        "metadata": { "name": workload.name, "namespace": workload.namespace },
        "spec": {
            "selector": { "matchLabels": { "app": workload.name } },
            "template": {
                "metadata": { "labels": { "app": workload.name } },
                "spec": { "containers": profile.containers("app:1") },
            },
        },
    })
}

/// A name of the scenario as an argument of a printed command.
fn command_argument(name: &str) -> String {
    escape_line(&quote(name))
}

/// The name of the autoscaler's resource for kubectl.
fn resource_name(base: &Variant) -> &'static str {
    let api_version = base.manifest.get("apiVersion").and_then(Value::as_str);
    if api_version == Some(API_VERSION) { SHORT_NAME } else { "hpa" }
}

fn text(base: &Variant, recommendation: &Recommendation) -> String {
    let caution = base.caution.as_deref().map(|caution| escape_line(caution) + " ");
    let mut text = caution.unwrap_or_default();
    match &recommendation.suggested {
        Some(suggested) => {
            text += &suggestion_line(suggested, &recommendation.current);
            let _ = writeln!(text, "\nIt is {}.", recommendation.reason);
            let name = command_argument(&base.autoscaler.metadata.name);
            // If the scenario has no namespace, kubectl uses that of the current context.
            let namespace = base.manifest.pointer("/metadata/namespace").and_then(Value::as_str);
            let namespace =
                namespace.map(|namespace| format!(" -n {}", command_argument(namespace)));
            let _ = writeln!(
                text,
                "\nkubectl patch {} {name}{} --type merge -p {}",
                resource_name(base),
                namespace.unwrap_or_default(),
                escape_line(&quote_always(&suggested.patch.to_string()))
            );
        }
        None => {
            let _ = writeln!(text, "No suggestion: {}.", recommendation.reason);
        }
    }
    text.push('\n');
    text += &comparison(recommendation);
    if !recommendation.effects.is_empty() {
        text += "\nWhat each setting does: the suggestion without it\n\n";
        let effects = recommendation.effects.iter();
        let rows = effects.map(|effect| (effect.setting.clone(), effect.without));
        text += &table("WITHOUT", rows.collect());
    }
    text += "\nThe best trade-offs of cost and risk\n\n";
    let choices = recommendation.front.iter();
    let rows = choices.map(|choice: &Choice| (choice.settings.join("; "), choice.score));
    text += &table("SETTINGS", rows.collect());
    let _ = writeln!(text, "\n{} settings were simulated. Assumptions:", recommendation.tried);
    for assumption in &recommendation.assumptions {
        let _ = writeln!(text, "- {}", escape_line(assumption));
    }
    text
}

/// The suggestion and its price: the pod-hours, compared with those of the current settings.
fn suggestion_line(suggested: &Choice, current: &Score) -> String {
    let (hours, before) = (suggested.score.pod_hours, current.pod_hours);
    let price = relative_change(hours, before)
        .map(|change| format!(", with {hours:.2} instead of {before:.2} pod-hours ({change})"));
    let settings = suggested.settings.join("; ");
    format!("Suggestion{}: {settings}\n", price.unwrap_or_default())
}

fn comparison(recommendation: &Recommendation) -> String {
    let mut rows = vec![
        ("current".to_owned(), recommendation.current),
        ("default behavior".to_owned(), recommendation.default_behavior),
    ];
    let suggested = recommendation.suggested.as_ref();
    rows.extend(suggested.map(|suggested| ("suggestion".to_owned(), suggested.score)));
    table("SETTINGS", rows)
}

/// A table of scores with labels. The labels are last, because they can be long.
fn table(label: &str, rows: Vec<(String, Score)>) -> String {
    let has_queue = rows.iter().any(|(_, score)| score.wait_p99_seconds > 0.0);
    let mut text = format!("{:>10}  {:>8}  {:>8}", "POD-HOURS", "RISK", "LATENCY");
    text += if has_queue { "      WAIT" } else { "" };
    let _ = writeln!(text, "  {:>8}  {:>9}  {label}", "SCALINGS", "REVERSALS");
    for (label, score) in rows {
        let _ = write!(
            text,
            "{:>10.2}  {:>8}  {:>7.1}×",
            score.pod_hours,
            percent(score.risk),
            score.latency_p99
        );
        if has_queue {
            let _ = write!(text, "  {:>8}", format_duration(score.wait_p99_seconds));
        }
        let _ = writeln!(text, "  {:>8.1}  {:>9.1}  {label}", score.rescales, score.reversals);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_search_has_the_number_of_candidates_that_fits() {
        let warning = |minutes| long_search_warning(1000, Duration::from_mins(minutes));
        assert_eq!(warning(10), None);
        let warning = warning(130).expect("a warning");
        let start = "the search takes about 2h10m: the time grows with that of the scenario. \
                     --candidates 76 takes about 10m; ";
        assert!(warning.starts_with(start), "{warning}");
    }

    #[test]
    fn first_line_has_the_price_of_the_suggestion() {
        let score = |pod_hours| Score { pod_hours, ..Score::default() };
        let suggested = Choice {
            settings: vec!["target 39 %".to_owned(), "maxReplicas 12".to_owned()],
            score: score(12.32),
            patch: json!({}),
        };
        assert_eq!(
            suggestion_line(&suggested, &score(8.0)),
            "Suggestion, with 12.32 instead of 8.00 pod-hours (+54 %): target 39 %; maxReplicas \
             12\n"
        );
    }
}
