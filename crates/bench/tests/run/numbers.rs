//! The numbers of a measurement, for each load and server.

use hpa_tests::kube_apiserver::assets;
use rstest::rstest;
use serde_json::Value;

use crate::harness::{
    READ_SCALE, WRITE_SCALE, WRITE_STATUS, check_reconciles, measure, number, requests,
    status_writes,
};

#[rstest]
#[case::cpu("cpu")]
#[case::external("external")]
fn jitter_causes_a_status_write_in_every_period(#[case] metric: &str) {
    let (numbers, output) = measure(&["--metric", metric]);
    let [outcome] = numbers.as_array().expect("outcomes").as_slice() else { panic!("{numbers:#}") };
    assert_eq!(number(outcome, "/autoscalers"), 20.0);
    assert_eq!(number(outcome, "/decided/count"), 20.0);
    let measured = number(outcome, "/measured");
    assert!((2.0..20.0).contains(&measured), "{outcome:#}");
    let reconciles = check_reconciles(outcome);
    assert_eq!(reconciles, status_writes(outcome));
    assert_eq!(outcome["reconciles_counted_by"], "status-writes");
    // Changes of objects cause additional reconciles, which write no status. 40 is two periods of
    // the 20 autoscalers.
    let own = number(outcome, "/own_reconciles");
    assert!(own > reconciles * 0.8 && own < reconciles * 1.5 + 40.0, "{outcome:#}");
    assert_eq!(requests(outcome, "/count", WRITE_SCALE), 0.0, "nothing has to be scaled");
    let cycle = number(outcome, "/cycle/p50");
    // On a busy machine, it is above the period of 200 ms.
    assert!((0.1..30.0).contains(&cycle), "{outcome:#}");
    assert!(number(outcome, "/cycle/max") >= number(outcome, "/cycle/p99"), "{outcome:#}");
    assert_eq!(number(outcome, "/extra_decided/count"), 2.0);
    let extra_decided = number(outcome, "/extra_decided/p50");
    assert!(extra_decided > 0.0 && extra_decided < 30.0, "{outcome:#}");
    let cpus = number(outcome, "/cpus");
    assert!(cpus > 0.0 && cpus < 16.0, "{outcome:#}");
    let memory = number(outcome, "/usage_at_end/peak_memory");
    assert!((1e6..1e9).contains(&memory), "{outcome:#}");
    assert!(output.starts_with("20 autoscalers of 3 pods in 2 namespaces"), "{output}");
    assert!(output.contains(&format!("\n  {WRITE_STATUS} ")), "{output}");
}

#[test]
fn steady_load_is_counted_by_the_metrics_of_the_controller() {
    let (numbers, output) = measure(&["--change=steady"]);
    let outcome = &numbers[0];
    check_reconciles(outcome);
    assert_eq!(outcome["reconciles_counted_by"], "own-metrics");
    // Only the two autoscalers that are added write a status, a few times.
    assert!(requests(outcome, "/count", WRITE_STATUS) <= 10.0, "{outcome:#}");
    let unknown = ["cycle", "lateness", "overdue_at_end"].map(|name| &outcome[name]);
    assert_eq!(unknown, [&Value::Null; 3]);
    let lateness = number(outcome, "/own_lateness");
    assert!((0.0..30.0).contains(&lateness), "{outcome:#}");
    let row = output.lines().find(|line| line.starts_with("lateness")).expect("a row");
    assert!(row.ends_with("  -"), "{row}");
}

#[test]
fn wave_scales_targets_and_pods_follow() {
    let (numbers, output) = measure(&["--change=wave"]);
    let outcome = &numbers[0];
    let [at_start, later, refused] =
        ["/at_start", "/count", "/failed"].map(|field| requests(outcome, field, WRITE_SCALE));
    assert!(at_start + later >= 5.0, "{output}");
    // The task that adds and deletes pods must not conflict with the controller's writes.
    assert!(refused <= (at_start + later) * 0.2, "{output}");
    assert_eq!(requests(outcome, "/failed", READ_SCALE), 0.0, "{output}");
}

/// Run with `cargo test -p hpa-bench -- --ignored`.
#[test]
#[ignore = "needs etcd and kube-apiserver"]
fn kube_apiserver_is_measured_in_two_rounds() {
    let assets = assets::find().expect("etcd and kube-apiserver").display().to_string();
    let (numbers, output) =
        measure(&["--server", &format!("kube-apiserver={assets}"), "--repeat=2"]);
    let outcome = &numbers[0];
    assert_eq!(outcome["rounds"].as_array().map(Vec::len), Some(2), "{numbers:#}");
    assert_eq!(number(outcome, "/decided/count"), 20.0);
    check_reconciles(outcome);
    let first = &outcome["rounds"][0];
    assert_eq!(number(first, "/reconciles"), status_writes(first));
    for read in ["list pods.metrics.k8s.io", "watch horizontalpodautoscalers.autoscaling"] {
        assert!(requests(outcome, "/bytes", read) > 1000.0, "{read}: {outcome:#}");
    }
    assert!(
        number(outcome, "/server_peak_memory") > 1e8,
        "etcd and the API server count: {outcome:#}"
    );
    assert!(output.contains("against kube-apiserver, medians of 2 rounds\n"), "{output}");
}
