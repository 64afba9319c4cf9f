//! Runs `hpa-bench` and reads its numbers.

use std::process::{Command, Output};

use hpa_tests::harness::hpa_binary;
use serde_json::Value;

/// Runs `hpa-bench run`. Returns whether it succeeded, its output and its errors.
pub(crate) fn bench(arguments: &[&str]) -> (bool, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hpa-bench"));
    let Output { status, stdout, stderr } =
        command.arg("run").args(arguments).output().expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (status.success(), text(stdout), text(stderr))
}

/// Measures the controller for two seconds, with 20 autoscalers of 3 pods and a sync period of
/// 200 ms. Returns the numbers and the table.
pub(crate) fn measure(flags: &[&str]) -> (Value, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("numbers.json").display().to_string();
    let controller = format!("ours={}", hpa_binary().display());
    let small = [
        "--autoscalers=20",
        "--pods=3",
        "--namespaces=2",
        "--period=200ms",
        "--for=2s",
        "--extra=2",
    ];
    let arguments = [&["--controller", &controller, "--json", &json][..], &small, flags].concat();
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

/// Returns the number of reconciles. Checks that it isn't zero, and not above the number of due
/// ones by more than a tenth and one period of the 20 autoscalers at each end. It may be below,
/// because a busy machine skips some.
pub(crate) fn check_reconciles(outcome: &Value) -> f64 {
    let (made, due) = (number(outcome, "/reconciles"), number(outcome, "/reconciles_due"));
    assert!(made > 0.0 && made < due * 1.1 + 40.0, "{outcome:#}");
    made
}

/// Returns a number about a kind of request, or zero if there were no such requests.
pub(crate) fn requests(outcome: &Value, pointer: &str, kind: &str) -> f64 {
    outcome["requests"].get(kind).map_or(0.0, |one| number(one, pointer))
}

/// Returns the number of status writes that succeeded.
pub(crate) fn status_writes(outcome: &Value) -> f64 {
    requests(outcome, "/count", WRITE_STATUS) - requests(outcome, "/failed", WRITE_STATUS)
}

pub(crate) const READ_SCALE: &str = "get deployments.apps/scale";
pub(crate) const WRITE_SCALE: &str = "update deployments.apps/scale";
pub(crate) const WRITE_STATUS: &str = "patch horizontalpodautoscalers.autoscaling/status";
