//! Checks the Helm charts and the documentation.
//!
//! `cargo test --test chart` checks the rendered objects: `hpa run` accepts the flags, the
//! permissions match those that the other suites use, and a real API server accepts the objects.
//! `HELM` names one or more helm binaries, separated by colons; the default is helm in `PATH`. The
//! API server is found as in the control-plane suite. Without helm or API server, the suite reports
//! the skipped tests. promtool tests the alerts, if it is in `PATH`. The suite always checks the
//! files of the charts and the documentation.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test runner, which stops at broken data and prints results"
)]
#![allow(dead_code, reason = "unused parts of the control-plane suite")]

mod access;
mod adapter;
mod alerts;
#[path = "../control-plane/control_plane/mod.rs"]
mod control_plane;
mod debug;
mod documents;
mod files;
mod helm;
#[path = "../control-plane/metrics.rs"]
mod metrics;
mod rendered;
mod server;
#[path = "../control-plane/test_env.rs"]
mod test_env;
#[path = "../control-plane/wait.rs"]
mod wait;
#[path = "../control-plane/workload.rs"]
mod workload;

use std::{fmt::Display, path::Path, process::ExitCode};

use anyhow::Result;
use hpa_tests::{harness::hpa_binary, programs};
use serde_json::Value;

use crate::helm::{ADAPTER, CONTROLLER, Helm};

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

    fn skip(&mut self, name: &str, program: &str, missing: &dyn Display) {
        programs::skip(program, missing);
        println!("test {name} ... skipped");
        self.skipped += 1;
    }
}

fn main() -> ExitCode {
    let mut report = Report::default();
    for chart in [&CONTROLLER, &ADAPTER] {
        let name = format!("{}::schema_has_exactly_the_values", chart.name);
        report.line(&name, files::schema(chart));
    }
    report.line("schema_has_the_log_levels_of_the_flag", files::log_levels());
    report.line("role_names_match_flag_defaults", files::names());
    report.line("namespaced_role_has_the_rights_on_targets", access::namespaced_role());
    report.line("every_alert_is_documented", documents::alerts());
    report.line("every_reason_is_documented", documents::reasons());
    report.line("links_have_targets", documents::links());
    report.line("documented_values_exist", documents::values());
    match alerts::version() {
        Err(missing) => report.skip("alerts_fire", "promtool", &missing),
        Ok(version) => {
            println!("\nwith promtool {version}");
            report.line("alerts_fire", alerts::fire());
        }
    }
    match helm::find() {
        Err(missing) => report.skip("rendered_chart", "helm", &missing),
        Ok(found) => found.iter().for_each(|helm| with_helm(helm, &mut report)),
    }
    let Report { passed, failed, skipped } = report;
    let result = if failed == 0 { "ok" } else { "FAILED" };
    println!("\ntest result: {result}. {passed} passed; {failed} failed; {skipped} ignored");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn with_helm(helm: &Helm, report: &mut Report) {
    println!("\nwith helm {}", helm.version);
    let binary = hpa_binary();
    let mut all = Vec::new();
    for set in CONTROLLER.sets {
        let Some(objects) = render(helm, set, report) else { continue };
        report.line(&format!("{set}::probes"), rendered::probes(&objects));
        report.line(
            &format!("{set}::permissions_match_the_files"),
            rendered::permissions(&objects, set),
        );
        report.line(&format!("{set}::contains_the_files"), rendered::files(&objects));
        report.line(&format!("{set}::flags_are_valid"), rendered::flags(&objects, &binary));
        report.line(&format!("{set}::names_are_texts"), rendered::names_are_texts(helm, set));
        all.push(((*set).to_owned(), objects));
    }
    report.line("switches_add_objects", rendered::switches(helm));
    report.line("alerts_link_to_dashboard_and_runbook", rendered::alert_links(helm));
    report.line("invalid_values_are_rejected", rendered::invalid_values(helm));
    report.line("valid_values_are_accepted", rendered::valid_values(helm, &binary));
    report.line("vendor_versions_are_accepted", rendered::kube_versions(helm));
    report.line("debug_api_is_optional_and_complete", debug::api(helm));
    report.line("metrics_from_prometheus", adapter::in_process(helm));
    report.line("egress_reaches_each_prometheus", access::egress_to_prometheus(helm));
    report.line("skipper_rights_follow_the_values", access::skipper_rights(helm));
    all.extend(with_adapter(&helm.with_chart(&ADAPTER), &binary, report));
    match hpa_tests::kube_apiserver::assets::find() {
        Err(missing) => report.skip("api_server_accepts_objects", "kube-apiserver", &missing),
        Ok(assets) => {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            report.line(
                "api_server_accepts_objects",
                runtime.block_on(server::accepts(&assets, &all)),
            );
        }
    }
}

/// The objects of the adapter's chart, by set of values.
fn with_adapter(helm: &Helm, binary: &Path, report: &mut Report) -> Vec<(String, Vec<Value>)> {
    let mut all = Vec::new();
    for set in ADAPTER.sets {
        let Some(objects) = render(helm, set, report) else { continue };
        let name = |test: &str| format!("adapter::{set}::{test}");
        report.line(&name("probes"), adapter::probes(&objects, set));
        report.line(&name("rules_are_valid"), adapter::rules(&objects, set));
        report.line(&name("apis_have_a_certificate"), adapter::api_services(&objects, set));
        report.line(&name("permissions_only_read"), adapter::permissions(&objects));
        report.line(&name("flags_are_valid"), rendered::flags(&objects, binary));
        report.line(&name("names_are_texts"), rendered::names_are_texts(helm, set));
        all.push((format!("adapter/{set}"), objects));
    }
    report.line("adapter::arguments_follow_the_values", adapter::arguments(helm));
    report.line("adapter::switches_add_objects", adapter::switches(helm));
    report.line("adapter::rights_follow_the_configuration", adapter::rights(helm));
    report.line("adapter::manifests_are_those_of_the_chart", adapter::manifests(helm));
    report.line("adapter::invalid_values_are_rejected", adapter::invalid_values(helm));
    let notes = "adapter::notes_say_what_to_do_next";
    if helm.version.starts_with("v3.") {
        println!("test {notes} ... skipped: Helm 3 renders notes only with a cluster");
        report.skipped += 1;
    } else {
        report.line(notes, adapter::notes(helm));
    }
    all
}

/// Renders a set, and runs the checks for both charts.
fn render(helm: &Helm, set: &str, report: &mut Report) -> Option<Vec<Value>> {
    let name = |test: &str| format!("{}::{set}::{test}", helm.chart_name());
    match helm.lint(set).and_then(|()| helm.template(set)) {
        Ok(objects) => {
            report.line(&name("is_safe"), rendered::is_safe(&objects));
            Some(objects)
        }
        Err(error) => {
            report.line(&name("renders"), Err(error));
            None
        }
    }
}
