//! Runs `hpa demo` without a terminal.

#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests may panic")]

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, ChildStdout, Command, Output, Stdio},
};

use kube::{
    Client, Config,
    api::{Api, DynamicObject, ListParams},
    config::{KubeConfigOptions, Kubeconfig},
    core::{ApiResource, GroupVersionKind},
};
use rustix::process::{Pid, Signal, kill_process};

/// A workload whose load grows fourfold, from two to eight needed replicas.
const SCENARIO: &str = "
name: growth
duration: 20m
workloads:
- name: web
  replicas: 2
  profile: {cpuRequest: 100m, idleCpu: 0, cpuPerUnit: 1m, capacity: 100, targetLoad: 50}
  load: {ramp: {from: 100, to: 400, start: 2m, over: 4m}}
manifests:
- apiVersion: autoscaling/v2
  kind: HorizontalPodAutoscaler
  metadata: {name: web}
  spec:
    scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
    minReplicas: 2
    maxReplicas: 10
    metrics:
    - type: Resource
      resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}
";

fn demo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hpa"));
    command
        .arg("demo")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // The demo must not read the user's kubeconfig.
    command.env("KUBECONFIG", "/nowhere").env("HOME", "/nowhere");
    command
}

fn run(arguments: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = demo(arguments).output().expect("the binary runs");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (status.code().expect("an exit status"), text(stdout), text(stderr))
}

/// Runs a scenario at 100 times normal speed.
fn run_scenario(scenario: &str, arguments: &[&str]) -> (i32, String, String) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("scenario.yaml");
    fs::write(&path, scenario).expect("a file");
    let path = path.display().to_string();
    run(&[&["--speed", "100", "--scenario", &path], arguments].concat())
}

#[test]
fn exit_status_is_0_if_the_load_is_followed() {
    let (code, output, errors) = run_scenario(SCENARIO, &[]);
    assert_eq!((code, errors.as_str()), (0, ""), "{output}");
    assert!(
        output.starts_with("hpa demo: growth, 20:00 simulated in 0:12, 100 times normal speed\n"),
        "{output}"
    );
    assert!(output.contains("\n  http://127.0.0.1:"), "the dashboard's address: {output}");
    let scalings: Vec<&str> = output.lines().filter(|line| line.contains(" -> ")).collect();
    assert!(scalings[0].contains("2 -> 3 ") && scalings[0].contains("cpu is at "), "{output}");
    assert!(scalings.last().is_some_and(|line| line.contains("-> 8 ")), "{output}");
    assert!(
        output.contains(
            "\nHPA  DECISIONS  UP  DOWN  REPLICAS  AVERAGE  NEEDED  SERVED  SHORTAGE\nweb "
        ),
        "{output}"
    );
    assert!(output.contains("The controller followed the load for the autoscaler."), "{output}");
    assert!(!output.contains('\x1b'), "{output}");
    let dir = Path::new(kubeconfig_in(&output)).parent().expect("a directory");
    assert!(!dir.exists(), "the temporary files are still there");
}

#[test]
fn exit_status_is_1_if_the_load_is_not_followed() {
    let (code, output, errors) =
        run_scenario(&SCENARIO.replace("maxReplicas: 10", "maxReplicas: 3"), &[]);
    assert_eq!(code, 1, "{output}{errors}");
    assert!(output.contains("maxReplicas is 3"), "{output}");
    assert!(output.contains("The controller did NOT follow the load:\n  web: "), "{output}");
    assert!(output.contains("of the load was served"), "{output}");
}

/// The printed scalings of an autoscaler: the simulated second, and the line.
fn scalings<'a>(output: &'a str, name: &str) -> Vec<(u32, &'a str)> {
    let lines = output.lines().filter(|line| line.contains(" -> "));
    let scaling = |line: &'a str| {
        let mut words = line.split_whitespace();
        let (minutes, seconds) = words.next()?.split_once(':')?;
        let second = minutes.parse::<u32>().ok()? * 60 + seconds.parse::<u32>().ok()?;
        (words.next()? == name).then_some((second, line))
    };
    lines.filter_map(scaling).collect()
}

#[test]
fn forecast_scales_before_the_rise_unless_only_observed() {
    const RISE: u32 = 15 * 60;
    let scenario = include_str!("../../../examples/forecast/cluster.yaml");
    let (_, output, errors) = run_scenario(scenario, &["--for", "12s"]);
    assert_eq!(errors, "", "{output}");
    let observed = scalings(&output, "observes");
    assert!(observed.iter().all(|(second, _)| *second > RISE), "{output}");
    assert!(
        observed.iter().any(|(_, line)| line.contains("; forecast: observed only; ")),
        "{output}"
    );
    for name in ["scales", "holiday"] {
        let is_early =
            |(second, line): &(u32, &str)| *second < RISE && line.contains("; forecast: ");
        assert!(scalings(&output, name).iter().any(is_early), "{name}: {output}");
    }
    let at_the_end = |name| {
        let (_, line) = *scalings(&output, name).last()?;
        line.split_once(" -> ")?.1.split_whitespace().next()?.parse::<u32>().ok()
    };
    let (scaled, holiday) = (at_the_end("scales"), at_the_end("holiday"));
    assert!(
        scaled > holiday && holiday.is_some(),
        "{scaled:?} and {holiday:?} without a rise: {output}"
    );
}

#[test]
fn faults_of_a_scenario_affect_the_controller() {
    let fault =
        "faults: [{match: {clients: [hpa-rs], subresources: [scale]}, effect: serviceUnavailable}]";
    let (code, output, errors) =
        run_scenario(&format!("{SCENARIO}{fault}\n"), &["--for", "8s", "--log-level", "error"]);
    assert_eq!(code, 1, "{output}{errors}");
    assert!(output.contains("the server is currently unable to handle the request"), "{output}");
}

#[test]
fn printed_scenario_can_be_run() {
    let (code, scenario, errors) = run(&["--print-scenario"]);
    assert_eq!((code, errors.as_str()), (0, ""));
    let (code, output, errors) = run_scenario(&scenario, &["--for", "2s", "--keep"]);
    let dir = Path::new(kubeconfig_in(&output)).parent().expect("a directory");
    assert_eq!(
        (code, errors),
        (0, format!("hpa: temporary files are kept in {}\n", dir.display())),
        "{output}"
    );
    fs::remove_dir_all(dir).expect("the directory exists");
    assert!(output.starts_with("hpa demo: shop, 3:20 simulated in 0:02"), "{output}");
    for name in ["web", "worker", "api"] {
        assert!(output.contains(&format!("\n{name} ")), "{output}");
    }
}

#[test]
fn invalid_scenario_is_rejected_with_its_error() {
    for (scenario, expected) in [
        (
            "workloads: [{name: web, profile: {cpu: 1}}]",
            "line 1, column 35: workloads[0].profile.cpu: unknown field",
        ),
        ("duration: soon", "\"soon\" is not a duration"),
        ("workloads: [{name: web}, {name: web}]", "workloads[1].name: is a duplicate"),
        ("faults: [{effect: {}}]", "faults[0]: fault"),
        (&SCENARIO.replace("maxReplicas: 10", "maxReplicas: 1"), "spec.maxReplicas"),
    ] {
        let (code, output, errors) = run_scenario(scenario, &[]);
        assert_eq!((code, output.as_str()), (2, ""), "{errors}");
        assert!(errors.starts_with("hpa: ") && errors.contains(expected), "{errors}");
    }
    let (code, _, errors) = run(&["--scenario", "/nowhere/a.yaml"]);
    assert_eq!(code, 2);
    assert!(errors.contains("/nowhere/a.yaml"), "{errors}");
}

#[test]
fn proxy_in_the_environment_is_ignored() {
    let mut command = demo(&["--for", "1s", "--log-level", "error"]);
    let output =
        command.env("HTTPS_PROXY", "http://proxy.example:3128").output().expect("the binary runs");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
}

/// The value of a variable that the introduction exports.
fn exported_value<'a>(output: &'a str, variable: &str) -> &'a str {
    let start = format!("export {variable}=");
    let line = output.lines().find_map(|line| line.split_once(start.as_str()));
    line.unwrap_or_else(|| panic!("no {variable} in {output}")).1
}

fn kubeconfig_in(output: &str) -> &str {
    exported_value(output, "KUBECONFIG")
}

/// Reads up to the first line that contains `expected`. Returns all lines.
fn read_until(stdout: &mut BufReader<ChildStdout>, expected: &str) -> String {
    let mut read = String::new();
    while stdout.read_line(&mut read).expect("UTF-8") > 0 {
        if read.lines().last().is_some_and(|line| line.contains(expected)) {
            return read;
        }
    }
    panic!("the demo ended before {expected:?}: {read}");
}

/// Starts a demo. Returns it and its standard output.
fn start(arguments: &[&str]) -> (Child, BufReader<ChildStdout>) {
    let mut child = demo(arguments).spawn().expect("the binary runs");
    let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    (child, stdout)
}

/// Runs another command against the demo with this introduction.
fn run_beside_demo(introduction: &str, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hpa"))
        .args(arguments)
        .env("KUBECONFIG", kubeconfig_in(introduction))
        .env("HPA_CONTROLLER_URL", exported_value(introduction, "HPA_CONTROLLER_URL"))
        .output()
        .expect("the binary runs")
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("the demo is running");
}

#[tokio::test]
async fn kubeconfig_works_until_a_signal_ends_the_demo() {
    let (mut child, mut stdout) = start(&["--speed", "60"]);
    let mut output = read_until(&mut stdout, " -> ");
    let kubeconfig = Kubeconfig::read_from(kubeconfig_in(&output)).expect("a kubeconfig");
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .expect("a config");
    let client = Client::try_from(config).expect("a client");
    let kind = GroupVersionKind::gvk("autoscaling", "v2", "HorizontalPodAutoscaler");
    let autoscalers: Api<DynamicObject> =
        Api::default_namespaced_with(client, &ApiResource::from_gvk(&kind));
    let listed = autoscalers.list(&ListParams::default()).await.expect("a list");
    let scaled = |hpa: &DynamicObject| hpa.data["status"]["lastScaleTime"].is_string();
    assert_eq!((listed.items.len(), listed.items.iter().any(scaled)), (3, true), "{listed:?}");
    signal(&child, Signal::INT);
    stdout.read_to_string(&mut output).expect("UTF-8");
    assert_eq!(child.wait().expect("an exit status").code(), Some(130), "{output}");
    assert!(output.contains("HPA     DECISIONS"), "{output}");
    assert!(!Path::new(kubeconfig_in(&output)).exists());
}

#[test]
fn metrics_can_be_scraped() {
    let (mut child, mut stdout) = start(&["--metrics-address", "127.0.0.1:0"]);
    let output = read_until(&mut stdout, "/metrics");
    let url = output.lines().last().expect("a line").trim().trim_start_matches("http://");
    let (address, _) = url.split_once('/').expect("a path");
    let mut connection = TcpStream::connect(address).expect("a connection");
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).expect("a request");
    let mut page = String::new();
    connection.read_to_string(&mut page).expect("UTF-8");
    assert!(page.starts_with("HTTP/1.1 200 "), "{page}");
    let series = "kube_deployment_spec_replicas{namespace=\"default\",deployment=\"web\"} ";
    assert!(page.contains(series), "{page}");
    signal(&child, Signal::TERM);
    child.wait().expect("an exit status");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let (code, _, errors) = run(&["--metrics-address", &address]);
    assert_eq!(code, 2, "{errors}");
    assert!(errors.contains(&format!("--metrics-address: unable to listen on {address}")));
}

#[test]
fn held_demo_ends_on_a_signal() {
    let (mut child, mut stdout) = start(&["--for", "1s", "--hold"]);
    let mut output = read_until(&mut stdout, "On hold");
    assert!(output.contains("The controller followed the load"), "{output}");
    assert!(child.try_wait().expect("a child").is_none());
    signal(&child, Signal::TERM);
    stdout.read_to_string(&mut output).expect("UTF-8");
    assert_eq!(child.wait().expect("an exit status").code(), Some(0), "{output}");
}

#[test]
fn closed_pipe_ends_the_demo() {
    let (child, mut stdout) = start(&["--log-level", "error"]);
    read_until(&mut stdout, "hpa demo");
    drop(stdout);
    let output = child.wait_with_output().expect("an exit status");
    assert_eq!(
        (output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()),
        (Some(0), "")
    );
}

#[test]
fn explain_reads_the_past_by_the_clock_of_the_demo() {
    let (mut child, mut stdout) = start(&[]);
    let output = read_until(&mut stdout, "api     stays at");
    let result = run_beside_demo(&output, &["explain", "api", "--since", "5m"]);
    let explained = String::from_utf8(result.stdout).expect("UTF-8");
    let (_, past) = explained.split_once("Earlier decisions").expect("the past");
    assert!(past.contains("stays at 2"), "{explained}");
    signal(&child, Signal::TERM);
    child.wait().expect("an exit status");
}

#[test]
fn explain_and_status_read_the_debug_api_of_the_demo() {
    let (mut child, mut stdout) = start(&["--for", "2s", "--hold"]);
    let output = read_until(&mut stdout, "On hold");
    let hpa = |arguments: &[&str]| {
        let result = run_beside_demo(&output, arguments);
        assert!(!String::from_utf8_lossy(&result.stderr).contains("WARN"));
        String::from_utf8(result.stdout).expect("UTF-8")
    };
    let explained = hpa(&["explain", "api", "--since", "1h"]);
    assert!(explained.contains("Earlier decisions"), "{explained}");
    assert!(!explained.contains("are missing") && !explained.contains("not known"), "{explained}");
    // The demo restarts the controller for the hold, so its caches may not be synced yet.
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let mut status = hpa(&["status"]);
    while !status.contains("the instance reconciles") && std::time::Instant::now() < end {
        status = hpa(&["status"]);
    }
    assert!(status.contains("the instance reconciles"), "{status}");
    assert!(!status.contains("overwrite") && !status.contains("404"), "{status}");
    signal(&child, Signal::TERM);
    child.wait().expect("an exit status");
}
