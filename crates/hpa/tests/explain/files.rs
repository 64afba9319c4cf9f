//! `--filename`: a dump of a cluster.

use hpa_tests::harness::{NAMESPACE, objects};
use serde_json::{Value, json};
use tokio::process::Command;

use super::{Cluster, web};

/// An item of a `PodMetricsList`: a sample of 600m CPU of the pod `web-<index>`.
fn pod_metrics(index: i64) -> Value {
    json!({
        "metadata": { "name": format!("web-{index}"), "namespace": NAMESPACE },
        "timestamp": "2026-01-01T00:00:00Z", "window": "15s",
        "containers": [{ "name": "app", "usage": { "cpu": "600m" } }],
    })
}

#[tokio::test]
async fn json_yaml_and_files_have_the_same_report() {
    let cluster = Cluster::new(web(4, vec![objects::cpu_metric(30)])).await;
    let mut live: Value =
        serde_json::from_str(&cluster.explain(&["web", "-n", NAMESPACE, "-o", "json"]).await)
            .expect("JSON");
    assert_eq!((&live["scaleTo"], &live["metrics"][0]["utilization"]), (&json!(8), &json!(60)));
    let yaml = cluster.explain(&["shop/web", "-o", "yaml"]).await;
    assert!(yaml.contains("scaleTo: 8"), "{yaml}");
    let mut items = web(4, vec![objects::cpu_metric(30)]);
    items.push(json!({
        "kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1",
        "items": (0..4).map(pod_metrics).collect::<Vec<_>>(),
    }));
    let file = cluster.write_dump(items);
    let mut dump: Value =
        serde_json::from_str(&cluster.explain(&["-f", &file, "-o", "json"]).await).expect("JSON");
    assert_eq!(dump["at"], "2026-01-01T00:00:00Z");
    dump["at"] = live["at"].clone();
    for report in [&mut dump, &mut live] {
        for pod in report["metrics"][0]["podList"].as_array_mut().expect("pods") {
            assert!(pod["sampledAt"].take().is_string());
        }
    }
    let missing = |report: &Value| report["pastMissing"].as_str().unwrap_or_default().to_owned();
    assert!(missing(&live).starts_with("there is no lease kube-system/hpa-controller: "), "{live}");
    assert!(missing(&dump).starts_with("the files have no document of the debug API"), "{dump}");
    dump["pastMissing"] = live["pastMissing"].clone();
    assert_eq!(dump, live);
}

#[tokio::test]
async fn flags_of_sources_are_refused_with_files() {
    for flags in [&["--metrics-config", "rules.yaml"][..], &["--collectors"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hpa"));
        let output = command.args(["explain", "-f", "web.yaml"]).args(flags).output().await;
        let output = output.expect("the program runs");
        let error = String::from_utf8(output.stderr).expect("UTF-8");
        let expected = format!("{} has no effect with --filename", flags[0]);
        assert!(error.contains(&expected) && !output.status.success(), "{error}");
    }
}

/// The debug API's document about `web`, a minute after a recommendation of four replicas. The
/// controller's flag sets a stabilization window of `window_seconds`.
fn debug_document(window_seconds: f64) -> Value {
    let at = |time: &str| format!("2025-12-31T23:{time}Z");
    let decision = json!({
        "currentReplicas": 4, "desiredReplicas": 4, "scaledTo": null, "proposedReplicas": 4,
        "reason": "metrics", "sentence": "cpu is at 119% of requests, target 120%",
    });
    json!({
        "apiVersion": "debug.hpa-rs.dev/v1", "kind": "AutoscalerDetail", "now": at("59:59"),
        "autoscaler": { "api": "core", "namespace": NAMESPACE, "name": "web", "uid": "u",
            "isFailing": false },
        "settings": {
            "tolerance": 0.1, "downscaleStabilizationSeconds": window_seconds,
            "cpuInitializationPeriodSeconds": 300.0, "initialReadinessDelaySeconds": 30.0,
            "scaleToZero": true,
        },
        "history": {
            "recommendations": [{ "replicas": 4, "at": at("59:00") }],
            "scale_ups": [], "scale_downs": [],
        },
        "runs": [{ "from": at("30:00"), "until": at("59:00"), "count": 117, "decision": decision }],
        "metricNames": ["cpu"], "samples": [],
    })
}

#[tokio::test]
async fn history_of_a_dump_stabilizes_the_decision() {
    let cluster = Cluster::new([]).await;
    let explain = async |document: Option<Value>, flags: &[&str]| {
        let mut items = web(4, vec![objects::cpu_metric(120)]);
        for mut sample in (0..4).map(pod_metrics) {
            sample["kind"] = json!("PodMetrics");
            sample["apiVersion"] = json!("metrics.k8s.io/v1beta1");
            items.push(sample);
        }
        items.extend(document);
        let file = cluster.write_dump(items);
        cluster.explain(&[&["-f", &*file], flags].concat()).await
    };
    let without = explain(None, &["--since=1h"]).await;
    assert!(without.starts_with("shop/web would scale from 4 to 2"), "{without}");
    assert!(without.contains("decisions are missing: the files have no document"), "{without}");

    let held = explain(Some(debug_document(300.0)), &["--since=1h"]).await;
    assert!(held.starts_with("shop/web stays at 4"), "{held}");
    assert!(!held.contains("not known") && !held.contains("missing"), "{held}");
    let line =
        "  2025-12-31 23:30:00 to 2025-12-31 23:59:00  stays at 4 (117 decisions); last: cpu";
    assert!(held.contains("decisions before 2025-12-31 23:30:00 are not recorded"), "{held}");
    assert!(held.contains(line), "{held}");

    // With a window of 30 s, the recommendation of a minute ago doesn't count. A flag may set a
    // longer window.
    let shorter = explain(Some(debug_document(30.0)), &[]).await;
    assert!(shorter.starts_with("shop/web scales from 4 to 2"), "{shorter}");
    assert!(!shorter.contains("Earlier decisions"), "{shorter}");
    let mut counts_other_pods = debug_document(30.0);
    counts_other_pods["autoscaler"]["lastReconcileSecondsAgo"] = json!(5.0);
    counts_other_pods["runs"][0]["until"] = json!("2025-12-31T23:59:54Z");
    let explanation = |counted| json!({ "metrics": [{ "counted": counted }] });
    counts_other_pods["runs"][0]["explanation"] = explanation(2);
    let contradicted = explain(Some(counts_other_pods.clone()), &[]).await;
    assert!(contradicted.starts_with("shop/web would scale from 4 to 2"), "{contradicted}");
    for text in ["stayed at 4 in its last decision, which counted 2 pods, not 4", "hpa status"] {
        assert!(contradicted.contains(text), "{contradicted}");
    }
    counts_other_pods["runs"][0]["explanation"] = explanation(4);
    let confirmed = explain(Some(counts_other_pods), &[]).await;
    assert!(confirmed.starts_with("shop/web scales from 4 to 2"), "{confirmed}");
    let flagged = explain(Some(debug_document(30.0)), &["--scaling-schedule"]).await;
    assert!(flagged.starts_with("shop/web scales from 4 to 2"), "{flagged}");
    let flag = "--horizontal-pod-autoscaler-downscale-stabilization=2m";
    let flagged = explain(Some(debug_document(30.0)), &[flag]).await;
    assert!(flagged.starts_with("shop/web stays at 4"), "{flagged}");
}

#[tokio::test]
async fn schedule_has_no_tolerance_if_the_controller_reads_schedules() {
    let cluster = Cluster::new([]).await;
    let schedule =
        json!({ "apiVersion": "zalando.org/v1", "kind": "ScalingSchedule", "name": "evening" });
    let metric = json!({ "type": "Object", "object": {
        "describedObject": schedule, "metric": { "name": "scheduled" },
        "target": { "type": "AverageValue", "averageValue": "1" },
    } });
    let value = json!({
        "kind": "MetricValue", "apiVersion": "custom.metrics.k8s.io/v1beta2",
        "describedObject": { "apiVersion": "zalando.org/v1", "kind": "ScalingSchedule",
            "namespace": NAMESPACE, "name": "evening" },
        "metric": { "name": "scheduled" }, "timestamp": "2026-01-01T00:00:00Z", "value": "21",
    });
    let explain = async |settings: Option<(&str, Value)>, flags: &[&str]| {
        let mut items = vec![
            objects::running_deployment("web", 20),
            objects::hpa("web", 2..=99, [metric.clone()]),
        ];
        items.push(value.clone());
        items.extend(settings.map(|(name, value)| {
            let mut document = debug_document(300.0);
            document["settings"][name] = value;
            document["history"]["recommendations"] = json!([]);
            document
        }));
        let file = cluster.write_dump(items);
        cluster.explain(&[&["-f", &*file], flags].concat()).await
    };
    let exact = |value: bool| Some(("exactSchedules", json!(value)));
    let (flag, tolerance) = ("--scaling-schedule", "--horizontal-pod-autoscaler-tolerance=0.2");
    for (settings, flags, is_exact) in [
        (None, &[][..], false),
        (None, &[flag], true),
        (exact(false), &[], false),
        (exact(true), &[], true),
        // Flags are added to the controller's settings.
        (exact(true), &[tolerance], true),
        (exact(false), &[flag], true),
        // Documents of older versions have no `exactSchedules`.
        (Some(("scaleToZero", json!(true))), &[], false),
    ] {
        let text = explain(settings.clone(), flags).await;
        let expected = if is_exact { "from 20 to 21" } else { "stays at 20" };
        assert!(text.contains(expected), "{settings:?} {flags:?}:\n{text}");
    }
}
