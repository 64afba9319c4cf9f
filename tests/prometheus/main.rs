//! Tests on a real Prometheus: the rules of the cookbook and of the adapter's chart, shared
//! queries, common mistakes in rules, queries of collectors, and forecasts from past loads.
//!
//! `cargo test --test prometheus` starts the `prometheus` in `PATH`, which scrapes a fixture with
//! counters, gauges and histograms. Without Prometheus or promtool, the suite reports that it was
//! skipped.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test runner, which panics on broken data and prints results"
)]

mod check;
mod cluster;
mod collectors;
mod cookbook;
mod default_rules;
mod document;
mod fixture;
mod forecasts;
mod mistakes;
mod promql;
mod reader;
mod server;
mod sharing;

use std::process::ExitCode;

use anyhow::Result;
use hpa_tests::{harness::hpa_binary, programs, report::Report};
use jiff::Timestamp;

use crate::{document::Recipe, reader::Reader, server::Server};

fn main() -> ExitCode {
    let version = match server::version() {
        Ok(version) => version,
        Err(missing) => {
            programs::skip("prometheus", format_args!("{missing:#}"));
            return ExitCode::SUCCESS;
        }
    };
    println!("\nwith prometheus {version}");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let mut report = Report::default();
    if let Err(error) = runtime.block_on(run(&mut report)) {
        report.add_result("prometheus", Err(error));
    }
    report.finish()
}

/// Runs all tests.
async fn run(report: &mut Report) -> Result<()> {
    let recipes = document::recipes()?;
    let recording: Vec<&str> =
        recipes.iter().filter_map(|recipe| recipe.recording.as_deref()).collect();
    // Panics if the binary is missing, so it is located before Prometheus starts.
    let binary = hpa_binary();
    let server = Server::start(&recording).await?;
    let reader = Reader::new(&server.url)?;
    reader.wait_until_complete().await?;

    report.add_result("cookbook::every_recipe_is_tested", cookbook::check_titles(&recipes));
    for recipe in &recipes {
        let result = cookbook::check(&reader, recipe).await;
        report.add_result(&format!("cookbook::{}", test_name(recipe)), result);
    }
    let reader = reader.at(Timestamp::now())?;
    for recipe in &recipes {
        let result = sharing::check_recipe(&reader, recipe).await;
        report.add_result(&format!("sharing::{}", test_name(recipe)), result);
    }
    let random_series = sharing::RandomSeries::start().await?;
    report.add_result("sharing::random_series", sharing::check_random(&random_series).await);
    let result = sharing::check_not_shared(&random_series).await;
    report.add_result("sharing::differences_are_found", result);
    report.add_result("default_rules_find_and_read_metrics", default_rules::check(&reader).await);
    report.add_result("promql_is_parsed_as_by_prometheus", promql::check(&reader).await);
    for (name, result) in check::check(&binary, &server.url).await {
        report.add_result(&format!("check::{name}"), result);
    }
    if let Some(result) = cluster::check(&binary, &server.url).await {
        report.add_result("check::names_are_those_of_the_cluster", result);
    }
    for (name, result) in mistakes::check(&binary, &server.url).await {
        report.add_result(&format!("mistakes::{name}"), result);
    }
    for (name, result) in collectors::check(&server.url).await? {
        report.add_result(&format!("collectors::{name}"), result);
    }
    let result = forecasts::check(&binary).await;
    report.add_result("forecasts::only_mode_scale_changes_replicas", result);
    Ok(())
}

fn test_name(recipe: &Recipe) -> String {
    recipe.title.to_lowercase().replace(' ', "_")
}
