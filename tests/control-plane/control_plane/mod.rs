//! The control planes for scenarios, and all differences between them.

mod held_writes;
mod kube_apiserver;
mod testbed;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use futures::future::BoxFuture;
use hpa_tests::kube_apiserver::Process;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::Value;

pub(crate) use self::held_writes::HeldWrites;
use crate::metrics::Metrics;
use crate::test_env::Target;

/// A running control plane. Dropping it stops all its processes.
pub(crate) trait ControlPlane: Send + Sync {
    /// A client with all permissions.
    fn client(&self) -> Client;

    /// The kubeconfig of the controller under test.
    fn controller_kubeconfig(&self) -> &Path;

    /// The directory for logs and other files.
    fn dir(&self) -> &Path;

    /// Holds the scale writes of all Deployments in the namespace `ns`, between their arrival and
    /// their effect. The test can change the objects during that time. `target` is one of these
    /// Deployments: writes of its scale probe the webhook.
    fn hold_scale_writes<'a>(
        &'a self,
        ns: &'a str,
        target: &'a Target,
    ) -> BoxFuture<'a, Result<HeldWrites>>;

    /// The kubeconfig of a controller that has the chart's Role for one namespace and no other
    /// permission.
    fn role_kubeconfig<'a>(&'a self, ns: &'a str) -> BoxFuture<'a, Result<PathBuf>>;

    /// The minor version of Kubernetes and of the reference controller, for example 36.
    fn minor_version(&self) -> Result<u32>;

    /// Starts the reference controller for all namespaces, with the settings of the controller
    /// under test. Returns `None` if it is not installed.
    fn start_reference(&self) -> Result<Option<Process>>;

    /// Starts the controllers of Deployments, `ReplicaSets` and Jobs. Returns `None` if they are
    /// not installed.
    fn start_workload_controllers(&self) -> Result<Option<Process>>;

    /// The access of an administrator. Fails on the testbed, which has no users.
    fn admin_access(&self) -> Result<AdminAccess>;

    /// The kubeconfig of a service account, which is created if it doesn't exist.
    fn account_kubeconfig<'a>(
        &'a self,
        ns: &'a str,
        account: &'a str,
    ) -> BoxFuture<'a, Result<PathBuf>>;

    /// Fails if the API server denied a request of the controller.
    fn check_permissions(&self, controller: &Process) -> Result<()>;
}

/// The tools and credentials of a cluster administrator.
pub(crate) struct AdminAccess {
    /// The path of kubectl. The file may not exist.
    pub(crate) kubectl: PathBuf,
    pub(crate) kubeconfig: PathBuf,
}

#[derive(Clone, Debug)]
pub(crate) enum PlaneKind {
    /// The testbed, served over loopback.
    Testbed,
    /// etcd and kube-apiserver, and the directory of their binaries.
    KubeApiserver(PathBuf),
}

impl PlaneKind {
    pub(crate) async fn start(&self, metrics: Metrics) -> Result<Arc<dyn ControlPlane>> {
        Ok(match self {
            Self::Testbed => Arc::new(testbed::Plane::start(metrics).await?),
            Self::KubeApiserver(assets) => {
                Arc::new(kube_apiserver::Plane::start(assets, metrics).await?)
            }
        })
    }
}

pub(crate) fn from_json<K: serde::de::DeserializeOwned>(value: Value) -> Result<K> {
    serde_json::from_value(value).map_err(Into::into)
}

async fn client(kubeconfig: Kubeconfig) -> Result<Client> {
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}
