//! The controller end to end: the real binary against an API server over the network.
//!
//! Every scenario runs against the testbed, always, and against a real etcd and kube-apiserver where their binaries are:
//!
//! ```sh
//! setup-envtest use 1.36            # once; or set KUBEBUILDER_ASSETS to a directory with etcd and kube-apiserver
//! cargo test --test control-plane                  # all scenarios
//! cargo test --test control-plane -- scale_to_zero # those whose name contains one of the words; --list names them
//! cargo test --test control-plane -- testbed::     # those of one of the two control planes
//! ```
//!
//! The binaries are looked for in `KUBEBUILDER_ASSETS`, else in the store that setup-envtest keeps, where the newest
//! version is taken. Where there are none, the suite says that it only used the testbed. The controller is built first;
//! `HPA_BINARY` names another one to test. Nothing else is needed: no cluster, no container, no network, no root.
//!
//! No scenario knows which control plane it runs against; what differs between the two is in [`control_plane`]. One
//! control plane serves all scenarios, each in a namespace of its own, most of them at the same time under one
//! controller, which in the real one has the `ClusterRole` of the chart and no other right. The rest of a cluster is
//! played by the suite: [`workload`] keeps the pods of every target, [`metrics`] is what the metrics APIs answer. The suite
//! waits for what it expects by watches; no test sleeps to let something happen.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)] // a test may fail
#![allow(clippy::print_stdout)] // the report of the suite

mod assets;
mod control_plane;
mod metrics;
mod report;
mod scenarios;
mod suite;
mod wait;
mod workload;
mod world;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, anyhow};
use futures::future::BoxFuture;
use tokio::signal::unix::{SignalKind, signal};

use crate::control_plane::Kind;
use crate::report::Report;
use crate::scenarios::SCENARIOS;
use crate::world::World;

/// One test.
struct Scenario {
    name: &'static str,
    controller: Under,
    run: fn(World) -> BoxFuture<'static, Result<()>>,
}

/// Which controller runs a scenario's namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Under {
    /// None, and no targets get pods: what changes, the scenario has changed.
    Nobody,
    /// The one of all namespaces.
    Shared,
    /// Those that the scenario starts; the shared one does not run then.
    Own,
    /// The same, and no other scenario runs: the reference handles all namespaces.
    Alone,
}

/// The scenarios to run against one of the control planes.
struct Selection {
    plane: &'static str,
    scenarios: Vec<&'static Scenario>,
}

impl Selection {
    /// The scenarios whose full name contains one of the words, if there are words.
    fn new(plane: &'static str, words: &[String]) -> Self {
        let matches =
            |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word.as_str()));
        let scenarios = SCENARIOS.iter().filter(|one| matches(&full_name(plane, one.name)));
        Self { plane, scenarios: scenarios.collect() }
    }
}

/// `testbed::conflicts`.
fn full_name(plane: &str, scenario: &str) -> String {
    format!("{plane}::{scenario}")
}

fn main() -> ExitCode {
    let (options, words): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|a| a.starts_with('-'));
    let [testbed, real] = ["testbed", "kube-apiserver"].map(|plane| Selection::new(plane, &words));
    if options.iter().any(|option| option == "--list") {
        for Selection { plane, scenarios } in [testbed, real] {
            for one in scenarios {
                println!("{}: test", full_name(plane, one.name));
            }
        }
        return ExitCode::SUCCESS;
    }
    let mut report = Report::new();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let result = runtime.block_on(async {
        let mut stop = signal(SignalKind::terminate())?;
        // So that what was started ends with the suite.
        tokio::select! {
            result = run(&testbed, &real, &mut report) => result,
            _ = tokio::signal::ctrl_c() => Err(anyhow!("interrupted")),
            _ = stop.recv() => Err(anyhow!("terminated")),
        }
    });
    if let Err(error) = result {
        report.failure("the suite", error);
    }
    report.end()
}

/// Runs what was selected against the one control plane and then against the other.
async fn run(testbed: &Selection, real: &Selection, report: &mut Report) -> Result<()> {
    let assets = hpa_kube_apiserver::assets::find();
    let binary = tokio::task::spawn_blocking(assets::controller).await??;
    against(&Kind::Testbed, testbed, &binary, report).await;
    match assets {
        Ok(assets) => against(&Kind::KubeApiserver(assets), real, &binary, report).await,
        Err(missing) if !real.scenarios.is_empty() => {
            report.skip(
                real.scenarios.len(),
                &format!("NO KUBE-APISERVER, THE TESTBED ONLY: {missing}"),
            );
        }
        Err(_) => {}
    }
    Ok(())
}

/// Runs scenarios against a control plane; that it does not start is a failure too.
async fn against(kind: &Kind, selection: &Selection, binary: &Path, report: &mut Report) {
    if selection.scenarios.is_empty() {
        return;
    }
    report.begin(selection.plane);
    if let Err(error) = suite::run(kind, selection, binary, report).await {
        report.failure(selection.plane, error);
    }
    report.finish(selection.plane);
}
