//! The testbed, served over loopback.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, bail};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use hpa_testbed::{Action, Config, RequestInfo, ServerHandle, Testbed};
use hpa_tests::kube_apiserver::Process;
use kube::Client;
use kube::config::Kubeconfig;
use tempfile::TempDir;

use super::held_writes::{HeldWrites, Holds};
use super::{AdminAccess, ControlPlane, client};
use crate::metrics::Metrics;
use crate::test_env::Target;

pub(super) struct Plane {
    client: Client,
    kubeconfig: PathBuf,
    holds: Holds,
    _serving: ServerHandle,
    dir: TempDir,
}

impl Plane {
    pub(super) async fn start(metrics: Metrics) -> Result<Self> {
        let holds = Holds::default();
        let interceptor = holds.clone();
        let testbed = Testbed::new(Config {
            metrics: Some(Arc::new(metrics)),
            interceptor: Some(Arc::new(move |request: &RequestInfo| {
                intercept(&interceptor, request)
            })),
            ..Config::default()
        });
        let (address, serving) = testbed.serve(([127, 0, 0, 1], 0).into()).await?;
        let dir = tempfile::Builder::new().prefix("hpa-testbed-").tempdir()?;
        let kubeconfig = dir.path().join("controller.kubeconfig");
        let text = Testbed::kubeconfig(address);
        std::fs::write(&kubeconfig, &text)?;
        let client = client(Kubeconfig::from_yaml(&text)?).await?;
        Ok(Self { client, kubeconfig, holds, _serving: serving, dir })
    }
}

fn intercept(holds: &Holds, request: &RequestInfo) -> Action {
    let is_write = matches!(request.verb.as_str(), "update" | "patch");
    if !is_write
        || (request.resource.as_str(), request.subresource.as_str()) != ("deployments", "scale")
    {
        return Action::Pass;
    }
    holds.gate_for(&request.namespace).map_or(Action::Pass, Action::Hold)
}

impl ControlPlane for Plane {
    fn client(&self) -> Client {
        self.client.clone()
    }

    fn controller_kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    fn dir(&self) -> &Path {
        self.dir.path()
    }

    fn hold_scale_writes<'a>(
        &'a self,
        ns: &'a str,
        _: &'a Target,
    ) -> BoxFuture<'a, Result<HeldWrites>> {
        let held = self.holds.hold(ns);
        async { Ok(held) }.boxed()
    }

    fn role_kubeconfig<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<PathBuf>> {
        async { Ok(self.kubeconfig.clone()) }.boxed()
    }

    /// The version whose decisions are recorded.
    fn minor_version(&self) -> Result<u32> {
        Ok(36)
    }

    fn start_reference(&self) -> Result<Option<Process>> {
        Ok(None)
    }

    fn start_workload_controllers(&self) -> Result<Option<Process>> {
        Ok(None)
    }

    fn admin_access(&self) -> Result<AdminAccess> {
        bail!("the testbed has no users")
    }

    fn account_kubeconfig<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<PathBuf>> {
        async { Ok(self.kubeconfig.clone()) }.boxed()
    }

    /// The testbed has no authorization.
    fn check_permissions(&self, _: &Process) -> Result<()> {
        Ok(())
    }
}
