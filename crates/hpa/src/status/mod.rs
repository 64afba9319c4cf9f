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
    check::{Level, Report, Section, lowercase_first},
    cluster::ClusterState,
};
use crate::{
    args::StatusArguments,
    kubectl::block_on,
    liveness::status_writers,
    terminal::{self, escape_line},
};

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
    let unread_api = cluster.scope.unread_api.as_deref();
    let unread_api = unread_api.map(|text| escape_line(&lowercase_first(text)));
    let hidden_controller = controller::describe_hidden_controller(cluster);
    let unread: Vec<_> = unread_api.into_iter().chain(hidden_controller).collect();
    if unread.is_empty() && !cluster.scope.is_fallback {
        return report;
    }
    report.with_unread(summary, unread)
}
