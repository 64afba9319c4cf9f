//! `hpa-bench run`: one controller after the other.

use std::{fs, future::Future, io::Write as _, path::Path, time::Duration};

use anyhow::{Context as _, Result, bail};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::{Instant, sleep, sleep_until},
};

use crate::{
    args::{ApiServer, RunArguments},
    controller::{Controller, Setting},
    median::Measured,
    outcome::{Moment, Outcome, Run},
    own_metrics::{OwnMetrics, Source},
    process::{Process, free_ports},
    report,
    server::Server,
};

/// How often it is asked how far the controller is.
const POLL: Duration = Duration::from_millis(50);

pub(crate) async fn run(arguments: &RunArguments) -> Result<()> {
    let measured = measure_all(arguments, &mut Interruption::new()?).await?;
    if let Some(path) = &arguments.json {
        let text = serde_json::to_string_pretty(&measured)?;
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let outcomes: Vec<&Outcome> = measured.iter().map(|one| &one.median).collect();
    std::io::stdout()
        .write_all(report::table(arguments, &outcomes).as_bytes())
        .context("cannot write")
}

/// Tells when to give up.
struct Interruption {
    terminated: Signal,
    interrupted: Signal,
}

impl Interruption {
    fn new() -> Result<Self> {
        let (terminated, interrupted) = (SignalKind::terminate(), SignalKind::interrupt());
        Ok(Self { terminated: signal(terminated)?, interrupted: signal(interrupted)? })
    }

    /// What a future comes to, unless it is told to end before; then the future is dropped.
    async fn or<T>(&mut self, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            result = work => result,
            _ = self.terminated.recv() => bail!("told to end"),
            _ = self.interrupted.recv() => bail!("interrupted"),
        }
    }
}

async fn measure_all(
    arguments: &RunArguments,
    interruption: &mut Interruption,
) -> Result<Vec<Measured>> {
    let mut folder = tempfile::tempdir()?;
    folder.disable_cleanup(arguments.keep);
    if arguments.keep {
        eprintln!("hpa-bench: logs are in {}", folder.path().display());
    }
    let mut rounds = vec![Vec::new(); arguments.controllers.len()];
    // In turn, so that what else the machine does concerns all of them.
    for round in 1..=arguments.repeat {
        for (index, (controller, outcomes)) in
            arguments.controllers.iter().zip(&mut rounds).enumerate()
        {
            let name = format!("{}-{}-round-{round}", controller.name(), index + 1);
            let outcome = measure(arguments, controller, folder.path(), &name, interruption).await;
            outcomes.push(
                outcome
                    .with_context(|| format!("cannot measure {}", controller.binary.display()))?,
            );
        }
    }
    rounds.into_iter().map(Measured::new).collect()
}

async fn measure(
    arguments: &RunArguments,
    controller: &Controller,
    folder: &Path,
    name: &str,
    interruption: &mut Interruption,
) -> Result<Outcome> {
    eprintln!("hpa-bench: {name}: populating");
    let kubeconfig = folder.join(format!("{name}.yaml"));
    let mut server = Server::start(arguments, folder, &kubeconfig, name)?;
    // What is started for it ends with the future that is dropped; but the server may have to clean up.
    let measuring = measure_against(&mut server, arguments, controller, folder, name, &kubeconfig);
    let outcome = interruption.or(measuring).await;
    if let Err(error) = interruption.or(server.end()).await {
        eprintln!("hpa-bench: {name}: the server did not end in good order: {error:#}");
    }
    outcome
}

async fn measure_against(
    server: &mut Server,
    arguments: &RunArguments,
    controller: &Controller,
    folder: &Path,
    name: &str,
    kubeconfig: &Path,
) -> Result<Outcome> {
    server.wait_until_ready().await?;
    let [metrics_port] = free_ports()?;
    let own = Source::new(controller, metrics_port)?;
    let flags = controller.flags(&Setting {
        kubeconfig,
        period: arguments.population.period,
        syncs: arguments.concurrent_syncs,
        metrics_port,
        knows_protobuf: arguments.server != ApiServer::Testbed,
        folder,
    });
    let started = server.progress().await?.now;
    let mut process = Process::start(&mut controller.command(&flags)?, folder, name)?;
    eprintln!("hpa-bench: {name}: started, waiting until all autoscalers are decided");
    wait_until_decided(arguments, server, &mut process).await?;
    let begin = moment(server, &process, &own).await?;
    eprintln!("hpa-bench: {name}: measuring for {:?}", arguments.duration);
    watch(arguments, server, &mut process).await?;
    let end = moment(server, &process, &own).await?;
    process.end().await?;
    let run =
        Run { name: controller.name(), binary: &controller.binary, flags, started, begin, end };
    Ok(Outcome::new(run, &arguments.population))
}

/// Waits until all are decided, or as long as was said.
async fn wait_until_decided(
    arguments: &RunArguments,
    server: &Server,
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

/// Lets the time of the measurement pass, and adds autoscalers in its first half: the second is for their decisions.
async fn watch(arguments: &RunArguments, server: &Server, process: &mut Process) -> Result<()> {
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

async fn moment(server: &Server, process: &Process, own: &Source) -> Result<Moment> {
    let controller = process.usage()?;
    let stats = server.stats().await?;
    let own = own.read().await.unwrap_or_else(|error| {
        eprintln!("hpa-bench: the controller's own metrics are left out: {error:#}");
        OwnMetrics::default()
    });
    Ok(Moment { stats, own, controller })
}
