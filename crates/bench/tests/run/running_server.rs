//! Measurements on a running API server, which must be cleaned up.

use std::{
    io::{BufRead as _, BufReader},
    net::{Ipv4Addr, SocketAddr},
    process::{Child, Command, Stdio},
};

use hpa_testbed::{ServerHandle, Testbed};
use hpa_tests::{harness::hpa_binary, kube_apiserver::assets};
use rstest::rstest;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::harness::{
    WRITE_SCALE, WRITE_STATUS, bench, check_reconciles, measure, number, requests, status_writes,
};

/// A testbed that serves HTTP.
struct ServedTestbed {
    testbed: Testbed,
    dir: TempDir,
    _handle: ServerHandle,
    _runtime: Runtime,
}

impl ServedTestbed {
    fn new() -> Self {
        let (testbed, runtime) = (Testbed::default(), Runtime::new().expect("a runtime"));
        let served = testbed.serve(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let (address, handle) = runtime.block_on(served).expect("a port");
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("cluster.yaml"), Testbed::kubeconfig(address))
            .expect("a file");
        Self { testbed, dir, _handle: handle, _runtime: runtime }
    }

    /// Returns the flag that selects this testbed as the server.
    fn flag(&self) -> String {
        format!("--server=kubeconfig={}", self.dir.path().join("cluster.yaml").display())
    }

    fn names(&self, api_version: &str, kind: &str) -> Vec<String> {
        let objects = self.testbed.list(api_version, kind);
        objects
            .iter()
            .map(|object| object["metadata"]["name"].as_str().expect("a name").to_owned())
            .collect()
    }

    /// Returns whether all objects of `hpa-bench` were deleted.
    fn is_clean(&self) -> bool {
        let kinds = [("v1", "Pod"), ("v1", "Event"), ("apps/v1", "Deployment")];
        kinds.iter().all(|(version, kind)| self.names(version, kind).is_empty())
            && self.names("v1", "Namespace") == ["default", "kube-system"]
    }
}

#[test]
fn running_server_is_measured_and_cleaned_up() {
    let served = ServedTestbed::new();
    let other = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": { "name": "other" },
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "x" },
            "maxReplicas": 2,
        },
    });
    let other = served.testbed.apply(other).expect("an autoscaler of another owner");
    let (numbers, output) = measure(&[&served.flag(), "--repeat=2", "--change=wave"]);
    let first = &numbers[0]["rounds"][0];
    assert_eq!(number(first, "/decided/count"), 20.0, "{output}");
    assert_eq!(number(first, "/extra_decided/count"), 2.0, "{output}");
    assert_eq!(check_reconciles(first), status_writes(first));
    assert_eq!(
        requests(first, "/failed", WRITE_STATUS),
        0.0,
        "the other autoscaler is hidden: {output}"
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
fn existing_namespace_is_reported_and_not_changed() {
    let served = ServedTestbed::new();
    let namespace =
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "bench-1" } });
    served.testbed.apply(namespace).expect("a namespace");
    let controller = format!("ours={}", hpa_binary().display());
    let (success, _, errors) =
        bench(&["--controller", &controller, "--autoscalers=2", "--pods=1", &served.flag()]);
    assert!(!success && errors.contains("the namespace bench-1 exists already"), "{errors}");
    assert_eq!(served.names("v1", "Namespace"), ["bench-1", "default", "kube-system"]);
}

/// A running `hpa-bench`. Dropping the handle sends SIGTERM, so that the program cleans up.
struct BenchProcess(Child);

impl BenchProcess {
    fn start(mut command: Command) -> Self {
        Self(command.spawn().expect("it runs"))
    }

    /// Sends a signal and waits until the program exits. Returns whether it succeeded.
    fn stop(mut self, signal: Signal) -> bool {
        kill_process(Pid::from_child(&self.0), signal).expect("a signal");
        self.0.wait().expect("it ends").success()
    }
}

impl Drop for BenchProcess {
    fn drop(&mut self) {
        // After the program has exited, another process may have its ID.
        if matches!(self.0.try_wait(), Ok(None)) {
            kill_process(Pid::from_child(&self.0), Signal::TERM).ok();
            self.0.wait().ok();
        }
    }
}

/// Starts `hpa-bench` and waits until its standard error contains a text.
fn start_and_wait_for(arguments: &[&str], text: &str) -> BenchProcess {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hpa-bench"));
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut process = BenchProcess::start(command);
    let mut lines =
        BufReader::new(process.0.stderr.take().expect("errors")).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains(text)), "no line contains {text:?}");
    // Drains standard error: if the pipe were closed, the child's next write would fail.
    std::thread::spawn(move || lines.for_each(drop));
    process
}

#[rstest]
#[case::while_populating("the server is", Signal::INT)]
#[case::while_measuring("measuring", Signal::TERM)]
fn interrupted_run_cleans_up(#[case] text: &str, #[case] signal: Signal) {
    let served = ServedTestbed::new();
    let controller = format!("--controller=ours={}", hpa_binary().display());
    let small = ["run", "--autoscalers=40", "--pods=10", "--period=200ms"];
    let process = start_and_wait_for(&[&small[..], &[&controller, &served.flag()]].concat(), text);
    assert!(!process.stop(signal));
    assert!(served.is_clean());
}

/// Starts `hpa-bench serve` with a small cluster, and waits until it serves.
fn serve(server: &str, kubeconfig: &str) -> BenchProcess {
    let small = ["serve", "--autoscalers=1", "--pods=1", "--namespaces=1"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_hpa-bench"));
    command.args(small).args(["--kubeconfig", kubeconfig, server]).stdout(Stdio::piped());
    let mut serving = BenchProcess::start(command);
    let lines = BufReader::new(serving.0.stdout.take().expect("output")).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.starts_with("http://")), "it serves");
    serving
}

fn client(runtime: &Runtime, kubeconfig: &str) -> kube::Client {
    let options = kube::config::KubeConfigOptions::default();
    let config = kube::config::Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
    let config = kube::Config::from_custom_kubeconfig(config, &options);
    let config = runtime.block_on(config).expect("a context");
    runtime.block_on(async { kube::Client::try_from(config) }).expect("a client")
}

/// Without kube-controller-manager, only `hpa-bench` can finalize the namespaces.
#[test]
#[ignore = "needs etcd and kube-apiserver"]
fn running_kube_apiserver_is_cleaned_up() {
    let assets = assets::find().expect("etcd and kube-apiserver").display().to_string();
    let dir = tempfile::tempdir().expect("a directory");
    let kubeconfig = dir.path().join("cluster.yaml").display().to_string();
    let server = format!("--server=kube-apiserver={assets}");
    let serving = serve(&server, &kubeconfig);
    let flag = format!("--server=kubeconfig={kubeconfig}");
    let (success, _, errors) = bench(&["--controller=ours=/bin/true", &flag]);
    assert!(!success && errors.contains("the namespace bench-0 exists already"), "{errors}");
    let runtime = Runtime::new().expect("a runtime");
    let client = client(&runtime, &kubeconfig);
    let send = |method: &str, path: &str, body: Value| {
        let request = http::Request::builder().method(method).uri(path);
        let request =
            request.header("content-type", "application/json").body(body.to_string().into_bytes());
        runtime.block_on(client.request::<Value>(request.expect("a request"))).expect("a response")
    };
    let names = || {
        let namespaces = send("GET", "/api/v1/namespaces", json!({}));
        let items = namespaces["items"].as_array().expect("namespaces").clone();
        items
            .iter()
            .map(|one| one["metadata"]["name"].as_str().expect("a name").to_owned())
            .collect::<Vec<_>>()
    };
    let namespace = "/api/v1/namespaces/bench-0";
    send("DELETE", "/apis/autoscaling/v2/namespaces/bench-0/horizontalpodautoscalers", json!({}));
    send("DELETE", "/apis/apps/v1/namespaces/bench-0/deployments", json!({}));
    send("DELETE", &format!("{namespace}/pods"), json!({ "gracePeriodSeconds": 0 }));
    send("DELETE", namespace, json!({}));
    let no_finalizers = json!({ "metadata": { "name": "bench-0" }, "spec": {} });
    send("PUT", &format!("{namespace}/finalize"), no_finalizers);
    let before = names();

    let (numbers, output) = measure(&[&flag, "--repeat=2"]);
    let first = &numbers[0]["rounds"][0];
    assert_eq!(number(first, "/decided/count"), 20.0, "{output}");
    check_reconciles(first);
    assert_eq!(requests(first, "/failed", WRITE_STATUS), 0.0, "{output}");
    assert_eq!(names(), before);
    for path in ["/api/v1/pods", "/apis/apps/v1/deployments", "/api/v1/serviceaccounts"] {
        assert_eq!(send("GET", path, json!({}))["items"], json!([]), "{path}");
    }
    assert!(serving.stop(Signal::TERM));
}
