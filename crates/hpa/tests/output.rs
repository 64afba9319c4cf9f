//! Every command ends quietly if the reader of its output, such as `head`, closes the pipe.

#![allow(clippy::expect_used, clippy::panic, reason = "a test may fail")]

use std::{
    io::Write,
    process::{Command, Stdio},
};

use hpa_testbed::{Config, Testbed};
use hpa_tests::harness::{NAMESPACE, ServedTestbed, SettableMetrics, TestbedExt, objects};

/// A command line of each command that prints and ends, without a cluster.
const LOCAL: [&[&str]; 12] = [
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

/// Those that read a cluster.
const OF_A_CLUSTER: [&[&str]; 6] = [
    &["status"],
    &["explain", "shop/web"],
    &["explain", "-A"],
    &["lint", "-A"],
    &["shadow-report", "--for=100ms"],
    &["dashboard", "--no-open"],
];

/// Runs a command whose standard output, and standard error if asked for, has no reader.
fn run(mut command: Command, both: bool) -> (Option<i32>, String) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let error =
        if both { Stdio::from(writer.try_clone().expect("a pipe")) } else { Stdio::piped() };
    command.stdout(writer).stderr(error).stdin(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let hpa = objects::hpa("web", 2..=10, [objects::cpu_metric(60)]).to_string();
    // The program may not read it.
    let _ = child.stdin.take().expect("a pipe").write_all(hpa.as_bytes());
    let output = child.wait_with_output().expect("the program ends");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn check(arguments: &[&str], command: impl Fn() -> Command) {
    for both in [false, true] {
        let (status, error) = run(command(), both);
        assert!(
            !error.contains("panicked") && !error.contains("roken pipe"),
            "{arguments:?}: {error}"
        );
        assert_ne!(status, Some(101), "{arguments:?} panicked");
        assert!(status.is_some(), "{arguments:?} was killed");
    }
}

#[test]
fn commands_without_a_cluster_end_quietly_on_a_closed_pipe() {
    for arguments in LOCAL {
        check(arguments, || {
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
    assert_eq!(NAMESPACE, "shop");
    let served = ServedTestbed::new(&testbed).await;
    tokio::task::spawn_blocking(move || {
        for arguments in OF_A_CLUSTER {
            check(arguments, || served.command(env!("CARGO_BIN_EXE_hpa"), arguments).into_std());
        }
    })
    .await
    .expect("no panic");
}

#[test]
fn every_command_is_tried() {
    let output = Command::new(env!("CARGO_BIN_EXE_hpa")).arg("--help").output().expect("help");
    let help = String::from_utf8(output.stdout).expect("UTF-8");
    let commands = help.split("Commands:").nth(1).expect("commands");
    let commands = commands.split("\n\n").next().unwrap_or_default();
    let names = commands.lines().filter_map(|line| {
        let name = line.strip_prefix("  ")?.split(' ').next()?;
        (!name.is_empty()).then_some(name)
    });
    // `run` and `adapter` print nothing. `recommend` and `replay` print as `simulate` does, after
    // minutes or from a Prometheus.
    let untried = ["run", "adapter", "recommend", "replay", "help"];
    for name in names.filter(|name| !untried.contains(name)) {
        let is_tried =
            |all: &[&[&str]]| all.iter().any(|arguments| arguments.first() == Some(&name));
        assert!(is_tried(&LOCAL) || is_tried(&OF_A_CLUSTER), "{name} is not tried");
    }
}
