//! `hpa shadow-report`.

use std::{io::Write, sync::Arc};

use anyhow::{Context, bail};
use clap::Args;
use hpa_controller::{Dependencies, Telemetry, TelemetryOptions, k8s::Clients, shadow::Summary};
use jiff::SignedDuration;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::{
    args::{AutoscalingArguments, ClusterArguments, LogArguments, positive_duration, to_std},
    logging, run,
};

const EXAMPLES: &str = "\
Examples:
  Compare for ten minutes with the controller of the current kubeconfig context:
    hpa shadow-report

  Compare for an hour, in two namespaces, with a controller that has a downscale stabilization
  of ten minutes and the gate HPAScaleToZero off (the default before Kubernetes 1.37):
    hpa shadow-report --for 1h -n shop,bank --scale-to-zero=false \\
      --horizontal-pod-autoscaler-downscale-stabilization 10m

Pass the flags that the other controller runs with: its decisions depend on them. Its earlier
recommendations are unknown, so differences of an autoscaler count only after its
stabilization windows have passed (five minutes by default). The command writes nothing to the
cluster and needs read access only.

Output: N HPAs, N decisions, N differences; then, for each HPA that differs, what differs and
both explanations. Exit status: 1 if there are differences or nothing to compare.";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ShadowReportArguments {
    /// How long to compare decisions
    #[arg(
        long = "for",
        value_name = "DURATION",
        default_value = "10m",
        value_parser = positive_duration
    )]
    pub(crate) length: SignedDuration,
    #[command(flatten)]
    pub(crate) autoscaling: AutoscalingArguments,
    #[command(flatten)]
    pub(crate) cluster: ClusterArguments,
    #[command(flatten)]
    pub(crate) log: LogArguments,
}

/// Compares decisions for the given time or until SIGTERM or SIGINT, then prints the report.
/// Differences are an error.
pub(crate) fn report(arguments: &ShadowReportArguments) -> anyhow::Result<()> {
    logging::start(&arguments.log, None)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("unable to start the runtime")?;
    let summary = runtime.block_on(compare(arguments));
    runtime.shutdown_background();
    let summary = summary?;
    write!(std::io::stdout(), "{summary}").context("unable to write to standard output")?;
    match summary {
        Summary { decisions: 0, .. } => {
            bail!("nothing was compared: no other controller wrote a status")
        }
        Summary { different: 0, .. } => Ok(()),
        Summary { different, .. } => bail!("{different} decisions differ"),
    }
}

async fn compare(arguments: &ShadowReportArguments) -> anyhow::Result<Summary> {
    let shutdown = CancellationToken::new();
    run::cancel_on_signal(&shutdown)?;
    let telemetry = Arc::new(Telemetry::new(TelemetryOptions::default()));
    let clients =
        Clients::with_observer(&run::client_config(&arguments.cluster), telemetry.clone()).await?;
    let options = run::options_from(&arguments.autoscaling, &arguments.cluster);
    let apis = arguments.cluster.autoscaler_api.apis();
    let dependencies =
        Dependencies { apis, ..Dependencies::for_dry_run(clients, &options, telemetry.clone()) };
    let length = to_std(arguments.length);
    info!(?length, "comparing decisions, writing nothing");
    let end = async {
        tokio::time::sleep(length).await;
        shutdown.cancel();
    };
    let controller = hpa_controller::run(dependencies, options, shutdown.clone());
    tokio::pin!(controller);
    tokio::select! {
        outcome = &mut controller => outcome?,
        () = end => controller.await?,
    }
    Ok(telemetry.shadow_summary())
}
