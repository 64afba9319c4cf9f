//! `hpa forecast`: reports whether a load can be forecast, and whether forecasts would have helped.

mod analysis;
mod chart;
mod output;

use std::{path::Path, process::ExitCode};

use anyhow::{Context, ensure};
use hpa_calc::{
    HorizontalPodAutoscaler, Settings as ControllerSettings, api::HorizontalPodAutoscalerSpec,
    defaults::apply_defaults, settings::SettingPolicy,
};
use hpa_forecast::{Trace, Workload};
use hpa_simulate::{report::format_duration, workload::samples_file::parse_timestamps};
use jiff::SignedDuration;

use self::analysis::{Analysis, Subject};
use crate::{
    args::{ForecastArguments, SimulationFormat},
    kubectl::block_on,
    manifests::{file_name, read_text},
    replay::{PastLoad, read_load},
    simulate::write_file,
    terminal,
};

/// The largest size of a file in bytes: four weeks of a sample each second.
const MAX_FILE_SIZE: u64 = 128 << 20;
/// The default time until a pod is ready.
const DEFAULT_STARTUP: SignedDuration = SignedDuration::from_mins(2);
/// Without a target, the peak of the load is assumed to need this many pods.
const DEFAULT_PEAK_PODS: f64 = 100.0;

/// Reports whether a load is forecastable and whether forecasts would have helped. The exit status
/// is 0 if they would have helped, else 1.
pub(crate) fn run(arguments: &ForecastArguments) -> anyhow::Result<ExitCode> {
    let subject = match &arguments.file {
        Some(path) => from_file(path, arguments)?,
        None => from_prometheus(arguments)?,
    };
    let analysis = Analysis::new(subject, arguments);
    if let Some(path) = &arguments.html {
        write_file(path, &output::page(&analysis))?;
    }
    if let Some(path) = &arguments.svg {
        let svg = chart::draw_best_hours(&analysis);
        write_file(path, &svg.context("there is too little load for a chart")?)?;
    }
    match arguments.output {
        SimulationFormat::Table => terminal::print(&output::text(&analysis))?,
        SimulationFormat::Json => terminal::print_json(&output::json(&analysis)?)?,
    }
    let is_active = analysis.decision.reason.is_active();
    Ok(if is_active { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn from_file(path: &Path, arguments: &ForecastArguments) -> anyhow::Result<Subject> {
    let name = file_name(path);
    let text = read_text(path, MAX_FILE_SIZE).with_context(|| format!("unable to read {name}"))?;
    let (column, zone) = (arguments.column.as_deref(), &arguments.time_zone);
    let samples =
        parse_timestamps(&text, column, "--column", zone).with_context(|| name.clone())?;
    ensure!(samples.len() > 1, "{name}: the file has fewer than two samples");
    let mut assumptions = Vec::new();
    let target = arguments.target.unwrap_or_else(|| {
        let peak = samples.iter().map(|(_, load)| *load).fold(0.0, f64::max);
        let target = if peak > 0.0 { peak / DEFAULT_PEAK_PODS } else { 1.0 };
        assumptions.push(format!(
            "A pod should have a load of {}: the peak needs {DEFAULT_PEAK_PODS} pods (--target).",
            output::format_number(target)
        ));
        target
    });
    let startup = startup_or_default(arguments.past.pod_startup, "", &mut assumptions);
    Ok(Subject {
        name,
        metric: None,
        is_custom: false,
        trace: Trace::new(samples),
        workload: Workload {
            target,
            startup,
            delay: arguments.metric_delay,
            ..Workload::default()
        },
        assumptions,
    })
}

fn from_prometheus(arguments: &ForecastArguments) -> anyhow::Result<Subject> {
    let past = block_on(read_load(&arguments.past))?;
    let PastLoad { name, metric, samples, target, startup, hpa, is_custom, missing_time } = past;
    let mut assumptions: Vec<String> = missing_time.into_iter().collect();
    let reason = ": Prometheus has no kube_pod_status_ready_time";
    let startup = startup_or_default(startup, reason, &mut assumptions);
    if limits_scale_ups(&hpa.spec) {
        let sentence = "The rules for scaling up of spec.behavior are not modelled: with them, \
                        scale-ups can be slower.";
        assumptions.push(sentence.to_owned());
    }
    let trace = Trace::new(samples);
    let settings = settings_of(&hpa);
    if !settings.may_scale() {
        assumptions.push("The pause or the dry run of the autoscaler is left out.".to_owned());
    }
    let workload = Workload::for_hpa(&hpa, &settings, target);
    let workload = workload.with_scheduled_bounds(&hpa, &settings, &trace);
    let workload = Workload { startup, delay: arguments.metric_delay, ..workload };
    Ok(Subject { name, metric: Some(metric), is_custom, trace, workload, assumptions })
}

/// The time until a pod is ready. If it is not known, adds an assumption. `reason` continues its
/// sentence, and is empty or begins with a colon.
fn startup_or_default(
    known: Option<SignedDuration>,
    reason: &str,
    assumptions: &mut Vec<String>,
) -> SignedDuration {
    known.unwrap_or_else(|| {
        let startup = format_duration(DEFAULT_STARTUP.as_secs_f64());
        let sentence =
            format!("Pods are ready {startup} after a scale-up{reason} (--pod-startup).");
        assumptions.push(sentence);
        DEFAULT_STARTUP
    })
}

/// The settings of the autoscaler, with the defaults of the controller.
fn settings_of(hpa: &HorizontalPodAutoscaler) -> ControllerSettings {
    ControllerSettings::default().for_autoscaler(hpa, &SettingPolicy::default()).settings
}

/// Whether the rules for scaling up differ from the defaults in more than the tolerance.
fn limits_scale_ups(spec: &HorizontalPodAutoscalerSpec) -> bool {
    let rules = |mut spec: HorizontalPodAutoscalerSpec| {
        let behavior = spec.behavior.get_or_insert_default();
        behavior.scale_up.get_or_insert_default().tolerance = None;
        apply_defaults(&mut spec);
        spec.behavior.and_then(|behavior| behavior.scale_up)
    };
    rules(spec.clone()) != rules(HorizontalPodAutoscalerSpec::default())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn workload_has_the_settings_of_the_autoscaler() {
        let hpa: Result<HorizontalPodAutoscaler, _> = serde_json::from_value(json!({
            "metadata": { "name": "web", "namespace": "shop", "annotations": {
                "autoscaling.hpa-rs.dev/tolerance": "0.3",
                "autoscaling.hpa-rs.dev/downscale-stabilization": "30s",
            } },
            "spec": {
                "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
                "maxReplicas": 9,
            },
        }));
        let hpa = hpa.unwrap();
        let workload = Workload::for_hpa(&hpa, &settings_of(&hpa), 10.0);
        assert!((workload.tolerances.down - 0.3).abs() < 1e-9, "{workload:?}");
        assert_eq!(workload.stabilization, SignedDuration::from_secs(30));
    }

    #[rstest]
    #[case::none(json!(null), false)]
    #[case::defaults(json!({ "scaleUp": { "selectPolicy": "Max" }, "scaleDown": {} }), false)]
    #[case::tolerance(json!({ "scaleUp": { "tolerance": "0.2" } }), false)]
    #[case::window(json!({ "scaleUp": { "stabilizationWindowSeconds": 60 } }), true)]
    #[case::policy(json!({ "scaleUp": { "selectPolicy": "Min" } }), true)]
    fn rules_for_scaling_up_that_are_not_the_defaults_are_recognized(
        #[case] behavior: Value,
        #[case] expected: bool,
    ) {
        let spec = json!({ "maxReplicas": 9, "behavior": behavior });
        assert_eq!(limits_scale_ups(&serde_json::from_value(spec).unwrap()), expected);
    }
}
