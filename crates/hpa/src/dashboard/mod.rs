//! `hpa dashboard`.

mod browser;
mod inactivity;
mod metrics;
mod past;

use std::{process::ExitCode, sync::Arc, time::Duration};

use anyhow::Context;
use hpa_controller::{
    AutoscalerApi,
    k8s::Clients,
    scale_target::{MapperConfig, RestMapper},
};
use hpa_dashboard::{Dashboard, DecisionMetrics, Options};
use hpa_metrics::CoalescingSettings;
use kube::config::Kubeconfig;
use serde_json::Value;
use tokio::time::timeout;

use self::{metrics::SourceMetrics, past::ClusterRecordSource};
use crate::{
    args::{DashboardArguments, KubectlArguments, to_std},
    collectors::Scope,
    controller_options::{read_period, setting_policy, settings},
    explain::MetricAdvisor,
    kubectl,
    metric_reader::MetricReader,
    signals::Signals,
    terminal,
};

/// The longest time that the start waits for the API server's clock.
const CLOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// Serves the page until a signal, or until the dashboard fails.
pub(crate) fn run(arguments: &DashboardArguments) -> anyhow::Result<ExitCode> {
    kubectl::block_on_threads(None, serve(arguments)).map(|()| ExitCode::SUCCESS)
}

async fn serve(arguments: &DashboardArguments) -> anyhow::Result<()> {
    let mut signals = Signals::listen()?;
    let clients = kubectl::clients(&arguments.cluster).await?;
    kubectl::require_namespace(&clients.api, arguments.cluster.namespace.as_deref()).await?;
    // The response shows the API server's clock. Without it, the first list could take a recent
    // status for one from the future.
    _ = timeout(CLOCK_TIMEOUT, kubectl::get::<Value>(&clients.api, "/apis/autoscaling/v2")).await;
    let request_timeout = to_std(arguments.cluster.request_timeout);
    let autoscaling = &arguments.autoscaling;
    let options = Options {
        port: arguments.port,
        title: title(&arguments.cluster),
        namespace: arguments.cluster.namespace.clone(),
        settings: settings(autoscaling).with(|settings| {
            settings.exact_schedules = arguments.sources.schedules.scaling_schedule;
        }),
        setting_policy: setting_policy(autoscaling),
        sync_period: read_period(autoscaling),
        request_timeout,
        clock: Arc::new(kubectl::ApiServerClock::default()),
        records: Some(Arc::new(ClusterRecordSource::new(
            clients.api.clone(),
            &arguments.controller,
            request_timeout,
        ))),
        metrics: Some(metrics(&clients, arguments).await?),
    };
    let mut dashboard = Dashboard::start(&clients, options).await?;
    let text = format!("The dashboard is at {}\nCtrl-C ends it.\n", dashboard.url());
    terminal::print(&text)?;
    if !arguments.no_open {
        browser::open(&dashboard.launch_url());
    }
    let mut reporter = dashboard.reporter();
    loop {
        tokio::select! {
            () = signals.recv() => return Ok(()),
            ended = dashboard.ended() => return ended.context("the dashboard ended"),
            sentence = reporter.next_sentence() => terminal::warn(sentence),
        }
    }
}

/// Metrics from the sources that flags configure, and from the metrics APIs, as in the controller.
async fn metrics(
    clients: &Clients,
    arguments: &DashboardArguments,
) -> anyhow::Result<Arc<dyn DecisionMetrics>> {
    let sources = &arguments.sources;
    let timeout = to_std(arguments.cluster.request_timeout);
    let config = MapperConfig { request_timeout: timeout, ..MapperConfig::default() };
    let mapper = Arc::new(RestMapper::new(clients.api.clone(), config));
    let period = to_std(arguments.autoscaling.horizontal_pod_autoscaler_sync_period);
    let sharing = CoalescingSettings::for_sync_period(period);
    let scope =
        Scope { apis: AutoscalerApi::ALL.to_vec(), namespace: arguments.cluster.namespace.clone() };
    let reader = MetricReader::new(clients, mapper, sources, scope, timeout, sharing).await?;
    let advisor = MetricAdvisor::new(clients.api.clone(), sources);
    Ok(Arc::new(SourceMetrics::start(reader, advisor)))
}

/// The name of the cluster: the kubeconfig's context.
fn title(arguments: &KubectlArguments) -> String {
    let read_kubeconfig = || match &arguments.kubeconfig {
        Some(path) => Kubeconfig::read_from(path),
        None => Kubeconfig::read(),
    };
    let context = || read_kubeconfig().ok().and_then(|kubeconfig| kubeconfig.current_context);
    arguments.context.clone().or_else(context).unwrap_or_default()
}
