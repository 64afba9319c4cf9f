//! `hpa replay` on an hour of a simulated cluster, read from a real Prometheus.
//!
//! Without `prometheus` and `promtool` in `PATH`, the tests report that they were skipped.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may fail"
)]

mod demo;

use std::{
    fs,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tempfile::TempDir;

const RULES: &str = r#"
rules:
- seriesQuery: 'http_requests{namespace!="",pod!=""}'
  resources: {overrides: {namespace: {resource: namespace}, pod: {resource: pod}}}
  name: {as: requests}
  metricsQuery: 'sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)'
"#;

/// A Prometheus with the recorded hour.
struct Prometheus {
    child: Child,
    url: String,
    end: Timestamp,
    dir: TempDir,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    /// Records the hour in virtual time, and loads it. `None` if Prometheus is not installed.
    fn start() -> Option<Self> {
        let installed = ["prometheus", "promtool"].iter().all(|program| {
            Command::new(program).arg("--version").output().is_ok_and(|out| out.status.success())
        });
        if !installed {
            println!("skipped: there is no prometheus and promtool in PATH");
            return None;
        }
        // Within the maximum age of series, and before the samples that Prometheus would add.
        let start = Timestamp::now().as_second() / 3600 * 3600 - 3 * 3600;
        let start = Timestamp::from_second(start).expect("a time");
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build().expect("a runtime");
        let exposition = runtime.block_on(demo::record(start));
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("series.txt");
        fs::write(&file, exposition).expect("a file");
        let loaded = Command::new("promtool")
            .args(["tsdb", "create-blocks-from", "openmetrics"])
            .args([&file, &dir.path().join("data")])
            .output()
            .expect("promtool runs");
        assert!(loaded.status.success(), "{}", String::from_utf8_lossy(&loaded.stderr));
        let (child, url) = run(&dir);
        Some(Self { child, url, end: start + SignedDuration::from_hours(1), dir })
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::write(&path, text).expect("a file");
        path
    }

    fn replay(&self, hpa: &Value, arguments: &[&str]) -> std::process::Output {
        let file = self.file("hpa.yaml", &hpa.to_string());
        let end = self.end.to_string();
        Command::new(env!("CARGO_BIN_EXE_hpa"))
            .args(["replay", "--since", "1h", "--prometheus", &self.url, "--until", &end, "-f"])
            .arg(file)
            .args(arguments)
            .env_clear()
            .output()
            .expect("the program runs")
    }

    fn json(&self, hpa: &Value, arguments: &[&str]) -> Value {
        let output = self.replay(hpa, &[&["-o", "json"], arguments].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    fn error(&self, hpa: &Value, arguments: &[&str]) -> String {
        let output = self.replay(hpa, arguments);
        assert!(!output.status.success());
        String::from_utf8(output.stderr).expect("UTF-8")
    }
}

/// Starts Prometheus and waits until it is ready.
fn run(dir: &TempDir) -> (Child, String) {
    let config = dir.path().join("prometheus.yaml");
    fs::write(&config, "").expect("a file");
    // A port that was free just now.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let mut child = Command::new("prometheus")
        .arg(format!("--config.file={}", config.display()))
        .arg(format!("--storage.tsdb.path={}", dir.path().join("data").display()))
        .arg(format!("--web.listen-address={address}"))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("prometheus runs");
    let mut log = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let ready = log.any(|line| line.expect("UTF-8").contains("ready to receive web requests"));
    assert!(ready, "prometheus ended");
    // The pipe must be read, or Prometheus would block.
    std::thread::spawn(move || log.for_each(drop));
    (child, format!("http://{address}"))
}

fn hpa(metric: Value) -> Value {
    json!({
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": { "name": "web", "namespace": "shop" },
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
            "minReplicas": 2, "maxReplicas": 30, "metrics": [metric],
        },
    })
}

fn cpu(percent: u32) -> Value {
    let target = json!({ "type": "Utilization", "averageUtilization": percent });
    json!({ "type": "Resource", "resource": { "name": "cpu", "target": target } })
}

/// A target that asks for about as many replicas as 60 % of the CPU request do.
fn requests() -> Value {
    let target = json!({ "type": "AverageValue", "averageValue": "63" });
    json!({ "type": "Pods", "pods": { "metric": { "name": "requests" }, "target": target } })
}

fn number(value: &Value, field: &str) -> f64 {
    value["match"][field].as_f64().unwrap_or_else(|| panic!("no {field} in {value}"))
}

#[test]
fn replay_matches_an_hour_of_the_real_controller() {
    let Some(prometheus) = Prometheus::start() else { return };
    cpu_load_is_rebuilt(&prometheus);
    wrong_target_is_not_trusted(&prometheus);
    metric_by_rule_and_by_query_give_the_same_load(&prometheus);
    saved_scenario_gives_the_same_run(&prometheus);
    errors_name_query_and_remedy(&prometheus);
}

fn cpu_load_is_rebuilt(prometheus: &Prometheus) {
    let replay = prometheus.json(&hpa(cpu(60)), &[]);
    println!("match by CPU: {}", replay["match"]);
    assert_eq!(replay["load"], "cpu");
    assert!(number(&replay, "recordedScalings") >= 10.0, "{}", replay["match"]);
    assert!(number(&replay, "compared") > 0.99, "{}", replay["match"]);
    assert!(number(&replay, "withinOne") >= 0.95, "{}", replay["match"]);
    assert!(number(&replay, "meanAbsoluteDifference") <= 0.3, "{}", replay["match"]);
    assert_eq!(replay["match"]["trust"], "good");
    // The start-up time is recorded, so that it need not be assumed.
    assert!(!replay["assumptions"].to_string().contains("--pod-startup"), "{replay}");
}

fn wrong_target_is_not_trusted(prometheus: &Prometheus) {
    let replay = prometheus.json(&hpa(cpu(30)), &[]);
    assert_eq!(replay["match"]["trust"], "none", "{}", replay["match"]);
    assert!(number(&replay, "meanDifference") > 2.0, "{}", replay["match"]);
    let output = prometheus.replay(&hpa(cpu(30)), &[]);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(text.contains("Trust: none."), "{text}");
}

fn metric_by_rule_and_by_query_give_the_same_load(prometheus: &Prometheus) {
    let rules = prometheus.file("rules.yaml", RULES).display().to_string();
    let hpa = hpa(requests());
    let by_rule = prometheus.json(&hpa, &["--metrics-config", &rules, "--metrics-max-age", "8h"]);
    println!("match by requests: {}", by_rule["match"]);
    assert_eq!(by_rule["load"], "requests");
    assert!(number(&by_rule, "withinOne") >= 0.8, "{}", by_rule["match"]);
    let query = r#"sum(http_requests{namespace="shop"})"#;
    let by_query = prometheus.json(&hpa, &["--load-query", query]);
    assert_eq!(by_rule["match"], by_query["match"]);
}

fn saved_scenario_gives_the_same_run(prometheus: &Prometheus) {
    let variants = "variants:\n- name: high\n  patch: {autoscaler: {spec: {minReplicas: 9}}}\n";
    let variants = prometheus.file("variants.yaml", variants).display().to_string();
    let saved = prometheus.file("saved.yaml", "").display().to_string();
    let page = prometheus.file("page.html", "").display().to_string();
    let arguments = ["--variants", &variants, "--save", &saved, "--html", &page];
    let replay = prometheus.json(&hpa(cpu(60)), &arguments);
    let output = Command::new(env!("CARGO_BIN_EXE_hpa"))
        .args(["simulate", &saved, "-o", "json"])
        .output()
        .expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let simulated: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(replay["variants"], simulated["variants"]);
    let least = |index: usize| &replay["variants"][index]["outcome"]["replicas"]["mean"];
    assert!(least(1).as_f64() > least(0).as_f64(), "{replay}");
    let page = fs::read_to_string(page).expect("the page");
    assert!(page.contains("Trust: good.") && page.contains("<h2>high</h2>"), "{page}");
}

fn errors_name_query_and_remedy(prometheus: &Prometheus) {
    let error = prometheus.error(&hpa(cpu(60)), &["--pods", "other-.*"]);
    assert!(error.contains("no samples of the usage of cpu"), "{error}");
    assert!(error.contains("check --pods") && error.contains("pod=~\"other-.*\""), "{error}");
    let error = prometheus.error(&hpa(requests()), &["--load-query", "http_requests"]);
    assert!(error.contains("series, not one") && error.contains("sum(...)"), "{error}");
    let error = prometheus.error(&hpa(requests()), &["--load-query", "sum("]);
    assert!(error.contains("with the query sum(") && error.contains("bad_data"), "{error}");
}
