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

#[cfg(test)]
pub(crate) use self::built_in::Flags;
pub(crate) use self::{
    built_in::KubeControllerManager,
    check::named,
    cluster::{ObservedAutoscaler, list, list_all},
    scales::read_scales,
};
use self::{
    check::{Level, Report, Section},
    cluster::Observed,
};
use crate::{args::StatusArguments, kubectl::block_on, terminal};

/// Checks the controller of a cluster and its autoscalers.
pub(crate) fn run(arguments: &StatusArguments) -> anyhow::Result<ExitCode> {
    let observed = block_on(Observed::read(arguments))?;
    let report = check(&observed);
    terminal::print_report(arguments.output, &report, |has_color| report.text(has_color))?;
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
