//! Creates and deletes pods when targets are scaled.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::{
    load::Load,
    objects::{self, ObjectApi, TargetId},
};

/// Runs until all senders of `scaled` are dropped.
pub(super) async fn follow_scale(
    object_api: ObjectApi,
    load: Arc<Load>,
    mut scaled: mpsc::UnboundedReceiver<TargetId>,
) {
    while let Some((namespace, name)) = scaled.recv().await {
        if let Err(error) = scale_pods(&object_api, &load, &namespace, &name).await {
            eprintln!("hpa-bench: cannot scale the pods of {namespace}/{name}: {error:#}");
        }
    }
}

async fn scale_pods(
    object_api: &ObjectApi,
    load: &Load,
    namespace: &str,
    name: &str,
) -> Result<()> {
    let deployments = object_api.deployments(namespace);
    let deployment = deployments.get(name).await?;
    let desired = deployment.data.pointer("/spec/replicas").and_then(Value::as_u64).unwrap_or(1);
    let desired = u32::try_from(desired)?;
    let present = load.replicas(namespace, name).context("unknown target")?;
    for index in present..desired {
        object_api.create(objects::pod(namespace, name, index, Timestamp::now())).await?;
    }
    for index in desired..present {
        object_api.delete_pod(namespace, &objects::pod_name(name, index)).await?;
    }
    load.set_replicas(namespace, name, desired);
    // A patch, because the controller may write the scale at the same time.
    let status = Patch::Merge(json!({ "status": objects::deployment_status(desired) }));
    deployments.patch_status(name, &PatchParams::default(), &status).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use hpa_testbed::Testbed;

    use super::*;
    use crate::args::{Population, tests::population};

    #[tokio::test]
    async fn scaled_target_gets_its_pods_and_its_status() {
        let population = Population { pods: 0, ..population(&[]) };
        let (testbed, load) = (Testbed::default(), Load::new(&population));
        load.add("n", "a", 0);
        testbed.apply(objects::namespace("n")).expect("a namespace");
        for desired in [3, 5, 2, 0] {
            let mut deployment = objects::deployment("n", "a", desired);
            deployment["status"] = objects::deployment_status(0);
            testbed.apply(deployment).expect("a target");
            scale_pods(&ObjectApi::Testbed(testbed.clone()), &load, "n", "a")
                .await
                .expect("pods are scaled");
            let names =
                testbed.list("v1", "Pod").into_iter().map(|pod| pod["metadata"]["name"].clone());
            let expected: Vec<String> =
                (0..desired).map(|index| objects::pod_name("a", index)).collect();
            assert_eq!(names.collect::<Vec<_>>(), expected);
            let deployment = testbed.get("apps/v1", "Deployment", "n", "a").expect("a target");
            // Zero is omitted.
            let ready = deployment["status"]["readyReplicas"].as_u64().unwrap_or_default();
            assert_eq!(ready, u64::from(desired));
            assert_eq!(load.replicas("n", "a"), Some(desired));
        }
    }
}
