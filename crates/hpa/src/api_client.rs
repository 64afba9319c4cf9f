//! Creates clients of the API server from the flags of `hpa run` and `hpa shadow-report`.

use std::num::NonZeroUsize;

use hpa_controller::k8s::{ClientConfig, ClientLimits, ClientSource, Clients, RateLimit};
use hpa_metrics::IsolationSettings;
use kube::Client;

use crate::{
    args::{ClusterArguments, to_std},
    version,
};

/// The sum of the limits of the three metrics APIs. So an API that hangs doesn't take connections
/// from the others.
const METRICS_CONCURRENCY: NonZeroUsize =
    NonZeroUsize::MIN.saturating_add(3 * IsolationSettings::CONCURRENCY - 1);

/// Creates a client without rate limits, for requests that must neither wait for reconciles nor
/// delay them.
pub(crate) async fn separate_client(cluster: &ClusterArguments) -> anyhow::Result<Client> {
    let config = ClientConfig { api: ClientLimits::default(), ..client_config(cluster) };
    Ok(Clients::new(&config).await?.api)
}

pub(crate) fn client_config(cluster: &ClusterArguments) -> ClientConfig {
    let source = if cluster.in_cluster {
        ClientSource::InCluster
    } else {
        ClientSource::from_flags(cluster.kubeconfig.clone(), cluster.context.clone())
    };
    let rate = cluster
        .kube_api_qps
        .map(|qps| RateLimit { qps, burst: cluster.kube_api_burst.unwrap_or(default_burst(qps)) });
    let limits = ClientLimits {
        rate,
        request_timeout: to_std(cluster.request_timeout),
        ..ClientLimits::default()
    };
    let metrics = ClientLimits { concurrency: METRICS_CONCURRENCY, ..limits };
    let user_agent = version::user_agent();
    ClientConfig { source, api: limits, metrics, user_agent, ..ClientConfig::default() }
}

/// The default burst: the number of requests per second, rounded up, which is at least one.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates, and a rate is positive"
)]
fn default_burst(qps: f64) -> u32 {
    qps.ceil() as u32
}
