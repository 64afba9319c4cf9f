//! `prometheus_adapter_start`: starts the adapter with a configuration file and flags.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, OnceLock},
};

use axum::{
    Router,
    body::{Body, to_bytes},
};
use hpa_testbed::Testbed;
use http::{Request, Response};
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tokio::runtime::{Builder, Runtime};

use super::cluster::Cluster;
use crate::compare::difference;

/// Compares a line: the adapter starts, or exits with a status.
pub(crate) fn check(line: &Value) -> Result<(), String> {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    static CLUSTER: OnceLock<Result<ServedCluster, String>> = OnceLock::new();
    let binary = BINARY.get_or_init(hpa_tests::harness::hpa_binary);
    let cluster = CLUSTER.get_or_init(ServedCluster::start).as_ref().map_err(Clone::clone)?;
    let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut command = Command::new(binary);
    command.current_dir(dir.path()).env_clear().arg("adapter");
    command.args(["--compat=prometheus-adapter", "--secure-port=0", "--bind-address=127.0.0.1"]);
    command.args(["--cert-dir=certificates", "--authentication-skip-lookup"]);
    command.arg(format!("--lister-kubeconfig={}", cluster.kubeconfig.path().display()));
    if !line["config"].is_null() {
        let config = dir.path().join("CONFIG");
        let text = line["config"].as_str().unwrap_or_default();
        std::fs::write(&config, text).map_err(|error| error.to_string())?;
        command.arg("--config=CONFIG");
    }
    let flags = line["flags"].as_array().into_iter().flatten().filter_map(Value::as_str);
    command.args(flags);
    let start = start(command)?;
    let mut expected = json!({ "result": line["result"] });
    if line["result"] == "started" {
        expected["groups"] = line.get("groups").cloned().unwrap_or_else(|| json!([]));
    } else {
        // Fatal errors exit with 255 in prometheus-adapter and 1 here; flag errors with 2 in both.
        expected["exitCode"] = json!(if line["exitCode"] == 2 { 2 } else { 1 });
    }
    match difference("", &expected, &start.outcome) {
        Some(difference) => Err(format!("{difference}\n      {}", start.log.trim())),
        None => Ok(()),
    }
}

/// The outcome of a start as in the recordings, and the log.
struct StartResult {
    outcome: Value,
    log: String,
}

/// Kills the process when it is dropped.
struct AdapterProcess(Child);

impl Drop for AdapterProcess {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Starts the adapter and waits until it serves or exits.
fn start(mut command: Command) -> Result<StartResult, String> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut running = AdapterProcess(command.spawn().map_err(|error| error.to_string())?);
    let stderr = running.0.stderr.take().ok_or("no log")?;
    let mut log = String::new();
    for line in BufReader::new(stderr).lines().map_while(Result::ok) {
        log.push_str(&line);
        log.push('\n');
        if let Some((_, groups)) = line.split_once(" groups=").filter(|_| line.contains("serving"))
        {
            let groups = groups.trim_matches('"').split(',').filter(|group| !group.is_empty());
            let groups: Vec<&str> = groups.map(str::trim).collect();
            let outcome = json!({ "result": "started", "groups": groups });
            return Ok(StartResult { outcome, log });
        }
    }
    let status = running.0.wait().map_err(|error| error.to_string())?;
    let outcome = json!({ "result": "exit", "exitCode": status.code() });
    Ok(StartResult { outcome, log })
}

/// The cluster of `prometheus_adapter_http`, served for the processes of all lines.
struct ServedCluster {
    kubeconfig: NamedTempFile,
    _runtime: Runtime,
}

impl ServedCluster {
    fn start() -> Result<Self, String> {
        let text = |error: std::io::Error| error.to_string();
        let cluster = Cluster::new(&header()?, &json!([]))?;
        let respond = move |request: Request<Body>| respond(cluster.clone(), request);
        // Each check blocks its thread, so the server needs another one.
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(text)?;
        let server = hpa_tests::harness::serve(Router::new().fallback(respond));
        let address = runtime.block_on(server);
        let kubeconfig = NamedTempFile::new().map_err(text)?;
        std::fs::write(&kubeconfig, Testbed::kubeconfig(address)).map_err(text)?;
        Ok(Self { kubeconfig, _runtime: runtime })
    }
}

async fn respond(cluster: Arc<Cluster>, request: Request<Body>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap_or_default();
    cluster.respond(&head, &body).await.map(Body::from)
}

/// The first line of `prometheus_adapter_http`: the kinds of the cluster.
fn header() -> Result<Value, String> {
    let name = "prometheus_adapter_http.jsonl.gz";
    let path = Path::new(crate::DEFAULT_DIR).join(name);
    let file =
        std::fs::File::open(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut line = String::new();
    BufReader::new(flate2::read::GzDecoder::new(file))
        .read_line(&mut line)
        .map_err(|error| error.to_string())?;
    serde_json::from_str(&line).map_err(|error| error.to_string())
}
