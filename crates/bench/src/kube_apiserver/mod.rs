//! An etcd and a kube-apiserver to measure against, over TLS; this process serves the metrics that they aggregate.

mod audit;
mod metrics_server;
mod pki;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::ByteString;
use kube::{Client, Config, config::KubeConfigOptions};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use self::{
    audit::CONTROLLER,
    pki::{Authority, write},
};
use crate::{
    args::ServeArguments,
    cluster::{Cluster, Processes},
    exposition::samples,
    load::Load,
    populate::{populate, say},
    process::{Process, Usage, free_ports, tied},
    record::Counted,
    request::qualified,
    serve::{answer, listen},
    store::Store,
};

/// How long the server may take to start.
const START: Duration = Duration::from_secs(120);
const ASK_AGAIN: Duration = Duration::from_millis(100);
/// The user that populates.
const ADMIN: &str = "admin";
/// Where the service is by which the API server finds the metrics.
const SYSTEM: &str = "kube-system";
const METRICS: &str = "bench-metrics";
const METRICS_GROUPS: [&str; 2] = ["metrics.k8s.io", "external.metrics.k8s.io"];
const METRICS_VERSION: &str = "v1beta1";
/// Admission that a cluster without nodes, service accounts and other controllers does better without.
const NO_ADMISSION: &str = "ServiceAccount,TaintNodesByCondition,Priority,DefaultTolerationSeconds,\
    LimitRanger,ResourceQuota,StorageObjectInUseProtection,RuntimeClass,PodSecurity";

/// The processes of the server, and the API server's own metrics.
#[derive(Clone)]
pub(crate) struct Watched {
    client: Client,
    processes: [u32; 2],
}

impl Watched {
    pub(crate) fn usage(&self) -> Result<Usage> {
        let [one, other] = self.processes;
        Ok(Usage::of(one)?.add(Usage::of(other)?))
    }

    /// Adds what the API server sent in answer to each kind of request. It knows that of reads and watches, and not by
    /// whom; but nobody else reads what a controller does.
    pub(crate) async fn count_bytes(&self, requests: &mut [Counted]) -> Result<()> {
        let text =
            get(&self.client, "/metrics").await.context("cannot read the API server's metrics")?;
        for counted in requests {
            counted.bytes += bytes(&text, counted);
        }
        Ok(())
    }
}

fn bytes(text: &str, counted: &Counted) -> u64 {
    let kind = &counted.kind;
    let name = match kind.verb.as_str() {
        "watch" => "apiserver_watch_events_sizes_sum",
        "get" | "list" => "apiserver_response_sizes_sum",
        _ => return 0,
    };
    let of_kind = samples(text, name).filter(|sample| {
        let verb = sample.label("verb");
        qualified(sample.label("resource"), sample.label("group")) == kind.resource
            && sample.label("subresource") == kind.subresource
            && (verb.is_empty() || verb.eq_ignore_ascii_case(&kind.verb))
    });
    let bytes: f64 = of_kind.map(|sample| sample.value).sum();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is a count")]
    let bytes = bytes as u64;
    bytes
}

/// Starts both, populates, and answers who measures.
pub(crate) async fn serve(arguments: &ServeArguments, assets: &Path) -> Result<()> {
    let beside = fs::canonicalize(arguments.kubeconfig.parent().unwrap_or(Path::new(".")))
        .or_else(|_| std::env::current_dir())?;
    let folder = tempfile::Builder::new().prefix("kube-apiserver-").tempdir_in(beside)?;
    let mut plane = Plane::start(assets, folder.path()).await?;
    plane.wait_until_ready().await?;
    let watched = Watched {
        client: plane.client.clone(),
        processes: [plane.etcd.id()?, plane.apiserver.id()?],
    };
    let load = Arc::new(Load::new(&arguments.population));
    let cluster = Cluster::new(
        arguments,
        Store::Api(plane.client.clone()),
        load,
        Processes::Started(watched),
    );
    plane.serve_metrics(&cluster).await?;
    let log = plane.apiserver.output().context("the API server has no output")?;
    tokio::spawn(audit::follow(log, cluster.clone()));
    populate(&cluster).await?;
    write(&arguments.kubeconfig, &plane.kubeconfig(CONTROLLER).to_string())?;
    answer(listen().await?, cluster.router()).await
}

/// The running etcd and kube-apiserver; they end when this is dropped.
struct Plane {
    client: Client,
    url: String,
    authority: Authority,
    apiserver: Process,
    etcd: Process,
}

impl Plane {
    async fn start(assets: &Path, folder: &Path) -> Result<Self> {
        let programs = ["etcd", "kube-apiserver"].map(|name| assets.join(name));
        for program in &programs {
            ensure!(program.is_file(), "there is no {}", program.display());
        }
        let [etcd, apiserver] = &programs;
        let authority = Authority::new(folder)?;
        let [client_port, peer_port, port] = free_ports()?;
        let etcd_url = format!("http://127.0.0.1:{client_port}");
        let etcd_flags = [
            format!("--data-dir={}", folder.join("etcd").display()),
            format!("--listen-client-urls={etcd_url}"),
            format!("--advertise-client-urls={etcd_url}"),
            format!("--listen-peer-urls=http://127.0.0.1:{peer_port}"),
            // The disk is not what is to be measured.
            "--unsafe-no-fsync".to_owned(),
        ];
        let mut etcd = tied(etcd)?;
        let etcd = Process::start(etcd.args(etcd_flags).stdout(Stdio::null()), folder, "etcd")?;
        let flags = apiserver_flags(&authority, folder, port, &etcd_url)?;
        let mut apiserver = tied(apiserver)?;
        let apiserver =
            Process::start(apiserver.args(flags).stdout(Stdio::piped()), folder, "kube-apiserver")?;
        let url = format!("https://127.0.0.1:{port}");
        let client = client(&kubeconfig(&url, &authority, ADMIN)).await?;
        Ok(Self { client, url, authority, apiserver, etcd })
    }

    fn kubeconfig(&self, user: &str) -> Value {
        kubeconfig(&self.url, &self.authority, user)
    }

    /// Neither tells when it is ready, so this has to ask.
    async fn wait_until_ready(&mut self) -> Result<()> {
        self.wait_for("/readyz").await?;
        say("kube-apiserver is ready")
    }

    async fn wait_for(&mut self, path: &str) -> Result<()> {
        let deadline = Instant::now() + START;
        while let Err(error) = get(&self.client, path).await {
            self.etcd.check()?;
            self.apiserver.check()?;
            if Instant::now() > deadline {
                bail!(
                    "the API server does not answer for {path}: {error:#}\n{}",
                    self.apiserver.log_end()
                );
            }
            sleep(ASK_AGAIN).await;
        }
        Ok(())
    }

    /// Makes this process the metrics APIs of the cluster.
    async fn serve_metrics(&mut self, cluster: &Cluster) -> Result<()> {
        let identity = self.authority.server(METRICS, &[&format!("{METRICS}.{SYSTEM}.svc")])?;
        let listener = listen().await?;
        let port = listener.local_addr()?.port();
        metrics_server::serve(listener, &identity, cluster)?;
        self.wait_for(&format!("/api/v1/namespaces/{SYSTEM}")).await?;
        // The one type of service that may lead to the loopback device.
        let service = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": { "name": METRICS, "namespace": SYSTEM },
            "spec": { "type": "ExternalName", "externalName": "localhost" },
        });
        cluster.store.create(service).await?;
        for group in METRICS_GROUPS {
            let api_service = json!({
                "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
                "metadata": { "name": format!("{METRICS_VERSION}.{group}") },
                "spec": {
                    "group": group, "version": METRICS_VERSION,
                    "groupPriorityMinimum": 100, "versionPriority": 100,
                    "caBundle": ByteString(self.authority.pem().into_bytes()),
                    "service": { "namespace": SYSTEM, "name": METRICS, "port": port },
                },
            });
            cluster.store.create(api_service).await?;
        }
        for group in METRICS_GROUPS {
            self.wait_for(&format!("/apis/{group}/{METRICS_VERSION}")).await?;
        }
        Ok(())
    }
}

fn apiserver_flags(
    authority: &Authority,
    folder: &Path,
    port: u16,
    etcd_url: &str,
) -> Result<Vec<String>> {
    let serving = authority.server("kube-apiserver", &["localhost", "127.0.0.1"])?;
    let proxy = authority.client("front-proxy")?;
    let [token_key, token_public_key] = pki::token_key(folder)?;
    let (tokens, policy) = (folder.join("tokens.csv"), folder.join("audit-policy.json"));
    // Each user's token is its name. Both may do everything.
    let user = |name: &str| format!("{name},{name},{name},system:masters\n");
    write(&tokens, &[ADMIN, CONTROLLER].map(user).concat())?;
    write(&policy, &audit::policy())?;
    let file = |name: &str, path: &PathBuf| format!("--{name}={}", path.display());
    Ok(vec![
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        "--endpoint-reconciler-type=none".to_owned(),
        format!("--secure-port={port}"),
        format!("--etcd-servers={etcd_url}"),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        "--authorization-mode=RBAC".to_owned(),
        format!("--disable-admission-plugins={NO_ADMISSION}"),
        file("token-auth-file", &tokens),
        file("tls-cert-file", &serving.certificate_file),
        file("tls-private-key-file", &serving.key_file),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        file("service-account-key-file", &token_public_key),
        file("service-account-signing-key-file", &token_key),
        file("requestheader-client-ca-file", &authority.certificate_file()),
        "--requestheader-allowed-names=front-proxy".to_owned(),
        "--requestheader-username-headers=X-Remote-User".to_owned(),
        "--requestheader-group-headers=X-Remote-Group".to_owned(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
        file("proxy-client-cert-file", &proxy.certificate_file),
        file("proxy-client-key-file", &proxy.key_file),
        // To the standard output, where it is read at once.
        "--audit-log-path=-".to_owned(),
        file("audit-policy-file", &policy),
    ])
}

fn kubeconfig(url: &str, authority: &Authority, user: &str) -> Value {
    let authority = ByteString(authority.pem().into_bytes());
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "bench",
        "clusters": [{ "name": "bench", "cluster": { "server": url, "certificate-authority-data": authority } }],
        "users": [{ "name": user, "user": { "token": user } }],
        "contexts": [{ "name": "bench", "context": { "cluster": "bench", "user": user } }],
    })
}

async fn client(kubeconfig: &Value) -> Result<Client> {
    let kubeconfig = serde_json::from_value(kubeconfig.clone())?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

async fn get(client: &Client, path: &str) -> Result<String> {
    Ok(client.request_text(http::Request::get(path).body(Vec::new())?).await?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Kind;

    /// As kube-apiserver 1.36 writes it.
    const TEXT: &str = r#"apiserver_response_sizes_bucket{component="apiserver",group="",resource="pods",scope="cluster",subresource="",verb="LIST",version="v1",le="+Inf"} 3
apiserver_response_sizes_sum{component="apiserver",group="",resource="pods",scope="cluster",subresource="",verb="LIST",version="v1"} 114980
apiserver_response_sizes_sum{component="apiserver",group="",resource="pods",scope="namespace",subresource="",verb="LIST",version="v1"} 20
apiserver_response_sizes_sum{component="apiserver",group="",resource="pods",scope="cluster",subresource="",verb="WATCH",version="v1"} 0
apiserver_response_sizes_sum{component="apiserver",group="apps",resource="deployments",scope="resource",subresource="scale",verb="GET",version="v1"} 279
apiserver_watch_events_sizes_sum{group="",resource="pods",version="v1"} 217381
"#;

    #[test]
    fn bytes_are_those_of_a_verb_and_a_resource() {
        let bytes_of = |verb: &str, resource: &str, subresource: &str| {
            let [verb, resource, subresource] =
                [verb, resource, subresource].map(ToOwned::to_owned);
            let kind = Kind { verb, resource, subresource };
            bytes(TEXT, &Counted { kind, count: 1, failed: 0, bytes: 0 })
        };
        assert_eq!(bytes_of("list", "pods", ""), 115_000);
        assert_eq!(bytes_of("watch", "pods", ""), 217_381);
        assert_eq!(bytes_of("get", "deployments.apps", "scale"), 279);
        assert_eq!(bytes_of("get", "deployments.apps", ""), 0);
        assert_eq!(bytes_of("patch", "pods", ""), 0);
    }
}
