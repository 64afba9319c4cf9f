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
use hpa_tests::{harness::hpa_binary, programs};
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
    let failed = match runtime.block_on(run()) {
        Ok(failed) => failed,
        Err(error) => {
            println!("test prometheus ... FAILED\n  {error:#}");
            1
        }
    };
    let outcome = if failed == 0 { "ok" } else { "FAILED" };
    println!("\ntest result: {outcome}. {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs all tests, and returns how many failed.
async fn run() -> Result<usize> {
    let recipes = document::recipes()?;
    let recording: Vec<&str> =
        recipes.iter().filter_map(|recipe| recipe.recording.as_deref()).collect();
    // Panics if the binary is missing, so it is located before Prometheus starts.
    let binary = hpa_binary();
    let server = Server::start(&recording).await?;
    let reader = Reader::new(&server.url)?;
    reader.wait_until_complete().await?;

    let mut failed = 0;
    let mut report = |name: String, result: Result<()>| match result {
        Ok(()) => println!("test {name} ... ok"),
        Err(error) => {
            println!("test {name} ... FAILED\n  {error:#}");
            failed += 1;
        }
    };
    report("cookbook::every_recipe_is_tested".to_owned(), cookbook::check_titles(&recipes));
    for recipe in &recipes {
        report(format!("cookbook::{}", test_name(recipe)), cookbook::check(&reader, recipe).await);
    }
    let reader = reader.at(Timestamp::now())?;
    for recipe in &recipes {
        let result = sharing::check_recipe(&reader, recipe).await;
        report(format!("sharing::{}", test_name(recipe)), result);
    }
    let random_series = sharing::RandomSeries::start().await?;
    report("sharing::random_series".to_owned(), sharing::check_random(&random_series).await);
    report(
        "sharing::differences_are_found".to_owned(),
        sharing::check_not_shared(&random_series).await,
    );
    report("default_rules_find_and_read_metrics".to_owned(), default_rules::check(&reader).await);
    report("promql_is_parsed_as_by_prometheus".to_owned(), promql::check(&reader).await);
    for (name, result) in check::check(&binary, &server.url).await {
        report(format!("check::{name}"), result);
    }
    if let Some(result) = cluster::check(&binary, &server.url).await {
        report("check::names_are_those_of_the_cluster".to_owned(), result);
    }
    for (name, result) in mistakes::check(&binary, &server.url).await {
        report(format!("mistakes::{name}"), result);
    }
    for (name, result) in collectors::check(&server.url).await? {
        report(format!("collectors::{name}"), result);
    }
    report("forecasts::observed_then_scaled_for".to_owned(), forecasts::check(&binary).await);
    Ok(failed)
}

fn test_name(recipe: &Recipe) -> String {
    recipe.title.to_lowercase().replace(' ', "_")
}
