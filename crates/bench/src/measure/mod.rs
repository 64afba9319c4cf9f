//! `hpa-bench run`: measures one controller after the other.

mod controller_metrics;
mod outcome;
mod server_process;

use std::{path::Path, time::Duration};

use anyhow::{Context as _, Result, bail};
use hpa_tests::kube_apiserver::{Process, free_ports};
use kube::Client;
use tempfile::TempDir;
use tokio::time::{Instant, sleep, sleep_until};

pub(crate) use self::outcome::{CountedBy, Outcome, Requests};
use self::{
    controller_metrics::{ControllerMetrics, metrics_client},
    outcome::Snapshot,
    server_process::ServerProcess,
};
use crate::{
    args::{ApiServer, Metric, RunArguments},
    controller::{Controller, ControllerKind},
    prometheus,
    rounds::Rounds,
    server::Interruption,
    stats::Usage,
};

const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Time for a controller to exit after SIGTERM.
const EXIT_TIMEOUT: Duration = Duration::from_secs(15);

/// Measures all controllers, in the order of the arguments.
pub(crate) async fn run(arguments: &RunArguments) -> Result<Vec<Rounds<Outcome>>> {
    let is_reference = |controller: &Controller| controller.kind == ControllerKind::Reference;
    if arguments.population.metric == Metric::Prometheus
        && arguments.controllers.iter().any(is_reference)
    {
        bail!("the reference can't read from Prometheus, use --metric=pods for both");
    }
    let mut interruption = Interruption::new()?;
    let dir = log_dir(arguments.keep)?;
    let mut rounds = vec![Vec::new(); arguments.controllers.len()];
    // Controllers alternate, so that other load on this machine affects all of them.
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

/// Creates a directory for logs. With `keep`, prints its path. Otherwise, dropping it deletes it.
pub(crate) fn log_dir(keep: bool) -> Result<TempDir> {
    let mut dir = tempfile::tempdir()?;
    dir.disable_cleanup(keep);
    if keep {
        eprintln!("hpa-bench: logs are in {}", dir.path().display());
    }
    Ok(dir)
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
    // On a signal, dropping the future kills the controller. The server must have time to clean up.
    let measuring = measure_against(&mut server, arguments, controller, dir, name, &kubeconfig);
    let outcome = interruption.run_unless_interrupted(measuring).await;
    if let Err(error) = interruption.run_unless_interrupted(server.stop()).await {
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
    let metrics = metrics_client(controller, metrics_port)?;
    let mut flags = comparable_flags(arguments, controller, dir, kubeconfig, metrics_port);
    if controller.kind == ControllerKind::Ours {
        if arguments.population.metric == Metric::Prometheus {
            let rules = dir.join("rules.yaml");
            std::fs::write(&rules, prometheus::RULES)
                .with_context(|| format!("cannot write {}", rules.display()))?;
            flags.push(format!("--metrics-config={}", rules.display()));
            flags.push(format!("--prometheus-url={}", server.prometheus_url()?));
        }
        flags.extend_from_slice(&arguments.flags);
    }
    let started = server.progress().await?.now;
    let mut process = Process::start(dir, name, controller.command(&flags))?;
    eprintln!("hpa-bench: {name}: started, waiting until all autoscalers are decided");
    wait_until_decided(arguments, server, &mut process).await?;
    let settle_end = Instant::now() + arguments.settle.unwrap_or_default();
    wait_until(settle_end, &mut process).await?;
    let begin = snapshot(server, &process, &metrics).await?;
    eprintln!("hpa-bench: {name}: measuring for {:?}", arguments.duration);
    wait_and_add_autoscalers(arguments, server, &mut process).await?;
    let end = snapshot(server, &process, &metrics).await?;
    process.stop(EXIT_TIMEOUT).await?;
    Ok(Outcome::new(controller, flags, &arguments.population, started, [&begin, &end]))
}

/// Returns the controller's flags: no leader election, no client-side rate limit, and metrics on a
/// loopback port.
fn comparable_flags(
    arguments: &RunArguments,
    controller: &Controller,
    dir: &Path,
    kubeconfig: &Path,
    metrics_port: u16,
) -> Vec<String> {
    let period = arguments.population.period.as_millis();
    let mut flags = vec![
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--horizontal-pod-autoscaler-sync-period={period}ms"),
        format!("--concurrent-horizontal-pod-autoscaler-syncs={}", arguments.concurrent_syncs),
        "--leader-elect=false".to_owned(),
        "--bind-address=127.0.0.1".to_owned(),
    ];
    match controller.kind {
        ControllerKind::Ours => flags.extend([
            format!("--metrics-port={metrics_port}"),
            format!("--status-interval={}ms", controller.status_interval.as_millis()),
        ]),
        ControllerKind::Reference => flags.extend([
            "--controllers=horizontal-pod-autoscaler-controller".to_owned(),
            "--kube-api-qps=100000".to_owned(),
            "--kube-api-burst=100000".to_owned(),
            format!("--secure-port={metrics_port}"),
            // For its self-signed certificate.
            format!("--cert-dir={}", dir.display()),
            "--authorization-always-allow-paths=/metrics".to_owned(),
        ]),
    }
    // The testbed never responds in protobuf.
    if controller.kind == ControllerKind::Reference && arguments.server == ApiServer::Testbed {
        flags.push("--kube-api-content-type=application/json".to_owned());
    }
    flags
}

/// Waits until all autoscalers are decided, or until `--within` has elapsed.
async fn wait_until_decided(
    arguments: &RunArguments,
    server: &ServerProcess,
    process: &mut Process,
) -> Result<()> {
    let all = usize::try_from(arguments.population.autoscalers)?;
    let deadline = Instant::now() + arguments.within;
    while Instant::now() < deadline && server.progress().await?.decided_count < all {
        process.ensure_running()?;
        sleep(POLL_INTERVAL).await;
    }
    Ok(())
}

/// Waits for the duration of the measurement. Adds autoscalers during its first half: the second
/// half remains for their decisions.
async fn wait_and_add_autoscalers(
    arguments: &RunArguments,
    server: &ServerProcess,
    process: &mut Process,
) -> Result<()> {
    let begin = Instant::now();
    for index in 0..arguments.extra {
        sleep_until(begin + arguments.duration / 2 * index / arguments.extra).await;
        process.ensure_running()?;
        server.add_autoscaler().await?;
    }
    wait_until(begin + arguments.duration, process).await
}

/// Waits until `end`. Fails if the controller exits before.
async fn wait_until(end: Instant, process: &mut Process) -> Result<()> {
    while Instant::now() < end {
        process.ensure_running()?;
        sleep_until(end.min(Instant::now() + POLL_INTERVAL)).await;
    }
    process.ensure_running()
}

async fn snapshot(server: &ServerProcess, process: &Process, metrics: &Client) -> Result<Snapshot> {
    let controller_usage = Usage::for_process(process.id()?)?;
    let stats = server.stats().await?;
    let controller_metrics = ControllerMetrics::read(metrics).await.inspect_err(|error| {
        eprintln!("hpa-bench: the controller's own metrics are missing: {error:#}");
    });
    Ok(Snapshot { stats, controller_metrics: controller_metrics.ok(), controller_usage })
}
