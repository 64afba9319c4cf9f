//! Runs etcd and kube-apiserver, and creates objects that tests need.

use std::{
    fmt::Debug,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use axum::Router;
use k8s_openapi::{
    ByteString,
    api::{
        authentication::v1::{TokenRequest, TokenRequestSpec},
        core::v1::{Namespace, Service, ServiceAccount},
    },
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::{Api, Client, Config, api::PostParams, config::KubeConfigOptions};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::{
    process::{ChildStdout, Command},
    time::{Instant, sleep},
};

use crate::kube_apiserver::{
    https::HttpsServer,
    pki::{self, Authority},
    process::{OnParentExit, Process, free_ports},
};

/// Timeout of a start of the programs, or until a new API is served. Enough for a loaded machine.
const START_TIMEOUT: Duration = Duration::from_secs(120);
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(50);
const MAX_POLL_INTERVAL: Duration = Duration::from_millis(500);
const TOKEN_LIFETIME_SECONDS: i64 = 4 * 3600;
/// The user of [`KubeApiserver::client`], and the user's token.
pub const ADMIN: &str = "admin";
const SYSTEM_NAMESPACE: &str = "kube-system";
/// The Service through which kube-apiserver reaches an [`HttpsServer`].
const SERVICE: &str = "local-process";

/// The programs to start, and their flags.
pub struct Options {
    assets: PathBuf,
    users: Vec<String>,
    disabled_admission: Vec<String>,
    flags: Vec<String>,
    audit_policy: Option<Value>,
}

impl Options {
    /// `assets` is the directory of the binaries.
    pub fn new(assets: &Path) -> Self {
        Self {
            assets: assets.to_owned(),
            users: vec![ADMIN.to_owned()],
            // This plugin requires default service accounts, which no controller creates here.
            disabled_admission: vec!["ServiceAccount".to_owned()],
            flags: Vec::new(),
            audit_policy: None,
        }
    }

    /// Adds a cluster administrator. The name is also the token.
    #[must_use]
    pub fn user(mut self, name: &str) -> Self {
        self.users.push(name.to_owned());
        self
    }

    /// Disables admission plugins.
    #[must_use]
    pub fn without_admission_plugins(mut self, plugins: &[&str]) -> Self {
        self.disabled_admission.extend(plugins.iter().map(ToString::to_string));
        self
    }

    /// Adds a flag of kube-apiserver.
    #[must_use]
    pub fn flag(mut self, flag: &str) -> Self {
        self.flags.push(flag.to_owned());
        self
    }

    /// Enables the audit log, see [`KubeApiserver::take_audit_log`]. The policy is an
    /// `audit.k8s.io/v1` Policy.
    #[must_use]
    pub fn audit_policy(mut self, policy: Value) -> Self {
        self.audit_policy = Some(policy);
        self
    }
}

/// A running etcd and kube-apiserver. Dropping the handle kills both.
pub struct KubeApiserver {
    client: Client,
    url: String,
    authority: Authority,
    audit_log: Option<ChildStdout>,
    // Fields are dropped in this order, and kube-apiserver must end before etcd.
    apiserver: Process,
    etcd: Process,
}

impl KubeApiserver {
    /// Starts etcd and kube-apiserver, and waits until kube-apiserver is ready. Data, certificates
    /// and logs go to `dir`, which must outlive the handle.
    pub async fn start(options: Options, dir: &Path) -> Result<Self> {
        let [etcd_program, apiserver_program] =
            ["etcd", "kube-apiserver"].map(|name| options.assets.join(name));
        for program in [&etcd_program, &apiserver_program] {
            ensure!(program.is_file(), "{} does not exist", program.display());
        }
        let authority = Authority::new(dir)?;
        let [client_port, peer_port, port] = free_ports()?;
        let etcd_url = format!("http://127.0.0.1:{client_port}");
        let mut command = Command::new(etcd_program);
        command
            .arg(format!("--data-dir={}", dir.join("etcd").display()))
            .arg(format!("--listen-client-urls={etcd_url}"))
            .arg(format!("--advertise-client-urls={etcd_url}"))
            .arg(format!("--listen-peer-urls=http://127.0.0.1:{peer_port}"))
            // The data needn't survive a crash, and the disk isn't measured.
            .arg("--unsafe-no-fsync");
        let etcd = Process::start(dir, "etcd", command)?;
        let mut command = Command::new(apiserver_program);
        command.args(flags(&options, &authority, dir, port, &etcd_url)?);
        let (apiserver, audit_log) = if options.audit_policy.is_some() {
            let kill = OnParentExit::Kill;
            let (process, log) = Process::start_piped(dir, "kube-apiserver", command, kill)?;
            (process, Some(log))
        } else {
            (Process::start(dir, "kube-apiserver", command)?, None)
        };
        let url = format!("https://127.0.0.1:{port}");
        let client = client(kubeconfig(&url, &authority, ADMIN)).await?;
        let mut server = Self { client, url, authority, audit_log, apiserver, etcd };
        server.wait_for("/readyz", |_| true).await?;
        // kubectl validates objects with this document, which may not be served yet when the API
        // server is ready.
        server.wait_for("/openapi/v2", |_| true).await?;
        let system_namespace = from_json(json!({ "metadata": { "name": SYSTEM_NAMESPACE } }))?;
        create(&Api::<Namespace>::all(server.client()), &system_namespace).await?;
        Ok(server)
    }

    /// Returns a client of the user [`ADMIN`].
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Returns a client that authenticates with a token.
    pub async fn client_with_token(&self, token: &str) -> Result<Client> {
        client(self.kubeconfig(token)).await
    }

    /// Returns the certificate of the CA that issues all serving certificates, as PEM.
    pub fn ca_pem(&self) -> String {
        self.authority.pem()
    }

    /// Returns a kubeconfig that authenticates with a token.
    pub fn kubeconfig(&self, token: &str) -> Value {
        kubeconfig(&self.url, &self.authority, token)
    }

    /// Returns the process IDs of etcd and kube-apiserver.
    pub fn process_ids(&self) -> Result<[u32; 2]> {
        Ok([self.etcd.id()?, self.apiserver.id()?])
    }

    /// Returns the audit log if [`Options::audit_policy`] is set; `None` from the second call on.
    /// The caller must read it, because kube-apiserver blocks when the pipe is full.
    pub fn take_audit_log(&mut self) -> Option<ChildStdout> {
        self.audit_log.take()
    }

    /// Creates a service account, if it doesn't exist, and returns a token for it.
    pub async fn create_service_account_token(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<String> {
        let accounts = Api::<ServiceAccount>::namespaced(self.client(), namespace);
        create(&accounts, &from_json(json!({ "metadata": { "name": name } }))?).await?;
        let spec = TokenRequestSpec {
            expiration_seconds: Some(TOKEN_LIFETIME_SECONDS),
            ..TokenRequestSpec::default()
        };
        let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
        let response =
            accounts.create_token_request(name, &PostParams::default(), &request).await?;
        response.status.and_then(|status| status.token).context("the response has no token")
    }

    /// Starts a server that kube-apiserver can call, at its URL or as an aggregated API.
    pub async fn https_server(&self, router: Router) -> Result<HttpsServer> {
        let names = [&*format!("{SERVICE}.{SYSTEM_NAMESPACE}.svc"), "127.0.0.1"];
        HttpsServer::start(&self.authority.issue_serving_certificate(SERVICE, &names)?, router)
            .await
    }

    /// Registers `server` as the API server of these groups and versions, and waits until
    /// kube-apiserver proxies requests to it.
    pub async fn aggregate(&mut self, server: &HttpsServer, apis: &[(&str, &str)]) -> Result<()> {
        // ExternalName is the only type of Service that may refer to a loopback address.
        let service = from_json(json!({
            "metadata": { "name": SERVICE },
            "spec": { "type": "ExternalName", "externalName": "localhost" },
        }))?;
        create(&Api::<Service>::namespaced(self.client(), SYSTEM_NAMESPACE), &service).await?;
        for (group, version) in apis {
            let reference =
                json!({ "namespace": SYSTEM_NAMESPACE, "name": SERVICE, "port": server.port() });
            let api_service = from_json(json!({
                "metadata": { "name": format!("{version}.{group}") },
                "spec": {
                    "group": group, "version": version,
                    "groupPriorityMinimum": 100, "versionPriority": 100,
                    "caBundle": ByteString(self.ca_pem().into_bytes()), "service": reference,
                },
            }))?;
            create(&Api::<APIService>::all(self.client()), &api_service).await?;
        }
        for (group, version) in apis {
            let name = format!("{version}.{group}");
            let path = format!("/apis/apiregistration.k8s.io/v1/apiservices/{name}");
            self.wait_for(&path, is_available).await?;
            // The status reports the availability before the proxy acts on it.
            self.wait_for(&format!("/apis/{group}/{version}"), |_| true).await?;
        }
        Ok(())
    }

    /// Polls a path until it is served and `is_ready` accepts the response. The API server sends no
    /// notification to wait for.
    async fn wait_for(&mut self, path: &str, is_ready: impl Fn(&str) -> bool) -> Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        let mut interval = MIN_POLL_INTERVAL;
        loop {
            self.etcd.ensure_running()?;
            self.apiserver.ensure_running()?;
            let last_response = match get(&self.client, path).await {
                Ok(body) if is_ready(&body) => return Ok(()),
                Ok(body) => body,
                Err(error) => format!("{error:#}"),
            };
            if Instant::now() > deadline {
                bail!(
                    "{path} is not ready after {START_TIMEOUT:?}: {last_response}\n{}",
                    self.log_tails()
                );
            }
            sleep(interval).await;
            interval = (interval * 2).min(MAX_POLL_INTERVAL);
        }
    }

    fn log_tails(&self) -> String {
        let [etcd, apiserver] = [self.etcd.tail(5, ""), self.apiserver.tail(15, "")];
        format!("  etcd:\n{etcd}\n  kube-apiserver:\n{apiserver}")
    }
}

fn flags(
    options: &Options,
    authority: &Authority,
    dir: &Path,
    port: u16,
    etcd_url: &str,
) -> Result<Vec<String>> {
    let names = ["localhost", "127.0.0.1", "kubernetes.default.svc"];
    let serving = authority.issue_serving_certificate("kube-apiserver", &names)?;
    let proxy = authority.issue_client_certificate("front-proxy")?;
    let [token_key, token_public_key] = pki::service_account_key(dir)?;
    let tokens = dir.join("tokens.csv");
    let token_line = |name: &String| format!("{name},{name},{name},system:masters\n");
    pki::write(&tokens, &options.users.iter().map(token_line).collect::<String>())?;
    let file_flag = |name: &str, path: &Path| format!("--{name}={}", path.display());
    let mut flags = vec![
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        "--endpoint-reconciler-type=none".to_owned(),
        format!("--secure-port={port}"),
        format!("--etcd-servers={etcd_url}"),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        "--authorization-mode=RBAC".to_owned(),
        format!("--disable-admission-plugins={}", options.disabled_admission.join(",")),
        file_flag("token-auth-file", &tokens),
        file_flag("tls-cert-file", &serving.certificate_file),
        file_flag("tls-private-key-file", &serving.key_file),
        file_flag("client-ca-file", &authority.certificate_file()),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        file_flag("service-account-key-file", &token_public_key),
        file_flag("service-account-signing-key-file", &token_key),
        file_flag("requestheader-client-ca-file", &authority.certificate_file()),
        "--requestheader-allowed-names=front-proxy".to_owned(),
        "--requestheader-username-headers=X-Remote-User".to_owned(),
        "--requestheader-group-headers=X-Remote-Group".to_owned(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
        file_flag("proxy-client-cert-file", &proxy.certificate_file),
        file_flag("proxy-client-key-file", &proxy.key_file),
    ];
    if let Some(policy) = &options.audit_policy {
        let policy_file = dir.join("audit-policy.json");
        pki::write(&policy_file, &policy.to_string())?;
        flags.push("--audit-log-path=-".to_owned());
        flags.push(file_flag("audit-policy-file", &policy_file));
    }
    flags.extend_from_slice(&options.flags);
    Ok(flags)
}

fn is_available(api_service: &str) -> bool {
    let api_service = serde_json::from_str::<APIService>(api_service).unwrap_or_default();
    let conditions = api_service.status.and_then(|status| status.conditions).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Available" && condition.status == "True")
}

fn kubeconfig(url: &str, authority: &Authority, token: &str) -> Value {
    let authority = ByteString(authority.pem().into_bytes());
    let cluster = json!({ "server": url, "certificate-authority-data": authority });
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "local",
        "clusters": [{ "name": "local", "cluster": cluster }],
        "users": [{ "name": "local", "user": { "token": token } }],
        "contexts": [{ "name": "local", "context": { "cluster": "local", "user": "local" } }],
    })
}

async fn client(kubeconfig: Value) -> Result<Client> {
    let kubeconfig = from_json(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

async fn get(client: &Client, path: &str) -> Result<String> {
    Ok(client.request_text(http::Request::get(path).body(Vec::new())?).await?)
}

/// Creates an object unless it exists.
async fn create<K>(api: &Api<K>, object: &K) -> Result<()>
where
    K: Clone + Debug + Serialize + DeserializeOwned,
{
    match api.create(&PostParams::default(), object).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        created => Ok(created.map(drop)?),
    }
}

fn from_json<T: DeserializeOwned>(value: Value) -> Result<T> {
    Ok(serde_json::from_value(value)?)
}
