//! A testbed's objects in [`NAMESPACE`], and a testbed over HTTP.

use std::{
    fs::{self, File},
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    pin::pin,
    process::Stdio,
};

use futures::StreamExt;
use hpa_testbed::{ServerHandle, Testbed};
use kube::{
    Api,
    api::DynamicObject,
    core::{ApiResource, GroupVersionKind},
    runtime::watcher::watch_object,
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::{
    process::{Child, Command},
    time::timeout,
};

use crate::harness::{NAMESPACE, WAIT_TIMEOUT};

/// Reads and writes objects in [`NAMESPACE`] without a request.
pub trait TestbedExt {
    fn apply_all(&self, objects: impl IntoIterator<Item = Value>);
    fn deployment(&self, name: &str) -> Option<Value>;
    fn hpa(&self, name: &str) -> Option<Value>;

    /// `spec.replicas` of a Deployment: 1 if unset, -1 if there is no such Deployment.
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

/// A testbed that listens on its own port until the handle is dropped.
pub struct ServedTestbed {
    testbed: Testbed,
    pub address: SocketAddr,
    pub kubeconfig: PathBuf,
    /// The directory of the kubeconfig and of the test's files.
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
        Self { testbed: testbed.clone(), address, kubeconfig, dir, _server: server }
    }

    /// Starts `hpa run` on this testbed with additional flags, and only these environment
    /// variables. `program` is the path of `hpa`.
    pub fn start_hpa(&self, program: &str, flags: &[&str], variables: &[(&str, &str)]) -> Child {
        let log = File::create(self.log_file()).expect("a log file");
        self.command(program, &["run", "--metrics-port=0", "--leader-elect=false"])
            .args(flags)
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("hpa starts")
    }

    /// A command of `hpa` on this testbed, without environment variables. Its process is killed
    /// when the handle is dropped.
    pub fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).arg("--kubeconfig").arg(&self.kubeconfig);
        command.env_clear().kill_on_drop(true);
        command
    }

    /// Waits until a Deployment has this number of replicas.
    pub async fn wait_for_replicas(&self, name: &str, expected: i64) {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("apps", "v1", "Deployment"));
        let deployments: Api<DynamicObject> =
            Api::namespaced_with(self.testbed.client(), NAMESPACE, &kind);
        let mut changes = pin!(watch_object(deployments, name));
        let reached = async {
            while let Some(change) = changes.next().await {
                let deployment = change.expect("a watch of the testbed");
                if deployment.is_some_and(|object| object.data["spec"]["replicas"] == expected) {
                    return;
                }
            }
        };
        if timeout(WAIT_TIMEOUT, reached).await.is_err() {
            let condition = self.testbed.condition(name, "ScalingActive");
            panic!("{name}: not {expected} replicas, {condition:?}: {}", self.log());
        }
    }

    /// The log of the last process of [`Self::start_hpa`].
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_file()).expect("a log file")
    }

    fn log_file(&self) -> PathBuf {
        self.dir.path().join("log")
    }
}
