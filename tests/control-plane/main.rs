//! End-to-end tests: the real binary against an API server over the network.
//!
//! The scenarios run against the testbed, and against a real etcd and kube-apiserver if they are
//! installed. The scenarios beside kube-controller-manager need the latter:
//!
//! ```sh
//! setup-envtest use 1.36                             # once
//! cargo test --test control-plane                    # all scenarios
//! cargo test --test control-plane -- scale_to_zero   # scenarios whose names contain a word
//! cargo test --test control-plane -- testbed::       # the scenarios on one control plane
//! cargo test --test control-plane -- --list
//! ```
//!
//! The binaries of etcd and kube-apiserver come from the directory `KUBEBUILDER_ASSETS`, or from
//! the newest version that setup-envtest has installed. Without them, the suite uses the testbed
//! only, and reports the other scenarios as skipped. The controller is not built here: see
//! [`hpa_tests::harness::hpa_binary`]. The suite needs no cluster, container or root, and no
//! network beyond loopback.
//!
//! Scenarios don't depend on the control plane: all differences are in [`control_plane`]. Scenarios
//! share a control plane, each in its own namespace. Many run concurrently under one controller,
//! which has the chart's `ClusterRole` and no other permission. The suite replaces the rest of the
//! cluster: [`workload`] runs the pods, and [`metrics`] serves the metrics APIs. Where owners or
//! rollouts matter, kube-controller-manager runs the workloads if it is installed. Scenarios wait
//! for watch events.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a failed step fails the test, and the suite prints its report"
)]

mod control_plane;
mod metrics;
mod scenarios;
mod suite;
mod test_env;
mod wait;
mod workload;

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, anyhow};
use futures::future::BoxFuture;
use hpa_tests::{harness::hpa_binary, programs, report::Report};
use tokio::signal::unix::{SignalKind, signal};

use crate::control_plane::PlaneKind;
use crate::scenarios::SCENARIOS;
use crate::test_env::TestEnv;

struct Scenario {
    name: &'static str,
    controller: ControllerSetup,
    run: fn(TestEnv) -> BoxFuture<'static, Result<()>>,
}

/// The controller that a scenario needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ControllerSetup {
    /// None, and targets get no pods: only the scenario changes objects.
    NoController,
    /// The shared controller of all namespaces.
    Shared,
    /// Controllers that the scenario starts. The shared one is not running.
    PerScenario,
    /// Like [`Self::PerScenario`], without concurrent scenarios, because the reference handles all
    /// namespaces.
    Exclusive,
    /// Like [`Self::Exclusive`], with kube-controller-manager as the reference. Not on the testbed.
    Reference,
    /// Like [`Self::Reference`], on a control plane whose workloads kube-controller-manager runs:
    /// owners and rollouts are real.
    RealWorkloads,
}

const TESTBED: &str = "testbed";

impl ControllerSetup {
    fn is_exclusive(self) -> bool {
        matches!(self, Self::Exclusive | Self::Reference | Self::RealWorkloads)
    }

    fn runs_on_the_testbed(self) -> bool {
        !matches!(self, Self::Reference | Self::RealWorkloads)
    }
}

struct Selection {
    plane: &'static str,
    scenarios: Vec<&'static Scenario>,
}

impl Selection {
    /// Selects the scenarios whose full name contains one of the words; all if there are none.
    fn new(plane: &'static str, words: &[String]) -> Self {
        let matches =
            |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word.as_str()));
        let is_selected = |scenario: &&Scenario| {
            (plane != TESTBED || scenario.controller.runs_on_the_testbed())
                && matches(&full_name(plane, scenario.name))
        };
        Self { plane, scenarios: SCENARIOS.iter().filter(is_selected).collect() }
    }

    fn with_setup(&self, setup: ControllerSetup) -> impl Iterator<Item = &'static Scenario> {
        self.scenarios.iter().copied().filter(move |scenario| scenario.controller == setup)
    }

    fn has_setup(&self, setup: ControllerSetup) -> bool {
        self.with_setup(setup).next().is_some()
    }
}

/// For example `testbed::scale_to_zero_and_back`.
fn full_name(plane: &str, scenario: &str) -> String {
    format!("{plane}::{scenario}")
}

fn main() -> ExitCode {
    let (options, words): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|argument| argument.starts_with('-'));
    let [testbed, real] = [TESTBED, "kube-apiserver"].map(|plane| Selection::new(plane, &words));
    if options.iter().any(|option| option == "--list") {
        for Selection { plane, scenarios } in [testbed, real] {
            for scenario in scenarios {
                println!("{}: test", full_name(plane, scenario.name));
            }
        }
        return ExitCode::SUCCESS;
    }
    let mut report = Report::default();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let result = runtime.block_on(async {
        let mut stop = signal(SignalKind::terminate())?;
        // Dropping `run` stops all processes.
        tokio::select! {
            () = run(&testbed, &real, &mut report) => Ok(()),
            _ = tokio::signal::ctrl_c() => Err(anyhow!("interrupted")),
            _ = stop.recv() => Err(anyhow!("terminated")),
        }
    });
    if let Err(error) = result {
        report.add_result("the suite", Err(error));
    }
    report.finish()
}

/// Runs the selected scenarios against one control plane, then against the other.
async fn run(testbed: &Selection, real: &Selection, report: &mut Report) {
    let assets = hpa_tests::kube_apiserver::assets::find();
    let binary = hpa_binary();
    run_against(&PlaneKind::Testbed, testbed, &binary, report).await;
    match assets {
        Ok(assets) => run_against(&PlaneKind::KubeApiserver(assets), real, &binary, report).await,
        Err(missing) if !real.scenarios.is_empty() => {
            programs::skip("kube-apiserver", missing);
            for scenario in &real.scenarios {
                report.skip(&full_name(real.plane, scenario.name), "no kube-apiserver");
            }
        }
        Err(_) => {}
    }
}

/// Runs scenarios against a control plane. Reports a failure if the control plane does not start.
async fn run_against(kind: &PlaneKind, selection: &Selection, binary: &Path, report: &mut Report) {
    if selection.scenarios.is_empty() {
        return;
    }
    let (plane, start) = (selection.plane, Instant::now());
    println!("\nagainst {plane}");
    if let Err(error) = suite::run(kind, selection, binary, report).await {
        report.add_result(plane, Err(error));
    }
    println!("{plane} took {:.1} s", start.elapsed().as_secs_f32());
}
