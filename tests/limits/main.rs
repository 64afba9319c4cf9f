//! The memory of the binary stays bounded for any stored objects, and its probes stay quick.
//!
//! Each test runs the real binary against the testbed, with input from tenants, and checks the peak
//! of its resident memory, to which memory limits apply. Tests take a minute or two, and run only
//! with `HPA_LONG_TESTS=1`.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a failed step fails the test, and the peaks are printed"
)]
#![cfg(target_os = "linux")]

mod adapter;
mod autoscalers;
mod header_bomb;
mod hostile;
mod schedules;

use std::{
    collections::{BTreeMap, HashSet},
    convert::Infallible,
    fs,
    net::{Ipv4Addr, SocketAddr},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use axum::{
    Json, Router,
    body::{Body, Bytes},
    routing::post,
};
use hpa_testbed::{
    ApiError, ChangeListener, Config, ExternalMetric, ExternalMetricQuery, MetricsProvider,
    ObjectChange, Testbed,
};
use hpa_tests::harness::{TestbedExt, are_long_tests_enabled, hpa_binary, objects};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{sync::watch, time::timeout};

/// Half of the limits in the charts of the controller and of the adapter.
const MAX_PEAK_MIB: u64 = 256;
const MAX_ADAPTER_PEAK_MIB: u64 = 128;

/// Deadline of a test, far beyond the expected durations.
const DEADLINE: Duration = Duration::from_mins(4);

/// The reason that stands for an active schedule in [`ReasonCounter`].
const ACTIVE: &str = "Active";

/// Counts the autoscalers whose conditions or events have one of the reasons, or the schedules that
/// are [`ACTIVE`].
struct ReasonCounter {
    reasons: &'static [&'static str],
    names: Mutex<HashSet<String>>,
    count: watch::Sender<usize>,
}

impl ReasonCounter {
    fn new(reasons: &'static [&'static str]) -> Arc<Self> {
        Arc::new(Self { reasons, names: Mutex::default(), count: watch::Sender::new(0) })
    }

    async fn wait_for(&self, count: usize) {
        let reached = async { self.count.subscribe().wait_for(|it| *it >= count).await.map(drop) };
        let reached = timeout(DEADLINE, reached).await;
        let actual = *self.count.borrow();
        reached
            .unwrap_or_else(|_| panic!("{actual} of {count} have {:?}", self.reasons))
            .expect("alive");
    }
}

impl ChangeListener for ReasonCounter {
    fn on_change(&self, change: &ObjectChange<'_>) {
        let Some(new) = change.new else { return };
        let has_reason = |object: &Value| self.reasons.iter().any(|it| object["reason"] == *it);
        let (name, is_match) = match change.resource.plural {
            "horizontalpodautoscalers" => {
                let conditions = new["status"]["conditions"].as_array().into_iter().flatten();
                (&new["metadata"]["name"], conditions.into_iter().any(has_reason))
            }
            "events" => (&new["involvedObject"]["name"], has_reason(new)),
            "scalingschedules" => {
                let is_active = new["status"]["active"] == true;
                (&new["metadata"]["name"], is_active && self.reasons.contains(&ACTIVE))
            }
            _ => return,
        };
        if is_match {
            let mut names = self.names.lock();
            names.insert(name.as_str().unwrap_or_default().to_owned());
            self.count.send_replace(names.len());
        }
    }
}

/// A metrics API that responds with 40 MiB for each external metric.
struct LargeResponses;

impl MetricsProvider for LargeResponses {
    fn external(&self, query: &ExternalMetricQuery) -> Result<Vec<ExternalMetric>, ApiError> {
        let labels = BTreeMap::from([("large".to_owned(), "x".repeat(1 << 20))]);
        let series = ExternalMetric {
            metric_name: query.metric.clone(),
            metric_labels: labels,
            value: "1".to_owned(),
            ..ExternalMetric::default()
        };
        Ok(vec![series; 40])
    }
}

/// Rules for metrics from Prometheus, and its URL.
struct Rules {
    file: &'static str,
    url: String,
}

/// Serves a Prometheus whose results have about `len` bytes, and returns its URL.
async fn serve_prometheus(len: usize) -> String {
    let series = async || {
        let names = (0..10).map(|at| json!({ "__name__": format!("m{at}") }));
        Json(json!({ "status": "success", "data": names.collect::<Vec<_>>() }))
    };
    let query = async move || {
        let sample = r#"{"metric":{"queue":"mail","instance":"192.0.2.1:9090"},"value":[1,"1"]},"#;
        let chunk = Bytes::from(sample.repeat(1000));
        let chunks = std::iter::repeat_n(chunk.clone(), len / chunk.len());
        let head = r#"{"status":"success","data":{"resultType":"vector","result":["#;
        let tail = sample.trim_end_matches(',').to_owned() + "]}}";
        let all = std::iter::once(head.into()).chain(chunks).chain([tail.into()]);
        Body::from_stream(futures::stream::iter(all.map(Ok::<Bytes, Infallible>)))
    };
    let router =
        Router::new().route("/api/v1/series", post(series)).route("/api/v1/query", post(query));
    format!("http://{}", hpa_tests::harness::serve(router).await)
}

/// The measured program.
enum Program {
    Controller,
    ControllerWithRules(Rules),
    ControllerWithCollectors,
    ControllerWithSchedules,
    AdapterWithCollectors,
    AdapterWithSchedules,
}

impl Program {
    fn is_adapter(&self) -> bool {
        matches!(self, Self::AdapterWithCollectors | Self::AdapterWithSchedules)
    }

    fn max_peak_mib(&self) -> u64 {
        if self.is_adapter() { MAX_ADAPTER_PEAK_MIB } else { MAX_PEAK_MIB }
    }
}

/// Kills the process when it is dropped.
struct RunningProgram {
    process: Child,
    _dir: TempDir,
}

impl RunningProgram {
    fn start(address: SocketAddr, program: &Program) -> Self {
        let dir = TempDir::new().expect("a directory");
        let kubeconfig = dir.path().join("kubeconfig");
        fs::write(&kubeconfig, Testbed::kubeconfig(address)).expect("a file");
        let mut command = Command::new(hpa_binary());
        command.env_clear().current_dir(dir.path());
        if program.is_adapter() {
            command.args([
                "adapter",
                "--collectors",
                "--secure-port=0",
                "--bind-address=127.0.0.1",
                "--cert-dir=certificates",
                "--authentication-skip-lookup",
                "--leader-elect-resource-namespace=shop",
                "--lister-kubeconfig=kubeconfig",
            ]);
        } else {
            command.args([
                "run",
                "--metrics-port=0",
                "--leader-elect=false",
                "--request-timeout=2m",
                "--kubeconfig=kubeconfig",
            ]);
        }
        command.arg("--log-level=error");
        match program {
            Program::ControllerWithRules(Rules { file, url }) => {
                fs::write(dir.path().join("rules.yaml"), file).expect("a file");
                command.args(["--metrics-config=rules.yaml", "--prometheus-url", url]);
                command.arg("--prometheus-query-timeout=2m");
            }
            Program::ControllerWithCollectors => _ = command.arg("--collectors"),
            Program::ControllerWithSchedules => {
                command.args(["--collectors", "--scaling-schedule"]);
            }
            Program::AdapterWithSchedules => _ = command.arg("--scaling-schedule"),
            Program::Controller | Program::AdapterWithCollectors => {}
        }
        let process = command.stdin(Stdio::null()).spawn().expect("the binary runs");
        Self { process, _dir: dir }
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

/// The peak of the resident memory of a process.
fn peak_mib(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("the process runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a size");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") / 1024
}

/// Runs the controller on a testbed until `count` autoscalers have a condition or an event with one
/// of the reasons, and checks the peak of its memory.
async fn assert_bounded(
    set_up: impl FnOnce(&Testbed),
    reasons: &'static [&'static str],
    count: usize,
) {
    assert_program_is_bounded(&Program::Controller, set_up, reasons, count).await;
}

/// Like [`assert_bounded`], with another program.
async fn assert_program_is_bounded(
    program: &Program,
    set_up: impl FnOnce(&Testbed),
    reasons: &'static [&'static str],
    count: usize,
) {
    let peak = peak_of_program(program, set_up, reasons, count).await;
    assert!(peak.is_none_or(|peak| peak < program.max_peak_mib()), "{peak:?} MiB");
}

/// Runs a program on a testbed until `count` autoscalers have one of the reasons. Returns the peak
/// of its memory, or `None` if long tests are skipped.
async fn peak_of_program(
    program: &Program,
    set_up: impl FnOnce(&Testbed),
    reasons: &'static [&'static str],
    count: usize,
) -> Option<u64> {
    let name = reasons.join(" or ");
    if !are_long_tests_enabled() {
        println!("{name}: skipped, HPA_LONG_TESTS=1 runs it");
        return None;
    }
    let counter = ReasonCounter::new(reasons);
    let testbed = Testbed::new(Config {
        listener: Some(counter.clone()),
        metrics: Some(Arc::new(LargeResponses)),
        ..Config::default()
    });
    testbed.apply_all([objects::namespace(), objects::running_deployment("web", 2)]);
    set_up(&testbed);
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let (address, _server) = testbed.serve(any_port).await.expect("a port");
    let running = RunningProgram::start(address, program);
    counter.wait_for(count).await;
    let peak = peak_mib(running.process.id());
    println!("{name}: peak of {peak} MiB");
    Some(peak)
}

fn apply(testbed: &Testbed, object: Value) {
    testbed.apply(object).expect("a valid object");
}

/// An autoscaler of the Deployment `web`.
fn hpa_of_web(name: &str, metrics: Vec<Value>) -> Value {
    let mut hpa = objects::hpa("web", 1..=4, metrics);
    hpa["metadata"]["name"] = name.into();
    hpa
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_is_bounded_for_pods_of_a_megabyte() {
    let set_up = |testbed: &Testbed| {
        for at in 0..250 {
            let mut pod = objects::pod("web", at);
            pod["metadata"]["annotations"] = json!({ "large": "x".repeat(1_200_000) });
            apply(testbed, pod);
        }
        apply(testbed, hpa_of_web("web", vec![objects::cpu_metric(50)]));
    };
    // The testbed has no usage of the pods.
    assert_bounded(set_up, &["FailedGetResourceMetric"], 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_is_bounded_for_pods_with_thousands_of_labels() {
    let set_up = |testbed: &Testbed| {
        for at in 0..100 {
            let mut pod = objects::pod("web", at);
            for label in 0..40_000 {
                pod["metadata"]["labels"][format!("l{at}-{label}")] = "".into();
            }
            apply(testbed, pod);
        }
        apply(testbed, hpa_of_web("web", vec![objects::cpu_metric(50)]));
    };
    // No selector matches the pods.
    assert_bounded(set_up, &["FailedGetResourceMetric"], 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_is_bounded_for_a_thousand_autoscalers_with_one_selector() {
    let set_up = |testbed: &Testbed| {
        apply(testbed, objects::pod("web", 0));
        for at in 0..1000 {
            let name = format!("{at:04}-{}", "x".repeat(248));
            apply(testbed, hpa_of_web(&name, vec![objects::cpu_metric(50)]));
        }
    };
    assert_bounded(set_up, &["AmbiguousSelector"], 1000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_is_bounded_for_autoscalers_with_thousands_of_metrics() {
    let set_up = |testbed: &Testbed| {
        for at in 0..20 {
            let metrics = (0..15_000).map(|at| objects::external_metric(&format!("m{at}"), "1"));
            apply(testbed, hpa_of_web(&format!("web-{at}"), metrics.collect()));
        }
    };
    assert_bounded(set_up, &["SpecTooLarge"], 20).await;
}

/// The number of autoscalers with their own external metric and target.
const EXTERNAL_AUTOSCALER_COUNT: usize = 10;

fn set_up_external(testbed: &Testbed) {
    for at in 0..EXTERNAL_AUTOSCALER_COUNT {
        let mut deployment = objects::running_deployment("web", 1);
        deployment["metadata"]["name"] = format!("web-{at}").into();
        apply(testbed, deployment);
        let metric = objects::external_metric(&format!("m{at}"), "1");
        let mut hpa = hpa_of_web(&format!("web-{at}"), vec![metric]);
        hpa["spec"]["scaleTargetRef"]["name"] = format!("web-{at}").into();
        apply(testbed, hpa);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_is_bounded_for_metrics_responses_of_40_mib() {
    // The number of responses that fit into the budget depends on timing.
    let reasons = &["ValidMetricFound", "FailedGetExternalMetric"];
    assert_bounded(set_up_external, reasons, EXTERNAL_AUTOSCALER_COUNT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_is_bounded_for_results_below_and_above_the_size_limit() {
    const RULES: &str = "
externalRules:
- seriesQuery: '{queue!=\"\"}'
  resources: {namespaced: false}
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (queue)
";
    let limit = 4 << 20;
    for (len, reasons) in
        [(limit - limit / 20, &["ValidMetricFound"]), (50 * limit, &["FailedGetExternalMetric"])]
    {
        let rules = Rules { file: RULES, url: serve_prometheus(len).await };
        let program = Program::ControllerWithRules(rules);
        assert_program_is_bounded(&program, set_up_external, reasons, EXTERNAL_AUTOSCALER_COUNT)
            .await;
    }
}

/// Autoscalers with 256 or 3000 metrics. The metrics of an autoscaler share its annotations, which
/// have almost the maximum length (256 KiB).
fn set_up_annotations(testbed: &Testbed) {
    for (index, metrics) in [3000, 3000, 256, 256].into_iter().enumerate() {
        let metrics = (0..metrics).map(|_| objects::pods_metric("rps", "1"));
        let mut hpa = hpa_of_web(&format!("web-{index}"), metrics.collect());
        hpa["metadata"]["annotations"] = json!({
            "metric-config.pods.rps.json-path/json-key": "$.v",
            "metric-config.pods.rps.json-path/port": "80",
            "metric-config.pods.rps.json-path/path": format!("/{}", "x".repeat(240 << 10)),
        });
        apply(testbed, hpa);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_is_bounded_for_annotations_that_thousands_of_metrics_share() {
    for program in [Program::ControllerWithCollectors, Program::AdapterWithCollectors] {
        let reasons = &["CreateNewMetricsCollector"];
        assert_program_is_bounded(&program, set_up_annotations, reasons, 4).await;
    }
}

/// Autoscalers of one namespace whose settings together exceed the limit of a namespace.
fn set_up_settings_of_a_namespace(testbed: &Testbed) {
    let path = format!("/{}", "x".repeat(240 << 10));
    for index in 0..500 {
        let mut hpa = hpa_of_web(&format!("web-{index}"), vec![objects::pods_metric("rps", "1")]);
        hpa["metadata"]["annotations"] = json!({
            "metric-config.pods.rps.json-path/json-key": "$.v",
            "metric-config.pods.rps.json-path/port": "80",
            "metric-config.pods.rps.json-path/path": format!("{path}{index}"),
        });
        apply(testbed, hpa);
    }
}

/// Only autoscalers above the limit of the namespace have an event.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_is_bounded_for_settings_of_all_autoscalers_in_a_namespace() {
    for program in [Program::ControllerWithCollectors, Program::AdapterWithCollectors] {
        let reasons = &["CreateNewMetricsCollector"];
        assert_program_is_bounded(&program, set_up_settings_of_a_namespace, reasons, 10).await;
    }
}
