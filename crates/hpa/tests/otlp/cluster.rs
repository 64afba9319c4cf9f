//! The binary, running against a testbed.

use std::{process::ExitStatus, sync::Arc, time::Duration};

use hpa_testbed::{Action, Config, RequestInfo, Testbed};
use hpa_tests::harness::{ServedTestbed, SettableMetrics, TestbedExt, objects};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::{process::Child, sync::watch, time::timeout};

/// Timeout of every wait, more than ten times the expected duration.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// The autoscaler `web`, which scales to its maximum and has a failing metric, and the autoscaler
/// `lost`, whose target does not exist.
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

/// A controller process and its testbed.
pub(crate) struct ControllerProcess {
    testbed: Testbed,
    served: ServedTestbed,
    child: Child,
    /// Requests for the scale of `web`: one per reconcile, and one for the write.
    pub(crate) scale_requests: watch::Receiver<usize>,
    status_writes: watch::Receiver<usize>,
}

impl ControllerProcess {
    /// Starts `hpa run` with additional flags, and no environment variables except these.
    pub(crate) async fn start(flags: &[&str], variables: &[(&str, &str)]) -> Self {
        let (scale, scale_requests) = watch::channel(0);
        let (status, status_writes) = watch::channel(0);
        let count = move |request: &RequestInfo| {
            match (request.subresource.as_str(), request.name.as_str()) {
                ("scale", "web") => scale.send_modify(|count| *count += 1),
                ("status", _) => status.send_modify(|count| *count += 1),
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
        let child = served.start_hpa(env!("CARGO_BIN_EXE_hpa"), flags, variables);
        Self { testbed, served, child, scale_requests, status_writes }
    }

    pub(crate) async fn wait_for_scale_requests(&mut self, count: usize) {
        let reached = self.scale_requests.wait_for(|requests| *requests >= count);
        timeout(LIMIT, reached).await.expect("in time").unwrap();
    }

    pub(crate) async fn wait_for_status_writes(&mut self, count: usize) {
        let reached = self.status_writes.wait_for(|writes| *writes >= count);
        timeout(LIMIT, reached).await.expect("in time").unwrap();
    }

    /// Stops it with SIGTERM. Returns its log and the replicas of `web`.
    pub(crate) async fn stop(mut self) -> (String, i64) {
        let pid =
            self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        let (status, log) = self.wait_for_exit().await;
        assert!(status.success(), "{status}: {log}");
        (log, self.testbed.replicas("web"))
    }

    /// Returns its exit status and its log.
    pub(crate) async fn wait_for_exit(&mut self) -> (ExitStatus, String) {
        let status = timeout(LIMIT, self.child.wait()).await.expect("in time").unwrap();
        (status, self.served.log())
    }
}
