//! The command line. Flags of kube-controller-manager keep their names. Each flag of `hpa run` has
//! an environment variable. `examples/` has the texts after the flags in `--help`.

#![expect(clippy::doc_markdown, reason = "clap shows these comments verbatim in --help")]

mod adapter;
mod collectors;
mod controller;
mod convert;
mod dashboard;
#[cfg(feature = "demo")]
mod demo;
mod explain;
mod forecast;
mod ignored;
mod kubectl;
mod lease;
mod lint;
mod name_in_two_words;
mod program;
mod prometheus;
mod recommend;
mod replay;
mod rules;
mod run;
mod scaling_schedule;
mod schedule;
mod shadow_report;
mod simulate;
mod sources;
mod status;
#[cfg(test)]
mod tests;
mod values;

use std::{ffi::OsString, path::Path};

use clap::{
    Command as ClapCommand, CommandFactory, FromArgMatches, Parser, Subcommand,
    error::{ContextKind, ContextValue, ErrorKind},
};

#[cfg(feature = "demo")]
pub(crate) use self::demo::DemoArguments;
pub(crate) use self::{
    adapter::{AdapterArguments, ServingArguments},
    collectors::CollectorArguments,
    controller::ControllerArguments,
    convert::{ConvertArguments, ConvertFormat},
    dashboard::DashboardArguments,
    explain::{ExplainArguments, ReportFormat},
    forecast::ForecastArguments,
    kubectl::KubectlArguments,
    lease::LeaseArguments,
    lint::{LintArguments, LintFormat},
    program::{CompletionsArguments, ManArguments, VersionArguments},
    prometheus::{
        DEFAULT_PROMETHEUS_URL, PrometheusArguments, RulesFileArguments, SharingArguments,
    },
    recommend::{RecommendArguments, RecommendationFormat},
    replay::{PastArguments, ReplayArguments},
    rules::{
        MetricsApiArgument, RulesCheckArguments, RulesCommand, RulesCompareArguments,
        RulesConnection, RulesExplainArguments, RulesGenerateArguments,
    },
    run::{
        AutoscalerApiArgument, AutoscalingArguments, ClusterArguments, ForecastSourceArguments,
        LogArguments, LogFormat, ObservationArguments, RunArguments,
    },
    scaling_schedule::{ScalingScheduleArguments, ScheduleDefaults},
    schedule::{PreviewArguments, PreviewFormat, ScheduleCommand},
    shadow_report::ShadowReportArguments,
    simulate::{SimulateArguments, SimulationFormat},
    sources::SourceArguments,
    status::StatusArguments,
    values::{NO_SETTINGS, to_std},
};

/// A HorizontalPodAutoscaler controller: decides like kube-controller-manager and explains why.
#[derive(Debug, Parser)]
#[command(name = "hpa", version, propagate_version = true, mut_subcommands(values::finish_flags))]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the controller on a simulated cluster and show how replicas follow the load
    #[cfg(feature = "demo")]
    Demo(DemoArguments),
    /// Run the controller against a cluster
    Run(Box<RunArguments>),
    /// Serve the metrics APIs from Prometheus (rules of prometheus-adapter), collectors and scaling
    /// schedules
    Adapter(Box<AdapterArguments>),
    /// Compare decisions with another controller in a dry run, and report differences
    ShadowReport(Box<ShadowReportArguments>),
    /// Explain why an autoscaler does or doesn't scale, and what would change that
    Explain(Box<ExplainArguments>),
    /// Show in a browser all autoscalers and why they do or don't scale
    Dashboard(Box<DashboardArguments>),
    /// Check the health of the controller, the metrics APIs and the autoscalers
    Status(Box<StatusArguments>),
    /// Check autoscalers for errors that the API server rejects, and for likely mistakes
    Lint(Box<LintArguments>),
    /// Run an autoscaler on a modelled workload in virtual time, and compare variants
    Simulate(SimulateArguments),
    /// Search for better settings of an autoscaler by simulation
    Recommend(RecommendArguments),
    /// Rebuild the past load of an autoscaler from Prometheus, and simulate settings on it
    Replay(Box<ReplayArguments>),
    /// Check whether a load is forecastable and whether scaling by forecasts would have helped
    Forecast(Box<ForecastArguments>),
    /// Check, explain and generate rules for metrics from Prometheus; compare two metrics servers
    #[command(subcommand)]
    Rules(RulesCommand),
    /// Draw the value of ScalingSchedules; print their CustomResourceDefinitions
    #[command(subcommand)]
    Schedule(ScheduleCommand),
    /// Print the CustomResourceDefinition of autoscaling.hpa-rs.dev/v2
    Crd,
    /// Convert HorizontalPodAutoscalers between autoscaling/v2 and autoscaling.hpa-rs.dev/v2
    Convert(ConvertArguments),
    /// Print a shell completion script
    Completions(CompletionsArguments),
    /// Print a manual page
    Man(ManArguments),
    /// Print version, git revision, build date and platform
    Version(VersionArguments),
}

impl Arguments {
    /// Parses the process's arguments and environment. If a value is invalid, prints it with its
    /// flag or variable, and exits with status 2. If a flag asks for the help or the version,
    /// prints that and exits with status 0.
    pub(crate) fn parse_or_exit() -> Self {
        let arguments: Vec<OsString> = std::env::args_os().collect();
        Self::try_parse_checked(&arguments).unwrap_or_else(|error| error.exit())
    }

    fn try_parse_checked(arguments: &[OsString]) -> Result<Self, clap::Error> {
        let parsed = command_line(arguments)
            .try_get_matches_from(arguments)
            .and_then(|matches| Self::from_arg_matches(&matches))
            .map_err(|error| name_variable(error, arguments, &Self::command()))
            .map_err(|error| name_in_two_words::suggest_one_word(error, arguments))?;
        let checked = match &parsed.command {
            Command::Run(run) => {
                run.election.check_durations().and_then(|()| run.cluster.check_credentials())
            }
            Command::ShadowReport(report) => report.cluster.check_credentials(),
            Command::Explain(explain) => explain.check_watch(),
            _ => Ok(()),
        };
        checked.map_err(|text| Self::command().error(ErrorKind::ValueValidation, text))?;
        Ok(parsed)
    }
}

/// The flags that `-h` shows, by command, separated by spaces. For other commands, `-h` shows all
/// flags.
const MAIN_FLAGS: [(&str, &str); 17] = [
    ("demo", "scenario print-scenario speed for hold metrics-address"),
    (
        "run",
        "dry-run namespace kubeconfig metrics-config prometheus-url collectors \
         scaling-schedule leader-elect debug-port log-level",
    ),
    (
        "adapter",
        "config prometheus-url collectors scaling-schedule secure-port tls-cert-file \
         lister-kubeconfig compat log-level",
    ),
    ("shadow-report", "for namespace kubeconfig context log-level"),
    (
        "explain",
        "namespace all-namespaces filename output watch since autoscaler-api context \
         metrics-config prometheus-url",
    ),
    ("dashboard", "port no-open namespace context controller-url metrics-config prometheus-url"),
    ("status", "namespace output context kubeconfig controller-url"),
    ("lint", "filename all-namespaces namespace output warnings-as-notes context metrics-config"),
    ("simulate", "output html svg steps"),
    ("recommend", "output candidates seeds max-risk"),
    ("replay", "prometheus-url namespace since until filename output html context"),
    (
        "forecast",
        "file prometheus-url target pod-startup time-zone namespace since output html \
         context",
    ),
    ("rules check", "prometheus-url connect kubeconfig context"),
    ("rules explain", "config namespace name selector prometheus-url connect kubeconfig"),
    ("rules compare", "left right tolerance kubeconfig context"),
    ("schedule preview", "from output compat"),
    ("convert", "filename to output"),
];

/// The maximum length of a help text whose `[default: …]` is shown by `-h`, in characters.
const MAX_HELP_WITH_DEFAULT: usize = 60;

/// Shortens the help of a command to fit on a screen: usage and the most important flags.
fn with_short_help(parent: &str, command: ClapCommand) -> ClapCommand {
    let path = format!("{parent} {}", command.get_name());
    let flags = MAIN_FLAGS.iter().find(|(name, _)| path.strip_prefix("hpa ") == Some(*name));
    let has_examples = command.get_after_help().is_some();
    let command = command.mut_args(|argument| {
        let name = argument.get_long().unwrap_or_default().to_owned();
        let is_main = argument.is_positional()
            || flags.is_none_or(|(_, flags)| flags.split(' ').any(|flag| flag == name))
            || name == "help";
        let help = argument.get_help().map(|help| short_help(&help.to_string()));
        let has_value = argument.get_action().takes_values();
        let argument = argument.hide(!is_main).hide_env(true).help_heading(None::<&str>);
        let argument = if has_value {
            argument.hide_possible_values(true).hide_default_value(true)
        } else {
            argument
        };
        match help {
            Some(help) => argument.help(help),
            None => argument,
        }
    });
    let command = command.mut_subcommands(|subcommand| with_short_help(&path, subcommand));
    if has_examples {
        command.after_help(format!("All flags and examples: {path} --help"))
    } else {
        command
    }
}

/// Returns a help text up to the end of the first sentence or to the first semicolon. If it is
/// longer than [`MAX_HELP_WITH_DEFAULT`], leaves the default out.
fn short_help(text: &str) -> String {
    let first = text.split(". ").next().unwrap_or(text);
    let first = first.split("; ").next().unwrap_or(first);
    if first.chars().count() <= MAX_HELP_WITH_DEFAULT {
        return first.to_owned();
    }
    first.split(" [default").next().unwrap_or(first).to_owned()
}

/// The definition of the command line. Its name is `kubectl hpa` if kubectl runs the program as the
/// plugin `kubectl-hpa`.
fn command_line(arguments: &[OsString]) -> ClapCommand {
    let name = arguments.first().map(Path::new).and_then(Path::file_stem);
    let is_plugin = name.is_some_and(|name| name == "kubectl-hpa");
    let is_short = arguments.iter().skip(1).any(|argument| argument == "-h");
    let program = Arguments::command();
    let program = if is_short {
        program.mut_subcommands(|command| with_short_help("hpa", command))
    } else {
        program
    };
    if is_plugin { program.bin_name("kubectl hpa") } else { program }
}

/// Adds the environment variable to an error about a value that comes from it. clap names only the
/// flag.
fn name_variable(
    mut error: clap::Error,
    arguments: &[OsString],
    program: &ClapCommand,
) -> clap::Error {
    let Some(ContextValue::String(usage)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    let flag = usage.split([' ', '=', '[']).next().unwrap_or_default().to_owned();
    let mut command = program;
    for name in arguments.iter().skip(1) {
        let Some(subcommand) = command.find_subcommand(name) else { break };
        command = subcommand;
    }
    let argument = command
        .get_arguments()
        .find(|argument| argument.get_long().is_some_and(|long| flag == format!("--{long}")));
    let from_environment = argument.filter(|argument| !is_given(argument, arguments));
    if let Some(variable) = from_environment.and_then(|argument| argument.get_env()) {
        let tip = format!("the value comes from the variable {}", variable.to_string_lossy());
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// Whether the arguments contain the flag: its long form or an alias, alone or with `=VALUE`, or a
/// word that begins with its short form.
fn is_given(flag: &clap::Arg, arguments: &[OsString]) -> bool {
    let long = flag.get_long().into_iter().chain(flag.get_all_aliases().unwrap_or_default());
    let long: Vec<String> = long.map(|name| format!("--{name}")).collect();
    let short = flag.get_short().map(|name| format!("-{name}"));
    arguments.iter().any(|argument| {
        let argument = argument.to_string_lossy();
        let name = argument.split('=').next().unwrap_or_default();
        long.iter().any(|form| form == name)
            || short.as_ref().is_some_and(|form| argument.starts_with(form))
    })
}
