//! A real etcd and kube-apiserver, with aggregated metrics APIs.

mod webhook;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use hpa_testbed::{Config, Testbed};
use hpa_tests::kube_apiserver::{ADMIN, HttpsServer, KubeApiserver, Options, Process, assets};
use hpa_tests::programs;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;
use tower::ServiceExt as _;

use self::webhook::Webhook;
use super::held_writes::HeldWrites;
use super::{AdminAccess, ControlPlane, from_json};
use crate::metrics::Metrics;
use crate::test_env::Target;

/// The chart's ClusterRole. The controller under test has no other permission.
const CLUSTER_ROLE: &str = include_str!("../../../../charts/hpa-controller/files/clusterrole.yaml");
/// The chart's Role for one namespace.
const NAMESPACED_ROLE: &str =
    include_str!("../../../../charts/hpa-controller/files/role-namespaced.yaml");
const SYSTEM_NAMESPACE: &str = "kube-system";
const ACCOUNT: &str = "hpa-controller";
/// Not the chart's name, because a scenario installs the chart.
const CLUSTER_ROLE_NAME: &str = "control-plane-suite";
const METRICS_APIS: [(&str, &str); 3] = [
    ("metrics.k8s.io", "v1beta1"),
    ("custom.metrics.k8s.io", "v1beta2"),
    ("external.metrics.k8s.io", "v1beta1"),
];

/// The running etcd and kube-apiserver.
pub(super) struct Plane {
    apiserver: KubeApiserver,
    /// Serves the metrics APIs and the webhook.
    server: HttpsServer,
    webhook: Webhook,
    controller_kubeconfig: PathBuf,
    /// The directory of the binaries.
    assets: PathBuf,
    // Dropped last: the servers must have ended when it is deleted.
    dir: TempDir,
}

impl ControlPlane for Plane {
    fn client(&self) -> Client {
        self.apiserver.client()
    }

    fn controller_kubeconfig(&self) -> &Path {
        &self.controller_kubeconfig
    }

    fn dir(&self) -> &Path {
        self.dir.path()
    }

    fn hold_scale_writes<'a>(
        &'a self,
        ns: &'a str,
        target: &'a Target,
    ) -> BoxFuture<'a, Result<HeldWrites>> {
        async move {
            let (url, ca) = (self.server.url(), self.apiserver.ca_pem());
            self.webhook.hold(self.client(), &url, &ca, ns, target).await
        }
        .boxed()
    }

    fn role_kubeconfig<'a>(&'a self, ns: &'a str) -> BoxFuture<'a, Result<PathBuf>> {
        async move {
            let role: Role = serde_saphyr::from_str(NAMESPACED_ROLE)?;
            let name = role.metadata.name.clone().context("the role has no name")?;
            let post = PostParams::default();
            Api::namespaced(self.client(), ns).create(&post, &role).await?;
            let token = self.apiserver.create_service_account_token(ns, ACCOUNT).await?;
            let binding: RoleBinding = from_json(binding("Role", &name, ns))?;
            Api::namespaced(self.client(), ns).create(&post, &binding).await?;
            self.write_kubeconfig(&format!("{ns}.kubeconfig"), &token)
        }
        .boxed()
    }

    fn minor_version(&self) -> Result<u32> {
        assets::minor_version(&self.assets)
    }

    fn start_reference(&self) -> Result<Option<Process>> {
        self.controller_manager(
            "kube-controller-manager",
            &[
                "--controllers=horizontal-pod-autoscaler-controller",
                "--horizontal-pod-autoscaler-sync-period=1s",
                "--horizontal-pod-autoscaler-downscale-stabilization=2s",
            ],
        )
    }

    fn start_workload_controllers(&self) -> Result<Option<Process>> {
        let controllers =
            "--controllers=deployment-controller,replicaset-controller,job-controller";
        self.controller_manager("workload-controllers", &[controllers])
    }

    fn admin_access(&self) -> Result<AdminAccess> {
        let kubeconfig = self.write_kubeconfig("user.kubeconfig", ADMIN)?;
        Ok(AdminAccess { kubectl: self.assets.join("kubectl"), kubeconfig })
    }

    fn account_kubeconfig<'a>(
        &'a self,
        ns: &'a str,
        account: &'a str,
    ) -> BoxFuture<'a, Result<PathBuf>> {
        async move {
            let token = self.apiserver.create_service_account_token(ns, account).await?;
            self.write_kubeconfig(&format!("{ns}-{account}.kubeconfig"), &token)
        }
        .boxed()
    }

    /// The controller has the chart's ClusterRole and no other permission.
    fn check_permissions(&self, controller: &Process) -> Result<()> {
        let forbidden = controller.tail(5, "forbidden");
        ensure!(forbidden.is_empty(), "the ClusterRole does not suffice:\n{forbidden}");
        Ok(())
    }
}

/// The flag for the features of autoscaling/v2 that aren't on by default in this version.
fn feature_gates(assets: &Path) -> Result<String> {
    // An unknown gate would be an error.
    let tolerance =
        if assets::minor_version(assets)? >= 33 { ",HPAConfigurableTolerance=true" } else { "" };
    Ok(format!("--feature-gates=HPAScaleToZero=true{tolerance}"))
}

impl Plane {
    /// Starts kube-controller-manager, whose log gets the name `log`. Returns `None` if it is not
    /// installed.
    fn controller_manager(&self, log: &str, flags: &[&str]) -> Result<Option<Process>> {
        let binary = self.assets.join("kube-controller-manager");
        if !binary.is_file() {
            let reason = format!("{} does not exist", binary.display());
            programs::skip("kube-controller-manager", reason);
            return Ok(None);
        }
        let kubeconfig = self.write_kubeconfig(&format!("{log}.kubeconfig"), ADMIN)?;
        let mut command = Command::new(binary);
        command.args(flags).args([
            &feature_gates(&self.assets)?,
            "--kube-api-qps=200",
            "--kube-api-burst=400",
            "--leader-elect=false",
            "--secure-port=0",
            &format!("--kubeconfig={}", kubeconfig.display()),
        ]);
        Process::start(self.dir(), log, command).map(Some)
    }

    pub(super) async fn start(assets: &Path, metrics: Metrics) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("hpa-control-plane-").tempdir()?;
        let options = Options::new(assets).flag(&feature_gates(assets)?);
        let mut apiserver = KubeApiserver::start(options, dir.path()).await?;
        let controller_kubeconfig = dir.path().join("controller.kubeconfig");
        let webhook = Webhook::default();
        let router = metrics_router(metrics).merge(webhook.router());
        let server = apiserver.https_server(router).await?;
        apiserver.aggregate(&server, &METRICS_APIS).await?;
        let assets = assets.to_owned();
        let plane = Self { apiserver, server, webhook, controller_kubeconfig, assets, dir };
        plane.grant_cluster_role().await?;
        Ok(plane)
    }

    /// Binds the controller's service account to the chart's ClusterRole, and writes its
    /// kubeconfig.
    async fn grant_cluster_role(&self) -> Result<()> {
        let mut role: ClusterRole = serde_saphyr::from_str(CLUSTER_ROLE)?;
        role.metadata.name = Some(CLUSTER_ROLE_NAME.to_owned());
        let post = PostParams::default();
        Api::all(self.client()).create(&post, &role).await?;
        let token = self.apiserver.create_service_account_token(SYSTEM_NAMESPACE, ACCOUNT).await?;
        let binding: ClusterRoleBinding =
            from_json(binding("ClusterRole", CLUSTER_ROLE_NAME, SYSTEM_NAMESPACE))?;
        Api::all(self.client()).create(&post, &binding).await?;
        self.write_kubeconfig("controller.kubeconfig", &token)?;
        Ok(())
    }

    fn write_kubeconfig(&self, name: &str, token: &str) -> Result<PathBuf> {
        let path = self.dir.path().join(name);
        std::fs::write(&path, self.apiserver.kubeconfig(token).to_string())?;
        Ok(path)
    }
}

/// Binds the service account of a namespace to a role.
fn binding(kind: &str, role: &str, ns: &str) -> Value {
    json!({
        "metadata": {"name": role},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": ns}],
    })
}

/// Serves the metrics APIs of an empty testbed: both control planes respond to metric queries in
/// the same way.
fn metrics_router(metrics: Metrics) -> Router {
    let testbed = Testbed::new(Config { metrics: Some(Arc::new(metrics)), ..Config::default() });
    Router::new().fallback(serve_metrics).with_state(testbed)
}

async fn serve_metrics(State(testbed): State<Testbed>, request: Request) -> Response {
    let group = request.uri().path().strip_prefix("/apis/").unwrap_or_default();
    if !group.split('/').next().is_some_and(|group| group.ends_with("metrics.k8s.io")) {
        return StatusCode::NOT_FOUND.into_response();
    }
    match testbed.service().oneshot(request).await {
        Ok(response) => response,
        Err(_) => StatusCode::BAD_GATEWAY.into_response(),
    }
}
