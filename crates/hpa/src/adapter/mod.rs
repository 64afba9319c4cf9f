//! `hpa adapter`.

mod clients;
mod discovery_log;
mod leader;
mod options;
mod probes;
mod prometheus_url;
mod serving;
mod sources;

use std::{net::SocketAddr, pin::pin, sync::Arc};

use anyhow::Context;
use hpa_adapter::{
    Adapter, AdapterOptions, Authenticator, Authorizer, Metrics, TokenAuthenticator,
    authentication::TrustSource,
    metrics_api::group::installed_apis,
    server::{self, listen},
};
use hpa_calc::MetricsApi;
use hpa_lease::TaskPanics;
use hpa_metrics::{ApiGroups, MetricSource, Routed};
use hpa_prometheus::source::PrometheusSource;
use kube::Client;
use tokio::{net::TcpListener, sync::watch};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::{
    clients::KubeClients,
    options::{allowed_groups, authorizer_options, server_options, trust_settings, version},
    sources::Sources,
};
use crate::{
    args::{AdapterArguments, to_std},
    kubectl::block_on_threads,
    logging,
    signals::cancel_on_signal,
};

/// Serves until a signal.
pub(crate) fn run(arguments: AdapterArguments) -> anyhow::Result<()> {
    logging::start(&arguments.log)?;
    block_on_threads(Some(arguments.threads), serve(arguments))
}

/// Adds the groups for which a changed rules file has rules. Removes none, because an API that
/// becomes unavailable disturbs other clients of the API server.
async fn follow_groups(
    source: Arc<PrometheusSource>,
    allowed: ApiGroups,
    served: watch::Sender<ApiGroups>,
) {
    let mut groups = *served.borrow();
    loop {
        let extended = |of_rules: ApiGroups| groups.union(of_rules.intersection(allowed));
        let of_rules = source.wait_for_groups(|of_rules| extended(of_rules) != groups).await;
        groups = extended(of_rules);
        info!(groups = group_names(groups), "serving more groups");
        served.send_replace(groups);
    }
}

fn group_names(groups: ApiGroups) -> String {
    installed_apis(groups).map(MetricsApi::group).collect::<Vec<_>>().join(",")
}

/// Creates the authenticator, and the source that keeps its CAs up to date.
async fn create_authenticator(
    arguments: &AdapterArguments,
    client: Client,
) -> anyhow::Result<(Arc<Authenticator>, TrustSource)> {
    let (trust_source, trust) = TrustSource::load(trust_settings(arguments), client.clone())
        .await
        .context("unable to load the CAs of client certificates")?;
    let lifetime = to_std(arguments.authentication.authentication_token_webhook_cache_ttl);
    let tokens = TokenAuthenticator::new(Arc::new(client), lifetime);
    Ok((Arc::new(Authenticator::new(trust, Some(tokens))), trust_source))
}

fn warn_of_ineffective_flags(arguments: &AdapterArguments) {
    for flag in &arguments.ignored.names {
        warn!("the flag --{flag} has no effect");
    }
    let has_prometheus = arguments.prometheus.prometheus_url.is_some();
    for sentence in arguments.collectors.ineffective_flags(has_prometheus) {
        warn!("{sentence}");
    }
}

/// Listens at the address that the flags configure.
async fn bind(arguments: &AdapterArguments) -> anyhow::Result<TcpListener> {
    let address = SocketAddr::new(arguments.serving.bind_address, arguments.serving.secure_port);
    let error = || format!("unable to listen on {address} (--bind-address, --secure-port)");
    listen(address).await.with_context(error)
}

async fn serve(arguments: AdapterArguments) -> anyhow::Result<()> {
    warn_of_ineffective_flags(&arguments);
    let stop = CancellationToken::new();
    cancel_on_signal(&stop)?;
    let metrics = Arc::new(Metrics::new()?);
    let clients = KubeClients::new(&arguments).await?;
    let panics = TaskPanics::default();
    let sources = Sources::start(&arguments, &clients, &metrics, &panics).await?;
    let source: Arc<dyn MetricSource> = Arc::new(Routed::new(sources.metrics));
    let allowed = allowed_groups(&arguments);
    let groups = source.catalog().groups().intersection(allowed);
    let (served, served_groups) = watch::channel(groups);
    if let Some(rules) = sources.rules {
        panics.spawn("watch of served groups", follow_groups(rules, allowed, served));
    }

    let (authenticator, trust_source) =
        create_authenticator(&arguments, clients.authentication).await?;
    let authorizer =
        Authorizer::new(Arc::new(clients.authorization), &authorizer_options(&arguments));
    let listener = bind(&arguments).await?;
    let address = listener.local_addr()?;
    let options = AdapterOptions {
        groups: served_groups.clone(),
        compat: arguments.compat.rules_compat(),
        port: address.port(),
        version: version(),
        stop: stop.clone(),
    };
    let server_options = server_options(&arguments);
    let certificate = serving::load_certificate(
        &arguments.serving,
        server_options,
        &clients.lister,
        served_groups,
        &panics,
        &stop,
    )
    .await?;
    metrics.register(certificate.not_after_gauge())?;
    let adapter = Adapter::new(source, authenticator.clone(), authorizer, metrics, options);
    let adapter = Arc::new(adapter);

    let leader_task = (!sources.leader_tasks.is_empty()).then(|| {
        let election = leader::election(&arguments.election, clients.election);
        let (client, tasks) = (clients.lister, sources.leader_tasks);
        panics.spawn(
            "leader election",
            leader::run(election, client, tasks, panics.clone(), stop.clone()),
        )
    });
    panics.spawn("watch of client CAs", trust_source.run(authenticator, stop.clone()));
    let probes = probes::start(&arguments.serving, adapter.clone()).await?;
    info!(%address, groups = group_names(groups), "serving");
    let serving = pin!(server::serve(listener, adapter, certificate, server_options, stop.clone()));
    let outcome = panics.stop_at_panic(&stop, serving).await;
    if let Some(probes) = probes {
        probes.stop().await;
    }
    if let Some(leader_task) = leader_task {
        // The task releases the lease before it ends.
        leader_task.await?;
    }
    Ok(outcome?)
}
