//! A running API server, behind a proxy. Deletes the created objects at the end.

use std::{fs, future::Future, path::Path, pin::pin, sync::Arc};

use anyhow::{Context as _, Result};
use hpa_testbed::Testbed;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

use super::{
    cluster::Cluster,
    listener::{bind, print_progress, serve_http},
    namespaces::Namespaces,
    populate::create_workloads,
    proxy::{Backend, Proxy},
    upstream::Upstream,
};
use crate::{args::ServeArguments, load::Load, objects, objects::ObjectApi};

/// Populates the cluster, serves a proxy to it until `shutdown`, and deletes the created objects.
pub(super) async fn serve(
    arguments: &ServeArguments,
    file: &Path,
    shutdown: impl Future<Output = ()>,
) -> Result<()> {
    let config = read_config(file).await?;
    let client = Client::try_from(config.clone()).with_context(|| unusable(file))?;
    let names = objects::namespace_names(&arguments.population);
    let load = Arc::new(Load::new(&arguments.population));
    let upstream = Upstream::new(config, &names, &load).with_context(|| unusable(file))?;
    let mut namespaces = Namespaces::new(client.clone(), names);
    namespaces.ensure_absent().await?;
    let cluster = Cluster::new(arguments, ObjectApi::Shared(client), load);
    let served = populate_and_serve(arguments, &mut namespaces, &cluster, upstream, shutdown).await;
    let deleted = namespaces.delete().await;
    match (served, deleted) {
        (Err(error), Err(remaining)) => Err(error.context(format!("{remaining:#}"))),
        (served, deleted) => served.and(deleted),
    }
}

async fn populate_and_serve(
    arguments: &ServeArguments,
    namespaces: &mut Namespaces,
    cluster: &Cluster,
    upstream: Upstream,
    shutdown: impl Future<Output = ()>,
) -> Result<()> {
    let mut shutdown = pin!(shutdown);
    let mut populating = pin!(populate(namespaces, cluster));
    tokio::select! {
        populated = &mut populating => populated?,
        () = &mut shutdown => {
            // Waits for the running requests. Otherwise they could create objects after the
            // deletion.
            cluster.stop();
            let _ = populating.await;
            return Ok(());
        }
    }
    let listener = bind().await?;
    let kubeconfig = &arguments.kubeconfig;
    fs::write(kubeconfig, Testbed::kubeconfig(listener.local_addr()?))
        .with_context(|| format!("cannot write {}", kubeconfig.display()))?;
    let proxy = Proxy { backend: Backend::Upstream(Arc::new(upstream)), cluster: cluster.clone() };
    tokio::select! {
        served = serve_http(listener, proxy.router()) => served,
        () = shutdown => Ok(()),
    }
}

async fn populate(namespaces: &mut Namespaces, cluster: &Cluster) -> Result<()> {
    namespaces.create(cluster).await?;
    create_workloads(cluster).await
}

/// Reads the client configuration of the current context.
async fn read_config(file: &Path) -> Result<Config> {
    let kubeconfig = Kubeconfig::read_from(file).with_context(|| unusable(file))?;
    let context = kubeconfig.current_context.clone().unwrap_or_default();
    let problem = || format!("{}, context {context:?}", unusable(file));
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let config = config.with_context(problem)?;
    print_progress(&format!(
        "the server is {}, of context {context:?} in {}",
        config.cluster_url,
        file.display()
    ))?;
    Ok(config)
}

fn unusable(file: &Path) -> String {
    format!("cannot use the kubeconfig {}", file.display())
}
