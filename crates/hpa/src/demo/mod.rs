//! `hpa demo`: the controller, unchanged, on a simulated cluster.
//!
//! ```text
//! playback                   event loop: advances simulated time, records and shows decisions
//!  ├─ cluster                testbed, simulation and controller
//!  ├─ view                   live view on a terminal, else lines
//!  └─ model                  decisions in words, samples of each workload, violations, summary
//! ```

mod cluster;
mod model;
mod playback;
mod view;

use std::process::ExitCode;

use anyhow::Context;
use hpa_testbed::workload::scenario::Scenario;

use crate::{args::DemoArguments, kubectl::block_on_threads, simulate::parse_scenario, terminal};

/// The built-in scenario.
const SHOP: &str = include_str!("../../scenarios/shop.yaml");

/// Exit status after a signal, as shells report SIGINT.
const EXIT_INTERRUPTED: u8 = 130;

/// Runs the demo. The exit status is 0 if the controller followed the load, 1 if it did not, and
/// 130 after a signal before the end.
pub(crate) fn run(arguments: DemoArguments) -> anyhow::Result<ExitCode> {
    if arguments.print_scenario {
        terminal::print(SHOP)?;
        return Ok(ExitCode::SUCCESS);
    }
    let scenario = load_scenario(&arguments)?;
    let folder = tempfile::Builder::new()
        .prefix("hpa-demo-")
        .tempdir()
        .context("unable to create a temporary directory")?;
    let is_live = view::start_logging(&arguments, folder.path())?;
    let play = playback::play(scenario, &arguments, folder.path(), is_live);
    let followed_load = block_on_threads(None, play);
    let has_failed = match &followed_load {
        // An error is a failure, unless the reader of standard output, such as `head`, has exited.
        Err(error) => !terminal::is_closed_pipe(error),
        Ok(followed_load) => *followed_load == Some(false),
    };
    if arguments.keep || (is_live && has_failed) {
        terminal::warn(format_args!("temporary files are kept in {}", folder.keep().display()));
    }
    Ok(match followed_load? {
        Some(true) => ExitCode::SUCCESS,
        Some(false) => ExitCode::FAILURE,
        None => ExitCode::from(EXIT_INTERRUPTED),
    })
}

fn load_scenario(arguments: &DemoArguments) -> anyhow::Result<Scenario> {
    let mut scenario = match &arguments.scenario {
        Some(path) => parse_scenario(path, Scenario::parse_with_files)?,
        None => Scenario::parse(SHOP).context("built-in scenario")?,
    };
    scenario.seed = arguments.seed.unwrap_or(scenario.seed);
    Ok(scenario)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::misspelled(
        "workloads:\n- name: web\n  replicsa: 2",
        "line 3, column 3: workloads[0].replicsa: unknown field `replicsa`, expected one of "
    )]
    #[case::unknown(
        "workloads: [{name: web, target: {cpu: 1, x: 1}}]",
        "line 1, column 25: workloads[0].target: unknown field `target`, expected one of "
    )]
    fn unknown_field_is_reported_with_its_path(#[case] text: &str, #[case] expected: &str) {
        let error = Scenario::parse(text).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }

    #[test]
    fn built_in_scenario_is_valid() {
        let scenario = Scenario::parse(SHOP).unwrap();
        assert_eq!((scenario.workloads.len(), scenario.manifests.len()), (3, 3));
    }
}
