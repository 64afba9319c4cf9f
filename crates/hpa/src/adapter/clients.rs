//! The clients of the API server.

use std::path::PathBuf;

use hpa_controller::k8s::{ClientConfig, ClientLimits, ClientSource, Clients, RateLimit};
use tracing::warn;

use crate::{
    args::{AdapterArguments, to_std},
    version,
};

/// client-go's default rate in requests a second, which `--client-qps=0` means.
const CLIENT_GO_QPS: f64 = 5.0;

/// Clients of the API server, by purpose.
pub(super) struct KubeClients {
    /// For all requests except those of the other clients.
    pub(super) lister: kube::Client,
    pub(super) authentication: kube::Client,
    pub(super) authorization: kube::Client,
    /// Only for the lease: renewals must not queue behind other requests.
    pub(super) election: Clients,
}

impl KubeClients {
    pub(super) async fn new(arguments: &AdapterArguments) -> anyhow::Result<Self> {
        let cluster = &arguments.cluster;
        let burst = cluster.client_burst;
        if cluster.client_qps == Some(0.0) {
            warn!("--client-qps=0 means {CLIENT_GO_QPS} requests a second, as in client-go");
        }
        // A negative rate means no limit, as in client-go.
        let qps = cluster.client_qps.filter(|qps| *qps >= 0.0);
        let qps = qps.map(|qps| if qps == 0.0 { CLIENT_GO_QPS } else { qps });
        let rate = qps.map(|qps| RateLimit { qps, burst });
        let request_timeout = to_std(cluster.request_timeout);
        let limits = ClientLimits { request_timeout, ..ClientLimits::default() };
        let default = &cluster.lister_kubeconfig;
        let client = async |path: &Option<PathBuf>, limits: ClientLimits| {
            let path = path.clone().or_else(|| default.clone());
            let config = ClientConfig {
                source: ClientSource::from_flags(path, None),
                api: limits,
                user_agent: version::user_agent(),
                ..ClientConfig::default()
            };
            Clients::new(&config).await
        };
        Ok(Self {
            lister: client(default, ClientLimits { rate, ..limits }).await?.api,
            authentication: client(&arguments.authentication.authentication_kubeconfig, limits)
                .await?
                .api,
            election: client(default, limits).await?,
            authorization: client(&arguments.authorization.authorization_kubeconfig, limits)
                .await?
                .api,
        })
    }
}
