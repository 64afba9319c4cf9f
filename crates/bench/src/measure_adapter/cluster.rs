//! The API server in front of an adapter: creates the pods, registers the adapter, and provides
//! clients that request metrics.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Result;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use hpa_tests::kube_apiserver::KubeApiserver;
use http::{HeaderName, HeaderValue};
use jiff::Timestamp;
use kube::{Client, Config};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{
    args::Population,
    objects,
    objects::ObjectApi,
    server::{CompletedRequest, follow_audit_log, start_with_audit_log},
    stats::Usage,
};

const ADAPTER_USER: &str = "measured-adapter";
const SYSTEM_NAMESPACE: &str = "kube-system";
/// The service account that requests metrics.
const CALLER: &str = "metrics-caller";
const SERVICE: &str = "measured-adapter";
pub(super) const GROUP_VERSION: [&str; 2] = ["custom.metrics.k8s.io", "v1beta2"];
/// Concurrent requests that create objects.
const CONCURRENCY: usize = 64;

pub(super) struct Cluster {
    apiserver: KubeApiserver,
    caller_token: String,
    /// The requests of the adapter, by kind.
    requests: Arc<Mutex<BTreeMap<String, u64>>>,
    /// The directory with the certificates of the API server.
    dir: PathBuf,
}

impl Cluster {
    /// Starts etcd and kube-apiserver, and creates the pods.
    pub(super) async fn start(
        assets: &Path,
        dir: &Path,
        name: &str,
        population: &Population,
    ) -> Result<Self> {
        let (apiserver, log) = start_with_audit_log(assets, dir, ADAPTER_USER).await?;
        let requests = Arc::<Mutex<BTreeMap<String, u64>>>::default();
        let counts = Arc::clone(&requests);
        tokio::spawn(follow_audit_log(log, move |CompletedRequest { request, .. }| {
            *counts.lock().entry(request.kind.to_string()).or_default() += 1;
        }));
        let caller_token = apiserver.create_service_account_token(SYSTEM_NAMESPACE, CALLER).await?;
        let cluster = Self { apiserver, caller_token, requests, dir: dir.to_owned() };
        cluster.populate(name, population).await?;
        Ok(cluster)
    }

    async fn populate(&self, name: &str, population: &Population) -> Result<()> {
        let names = objects::namespace_names(population);
        self.create_all(names.iter().map(|name| objects::namespace(name))).await?;
        self.create_all(caller_role().into_iter()).await?;
        let count = u64::from(population.autoscalers) * u64::from(population.pods);
        eprintln!("hpa-bench: {name}: creating {count} pods");
        let pods = population.pods;
        let all = objects::targets(population).flat_map(|(namespace, app)| {
            (0..pods).map(move |index| objects::pod(&namespace, &app, index, Timestamp::now()))
        });
        self.create_all(all).await
    }

    async fn create_all(&self, objects: impl Iterator<Item = Value> + Send) -> Result<()> {
        let (client, process_ids) = (self.apiserver.client(), self.apiserver.process_ids()?);
        let object_api = ObjectApi::Dedicated { client, process_ids };
        let creations = stream::iter(objects.map(|object| object_api.create(object)));
        creations.buffer_unordered(CONCURRENCY).try_collect().await
    }

    /// Registers the adapter, which serves on this loopback port, as an API service.
    pub(super) async fn register(&self, port: u16) -> Result<()> {
        let [group, version] = GROUP_VERSION;
        // Only a Service of type ExternalName may lead to a loopback address.
        let service = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": { "namespace": SYSTEM_NAMESPACE, "name": SERVICE },
            "spec": { "type": "ExternalName", "externalName": "localhost" },
        });
        let api_service = json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": { "name": format!("{version}.{group}") },
            "spec": {
                "group": group, "version": version,
                "groupPriorityMinimum": 100, "versionPriority": 100,
                // The adapters sign their certificates themselves.
                "insecureSkipTLSVerify": true,
                "service": { "namespace": SYSTEM_NAMESPACE, "name": SERVICE, "port": port },
            },
        });
        self.create_all([service, api_service].into_iter()).await
    }

    pub(super) fn adapter_kubeconfig(&self) -> Value {
        self.apiserver.kubeconfig(ADAPTER_USER)
    }

    /// A client of the API server with the service account that requests metrics.
    pub(super) async fn caller_client(&self) -> Result<Client> {
        self.apiserver.client_with_token(&self.caller_token).await
    }

    /// A client of the adapter that sends the API server's certificate, and the headers with which
    /// the API server forwards a request of the service account [`CALLER`].
    pub(super) fn front_proxy_client(&self, port: u16) -> Result<Client> {
        let mut config = Config::new(format!("https://127.0.0.1:{port}").parse()?);
        config.accept_invalid_certs = true;
        let file = |name: &str| Some(self.dir.join(name).display().to_string());
        config.auth_info.client_certificate = file("front-proxy.crt");
        config.auth_info.client_key = file("front-proxy.key");
        let header = |name: &'static str, value: &str| -> Result<(HeaderName, HeaderValue)> {
            Ok((HeaderName::from_static(name), value.parse()?))
        };
        config.headers = vec![
            header("x-remote-user", &format!("system:serviceaccount:{SYSTEM_NAMESPACE}:{CALLER}"))?,
            header("x-remote-group", "system:serviceaccounts")?,
            header("x-remote-group", "system:authenticated")?,
        ];
        Ok(Client::try_from(config)?)
    }

    /// The requests of the adapter so far, by kind.
    pub(super) fn requests(&self) -> BTreeMap<String, u64> {
        self.requests.lock().clone()
    }

    /// The usage of the API server and etcd.
    pub(super) fn usage(&self) -> Result<Usage> {
        Usage::for_both(self.apiserver.process_ids()?)
    }
}

/// The role that allows the caller to read all metrics, like the HPA controller, and its binding.
fn caller_role() -> [Value; 2] {
    let api = "rbac.authorization.k8s.io";
    let subject =
        json!({ "kind": "ServiceAccount", "namespace": SYSTEM_NAMESPACE, "name": CALLER });
    [
        json!({
            "apiVersion": format!("{api}/v1"), "kind": "ClusterRole",
            "metadata": { "name": CALLER },
            "rules": [{ "apiGroups": [GROUP_VERSION[0]], "resources": ["*"], "verbs": ["*"] }],
        }),
        json!({
            "apiVersion": format!("{api}/v1"), "kind": "ClusterRoleBinding",
            "metadata": { "name": CALLER },
            "roleRef": { "apiGroup": api, "kind": "ClusterRole", "name": CALLER },
            "subjects": [subject],
        }),
    ]
}
