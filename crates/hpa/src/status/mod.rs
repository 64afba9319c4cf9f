//! `hpa status`: checks the controller, the metrics APIs and the autoscalers of a cluster.

mod autoscalers;
mod built_in;
mod check;
mod cluster;
mod controller;
mod lease;
mod metrics_apis;
mod other_controllers;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use self::{
    check::{Level, Report, Section},
    cluster::ClusterState,
};
use crate::{args::StatusArguments, kubectl::block_on, liveness::status_writers, terminal};

/// Checks the controller of a cluster and its autoscalers.
pub(crate) fn run(arguments: &StatusArguments) -> anyhow::Result<ExitCode> {
    let cluster = block_on(ClusterState::read(arguments))?;
    let report = run_checks(&cluster);
    terminal::print_report(arguments.output, &report, |has_color| report.text(has_color))?;
    Ok(if report.level == Level::Error { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn run_checks(cluster: &ClusterState) -> Report {
    let conflicts = cluster.leases().conflicts(&status_writers(&cluster.autoscalers));
    let built_in = built_in::check(cluster, &conflicts);
    let autoscalers = autoscalers::check(cluster, &built_in);
    let summary = autoscalers.first().map(|summary| summary.text.clone()).unwrap_or_default();
    let report = Report::new(vec![
        Section {
            name: "controller",
            checks: controller::check_controller(cluster, built_in, &conflicts),
        },
        Section { name: "work", checks: controller::check_work(cluster) },
        Section { name: "metrics APIs", checks: metrics_apis::check(cluster) },
        Section { name: "autoscalers", checks: autoscalers },
    ]);
    match controller::describe_hidden_controller(cluster) {
        Some(doubt) => report.with_hidden_controller(summary, &doubt),
        None => report,
    }
}
