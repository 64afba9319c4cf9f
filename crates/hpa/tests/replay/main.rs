//! `hpa replay` on an hour of a simulated cluster that a real Prometheus scraped.
//!
//! Without `prometheus` in `PATH`, the test reports that it was skipped.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may fail"
)]

mod cluster;
mod prometheus;

use std::{fs, process::Command};

use serde_json::{Value, json};

use self::prometheus::Prometheus;

const RULES: &str = include_str!("../../../../examples/replay/rules.yaml");

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

fn cpu_metric(percent: u32) -> Value {
    let target = json!({ "type": "Utilization", "averageUtilization": percent });
    json!({ "type": "Resource", "resource": { "name": "cpu", "target": target } })
}

/// A metric that asks for about as many replicas as CPU with a target of 60 % does.
fn requests_metric() -> Value {
    let target = json!({ "type": "AverageValue", "averageValue": "63" });
    json!({ "type": "Pods", "pods": { "metric": { "name": "http_requests" }, "target": target } })
}

fn match_number(value: &Value, field: &str) -> f64 {
    value["match"][field].as_f64().unwrap_or_else(|| panic!("no {field} in {value}"))
}

#[test]
fn replay_matches_an_hour_of_the_real_controller() {
    let Some(prometheus) = Prometheus::start() else { return };
    live_autoscalers_are_replayed(&prometheus);
    cpu_load_is_rebuilt(&prometheus);
    wrong_target_is_not_trusted(&prometheus);
    rule_and_query_give_the_same_load(&prometheus);
    saved_scenario_gives_the_same_run(&prometheus);
    errors_name_the_query_and_the_flag(&prometheus);
}

fn cpu_load_is_rebuilt(prometheus: &Prometheus) {
    let replay = prometheus.replay_json(&hpa(cpu_metric(60)), &[]);
    println!("match by CPU: {}", replay["match"]);
    assert_eq!(replay["load"], "cpu");
    assert!(match_number(&replay, "recordedScalings") >= 10.0, "{}", replay["match"]);
    assert!(match_number(&replay, "compared") > 0.99, "{}", replay["match"]);
    assert!(match_number(&replay, "withinOne") >= 0.8, "{}", replay["match"]);
    assert!(match_number(&replay, "meanAbsoluteDifference") <= 0.5, "{}", replay["match"]);
    assert_eq!(replay["match"]["trust"], "good");
    // The start-up time is recorded, so it isn't assumed.
    assert!(!replay["assumptions"].to_string().contains("--pod-startup"), "{replay}");
}

fn live_autoscalers_are_replayed(prometheus: &Prometheus) {
    let rules = prometheus.write_file("rules.yaml", RULES);
    let rules = ["--metrics-config", &rules, "--metrics-max-age", "3h"];
    let cases = [
        ("web", "cpu", 0.6, &[] as &[&str]),
        ("api", "http_requests", 0.8, &rules),
        ("search", "ingress_requests", 0.98, &rules),
        ("worker", "orders_per_second", 0.98, &rules),
    ];
    for (name, load, min_equal, arguments) in cases {
        let replay = prometheus.replay_live(&format!("shop/{name}"), arguments);
        println!("match of {name}: {}", replay["match"]);
        assert_eq!(replay["load"], load);
        assert!(match_number(&replay, "recordedScalings") >= 5.0, "{}", replay["match"]);
        assert!(match_number(&replay, "equal") >= min_equal, "{}", replay["match"]);
        assert_eq!(replay["match"]["trust"], "good", "{name}");
    }
}

fn wrong_target_is_not_trusted(prometheus: &Prometheus) {
    let replay = prometheus.replay_json(&hpa(cpu_metric(30)), &[]);
    assert_eq!(replay["match"]["trust"], "none", "{}", replay["match"]);
    assert!(match_number(&replay, "meanDifference") > 2.0, "{}", replay["match"]);
    let output = prometheus.replay_manifest(&hpa(cpu_metric(30)), &[]);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(text.contains("Trust: none."), "{text}");
}

fn rule_and_query_give_the_same_load(prometheus: &Prometheus) {
    let rules = prometheus.write_file("rules.yaml", RULES);
    let hpa = hpa(requests_metric());
    let by_rule =
        prometheus.replay_json(&hpa, &["--metrics-config", &rules, "--metrics-max-age", "3h"]);
    println!("match by requests: {}", by_rule["match"]);
    assert_eq!(by_rule["load"], "http_requests");
    assert!(match_number(&by_rule, "withinOne") >= 0.8, "{}", by_rule["match"]);
    let query = r#"sum(http_requests{namespace="shop",pod=~"web-.+"})"#;
    let by_query = prometheus.replay_json(&hpa, &["--load-query", query]);
    assert_eq!(by_rule["match"], by_query["match"]);
}

fn saved_scenario_gives_the_same_run(prometheus: &Prometheus) {
    let variants = "variants:\n- name: high\n  patch: {autoscaler: {spec: {minReplicas: 9}}}\n";
    let variants = prometheus.write_file("variants.yaml", variants);
    let saved = prometheus.write_file("saved.yaml", "");
    let page = prometheus.write_file("page.html", "");
    let arguments = ["--variants", &variants, "--save", &saved, "--html", &page];
    let replay = prometheus.replay_json(&hpa(cpu_metric(60)), &arguments);
    let output = Command::new(env!("CARGO_BIN_EXE_hpa"))
        .args(["simulate", &saved, "-o", "json"])
        .output()
        .expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let simulated: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(replay["variants"], simulated["variants"]);
    let mean_replicas = |index: usize| &replay["variants"][index]["outcome"]["replicas"]["mean"];
    assert!(mean_replicas(1).as_f64() > mean_replicas(0).as_f64(), "{replay}");
    let page = fs::read_to_string(page).expect("the page");
    assert!(page.contains("Trust: good.") && page.contains("<h2>high</h2>"), "{page}");
}

fn errors_name_the_query_and_the_flag(prometheus: &Prometheus) {
    let error = prometheus.replay_error(&hpa(cpu_metric(60)), &["--pods", "other-.*"]);
    assert!(error.contains("no samples of the usage of cpu"), "{error}");
    assert!(error.contains("check --pods") && error.contains("pod=~\"other-.*\""), "{error}");
    let error = prometheus.replay_error(&hpa(requests_metric()), &["--pods", "other-.*"]);
    assert!(error.contains("no samples of the metric http_requests"), "{error}");
    assert!(error.contains("check --pods (now \"other-.*\"), or give its query"), "{error}");
    let error =
        prometheus.replay_error(&hpa(requests_metric()), &["--load-query", "http_requests"]);
    assert!(error.contains("series, not one") && error.contains("sum(...)"), "{error}");
    let error = prometheus.replay_error(&hpa(cpu_metric(60)), &["--load-query", "memory=up"]);
    assert!(error.contains("the autoscaler has no metric memory; it has: cpu"), "{error}");
    let error = prometheus.replay_error(&hpa(requests_metric()), &["--load-query", "sum("]);
    assert!(error.contains("The query is sum(") && error.contains("bad_data"), "{error}");
}
