//! `hpa simulate`: runs the variants of a scenario, and compares them.

mod progress;

use std::{fmt::Display, fs, path::Path, process::ExitCode};

use anyhow::{Context, anyhow, ensure};
use hpa_calc::explain::one_line;
use hpa_simulate::{
    BASE, Run, RunOptions, ScenarioFile, Variant, json_schema, map_parallel, report,
    workload::scenario::{ReadFile, ScenarioFileError},
};
use jiff::Timestamp;
use serde::Serialize;

pub(crate) use self::progress::Progress;
use crate::{
    args::{SimulateArguments, SimulationFormat},
    manifests::{file_name, is_stdin, read_text},
    terminal::{self, escape_line},
};

const SECONDS_PER_HOUR: f64 = 3600.0;

/// The maximum size of a scenario, and of each file that it refers to, in bytes.
const MAX_SCENARIO_SIZE: u64 = 16 << 20;

/// Runs the variants of a scenario and prints a comparison. With `--schema`, prints only the
/// schema.
pub(crate) fn run(arguments: &SimulateArguments) -> anyhow::Result<ExitCode> {
    let Some(file) = arguments.scenario.as_deref().filter(|_| !arguments.schema) else {
        terminal::print_json(&format!("{:#}\n", json_schema()))?;
        return Ok(ExitCode::SUCCESS);
    };
    let mut scenario_file = load_scenario_file(file)?;
    select_variants(&mut scenario_file, &arguments.variant)?;
    if let Some(seed) = arguments.seed {
        scenario_file.variants =
            scenario_file.variants.iter().map(|one| one.with_seed(seed)).collect();
    }
    let has_charts = arguments.html.is_some() || arguments.svg.is_some();
    let results = simulate(&scenario_file.variants, has_charts || arguments.timeline);
    if let Some(path) = &arguments.html {
        write_file(path, &page(&scenario_file, &results))?;
    }
    if let Some(path) = &arguments.svg {
        write_file(path, &report::svg(&results))?;
    }
    match arguments.output {
        SimulationFormat::Table => {
            terminal::print(&table_text(&scenario_file.name, &results, arguments.steps))?;
        }
        SimulationFormat::Json => {
            terminal::print_json(&json(&scenario_file, &results, arguments.timeline)?)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads a scenario and the files that it refers to, whose paths are relative to the scenario. A
/// scenario without a name gets that of its file.
pub(crate) fn load_scenario_file(file: &Path) -> anyhow::Result<ScenarioFile> {
    let mut scenario_file = parse_scenario(file, ScenarioFile::parse)?;
    if scenario_file.name.is_empty() && !is_stdin(file) {
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        scenario_file.name = one_line(&stem).into_owned();
    }
    Ok(scenario_file)
}

/// Reads a file, and passes it to `parse` with a function that reads the files that it refers to.
pub(crate) fn parse_scenario<T>(
    file: &Path,
    parse: impl FnOnce(&str, ReadFile<'_>) -> Result<T, ScenarioFileError>,
) -> anyhow::Result<T> {
    let folder = file.parent().unwrap_or(Path::new(""));
    let in_file = |error: &dyn Display| anyhow!("{}: {error}", file_name(file));
    let text = read_text(file, MAX_SCENARIO_SIZE).map_err(|error| in_file(&error))?;
    let read_relative = |name: &str| {
        read_text(&folder.join(name), MAX_SCENARIO_SIZE).map_err(|error| error.to_string())
    };
    parse(&text, &read_relative).map_err(|error| in_file(&error))
}

/// Keeps only the variants with these names, or all if there are no names.
fn select_variants(scenario_file: &mut ScenarioFile, names: &[String]) -> anyhow::Result<()> {
    let variant_names: Vec<&str> =
        scenario_file.variants.iter().map(|variant| variant.name.as_str()).collect();
    for name in names {
        ensure!(
            variant_names.contains(&name.as_str()),
            "no variant {name:?}: there are {}",
            variant_names.join(", ")
        );
    }
    if !names.is_empty() {
        scenario_file.variants.retain(|variant| names.contains(&variant.name));
    }
    Ok(())
}

/// Runs the variants on all cores, and shows the progress.
pub(crate) fn simulate(variants: &[Variant], records_timeline: bool) -> Vec<report::VariantRun> {
    let hours = variants.iter().map(|variant| variant.scenario.duration.get() / SECONDS_PER_HOUR);
    let progress = Progress::new(hours.sum(), "hours");
    let on_hour = || progress.add(1.0);
    let options = RunOptions { records_timeline, on_hour: Some(&on_hour) };
    let runs = map_parallel(variants, |variant| variant.run_with(options));
    progress.finish();
    variants.iter().cloned().zip(runs).collect()
}

/// The output as a table, optionally with the scalings of each variant.
fn table_text(name: &str, results: &[report::VariantRun], with_steps: bool) -> String {
    let (answer, name) = (escape_line(&report::answer_sentence(results)), escape_line(name));
    let seconds = results.first().map_or(0.0, |(variant, _)| variant.scenario.duration.get());
    let (length, table) = (report::format_duration(seconds), report::comparison_text(results));
    let steps = if with_steps { steps_text(results, None) } else { String::new() };
    let note = results.first().and_then(|(variant, _)| report::samples_note(variant));
    let note = note.map(|note| format!("; {note}")).unwrap_or_default();
    let separator = if name.is_empty() { "" } else { ", " };
    format!(
        "{answer}\n{name}{separator}{length} simulated{note}\n\n{table}\n\
         Columns: docs/tuning.md#columns\n{steps}"
    )
}

/// The HTML page. Its first paragraph is the answer, as in the table.
fn page(scenario_file: &ScenarioFile, results: &[report::VariantRun]) -> String {
    let note = results.first().and_then(|(variant, _)| report::samples_note(variant));
    let note = note.map(|note| format!("Note: {note}."));
    let description = Some(scenario_file.description.clone()).filter(|text| !text.is_empty());
    let paragraphs = [Some(report::answer_sentence(results)), description, note];
    let description = paragraphs.into_iter().flatten().collect::<Vec<_>>().join("\n");
    let scenario_file = ScenarioFile { description, ..scenario_file.clone() };
    report::html(&scenario_file, results, None)
}

/// The scalings of each variant with their reasons. Times are calendar times if `start` is set.
pub(crate) fn steps_text(results: &[report::VariantRun], start: Option<Timestamp>) -> String {
    let steps_of = |(variant, run): &report::VariantRun| {
        format!("\n{}\n{}", variant.name, report::scalings_text(run, start))
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
    /// The notes of the text output, such as that the samples of the load end early, or that a
    /// setting has no effect.
    notes: Vec<String>,
    variants: Vec<VariantOutput<'a>>,
}

#[derive(Serialize)]
pub(crate) struct VariantOutput<'a> {
    name: &'a str,
    #[serde(flatten)]
    run: Run,
}

/// The JSON output of each variant.
pub(crate) fn variant_outputs(
    results: &[report::VariantRun],
    with_timeline: bool,
) -> Vec<VariantOutput<'_>> {
    let outputs = results.iter().map(|(variant, run)| {
        let timeline = if with_timeline { run.timeline.clone() } else { Vec::new() };
        VariantOutput { name: &variant.name, run: Run { timeline, ..run.clone() } }
    });
    outputs.collect()
}

fn json(
    scenario_file: &ScenarioFile,
    results: &[report::VariantRun],
    with_timeline: bool,
) -> anyhow::Result<String> {
    let first = scenario_file.variants.first();
    let scenario = first.map(|variant| &variant.scenario);
    let output = Output {
        name: &scenario_file.name,
        duration_seconds: scenario.map_or(0.0, |scenario| scenario.duration.get()),
        seed: scenario.map_or(0, |scenario| scenario.seed),
        base: BASE,
        notes: first
            .and_then(report::samples_note)
            .into_iter()
            .chain(report::caution(results))
            .chain(report::pause_sentence(results))
            .chain(report::ineffective_settings_sentence(results))
            .collect(),
        variants: variant_outputs(results, with_timeline),
    };
    terminal::json(&output)
}

pub(crate) fn write_file(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("unable to write {}", path.display()))
}
