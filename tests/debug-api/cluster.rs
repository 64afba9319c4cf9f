//! A kube-apiserver with two instances of the controller. The kube-apiserver reaches their debug
//! APIs through its pod proxy.

use std::{collections::BTreeMap, net::IpAddr, path::PathBuf, pin::pin, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use futures::TryStreamExt;
use hpa_tests::kube_apiserver::{ADMIN, KubeApiserver, Options, Process, free_ports};
use k8s_openapi::api::core::v1::Event;
use kube::{
    Api, Client, Config,
    client::Body,
    runtime::{WatchStreamExt, watcher},
};
use serde_json::{Value, json};
use tokio::{process::Command, time::timeout};

const MANIFESTS: &str = include_str!("manifests.yaml");
const CLUSTER_ROLE: &str = include_str!("../../charts/hpa-controller/files/clusterrole.yaml");
const ROLE: &str = include_str!("../../charts/hpa-controller/files/role.yaml");

const NAMESPACE: &str = "scaling";
pub(crate) const LEASE: &str = "hpa-controller";
/// The time limit of `kubectl wait`, long enough for a busy machine.
const WAIT_TIMEOUT: &str = "--timeout=120s";

/// The rules of the chart's Role for readers, in the order in which they are needed.
pub(crate) const READER_RULES: [&str; 4] = [
    r#"{ "apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
         "resourceNames": ["hpa-controller"], "verbs": ["get"] }"#,
    r#"{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] }"#,
    r#"{ "apiGroups": [""], "resources": ["serviceaccounts/token"],
         "resourceNames": ["hpa-controller-debug"], "verbs": ["create"] }"#,
    r#"{ "apiGroups": [""], "resources": ["pods/proxy"], "verbs": ["get"] }"#,
];

pub(crate) struct Cluster {
    assets: PathBuf,
    dir: tempfile::TempDir,
    server: KubeApiserver,
    address: IpAddr,
    binary: PathBuf,
    /// The instances by pod name, with the port of the debug API.
    instances: BTreeMap<String, (Process, u16)>,
}

impl Cluster {
    pub(crate) async fn start(assets: PathBuf, address: IpAddr) -> Result<Self> {
        let binary = hpa_tests::harness::hpa_binary();
        let dir = tempfile::Builder::new().prefix("hpa-debug-").tempdir()?;
        let server = KubeApiserver::start(Options::new(&assets), dir.path()).await?;
        let instances = BTreeMap::new();
        let cluster = Self { assets, dir, server, address, binary, instances };
        cluster.write("admin.kubeconfig", &cluster.server.kubeconfig(ADMIN).to_string())?;
        cluster.apply(MANIFESTS).await?;
        cluster.apply(CLUSTER_ROLE).await?;
        cluster
            .apply(
                &ROLE.replace(
                    "kind: Role\nmetadata:",
                    "kind: Role\nmetadata:\n  namespace: scaling",
                ),
            )
            .await?;
        for (file, namespace, name) in
            [("controller", NAMESPACE, "hpa-controller"), ("user", "shop", "user")]
        {
            let token = cluster.server.create_service_account_token(namespace, name).await?;
            let kubeconfig = cluster.server.kubeconfig(&token).to_string();
            cluster.write(&format!("{file}.kubeconfig"), &kubeconfig)?;
        }
        Ok(cluster)
    }

    /// Starts two instances, and creates their pods.
    pub(crate) async fn start_instances(&mut self) -> Result<()> {
        for (name, port) in ["hpa-0", "hpa-1"].into_iter().zip(free_ports::<2>()?) {
            self.create_pod(name, &json!([{ "name": "debug", "containerPort": port }])).await?;
            let mut command = Command::new(&self.binary);
            command.arg("run").args([
                format!("--kubeconfig={}", self.path("controller.kubeconfig").display()),
                format!("--leader-elect-resource-namespace={NAMESPACE}"),
                format!("--debug-port={port}"),
                format!("--pod-name={name}"),
                "--metrics-port=0".to_owned(),
                "--horizontal-pod-autoscaler-sync-period=1s".to_owned(),
                "--leader-elect-lease-duration=4s".to_owned(),
                "--leader-elect-renew-deadline=3s".to_owned(),
                "--leader-elect-retry-period=500ms".to_owned(),
            ]);
            let process = Process::start(self.dir.path(), name, command)?;
            self.instances.insert(name.to_owned(), (process, port));
        }
        Ok(())
    }

    /// Waits until an instance other than `previous` is the leader and has reconciled at least
    /// twice. Returns the name of its pod.
    pub(crate) async fn wait_for_leader(&self, previous: Option<&str>) -> Result<String> {
        // The first leader causes no transition.
        let count = i32::from(previous.is_some());
        let transitions = format!("--for=jsonpath={{.spec.leaseTransitions}}={count}");
        if previous.is_none() {
            self.kubectl(&["-n", NAMESPACE, "wait", "--for=create", WAIT_TIMEOUT, "lease", LEASE])
                .await?;
        }
        self.kubectl(&["-n", NAMESPACE, "wait", &transitions, WAIT_TIMEOUT, "lease", LEASE])
            .await?;
        let holder =
            ["-n", NAMESPACE, "get", "lease", LEASE, "-o", "jsonpath={.spec.holderIdentity}"];
        let holder = self.kubectl(&holder).await?;
        let pod = holder.rsplit_once('_').context(holder.clone())?.0.to_owned();
        let scaled = "--for=jsonpath={.spec.replicas}=3";
        self.kubectl(&["-n", "shop", "wait", scaled, WAIT_TIMEOUT, "deployment/web"]).await?;
        self.wait_for_decisions().await?;
        let token = self.create_token(LEASE, Some("debug.hpa-rs.dev")).await?;
        let header = ("hpa-debug-authorization", token.as_str());
        let (_, body) = self.request(&pod, "/debug/v1/autoscalers/shop/web", Some(header)).await?;
        let last = body["runs"].as_array().and_then(|runs| runs.last());
        let is_repeated = last.is_some_and(|run| run["count"].as_u64() > Some(1));
        ensure!(is_repeated, "{body}\n{}", self.log(&pod));
        Ok(pod)
    }

    /// Waits until the leader has decided at least twice on the failed metric.
    async fn wait_for_decisions(&self) -> Result<()> {
        let events: Api<Event> = Api::namespaced(self.server.client(), "shop");
        let config = watcher::Config::default().fields("reason=FailedGetResourceMetric");
        let mut events = pin!(watcher(events, config).applied_objects());
        let repeated = async {
            while let Some(event) = events.try_next().await? {
                // A reconcile sends the event before its decision is recorded.
                if event.count >= Some(3) {
                    break;
                }
            }
            anyhow::Ok(())
        };
        timeout(Duration::from_secs(120), repeated).await.context("too few events")??;
        Ok(())
    }

    /// Kills an instance, so that it can't release the lease. Deletes its events, so that later
    /// ones are those of its successor.
    pub(crate) async fn kill(&mut self, pod: &str) -> Result<()> {
        drop(self.instances.remove(pod).context("no such instance")?);
        self.kubectl(&["-n", "shop", "delete", "events", "--all"]).await.map(drop)
    }

    /// Replaces a pod by one without a port.
    pub(crate) async fn remove_port(&self, pod: &str) -> Result<()> {
        self.kubectl(&["-n", NAMESPACE, "delete", "pod", pod, "--force"]).await?;
        self.create_pod(pod, &json!([])).await
    }

    async fn create_pod(&self, name: &str, ports: &Value) -> Result<()> {
        let container = json!({ "name": "hpa", "image": "hpa", "ports": ports });
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": NAMESPACE },
            "spec": { "containers": [container] },
        });
        self.apply(&pod.to_string()).await?;
        let status = json!({ "status": {
            "phase": "Running", "podIP": self.address, "podIPs": [{ "ip": self.address }],
            "conditions": [{ "type": "Ready", "status": "True" }],
        } });
        let status = status.to_string();
        let patch = ["-n", NAMESPACE, "patch", "pod", name, "--subresource=status", "-p", &status];
        self.kubectl(&patch).await.map(drop)
    }

    /// Grants the user these rights in the controller's namespace.
    pub(crate) async fn grant(&self, rules: &[&str]) -> Result<()> {
        let rules: Vec<Value> =
            rules.iter().map(|rule| serde_json::from_str(rule)).collect::<Result<_, _>>()?;
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": { "name": "reader", "namespace": NAMESPACE }, "rules": rules,
        });
        self.apply(&role.to_string()).await
    }

    /// The output of `hpa explain` for the user.
    pub(crate) async fn explain(&self) -> Result<String> {
        let (output, is_success) = self.run_hpa(&["explain", "shop/web", "--since=1h"]).await?;
        ensure!(is_success, "{output}");
        Ok(output)
    }

    /// Runs `hpa` as the user. Returns its output, and whether it succeeded.
    pub(crate) async fn run_hpa(&self, arguments: &[&str]) -> Result<(String, bool)> {
        let mut command = Command::new(&self.binary);
        command.args(arguments).arg("--kubeconfig").arg(self.path("user.kubeconfig")).env_clear();
        let output = timeout(Duration::from_secs(120), command.output());
        let output = output.await.context("hpa hangs")??;
        let text = String::from_utf8(output.stdout)? + &String::from_utf8(output.stderr)?;
        Ok((text, output.status.success()))
    }

    /// A token for the ServiceAccount of a lease's debug API.
    pub(crate) async fn create_token(&self, lease: &str, audience: Option<&str>) -> Result<String> {
        let account = format!("{lease}-debug");
        let audience = audience.map(|audience| format!("--audience={audience}"));
        let mut arguments = vec!["-n", NAMESPACE, "create", "token", &account];
        arguments.extend(audience.as_deref());
        Ok(self.kubectl(&arguments).await?.trim().to_owned())
    }

    /// The user's token for the API server.
    pub(crate) async fn create_user_token(&self) -> Result<String> {
        let token = self.kubectl(&["-n", "shop", "create", "token", "user"]).await?;
        Ok(token.trim().to_owned())
    }

    /// The status of a direct request to an instance.
    pub(crate) async fn get_directly(
        &self,
        pod: &str,
        path: &str,
        header: Option<(&str, &str)>,
    ) -> Result<u16> {
        Ok(self.request(pod, path, header).await?.0)
    }

    async fn request(
        &self,
        pod: &str,
        path: &str,
        header: Option<(&str, &str)>,
    ) -> Result<(u16, Value)> {
        let (_, port) = self.instances.get(pod).context("no such instance")?;
        let url = format!("https://{}:{port}", self.address);
        let mut config = Config::new(url.parse()?);
        // kube-apiserver's proxy doesn't verify the certificate either.
        config.accept_invalid_certs = true;
        send(Client::try_from(config)?, path, header).await
    }

    /// The status of a request to the API server with this token.
    pub(crate) async fn get_from_api_server(&self, token: &str) -> Result<u16> {
        let client = self.server.client_with_token(token).await?;
        Ok(send(client, "/api/v1/namespaces", None).await?.0)
    }

    fn log(&self, pod: &str) -> String {
        self.instances.get(pod).map_or_else(String::new, |(process, _)| process.tail(20, ""))
    }

    async fn apply(&self, text: &str) -> Result<()> {
        let file = self.write("apply.yaml", text)?.display().to_string();
        self.kubectl(&["apply", "-f", &file]).await.map(drop)
    }

    async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(self.assets.join("kubectl"));
        command.env("KUBECONFIG", self.path("admin.kubeconfig")).env("HOME", self.dir.path());
        let output = timeout(Duration::from_secs(180), command.args(arguments).output());
        let output = output.await.context("kubectl hangs")??;
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            let logs: Vec<String> = self.instances.keys().map(|pod| self.log(pod)).collect();
            bail!("kubectl {}: {stdout}{stderr}\n{}", arguments.join(" "), logs.join("\n"));
        }
        Ok(stdout)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.path(name);
        std::fs::write(&path, text)?;
        Ok(path)
    }
}

/// Sends a GET. Returns the status and the document of the response.
async fn send(client: Client, path: &str, header: Option<(&str, &str)>) -> Result<(u16, Value)> {
    let mut request = http::Request::get(path);
    if let Some((name, token)) = header {
        request = request.header(name, format!("Bearer {token}"));
    }
    let response = client.send(request.body(Body::empty())?).await?;
    let status = response.status().as_u16();
    let body = response.into_body().collect_bytes().await?;
    Ok((status, serde_json::from_slice(&body).unwrap_or_default()))
}
