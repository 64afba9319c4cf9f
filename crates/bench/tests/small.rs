//! `hpa-bench run` on a small cluster.

#![allow(
    clippy::expect_used,
    clippy::float_cmp,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may stop where it was misled"
)]

use std::{
    io::{BufRead as _, BufReader},
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

use hpa_testbed::{ServerHandle, Testbed};
use rstest::rstest;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// The controller, built by cargo in the profile of this test.
fn hpa() -> PathBuf {
    let bench = Path::new(env!("CARGO_BIN_EXE_hpa-bench"));
    let folder = bench.parent().expect("a folder");
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        None | Some("debug") => "dev",
        Some(profile) => profile,
    };
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--package", "hpa", "--bin", "hpa", "--profile", profile])
        .args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml")])
        .status()
        .expect("cargo runs");
    assert!(status.success(), "cargo build -p hpa: {status}");
    folder.join(format!("hpa{}", std::env::consts::EXE_SUFFIX))
}

fn bench(arguments: &[&str]) -> (bool, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hpa-bench"));
    let Output { status, stdout, stderr } =
        command.arg("run").args(arguments).output().expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (status.success(), text(stdout), text(stderr))
}

/// Measures the controller with 20 autoscalers of 3 pods, reconciled five times a second, for two
/// seconds.
fn measure(more: &[&str]) -> (Value, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("numbers.json").display().to_string();
    let controller = format!("ours={}", hpa().display());
    let small = [
        "--autoscalers=20",
        "--pods=3",
        "--namespaces=2",
        "--period=200ms",
        "--for=2s",
        "--extra=2",
    ];
    let arguments = [&["--controller", &controller, "--json", &json][..], &small, more].concat();
    let (success, output, errors) = bench(&arguments);
    assert!(success, "{output}{errors}");
    let numbers = std::fs::read_to_string(json).expect("numbers");
    (serde_json::from_str(&numbers).expect("JSON"), output)
}

fn number(outcome: &Value, pointer: &str) -> f64 {
    outcome
        .pointer(pointer)
        .and_then(Value::as_f64)
        .unwrap_or_else(|| panic!("no {pointer} in {outcome:#}"))
}

/// A number of a kind of request; zero if there were no such requests.
fn requests(outcome: &Value, number_of: &str, kind: &str) -> f64 {
    outcome["requests"].get(kind).map_or(0.0, |one| number(one, number_of))
}

const READ_SCALE: &str = "get deployments.apps/scale";
const WRITE_SCALE: &str = "update deployments.apps/scale";
const WRITE_STATUS: &str = "patch horizontalpodautoscalers.autoscaling/status";

#[rstest]
#[case::cpu("cpu")]
#[case::external("external")]
fn load_that_jitters_is_decided_on_again_and_again(#[case] metric: &str) {
    let (numbers, output) = measure(&["--metric", metric]);
    let [outcome] = numbers.as_array().expect("outcomes").as_slice() else { panic!("{numbers:#}") };
    assert_eq!(number(outcome, "/autoscalers"), 20.0);
    assert_eq!(number(outcome, "/decided/count"), 20.0);
    let measured = number(outcome, "/measured");
    assert!((2.0..20.0).contains(&measured), "{outcome:#}");
    // On a busy machine not all that is due is done, but most of it, and never more. A period is at
    // either end.
    let (made, due) = (number(outcome, "/reconciles"), number(outcome, "/reconciles_due"));
    assert!(made > due * 0.5 && made < due * 1.1 + 40.0, "{outcome:#}");
    assert_eq!(
        made,
        requests(outcome, "/count", WRITE_STATUS) - requests(outcome, "/failed", WRITE_STATUS)
    );
    assert_eq!(outcome["reconciles_counted_by"], "status-writes");
    // It reconciles what has changed too, without anything new to tell.
    let own = number(outcome, "/own_reconciles");
    assert!(own > made * 0.8 && own < made * 1.5 + 40.0, "{outcome:#}");
    assert_eq!(requests(outcome, "/count", WRITE_SCALE), 0.0, "nothing has to be scaled");
    let cycle = number(outcome, "/cycle/p50");
    assert!((0.1..0.4).contains(&cycle), "{outcome:#}");
    assert!(number(outcome, "/cycle/max") >= number(outcome, "/cycle/p99"), "{outcome:#}");
    assert_eq!(number(outcome, "/extra_decided/count"), 2.0);
    let of_extra = number(outcome, "/extra_decided/p50");
    assert!(of_extra > 0.0 && of_extra < 1.0, "{outcome:#}");
    let cpus = number(outcome, "/cpus");
    assert!(cpus > 0.0 && cpus < 16.0, "{outcome:#}");
    let memory = number(outcome, "/usage_at_end/peak_memory");
    assert!((1e6..1e9).contains(&memory), "{outcome:#}");
    assert!(output.starts_with("20 autoscalers of 3 pods in 2 namespaces"), "{output}");
    assert!(output.contains(&format!("\n  {WRITE_STATUS} ")), "{output}");
}

#[test]
fn where_nothing_changes_the_controller_tells_how_often_it_looked() {
    let (numbers, output) = measure(&["--change=steady"]);
    let outcome = &numbers[0];
    let (made, due) = (number(outcome, "/reconciles"), number(outcome, "/reconciles_due"));
    assert!(made > due * 0.5 && made < due * 1.1 + 40.0, "{outcome:#}");
    assert_eq!(outcome["reconciles_counted_by"], "own-metrics");
    // The statuses of the two autoscalers that were added.
    assert!(requests(outcome, "/count", WRITE_STATUS) <= 10.0, "{outcome:#}");
    let unknown = ["cycle", "lateness", "overdue_at_end"].map(|name| &outcome[name]);
    assert_eq!(unknown, [&Value::Null; 3]);
    let late = number(outcome, "/own_lateness");
    assert!((0.0..1.0).contains(&late), "{outcome:#}");
    let row = output.lines().find(|line| line.starts_with("lateness")).expect("a row");
    assert!(row.ends_with("  -"), "{row}");
}

#[test]
fn wave_makes_the_controller_scale_and_pods_follow() {
    let (numbers, output) = measure(&["--change=wave"]);
    let outcome = &numbers[0];
    let [at_start, later, refused] = ["/at_start", "/count", "/failed"]
        .map(|number_of| requests(outcome, number_of, WRITE_SCALE));
    assert!(at_start + later >= 5.0, "{output}");
    // Who plays the kubelets must not fight over the scale.
    assert!(refused <= (at_start + later) * 0.2, "{output}");
    assert_eq!(requests(outcome, "/failed", READ_SCALE), 0.0, "{output}");
}

/// `cargo test -p hpa-bench -- --ignored`.
#[test]
#[ignore = "needs the folder of etcd and kube-apiserver in KUBEBUILDER_ASSETS"]
fn real_api_server_tells_the_same_of_the_controller() {
    let assets = std::env::var("KUBEBUILDER_ASSETS").expect("KUBEBUILDER_ASSETS");
    let (numbers, output) =
        measure(&["--server", &format!("kube-apiserver={assets}"), "--repeat=2"]);
    let outcome = &numbers[0];
    assert_eq!(outcome["rounds"].as_array().map(Vec::len), Some(2), "{numbers:#}");
    assert_eq!(number(outcome, "/decided/count"), 20.0);
    let (made, due) = (number(outcome, "/reconciles"), number(outcome, "/reconciles_due"));
    assert!(made > due * 0.5 && made < due * 1.1 + 40.0, "{outcome:#}");
    let first = &outcome["rounds"][0];
    let written =
        requests(first, "/count", WRITE_STATUS) - requests(first, "/failed", WRITE_STATUS);
    assert_eq!(number(first, "/reconciles"), written);
    for read in ["list pods.metrics.k8s.io", "watch horizontalpodautoscalers.autoscaling"] {
        assert!(requests(outcome, "/bytes", read) > 1000.0, "{read}: {outcome:#}");
    }
    assert!(
        number(outcome, "/server_peak_memory") > 1e8,
        "etcd and the API server count: {outcome:#}"
    );
    assert!(output.contains("against kube-apiserver, medians of 2 rounds\n"), "{output}");
}

/// The same; nobody finishes the deletion of namespaces there.
#[test]
#[ignore = "needs the folder of etcd and kube-apiserver in KUBEBUILDER_ASSETS"]
fn real_api_server_that_runs_already_is_left_as_it_was() {
    let assets = std::env::var("KUBEBUILDER_ASSETS").expect("KUBEBUILDER_ASSETS");
    let folder = tempfile::tempdir().expect("a folder");
    let kubeconfig = folder.path().join("cluster.yaml").display().to_string();
    let server = format!("--server=kube-apiserver={assets}");
    let small = [
        "serve",
        "--autoscalers=1",
        "--pods=1",
        "--namespaces=1",
        "--kubeconfig",
        &kubeconfig,
        &server,
    ];
    let mut command = Command::new(env!("CARGO_BIN_EXE_hpa-bench"));
    let mut serving = command.args(small).stdout(Stdio::piped()).spawn().expect("it runs");
    let lines = BufReader::new(serving.stdout.take().expect("output")).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.starts_with("http://")), "it serves");
    let flag = format!("--server=kubeconfig={kubeconfig}");
    let (success, _, errors) = bench(&["--controller=ours=/bin/true", &flag]);
    assert!(!success && errors.contains("the namespace bench-0 exists already"), "{errors}");
    let runtime = Runtime::new().expect("a runtime");
    let (config, options) = (
        kube::config::Kubeconfig::read_from(&kubeconfig),
        kube::config::KubeConfigOptions::default(),
    );
    let config = config.expect("a kubeconfig");
    let config = runtime
        .block_on(kube::Config::from_custom_kubeconfig(config, &options))
        .expect("a context");
    let client = runtime.block_on(async { kube::Client::try_from(config) }).expect("a client");
    let ask = |method: &str, path: &str, body: Value| {
        let request = http::Request::builder().method(method).uri(path);
        let request =
            request.header("content-type", "application/json").body(body.to_string().into_bytes());
        runtime.block_on(client.request::<Value>(request.expect("a request"))).expect("an answer")
    };
    let names = || {
        let namespaces = ask("GET", "/api/v1/namespaces", json!({}));
        let items = namespaces["items"].as_array().expect("namespaces").clone();
        items
            .iter()
            .map(|one| one["metadata"]["name"].as_str().expect("a name").to_owned())
            .collect::<Vec<_>>()
    };
    let namespace = "/api/v1/namespaces/bench-0";
    ask("DELETE", "/apis/autoscaling/v2/namespaces/bench-0/horizontalpodautoscalers", json!({}));
    ask("DELETE", "/apis/apps/v1/namespaces/bench-0/deployments", json!({}));
    ask("DELETE", &format!("{namespace}/pods"), json!({ "gracePeriodSeconds": 0 }));
    ask("DELETE", namespace, json!({}));
    let nothing_more = json!({ "metadata": { "name": "bench-0" }, "spec": {} });
    ask("PUT", &format!("{namespace}/finalize"), nothing_more);
    let before = names();

    let (numbers, output) = measure(&[&flag, "--repeat=2"]);
    let first = &numbers[0]["rounds"][0];
    assert_eq!(number(first, "/decided/count"), 20.0, "{output}");
    let (made, due) = (number(first, "/reconciles"), number(first, "/reconciles_due"));
    assert!(made > due * 0.5 && made < due * 1.1 + 40.0, "{first:#}");
    assert_eq!(requests(first, "/failed", WRITE_STATUS), 0.0, "{output}");
    assert_eq!(names(), before);
    for path in ["/api/v1/pods", "/apis/apps/v1/deployments", "/api/v1/serviceaccounts"] {
        assert_eq!(ask("GET", path, json!({}))["items"], json!([]), "{path}");
    }
    let id = i32::try_from(serving.id()).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(id, Signal::TERM).expect("a signal");
    assert!(serving.wait().expect("it ends").success());
}

/// A testbed that is served over HTTP.
struct Served {
    testbed: Testbed,
    folder: TempDir,
    _handle: ServerHandle,
    _runtime: Runtime,
}

impl Served {
    fn new() -> Self {
        let (testbed, runtime) = (Testbed::default(), Runtime::new().expect("a runtime"));
        let served = testbed.serve(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let (address, handle) = runtime.block_on(served).expect("a port");
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("cluster.yaml"), Testbed::kubeconfig(address))
            .expect("a file");
        Self { testbed, folder, _handle: handle, _runtime: runtime }
    }

    /// The flag that has it measured against.
    fn flag(&self) -> String {
        format!("--server=kubeconfig={}", self.folder.path().join("cluster.yaml").display())
    }

    fn names(&self, api_version: &str, kind: &str) -> Vec<String> {
        let objects = self.testbed.list(api_version, kind);
        objects
            .iter()
            .map(|object| object["metadata"]["name"].as_str().expect("a name").to_owned())
            .collect()
    }

    /// Whether there is nothing but what every cluster has.
    fn is_clean(&self) -> bool {
        let left = [("v1", "Pod"), ("v1", "Event"), ("apps/v1", "Deployment")];
        left.iter().all(|(version, kind)| self.names(version, kind).is_empty())
            && self.names("v1", "Namespace") == ["default", "kube-system"]
    }
}

#[test]
fn server_that_runs_already_is_measured_against_and_left_as_it_was() {
    let served = Served::new();
    let other = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": { "name": "other" },
        "spec": { "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "x" }, "maxReplicas": 2 },
    });
    let other = served.testbed.apply(other).expect("an autoscaler of somebody else");
    let (numbers, output) = measure(&[&served.flag(), "--repeat=2", "--change=wave"]);
    let first = &numbers[0]["rounds"][0];
    assert_eq!(number(first, "/decided/count"), 20.0, "{output}");
    assert_eq!(number(first, "/extra_decided/count"), 2.0, "{output}");
    let (made, due) = (number(first, "/reconciles"), number(first, "/reconciles_due"));
    assert!(made > due * 0.5 && made < due * 1.1 + 40.0, "{first:#}");
    let written =
        requests(first, "/count", WRITE_STATUS) - requests(first, "/failed", WRITE_STATUS);
    assert_eq!(made, written);
    assert_eq!(
        requests(first, "/failed", WRITE_STATUS),
        0.0,
        "the other is not to be seen: {output}"
    );
    assert!(
        requests(first, "/at_start", WRITE_SCALE) + requests(first, "/count", WRITE_SCALE) >= 5.0,
        "{output}"
    );
    for read in ["list pods.metrics.k8s.io", "watch horizontalpodautoscalers.autoscaling"] {
        assert!(requests(first, "/bytes", read) > 1000.0, "{read}: {first:#}");
    }
    assert_eq!([first.get("server_cpus"), first.get("server_peak_memory")], [None; 2]);
    assert!(
        !output.contains("server's CPUs") && output.contains("\nserver's response time"),
        "{output}"
    );
    assert!(served.is_clean());
    let found = served.testbed.get("autoscaling/v2", "HorizontalPodAutoscaler", "default", "other");
    assert_eq!(found, Some(other));
}

#[test]
fn namespace_that_exists_is_named_and_not_touched() {
    let served = Served::new();
    let namespace =
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "bench-1" } });
    served.testbed.apply(namespace).expect("a namespace");
    let controller = format!("ours={}", hpa().display());
    let (success, _, errors) =
        bench(&["--controller", &controller, "--autoscalers=2", "--pods=1", &served.flag()]);
    assert!(!success && errors.contains("the namespace bench-1 exists already"), "{errors}");
    assert_eq!(served.names("v1", "Namespace"), ["bench-1", "default", "kube-system"]);
}

#[test]
fn kubeconfig_that_cannot_be_used_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("cluster.yaml").display().to_string();
    let server = format!("--server=kubeconfig={file}");
    let (success, _, errors) = bench(&["--controller=ours=/bin/true", &server]);
    assert!(!success && errors.contains(&format!("cannot use the kubeconfig {file}")), "{errors}");
    let text = "{ apiVersion: v1, kind: Config, current-context: mine, clusters: [], contexts: [], users: [] }";
    std::fs::write(&file, text).expect("a file");
    let (success, _, errors) = bench(&["--controller=ours=/bin/true", &server]);
    assert!(!success && errors.contains(&format!("{file}, context \"mine\"")), "{errors}");
}

/// Starts `hpa-bench` and waits until it says something on its standard error or output.
fn start_and_wait_for(arguments: &[&str], text: &str) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hpa-bench"));
    let mut child = command
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut lines =
        BufReader::new(child.stderr.take().expect("errors")).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains(text)), "it never said {text:?}");
    // Who is not listened to fails.
    std::thread::spawn(move || lines.for_each(drop));
    child
}

#[rstest]
#[case::while_it_populates("the server is", Signal::INT)]
#[case::while_it_measures("measuring", Signal::TERM)]
fn who_is_interrupted_cleans_up(#[case] text: &str, #[case] signal: Signal) {
    let served = Served::new();
    let controller = format!("--controller=ours={}", hpa().display());
    let small = ["run", "--autoscalers=40", "--pods=10", "--period=200ms"];
    let mut child =
        start_and_wait_for(&[&small[..], &[&controller, &served.flag()]].concat(), text);
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(id, signal).expect("a signal");
    assert!(!child.wait().expect("it ends").success());
    assert!(served.is_clean());
}

#[test]
fn folder_without_an_api_server_is_told_of() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = format!("kube-apiserver={}", folder.path().display());
    let (success, _, errors) = bench(&["--controller", "ours=/bin/true", "--server", &server]);
    let etcd = folder.path().join("etcd").display().to_string();
    assert!(!success && errors.contains(&format!("{etcd} does not exist")), "{errors}");
}

#[test]
fn controller_that_ends_is_told_of_with_its_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let broken = folder.path().join("broken");
    std::fs::write(&broken, "#!/bin/sh\necho no such luck >&2\nexit 3\n").expect("a file");
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&broken, permissions).expect("permissions");
    let controller = format!("reference={}", broken.display());
    let (success, _, errors) = bench(&["--controller", &controller, "--autoscalers=1", "--pods=1"]);
    assert!(
        !success && errors.contains("exit status: 3") && errors.contains("no such luck"),
        "{errors}"
    );
}
