//! Builds the controller, runs `hpa-bench` and reads its numbers.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::LazyLock,
};

use serde_json::Value;

/// The controller: `HPA_BINARY` if set, otherwise built by cargo in the profile of this test. It is
/// built once, because every call of cargo takes a second and waits for other calls.
pub(crate) static HPA: LazyLock<PathBuf> = LazyLock::new(|| match std::env::var_os("HPA_BINARY") {
    Some(path) if !path.is_empty() => path.into(),
    _ => build_hpa(),
});

fn build_hpa() -> PathBuf {
    let bench = Path::new(env!("CARGO_BIN_EXE_hpa-bench"));
    let dir = bench.parent().expect("a directory");
    let profile = match dir.file_name().and_then(|name| name.to_str()) {
        None | Some("debug") => "dev",
        Some(profile) => profile,
    };
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--package", "hpa", "--bin", "hpa", "--profile", profile])
        .args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml")])
        .status()
        .expect("cargo runs");
    assert!(status.success(), "cargo build -p hpa: {status}");
    dir.join(format!("hpa{}", std::env::consts::EXE_SUFFIX))
}

pub(crate) fn bench(arguments: &[&str]) -> (bool, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hpa-bench"));
    let Output { status, stdout, stderr } =
        command.arg("run").args(arguments).output().expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (status.success(), text(stdout), text(stderr))
}

/// Measures the controller for two seconds, with 20 autoscalers of 3 pods that are reconciled five
/// times a second.
pub(crate) fn measure(more: &[&str]) -> (Value, String) {
    let dir = tempfile::tempdir().expect("a directory");
    let json = dir.path().join("numbers.json").display().to_string();
    let controller = format!("ours={}", HPA.display());
    let small = [
        "--autoscalers=20",
        "--pods=3",
        "--namespaces=2",
        "--period=200ms",
        "--for=2s",
        "--extra=2",
    ];
    let arguments = [&["--controller", &controller, "--json", &json][..], &small, more].concat();
    let (success, output, errors) = bench(&arguments);
    assert!(success, "{output}{errors}");
    let numbers = std::fs::read_to_string(json).expect("numbers");
    (serde_json::from_str(&numbers).expect("JSON"), output)
}

pub(crate) fn number(outcome: &Value, pointer: &str) -> f64 {
    outcome
        .pointer(pointer)
        .and_then(Value::as_f64)
        .unwrap_or_else(|| panic!("no {pointer} in {outcome:#}"))
}

/// Returns a field of the statistics for a kind of request, or zero if there were no such requests.
pub(crate) fn requests(outcome: &Value, field: &str, kind: &str) -> f64 {
    outcome["requests"].get(kind).map_or(0.0, |one| number(one, field))
}

pub(crate) const READ_SCALE: &str = "get deployments.apps/scale";
pub(crate) const WRITE_SCALE: &str = "update deployments.apps/scale";
pub(crate) const WRITE_STATUS: &str = "patch horizontalpodautoscalers.autoscaling/status";
