//! `hpa lint`.

mod cluster;
mod finding;
mod output;
mod rules;
mod served;
mod validity;
mod workspace;

#[cfg(test)]
mod tests;

use std::{io::Write, process::ExitCode};

use anyhow::Context;
use serde_json::Value;

use self::{
    finding::{Finding, Severity},
    workspace::{ServedMetrics, Workspace},
};
use crate::{
    args::{LintArguments, LintFormat},
    manifests::{self, Manifest},
    rules::builtin_mapper,
};

/// Exit status if nothing could be checked.
pub(crate) const EXIT_CANNOT_RUN: u8 = 2;

/// Checks the autoscalers of files or of a cluster, and prints the findings.
pub(crate) fn run(arguments: &LintArguments) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("unable to start the runtime")?;
    let workspace = if arguments.all_namespaces {
        runtime.block_on(cluster::read(arguments))?
    } else {
        let mut workspace = Workspace::from_manifests(manifests::read(&arguments.files)?);
        let served = served::by_rules(&arguments.rules, builtin_mapper());
        workspace.served = runtime.block_on(served)?.map(ServedMetrics::beside_any_cluster);
        workspace
    };
    let findings = check(&workspace);
    let text = match arguments.output {
        LintFormat::Text => output::text(&findings, workspace.autoscalers().count()),
        LintFormat::Json => output::json(&findings)?,
        LintFormat::Sarif => output::sarif(&findings)?,
    };
    std::io::stdout().write_all(text.as_bytes()).context("unable to write to standard output")?;
    let failing = if arguments.warnings_as_notes { Severity::Error } else { Severity::Warning };
    let has_failed = findings.iter().any(|finding| finding.severity() >= failing);
    Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The rules that objects violate, for objects that a command generates.
pub(crate) fn violated_rules(objects: Vec<Value>) -> Vec<&'static str> {
    let manifest = |object| Manifest { file: String::new(), line: 1, object };
    let workspace = Workspace::from_manifests(objects.into_iter().map(manifest).collect());
    check(&workspace).iter().map(|finding| finding.rule.id).collect()
}

/// Everything that is found, by file, line and rule.
fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for object in workspace.autoscalers() {
        if let Some(hpa) = validity::check(object, &mut findings) {
            rules::check(workspace, object, &hpa, &mut findings);
        }
    }
    findings.sort_by(|left, right| left.order().cmp(&right.order()));
    findings
}
