//! `hpa demo`: the controller, unchanged, against a simulated cluster.

mod board;
mod clock;
mod decision;
mod output;
mod sparkline;
mod summary;
mod terminal;
mod text;
mod verdict;
mod view;
mod world;

use std::{io, process::ExitCode, time::Duration};

use anyhow::{Context, bail};
use hpa_controller::controller::RunError;
use hpa_testbed::workload::scenario::Scenario;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    task::JoinError,
    time::{MissedTickBehavior, interval},
};

use self::{
    board::Dashboard,
    output::{Output, Start},
    summary::Summary,
    world::DemoCluster,
};
use crate::args::{DemoArguments, to_std};

/// The scenario where none is given.
const SHOP: &str = include_str!("../../scenarios/shop.yaml");

/// The exit status of a demonstration that could not run.
pub(crate) const EXIT_CANNOT_RUN: u8 = 2;
/// The exit status after a signal, as shells have it for SIGINT.
const EXIT_INTERRUPTED: u8 = 130;
/// How often the view is drawn.
const FRAME: Duration = Duration::from_millis(100);
/// How many looks at the cluster are kept of a run, one each simulated second at most.
const LOOKS: f64 = 4000.0;

/// Runs the demonstration. The exit status is 0 if the controller followed the load, 1 if not, 130 after a signal.
pub(crate) fn run(arguments: DemoArguments) -> anyhow::Result<ExitCode> {
    if arguments.print_scenario {
        io::Write::write_all(&mut io::stdout(), SHOP.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let scenario = scenario(&arguments)?;
    let folder = tempfile::Builder::new()
        .prefix("hpa-demo-")
        .tempdir()
        .context("cannot create a folder for temporary files")?;
    let output = Output::new(&arguments, folder.path())?;
    let has_log = matches!(output, Output::View { .. });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start threads")?;
    let outcome = match runtime.block_on(play(scenario, &arguments, folder.path(), output)) {
        // Whoever reads has seen enough, such as `head`.
        Err(error) if is_broken_pipe(&error) => Ok(Ending::Interrupted),
        outcome => outcome,
    };
    runtime.shutdown_background();
    let went_wrong = matches!(outcome, Err(_) | Ok(Ending::Judged { followed: false }));
    if arguments.keep || (has_log && went_wrong) {
        eprintln!("hpa: the kubeconfig and any log are kept in {}", folder.keep().display());
    }
    Ok(match outcome? {
        Ending::Judged { followed: true } => ExitCode::SUCCESS,
        Ending::Judged { followed: false } => ExitCode::FAILURE,
        Ending::Interrupted => ExitCode::from(EXIT_INTERRUPTED),
    })
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// How a demonstration ended.
enum Ending {
    /// The scenario was seen to its end.
    Judged {
        /// Whether the controller followed the load.
        followed: bool,
    },
    /// A signal came before that, or nobody read on.
    Interrupted,
}

fn scenario(arguments: &DemoArguments) -> anyhow::Result<Scenario> {
    let mut scenario = match &arguments.scenario {
        Some(path) => Scenario::load(path).with_context(|| path.display().to_string())?,
        None => Scenario::parse(SHOP).context("the built-in scenario")?,
    };
    scenario.seed = arguments.seed.unwrap_or(scenario.seed);
    Ok(scenario)
}

async fn play(
    scenario: Scenario,
    arguments: &DemoArguments,
    folder: &std::path::Path,
    mut output: Output,
) -> anyhow::Result<Ending> {
    let mut signals = Signals::listen()?;
    let speed = arguments.speed;
    let span = arguments
        .duration
        .map_or(scenario.duration.get(), |real| to_std(real).as_secs_f64() * speed);
    let name =
        if scenario.name.is_empty() { "a scenario".to_owned() } else { scenario.name.clone() };
    let mut world = DemoCluster::start(scenario, speed, span, folder).await?;
    let mut board = Dashboard::new(&world.testbed, world.simulation.scenario());
    let kubeconfig = world.kubeconfig.display().to_string();
    output.begin(Start { scenario: name, span, speed, kubeconfig }, &board)?;
    let shown = show(&mut world, &mut board, &mut output, span, arguments.hold, &mut signals).await;
    world.stop().await;
    let judged = shown?;
    let followed = judged.as_ref().map(|summary| summary.followed);
    output.end(&board, &judged.unwrap_or_else(|| Summary::of(&board)))?;
    Ok(followed.map_or(Ending::Interrupted, |followed| Ending::Judged { followed }))
}

/// Shows so many simulated seconds, and what comes after them on hold. How it went, unless it was interrupted.
async fn show(
    world: &mut DemoCluster,
    board: &mut Dashboard,
    output: &mut Output,
    span: f64,
    hold: bool,
    signals: &mut Signals,
) -> anyhow::Result<Option<Summary>> {
    if !watch(world, board, output, signals, Some(span)).await? {
        return Ok(None);
    }
    let summary = Summary::of(board);
    if hold {
        output.on_hold(&summary)?;
        world.simulation.clock().set_speed(1.0);
        watch(world, board, output, signals, None).await?;
    }
    Ok(Some(summary))
}

/// Lets time pass up to a simulated second, for good without one. Whether it came to that, or a signal came before.
async fn watch(
    world: &mut DemoCluster,
    board: &mut Dashboard,
    output: &mut Output,
    signals: &mut Signals,
    until: Option<f64>,
) -> anyhow::Result<bool> {
    let step = (until.unwrap_or_default() / LOOKS).max(1.0);
    let mut frames = interval(FRAME);
    frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let next = board.second + step;
        let next = until.map_or(next, |until| next.min(until));
        tokio::select! {
            seen = world.simulation.wait_for(|seen| seen.second >= next) => {
                board.observed(&seen);
                if until.is_some_and(|until| board.second >= until) {
                    return Ok(true);
                }
            }
            Some(decision) = world.decisions.recv() => {
                let previous = board.decided(decision.clone());
                output.decided(&decision, previous.as_ref())?;
            }
            _ = frames.tick() => output.frame(board)?,
            () = signals.any() => return Ok(false),
            ended = &mut world.controller => return fail(ended),
        }
    }
}

/// The controller does not end of itself.
fn fail(ended: Result<Result<(), RunError>, JoinError>) -> anyhow::Result<bool> {
    ended.context("the controller panicked")?.context("the controller ended")?;
    bail!("the controller ended")
}

/// Those that end a demonstration.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hang_up: listen(SignalKind::hangup())?,
        })
    }

    async fn any(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hang_up.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_scenario_is_sound() {
        let scenario = Scenario::parse(SHOP).unwrap();
        assert_eq!((scenario.workloads.len(), scenario.manifests.len()), (3, 3));
    }
}
