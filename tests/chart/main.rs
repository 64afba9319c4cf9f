//! The chart: what it renders, whether `hpa run` takes the flags, whether the rights are those of the files that the other
//! suites run under, and whether a real API server takes the objects.
//!
//! `cargo test --test chart`. `HELM` names the helm to use, or several, separated by colons; else it is looked for in PATH.
//! The API server is found as the control-plane suite finds it. What is not there is skipped, and that is said. The files
//! of the chart and the documentation are checked in any case.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test runner: it may stop where the data is broken, and it prints"
)]
#![allow(dead_code, reason = "parts of the control-plane suite that are not needed here")]

#[path = "../control-plane/assets.rs"]
mod assets;
#[path = "../control-plane/control_plane/mod.rs"]
mod control_plane;
mod documents;
mod files;
mod helm;
#[path = "../control-plane/metrics.rs"]
mod metrics;
mod rendered;
mod server;
#[path = "../control-plane/wait.rs"]
mod wait;
#[path = "../control-plane/workload.rs"]
mod workload;
#[path = "../control-plane/world.rs"]
mod world;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Result, anyhow};

use crate::helm::{Helm, SETS};

/// The results so far.
#[derive(Default)]
pub(crate) struct Report {
    passed: usize,
    failed: usize,
    skipped: usize,
}

impl Report {
    fn line(&mut self, name: &str, result: Result<()>) {
        match result {
            Ok(()) => {
                println!("test {name} ... ok");
                self.passed += 1;
            }
            Err(error) => {
                println!("test {name} ... FAILED\n  {error:#}");
                self.failed += 1;
            }
        }
    }

    fn skip(&mut self, name: &str, why: &str) {
        println!("test {name} ... skipped: {why}");
        self.skipped += 1;
    }
}

/// A file or folder of the repository.
pub(crate) fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

fn main() -> ExitCode {
    let mut report = Report::default();
    report.line("schema_knows_every_value_and_no_other", files::schema());
    report.line("roles_are_named_as_the_flags_default_to", files::names());
    report.line("every_alert_is_documented", documents::alerts());
    report.line("every_reason_is_explained", documents::reasons());
    report.line("links_lead_somewhere", documents::links());
    report.line("values_in_documents_exist", documents::values());
    match helm::find() {
        Err(missing) => report.skip("rendered_chart", &missing),
        Ok(found) => found.iter().for_each(|helm| with_helm(helm, &mut report)),
    }
    let Report { passed, failed, skipped } = report;
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!("\ntest result: {verdict}. {passed} passed; {failed} failed; {skipped} ignored");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn with_helm(helm: &Helm, report: &mut Report) {
    println!("\nwith helm {}", helm.version);
    let binary = assets::controller();
    let mut all = Vec::new();
    for set in SETS {
        let objects = match helm.lint(set).and_then(|()| helm.template(set)) {
            Ok(objects) => objects,
            Err(error) => {
                report.line(&format!("{set}::renders"), Err(error));
                continue;
            }
        };
        report.line(&format!("{set}::is_safe"), rendered::is_safe(&objects));
        report
            .line(&format!("{set}::has_the_rights_of_the_files"), rendered::rights(&objects, set));
        report.line(&format!("{set}::ships_the_files"), rendered::files(&objects));
        let taken = binary.as_ref().map_err(|error| anyhow!("{error:#}"));
        let taken = taken.and_then(|binary| rendered::flags(&objects, binary));
        report.line(&format!("{set}::flags_are_taken"), taken);
        all.push((set, objects));
    }
    report.line("switches_add_what_they_name", rendered::switches(helm));
    report.line("bad_values_are_refused", rendered::refused(helm));
    match hpa_kube_apiserver::assets::find() {
        Err(missing) => report.skip("api_server_takes_it", &missing.to_string()),
        Ok(assets) => {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            report.line("api_server_takes_it", runtime.block_on(server::takes(&assets, &all)));
        }
    }
}
