//! Fills the server.

use std::{
    io::Write as _,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use futures::{StreamExt as _, future::ready, stream};
use jiff::Timestamp;
use serde_json::Value;

use crate::{
    cluster::Cluster,
    objects,
    record::{EXTRA, EXTRA_NAMESPACE},
};

/// How many objects are created at the same time.
const CONCURRENCY: usize = 64;
/// How often it is told how far it is.
pub(crate) const TELL: Duration = Duration::from_secs(5);

/// A target to be.
struct Target {
    namespace: String,
    name: String,
}

/// Creates namespaces, targets, pods, and at last autoscalers; tells on the standard output how far it is.
pub(crate) async fn populate(cluster: &Cluster) -> Result<()> {
    let namespaces = objects::namespaces(&cluster.population);
    let objects = namespaces.iter().map(|name| objects::namespace(name));
    create_all(cluster, "namespaces", namespaces.len(), objects).await?;
    fill(cluster).await
}

/// As [`populate`], in namespaces that are there.
pub(crate) async fn fill(cluster: &Cluster) -> Result<()> {
    let population = &cluster.population;
    let namespaces = objects::namespaces(population);
    let places = (0..population.autoscalers).zip(namespaces.iter().cycle());
    let first: Vec<Target> = places
        .map(|(index, namespace)| Target {
            namespace: namespace.clone(),
            name: format!("app-{index}"),
        })
        .collect();
    // Long before their autoscalers: else a controller could see these before the pods.
    let later: Vec<Target> = (0..cluster.extra)
        .map(|index| Target {
            namespace: EXTRA_NAMESPACE.to_owned(),
            name: format!("{EXTRA}{index}"),
        })
        .collect();
    let targets = || first.iter().chain(&later);
    for (index, target) in (0..).zip(targets()) {
        cluster.load.add(&target.namespace, &target.name, index);
    }
    let per_target = population.pods as usize + 1;
    let of_targets = targets().flat_map(|target| workload(target, population.pods));
    let autoscalers = first.iter().map(|target| {
        cluster.record.creates(&target.namespace, &target.name);
        objects::autoscaler(&target.namespace, &target.name, population)
    });
    let count = targets().count() * per_target;
    create_all(cluster, "deployments and pods", count, of_targets).await?;
    create_all(cluster, "autoscalers", first.len(), autoscalers).await?;
    say(&format!("populated after {:.1?}", cluster.record.elapsed()))
}

/// A Deployment and its pods.
fn workload(target: &Target, pods: u32) -> impl Iterator<Item = Value> + Send {
    let Target { namespace, name } = target;
    let deployment = objects::deployment(namespace, name, pods);
    let pods = (0..pods).map(|index| objects::pod(namespace, name, index, Timestamp::now()));
    std::iter::once(deployment).chain(pods)
}

async fn create_all(
    cluster: &Cluster,
    what: &str,
    count: usize,
    objects: impl Iterator<Item = Value> + Send,
) -> Result<()> {
    let objects = stream::iter(objects).take_while(|_| ready(!cluster.is_stopped()));
    let creations = objects.map(|object| cluster.store.create(object));
    let mut created = creations.buffer_unordered(CONCURRENCY).enumerate();
    let mut told = Instant::now();
    while let Some((index, result)) = created.next().await {
        result?;
        if told.elapsed() >= TELL {
            told = Instant::now();
            say(&format!("{} of {count} {what}", index + 1))?;
        }
    }
    ensure!(!cluster.is_stopped(), "told to end before all {what} were created");
    Ok(())
}

/// Tells whoever started this.
pub(crate) fn say(line: &str) -> Result<()> {
    let mut output = std::io::stdout();
    writeln!(output, "{line}")?;
    Ok(output.flush()?)
}
