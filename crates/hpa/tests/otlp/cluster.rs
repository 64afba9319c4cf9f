//! A cluster in memory, and the binary that runs against it.

use std::{
    fs,
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use hpa_test_harness::{ServedTestbed, SettableMetrics, TestbedExt, objects};
use hpa_testbed::{Action, Config, RequestInfo, Testbed};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::{
    process::{Child, Command},
    sync::watch,
    time::timeout,
};

/// How long anything may take; nothing takes a tenth of it.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Objects of an autoscaler that scales to its limit, and of which one metric fails; and of an
/// autoscaler without a target.
fn objects() -> [Value; 5] {
    let cpu = objects::cpu_metric(50);
    let mut container_cpu = cpu["resource"].clone();
    container_cpu["container"] = "app".into();
    let hits = json!({
        "describedObject": { "kind": "Service", "name": "front", "apiVersion": "v1" },
        "metric": { "name": "hits" },
        "target": { "type": "AverageValue", "averageValue": "1" },
    });
    let metrics = [
        cpu.clone(),
        json!({ "type": "ContainerResource", "containerResource": container_cpu }),
        objects::pods_metric("requests", "1"),
        json!({ "type": "Object", "object": hits }),
        objects::external_metric("jobs", "1"),
        objects::external_metric(SettableMetrics::MISSING, "1"),
    ];
    [
        objects::namespace(),
        objects::running_deployment("web", 1),
        objects::pod("web", 0),
        objects::hpa("web", 1..=2, metrics),
        objects::hpa("lost", 1..=2, [cpu]),
    ]
}

/// The controller, and the cluster it runs against.
pub(crate) struct Running {
    testbed: Testbed,
    served: ServedTestbed,
    child: Child,
    /// How often the target of `web` was looked at: once for each reconcile, and once for the write.
    pub(crate) looks: watch::Receiver<usize>,
    /// How many statuses were written.
    statuses: watch::Receiver<usize>,
}

impl Running {
    /// Starts it, with these flags and variables besides.
    pub(crate) async fn start(flags: &[&str], variables: &[(&str, &str)]) -> Self {
        let (look, looks) = watch::channel(0);
        let (status, statuses) = watch::channel(0);
        let count = move |request: &RequestInfo| {
            match (request.subresource.as_str(), request.name.as_str()) {
                ("scale", "web") => look.send_modify(|looks| *looks += 1),
                ("status", _) => status.send_modify(|statuses| *statuses += 1),
                _ => {}
            }
            Action::Pass
        };
        let config = Config {
            metrics: Some(Arc::new(SettableMetrics::default())),
            interceptor: Some(Arc::new(count)),
            ..Config::default()
        };
        let testbed = Testbed::new(config);
        testbed.apply_all(objects());
        let served = ServedTestbed::new(&testbed).await;
        let log = fs::File::create(served.folder.path().join("log")).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_hpa"))
            .args(["run", "--metrics-port=0", "--leader-elect=false", "--kubeconfig"])
            .arg(&served.kubeconfig)
            .args(flags)
            // The caller's settings are not the test's.
            .env_clear()
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Self { testbed, served, child, looks, statuses }
    }

    /// Waits until the target of `web` was looked at so often.
    pub(crate) async fn has_looked(&mut self, times: usize) {
        let looked = self.looks.wait_for(|looks| *looks >= times);
        timeout(LIMIT, looked).await.expect("in time").unwrap();
    }

    /// Waits until so many statuses were written.
    pub(crate) async fn has_written(&mut self, statuses: usize) {
        let written = self.statuses.wait_for(|written| *written >= statuses);
        timeout(LIMIT, written).await.expect("in time").unwrap();
    }

    /// Ends it in an orderly way. What it logged, and the replicas that `web` has then.
    pub(crate) async fn stop(mut self) -> (String, i64) {
        let pid =
            self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        let (status, log) = self.end().await;
        assert!(status.success(), "{status}: {log}");
        (log, self.testbed.replicas("web"))
    }

    /// Waits for its end.
    pub(crate) async fn end(&mut self) -> (ExitStatus, String) {
        let status = timeout(LIMIT, self.child.wait()).await.expect("in time").unwrap();
        (status, fs::read_to_string(self.served.folder.path().join("log")).unwrap())
    }
}
