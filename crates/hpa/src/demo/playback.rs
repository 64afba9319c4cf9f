//! The event loop of the demo.

use std::{path::Path, time::Duration};

use anyhow::{Context, bail};
use hpa_controller::RunError;
use hpa_testbed::workload::scenario::Scenario;
use tokio::{
    task::JoinError,
    time::{MissedTickBehavior, interval},
};

use super::{
    cluster::DemoCluster,
    model::{DemoRecords, Summary},
    view::{DemoInfo, DemoOutput},
};
use crate::{
    args::{DemoArguments, to_std},
    signals::Signals,
};

/// Time between two frames of the live view.
const FRAME_INTERVAL: Duration = Duration::from_millis(100);
/// The maximum number of observations until the end of the scenario. All but the last are at least
/// one simulated second apart.
const MAX_OBSERVATIONS: f64 = 4000.0;

/// Runs a scenario and prints its summary. Returns whether the controller followed the load, or
/// `None` if a signal ended the demo early.
pub(super) async fn play(
    scenario: Scenario,
    arguments: &DemoArguments,
    folder: &Path,
    is_live: bool,
) -> anyhow::Result<Option<bool>> {
    let signals = Signals::listen()?;
    let speed = arguments.speed;
    let duration = arguments
        .duration
        .map_or(scenario.duration.get(), |real| to_std(real).as_secs_f64() * speed);
    let name = Some(&*scenario.name).filter(|name| !name.is_empty());
    let name = name.unwrap_or("unnamed").to_owned();
    let cluster = DemoCluster::start(scenario, speed, duration, folder).await?;
    let metrics = match arguments.metrics_address {
        Some(address) => Some(cluster.serve_metrics(address).await?),
        None => None,
    };
    let records = DemoRecords::new(&cluster.testbed, cluster.simulation.scenario());
    let kubeconfig = cluster.kubeconfig.display().to_string();
    let dashboard = cluster.start_dashboard(&name).await;
    let debug_api = cluster.start_debug_api().await;
    let dashboard_url = dashboard.as_ref().map(hpa_dashboard::Dashboard::url);
    let info = DemoInfo {
        scenario: name,
        duration,
        speed,
        kubeconfig,
        dashboard: dashboard_url,
        metrics: metrics.as_ref().map(|(address, _)| *address),
        debug_api: debug_api.as_ref().map(|(_, address)| *address),
    };
    let output = DemoOutput::begin(is_live, info, &records)?;
    let mut playback = Playback { cluster, records, output, signals };
    let outcome = playback.run(duration, arguments.hold).await;
    let Playback { cluster, records, output, .. } = playback;
    cluster.stop().await;
    let summary = outcome?;
    let followed_load = summary.as_ref().map(|summary| summary.followed_load);
    output.end(&records, &summary.unwrap_or_else(|| Summary::new(&records)))?;
    Ok(followed_load)
}

/// A running demo.
struct Playback {
    cluster: DemoCluster,
    records: DemoRecords,
    output: DemoOutput,
    signals: Signals,
}

impl Playback {
    /// Runs for `duration` simulated seconds. If `hold` is set, continues until a signal. Returns
    /// the summary of the duration, or `None` if a signal ended it early.
    async fn run(&mut self, duration: f64, hold: bool) -> anyhow::Result<Option<Summary>> {
        if !self.advance(Some(duration)).await? {
            return Ok(None);
        }
        let summary = Summary::new(&self.records);
        if hold {
            self.cluster.switch_to_real_time().await;
            self.output.report_hold(&summary)?;
            self.advance(None).await?;
        }
        Ok(Some(summary))
    }

    /// Handles events until a simulated second, or forever. Returns false after a signal.
    async fn advance(&mut self, until: Option<f64>) -> anyhow::Result<bool> {
        let step = (until.unwrap_or_default() / MAX_OBSERVATIONS).max(1.0);
        let mut frames = interval(FRAME_INTERVAL);
        frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let next = self.records.second + step;
            let next = until.map_or(next, |until| next.min(until));
            tokio::select! {
                observation = self.cluster.simulation.wait_for(|now| now.second >= next) => {
                    self.records.record_observation(&observation);
                    if until.is_some_and(|until| self.records.second >= until) {
                        return Ok(true);
                    }
                }
                Some(decision) = self.cluster.decisions.recv() => {
                    self.cluster.track_pending_checks(&decision);
                    let previous = self.records.record_decision(decision.clone());
                    self.output.print_decision(&decision, previous.as_ref())?;
                }
                _ = frames.tick() => {
                    self.cluster.adjust_speed();
                    self.records.remove_deleted(&self.cluster.testbed);
                    self.output.draw(&self.records)?;
                }
                () = self.signals.recv() => return Ok(false),
                outcome = self.cluster.controller.wait_for_exit() => {
                    return controller_exited(outcome);
                }
            }
        }
    }
}

/// The controller runs until it is stopped, so any exit is an error.
fn controller_exited(outcome: Result<Result<(), RunError>, JoinError>) -> anyhow::Result<bool> {
    outcome.context("the controller panicked")?.context("the controller exited")?;
    bail!("the controller exited")
}
