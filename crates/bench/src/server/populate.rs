//! Creates the objects of the cluster.

use anyhow::{Result, ensure};
use futures::{StreamExt as _, future::ready, stream};
use jiff::Timestamp;
use serde_json::Value;

use super::{
    cluster::Cluster,
    listener::{ProgressTimer, print_progress},
};
use crate::{
    objects,
    objects::{EXTRA_NAMESPACE, EXTRA_PREFIX, TargetId},
};

/// Concurrent requests.
const CONCURRENCY: usize = 64;

/// Creates namespaces, targets with their pods, and then autoscalers.
pub(super) async fn populate(cluster: &Cluster) -> Result<()> {
    let namespaces = objects::namespace_names(&cluster.population);
    let objects = namespaces.iter().map(|name| objects::namespace(name));
    create_all(cluster, "namespaces", namespaces.len(), objects).await?;
    create_workloads(cluster).await
}

/// Creates targets with their pods, and then autoscalers, in existing namespaces.
pub(super) async fn create_workloads(cluster: &Cluster) -> Result<()> {
    let population = &cluster.population;
    let initial: Vec<TargetId> = objects::targets(population).collect();
    // Targets of the autoscalers that are added later. They are created now, so that the controller
    // has them in its cache by then.
    let extra: Vec<TargetId> = (0..cluster.extra_count)
        .map(|index| (EXTRA_NAMESPACE.to_owned(), format!("{EXTRA_PREFIX}{index}")))
        .collect();
    let targets = || initial.iter().chain(&extra);
    for (index, (namespace, name)) in (0..).zip(targets()) {
        cluster.load.add(namespace, name, index);
    }
    let objects_per_target = population.pods as usize + 1;
    let workloads = targets().flat_map(|target| workload(target, population.pods));
    let autoscalers = initial.iter().map(|(namespace, name)| {
        cluster.recorder.record_creation(namespace, name);
        objects::autoscaler(namespace, name, population)
    });
    let count = targets().count() * objects_per_target;
    create_all(cluster, "deployments and pods", count, workloads).await?;
    create_all(cluster, "autoscalers", initial.len(), autoscalers).await?;
    print_progress(&format!("populated after {:.1?}", cluster.recorder.elapsed()))
}

/// A Deployment and its pods.
fn workload((namespace, name): &TargetId, pod_count: u32) -> impl Iterator<Item = Value> + Send {
    let deployment = objects::deployment(namespace, name, pod_count);
    let pod = move |index| objects::pod(namespace, name, index, Timestamp::now());
    std::iter::once(deployment).chain((0..pod_count).map(pod))
}

async fn create_all(
    cluster: &Cluster,
    plural: &str,
    count: usize,
    objects: impl Iterator<Item = Value> + Send,
) -> Result<()> {
    let objects = stream::iter(objects).take_while(|_| ready(!cluster.is_stopped()));
    let creations = objects.map(|object| cluster.object_api.create(object));
    let mut created = creations.buffer_unordered(CONCURRENCY).enumerate();
    let mut timer = ProgressTimer::new();
    while let Some((index, result)) = created.next().await {
        result?;
        if timer.restart_if_due() {
            print_progress(&format!("{} of {count} {plural}", index + 1))?;
        }
    }
    ensure!(!cluster.is_stopped(), "stopped before all {plural} were created");
    Ok(())
}
