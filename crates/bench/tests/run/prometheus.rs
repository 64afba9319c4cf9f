//! Metrics of pods, from a fake Prometheus and from the custom metrics API.

use std::process::{Command, Stdio};

use hpa_tests::{harness::hpa_binary, kube_apiserver::assets};
use serde_json::Value;

use crate::harness::{bench, measure, number};

#[test]
fn controller_reads_the_fake_prometheus_itself() {
    let (numbers, output) = measure(&["--metric=prometheus"]);
    let outcome = &numbers[0];
    assert!(number(outcome, "/reconciles") > 0.0, "{outcome:#}");
    assert_eq!(number(outcome, "/prometheus/namespaces"), 2.0, "{outcome:#}");
    assert!(number(outcome, "/prometheus/count") > 0.0, "{outcome:#}");
    let kinds = outcome["requests"].as_object().expect("requests").keys();
    let of_metrics: Vec<_> = kinds.filter(|kind| kind.contains("metrics.k8s.io")).collect();
    assert!(of_metrics.is_empty(), "{of_metrics:?}");
    assert!(output.contains("queries per namespace and period"), "{output}");
}

#[test]
fn controller_reads_the_same_metric_from_the_custom_metrics_api() {
    let (numbers, output) = measure(&["--metric=pods"]);
    let outcome = &numbers[0];
    assert_eq!(outcome.get("prometheus"), None);
    assert!(!output.contains("queries per namespace"), "{output}");
    let reads: f64 = outcome["requests"]
        .as_object()
        .expect("requests")
        .iter()
        .filter(|(kind, _)| kind.contains("custom.metrics.k8s.io"))
        .map(|(_, requests)| number(requests, "/count"))
        .sum();
    assert!(reads > 0.0, "{outcome:#}");
}

#[test]
fn reference_cannot_read_a_prometheus() {
    let arguments = ["--controller=reference=/bin/true", "--metric=prometheus"];
    let (success, _, errors) = bench(&arguments);
    assert!(!success && errors.contains("can't read from Prometheus"), "{errors}");
}

/// Run with `cargo test -p hpa-bench -- --ignored`.
#[test]
#[ignore = "needs etcd and kube-apiserver"]
fn adapter_is_measured_behind_a_kube_apiserver() {
    let assets = assets::find().expect("etcd and kube-apiserver").display().to_string();
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("numbers.json").display().to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hpa-bench"));
    command.args(["adapter", "--autoscalers=10", "--pods=3", "--namespaces=2", "--period=1s"]);
    command.args(["--for=2s", "--series=300", "--names=3", "--json", &json]);
    command.arg(format!("--server=kube-apiserver={assets}"));
    command.arg(format!("--adapter=ours={}", hpa_binary().display()));
    let output = command.stderr(Stdio::inherit()).output().expect("it runs");
    let table = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(output.status.success(), "{table}");
    assert!(table.starts_with("300 series of 3 names; 10 autoscalers of 3 pods"), "{table}");
    let numbers = std::fs::read_to_string(json).expect("numbers");
    let numbers: Value = serde_json::from_str(&numbers).expect("JSON");
    for phase in ["aggregated", "direct"] {
        let phase = &numbers[0][phase];
        let sent = number(phase, "/requests");
        // Ten autoscalers have 20 requests in two periods of a second.
        assert!((15.0..=25.0).contains(&sent), "{phase:#}");
        assert_eq!(number(phase, "/failed"), 0.0, "{phase:#}");
        assert_eq!(number(phase, "/queries_per_request"), 1.0, "{phase:#}");
    }
    assert_eq!(number(&numbers[0], "/discoveries"), 1.0);
    assert!(number(&numbers[0], "/usage_at_begin/peak_memory") > 1e6);
}
