//! A Prometheus that has scraped an hour of the simulated cluster.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tempfile::TempDir;

use crate::cluster::Cluster;

const CONFIG: &str = include_str!("../../../../examples/replay/prometheus.yaml");
/// The real time between two scrapes, in which the cluster advances by 15 s.
const SCRAPE_INTERVAL: &str = "50ms";

pub(crate) struct Prometheus {
    child: Child,
    url: String,
    /// The end of the simulated hour.
    end: Timestamp,
    dir: TempDir,
    kubeconfig: PathBuf,
    _cluster: Cluster,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    /// Starts Prometheus and a cluster, and waits until the hour is scraped. `None` if no
    /// Prometheus is installed.
    pub(crate) fn start() -> Option<Self> {
        if hpa_tests::find_in_path("prometheus").is_none() {
            hpa_tests::programs::skip("prometheus", "there is no prometheus in PATH");
            return None;
        }
        // Prometheus accepts neither samples of the future nor very old ones.
        let start = Timestamp::now().as_second() - 70 * 60;
        let start = Timestamp::from_second(start).expect("a time");
        let cluster = Cluster::start(start);
        let dir = tempfile::tempdir().expect("a directory");
        let (child, url) = start_prometheus(dir.path(), cluster.address);
        let kubeconfig = dir.path().join("kubeconfig");
        fs::write(&kubeconfig, cluster.finish_and_serve()).expect("a file");
        let end = start + SignedDuration::from_hours(1);
        Some(Self { child, url, end, dir, kubeconfig, _cluster: cluster })
    }

    /// Writes a file and returns its path.
    pub(crate) fn write_file(&self, name: &str, text: &str) -> String {
        let path = self.dir.path().join(name);
        fs::write(&path, text).expect("a file");
        path.display().to_string()
    }

    fn replay_command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hpa"));
        command.env_clear().args(["replay", "--since", "1h", "--prometheus", &self.url]);
        command.arg("--until").arg(self.end.to_string());
        command
    }

    /// Replays the autoscaler of a manifest.
    pub(crate) fn replay_manifest(&self, hpa: &Value, arguments: &[&str]) -> Output {
        let file = self.write_file("hpa.yaml", &hpa.to_string());
        let mut replay = self.replay_command();
        replay.arg("-f").arg(file).args(arguments).output().expect("the program runs")
    }

    pub(crate) fn replay_json(&self, hpa: &Value, arguments: &[&str]) -> Value {
        json_output(&self.replay_manifest(hpa, &[&["-o", "json"], arguments].concat()))
    }

    /// Replays an autoscaler of the cluster.
    pub(crate) fn replay_live(&self, name: &str, arguments: &[&str]) -> Value {
        let mut replay = self.replay_command();
        replay.arg(name).arg("--kubeconfig").arg(&self.kubeconfig).args(["-o", "json"]);
        json_output(&replay.args(arguments).output().expect("the program runs"))
    }

    pub(crate) fn replay_error(&self, hpa: &Value, arguments: &[&str]) -> String {
        let output = self.replay_manifest(hpa, arguments);
        assert!(!output.status.success());
        String::from_utf8(output.stderr).expect("UTF-8")
    }
}

fn json_output(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Starts Prometheus and waits until it is ready.
fn start_prometheus(dir: &Path, target: SocketAddr) -> (Child, String) {
    let config = dir.join("prometheus.yaml");
    let text = CONFIG.replace("500ms", SCRAPE_INTERVAL);
    let text = text.replace("127.0.0.1:9101", &target.to_string());
    assert!(text.contains(SCRAPE_INTERVAL) && text.contains(&target.to_string()), "{text}");
    fs::write(&config, text).expect("a file");
    let [port] = hpa_tests::kube_apiserver::free_ports().expect("a port");
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut child = Command::new("prometheus")
        .arg(format!("--config.file={}", config.display()))
        .arg(format!("--storage.tsdb.path={}", dir.join("data").display()))
        .arg(format!("--web.listen-address={address}"))
        .arg("--query.lookback-delta=30s")
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
