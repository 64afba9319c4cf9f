//! `hpa`: a HorizontalPodAutoscaler controller.
//!
//! Parses arguments, sets up logging and connects the other crates, above all `hpa-controller` (the
//! I/O shell), `hpa-metrics` (the metrics APIs) and `hpa-calc` (the decision engine). `hpa demo`
//! runs the controller against `hpa-testbed`. `hpa adapter` serves metrics with `hpa-adapter`.
//!
//! Each subcommand but `hpa crd` has a module: `run`, `shadow`, `adapter`, `explain`, `lint`,
//! `status`, `dashboard`, `demo`, `simulate`, `recommend`, `replay`, `forecast`, `rules`,
//! `schedule`, `convert`, `version`, `man`, `completions`. The other modules, by subject:
//!
//! - `args`, `logging`, `signals`: flags, logs, signals
//! - `api_client`, `controller_options`: clients of the API server and options, from flags
//! - `serve`, `debug_api`, `debug_client`: `/metrics` and probes; the debug API and its client
//! - `in_process`, `collectors`, `scaling_schedules`, `cached_pods`: sources of metrics, mainly for
//!   `run` and `adapter`
//! - `metric_reader`, `rules_source`, `values_path`, `kubectl`, `manifests`: metrics, clients and
//!   objects, mainly for other subcommands
//! - `autoscaler_name`, `listed_autoscalers`: the autoscaler that a command names, or all of them
//! - `liveness`: the controllers that stored statuses, and whether any acts on the autoscalers
//! - `overwritten_events`: the controller's events about overwritten scalings
//! - `prometheus_metrics`: exported metrics about queries to Prometheus
//! - `findings`: findings of `lint` and `rules check` as JSON and SARIF
//! - `terminal`, `plugin_completion`: output, and completion for `kubectl hpa`
//! - `tests`: tests that compare the documentation and the charts with the program

mod adapter;
mod api_client;
mod args;
mod autoscaler_name;
mod cached_pods;
mod collectors;
mod completions;
mod controller_options;
mod convert;
mod dashboard;
mod debug_api;
mod debug_client;
#[cfg(feature = "demo")]
mod demo;
mod explain;
mod findings;
mod forecast;
mod in_process;
mod kubectl;
mod lint;
mod listed_autoscalers;
mod liveness;
mod logging;
mod man;
mod manifests;
mod metric_reader;
mod overwritten_events;
mod plugin_completion;
mod prometheus_metrics;
mod recommend;
mod replay;
mod rules;
mod rules_source;
mod run;
mod scaling_schedules;
mod schedule;
mod serve;
mod shadow;
mod signals;
mod simulate;
mod status;
mod terminal;
#[cfg(test)]
mod tests;
mod values_path;
mod version;

use std::process::ExitCode;

use tracing::{Level, error};

use crate::args::{Arguments, Command, RulesCommand};

/// Exit status of a command in which 1 is a finding, such as a difference or a mistake: the command
/// failed, or could not check all of its input.
const EXIT_INCONCLUSIVE: u8 = 2;

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    if let Some(words) = plugin_completion::typed_words(std::env::args_os()) {
        return plugin_completion::print(&words);
    }
    let Arguments { command } = Arguments::parse_or_exit();
    let failure = match &command {
        #[cfg(feature = "demo")]
        Command::Demo(_) => ExitCode::from(EXIT_INCONCLUSIVE),
        Command::Forecast(_)
        | Command::Lint(_)
        | Command::Recommend(_)
        | Command::ShadowReport(_)
        | Command::Status(_)
        | Command::Rules(RulesCommand::Compare(_)) => ExitCode::from(EXIT_INCONCLUSIVE),
        // Includes `rules check`, `rules explain` and `schedule preview`, in which 1 is a finding
        // too: a file that can't be parsed has a mistake.
        _ => ExitCode::FAILURE,
    };
    let has_log = matches!(command, Command::Run(_) | Command::Adapter(_));
    execute(command).unwrap_or_else(|error| {
        if terminal::is_closed_pipe(&error) {
            return ExitCode::SUCCESS;
        }
        // clap also exits with 2 after an invalid flag. `run` and `adapter` exit with 1, as the
        // programs that they replace.
        let has_invalid_flag = !has_log && error.is::<hpa_prometheus::client::SettingsError>();
        // Log the error if logging has started and is on.
        let error = hpa_metrics::with_causes(error.as_ref());
        if has_log && tracing::enabled!(Level::ERROR) {
            error!(error, "exiting");
        } else {
            terminal::warn(error);
        }
        if has_invalid_flag { ExitCode::from(EXIT_INCONCLUSIVE) } else { failure }
    })
}

fn execute(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Run(arguments) => run::run(*arguments)?,
        Command::Adapter(arguments) => adapter::run(*arguments)?,
        #[cfg(feature = "demo")]
        Command::Demo(arguments) => return demo::run(arguments),
        Command::ShadowReport(arguments) => return shadow::report(&arguments),
        Command::Explain(arguments) => return explain::run(&arguments),
        Command::Dashboard(arguments) => return dashboard::run(&arguments),
        Command::Status(arguments) => return status::run(&arguments),
        Command::Lint(arguments) => return lint::run(&arguments),
        Command::Rules(command) => return rules::run(command),
        Command::Recommend(arguments) => return recommend::run(&arguments),
        Command::Replay(arguments) => return replay::run(&arguments),
        Command::Forecast(arguments) => return forecast::run(&arguments),
        Command::Simulate(arguments) => return simulate::run(&arguments),
        Command::Schedule(command) => return schedule::run(command),
        Command::Crd => terminal::print(&hpa_calc::crd::manifest()?)?,
        Command::Convert(arguments) => return convert::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments)?,
        Command::Man(arguments) => man::run(&arguments)?,
        Command::Version(arguments) => version::run(&arguments)?,
    }
    Ok(ExitCode::SUCCESS)
}
