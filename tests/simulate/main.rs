//! The simulator must scale like the real controller: each scenario runs in the simulator, and with
//! the controller on the testbed in virtual time.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests"
)]

mod controller;
mod random;

use std::{fs, path::Path};

use hpa_simulate::{Run, ScenarioFile, Variant};
use hpa_testbed::workload::seconds::Seconds;
use hpa_tests::{harness::are_long_tests_enabled, repository_path};

use self::controller::{Scaling, run_controller};

/// The maximum duration of a scenario with `HPA_LONG_TESTS`. Longer ones are cut off.
const MAX_SECONDS: f64 = 4.0 * 3600.0;
/// The maximum duration of a scenario without `HPA_LONG_TESTS`.
const SHORT_MAX_SECONDS: f64 = 1200.0;
/// The number of random scenarios with `HPA_LONG_TESTS`.
const RANDOM_SCENARIO_COUNT: u64 = 100;
/// The number of random scenarios without `HPA_LONG_TESTS`.
const SHORT_RANDOM_SCENARIO_COUNT: u64 = 12;

fn scenario_file(file: &Path) -> ScenarioFile {
    let text = fs::read_to_string(file).expect("a file");
    let dir = file.parent().expect("a directory");
    let read = |name: &str| fs::read_to_string(dir.join(name)).map_err(|error| error.to_string());
    ScenarioFile::parse(&text, &read).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn examples() -> Vec<(String, Variant)> {
    let mut files: Vec<_> = fs::read_dir(repository_path("examples/simulate"))
        .expect("the examples")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    files.sort();
    let mut examples = Vec::new();
    for file in files {
        let name = file.file_stem().expect("a name").to_string_lossy();
        for variant in scenario_file(&file).variants {
            // The testbed has no other pods.
            if variant.other_pods.is_empty() {
                examples.push((format!("{name}/{}", variant.name), variant));
            }
        }
    }
    examples
}

fn scalings(run: &Run) -> Vec<Scaling> {
    run.steps
        .iter()
        .map(|step| Scaling { second: step.second, from: step.from, to: step.to })
        .collect()
}

/// Runs the controller, then the simulator. Both have their first reconcile at the same time.
/// Returns the number of scalings.
async fn assert_same_scalings(name: &str, mut variant: Variant) -> usize {
    let max_seconds = if are_long_tests_enabled() { MAX_SECONDS } else { SHORT_MAX_SECONDS };
    let duration = variant.scenario.duration.get().min(max_seconds);
    variant.scenario.duration = Seconds::new(duration);
    let (first, actual) = run_controller(&variant).await;
    variant.controller.initial_delay = Some(Seconds::new(first));
    let simulated = scalings(&variant.run());
    let differs = |pair: (&Scaling, &Scaling)| !pair.0.is_same(pair.1);
    let first_difference = simulated.iter().zip(&actual).position(differs);
    assert!(
        first_difference.is_none() && simulated.len() == actual.len(),
        "{name}: scaling {first_difference:?} differs\nsimulated {simulated:#?}\n\
            controller {actual:#?}",
    );
    simulated.len()
}

#[tokio::test(start_paused = true)]
async fn examples_scale_as_with_the_controller() {
    let mut total = 0;
    for (name, variant) in examples() {
        total += assert_same_scalings(&name, variant).await;
    }
    assert!(total > 50, "{total} scalings are too few to compare");
}

#[tokio::test(start_paused = true)]
async fn random_scenarios_scale_as_with_the_controller() {
    let count =
        if are_long_tests_enabled() { RANDOM_SCENARIO_COUNT } else { SHORT_RANDOM_SCENARIO_COUNT };
    let mut total = 0;
    for seed in 0..count {
        let text = random::scenario(seed).to_string();
        let no_files = |_: &str| Err("there are no files".to_owned());
        let scenario_file = ScenarioFile::parse(&text, &no_files)
            .unwrap_or_else(|error| panic!("seed {seed}: {error}\n{text}"));
        for variant in scenario_file.variants {
            total += assert_same_scalings(&format!("seed {seed}: {text}"), variant).await;
        }
    }
    assert!(total > 3 * usize::try_from(count).unwrap(), "{total} scalings are too few");
}
