//! Runs the selected scenarios against one control plane.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use futures::{FutureExt as _, StreamExt as _, stream};
use hpa_tests::{kube_apiserver::Process, report::Report};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::runtime::{WatchStreamExt as _, reflector, watcher};
use tokio_util::task::AbortOnDropHandle;

use crate::control_plane::{ControlPlane, PlaneKind};
use crate::metrics::Metrics;
use crate::test_env::{self, TestEnv};
use crate::workload::Workloads;
use crate::{ControllerSetup, Scenario, Selection, full_name};

const MAX_CONCURRENT: usize = 12;
const SCENARIO_TIMEOUT: Duration = Duration::from_mins(3);

/// Runs the selected scenarios, grouped by their controllers.
pub(crate) async fn run(
    kind: &PlaneKind,
    selection: &Selection,
    binary: &Path,
    report: &mut Report,
) -> Result<()> {
    if selection.scenarios.iter().any(|one| one.controller != ControllerSetup::RealWorkloads) {
        run_with_simulated_workloads(kind, selection, binary, report).await?;
    }
    if !selection.has_setup(ControllerSetup::RealWorkloads) {
        return Ok(());
    }
    let cluster = Cluster::start(kind, binary).await?;
    if let Some(_controllers) = cluster.plane.start_workload_controllers()? {
        cluster.workloads.simulate_kubelets();
        run_all(selection, ControllerSetup::RealWorkloads, &cluster, None, report).await;
    } else {
        for scenario in selection.with_setup(ControllerSetup::RealWorkloads) {
            let name = full_name(selection.plane, scenario.name);
            report.skip(&name, "no kube-controller-manager");
        }
    }
    Ok(())
}

/// Runs the scenarios whose pods the suite runs, on one control plane.
async fn run_with_simulated_workloads(
    kind: &PlaneKind,
    selection: &Selection,
    binary: &Path,
    report: &mut Report,
) -> Result<()> {
    let cluster = Cluster::start(kind, binary).await?;
    run_all(selection, ControllerSetup::NoController, &cluster, None, report).await;
    cluster.workloads.simulate_built_in_controllers();
    if selection.has_setup(ControllerSetup::Shared) {
        // Earlier scenarios have written statuses, which look like those of another controller.
        let flags = ["--allow-other-controller"];
        let mut shared = test_env::start_controller(&*cluster.plane, binary, "controller", &flags)?;
        run_all(selection, ControllerSetup::Shared, &cluster, Some(&shared), report).await;
        let result = stop_shared_controller(&*cluster.plane, &mut shared).await;
        let name = full_name(selection.plane, "shared_controller_stops_cleanly");
        report.add_result(&name, result);
    }
    run_all(selection, ControllerSetup::PerScenario, &cluster, None, report).await;
    run_all(selection, ControllerSetup::Exclusive, &cluster, None, report).await;
    run_all(selection, ControllerSetup::Reference, &cluster, None, report).await;
    Ok(())
}

/// A control plane, and the metrics and workloads that replace the rest of a cluster.
struct Cluster {
    plane: Arc<dyn ControlPlane>,
    metrics: Metrics,
    workloads: Arc<Workloads>,
    binary: PathBuf,
    /// The task that keeps the pods of `metrics` up to date.
    _pod_watch: AbortOnDropHandle<()>,
}

impl Cluster {
    async fn start(kind: &PlaneKind, binary: &Path) -> Result<Self> {
        let (pods, writer) = reflector::store();
        let metrics = Metrics::new(pods);
        let plane = kind.start(metrics.clone()).await?;
        let client = plane.client();
        let all = Api::<Pod>::all(client.clone());
        let stream = watcher(all, watcher::Config::default()).default_backoff();
        let pod_watch = tokio::spawn(stream.reflect(writer).for_each(|_| std::future::ready(())));
        Ok(Self {
            plane,
            metrics,
            workloads: Arc::new(Workloads::new(client)),
            binary: binary.to_owned(),
            _pod_watch: AbortOnDropHandle::new(pod_watch),
        })
    }

    fn env(&self, scenario: &Scenario) -> TestEnv {
        TestEnv {
            ns: namespace(scenario),
            client: self.plane.client(),
            plane: self.plane.clone(),
            metrics: self.metrics.clone(),
            workloads: self.workloads.clone(),
            binary: self.binary.clone(),
        }
    }
}

/// Runs the scenarios with this setup, concurrently unless they are exclusive.
async fn run_all(
    selection: &Selection,
    setup: ControllerSetup,
    cluster: &Cluster,
    shared: Option<&Process>,
    report: &mut Report,
) {
    let mut results = stream::iter(selection.with_setup(setup))
        .map(|scenario| {
            let env = cluster.env(scenario);
            async move {
                let start = Instant::now();
                (scenario, run_one(scenario, env).await, start.elapsed())
            }
        })
        .buffer_unordered(if setup.is_exclusive() { 1 } else { MAX_CONCURRENT });
    while let Some((scenario, result, time)) = results.next().await {
        let result = result.map_err(|error| match shared {
            Some(shared) => {
                let log = shared.tail(15, &namespace(scenario));
                anyhow!("{error:#}\n  the controller's log:\n{log}")
            }
            None => error,
        });
        let name = full_name(selection.plane, scenario.name);
        println!("{name} took {:.1} s", time.as_secs_f32());
        report.add_result(&name, result);
    }
}

fn namespace(scenario: &Scenario) -> String {
    scenario.name.replace('_', "-")
}

/// Runs a scenario in its namespace. An error includes the state of the namespace.
async fn run_one(scenario: &Scenario, env: TestEnv) -> Result<()> {
    env.create_namespace().await?;
    // A panic must fail this scenario only.
    let run = std::panic::AssertUnwindSafe((scenario.run)(env.clone())).catch_unwind();
    let result = match tokio::time::timeout(SCENARIO_TIMEOUT, run).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(anyhow!("panicked")),
        Err(_) => Err(anyhow!("took longer than {SCENARIO_TIMEOUT:?}")),
    };
    match result {
        Ok(()) => Ok(()),
        Err(error) => Err(anyhow!("{error:#}\n{}", env.describe().await)),
    }
}

/// Checks that the shared controller stops on SIGTERM, and that its log has no panic and no denied
/// request.
async fn stop_shared_controller(plane: &dyn ControlPlane, shared: &mut Process) -> Result<()> {
    let status = shared.terminate(Duration::from_secs(15)).await?;
    ensure!(status.success(), "SIGTERM: {status}\n{}", shared.tail(10, ""));
    plane.check_permissions(shared)?;
    let panicked = shared.tail(5, "panicked");
    ensure!(panicked.is_empty(), "{panicked}");
    Ok(())
}
