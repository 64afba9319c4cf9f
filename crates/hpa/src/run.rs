//! `hpa run`.

use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use anyhow::{Context, anyhow};
use hpa_calc::settings::Settings;
use hpa_controller::{
    ActivePeer, Dependencies, Options, RunError, Telemetry, TelemetryOptions,
    k8s::{ClientConfig, ClientLimits, ClientSource, Clients, RateLimit},
    leader_election,
    leader_election::{Election, ElectionConfig},
};
use kube::Client;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::info;

#[cfg(feature = "otlp")]
use crate::otlp::Traces;
use crate::{
    args::{AutoscalingArguments, ClusterArguments, RunArguments, to_std},
    debug_api, in_process, logging, scaling_schedules, serve, version,
};

/// The exit status after a second signal, as shells report SIGINT.
const EXIT_SECOND_SIGNAL: i32 = 130;

/// Runs the controller until SIGTERM or SIGINT.
pub(crate) fn run(arguments: RunArguments) -> anyhow::Result<()> {
    let threads = usize::from(arguments.threads);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    let runtime = runtime.context("unable to start the runtime")?;
    #[cfg(feature = "otlp")]
    let traces = Traces::start(&arguments.traces, runtime.handle())?;
    #[cfg(feature = "otlp")]
    logging::start(&arguments.log, traces.as_ref().map(Traces::layer))?;
    #[cfg(not(feature = "otlp"))]
    logging::start(&arguments.log, None)?;
    let outcome = runtime.block_on(run_controller(arguments));
    // Flush only now that the lease is released, so that the next leader doesn't wait for it.
    #[cfg(feature = "otlp")]
    if let Some(traces) = traces {
        traces.finish();
    }
    // Don't wait for blocking tasks such as DNS lookups.
    runtime.shutdown_background();
    outcome
}

async fn run_controller(arguments: RunArguments) -> anyhow::Result<()> {
    let shutdown = CancellationToken::new();
    cancel_on_signal(&shutdown)?;
    let telemetry = Arc::new(Telemetry::new(TelemetryOptions {
        per_autoscaler: arguments.observation.per_hpa_metrics,
        build: version::build_info(),
    }));
    let serving = serve::start(&arguments.observation, &telemetry).await?;
    let clients =
        Clients::with_observer(&client_config(&arguments.cluster), telemetry.clone()).await?;
    let options = options(&arguments);
    let election = election(&arguments).await?;
    let namespaces =
        if options.namespaces.is_empty() { "all".to_owned() } else { options.namespaces.join(",") };
    let build = version::build_info();
    info!(version = build.version, revision = build.revision, namespaces, "starting");
    let apis = arguments.cluster.autoscaler_api.apis();
    let metrics = in_process::Metrics::new(&arguments, &clients, &telemetry).await?;
    let dependencies = match metrics {
        Some(metrics) => metrics.dependencies(clients, &options, telemetry, arguments.dry_run)?,
        None if arguments.dry_run => Dependencies::for_dry_run(clients, &options, telemetry),
        None => Dependencies::with_telemetry(clients, &options, telemetry),
    };
    let dependencies = Dependencies { election, apis, ..dependencies };
    let dependencies = scaling_schedules::attach(&arguments.schedules, &options, dependencies)?;
    #[cfg(feature = "otlp")]
    let dependencies = Dependencies { observer: Traces::observer(), ..dependencies };
    let (dependencies, debug_server) = debug_api::start(&arguments, dependencies, &options).await?;
    let outcome = hpa_controller::run(dependencies, options, shutdown).await;
    for server in [debug_server, serving].into_iter().flatten() {
        server.stop().await;
    }
    outcome.map_err(|error| match error {
        RunError::OtherController(peer) => anyhow!("{}", refusal(&peer)),
        error => error.into(),
    })
}

/// Why `hpa run` doesn't start beside another controller, and what to do.
fn refusal(peer: &ActivePeer) -> String {
    let window = peer.window;
    format!(
        "not started, because another controller is active and both would overwrite each other's \
         decisions: {peer}. Compare decisions with it: hpa shadow-report. Or switch it off; if \
         it is off already, start again after {window:#} (two sync periods). To start anyway: \
         --allow-other-controller"
    )
}

/// The file that names the namespace of the pod.
const POD_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// The namespace of this pod, if it is one.
pub(crate) fn pod_namespace() -> Option<String> {
    let text = std::fs::read_to_string(POD_NAMESPACE).ok()?;
    Some(text.trim().to_owned())
}

/// Configures the election. It has its own client without rate limits, so that renewals never queue
/// behind other requests.
async fn election(arguments: &RunArguments) -> anyhow::Result<Option<Election>> {
    let (election, lease) = (&arguments.election, &arguments.election.lease);
    // A dry run writes nothing, not even the lease.
    if !lease.leader_elect || arguments.dry_run {
        return Ok(None);
    }
    let client = separate_client(&arguments.cluster).await?;
    let is_in_cluster =
        arguments.cluster.kubeconfig.is_none() && arguments.cluster.context.is_none();
    let flag = lease.leader_elect_resource_namespace.clone();
    let namespace = flag.or_else(|| pod_namespace().filter(|_| is_in_cluster));
    let config = ElectionConfig {
        namespace: namespace.unwrap_or_else(|| "kube-system".to_owned()),
        name: lease.leader_elect_resource_name.clone(),
        identity: leader_election::identity(election.pod_name.as_deref()),
        lease_duration: to_std(lease.leader_elect_lease_duration),
        renew_deadline: to_std(election.leader_elect_renew_deadline),
        retry_period: to_std(election.leader_elect_retry_period),
        keep_history: election.keep_history,
    };
    Ok(Some(Election { client, config }))
}

pub(crate) fn cancel_on_signal(shutdown: &CancellationToken) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("unable to listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("unable to listen for SIGINT")?;
    let shutdown = shutdown.clone();
    tokio::spawn(async move {
        let mut signal = async || {
            tokio::select! {
                _ = terminate.recv() => info!("received SIGTERM"),
                _ = interrupt.recv() => info!("received SIGINT"),
            }
        };
        signal().await;
        shutdown.cancel();
        signal().await;
        info!("second signal: exiting without waiting");
        std::process::exit(EXIT_SECOND_SIGNAL);
    });
    Ok(())
}

/// Concurrent requests for metrics: enough that two metrics APIs that hang leave room for the third,
/// with the limit that each API has.
const METRICS_CONCURRENCY: NonZeroUsize = NonZeroUsize::MIN.saturating_add(95);

/// A client of its own, without rate limits, for requests that must neither wait for those of
/// reconciles nor delay them.
pub(crate) async fn separate_client(cluster: &ClusterArguments) -> anyhow::Result<Client> {
    let limits = ClientLimits::default();
    let config = ClientConfig { api: limits, metrics: limits, ..client_config(cluster) };
    Ok(Clients::new(&config).await?.api)
}

pub(crate) fn client_config(cluster: &ClusterArguments) -> ClientConfig {
    let source = match (&cluster.kubeconfig, &cluster.context) {
        (None, None) if cluster.in_cluster => ClientSource::InCluster,
        (None, None) => ClientSource::Infer,
        (path, context) => {
            ClientSource::Kubeconfig { path: path.clone(), context: context.clone() }
        }
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

/// The default burst: the requests that a rate permits in a second, at least one.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates, and a rate is positive"
)]
fn default_burst(qps: f64) -> u32 {
    (qps.ceil() as u32).max(1)
}

pub(crate) fn options(arguments: &RunArguments) -> Options {
    let options = options_from(&arguments.autoscaling, &arguments.cluster);
    Options {
        settings: options.settings.with_exact_schedules(arguments.schedules.scaling_schedule),
        shutdown_grace: to_std(arguments.shutdown_grace_period),
        allow_other_controller: arguments.allow_other_controller,
        status_interval: to_std(arguments.status_interval),
        ..options
    }
}

/// The settings of decisions.
pub(crate) fn settings(autoscaling: &AutoscalingArguments) -> Settings {
    Settings::default()
        .with_tolerance(autoscaling.horizontal_pod_autoscaler_tolerance)
        .with_downscale_stabilization(autoscaling.horizontal_pod_autoscaler_downscale_stabilization)
        .with_cpu_initialization_period(
            autoscaling.horizontal_pod_autoscaler_cpu_initialization_period,
        )
        .with_initial_readiness_delay(autoscaling.horizontal_pod_autoscaler_initial_readiness_delay)
        .with_scale_to_zero(autoscaling.scale_to_zero)
        .with_strict_scale_to_zero(true)
}

/// The options of a controller without a shutdown grace period.
pub(crate) fn options_from(
    autoscaling: &AutoscalingArguments,
    cluster: &ClusterArguments,
) -> Options {
    let AutoscalingArguments {
        concurrent_horizontal_pod_autoscaler_syncs: workers,
        horizontal_pod_autoscaler_sync_period: sync_period,
        ..
    } = *autoscaling;
    Options {
        settings: settings(autoscaling),
        sync_period: to_std(sync_period),
        workers: usize::try_from(workers).unwrap_or(usize::MAX),
        namespaces: cluster.namespaces.clone(),
        shutdown_grace: Duration::ZERO,
        request_timeout: to_std(cluster.request_timeout),
        allow_other_controller: false,
        watch_scales: cluster.watch_scales,
        status_interval: Duration::ZERO,
    }
}
