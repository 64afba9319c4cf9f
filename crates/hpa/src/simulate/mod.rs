//! `hpa simulate`.

pub(crate) mod progress;
mod scenario;

use std::{fs, path::Path, process::ExitCode};

use anyhow::{Context, ensure};
use hpa_simulate::{BASE, Run, RunOptions, Study, Variant, json_schema, map_parallel, report};
use jiff::Timestamp;
use serde::Serialize;

pub(crate) use self::{progress::Progress, scenario::load};
use crate::{
    args::{SimulateArguments, SimulationFormat},
    terminal::{self, escape_line},
};

const SECONDS_PER_HOUR: f64 = 3600.0;

/// Runs the variants of a scenario and prints a comparison.
pub(crate) fn run(arguments: &SimulateArguments) -> anyhow::Result<ExitCode> {
    let Some(file) = arguments.scenario.as_deref().filter(|_| !arguments.schema) else {
        terminal::print_json(&format!("{:#}\n", json_schema()))?;
        return Ok(ExitCode::SUCCESS);
    };
    let mut study = load(file)?;
    select(&mut study, &arguments.variant)?;
    if let Some(seed) = arguments.seed {
        study.variants = study.variants.iter().map(|one| one.with_seed(seed)).collect();
    }
    let has_charts = arguments.html.is_some() || arguments.svg.is_some();
    let results = simulate(&study.variants, has_charts || arguments.timeline);
    if let Some(path) = &arguments.html {
        write(path, &report::html(&study, &results, None))?;
    }
    if let Some(path) = &arguments.svg {
        write(path, &report::svg(&results))?;
    }
    match arguments.output {
        SimulationFormat::Table => terminal::print(&text(&study.name, &results, arguments.steps))?,
        SimulationFormat::Json => {
            terminal::print_json(&json(&study, &results, arguments.timeline)?)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Selects the variants with these names, in the order of the file.
fn select(study: &mut Study, names: &[String]) -> anyhow::Result<()> {
    let known: Vec<&str> = study.variants.iter().map(|variant| variant.name.as_str()).collect();
    for name in names {
        let known_names = known.join(", ");
        ensure!(known.contains(&name.as_str()), "no variant {name:?}: there are {known_names}");
    }
    if !names.is_empty() {
        study.variants.retain(|variant| names.contains(&variant.name));
    }
    Ok(())
}

/// Runs the variants on all cores.
pub(crate) fn simulate(variants: &[Variant], records_timeline: bool) -> Vec<report::Result> {
    let hours = variants.iter().map(|variant| variant.cluster.duration.get() / SECONDS_PER_HOUR);
    let progress = Progress::new(hours.sum(), "hours");
    let on_hour = || progress.add(1.0);
    let options = RunOptions { records_timeline, on_hour: Some(&on_hour) };
    let runs = map_parallel(variants, |variant| variant.run_with(options));
    progress.finish();
    variants.iter().cloned().zip(runs).collect()
}

fn text(name: &str, results: &[report::Result], with_steps: bool) -> String {
    let (answer, name) = (escape_line(&report::answer(results)), escape_line(name));
    let seconds = results.first().map_or(0.0, |(variant, _)| variant.cluster.duration.get());
    let (length, table) = (report::span(seconds), report::table(results));
    let steps = if with_steps { steps(results, None) } else { String::new() };
    format!(
        "{answer}
{name}, {length} simulated

{table}
Columns: docs/tuning.md#columns
{steps}"
    )
}

/// The scalings of each variant with their reasons. Times are calendar times if `start` is set.
pub(crate) fn steps(results: &[report::Result], start: Option<Timestamp>) -> String {
    let steps_of = |(variant, run): &report::Result| {
        format!(
            "
{}
{}",
            variant.name,
            report::steps(run, start)
        )
    };
    results.iter().map(steps_of).collect()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Output<'a> {
    name: &'a str,
    duration_seconds: f64,
    seed: u64,
    base: &'static str,
    variants: Vec<VariantOutput<'a>>,
}

#[derive(Serialize)]
pub(crate) struct VariantOutput<'a> {
    name: &'a str,
    #[serde(flatten)]
    run: Run,
}

/// The variants and their runs, for JSON.
pub(crate) fn variants(results: &[report::Result], with_timeline: bool) -> Vec<VariantOutput<'_>> {
    let output = results.iter().map(|(variant, run)| {
        let timeline = if with_timeline { run.timeline.clone() } else { Vec::new() };
        VariantOutput { name: &variant.name, run: Run { timeline, ..run.clone() } }
    });
    output.collect()
}

fn json(study: &Study, results: &[report::Result], with_timeline: bool) -> anyhow::Result<String> {
    let cluster = study.variants.first().map(|variant| &variant.cluster);
    let output = Output {
        name: &study.name,
        duration_seconds: cluster.map_or(0.0, |cluster| cluster.duration.get()),
        seed: cluster.map_or(0, |cluster| cluster.seed),
        base: BASE,
        variants: variants(results, with_timeline),
    };
    terminal::json(&output)
}

pub(crate) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("unable to write {}", path.display()))
}
