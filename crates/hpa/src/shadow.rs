//! `hpa shadow-report`.

use std::{process::ExitCode, sync::Arc};

use anyhow::{Context, bail};
use hpa_controller::{Dependencies, Telemetry, TelemetryOptions, k8s::Clients, shadow::Summary};
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{
    api_client::client_config,
    args::{ShadowReportArguments, to_std},
    controller_options::options_from,
    logging, signals, terminal,
};

/// Exit status if the comparison could not have found a difference.
const EXIT_INCONCLUSIVE: u8 = 2;

/// Compares decisions for the given time or until SIGTERM or SIGINT, then prints the report.
/// Differences are an error.
pub(crate) fn report(arguments: &ShadowReportArguments) -> anyhow::Result<ExitCode> {
    logging::start(&arguments.log)?;
    if let Some(warning) = short_comparison(arguments) {
        warn!("{warning}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("unable to start the runtime")?;
    let summary = runtime.block_on(compare(arguments));
    runtime.shutdown_background();
    let summary = summary?;
    terminal::print(&summary.to_string())?;
    if let Some(reason) = inconclusive(&summary) {
        terminal::warn(&reason);
        return Ok(ExitCode::from(EXIT_INCONCLUSIVE));
    }
    match summary.different {
        0 => Ok(ExitCode::SUCCESS),
        1 => bail!("1 decision differs"),
        different => bail!("{different} decisions differ"),
    }
}

/// The warning about a comparison that ends before a difference can count.
fn short_comparison(arguments: &ShadowReportArguments) -> Option<String> {
    let window = arguments.autoscaling.horizontal_pod_autoscaler_downscale_stabilization;
    let period = arguments.autoscaling.horizontal_pod_autoscaler_sync_period;
    // The comparison begins within the first period, and a difference has to persist.
    let needed = window.saturating_add(period.saturating_mul(6));
    (arguments.length < needed).then(|| {
        format!(
            "--for {:#} may be too short: differences count only after the stabilization window \
             ({window:#} by default). Use at least --for {}s",
            arguments.length,
            needed.as_secs()
        )
    })
}

/// The reason why the comparison could not find a difference; `None` if it could.
fn inconclusive(summary: &Summary) -> Option<String> {
    if summary.is_conclusive() {
        return None;
    }
    let reason = match summary {
        Summary { autoscalers: 0, .. } => "there are no HPAs".to_owned(),
        Summary { peer_is_active: false, .. } => {
            "the peer wrote no status. Check that it runs, or compare while the load changes"
                .to_owned()
        }
        Summary { decisions: 0, .. } => "no decision was compared; use a longer --for".to_owned(),
        Summary { longest_past, .. } => {
            format!(
                "--for is shorter than the stabilization windows and policy periods (up to \
                 {longest_past:#})"
            )
        }
    };
    Some(format!("no difference could be found: {reason}"))
}

async fn compare(arguments: &ShadowReportArguments) -> anyhow::Result<Summary> {
    let shutdown = CancellationToken::new();
    signals::cancel_on_signal(&shutdown)?;
    let telemetry = Arc::new(Telemetry::new(TelemetryOptions::default()));
    let clients =
        Clients::with_observer(&client_config(&arguments.cluster), telemetry.clone()).await?;
    let options = options_from(&arguments.autoscaling, &arguments.cluster);
    let apis = arguments.cluster.autoscaler_api.apis();
    let dependencies =
        Dependencies { apis, ..Dependencies::for_dry_run(clients, &options, telemetry.clone()) };
    let length = to_std(arguments.length);
    info!(?length, "comparing decisions, writing nothing");
    let controller = hpa_controller::run(dependencies, options, shutdown.clone());
    tokio::pin!(controller);
    tokio::select! {
        outcome = &mut controller => outcome?,
        () = tokio::time::sleep(length) => {
            let readiness = telemetry.ready();
            shutdown.cancel();
            controller.await?;
            readiness.context("nothing was compared")?;
        }
    }
    Ok(telemetry.shadow_summary(Timestamp::now()))
}
