//! Runs the operator against the in-memory API server of `hpa-testbed`.

#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "test")]

use std::{
    net::Ipv4Addr,
    process::{Child, Command},
    time::Duration,
};

use hpa_testbed::Testbed;
use serde_json::{Value, json};

struct Operator(Child);

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn deployment(replicas: i64, jobs: &str) -> Value {
    let autoscale = json!({
        "minReplicas": 1,
        "maxReplicas": 10,
        "metrics": [{
            "type": "External",
            "external": {
                "metric": { "name": "jobs" },
                "target": { "type": "AverageValue", "averageValue": "10" },
            },
        }],
        "behavior": { "scaleDown": { "stabilizationWindowSeconds": 0 } },
    });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": "worker",
            "namespace": "default",
            "annotations": {
                "example.com/autoscale": autoscale.to_string(),
                "example.com/jobs": jobs,
            },
        },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "app": "worker" } },
            "template": {
                "metadata": { "labels": { "app": "worker" } },
                "spec": { "containers": [{ "name": "app", "image": "none" }] },
            },
        },
        "status": { "replicas": replicas },
    })
}

async fn wait_for_replicas(testbed: &Testbed, expected: i64) {
    let mut replicas = Value::Null;
    for _ in 0..300 {
        let deployment = testbed.get("apps/v1", "Deployment", "default", "worker");
        replicas = deployment.expect("the Deployment exists")["spec"]["replicas"].clone();
        if replicas == expected {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{replicas} replicas after 30 s, expected {expected}");
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_scales_a_deployment_by_its_jobs() {
    let testbed = Testbed::default();
    let address = (Ipv4Addr::LOCALHOST, 0).into();
    let (address, _server) = testbed.serve(address).await.expect("a free port");
    testbed.apply(deployment(1, "35")).expect("a valid Deployment");
    let kubeconfig = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(&kubeconfig, Testbed::kubeconfig(address)).expect("a writable file");
    let mut operator = Command::new(env!("CARGO_BIN_EXE_embed-operator"));
    operator.env("KUBECONFIG", kubeconfig.path());
    let _operator = Operator(operator.spawn().expect("the operator starts"));

    wait_for_replicas(&testbed, 4).await;
    testbed.apply(deployment(4, "12")).expect("a valid Deployment");
    wait_for_replicas(&testbed, 2).await;
}
