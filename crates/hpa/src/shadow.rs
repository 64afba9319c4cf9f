//! `hpa shadow-report`.

use std::{io::Write, sync::Arc};

use anyhow::{Context, bail};
use hpa_controller::{Dependencies, Telemetry, TelemetryOptions, k8s::Clients, shadow::Summary};
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::{
    args::{ShadowReportArguments, to_std},
    logging, run,
};

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
