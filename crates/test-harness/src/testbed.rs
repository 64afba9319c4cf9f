//! A testbed's objects in [`NAMESPACE`], and a testbed over HTTP.

use std::{
    fs::{self, File},
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::Stdio,
};

use hpa_testbed::{ServerHandle, Testbed};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::NAMESPACE;

/// Reads and writes objects in [`NAMESPACE`] without a request.
pub trait TestbedExt {
    fn apply_all(&self, objects: impl IntoIterator<Item = Value>);
    fn deployment(&self, name: &str) -> Option<Value>;
    fn hpa(&self, name: &str) -> Option<Value>;

    /// `spec.replicas` of a Deployment; -1 if there is no such Deployment.
    fn replicas(&self, name: &str) -> i64 {
        self.deployment(name).map_or(-1, |object| object["spec"]["replicas"].as_i64().unwrap_or(1))
    }

    /// Status, reason and message of an autoscaler's condition.
    fn condition(&self, name: &str, condition_type: &str) -> Option<[String; 3]> {
        let hpa = self.hpa(name)?;
        let mut conditions = hpa["status"]["conditions"].as_array()?.iter();
        let condition = conditions.find(|condition| condition["type"] == condition_type)?;
        let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
        Some(["status", "reason", "message"].map(text))
    }
}

impl TestbedExt for Testbed {
    fn apply_all(&self, objects: impl IntoIterator<Item = Value>) {
        for object in objects {
            self.apply(object).expect("a valid object");
        }
    }

    fn deployment(&self, name: &str) -> Option<Value> {
        self.get("apps/v1", "Deployment", NAMESPACE, name)
    }

    fn hpa(&self, name: &str) -> Option<Value> {
        self.get("autoscaling/v2", "HorizontalPodAutoscaler", NAMESPACE, name)
    }
}

/// A testbed that listens on a port of its own, until it is dropped.
#[derive(Debug)]
pub struct ServedTestbed {
    pub address: SocketAddr,
    pub kubeconfig: PathBuf,
    /// Holds the kubeconfig, and is free for other files of the test.
    pub dir: TempDir,
    _server: ServerHandle,
}

impl ServedTestbed {
    pub async fn new(testbed: &Testbed) -> Self {
        let (address, server) =
            testbed.serve(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.expect("a port");
        let dir = tempfile::tempdir().expect("a temporary directory");
        let kubeconfig = dir.path().join("kubeconfig");
        fs::write(&kubeconfig, Testbed::kubeconfig(address)).expect("a kubeconfig file");
        Self { address, kubeconfig, dir, _server: server }
    }

    /// Starts `hpa run` on this testbed with additional flags, and no environment variables except
    /// these. `program` is the path of `hpa`.
    pub fn start_hpa(&self, program: &str, flags: &[&str], variables: &[(&str, &str)]) -> Child {
        let log = File::create(self.log_file()).expect("a log file");
        Command::new(program)
            .args(["run", "--metrics-port=0", "--leader-elect=false", "--kubeconfig"])
            .arg(&self.kubeconfig)
            .args(flags)
            .env_clear()
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .expect("hpa starts")
    }

    /// The log of the last process that [`Self::start_hpa`] started.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_file()).expect("a log file")
    }

    fn log_file(&self) -> PathBuf {
        self.dir.path().join("log")
    }
}
