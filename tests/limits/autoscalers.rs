//! Many autoscalers with annotations fit into the memory limits of the charts, and many with large
//! specs into half of them.

use std::collections::BTreeMap;

use hpa_testbed::Testbed;
use hpa_tests::harness::objects;
use serde_json::{Value, json};

use super::{Program, apply, assert_program_is_bounded, hpa_of_web, peak_of_program};

const NAMESPACE_COUNT: usize = 20;
const AUTOSCALERS_PER_NAMESPACE: usize = 1000;

fn namespace(index: usize) -> String {
    format!("team-{index:02}")
}

/// An autoscaler with a metric of its pods and one of its queue. It has no target.
fn annotated_autoscaler(namespace: &str, name: &str) -> Value {
    let mut queue = objects::external_metric("queue", "10");
    queue["external"]["metric"]["selector"]["matchLabels"] =
        json!({ "type": "json-path", "queue": name });
    let mut hpa = objects::hpa(name, 1..=9, [objects::pods_metric("rps", "10"), queue]);
    hpa["metadata"]["namespace"] = namespace.into();
    hpa["metadata"]["annotations"] = json!({
        "metric-config.pods.rps.json-path/json-key": "$.rps",
        "metric-config.pods.rps.json-path/path": "/metrics",
        "metric-config.pods.rps.json-path/port": "8080",
        "metric-config.external.queue.json-path/endpoint": format!("http://{name}/length"),
        "metric-config.external.queue.json-path/json-key": "$.length",
    });
    hpa
}

/// The last listed autoscaler is the only one with an invalid annotation.
fn set_up_autoscalers(testbed: &Testbed) {
    for index in 0..NAMESPACE_COUNT {
        let namespace = namespace(index);
        apply(
            testbed,
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } }),
        );
        for at in 0..AUTOSCALERS_PER_NAMESPACE {
            apply(testbed, annotated_autoscaler(&namespace, &format!("web-{index:02}-{at:04}")));
        }
    }
    let mut last = annotated_autoscaler(&namespace(NAMESPACE_COUNT - 1), "zz-last");
    last["metadata"]["annotations"]["metric-config.pods.rps.json-path/interval"] = "soon".into();
    apply(testbed, last);
}

/// These autoscalers are usual ones, so they may use the whole limit of the chart.
async fn assert_is_within_the_limit(
    program: &Program,
    reasons: &'static [&'static str],
    count: usize,
) {
    let peak = peak_of_program(program, set_up_autoscalers, reasons, count).await;
    let limit = 2 * program.max_peak_mib();
    assert!(peak.is_none_or(|peak| peak < limit), "{peak:?} MiB, the limit is {limit}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn adapter_collects_for_20_000_autoscalers_within_its_limit() {
    // The event of the last autoscaler.
    let reasons = &["CreateNewMetricsCollector"];
    assert_is_within_the_limit(&Program::AdapterWithCollectors, reasons, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controller_collects_for_20_000_autoscalers_within_its_limit() {
    // The caches have all autoscalers before the first one is reconciled.
    let reconciled = AUTOSCALERS_PER_NAMESPACE;
    let program = Program::ControllerWithCollectors;
    assert_is_within_the_limit(&program, &["FailedGetScale"], reconciled).await;
}

const LARGE_AUTOSCALER_COUNT: usize = 120;

/// Autoscalers with a spec of 0.9 MB: 130 metrics with 60 labels each.
fn set_up_large_specs(testbed: &Testbed) {
    let labels = (0..60).map(|at| (format!("label-{at:02}-{}", "x".repeat(40)), "y".repeat(60)));
    let labels: BTreeMap<_, _> = labels.collect();
    let metrics = (0..130).map(|at| {
        let mut metric = objects::external_metric(&format!("m{at}"), "1");
        metric["external"]["metric"]["selector"] = json!({ "matchLabels": labels });
        metric
    });
    let metrics: Vec<_> = metrics.collect();
    for at in 0..LARGE_AUTOSCALER_COUNT {
        apply(testbed, hpa_of_web(&format!("web-{at}"), metrics.clone()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_is_bounded_for_specs_of_a_megabyte() {
    for program in [Program::Controller, Program::ControllerWithCollectors] {
        let (reasons, count) = (&["SpecTooLarge"], LARGE_AUTOSCALER_COUNT);
        assert_program_is_bounded(&program, set_up_large_specs, reasons, count).await;
    }
}
