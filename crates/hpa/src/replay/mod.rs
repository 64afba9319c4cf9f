//! `hpa replay`: rebuilds the past load of an autoscaler from Prometheus, and simulates variants of
//! the autoscaler on it.

mod agreement;
mod autoscaler;
mod fetch;
mod fit;
mod load;
mod metric;
mod output;
mod past;
mod past_loads;
mod query;
mod read;
mod scenario;
mod series;
#[cfg(test)]
mod tests;
mod window;

use std::{path::Path, process::ExitCode};

use anyhow::{Context, anyhow, bail};
use hpa_calc::{
    HorizontalPodAutoscaler, Settings,
    settings::{Bounds, SettingPolicy},
};
use hpa_simulate::{ScenarioFile, report};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use self::{
    agreement::{Agreement, Trust},
    autoscaler::Autoscaler,
    output::Replay,
    past::Past,
    read::read_past,
    scenario::{RebuiltScenario, rebuild},
};
pub(crate) use self::{
    load::{PastLoad, read_load},
    past_loads::PrometheusPastLoads,
};
use crate::{
    args::{AutoscalingArguments, ReplayArguments, SimulationFormat},
    kubectl::block_on,
    manifests::{MAX_FILE_SIZE, read_text},
    simulate, terminal,
};

/// After a change of scheduled bounds, recorded replicas may be within the old ones for this time.
const BOUNDS_DELAY: SignedDuration = SignedDuration::from_mins(2);

/// A replayed time shorter than this may lack the peaks of the load.
const SHORT_REPLAY_SECONDS: f64 = 3600.0;

/// Replays the past of an autoscaler, and prints how well the rebuilt run matches it.
pub(crate) fn run(arguments: &ReplayArguments) -> anyhow::Result<ExitCode> {
    let (autoscaler, past) = block_on(async {
        let autoscaler = Autoscaler::read(&arguments.past).await?;
        let past = read_past(&arguments.past, &autoscaler).await?;
        anyhow::Ok((autoscaler, past))
    })?;
    let mut rebuilt = rebuild(&past, &autoscaler.hpa)?;
    complete_scenario(&mut rebuilt, arguments, &autoscaler, &past)?;
    let no_files = |name: &str| Err(format!("{name}: a replay reads no file"));
    let scenario_file = ScenarioFile::parse(&rebuilt.scenario.to_string(), &no_files);
    let scenario_file = scenario_file.map_err(|error| {
        anyhow!(
            "the rebuilt scenario is invalid: check the spec of the autoscaler and --variants: {}",
            error.message()
        )
    })?;
    let has_charts = arguments.html.is_some();
    let results = simulate::simulate(&scenario_file.variants, has_charts || arguments.timeline);
    let Some((base, run)) = results.first() else { bail!("there is no variant") };
    let step = past.window.step_seconds as f64;
    let mut agreement = Agreement::new(base.workload.replicas, &run.steps, &past.replicas, step);
    if !base.may_scale() {
        agreement.trust = Trust::Paused;
    }
    if let Some(path) = &arguments.save {
        let caution = caution(&agreement, past.window.seconds(), rebuilt.capacity_assumption);
        save_scenario(path, rebuilt.scenario, &caution)?;
    }
    let mut assumptions = notes(rebuilt.assumptions, &autoscaler.hpa, &past);
    assumptions.extend(report::pod_limit_sentence(&results));
    assumptions.extend(report::pause_sentence(&results));
    assumptions.extend(report::ineffective_settings_sentence(&results));
    let replay = Replay {
        name: &scenario_file.name,
        window: past.window,
        load_metric: &rebuilt.load_metric,
        recorded: &past.replicas,
        agreement: &agreement,
        assumptions,
    };
    if let Some(path) = &arguments.html {
        simulate::write_file(path, &replay.page(&scenario_file, &results))?;
    }
    match arguments.output {
        SimulationFormat::Table => terminal::print(&replay.text(&results, arguments.steps))?,
        SimulationFormat::Json => {
            terminal::print_json(&replay.json(&results, arguments.timeline)?)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The caution of a saved scenario that replays `seconds`. It has a sentence each about restricted
/// trust, a short time and an assumed capacity of a pod. Empty if none of these applies.
fn caution(agreement: &Agreement, seconds: f64, capacity_assumption: Option<String>) -> String {
    let short = (seconds < SHORT_REPLAY_SECONDS).then(|| {
        let time = report::format_duration(seconds);
        format!("The scenario is a replay of only {time}: the load of other times may differ.")
    });
    let sentences = agreement.caution().into_iter().chain(short).chain(capacity_assumption);
    sentences.collect::<Vec<_>>().join(" ")
}

/// Writes a scenario to a file.
fn save_scenario(path: &Path, mut scenario: Value, caution: &str) -> anyhow::Result<()> {
    if !caution.is_empty()
        && let Some(fields) = scenario.as_object_mut()
    {
        fields.insert("caution".to_owned(), caution.into());
    }
    let text = serde_saphyr::to_string(&scenario).context("unable to write YAML")?;
    let header = format!("# Rebuilt by hpa replay. Run it with: hpa simulate {}\n", path.display());
    simulate::write_file(path, &(header + &text))
}

/// Adds the autoscaler, the controller's settings and the variants to the rebuilt scenario.
fn complete_scenario(
    rebuilt: &mut RebuiltScenario,
    arguments: &ReplayArguments,
    autoscaler: &Autoscaler,
    past: &Past,
) -> anyhow::Result<()> {
    let Some(scenario) = rebuilt.scenario.as_object_mut() else { return Ok(()) };
    let metadata = &autoscaler.hpa.metadata;
    let name = format!("Replay of {}/{}", metadata.namespace, metadata.name);
    let description = format!("from {} to {}", past.window.start, past.window.end());
    scenario.insert("name".to_owned(), name.into());
    scenario.insert("description".to_owned(), description.into());
    scenario.insert("autoscaler".to_owned(), autoscaler.manifest(&arguments.past.ignore_metric));
    scenario.insert("controller".to_owned(), controller_settings(&arguments.autoscaling));
    let Some(path) = &arguments.variants else { return Ok(()) };
    let name = || format!("--variants {}", path.display());
    let text = read_text(path, MAX_FILE_SIZE).with_context(name)?;
    let document: Value = serde_saphyr::from_str(&text).with_context(name)?;
    let document = match document {
        list @ Value::Array(_) => json!({ "variants": list }),
        document => document,
    };
    let Some(variants) = document.get("variants") else {
        bail!("{}: there is no list of variants", name());
    };
    scenario.insert("variants".to_owned(), variants.clone());
    for field in ["cost", "objective"] {
        if let Some(value) = document.get(field) {
            scenario.insert(field.to_owned(), value.clone());
        }
    }
    Ok(())
}

/// The settings of the controller, in the fields of a scenario.
fn controller_settings(arguments: &AutoscalingArguments) -> Value {
    let AutoscalingArguments {
        horizontal_pod_autoscaler_sync_period: sync_period,
        horizontal_pod_autoscaler_downscale_stabilization: stabilization,
        horizontal_pod_autoscaler_cpu_initialization_period: initialization,
        horizontal_pod_autoscaler_initial_readiness_delay: readiness,
        horizontal_pod_autoscaler_tolerance: tolerance,
        ..
    } = arguments;
    json!({
        "syncPeriod": sync_period.as_secs_f64(),
        "downscaleStabilization": stabilization.as_secs_f64(),
        "cpuInitializationPeriod": initialization.as_secs_f64(),
        "initialReadinessDelay": readiness.as_secs_f64(),
        "tolerance": tolerance,
    })
}

/// Adds a note to the assumptions for each of these: the queries have results for less than the
/// requested time; recorded replicas are outside the bounds; recorded replicas are at the maximum,
/// which may hide load.
fn notes(assumptions: Vec<String>, hpa: &HorizontalPodAutoscaler, past: &Past) -> Vec<String> {
    let mut notes: Vec<String> =
        past.describe_missing_time().into_iter().chain(assumptions).collect();
    let settings = Settings::default().for_autoscaler(hpa, &SettingPolicy::default()).settings;
    let bounds_at = |time: Timestamp| {
        let bounds = settings.bounds_at(&hpa.spec, time);
        f64::from(bounds.min_replicas)..=f64::from(bounds.max_replicas)
    };
    let steps = past.replicas.values().count().max(1);
    // The share of the recorded steps whose replicas match the predicate.
    let share = |predicate: &dyn Fn(Timestamp, f64) -> bool| {
        let values = past.replicas.0.iter().zip(past.window.times());
        let matching =
            values.filter(|(value, time)| value.is_some_and(|one| predicate(*time, one.round())));
        matching.count() as f64 / steps as f64
    };
    // The next reconcile applies new bounds, and the next scrape records the replicas.
    let outside = share(&|time, replicas| {
        let earlier = time.checked_sub(BOUNDS_DELAY).unwrap_or(time);
        ![time, earlier].into_iter().any(|time| bounds_at(time).contains(&replicas))
    });
    if outside > 0.0 {
        let Bounds { min_replicas, max_replicas, .. } = Bounds::of_spec(&hpa.spec);
        let bounds = if settings.bounds.is_some() {
            "the scheduled bounds".to_owned()
        } else {
            format!("{min_replicas}-{max_replicas}, the bounds")
        };
        notes.push(format!(
            "For {} of the time the replicas were outside {bounds} of this spec: the spec or the \
             replicas were changed at that time. The rebuilt run doesn't reproduce the change.",
            report::percent(outside),
        ));
    }
    let at_max = share(&|time, replicas| replicas.total_cmp(bounds_at(time).end()).is_eq());
    if at_max > 0.0 {
        notes.push(format!(
            "For {} of the time the replicas were at maxReplicas. If pods were overloaded then, \
             more load came than they could serve, and the rebuilt load is too small there.",
            report::percent(at_max)
        ));
    }
    notes
}
