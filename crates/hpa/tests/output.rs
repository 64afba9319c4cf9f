//! Tests of the output of commands. A command ends quietly if the reader closes the pipe, as `head`
//! does. No text from a cluster or a file looks like a separate line.

#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test may fail")]

use std::{
    io::Write,
    process::{Command, Output, Stdio},
};

use hpa_testbed::{Config, Testbed};
use hpa_tests::harness::{ServedTestbed, SettableMetrics, TestbedExt, objects};
use serde_json::{Value, json};

/// Command lines that need no cluster.
const LOCAL_COMMANDS: [&[&str]; 12] = [
    &["crd"],
    &["version"],
    &["man"],
    &["man", "run"],
    &["completions", "bash"],
    &["schedule", "crd"],
    &["rules", "generate"],
    &["rules", "schema"],
    &["simulate", "--schema"],
    &["convert", "-f", "-", "--to", "custom"],
    &["lint", "-"],
    &["demo", "--print-scenario"],
];

/// Command lines that read a cluster.
const CLUSTER_COMMANDS: [&[&str]; 6] = [
    &["status"],
    &["explain", "shop/web"],
    &["explain", "-A"],
    &["lint", "-A"],
    &["shadow-report", "--for=100ms"],
    &["dashboard", "--no-open"],
];

/// Runs a command whose standard output has no reader. With `closes_stderr`, standard error has no
/// reader either.
fn run_without_reader(mut command: Command, closes_stderr: bool) -> (Option<i32>, String) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let error = if closes_stderr {
        Stdio::from(writer.try_clone().expect("a pipe"))
    } else {
        Stdio::piped()
    };
    command.stdout(writer).stderr(error).stdin(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let hpa = objects::hpa("web", 2..=10, [objects::cpu_metric(60)]).to_string();
    // Ignore the error if the program doesn't read its input.
    let _ = child.stdin.take().expect("a pipe").write_all(hpa.as_bytes());
    let output = child.wait_with_output().expect("the program ends");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn check_closed_pipe(arguments: &[&str], command: impl Fn() -> Command) {
    for closes_stderr in [false, true] {
        let (status, error) = run_without_reader(command(), closes_stderr);
        assert!(
            !error.contains("panicked") && !error.to_lowercase().contains("broken pipe"),
            "{arguments:?}: {error}"
        );
        assert_ne!(status, Some(101), "{arguments:?} panicked");
        assert!(status.is_some(), "{arguments:?} was killed");
    }
}

#[test]
fn commands_without_a_cluster_end_quietly_on_a_closed_pipe() {
    for arguments in LOCAL_COMMANDS {
        check_closed_pipe(arguments, || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_hpa"));
            command.args(arguments);
            command
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_of_a_cluster_end_quietly_on_a_closed_pipe() {
    let metrics = std::sync::Arc::new(SettableMetrics::new(60, 1));
    let testbed = Testbed::new(Config { metrics: Some(metrics), ..Config::default() });
    testbed.apply_all([objects::namespace(), objects::running_deployment("web", 2)]);
    testbed.apply_all([objects::hpa("web", 2..=10, [objects::cpu_metric(60)])]);
    let served = ServedTestbed::new(&testbed).await;
    tokio::task::spawn_blocking(move || {
        for arguments in CLUSTER_COMMANDS {
            check_closed_pipe(arguments, || {
                served.command(env!("CARGO_BIN_EXE_hpa"), arguments).into_std()
            });
        }
    })
    .await
    .expect("no panic");
}

/// A text that a user may choose. No printed line may begin with `FORGED`.
const FORGED: &str = "x\nFORGED\r\u{1b}[2JFORGED\u{2028}FORGED";

/// An autoscaler with [`FORGED`] in its metric, annotations, labels and status.
fn forging_autoscaler() -> Value {
    let mut hpa = objects::hpa(
        "forger",
        2..=10,
        [objects::pods_metric(FORGED, "1"), objects::external_metric(FORGED, "1")],
    );
    hpa["spec"]["metrics"][1]["external"]["metric"]["selector"] =
        json!({ "matchLabels": { "app": "web" } });
    hpa["metadata"]["labels"] = json!({ "team": FORGED });
    hpa["metadata"]["annotations"] = json!({
        "autoscaling.hpa-rs.dev/pause": FORGED,
        "metric-config.external.x.json-path/json-key": FORGED,
        format!("metric-config.pods.{FORGED}.json-path/json-key"): FORGED,
        format!("metric-config.pods.x.json-path/{FORGED}"): FORGED,
        format!("hpa-rs.dev/{FORGED}"): FORGED,
    });
    let condition = |kind: &str, status: &str| {
        json!({ "type": kind, "status": status, "reason": FORGED, "message": FORGED,
            "lastTransitionTime": "2026-01-01T00:00:00Z" })
    };
    hpa["status"] = json!({
        "currentReplicas": 2, "desiredReplicas": 2, "currentMetrics": [],
        "conditions": [
            condition("AbleToScale", "True"),
            condition("ScalingActive", "False"),
            condition(FORGED, "True"),
        ],
    });
    hpa["metadata"]["managedFields"] = json!([{
        "manager": FORGED, "operation": "Update", "subresource": "status",
        "apiVersion": "autoscaling/v2", "fieldsType": "FieldsV1", "fieldsV1": {},
        "time": "2026-01-01T00:00:00Z",
    }]);
    hpa
}

/// Checks that a command printed [`FORGED`], but no line begins with it.
fn check_forged_lines(arguments: &[&str], output: &Output) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
    let printed = text(&output.stdout) + &text(&output.stderr);
    assert!(printed.contains("FORGED"), "{arguments:?} doesn't print it:\n{printed}");
    let is_end = |char: char| char.is_control() || matches!(char, '\u{2028}' | '\u{2029}');
    for part in printed.split(is_end) {
        assert!(!part.trim_start().starts_with("FORGED"), "{arguments:?}:\n{printed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn text_of_a_cluster_starts_no_line() {
    let metrics = std::sync::Arc::new(SettableMetrics::new(60, 1));
    let testbed = Testbed::new(Config { metrics: Some(metrics), ..Config::default() });
    testbed.apply_all([objects::namespace(), objects::running_deployment("forger", 2)]);
    testbed.apply_all([forging_autoscaler()]);
    let served = ServedTestbed::new(&testbed).await;
    for arguments in
        [["explain", "shop/forger"].as_slice(), &["explain", "-A"], &["lint", "-A"], &["status"]]
    {
        let output = served.command(env!("CARGO_BIN_EXE_hpa"), arguments).output().await;
        check_forged_lines(arguments, &output.expect("the program runs"));
    }
}

#[test]
fn text_of_a_file_starts_no_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, content: &Value| {
        std::fs::write(folder.path().join(name), content.to_string()).expect("a file");
    };
    let mut hpa = forging_autoscaler();
    hpa["metadata"]["namespace"] = FORGED.into();
    write(
        "hpa.json",
        &json!({ "kind": "List", "items": [hpa, objects::running_deployment("forger", 2)] }),
    );
    let mut modelled = objects::hpa("web", 1..=3, [objects::external_metric(FORGED, "1")]);
    modelled["metadata"] = json!({ "name": FORGED, "namespace": FORGED });
    let scenario = json!({
        "name": FORGED, "description": FORGED, "duration": "2m", "autoscaler": modelled,
        "workload": { "load": { "constant": 1 } },
        "externalMetrics": [{ "metric": FORGED, "value": { "curve": { "constant": 9 } } }],
        "variants": [{ "name": FORGED, "description": FORGED, "patch": { "seed": 2 } }],
    });
    write("scenario.json", &scenario);
    for arguments in [
        ["explain", "-f", "hpa.json"].as_slice(),
        &["lint", "hpa.json"],
        &["simulate", "scenario.json", "--steps"],
        &["recommend", "scenario.json", "--candidates=10", "--seeds=1"],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hpa"));
        let output = command.current_dir(folder.path()).args(arguments).output();
        check_forged_lines(arguments, &output.expect("the program runs"));
    }
}

#[test]
fn every_printing_command_is_tested() {
    let output = Command::new(env!("CARGO_BIN_EXE_hpa")).arg("--help").output().expect("help");
    let help = String::from_utf8(output.stdout).expect("UTF-8");
    let commands = help.split("Commands:").nth(1).expect("commands");
    let commands = commands.split("\n\n").next().unwrap_or_default();
    let names = commands.lines().filter_map(|line| {
        let name = line.strip_prefix("  ")?.split(' ').next()?;
        (!name.is_empty()).then_some(name)
    });
    // `run` and `adapter` write only a log. `recommend`, `replay` and `forecast` take long, or need
    // a Prometheus or a recorded load.
    let untested = ["run", "adapter", "recommend", "replay", "forecast", "help"];
    for name in names.filter(|name| !untested.contains(name)) {
        let mut tested = LOCAL_COMMANDS.iter().chain(&CLUSTER_COMMANDS);
        assert!(tested.any(|arguments| arguments[0] == name), "{name} is not tested");
    }
}
