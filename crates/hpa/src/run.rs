//! `hpa run`: starts the controller with its servers, sources of metrics and leader election.

use std::{pin::pin, sync::Arc};

use anyhow::anyhow;
use hpa_controller::{
    ActivePeer, Dependencies, RunError, Telemetry, TelemetryOptions, forecast::ForecastSource,
    k8s::Clients,
};
use hpa_lease::{Election, ElectionConfig, TaskPanics};
use hpa_prometheus::{client::Client, rules::Compat, source::PrometheusSource};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{
    api_client::{client_config, separate_client},
    args::{ForecastSourceArguments, RunArguments, to_std},
    controller_options::options,
    debug_api, in_process, kubectl, logging,
    replay::PrometheusPastLoads,
    scaling_schedules, serve,
    signals::cancel_on_signal,
    version,
};

/// The file with the namespace of the pod.
const POD_NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Runs the controller until a signal.
pub(crate) fn run(arguments: RunArguments) -> anyhow::Result<()> {
    logging::start(&arguments.log)?;
    kubectl::block_on_threads(Some(arguments.threads), run_controller(arguments))
}

async fn run_controller(arguments: RunArguments) -> anyhow::Result<()> {
    let shutdown = CancellationToken::new();
    cancel_on_signal(&shutdown)?;
    let build = version::build_info();
    let telemetry = Arc::new(Telemetry::new(TelemetryOptions {
        per_autoscaler: arguments.observation.per_hpa_metrics,
        build: build.clone(),
    }));
    let serving = serve::start(&arguments.observation, &telemetry).await?;
    let clients =
        Clients::with_observer(&client_config(&arguments.cluster), telemetry.clone()).await?;
    let options = options(&arguments);
    tokio::spawn(warn_of_missing_namespaces(clients.api.clone(), options.namespaces.clone()));
    let election = election(&arguments, &clients).await?;
    let keep_history = arguments.election.keep_history;
    let namespaces =
        if options.namespaces.is_empty() { "all".to_owned() } else { options.namespaces.join(",") };
    info!(version = build.version, revision = build.revision, namespaces, "starting");
    let has_prometheus = arguments.prometheus.prometheus_url.is_some();
    for sentence in arguments.collectors.ineffective_flags(has_prometheus) {
        warn!("{sentence}");
    }
    let apis = arguments.cluster.autoscaler_api.apis();
    let panics = TaskPanics::default();
    let sources = in_process::Sources::new(&arguments, &clients, &telemetry, &panics).await?;
    let rules = sources.as_ref().and_then(|sources| sources.rules.clone());
    let forecasts = forecast_source(&arguments, rules.clone())?;
    let dependencies = match sources {
        Some(sources) => sources.dependencies(clients, &options, telemetry, arguments.dry_run)?,
        None => Dependencies::with_telemetry(clients, &options, telemetry, arguments.dry_run, None),
    };
    let dependencies = Dependencies { election, keep_history, apis, forecasts, ..dependencies };
    let dependencies =
        scaling_schedules::attach(&arguments.schedules, &options, dependencies, &panics)?;
    let debug_api = debug_api::start(&arguments, dependencies, &options, rules);
    let (dependencies, debug_server) = debug_api.await?;
    let running = pin!(hpa_controller::run(dependencies, options, shutdown.clone()));
    let outcome = panics.stop_at_panic(&shutdown, running).await;
    for server in [debug_server, serving].into_iter().flatten() {
        server.stop().await;
    }
    outcome?.map_err(|error| match error {
        RunError::ActivePeer(peer) => anyhow!("{}", refusal(&peer)),
        error => error.into(),
    })
}

/// Logs the namespaces that don't exist. They may be created later.
async fn warn_of_missing_namespaces(client: kube::Client, namespaces: Vec<String>) {
    for namespace in namespaces {
        if let Some(missing) = kubectl::missing_namespace(&client, &namespace).await {
            warn!("{missing}; its autoscalers are handled once it exists");
        }
    }
}

/// The source of past loads for forecasts.
fn forecast_source(
    arguments: &RunArguments,
    rules: Option<Arc<PrometheusSource>>,
) -> anyhow::Result<ForecastSource> {
    let ForecastSourceArguments { forecast_prometheus, forecast_time_zone: zone } =
        &arguments.forecasts;
    let flags = &arguments.prometheus;
    let url = forecast_prometheus.as_ref().or(flags.prometheus_url.as_ref());
    let settings = url.map(|url| flags.settings(url, Compat::Off)).transpose()?;
    let client = settings.map(|settings| Client::new(settings, Arc::new(()))).transpose()?;
    let past = client.map(|client| Arc::new(PrometheusPastLoads { client, rules }) as Arc<_>);
    Ok(ForecastSource { past, zone: zone.clone() })
}

/// The error for a start beside another active controller, with advice.
fn refusal(peer: &ActivePeer) -> String {
    let wait = peer.time_until_inactive();
    format!(
        "not started, because another controller is active and both would overwrite each other's \
         decisions: {peer}. Compare decisions with it: hpa shadow-report. Or switch it off; if \
         it is off already, start again after {wait:#} (two sync periods of the controller or of \
         an autoscaler, at least 30s, since that write). To start anyway: --allow-other-controller"
    )
}

/// The namespace of this pod. `None` outside a cluster, or if the API server may be that of another
/// cluster.
pub(crate) fn pod_namespace(clients: &Clients) -> Option<String> {
    if !clients.uses_service_account {
        return None;
    }
    let text = std::fs::read_to_string(POD_NAMESPACE_FILE).ok()?;
    Some(text.trim().to_owned())
}

/// Configures the election. It has its own client without rate limits: renewals must not queue
/// behind other requests. `clients` have the same API server.
async fn election(arguments: &RunArguments, clients: &Clients) -> anyhow::Result<Option<Election>> {
    let (election, lease) = (&arguments.election, &arguments.election.lease);
    // A dry run writes nothing, not even the lease.
    if !lease.leader_elect || arguments.dry_run {
        return Ok(None);
    }
    let client = separate_client(&arguments.cluster).await?;
    let config = ElectionConfig {
        renew_deadline: to_std(election.leader_elect_renew_deadline),
        retry_period: to_std(election.leader_elect_retry_period),
        ..lease.election_config(pod_namespace(clients), election.pod_name.as_deref())
    };
    Ok(Some(Election { client, config }))
}
