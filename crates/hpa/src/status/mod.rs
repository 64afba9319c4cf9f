//! `hpa status`: checks of the controller and the autoscalers.

mod autoscalers;
mod built_in;
mod check;
mod cluster;
mod controller;
mod metrics_apis;
mod scales;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use anyhow::Context;

pub(crate) use self::{
    check::named,
    cluster::{list, list_all},
    scales::read_scales,
};
use self::{
    check::{Level, Report, Section},
    cluster::Observed,
};
use crate::{
    args::{ReportFormat, StatusArguments},
    terminal,
};

/// Exit status if nothing could be checked.
pub(crate) const EXIT_CANNOT_RUN: u8 = 2;

/// Checks the controller of a cluster and its autoscalers.
pub(crate) fn run(arguments: &StatusArguments) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("unable to start the runtime")?;
    let observed = runtime.block_on(Observed::read(arguments))?;
    let report = check(&observed);
    match arguments.output {
        ReportFormat::Json => {
            terminal::print_json(&(serde_json::to_string_pretty(&report)? + "\n"))?;
        }
        ReportFormat::Yaml => {
            let text = serde_saphyr::to_string(&report).context("unable to write YAML")?;
            terminal::print_colored(&text)?;
        }
        ReportFormat::Text => terminal::print_colored(&report.text(terminal::has_color()))?,
    }
    Ok(if report.level == Level::Error { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn check(observed: &Observed) -> Report {
    Report::new(vec![
        Section { name: "controller", checks: controller::check_lease(observed) },
        Section { name: "work", checks: controller::check_work(observed) },
        Section { name: "metrics APIs", checks: metrics_apis::check(observed) },
        Section { name: "autoscalers", checks: autoscalers::check(observed) },
    ])
}
