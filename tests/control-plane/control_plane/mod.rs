//! What the scenarios run against: all in which one control plane differs from another is here.

mod held;
mod kube_apiserver;
mod testbed;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use futures::future::BoxFuture;
use hpa_kube_apiserver::Process;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::Value;

pub(crate) use self::held::HeldWrites;
use crate::metrics::Metrics;
use crate::world::Target;

/// A running control plane; all of it ends when this is dropped.
pub(crate) trait ControlPlane: Send + Sync {
    /// A cluster administrator's client.
    fn client(&self) -> Client;

    /// What the controller under test gets.
    fn controller_kubeconfig(&self) -> &Path;

    /// Where logs and other files go.
    fn dir(&self) -> &Path;

    /// From now on, writes of the scales of deployments in the namespace `ns`, that of `target`, wait: they have
    /// arrived, and what they write changes before they go on.
    fn hold_scale_writes<'a>(
        &'a self,
        ns: &'a str,
        target: &'a Target,
    ) -> BoxFuture<'a, Result<HeldWrites>>;

    /// What a controller gets that has the chart's Role for one namespace there, and no other right.
    fn role_kubeconfig<'a>(&'a self, ns: &'a str) -> BoxFuture<'a, Result<PathBuf>>;

    /// Starts the reference controller with the settings of the one under test, for all namespaces. `None` where there
    /// is none.
    fn reference(&self) -> Result<Option<Process>>;

    /// Whether the rights that the controller has sufficed for all that it did.
    fn rights_sufficed(&self, controller: &Process) -> Result<()>;
}

/// A control plane that can be started.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// The API server in memory, served over loopback.
    Testbed,
    /// An etcd and a kube-apiserver, with the directory of their binaries.
    KubeApiserver(PathBuf),
}

impl Kind {
    /// Starts it; its metrics APIs answer with `metrics`.
    pub(crate) async fn start(&self, metrics: Metrics) -> Result<Arc<dyn ControlPlane>> {
        Ok(match self {
            Self::Testbed => Arc::new(testbed::Plane::start(metrics).await?),
            Self::KubeApiserver(assets) => {
                Arc::new(kube_apiserver::Plane::start(assets, metrics).await?)
            }
        })
    }
}

/// A typed object of its JSON.
pub(crate) fn from<K: serde::de::DeserializeOwned>(value: Value) -> Result<K> {
    serde_json::from_value(value).map_err(Into::into)
}

async fn client(kubeconfig: Kubeconfig) -> Result<Client> {
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}
