//! Checks the Helm charts and the documentation.
//!
//! `cargo test --test chart` checks the rendered objects: `hpa run` accepts the flags, the
//! permissions match those that the other suites use, and a real API server accepts the objects.
//! `HELM` names one or more helm binaries, separated by colons; the default is helm in `PATH`. The
//! API server is found as in the control-plane suite. Without helm or API server, the suite reports
//! the skipped tests. promtool tests the alerts, if it is in `PATH`. The checks of the charts'
//! files and of the documentation need no program.

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

use std::{path::Path, process::ExitCode};

use hpa_tests::{harness::hpa_binary, report::Report};
use serde_json::Value;

use crate::helm::{ADAPTER, CONTROLLER, Helm};

fn main() -> ExitCode {
    let mut report = Report::default();
    for chart in [&CONTROLLER, &ADAPTER] {
        let name = format!("{}::schema_has_exactly_the_values", chart.name);
        report.add_result(&name, files::check_schema(chart));
    }
    report.add_result("schema_has_the_log_levels_of_the_flag", files::check_log_levels());
    report.add_result("schema_allows_exactly_the_settings", files::check_setting_names());
    report.add_result("roles_match_flag_defaults", files::check_roles());
    report.add_result("namespaced_role_has_the_rights_on_targets", access::check_namespaced_role());
    report.add_result("every_alert_is_documented", documents::check_alerts());
    report.add_result("every_reason_is_documented", documents::check_condition_reasons());
    report.add_result("links_have_targets", documents::check_links());
    report.add_result("documented_values_exist", documents::check_values());
    match alerts::version() {
        Err(missing) => report.skip_without("promtool", "alerts_fire", format_args!("{missing:#}")),
        Ok(version) => {
            println!("\nwith promtool {version}");
            report.add_result("alerts_fire", alerts::check_firing_alerts());
        }
    }
    match hpa_tests::helm::find_all() {
        Err(missing) => report.skip_without("helm", "rendered_chart", missing),
        Ok(paths) => {
            for path in paths {
                match Helm::new(path) {
                    Ok(helm) => check_with_helm(&helm, &mut report),
                    Err(error) => report.add_result("helm_runs", Err(error)),
                }
            }
        }
    }
    report.finish()
}

/// Checks both charts with a helm binary.
fn check_with_helm(helm: &Helm, report: &mut Report) {
    println!("\nwith helm {}", helm.version);
    let binary = hpa_binary();
    let mut all = Vec::new();
    for value_set in CONTROLLER.value_sets {
        let Some(objects) = render(helm, value_set, report) else { continue };
        let name = |test: &str| format!("{}::{value_set}::{test}", helm.chart_name());
        report.add_result(&name("probes"), rendered::check_probes(&objects));
        report.add_result(
            &name("permissions_match_the_files"),
            access::check_permissions(&objects, value_set),
        );
        report.add_result(&name("files_are_unchanged"), rendered::check_shipped_files(&objects));
        report.add_result(&name("flags_are_valid"), rendered::check_flags(&objects, &binary));
        report.add_result(&name("names_are_quoted"), rendered::check_quoted_names(helm, value_set));
        all.push(((*value_set).to_owned(), objects));
    }
    report.add_result("switches_add_objects", rendered::check_switches(helm));
    report.add_result("alerts_link_to_dashboard_and_runbook", rendered::check_alert_links(helm));
    report.add_result("invalid_values_are_rejected", rendered::check_invalid_values(helm));
    report.add_result("valid_values_are_accepted", rendered::check_valid_values(helm, &binary));
    report.add_result("vendor_versions_are_accepted", rendered::check_kube_versions(helm));
    report.add_result("debug_api_is_optional_and_complete", debug::check_debug_api(helm));
    report.add_result("prometheus_rules_compile", adapter::check_in_process_rules(helm));
    report.add_result("egress_reaches_each_prometheus", access::check_egress_to_prometheus(helm));
    report.add_result("skipper_rights_follow_the_values", access::check_skipper_rights(helm));
    all.extend(check_adapter_chart(&helm.with_chart(&ADAPTER), &binary, report));
    match hpa_tests::kube_apiserver::assets::find() {
        Err(missing) => {
            report.skip_without("kube-apiserver", "api_server_accepts_objects", missing);
        }
        Ok(assets) => {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            report.add_result(
                "api_server_accepts_objects",
                runtime.block_on(server::check_acceptance(&assets, &all)),
            );
        }
    }
}

/// Checks the adapter's chart. Returns its rendered objects, by set of values.
fn check_adapter_chart(
    helm: &Helm,
    binary: &Path,
    report: &mut Report,
) -> Vec<(String, Vec<Value>)> {
    let mut all = Vec::new();
    for value_set in ADAPTER.value_sets {
        let Some(objects) = render(helm, value_set, report) else { continue };
        let name = |test: &str| format!("{}::{value_set}::{test}", helm.chart_name());
        report.add_result(&name("probes"), adapter::check_probes(&objects, value_set));
        report.add_result(&name("rules_are_valid"), adapter::check_rules(&objects, value_set));
        report.add_result(
            &name("apis_with_rules_are_registered"),
            adapter::check_api_services(&objects, value_set),
        );
        report.add_result(
            &name("write_permissions_are_limited"),
            adapter::check_write_permissions(&objects),
        );
        report.add_result(&name("flags_are_valid"), rendered::check_flags(&objects, binary));
        report.add_result(&name("names_are_quoted"), rendered::check_quoted_names(helm, value_set));
        all.push((format!("adapter/{value_set}"), objects));
    }
    report.add_result("hpa-adapter::arguments_follow_the_values", adapter::check_arguments(helm));
    report.add_result("hpa-adapter::switches_add_objects", adapter::check_switches(helm));
    report.add_result(
        "hpa-adapter::permissions_follow_the_configuration",
        adapter::check_needed_permissions(helm),
    );
    report.add_result(
        "hpa-adapter::manifests_are_those_of_the_chart",
        adapter::check_manifests(helm),
    );
    report.add_result(
        "hpa-adapter::invalid_values_are_rejected",
        adapter::check_invalid_values(helm),
    );
    let notes = "hpa-adapter::notes_name_the_next_steps";
    if helm.version.starts_with("v3.") {
        report.skip(notes, "Helm 3 renders notes only with a cluster");
    } else {
        report.add_result(notes, adapter::check_notes(helm));
    }
    all
}

/// Renders a set of values, and runs the checks that both charts share.
fn render(helm: &Helm, value_set: &str, report: &mut Report) -> Option<Vec<Value>> {
    let name = |test: &str| format!("{}::{value_set}::{test}", helm.chart_name());
    match helm.lint(value_set).and_then(|()| helm.template(value_set)) {
        Ok(objects) => {
            report.add_result(&name("pod_is_unprivileged"), rendered::check_pod_security(&objects));
            Some(objects)
        }
        Err(error) => {
            report.add_result(&name("renders"), Err(error));
            None
        }
    }
}
