//! `hpa explain`.

mod dump;
mod live;
mod past;
pub(crate) mod style;

use std::{
    io::{IsTerminal, Write},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, bail};
use hpa_calc::{Inputs, Report, Scale, Selector, Settings};
use hpa_controller::debug::AutoscalerDetail;
use jiff::SignedDuration;
use serde::Serialize;

use self::{dump::Dump, live::Cluster};
use crate::{
    args::{ExplainHpaArguments, ReportFormat, to_std},
    debug_client::Unavailable,
    run,
};

/// What is explained, and who handles it.
struct Subject {
    inputs: Inputs,
    controller: Controller,
    /// What the controller's debug API says about it.
    past: Result<AutoscalerDetail, Unavailable>,
}

/// The controller that stored the status last, as its field manager says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct Controller {
    /// The name of the field manager. Absent if no status was stored.
    name: Option<String>,
    /// When it wrote.
    at: Option<String>,
}

/// The output of the command.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Output<'a> {
    #[serde(flatten)]
    report: &'a Report,
    controller: &'a Controller,
    past: Option<&'a AutoscalerDetail>,
    /// Why there is no past.
    past_missing: Option<String>,
}

/// The field manager that stored an autoscaler's status last.
pub(crate) fn status_manager(object: &serde_json::Value) -> Option<String> {
    live::controller(object).name
}

/// Explains an autoscaler of a cluster or of files.
pub(crate) fn run(arguments: &ExplainHpaArguments) -> anyhow::Result<ExitCode> {
    let settings = run::settings(&arguments.autoscaling);
    let settings = settings.with_exact_schedules(arguments.scaling_schedule);
    if !arguments.filename.is_empty() {
        let subject = Dump::read(&arguments.filename)?.subject(
            arguments.name.as_deref(),
            settings,
            arguments.at,
        )?;
        print(&subject, arguments)?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(name) = &arguments.name else { bail!("the name of an autoscaler is required") };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("unable to start the runtime")?;
    runtime.block_on(explain(arguments, name, settings))?;
    Ok(ExitCode::SUCCESS)
}

async fn explain(
    arguments: &ExplainHpaArguments,
    name: &str,
    settings: Settings,
) -> anyhow::Result<()> {
    let cluster = Cluster::new(arguments, name).await?;
    let period = to_std(arguments.autoscaling.horizontal_pod_autoscaler_sync_period);
    let subject = cluster.read(settings).await?;
    print(&subject, arguments)?;
    let (mut sentence, mut failure) = (subject.inputs.report().sentence, None);
    if !arguments.watch {
        return Ok(());
    }
    loop {
        tokio::time::sleep(period.max(Duration::from_secs(1))).await;
        match cluster.read(settings).await {
            Ok(subject) => {
                failure = None;
                let new = subject.inputs.report().sentence;
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
                    eprintln!("hpa: {error}");
                    failure = Some(error);
                }
            }
        }
    }
}

/// The selector of a scale. An empty one, which would select every pod, counts as absent.
fn usable_selector(scale: &Scale) -> Option<Selector> {
    let text = Some(&scale.selector).filter(|text| !text.is_empty())?;
    Selector::parse(text).ok()
}

/// Separates reports of `--watch`. JSON objects need nothing between them.
fn print_separator(format: ReportFormat) -> anyhow::Result<()> {
    let separator = match format {
        ReportFormat::Text => "\n",
        ReportFormat::Yaml => "---\n",
        ReportFormat::Json => "",
    };
    write(separator)
}

fn write(text: &str) -> anyhow::Result<()> {
    std::io::stdout().write_all(text.as_bytes()).context("unable to write to standard output")
}

fn print(subject: &Subject, arguments: &ExplainHpaArguments) -> anyhow::Result<()> {
    let text = render(subject, arguments, style::is_wanted(std::io::stdout().is_terminal()))?;
    write(&text)
}

fn render(
    subject: &Subject,
    arguments: &ExplainHpaArguments,
    colored: bool,
) -> anyhow::Result<String> {
    let report = subject.inputs.report();
    let output = Output {
        report: &report,
        controller: &subject.controller,
        past: subject.past.as_ref().ok(),
        past_missing: subject.past.as_ref().err().map(ToString::to_string),
    };
    Ok(match arguments.output {
        ReportFormat::Json => serde_json::to_string_pretty(&output)? + "\n",
        ReportFormat::Yaml => serde_saphyr::to_string(&output).context("unable to write YAML")?,
        ReportFormat::Text => {
            let past = subject.describe_past(arguments.since);
            let text = format!("{report}\n{past}{}\n", subject.controller.sentence());
            if colored { style::color(&text, &report) } else { text }
        }
    })
}

impl Subject {
    /// The decisions since a time, or why the past is missing.
    fn describe_past(&self, since: Option<SignedDuration>) -> String {
        match (&self.past, since) {
            (Err(missing), _) => {
                format!("The controller's past decisions are missing: {missing}.\n")
            }
            (Ok(past), Some(since)) => {
                let since = self.inputs.now.checked_sub(since).unwrap_or(jiff::Timestamp::MIN);
                past::section(past, since) + "\n"
            }
            (Ok(_), None) => String::new(),
        }
    }
}

impl Controller {
    fn sentence(&self) -> String {
        match (&self.name, &self.at) {
            (Some(name), Some(at)) => format!("{name} stored the status at {at}."),
            (Some(name), None) => format!("{name} stored the status."),
            (None, _) => "No controller has stored a status.".to_owned(),
        }
    }

    /// Whether it is the controller of Kubernetes, which has no annotations to pause it.
    fn is_reference(&self) -> bool {
        self.name.as_deref() == Some("kube-controller-manager")
    }
}
