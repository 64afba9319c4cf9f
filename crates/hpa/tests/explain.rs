//! `hpa explain` against the testbed, in the situations that users ask about most. Some tests also
//! run other commands that report the same problem.

#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test may fail")]

use std::{
    fs,
    net::Ipv4Addr,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use hpa_testbed::{Config, Effect, Fault, Faults, Match, Testbed};
use hpa_tests::harness::{NAMESPACE, ServedTestbed, SettableMetrics, TestbedExt, objects};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    net::TcpListener,
    process::{ChildStdout, Command},
    time::timeout,
};

#[tokio::test]
async fn hanging_api_server_is_reported_after_one_request() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let server = format!("http://{}", listener.local_addr().expect("an address"));
    let connections = Arc::new(AtomicUsize::new(0));
    let accepted = connections.clone();
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((connection, _)) = listener.accept().await {
            accepted.fetch_add(1, Ordering::SeqCst);
            open.push(connection);
        }
    });
    let dir = tempfile::tempdir().expect("a directory");
    let kubeconfig = dir.path().join("kubeconfig");
    let text = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "silent",
        "clusters": [{ "name": "silent", "cluster": { "server": server } }],
        "contexts": [{ "name": "silent", "context": { "cluster": "silent", "user": "silent" } }],
        "users": [{ "name": "silent", "user": {} }],
    });
    fs::write(&kubeconfig, text.to_string()).expect("a kubeconfig");
    let mut explain = Command::new(env!("CARGO_BIN_EXE_hpa"));
    explain.args(["explain", "shop/web", "--request-timeout=1s", "--kubeconfig"]).arg(kubeconfig);
    let output = explain.output().await.expect("the program runs");
    let error = String::from_utf8(output.stderr).expect("UTF-8");
    let expected = "unable to read the autoscaler shop/web: no response from the API server within \
                    --request-timeout";
    assert!(error.contains(expected), "{error}");
    assert_eq!(connections.load(Ordering::SeqCst), 1, "{error}");
}

/// The CPU usage of every pod at first, in percent of its request.
const CPU_PERCENT: i64 = 60;
/// The value of the custom and external metrics.
const VALUE: i64 = 40;

/// A testbed with objects, and a kubeconfig for the program.
struct Cluster {
    testbed: Testbed,
    metrics: Arc<SettableMetrics>,
    served: ServedTestbed,
}

impl Cluster {
    async fn new(objects: impl IntoIterator<Item = Value>) -> Self {
        let metrics = Arc::new(SettableMetrics::new(CPU_PERCENT, VALUE));
        let config = Config { metrics: Some(metrics.clone()), ..Config::default() };
        let testbed = Testbed::new(config);
        testbed.apply_all([objects::namespace()]);
        testbed.apply_all(objects);
        let served = ServedTestbed::new(&testbed).await;
        Self { testbed, metrics, served }
    }

    /// Runs a program. Returns standard output, standard error, and whether it succeeded.
    async fn run(&self, program: &str, arguments: &[&str]) -> (String, String, bool) {
        let output = self.served.command(program, arguments).output().await;
        let output = output.expect("the program runs");
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        (text(output.stdout), text(output.stderr), output.status.success())
    }

    async fn explain(&self, arguments: &[&str]) -> String {
        let arguments: Vec<_> = ["explain"].iter().chain(arguments).copied().collect();
        let (output, error, is_success) = self.run(env!("CARGO_BIN_EXE_hpa"), &arguments).await;
        assert!(is_success, "{error}");
        output
    }

    /// Checks that the explanation of the autoscaler `web` contains the texts.
    async fn expect(&self, texts: &[&str]) {
        let output = self.explain(&[&format!("{NAMESPACE}/web")]).await;
        for text in texts {
            assert!(output.contains(text), "{text:?} is not in:\n{output}");
        }
    }
}

/// The Deployment `web` (object 0), its autoscaler (object 1), and its pods.
fn web(replicas: i64, metrics: Vec<Value>) -> Vec<Value> {
    let mut all =
        vec![objects::running_deployment("web", replicas), objects::hpa("web", 2..=10, metrics)];
    all.extend((0..replicas).map(|index| objects::pod("web", index)));
    all
}

/// The objects of [`web`] with a change.
fn web_with(replicas: i64, metric: Value, change: impl FnOnce(&mut Vec<Value>)) -> Vec<Value> {
    let mut all = web(replicas, vec![metric]);
    change(&mut all);
    all
}

#[tokio::test]
async fn report_names_counted_pods_and_the_next_change() {
    let cluster = Cluster::new(web(4, vec![objects::cpu_metric(60)])).await;
    cluster
        .expect(&[
            "shop/web stays at 4: cpu is at 60% of requests, target 60%; within tolerance",
            "scales to 5 when average cpu rises to 670m (67% of requests); now 600m",
            "counted (4): web-0, web-1, web-2, web-3",
            "No controller has stored a status",
        ])
        .await;
}

#[tokio::test]
async fn limiting_bound_or_policy_is_named() {
    Cluster::new(web(10, vec![objects::cpu_metric(30)]))
        .await
        .expect(&[
            "stays at 10: cpu is at 60% of requests, target 30%; maxReplicas is 10, metrics ask \
             for 20",
            "scales to 20 with a maxReplicas of 20",
            "Raise spec.maxReplicas",
        ])
        .await;
    Cluster::new(web(2, vec![objects::cpu_metric(200)]))
        .await
        .expect(&["stays at 2", "minReplicas is 2, metrics ask for 1"])
        .await;
    let disabled = |all: &mut Vec<Value>| {
        all[1]["spec"]["behavior"] = json!({ "scaleUp": { "selectPolicy": "Disabled" } });
    };
    Cluster::new(web_with(4, objects::cpu_metric(30), disabled))
        .await
        .expect(&["stays at 4", "spec.behavior.scaleUp.selectPolicy is Disabled"])
        .await;
    let one_pod = json!([{ "type": "Pods", "value": 1, "periodSeconds": 60 }]);
    let policy = |all: &mut Vec<Value>| {
        all[1]["spec"]["behavior"] = json!({ "scaleUp": { "policies": one_pod } });
    };
    Cluster::new(web_with(4, objects::cpu_metric(30), policy))
        .await
        .expect(&[
            "would scale from 4 to 5: cpu is at 60% of requests, target 30%; policies allow 5 for now, \
             metrics ask for 8; no controller has stored a status",
            "1 Pods in 60s, from 4: at most 5",
        ])
        .await;
}

#[tokio::test]
async fn unknown_history_is_reported_when_stabilization_holds() {
    let stabilized = |all: &mut Vec<Value>| {
        all[1]["status"] = json!({
            "currentReplicas": 4, "desiredReplicas": 4,
            "conditions": [{
                "type": "AbleToScale", "status": "True", "reason": "ScaleDownStabilized",
                "message": "recent recommendations were higher than current one",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        });
    };
    Cluster::new(web_with(4, objects::cpu_metric(120), stabilized))
        .await
        .expect(&[
            "would scale from 4 to 2: cpu is at 60% of requests, target 120%; the controller last \
             reported ScaleDownStabilized",
            "past recommendations are not known",
            "It reports ScaleDownStabilized",
            "so it may stay at 4 for now",
        ])
        .await;
}

#[tokio::test]
async fn uncounted_pods_are_named() {
    let pods = |all: &mut Vec<Value>| {
        all[3]["status"]["phase"] = json!("Pending");
        all[4]["status"]["phase"] = json!("Failed");
        all[5]["status"]["conditions"] = json!([]);
    };
    Cluster::new(web_with(4, objects::cpu_metric(30), pods))
        .await
        .expect(&[
            "unready (2): web-1 is pending, web-3 has no start time or no Ready condition",
            "ignored (1): web-2 has failed",
            "hold the decision back: web-1, web-3.",
        ])
        .await;
    let none = |all: &mut Vec<Value>| {
        for pod in all.iter_mut().skip(2) {
            pod["status"]["phase"] = json!("Pending");
        }
    };
    Cluster::new(web_with(2, objects::cpu_metric(30), none))
        .await
        .expect(&["stays at 2: cpu cannot be read", "No pod has a sample of cpu that counts"])
        .await;
}

#[tokio::test]
async fn surplus_pods_and_missing_requests_are_named() {
    let foreign = |all: &mut Vec<Value>| {
        let mut job = objects::pod("job", 0);
        job["metadata"]["labels"] = json!({ "app": "web" });
        all.push(job);
    };
    Cluster::new(web_with(2, objects::cpu_metric(60), foreign))
        .await
        .expect(&["The selector matches 3 pods, but the target has 2"])
        .await;
    let sidecar = |all: &mut Vec<Value>| {
        let container = json!({ "name": "proxy" });
        let containers = all[3]["spec"]["containers"].as_array_mut().expect("containers");
        containers.push(container);
    };
    Cluster::new(web_with(2, objects::cpu_metric(60), sidecar))
        .await
        .expect(&["missing request for cpu in container proxy of Pod web-1", "(missing in web-1)"])
        .await;
}

#[tokio::test]
async fn unusable_target_is_explained() {
    let missing = |all: &mut Vec<Value>| {
        all.remove(0);
    };
    Cluster::new(web_with(2, objects::cpu_metric(60), missing))
        .await
        .expect(&["shop/web can't decide: ", "Check that Deployment web exists"])
        .await;
    let renamed = |all: &mut Vec<Value>| all[0]["metadata"]["name"] = json!("webs");
    Cluster::new(web_with(2, objects::cpu_metric(60), renamed))
        .await
        .expect(&["Did you mean Deployment webs? There is no Deployment web: correct"])
        .await;
    let kind = |all: &mut Vec<Value>| {
        all[1]["spec"]["scaleTargetRef"]["kind"] = json!("Deploymint");
    };
    Cluster::new(web_with(2, objects::cpu_metric(60), kind))
        .await
        .expect(&["can't decide: ", "kind Deploymint is not one of them"])
        .await;
    let zero = |all: &mut Vec<Value>| all[0]["spec"]["replicas"] = json!(0);
    Cluster::new(web_with(2, objects::cpu_metric(60), zero))
        .await
        .expect(&[
            "stays at 0: autoscaling is off",
            "kubectl scale Deployment web --replicas=2 --namespace shop",
        ])
        .await;
    let twice = |all: &mut Vec<Value>| {
        let mut other = all[1].clone();
        other["metadata"]["name"] = json!("other");
        all.push(other);
    };
    Cluster::new(web_with(2, objects::cpu_metric(60), twice))
        .await
        .expect(&[
            "shop/web isn't scaled: shop/other selects the same pods",
            "Merge this one and shop/other into one autoscaler with several metrics",
        ])
        .await;
}

#[tokio::test]
async fn failing_metric_and_its_effect_are_named() {
    let metrics = vec![
        objects::cpu_metric(200),
        objects::external_metric(SettableMetrics::METRIC_WITHOUT_SERIES, "1"),
    ];
    Cluster::new(web(4, metrics))
        .await
        .expect(&[
            "stays at 4: broken cannot be read",
            "external.metrics.k8s.io works but has no value of broken",
            "the autoscaler scales up by the others, but not down",
        ])
        .await;
}

#[tokio::test]
async fn surplus_pods_of_a_rolling_update_are_reported() {
    let surge = |all: &mut Vec<Value>| all[0]["status"]["replicas"] = json!(5);
    Cluster::new(web_with(4, objects::external_metric("queue", "8"), surge))
        .await
        .expect(&["The target has 5 pods for 4 replicas, as during a rolling update"])
        .await;
}

#[tokio::test]
async fn pause_is_ignored_if_kube_controller_manager_stored_the_status() {
    let pause = |all: &mut Vec<Value>| {
        all[1]["metadata"]["annotations"] = json!({ "autoscaling.hpa-rs.dev/pause": "true" });
    };
    let cluster = Cluster::new(web_with(4, objects::cpu_metric(30), pause)).await;
    cluster
        .expect(&[
            "shop/web is paused by annotation and stays at 4: ",
            "; without the pause, scaled to 8",
            "scales to 8 without the pause",
        ])
        .await;
    let mut hpa = cluster.testbed.hpa("web").expect("an autoscaler");
    hpa["metadata"]["managedFields"] = json!([{
        "manager": "kube-controller-manager", "operation": "Update", "subresource": "status",
        "apiVersion": "autoscaling/v2", "fieldsType": "FieldsV1", "fieldsV1": {},
        "time": "2026-01-01T00:00:00Z",
    }]);
    let (dir, name) = (cluster.served.dir.path(), "dump.json");
    let deployment = cluster.testbed.deployment("web").expect("a Deployment");
    let list = json!({ "kind": "List", "items": [hpa, deployment] });
    fs::write(dir.join(name), list.to_string()).expect("a file");
    let file = dir.join(name).display().to_string();
    let output = cluster.explain(&["-f", &file]).await;
    assert!(output.contains("kube-controller-manager stored the status at 2026"), "{output}");
    assert!(!output.contains("paused by annotation"), "{output}");
}

#[tokio::test]
async fn pause_that_kube_controller_manager_ignores_is_reported_with_its_lease() {
    let (now, old) = (jiff::Timestamp::now(), "2026-01-01T00:00:00Z".parse().expect("a time"));
    let paused = |leases: Vec<Value>| {
        let mut all = controlled_by("kube-controller-manager");
        all[1]["metadata"]["annotations"] = json!({ "autoscaling.hpa-rs.dev/pause": "true" });
        Cluster::new(all.into_iter().chain(leases))
    };
    let held = |renewed| vec![lease("kube-system", "kube-controller-manager", renewed)];
    let advice = "Remove the annotation autoscaling.hpa-rs.dev/pause, unless hpa run is to handle \
                  the autoscaler: kube-controller-manager, which stored the status last, ignores the \
                  pause; ";
    for (leases, state) in [
        (held(old), "no controller has renewed the lease kube-system/kube-controller-manager for "),
        (held(now), "its lease is held by a_1, renewed "),
        (Vec::new(), "it has no lease."),
    ] {
        let output = paused(leases).await.explain(&["shop/web"]).await;
        assert!(output.contains(&format!("{advice}{state}")), "{output}");
        assert!(!output.contains("handles it, by its status"), "{output}");
    }
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
    let pod_metrics = |index: i64| {
        json!({
            "metadata": { "name": format!("web-{index}"), "namespace": NAMESPACE },
            "timestamp": "2026-01-01T00:00:00Z", "window": "15s",
            "containers": [{ "name": "app", "usage": { "cpu": "600m" } }],
        })
    };
    let mut items = web(4, vec![objects::cpu_metric(30)]);
    items.push(json!({
        "kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1",
        "items": (0..4).map(pod_metrics).collect::<Vec<_>>(),
    }));
    let file = cluster.served.dir.path().join("dump.json");
    fs::write(&file, json!({ "kind": "List", "items": items }).to_string()).expect("a file");
    let file = file.display().to_string();
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
        let pod_metrics = |index: i64| {
            json!({
                "kind": "PodMetrics", "apiVersion": "metrics.k8s.io/v1beta1",
                "metadata": { "name": format!("web-{index}"), "namespace": NAMESPACE },
                "timestamp": "2026-01-01T00:00:00Z", "window": "15s",
                "containers": [{ "name": "app", "usage": { "cpu": "600m" } }],
            })
        };
        let mut items = web(4, vec![objects::cpu_metric(120)]);
        items.extend((0..4).map(pod_metrics));
        items.extend(document);
        let file = cluster.served.dir.path().join("dump.json");
        fs::write(&file, json!({ "kind": "List", "items": items }).to_string()).expect("a file");
        let file = file.display().to_string();
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
        let file = cluster.served.dir.path().join("dump.json");
        fs::write(&file, json!({ "kind": "List", "items": items }).to_string()).expect("a file");
        let file = file.display().to_string();
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

#[tokio::test]
async fn hpa_explains_as_a_kubectl_plugin() {
    let cluster = Cluster::new(web(4, vec![objects::cpu_metric(60)])).await;
    let plugin = cluster.served.dir.path().join("kubectl-hpa");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_hpa"), &plugin).expect("a link");
    let plugin = plugin.display().to_string();
    let (output, error, is_success) = cluster.run(&plugin, &["explain", "shop/web"]).await;
    assert!(is_success && output.starts_with("shop/web stays at 4"), "{output}{error}");
    let (_, error, is_success) = cluster.run(&plugin, &["explain"]).await;
    assert!(!is_success && error.contains("Usage: kubectl hpa explain"), "{error}");
}

#[tokio::test]
async fn kubectl_plugin_completes_flags() {
    let dir = tempfile::tempdir().expect("a directory");
    let completer = dir.path().join("kubectl_complete-hpa");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_hpa"), &completer).expect("a link");
    let output = Command::new(completer).args(["explain", "web", "--watc"]).output().await;
    let output = String::from_utf8(output.expect("the program runs").stdout).expect("UTF-8");
    let (candidates, directive) = output.split_once('\n').expect("a candidate");
    assert!(
        candidates.starts_with("--watch\tExplain again whenever the first sentence changes"),
        "{output}"
    );
    assert_eq!(directive, ":4\n");
}

/// Waits for the first line of the next report.
async fn next_sentence(lines: &mut Lines<BufReader<ChildStdout>>) -> String {
    let sentence = async {
        loop {
            let line = lines.next_line().await.expect("output").expect("the program runs");
            if line.starts_with("shop/web ") {
                return line;
            }
        }
    };
    timeout(Duration::from_secs(100), sentence).await.expect("a report")
}

#[tokio::test]
async fn watch_prints_again_when_the_sentence_changes() {
    let cluster = Cluster::new(web(4, vec![objects::cpu_metric(60)])).await;
    let arguments =
        ["explain", "shop/web", "--watch", "--horizontal-pod-autoscaler-sync-period=1s"];
    let mut command = cluster.served.command(env!("CARGO_BIN_EXE_hpa"), &arguments);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("the program starts");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let first = next_sentence(&mut lines).await;
    assert!(first.starts_with("shop/web stays at 4: cpu is at 60%"), "{first}");
    cluster.metrics.set_cpu_percent(120);
    let second = next_sentence(&mut lines).await;
    assert!(second.starts_with("shop/web would scale from 4 to 8: cpu is at 120%"), "{second}");
}

#[tokio::test]
async fn absent_autoscaler_is_an_error_that_names_it() {
    let cluster = Cluster::new(web(4, vec![objects::cpu_metric(60)])).await;
    for (name, others) in [
        ("shop/none", ". The namespace shop has web"),
        ("shop/web-", ". Similar: web"),
        ("default/web", ": the namespace default has none. web is in shop"),
        ("default/none", ": the namespace default has none"),
        ("mail/web", ": the namespace mail doesn't exist"),
        ("shopp/web", ": the namespace shopp doesn't exist. Similar: shop"),
    ] {
        let (_, error, is_success) =
            cluster.run(env!("CARGO_BIN_EXE_hpa"), &["explain", name]).await;
        let expected = format!("hpa: there is no autoscaler {name}{others}\n");
        assert!(!is_success && error == expected, "{error}");
        let replay = ["replay", name, "--prometheus", "http://127.0.0.1:9"];
        let (_, error, is_success) = cluster.run(env!("CARGO_BIN_EXE_hpa"), &replay).await;
        assert!(!is_success && error == expected, "{error}");
    }
}

#[tokio::test]
async fn error_about_an_absent_autoscaler_names_a_few_similar_ones() {
    let autoscaler = |name: &&str| objects::hpa(name, 2..=10, vec![objects::cpu_metric(60)]);
    let names = ["web1", "web2", "web3", "web4", "web5"];
    let cluster = Cluster::new(names.iter().map(autoscaler).collect::<Vec<_>>()).await;
    let explain = ["explain", "shop/web0"];
    let (_, error, is_success) = cluster.run(env!("CARGO_BIN_EXE_hpa"), &explain).await;
    let expected = "hpa: there is no autoscaler shop/web0. Similar: web1, web2, web3 and 2 more\n";
    assert!(!is_success && error == expected, "{error}");
}

#[tokio::test]
async fn absent_namespace_is_an_error_of_commands_that_list() {
    let cluster = Cluster::new(web(4, vec![objects::cpu_metric(60)])).await;
    for command in ["lint", "status", "explain"] {
        let arguments: &[&str] = if command == "explain" { &["-A"] } else { &[] };
        let arguments = [&[command, "-n", "shopp"], arguments].concat();
        let (output, error, is_success) = cluster.run(env!("CARGO_BIN_EXE_hpa"), &arguments).await;
        let expected = "hpa: the namespace shopp doesn't exist. Similar: shop\n";
        assert_eq!((&*output, &*error, is_success), ("", expected, false), "{command}");
    }
    let compare = ["shadow-report", "--namespace", "shopp", "--for", "1s"];
    let (_, error, is_success) = cluster.run(env!("CARGO_BIN_EXE_hpa"), &compare).await;
    let expected = "nothing was compared: the namespace shopp doesn't exist. Similar: shop\n";
    assert!(!is_success && error.ends_with(expected), "{error}");
}

#[tokio::test]
async fn status_reads_the_lease_and_the_flags_of_kube_controller_manager() {
    let cluster = Cluster::new([]).await;
    let status = async || {
        let (output, error, _) = cluster.run(env!("CARGO_BIN_EXE_hpa"), &["status"]).await;
        let mut lines = output.lines().filter(|line| line.contains("kube-controller-manager"));
        lines.next().unwrap_or_else(|| panic!("{output}{error}")).to_owned()
    };
    let unknown = "- whether kube-controller-manager runs is unknown: there is no lease \
                   kube-system/kube-controller-manager";
    assert_eq!(status().await, unknown);
    let metadata = json!({ "name": "kube-controller-manager", "namespace": "kube-system" });
    let now = jiff::Timestamp::now();
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata,
        "spec": { "holderIdentity": "cp-1_7d1f", "leaseDurationSeconds": 3600,
            "renewTime": format!("{now:.6}") },
    });
    cluster.testbed.apply_all([lease]);
    let line = status().await;
    let flags = "; its flags can't be read here, so its HPA controller may be on";
    assert!(line.starts_with("- kube-controller-manager holds its lease (cp-1, "), "{line}");
    assert!(line.ends_with(flags), "{line}");
    let container = json!({
        "name": "kube-controller-manager", "image": "k",
        "command": ["kube-controller-manager", "--controllers=*,-horizontal-pod-autoscaler-controller"],
    });
    cluster.testbed.apply_all([json!({
        "apiVersion": "v1", "kind": "Pod", "spec": { "containers": [container] },
        "metadata": { "name": "kube-controller-manager-cp-1", "namespace": "kube-system" },
    })]);
    let line = status().await;
    let off = "is off (flags of pod kube-system/kube-controller-manager-cp-1)";
    assert!(line.starts_with("√ ") && line.ends_with(off), "{line}");
}

/// [`web`] with half of the needed pods, and a status that `manager` stored.
fn controlled_by(manager: &str) -> Vec<Value> {
    let status = |all: &mut Vec<Value>| {
        all[1]["metadata"]["managedFields"] = json!([{
            "manager": manager, "operation": "Update", "subresource": "status",
            "apiVersion": "autoscaling/v2", "fieldsType": "FieldsV1", "fieldsV1": {},
            "time": "2026-01-01T00:00:00Z",
        }]);
    };
    web_with(2, objects::cpu_metric(30), status)
}

fn lease(namespace: &str, name: &str, renewed: jiff::Timestamp) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": name, "namespace": namespace },
        "spec": {
            "holderIdentity": "a_1", "leaseDurationSeconds": 3600,
            "renewTime": format!("{renewed:.6}"),
        },
    })
}

#[tokio::test]
async fn controller_with_an_expired_lease_scales_nothing() {
    let (now, old) = (jiff::Timestamp::now(), "2026-01-01T00:00:00Z".parse().expect("a time"));
    let held = |manager, leases: &[Value]| {
        Cluster::new(controlled_by(manager).into_iter().chain(leases.to_vec()))
    };
    let own = |renewed| lease("shop", "hpa", renewed);
    let built_in = |renewed| lease("kube-system", "kube-controller-manager", renewed);
    let dead = "shop/web would scale from 2 to 4: cpu is at 60% of requests, target 30%; no \
                controller has renewed the lease ";
    let cluster = held("hpa-controller:shop/hpa", &[own(old)]).await;
    let advice = "No controller acts on this autoscaler: no controller has renewed the lease \
                  shop/hpa";
    cluster.expect(&[&format!("{dead}shop/hpa for "), advice]).await;
    let all = cluster.explain(&["-A"]).await;
    let first = "No controller acts on 1 autoscaler (shop/web): no controller has renewed the lease \
                 shop/hpa for ";
    assert!(all.starts_with(first), "{all}");
    let mut released = own(old);
    released["spec"]["holderIdentity"] = json!("");
    let cluster = held("hpa-controller:shop/hpa", &[released]).await;
    let first =
        "No controller acts on 1 autoscaler (shop/web): no instance holds the lease shop/hpa. ";
    let end = "target 30%; no instance holds the lease shop/hpa\n";
    cluster.expect(&[end, &first.replace("1 autoscaler (shop/web)", "this autoscaler")]).await;
    let all = cluster.explain(&["-A"]).await;
    assert!(all.starts_with(first), "{all}");
    let cluster = held("kube-controller-manager", &[built_in(old)]).await;
    cluster.expect(&[&format!("{dead}kube-system/kube-controller-manager for ")]).await;

    let successor = lease("kube-system", "hpa-controller", now);
    for (manager, leases) in [
        ("hpa-controller:shop/hpa", [own(now)].as_slice()),
        ("kube-controller-manager", &[built_in(now)]),
        ("kube-controller-manager", &[built_in(old), successor]),
        // These managers have a lease of another name, or none.
        ("k3s", &[]),
        ("hpa-controller", &[]),
    ] {
        let output = held(manager, leases).await.explain(&["shop/web"]).await;
        assert!(!output.contains("has renewed"), "{manager}: {output}");
        let all = held(manager, leases).await.explain(&["-A"]).await;
        assert!(!all.contains("has renewed"), "{manager}: {all}");
    }
}

#[tokio::test]
async fn several_controllers_are_reported_while_they_run() {
    let objects = |stored_at: jiff::Timestamp| {
        let mut objects = controlled_by("hpa-controller:shop/hpa");
        objects[1]["metadata"]["managedFields"][0]["time"] = json!(format!("{stored_at:.0}"));
        let mut other = objects[1].clone();
        other["metadata"]["name"] = json!("other");
        other["metadata"]["managedFields"][0]["manager"] = json!("kube-controller-manager");
        let now = jiff::Timestamp::now();
        let leases = [("shop", "hpa"), ("kube-system", "kube-controller-manager")];
        objects.push(other);
        objects.extend(leases.map(|(namespace, name)| lease(namespace, name, now)));
        objects
    };
    let past: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
    let cluster = Cluster::new(objects(past)).await;
    let all = cluster.explain(&["-A"]).await;
    assert!(!all.contains("Several controllers"), "a status keeps its writer: {all}");
    let cluster = Cluster::new(objects(jiff::Timestamp::now())).await;
    let all = cluster.explain(&["-A"]).await;
    let expected = "Several controllers stored the statuses: hpa-controller:shop/hpa (shop/web), \
                    kube-controller-manager (shop/other). hpa status says more.\n";
    assert!(all.starts_with(expected), "{all}");
    let cluster = Cluster::new(objects(past)).await;
    cluster.testbed.apply_all([lease("kube-system", "kube-controller-manager", past)]);
    let all = cluster.explain(&["-A"]).await;
    assert!(!all.contains("Several controllers"), "it no longer writes: {all}");
    let (status, ..) = cluster.run(env!("CARGO_BIN_EXE_hpa"), &["status"]).await;
    let line = status.lines().find(|line| line.contains("kube-controller-manager stored"));
    assert!(
        line.is_some_and(|line| line.ends_with("it holds no lease, so it no longer writes")),
        "{status}"
    );
}

#[tokio::test]
async fn forbidden_request_is_not_reported_as_a_decision() {
    let message = "deployments.apps \"web\" is forbidden: User \"ann\" cannot get resource \
                   \"deployments/scale\" in API group \"apps\" in the namespace \"shop\"";
    let faults = Faults::new(1);
    let forbidden = Effect::Status {
        code: 403,
        reason: "Forbidden".into(),
        message: message.into(),
        retry_after_seconds: None,
    };
    faults.add(Fault::on(Match::verb("get").resource("deployments")).effect(forbidden));
    let config = Config { interceptor: Some(Arc::new(faults)), ..Config::default() };
    let testbed = Testbed::new(config);
    testbed.apply_all([objects::namespace()]);
    testbed.apply_all(web(2, vec![objects::cpu_metric(30)]));
    let served = ServedTestbed::new(&testbed).await;
    let output = served.command(env!("CARGO_BIN_EXE_hpa"), &["explain", "shop/web"]).output().await;
    let output = output.expect("the program runs");
    let error = String::from_utf8_lossy(&output.stderr);
    let expected =
        format!("unable to explain shop/web: {message}. The controller has its own permissions");
    assert!(error.contains(&expected) && !error.contains("can't decide"), "{error}");
    assert_eq!((output.stdout, output.status.code()), (Vec::new(), Some(1)));
}

#[tokio::test]
async fn similar_names_of_unknown_metrics_are_listed() {
    let mut cpus = objects::cpu_metric(60);
    cpus["resource"]["name"] = "cpus".into();
    for (metric, expected) in [
        (
            objects::pods_metric("http_request", "1"),
            "custom.metrics.k8s.io has no metric http_request (similar: http_requests). Correct \
             the name in spec.metrics[0]",
        ),
        (
            objects::pods_metric("jobs", "1"),
            "custom.metrics.k8s.io has no metric jobs (it has http_requests, lag).",
        ),
        (
            objects::pods_metric("lag", "1"),
            "custom.metrics.k8s.io has lag for services, not for pods. Use a metric of type Object",
        ),
        (
            objects::external_metric("queue_lenght", "1"),
            "external.metrics.k8s.io has no metric queue_lenght (similar: queue_length).",
        ),
        (cpus, "metrics.k8s.io has no resource cpus for the target's pods (similar: cpu)."),
    ] {
        let cluster = Cluster::new(web(4, vec![metric])).await;
        cluster.metrics.restrict_to(&["pods/http_requests", "services/lag", "queue_length"]);
        cluster.expect(&[expected]).await;
    }
}

#[tokio::test]
async fn missing_permission_ends_shadow_report_at_once() {
    for (verb, resource, expected) in [
        ("list", "pods", "pods can't be listed: "),
        ("get", "deployments", "the scale of Deployment shop/web can't be read: "),
    ] {
        let message = format!("{resource} is forbidden: User \"ann\" cannot {verb} it");
        let faults = Faults::new(1);
        let forbidden = Effect::Status {
            code: 403,
            reason: "Forbidden".into(),
            message: message.clone(),
            retry_after_seconds: None,
        };
        faults.add(Fault::on(Match::verb(verb).resource(resource)).effect(forbidden));
        let config = Config { interceptor: Some(Arc::new(faults)), ..Config::default() };
        let testbed = Testbed::new(config);
        testbed.apply_all([objects::namespace()]);
        testbed.apply_all(web(2, vec![objects::cpu_metric(30)]));
        let served = ServedTestbed::new(&testbed).await;
        let mut command = served.command(env!("CARGO_BIN_EXE_hpa"), &["shadow-report", "--for=1h"]);
        let output = timeout(Duration::from_secs(30), command.output()).await;
        let output = output.expect("it ends at once").expect("the program runs");
        let error = String::from_utf8_lossy(&output.stderr);
        let expected = format!("nothing was compared: {expected}{message}");
        assert!(error.contains(&expected), "{error}");
        assert_eq!((output.stdout, output.status.code()), (Vec::new(), Some(2)));
    }
}

#[tokio::test]
async fn error_about_the_custom_api_names_the_flag() {
    let mut moved = objects::hpa("moved", 2..=10, vec![objects::cpu_metric(60)]);
    moved["apiVersion"] = json!("autoscaling.hpa-rs.dev/v2");
    let definition = hpa_crd::definition().expect("a definition");
    let definition = serde_json::to_value(definition).expect("JSON");
    let cluster = Cluster::new([definition, moved]).await;
    let explain = ["explain", "shop/moved"];
    let (_, error, is_success) = cluster.run(env!("CARGO_BIN_EXE_hpa"), &explain).await;
    let expected = "shop/moved is an autoscaler of autoscaling.hpa-rs.dev/v2, not of \
                    autoscaling/v2: add --autoscaler-api=custom";
    assert!(!is_success && error.contains(expected), "{error}");
}

#[tokio::test]
async fn autoscalers_of_one_target_name_each_other_across_both_apis() {
    let definition = hpa_crd::definition().expect("a definition");
    let mut all = web(4, vec![objects::cpu_metric(60)]);
    let mut custom = all[1].clone();
    custom["apiVersion"] = json!("autoscaling.hpa-rs.dev/v2");
    all.extend([serde_json::to_value(definition).expect("JSON"), custom]);
    let cluster = Cluster::new(all.clone()).await;
    for (own, other) in [("shop/web", "rhpa/shop/web"), ("rhpa/shop/web", "shop/web")] {
        let output = cluster.explain(&[own]).await;
        let start = format!("{own} shares its target with {other} and stays at 4: ");
        assert!(output.starts_with(&start), "{output}");
        let advice = format!(
            "Merge the autoscalers of the target into one with several metrics: this one and \
                 {other}."
        );
        assert!(output.contains(&advice), "{output}");
    }
    // A controller of both APIs has reported that they share a target.
    for index in [1, all.len() - 1] {
        all[index]["status"] = json!({
            "currentReplicas": 4, "desiredReplicas": 4,
            "conditions": [{
                "type": "ScalingActive", "status": "False", "reason": "AmbiguousSelector",
                "message": "pods by selector app=web are controlled by multiple HPAs: [shop/web \
                            rhpa/shop/web]",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        });
    }
    let cluster = Cluster::new(all).await;
    for (own, other) in [("shop/web", "rhpa/shop/web"), ("rhpa/shop/web", "shop/web")] {
        let output = cluster.explain(&[own]).await;
        let start = format!("{own} isn't scaled: {other} selects the same pods\n");
        assert!(output.starts_with(&start), "{output}");
        assert!(output.contains(&format!("Merge this one and {other} into one")), "{output}");
    }
}

#[tokio::test]
async fn settings_that_kube_controller_manager_ignores_are_named() {
    let mut all = controlled_by("kube-controller-manager");
    all[1]["metadata"]["annotations"] = json!({ "autoscaling.hpa-rs.dev/sync-period": "30s" });
    all[1]["status"] = json!({
        "currentReplicas": 2, "desiredReplicas": 2,
        "conditions": [{
            "type": "AbleToScale", "status": "True", "reason": "ReadyForNewScale", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
    });
    let cluster = Cluster::new(all).await;
    let text = "the setting sync-period has no effect: kube-controller-manager, which stored the \
                status last, ignores it";
    cluster
        .expect(&[&format!("unless hpa run is to handle the autoscaler: {text}; it has no lease.")])
        .await;
    let output = cluster.explain(&["-A"]).await;
    assert!(output.contains(&format!("; {text}\n")), "{output}");
}

#[tokio::test]
async fn autoscalers_with_problems_get_one_line_each() {
    let failing = |all: &mut Vec<Value>| {
        all[1]["status"] = json!({
            "currentReplicas": 4, "desiredReplicas": 0,
            "conditions": [{
                "type": "ScalingActive", "status": "False", "reason": "FailedGetResourceMetric",
                "message": "the HPA was unable to compute the replica count: failed to get cpu \
                    utilization: unable to get metrics for resource cpu: no metrics returned from \
                    resource metrics API",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        });
    };
    let cluster = Cluster::new(web_with(4, objects::cpu_metric(60), failing)).await;
    let output = cluster.explain(&["-A"]).await;
    let line = "shop/web  cpu cannot be read: no metrics returned from resource metrics API\n";
    assert!(output.starts_with(line), "{output}");
    assert!(output.contains("1 of 1 autoscaler has a problem"), "{output}");
    let held = |all: &mut Vec<Value>| {
        let condition = |kind: &str, reason: &str| {
            json!({ "type": kind, "status": "True", "reason": reason, "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z" })
        };
        all[1]["status"] = json!({
            "currentReplicas": 10, "desiredReplicas": 10,
            "conditions": [
                condition("AbleToScale", "ReadyForNewScale"),
                condition("ScalingActive", "ValidMetricFound"),
                condition("ScalingLimited", "TooManyReplicas"),
            ],
        });
    };
    let at_maximum = Cluster::new(web_with(10, objects::cpu_metric(60), held)).await;
    let output = at_maximum.explain(&["-A"]).await;
    assert!(output.starts_with("shop/web  "), "it can't do what its metrics ask for: {output}");
    let none = cluster.explain(&["-A", "-n", "default"]).await;
    assert!(none.starts_with("None of 0 autoscalers has a problem"), "{none}");
}

#[tokio::test]
async fn metric_name_does_not_control_the_terminal() {
    let metric = objects::external_metric("a\u{1b}[31mb", "1");
    let cluster = Cluster::new(web(4, vec![metric])).await;
    let output = cluster.explain(&["shop/web"]).await;
    assert!(output.contains("a\\u{1b}[31mb") && !output.contains('\u{1b}'), "{output}");
}

#[tokio::test]
async fn unreachable_api_server_is_named_once() {
    let cluster = Cluster::new([]).await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let kubeconfig = cluster.served.dir.path().join("gone");
    fs::write(&kubeconfig, Testbed::kubeconfig(address)).expect("a file");
    let flag = format!("--kubeconfig={}", kubeconfig.display());
    let mut command = Command::new(env!("CARGO_BIN_EXE_hpa"));
    let output = command.args(["explain", "shop/web", &flag]).output().await;
    let output = output.expect("the program runs");
    let error = String::from_utf8_lossy(&output.stderr);
    let expected = format!("unable to connect to the API server at {address}: Connection refused");
    assert!(!output.status.success() && error.contains(&expected), "{error}");
    assert_eq!(error.matches("onnect").count(), 2, "once, and the cause: {error}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_hpa"));
    let output = command.args(["shadow-report", "--for=200ms", &flag]).output().await;
    let output = output.expect("the program runs");
    let error = String::from_utf8_lossy(&output.stderr);
    let expected = "nothing was compared: horizontalpodautoscalers can't be listed: unable to \
                    connect to the API server at ";
    assert!(error.contains(expected), "{error}");
    assert_eq!((output.stdout, output.status.code()), (Vec::new(), Some(2)));
}
