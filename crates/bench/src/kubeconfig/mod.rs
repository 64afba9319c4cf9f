//! An API server that runs already: a front before it, and in it what has to be cleaned up.

mod namespaces;
mod upstream;

use std::{fs, future::Future, path::Path, pin::pin, sync::Arc};

use anyhow::{Context as _, Result};
use hpa_testbed::Testbed;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

use self::namespaces::Namespaces;
pub(crate) use self::upstream::Upstream;
use crate::{
    args::ServeArguments,
    cluster::{Cluster, Processes},
    front::{Backend, Front},
    load::Load,
    objects,
    populate::{fill, say},
    process::end_in_good_order,
    serve::{answer, listen},
    store::Store,
};

/// Populates the cluster, and serves as the way into it until it is told to end; then deletes what it has created.
pub(crate) async fn serve(
    arguments: &ServeArguments,
    file: &Path,
    told_to_end: impl Future<Output = ()>,
) -> Result<()> {
    end_in_good_order()?;
    let config = read(file).await?;
    let client = Client::try_from(config.clone()).with_context(|| of_file(file))?;
    let names = objects::namespaces(&arguments.population);
    let load = Arc::new(Load::new(&arguments.population));
    let upstream = Upstream::new(config, &names, &load).with_context(|| of_file(file))?;
    let mut namespaces = Namespaces::new(client.clone(), names);
    namespaces.ensure_absent().await?;
    let cluster = Cluster::new(arguments, Store::Shared(client), load, Processes::Elsewhere);
    let served =
        populate_and_serve(arguments, &mut namespaces, &cluster, upstream, told_to_end).await;
    let removed = namespaces.remove().await;
    match (served, removed) {
        (Err(error), Err(remains)) => Err(error.context(format!("{remains:#}"))),
        (served, removed) => served.and(removed),
    }
}

async fn populate_and_serve(
    arguments: &ServeArguments,
    namespaces: &mut Namespaces,
    cluster: &Cluster,
    upstream: Upstream,
    told_to_end: impl Future<Output = ()>,
) -> Result<()> {
    let mut told_to_end = pin!(told_to_end);
    let mut populating = pin!(populate(namespaces, cluster));
    tokio::select! {
        populated = &mut populating => populated?,
        () = &mut told_to_end => {
            // What is on its way would come after all was deleted.
            cluster.stop();
            let _ = populating.await;
            return Ok(());
        }
    }
    let listener = listen().await?;
    let kubeconfig = &arguments.kubeconfig;
    fs::write(kubeconfig, Testbed::kubeconfig(listener.local_addr()?))
        .with_context(|| format!("cannot write {}", kubeconfig.display()))?;
    let front = Front { behind: Backend::Api(Arc::new(upstream)), cluster: cluster.clone() };
    tokio::select! {
        served = answer(listener, front.router()) => served,
        () = told_to_end => Ok(()),
    }
}

async fn populate(namespaces: &mut Namespaces, cluster: &Cluster) -> Result<()> {
    namespaces.create(cluster).await?;
    fill(cluster).await
}

/// How the current context of a kubeconfig says to reach the server.
async fn read(file: &Path) -> Result<Config> {
    let kubeconfig = Kubeconfig::read_from(file).with_context(|| of_file(file))?;
    let context = kubeconfig.current_context.clone().unwrap_or_default();
    let what = || format!("{}, context {context:?}", of_file(file));
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let config = config.with_context(what)?;
    say(&format!(
        "the server is {}, of context {context:?} in {}",
        config.cluster_url,
        file.display()
    ))?;
    Ok(config)
}

fn of_file(file: &Path) -> String {
    format!("cannot use the kubeconfig {}", file.display())
}
