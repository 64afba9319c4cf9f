//! The controller end to end: the real binary against a real etcd and kube-apiserver.
//!
//! ```sh
//! setup-envtest use 1.36            # once; or set KUBEBUILDER_ASSETS to a directory with etcd and kube-apiserver
//! cargo test --test control-plane                  # all scenarios
//! cargo test --test control-plane -- scale_to_zero # those whose name contains one of the words; --list names them
//! ```
//!
//! The binaries are looked for in `KUBEBUILDER_ASSETS`, else in the store that setup-envtest keeps, where the newest
//! version is taken. Where there are none, the suite says so and skips every scenario. The controller is built first;
//! `HPA_BINARY` names another one to test. Nothing else is needed: no cluster, no container, no network, no root.
//!
//! One control plane serves all scenarios, each in a namespace of its own, most of them at the same time under one
//! controller that has the `ClusterRole` of the chart and no other right. The rest of a cluster is played by the suite:
//! [`workload`] keeps the pods of every target, [`metrics_server`] is the aggregated metrics API. The suite waits for what
//! it expects by watches; no test sleeps to let something happen.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)] // a test may fail
#![allow(clippy::print_stdout)] // the report of the suite

mod assets;
mod base64;
mod control_plane;
mod interceptor;
mod metrics;
mod metrics_server;
mod pki;
mod process;
mod scenarios;
mod wait;
mod workload;
mod world;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::runtime::{WatchStreamExt as _, reflector, watcher};
use tokio::signal::unix::{SignalKind, signal};

use crate::control_plane::{ControlPlane, METRICS_SERVICE};
use crate::interceptor::Interceptor;
use crate::metrics::Metrics;
use crate::metrics_server::MetricsServer;
use crate::scenarios::SCENARIOS;
use crate::workload::Workloads;
use crate::world::World;

/// Scenarios at a time.
const CONCURRENCY: usize = 12;
/// No scenario waits this long on purpose.
const LIMIT: Duration = Duration::from_mins(3);

/// One test.
struct Scenario {
    name: &'static str,
    controller: Under,
    run: fn(World) -> BoxFuture<'static, Result<()>>,
}

/// Which controller runs a scenario's namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Under {
    /// The one of all namespaces.
    Shared,
    /// Those that the scenario starts; the shared one does not run then.
    Own,
}

#[derive(Debug, Default)]
struct Report {
    passed: usize,
    failed: Vec<String>,
    skipped: usize,
}

impl Report {
    fn line(&mut self, name: &str, result: Result<()>, time: Duration) {
        let seconds = time.as_secs_f32();
        match result {
            Ok(()) => {
                println!("test {name} ... ok ({seconds:.1} s)");
                self.passed += 1;
            }
            Err(error) => {
                println!("test {name} ... FAILED ({seconds:.1} s)\n  {error:#}");
                self.failed.push(name.to_owned());
            }
        }
    }

    fn end(self, start: Instant) -> ExitCode {
        let (result, code) =
            if self.failed.is_empty() { ("ok", ExitCode::SUCCESS) } else { ("FAILED", ExitCode::FAILURE) };
        for name in &self.failed {
            println!("failed: {name}");
        }
        let (passed, failed, skipped) = (self.passed, self.failed.len(), self.skipped);
        let seconds = start.elapsed().as_secs_f32();
        println!(
            "\ntest result: {result}. {passed} passed; {failed} failed; {skipped} ignored; in {seconds:.1} s"
        );
        code
    }
}

fn main() -> ExitCode {
    let start = Instant::now();
    let (options, words): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|a| a.starts_with('-'));
    let selected: Vec<&'static Scenario> = SCENARIOS
        .iter()
        .filter(|scenario| words.is_empty() || words.iter().any(|word| scenario.name.contains(word.as_str())))
        .collect();
    if options.iter().any(|option| option == "--list") {
        for scenario in selected {
            println!("{}: test", scenario.name);
        }
        return ExitCode::SUCCESS;
    }
    let mut report = Report::default();
    match assets::find() {
        Err(missing) => {
            println!("\nNO CONTROL PLANE TO TEST AGAINST: {missing}\n");
            for scenario in selected {
                println!("test {} ... skipped", scenario.name);
                report.skipped += 1;
            }
        }
        Ok(assets) if !selected.is_empty() => {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            let result = runtime.block_on(async {
                let mut stop = signal(SignalKind::terminate())?;
                // So that etcd and kube-apiserver end with the suite.
                tokio::select! {
                    result = run(&assets, &selected, &mut report) => result,
                    _ = tokio::signal::ctrl_c() => Err(anyhow!("interrupted")),
                    _ = stop.recv() => Err(anyhow!("terminated")),
                }
            });
            if let Err(error) = result {
                report.line("control plane", Err(error), start.elapsed());
            }
        }
        Ok(_) => {}
    }
    report.end(start)
}

async fn run(assets: &std::path::Path, selected: &[&'static Scenario], report: &mut Report) -> Result<()> {
    let binary = tokio::task::spawn_blocking(assets::controller).await??;
    let plane = Arc::new(ControlPlane::start(assets).await?);
    let client = plane.client.clone();
    let (pods, writer) = reflector::store();
    let stream = watcher(Api::<Pod>::all(client.clone()), watcher::Config::default()).default_backoff();
    let cache = tokio::spawn(stream.reflect(writer).for_each(|_| std::future::ready(())));
    let metrics = Metrics::new(pods);
    let host = format!("{METRICS_SERVICE}.kube-system.svc");
    let identity = plane.authority.server("metrics", &[&host, "127.0.0.1"])?;
    let interceptor = Interceptor::default();
    let server = MetricsServer::start(metrics.clone(), &identity, interceptor.router()).await?;
    interceptor.served_at(server.port);
    plane.aggregate_metrics(server.port).await.with_context(|| plane.tails())?;
    let workloads = Arc::new(Workloads::start(client.clone()));

    let world = |scenario: &Scenario| World {
        ns: scenario.name.replace('_', "-"),
        client: client.clone(),
        plane: plane.clone(),
        metrics: metrics.clone(),
        workloads: workloads.clone(),
        interceptor: interceptor.clone(),
        binary: binary.clone(),
    };
    for under in [Under::Shared, Under::Own] {
        let batch: Vec<_> = selected.iter().filter(|scenario| scenario.controller == under).collect();
        if batch.is_empty() {
            continue;
        }
        let mut shared = match under {
            Under::Shared => Some(world::controller(&plane, &binary, "controller", &[])?),
            Under::Own => None,
        };
        let mut results = stream::iter(batch)
            .map(|scenario| {
                let world = world(scenario);
                async move {
                    let start = Instant::now();
                    (scenario, one(scenario, world).await, start.elapsed())
                }
            })
            .buffer_unordered(CONCURRENCY);
        while let Some((scenario, result, time)) = results.next().await {
            let result = result.map_err(|error| match &shared {
                Some(shared) => {
                    let ns = scenario.name.replace('_', "-");
                    anyhow!("{error:#}\n  the controller's log:\n{}", shared.tail(15, &ns))
                }
                None => error,
            });
            report.line(scenario.name, result, time);
        }
        drop(results);
        if let Some(shared) = &mut shared {
            let start = Instant::now();
            let result = ended_well(shared).await;
            report.line("shared_controller_ends_well", result, start.elapsed());
        }
    }
    cache.abort();
    Ok(())
}

/// A scenario in its namespace, with what is there should it fail.
async fn one(scenario: &Scenario, world: World) -> Result<()> {
    world.create_namespace().await?;
    // A panic is a failure of the one scenario.
    let run = std::panic::AssertUnwindSafe((scenario.run)(world.clone())).catch_unwind();
    let result = match tokio::time::timeout(LIMIT, run).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(anyhow!("panicked")),
        Err(_) => Err(anyhow!("took longer than {LIMIT:?}")),
    };
    match result {
        Ok(()) => Ok(()),
        Err(error) => Err(anyhow!("{error:#}\n{}", world.dump().await)),
    }
}

/// The controller of all scenarios was never forbidden anything, and ends when told to.
async fn ended_well(shared: &mut process::Process) -> Result<()> {
    let status = shared.terminate(Duration::from_secs(15)).await?;
    ensure!(status.success(), "SIGTERM: {status}\n{}", shared.tail(10, ""));
    let forbidden = shared.tail(5, "forbidden");
    ensure!(forbidden.is_empty(), "the ClusterRole does not suffice:\n{forbidden}");
    let panicked = shared.tail(5, "panicked");
    ensure!(panicked.is_empty(), "{panicked}");
    Ok(())
}
