//! `hpa explain`: explains the decision about an autoscaler, from inputs of a cluster or of files.

mod all;
mod collector_advice;
mod controllers;
mod dump;
mod live;
mod metric_advisor;
mod metrics_api_advice;
mod past;
mod rule_advice;
mod style;
mod subject;

use std::process::ExitCode;

use anyhow::bail;
use hpa_calc::{Report, Settings};
use hpa_controller::{debug::AutoscalerDetail, k8s::StatusController};
use serde::Serialize;

pub(crate) use self::metric_advisor::MetricAdvisor;
use self::{dump::Dump, live::Cluster, subject::Subject};
use crate::{
    args::{ExplainArguments, ReportFormat, SourceArguments},
    controller_options::{read_period, setting_policy, settings},
    kubectl::block_on,
    terminal,
};

/// The output of the command.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Output<'a> {
    #[serde(flatten)]
    report: &'a Report,
    controller: &'a StatusController,
    /// The record of the controller's debug API.
    past: Option<&'a AutoscalerDetail>,
    /// The reason why there is no record.
    past_missing: Option<String>,
}

/// Explains an autoscaler from a cluster or from files.
pub(crate) fn run(arguments: &ExplainArguments) -> anyhow::Result<ExitCode> {
    let settings = settings(&arguments.autoscaling)
        .with(|settings| settings.exact_schedules = arguments.sources.schedules.scaling_schedule);
    if !arguments.filename.is_empty() {
        refuse_sources(&arguments.sources)?;
        let subject = Dump::read(&arguments.filename)?.subject(
            arguments.name.as_deref(),
            arguments.cluster.namespace.as_deref(),
            settings,
            &setting_policy(&arguments.autoscaling),
            arguments.at,
        )?;
        print(&subject, arguments)?;
    } else if arguments.all_namespaces {
        block_on(all::run(arguments, &settings))?;
    } else {
        let Some(name) = &arguments.name else { bail!("the name of an autoscaler is required") };
        block_on(explain(arguments, name, settings))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Fails if a flag asks for metrics that only a report from a cluster reads. Warns of other flags
/// without effect.
fn refuse_sources(sources: &SourceArguments) -> anyhow::Result<()> {
    let flag = if sources.rules.metrics_config.is_some() {
        "--metrics-config"
    } else if sources.collectors.collectors {
        "--collectors"
    } else {
        sources.warn_of_unused_flags();
        return Ok(());
    };
    bail!(
        "{flag} has no effect with --filename, which reads all values from the files. Leave out \
         one of them. To read a metric by the rules without an autoscaler: hpa rules explain \
         custom pods/METRIC --namespace NAMESPACE --config FILE --prometheus-url URL"
    )
}

async fn explain(
    arguments: &ExplainArguments,
    name: &str,
    settings: Settings,
) -> anyhow::Result<()> {
    let cluster = Cluster::new(arguments, name).await?;
    let subject = cluster.read(settings.clone()).await?;
    print(&subject, arguments)?;
    let (mut sentence, mut failure) = (subject.sentence_without_durations(), None);
    if !arguments.watch {
        return Ok(());
    }
    let period = read_period(&arguments.autoscaling);
    loop {
        tokio::time::sleep(period).await;
        match cluster.read(settings.clone()).await {
            Ok(subject) => {
                failure = None;
                let new = subject.sentence_without_durations();
                if sentence != new {
                    print_separator(arguments.output)?;
                    print(&subject, arguments)?;
                    sentence = new;
                }
            }
            // The API server may be back in the next period.
            Err(error) => {
                let error = format!("{error:#}");
                if failure.as_ref() != Some(&error) {
                    terminal::warn(&error);
                    failure = Some(error);
                }
            }
        }
    }
}

/// Separates reports of `--watch`. JSON objects need nothing between them.
fn print_separator(format: ReportFormat) -> anyhow::Result<()> {
    let separator = match format {
        ReportFormat::Text => "\n",
        ReportFormat::Yaml => "---\n",
        ReportFormat::Json => "",
    };
    terminal::print(separator)
}

fn print(subject: &Subject, arguments: &ExplainArguments) -> anyhow::Result<()> {
    let report = subject.report();
    let output = Output {
        report: &report,
        controller: &subject.controller,
        past: subject.found.record.as_ref().ok(),
        past_missing: subject.found.record.as_ref().err().map(ToString::to_string),
    };
    terminal::print_report(arguments.output, &output, |has_color| {
        let values = subject.describe_values_of_controller();
        let past = subject.describe_past(arguments.since);
        let text = format!("{report}\n{values}{past}{}\n", subject.describe_controller());
        let text = terminal::escape_control(&text);
        if has_color { style::color(&text, &report) } else { text }
    })
}
