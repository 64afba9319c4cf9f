//! `hpa-bench run` on a small cluster.

#![allow(
    clippy::expect_used,
    clippy::float_cmp,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may stop where it was misled"
)]

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use rstest::rstest;
use serde_json::Value;

/// The controller, built by cargo in the profile of this test.
fn hpa() -> PathBuf {
    let bench = Path::new(env!("CARGO_BIN_EXE_hpa-bench"));
    let folder = bench.parent().expect("a folder");
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        None | Some("debug") => "dev",
        Some(profile) => profile,
    };
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--package", "hpa", "--bin", "hpa", "--profile", profile])
        .args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml")])
        .status()
        .expect("cargo runs");
    assert!(status.success(), "cargo build -p hpa: {status}");
    folder.join(format!("hpa{}", std::env::consts::EXE_SUFFIX))
}

fn bench(arguments: &[&str]) -> (bool, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hpa-bench"));
    let Output { status, stdout, stderr } = command.arg("run").args(arguments).output().expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (status.success(), text(stdout), text(stderr))
}

/// Measures the controller with 20 autoscalers of 3 pods, reconciled five times a second, for two seconds.
fn measure(more: &[&str]) -> (Value, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("numbers.json").display().to_string();
    let controller = format!("ours={}", hpa().display());
    let small = ["--autoscalers=20", "--pods=3", "--namespaces=2", "--period=200ms", "--for=2s", "--extra=2"];
    let arguments = [&["--controller", &controller, "--json", &json][..], &small, more].concat();
    let (success, output, errors) = bench(&arguments);
    assert!(success, "{output}{errors}");
    let numbers = std::fs::read_to_string(json).expect("numbers");
    (serde_json::from_str(&numbers).expect("JSON"), output)
}

fn number(outcome: &Value, pointer: &str) -> f64 {
    outcome.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {pointer} in {outcome:#}"))
}

/// A number of a kind of request; zero if there were no such requests.
fn requests(outcome: &Value, number_of: &str, kind: &str) -> f64 {
    outcome["requests"].get(kind).map_or(0.0, |one| number(one, number_of))
}

const READ_SCALE: &str = "get deployments.apps/scale";
const WRITE_SCALE: &str = "update deployments.apps/scale";
const WRITE_STATUS: &str = "patch horizontalpodautoscalers.autoscaling/status";

#[rstest]
#[case::cpu("cpu")]
#[case::external("external")]
fn load_that_jitters_is_decided_on_again_and_again(#[case] metric: &str) {
    let (numbers, output) = measure(&["--metric", metric]);
    let [outcome] = numbers.as_array().expect("outcomes").as_slice() else { panic!("{numbers:#}") };
    assert_eq!(number(outcome, "/autoscalers"), 20.0);
    assert_eq!(number(outcome, "/decided/count"), 20.0);
    let measured = number(outcome, "/measured");
    assert!((2.0..20.0).contains(&measured), "{outcome:#}");
    // On a busy machine not all that is due is done, but most of it, and never more. A period is at either end.
    let (made, due) = (number(outcome, "/reconciles"), number(outcome, "/reconciles_due"));
    assert!(made > due * 0.5 && made < due * 1.1 + 40.0, "{outcome:#}");
    assert_eq!(made, requests(outcome, "/count", WRITE_STATUS) - requests(outcome, "/failed", WRITE_STATUS));
    assert_eq!(outcome["reconciles_counted_by"], "status-writes");
    // It reconciles what has changed too, without anything new to tell.
    let own = number(outcome, "/own_reconciles");
    assert!(own > made * 0.8 && own < made * 1.5 + 40.0, "{outcome:#}");
    assert_eq!(requests(outcome, "/count", WRITE_SCALE), 0.0, "nothing has to be scaled");
    let cycle = number(outcome, "/cycle/p50");
    assert!((0.1..0.4).contains(&cycle), "{outcome:#}");
    assert!(number(outcome, "/cycle/max") >= number(outcome, "/cycle/p99"), "{outcome:#}");
    assert_eq!(number(outcome, "/extra_decided/count"), 2.0);
    let of_extra = number(outcome, "/extra_decided/p50");
    assert!(of_extra > 0.0 && of_extra < 1.0, "{outcome:#}");
    let cpus = number(outcome, "/cpus");
    assert!(cpus > 0.0 && cpus < 16.0, "{outcome:#}");
    let memory = number(outcome, "/usage_at_end/peak_memory");
    assert!((1e6..1e9).contains(&memory), "{outcome:#}");
    assert!(output.starts_with("20 autoscalers of 3 pods in 2 namespaces"), "{output}");
    assert!(output.contains(&format!("\n  {WRITE_STATUS} ")), "{output}");
}

#[test]
fn where_nothing_changes_the_controller_tells_how_often_it_looked() {
    let (numbers, output) = measure(&["--change=steady"]);
    let outcome = &numbers[0];
    let (made, due) = (number(outcome, "/reconciles"), number(outcome, "/reconciles_due"));
    assert!(made > due * 0.5 && made < due * 1.1 + 40.0, "{outcome:#}");
    assert_eq!(outcome["reconciles_counted_by"], "own-metrics");
    // The statuses of the two autoscalers that were added.
    assert!(requests(outcome, "/count", WRITE_STATUS) <= 10.0, "{outcome:#}");
    let unknown = ["cycle", "lateness", "overdue_at_end"].map(|name| &outcome[name]);
    assert_eq!(unknown, [&Value::Null; 3]);
    let late = number(outcome, "/own_lateness");
    assert!((0.0..1.0).contains(&late), "{outcome:#}");
    let row = output.lines().find(|line| line.starts_with("lateness")).expect("a row");
    assert!(row.ends_with("  -"), "{row}");
}

#[test]
fn wave_makes_the_controller_scale_and_pods_follow() {
    let (numbers, output) = measure(&["--change=wave"]);
    let outcome = &numbers[0];
    let [at_start, later, refused] =
        ["/at_start", "/count", "/failed"].map(|number_of| requests(outcome, number_of, WRITE_SCALE));
    assert!(at_start + later >= 5.0, "{output}");
    // Who plays the kubelets must not fight over the scale.
    assert!(refused <= (at_start + later) * 0.2, "{output}");
    assert_eq!(requests(outcome, "/failed", READ_SCALE), 0.0, "{output}");
}

/// `cargo test -p hpa-bench -- --ignored`.
#[test]
#[ignore = "needs the folder of etcd and kube-apiserver in KUBEBUILDER_ASSETS"]
fn real_api_server_tells_the_same_of_the_controller() {
    let assets = std::env::var("KUBEBUILDER_ASSETS").expect("KUBEBUILDER_ASSETS");
    let (numbers, output) = measure(&["--server", &format!("kube-apiserver={assets}"), "--repeat=2"]);
    let outcome = &numbers[0];
    assert_eq!(outcome["rounds"].as_array().map(Vec::len), Some(2), "{numbers:#}");
    assert_eq!(number(outcome, "/decided/count"), 20.0);
    let (made, due) = (number(outcome, "/reconciles"), number(outcome, "/reconciles_due"));
    assert!(made > due * 0.5 && made < due * 1.1 + 40.0, "{outcome:#}");
    let first = &outcome["rounds"][0];
    let written = requests(first, "/count", WRITE_STATUS) - requests(first, "/failed", WRITE_STATUS);
    assert_eq!(number(first, "/reconciles"), written);
    for read in ["list pods.metrics.k8s.io", "watch horizontalpodautoscalers.autoscaling"] {
        assert!(requests(outcome, "/bytes", read) > 1000.0, "{read}: {outcome:#}");
    }
    assert!(number(outcome, "/server_peak_memory") > 1e8, "etcd and the API server count: {outcome:#}");
    assert!(output.contains("against kube-apiserver, medians of 2 rounds\n"), "{output}");
}

#[test]
fn folder_without_an_api_server_is_told_of() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = format!("kube-apiserver={}", folder.path().display());
    let (success, _, errors) = bench(&["--controller", "ours=/bin/true", "--server", &server]);
    let etcd = folder.path().join("etcd").display().to_string();
    assert!(!success && errors.contains(&format!("there is no {etcd}")), "{errors}");
}

#[test]
fn controller_that_ends_is_told_of_with_its_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let broken = folder.path().join("broken");
    std::fs::write(&broken, "#!/bin/sh\necho no such luck >&2\nexit 3\n").expect("a file");
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&broken, permissions).expect("permissions");
    let controller = format!("reference={}", broken.display());
    let (success, _, errors) = bench(&["--controller", &controller, "--autoscalers=1", "--pods=1"]);
    assert!(!success && errors.contains("exit status: 3") && errors.contains("no such luck"), "{errors}");
}
