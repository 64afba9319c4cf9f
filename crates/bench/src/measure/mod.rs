//! `hpa-bench run`: measures one controller after the other.

mod median;
mod outcome;
mod own_metrics;
mod server_process;

use std::{future::Future, path::Path, time::Duration};

use anyhow::{Context as _, Result, bail};
use hpa_tests::kube_apiserver::{Process, free_ports};
use tempfile::TempDir;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::{Instant, sleep, sleep_until},
};

pub(crate) use self::{
    median::Rounds,
    outcome::{CountedBy, Outcome, Requests},
};
use self::{
    outcome::{Measurement, Snapshot},
    own_metrics::{MetricsEndpoint, OwnMetrics},
    server_process::ServerProcess,
};
use crate::{
    args::{ApiServer, Metric, RunArguments},
    controller::{Controller, Kind, RulesAndUrl, Settings},
    prometheus,
    usage::Usage,
};

const POLL: Duration = Duration::from_millis(50);
/// Time for a controller to exit after SIGTERM.
const GRACE: Duration = Duration::from_secs(15);

/// Measures all controllers, in the order of the arguments.
pub(crate) async fn run(arguments: &RunArguments) -> Result<Vec<Rounds<Outcome>>> {
    let is_reference = |controller: &Controller| controller.kind == Kind::Reference;
    if arguments.population.metric == Metric::Prometheus
        && arguments.controllers.iter().any(is_reference)
    {
        bail!("the reference can't read from Prometheus, use --metric=pods for both");
    }
    let mut interruption = Interruption::new()?;
    let dir = log_dir(arguments.keep)?;
    let mut rounds = vec![Vec::new(); arguments.controllers.len()];
    // Alternating, so that other load on this machine affects all controllers.
    for round in 1..=arguments.repeat {
        for (index, (controller, outcomes)) in
            arguments.controllers.iter().zip(&mut rounds).enumerate()
        {
            let name = format!("{}-{}-round-{round}", controller.name(), index + 1);
            let outcome = measure(arguments, controller, dir.path(), &name, &mut interruption);
            outcomes.push(
                outcome
                    .await
                    .with_context(|| format!("cannot measure {}", controller.binary.display()))?,
            );
        }
    }
    rounds.into_iter().map(Rounds::new).collect()
}

/// A directory for logs, which is deleted at the end or reported now.
pub(crate) fn log_dir(keep: bool) -> Result<TempDir> {
    let mut dir = tempfile::tempdir()?;
    dir.disable_cleanup(keep);
    if keep {
        eprintln!("hpa-bench: logs are in {}", dir.path().display());
    }
    Ok(dir)
}

/// SIGTERM and SIGINT.
pub(crate) struct Interruption {
    terminate: Signal,
    interrupt: Signal,
}

impl Interruption {
    pub(crate) fn new() -> Result<Self> {
        let (terminate, interrupt) = (SignalKind::terminate(), SignalKind::interrupt());
        Ok(Self { terminate: signal(terminate)?, interrupt: signal(interrupt)? })
    }

    /// Runs `work` to completion, or drops it and returns an error when a signal arrives.
    pub(crate) async fn or<T>(&mut self, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            result = work => result,
            _ = self.terminate.recv() => bail!("terminated"),
            _ = self.interrupt.recv() => bail!("interrupted"),
        }
    }
}

async fn measure(
    arguments: &RunArguments,
    controller: &Controller,
    dir: &Path,
    name: &str,
    interruption: &mut Interruption,
) -> Result<Outcome> {
    eprintln!("hpa-bench: {name}: populating");
    let kubeconfig = dir.join(format!("{name}.yaml"));
    let mut server = ServerProcess::start(arguments, dir, &kubeconfig, name)?;
    // On a signal, dropping the future kills the controller, but the server needs time to clean up.
    let measuring = measure_against(&mut server, arguments, controller, dir, name, &kubeconfig);
    let outcome = interruption.or(measuring).await;
    if let Err(error) = interruption.or(server.stop()).await {
        eprintln!("hpa-bench: {name}: the server did not stop cleanly: {error:#}");
    }
    outcome
}

async fn measure_against(
    server: &mut ServerProcess,
    arguments: &RunArguments,
    controller: &Controller,
    dir: &Path,
    name: &str,
    kubeconfig: &Path,
) -> Result<Outcome> {
    server.wait_until_ready().await?;
    let [metrics_port] = free_ports()?;
    let own = MetricsEndpoint::new(controller, metrics_port)?;
    let rules = dir.join("rules.yaml");
    std::fs::write(&rules, prometheus::RULES)
        .with_context(|| format!("cannot write {}", rules.display()))?;
    let prometheus = match arguments.population.metric {
        Metric::Prometheus => Some(RulesAndUrl { rules: &rules, url: server.prometheus_url()? }),
        Metric::Cpu | Metric::External | Metric::Pods => None,
    };
    let flags = controller.flags(&Settings {
        kubeconfig,
        period: arguments.population.period,
        syncs: arguments.concurrent_syncs,
        metrics_port,
        protobuf: arguments.server != ApiServer::Testbed,
        dir,
        prometheus,
        more: &arguments.flags,
    });
    let started = server.progress().await?.now;
    let mut process = Process::start(dir, name, controller.command(&flags))?;
    eprintln!("hpa-bench: {name}: started, waiting until all autoscalers are decided");
    wait_until_decided(arguments, server, &mut process).await?;
    let begin = snapshot(server, &process, &own).await?;
    eprintln!("hpa-bench: {name}: measuring for {:?}", arguments.duration);
    add_autoscalers(arguments, server, &mut process).await?;
    let end = snapshot(server, &process, &own).await?;
    process.stop(GRACE).await?;
    let measurement = Measurement { controller, flags, started, begin, end };
    Ok(Outcome::new(measurement, &arguments.population))
}

/// Waits until all autoscalers are decided, at most as long as `--within`.
async fn wait_until_decided(
    arguments: &RunArguments,
    server: &ServerProcess,
    process: &mut Process,
) -> Result<()> {
    let all = usize::try_from(arguments.population.autoscalers)?;
    let deadline = Instant::now() + arguments.within;
    while Instant::now() < deadline && server.progress().await?.decided < all {
        process.check()?;
        sleep(POLL).await;
    }
    Ok(())
}

/// Waits for the duration of the measurement. Adds autoscalers during its first half, so that the
/// second half remains for their decisions.
async fn add_autoscalers(
    arguments: &RunArguments,
    server: &ServerProcess,
    process: &mut Process,
) -> Result<()> {
    let begin = Instant::now();
    for index in 0..arguments.extra {
        sleep_until(begin + arguments.duration / 2 * index / arguments.extra).await;
        process.check()?;
        server.add().await?;
    }
    while begin.elapsed() < arguments.duration {
        process.check()?;
        sleep(POLL.min(arguments.duration.saturating_sub(begin.elapsed()))).await;
    }
    process.check()
}

async fn snapshot(
    server: &ServerProcess,
    process: &Process,
    own: &MetricsEndpoint,
) -> Result<Snapshot> {
    let controller = Usage::for_process(process.id()?)?;
    let stats = server.stats().await?;
    let own = own.read().await.unwrap_or_else(|error| {
        eprintln!("hpa-bench: the controller's own metrics are missing: {error:#}");
        OwnMetrics::default()
    });
    Ok(Snapshot { stats, own, controller })
}
