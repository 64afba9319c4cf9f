//! One etcd and one kube-apiserver, with an aggregated metrics API.

mod base64;
mod metrics_server;
mod pki;
mod webhook;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, Service, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::PostParams;
use kube::config::Kubeconfig;
use kube::{Api, Client};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;
use tokio::time::{Instant, sleep};

use self::metrics_server::MetricsServer;
use self::pki::Authority;
use self::webhook::Webhook;
use super::held::HeldWrites;
use super::{ControlPlane, client, from};
use crate::metrics::Metrics;
use crate::process::Process;
use crate::world::Target;

/// What a slow, loaded machine may need.
const START: Duration = Duration::from_secs(90);
/// The role that the chart ships: all that the controller under test may do.
const CLUSTER_ROLE: &str = include_str!("../../../../charts/hpa-controller/files/clusterrole.yaml");
/// The one that it ships for a namespace.
const NAMESPACED_ROLE: &str =
    include_str!("../../../../charts/hpa-controller/files/role-namespaced.yaml");
const SYSTEM: &str = "kube-system";
const ACCOUNT: &str = "hpa-controller";
/// The service by which the API server finds the aggregated metrics API.
const METRICS_SERVICE: &str = "test-metrics";
const METRICS_GROUPS: [(&str, &str); 3] = [
    ("metrics.k8s.io", "v1beta1"),
    ("custom.metrics.k8s.io", "v1beta2"),
    ("external.metrics.k8s.io", "v1beta1"),
];

/// The running etcd and kube-apiserver.
pub(super) struct Plane {
    client: Client,
    authority: Authority,
    controller_kubeconfig: PathBuf,
    /// Where the binaries are.
    assets: PathBuf,
    url: String,
    /// Of it and the metrics, behind one port.
    webhook: Webhook,
    // Dropped in this order.
    server: MetricsServer,
    apiserver: Process,
    etcd: Process,
    dir: TempDir,
}

impl ControlPlane for Plane {
    fn client(&self) -> Client {
        self.client.clone()
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
            let url = format!("https://127.0.0.1:{}", self.server.port);
            self.webhook.hold(self.client(), &url, &self.authority.pem(), ns, target).await
        }
        .boxed()
    }

    fn role_kubeconfig<'a>(&'a self, ns: &'a str) -> BoxFuture<'a, Result<PathBuf>> {
        async move {
            let role = parse_yaml::<Role>(NAMESPACED_ROLE).context("role-namespaced.yaml")?;
            let name = role.metadata.name.clone().context("the role has no name")?;
            create(&Api::namespaced(self.client(), ns), &role).await?;
            let token = self.account(ns).await?;
            let bindings = Api::<RoleBinding>::namespaced(self.client(), ns);
            create(&bindings, &from(binding("Role", &name, ns))?).await?;
            self.kubeconfig_file(&format!("{ns}.kubeconfig"), &token)
        }
        .boxed()
    }

    fn reference(&self) -> Result<Option<Process>> {
        let binary = self.assets.join("kube-controller-manager");
        if !binary.is_file() {
            return Ok(None);
        }
        let kubeconfig = self.kubeconfig_file("reference.kubeconfig", "admin")?;
        let mut command = Command::new(binary);
        command.args([
            "--controllers=horizontal-pod-autoscaler-controller",
            "--horizontal-pod-autoscaler-sync-period=1s",
            "--horizontal-pod-autoscaler-downscale-stabilization=2s",
            "--feature-gates=HPAScaleToZero=true",
            "--kube-api-qps=200",
            "--kube-api-burst=400",
            "--leader-elect=false",
            "--secure-port=0",
            &format!("--kubeconfig={}", kubeconfig.display()),
        ]);
        Process::start(self.dir(), "kube-controller-manager", command).map(Some)
    }

    /// The controller has the `ClusterRole` of the chart and no other right.
    fn rights_sufficed(&self, controller: &Process) -> Result<()> {
        let forbidden = controller.tail(5, "forbidden");
        ensure!(forbidden.is_empty(), "the ClusterRole does not suffice:\n{forbidden}");
        Ok(())
    }
}

impl Plane {
    pub(super) async fn start(assets: &Path, metrics: Metrics) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("hpa-control-plane-").tempdir()?;
        let at = dir.path();
        let authority = Authority::new(at)?;
        let serving = authority
            .server("kube-apiserver", &["localhost", "127.0.0.1", "kubernetes.default.svc"])?;
        let proxy = authority.client("front-proxy")?;
        let [token_key, token_public_key] = pki::key(at, "service-account")?;
        std::fs::write(at.join("tokens.csv"), "admin,admin,admin,system:masters\n")?;

        let [etcd_port, peer_port, port] = free_ports()?;
        let etcd_url = format!("http://127.0.0.1:{etcd_port}");
        let mut command = Command::new(assets.join("etcd"));
        command
            .arg(format!("--data-dir={}", at.join("etcd").display()))
            .arg(format!("--listen-client-urls={etcd_url}"))
            .arg(format!("--advertise-client-urls={etcd_url}"))
            .arg(format!("--listen-peer-urls=http://127.0.0.1:{peer_port}"))
            .arg("--unsafe-no-fsync");
        let etcd = Process::start(at, "etcd", command)?;

        let file = |path: &Path| path.display().to_string();
        let mut command = Command::new(assets.join("kube-apiserver"));
        command.args([
            "--bind-address=127.0.0.1".into(),
            "--advertise-address=127.0.0.1".into(),
            "--endpoint-reconciler-type=none".into(),
            format!("--secure-port={port}"),
            format!("--etcd-servers={etcd_url}"),
            "--service-cluster-ip-range=10.0.0.0/24".into(),
            "--authorization-mode=RBAC".into(),
            // No controller makes the default service accounts, so pods must do without.
            "--disable-admission-plugins=ServiceAccount".into(),
            "--feature-gates=HPAScaleToZero=true".into(),
            format!("--token-auth-file={}", file(&at.join("tokens.csv"))),
            format!("--tls-cert-file={}", file(&serving.cert_file)),
            format!("--tls-private-key-file={}", file(&serving.key_file)),
            format!("--client-ca-file={}", file(&authority.cert_file())),
            "--service-account-issuer=https://kubernetes.default.svc".into(),
            format!("--service-account-key-file={}", file(&token_public_key)),
            format!("--service-account-signing-key-file={}", file(&token_key)),
            format!("--requestheader-client-ca-file={}", file(&authority.cert_file())),
            "--requestheader-allowed-names=front-proxy".into(),
            "--requestheader-username-headers=X-Remote-User".into(),
            "--requestheader-group-headers=X-Remote-Group".into(),
            "--requestheader-extra-headers-prefix=X-Remote-Extra-".into(),
            format!("--proxy-client-cert-file={}", file(&proxy.cert_file)),
            format!("--proxy-client-key-file={}", file(&proxy.key_file)),
        ]);
        let apiserver = Process::start(at, "kube-apiserver", command)?;

        let url = format!("https://127.0.0.1:{port}");
        let client = client(from(kubeconfig(&url, &authority, "admin"))?).await?;
        let controller_kubeconfig = at.join("controller.kubeconfig");
        let identity = authority
            .server("metrics", &[&format!("{METRICS_SERVICE}.{SYSTEM}.svc"), "127.0.0.1"])?;
        let webhook = Webhook::default();
        let server = MetricsServer::start(metrics, &identity, webhook.router()).await?;
        let mut plane = Self {
            client,
            authority,
            controller_kubeconfig,
            assets: assets.to_owned(),
            url,
            webhook,
            server,
            apiserver,
            etcd,
            dir,
        };
        plane.ready().await?;
        plane.grant().await?;
        plane.aggregate_metrics().await.with_context(|| plane.tails())?;
        Ok(plane)
    }

    /// The ends of both logs.
    fn tails(&self) -> String {
        format!(
            "  etcd:\n{}\n  kube-apiserver:\n{}",
            self.etcd.tail(5, ""),
            self.apiserver.tail(15, "")
        )
    }

    /// Waits until the API server says that it is ready. It tells nobody, so this has to ask.
    async fn ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + START;
        let mut pause = Duration::from_millis(50);
        loop {
            self.etcd.check()?;
            self.apiserver.check()?;
            let Err(last) = get(&self.client, "/readyz").await else { return Ok(()) };
            if Instant::now() > deadline {
                return Err(anyhow!(
                    "kube-apiserver is not ready after {START:?}: {last}\n{}",
                    self.tails()
                ));
            }
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(500));
        }
    }

    /// Gives the controller's service account the shipped role and nothing else.
    async fn grant(&self) -> Result<()> {
        let client = &self.client;
        let role = parse_yaml::<ClusterRole>(CLUSTER_ROLE).context("clusterrole.yaml")?;
        let name = role.metadata.name.clone().context("the role has no name")?;
        create(&Api::all(client.clone()), &role).await?;
        create(
            &Api::<Namespace>::all(client.clone()),
            &from(json!({"metadata": {"name": SYSTEM}}))?,
        )
        .await?;
        let token = self.account(SYSTEM).await?;
        let binding = binding("ClusterRole", &name, SYSTEM);
        create(&Api::<ClusterRoleBinding>::all(client.clone()), &from(binding)?).await?;
        self.kubeconfig_file("controller.kubeconfig", &token)?;
        Ok(())
    }

    /// Creates a service account in a namespace; a token of it.
    async fn account(&self, ns: &str) -> Result<String> {
        let accounts = Api::<ServiceAccount>::namespaced(self.client(), ns);
        create(&accounts, &from(json!({"metadata": {"name": ACCOUNT}}))?).await?;
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                expiration_seconds: Some(3600 * 4),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let answer =
            accounts.create_token_request(ACCOUNT, &PostParams::default(), &request).await?;
        answer.status.and_then(|status| status.token).context("no token")
    }

    /// Writes a kubeconfig with a token.
    fn kubeconfig_file(&self, name: &str, token: &str) -> Result<PathBuf> {
        let kubeconfig = kubeconfig(&self.url, &self.authority, token);
        let path = self.dir.path().join(name);
        std::fs::write(&path, serde_json::to_vec_pretty(&kubeconfig)?)?;
        Ok(path)
    }

    /// Makes the metrics server the metrics APIs of the cluster.
    ///
    /// An external name is the one kind of service that may lead to a loopback address.
    async fn aggregate_metrics(&self) -> Result<()> {
        let port = self.server.port;
        let service = json!({
            "metadata": {"name": METRICS_SERVICE},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        });
        create(&Api::<Service>::namespaced(self.client.clone(), SYSTEM), &from(service)?).await?;
        let services = Api::<APIService>::all(self.client.clone());
        for (group, version) in METRICS_GROUPS {
            let object = json!({
                "metadata": {"name": format!("{version}.{group}")},
                "spec": {
                    "group": group, "version": version, "groupPriorityMinimum": 100, "versionPriority": 100,
                    "caBundle": base64::encode(self.authority.pem().as_bytes()),
                    "service": {"namespace": SYSTEM, "name": METRICS_SERVICE, "port": port},
                },
            });
            create(&services, &from(object)?).await?;
        }
        for (group, version) in METRICS_GROUPS {
            let name = format!("{version}.{group}");
            let what = format!("APIService {name} to be available");
            crate::wait::object(&services, &name, &what, START, |service| {
                let conditions =
                    service.status.as_ref().and_then(|status| status.conditions.as_ref());
                conditions.is_some_and(|all| {
                    all.iter().any(|c| c.type_ == "Available" && c.status == "True")
                })
            })
            .await?;
        }
        // The one that proxies learns of the availability on its own.
        let deadline = Instant::now() + START;
        for (group, version) in METRICS_GROUPS {
            while let Err(error) = get(&self.client, &format!("/apis/{group}/{version}")).await {
                ensure!(Instant::now() < deadline, "/apis/{group}/{version}: {error}");
                sleep(Duration::from_millis(100)).await;
            }
        }
        Ok(())
    }
}

/// Gives the account of a namespace a role.
fn binding(kind: &str, role: &str, ns: &str) -> Value {
    json!({
        "metadata": {"name": ACCOUNT},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": ns}],
    })
}

/// Reads the YAML of one object by the one YAML parser that is here: that of kubeconfigs.
fn parse_yaml<K: serde::de::DeserializeOwned>(yaml: &str) -> Result<K> {
    let indented = format!("      {}", yaml.replace('\n', "\n      "));
    let config =
        Kubeconfig::from_yaml(&format!("extensions:\n  - name: x\n    extension:\n{indented}"))?;
    from(config.extensions.into_iter().flatten().next().context("no extension")?.extension)
}

async fn get(client: &Client, path: &str) -> Result<String> {
    Ok(client.request_text(http::Request::get(path).body(Vec::new())?).await?)
}

/// Creates an object; one that is there already will do.
async fn create<K>(api: &Api<K>, object: &K) -> Result<()>
where
    K: Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    match api.create(&PostParams::default(), object).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        other => other.map(drop).map_err(Into::into),
    }
}

fn kubeconfig(url: &str, authority: &Authority, token: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{"name": "test", "cluster": {
            "server": url, "certificate-authority-data": base64::encode(authority.pem().as_bytes()),
        }}],
        "users": [{"name": "test", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    })
}

/// Loopback ports that are free now; taken together, so they differ.
fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let held: Vec<TcpListener> = (0..N)
        .map(|_| TcpListener::bind("127.0.0.1:0"))
        .collect::<Result<_, _>>()
        .context("free ports")?;
    let ports: Vec<u16> = held
        .iter()
        .map(|socket| socket.local_addr().map(|addr| addr.port()))
        .collect::<Result<_, _>>()?;
    ports.try_into().map_err(|_| anyhow!("ports"))
}
