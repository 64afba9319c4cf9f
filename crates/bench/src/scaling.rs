//! Plays the workload controllers and the kubelets: a target that was scaled gets its pods at once.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::sync::mpsc;

use crate::{load::Load, objects, store::Store};

/// Namespace and name of a target whose scale was written.
pub(crate) type Scaled = (String, String);

/// Follows until nobody can scale any more.
pub(crate) async fn follow(
    store: Store,
    load: Arc<Load>,
    mut scaled: mpsc::UnboundedReceiver<Scaled>,
) {
    while let Some((namespace, name)) = scaled.recv().await {
        if let Err(error) = adapt(&store, &load, &namespace, &name).await {
            eprintln!(
                "hpa-bench: {namespace}/{name} was scaled, but its pods did not follow: {error:#}"
            );
        }
    }
}

async fn adapt(store: &Store, load: &Load, namespace: &str, name: &str) -> Result<()> {
    let deployments = store.deployments(namespace);
    let deployment = deployments.get(name).await?;
    let wanted =
        deployment.data.pointer("/spec/replicas").and_then(serde_json::Value::as_u64).unwrap_or(1);
    let wanted = u32::try_from(wanted)?;
    let present = load.replicas(namespace, name).context("there is no such load")?;
    for index in present..wanted {
        store.create(objects::pod(namespace, name, index, Timestamp::now())).await?;
    }
    for index in wanted..present {
        store.delete_pod(namespace, &objects::pod_name(name, index)).await?;
    }
    load.set_replicas(namespace, name, wanted);
    // A patch: the controller may write the scale meanwhile.
    let status = Patch::Merge(json!({ "status": objects::deployment_status(wanted) }));
    deployments.patch_status(name, &PatchParams::default(), &status).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::expect_used,
        clippy::indexing_slicing,
        reason = "a test may stop where it was misled"
    )]

    use std::time::Duration;

    use hpa_testbed::Testbed;

    use super::*;
    use crate::args::{Change, Metric, Population};

    #[tokio::test]
    async fn scaled_target_gets_its_pods_and_its_status() {
        let (metric, change, period) = (Metric::Cpu, Change::Steady, Duration::from_hours(1));
        let population =
            Population { autoscalers: 1, pods: 0, namespaces: 1, metric, change, period };
        let (testbed, load) = (Testbed::default(), Load::new(&population));
        load.add("n", "a", 0);
        testbed.apply(objects::namespace("n")).expect("a namespace");
        for wanted in [3, 5, 2, 0] {
            let mut deployment = objects::deployment("n", "a", wanted);
            deployment["status"] = objects::deployment_status(0);
            testbed.apply(deployment).expect("a target");
            adapt(&Store::Testbed(testbed.clone()), &load, "n", "a").await.expect("pods follow");
            let names =
                testbed.list("v1", "Pod").into_iter().map(|pod| pod["metadata"]["name"].clone());
            let expected: Vec<String> =
                (0..wanted).map(|index| objects::pod_name("a", index)).collect();
            assert_eq!(names.collect::<Vec<_>>(), expected);
            let deployment = testbed.get("apps/v1", "Deployment", "n", "a").expect("a target");
            // A zero is left out.
            let ready = deployment["status"]["readyReplicas"].as_u64().unwrap_or_default();
            assert_eq!(ready, u64::from(wanted));
            assert_eq!(load.replicas("n", "a"), Some(wanted));
        }
    }
}
