//! The testbed as the API server.

use std::{fs, sync::Arc};

use anyhow::{Context as _, Result};
use hpa_testbed::{Config, Testbed};

use super::{
    cluster::{Cluster, Processes},
    listener::{bind, serve as serve_on},
    populate::populate,
    proxy::{Backend, Proxy},
};
use crate::{args::ServeArguments, load::Load, object_store::ObjectStore};

pub(super) async fn serve(arguments: &ServeArguments) -> Result<()> {
    let load = Arc::new(Load::new(&arguments.population));
    let testbed =
        Testbed::new(Config { metrics: Some(Arc::<Load>::clone(&load)), ..Config::default() });
    let store = ObjectStore::Testbed(testbed.clone());
    let cluster = Cluster::new(arguments, store, load, Processes::Own);
    populate(&cluster).await?;
    let listener = bind().await?;
    fs::write(&arguments.kubeconfig, Testbed::kubeconfig(listener.local_addr()?))
        .context("cannot write the kubeconfig")?;
    serve_on(listener, Proxy { backend: Backend::Testbed(testbed), cluster }.router()).await
}
