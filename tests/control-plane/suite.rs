//! Runs the selected scenarios against one control plane.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use futures::{FutureExt as _, StreamExt as _, stream};
use hpa_tests::kube_apiserver::Process;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::runtime::{WatchStreamExt as _, reflector, watcher};

use crate::control_plane::{ControlPlane, Kind};
use crate::metrics::Metrics;
use crate::report::Report;
use crate::test_env::{self, TestEnv};
use crate::workload::Workloads;
use crate::{ControllerSetup, Scenario, Selection, full_name};

/// Number of concurrent scenarios.
const CONCURRENCY: usize = 12;
/// Deadline of a scenario.
const LIMIT: Duration = Duration::from_mins(3);

/// Starts the control plane, then runs the scenarios by controller set-up.
pub(crate) async fn run(
    kind: &Kind,
    selection: &Selection,
    binary: &Path,
    report: &mut Report,
) -> Result<()> {
    let (pods, writer) = reflector::store();
    let metrics = Metrics::new(pods);
    let plane = kind.start(metrics.clone()).await?;
    let client = plane.client();
    let all = Api::<Pod>::all(client.clone());
    let stream = watcher(all, watcher::Config::default()).default_backoff();
    let cache = tokio::spawn(stream.reflect(writer).for_each(|_| std::future::ready(())));
    let workloads = Arc::new(Workloads::new(client.clone()));
    let env = |scenario: &Scenario| TestEnv {
        ns: namespace(scenario),
        client: client.clone(),
        plane: plane.clone(),
        metrics: metrics.clone(),
        workloads: workloads.clone(),
        binary: binary.to_owned(),
    };

    run_all(selection, ControllerSetup::NoController, &env, None, report).await;
    workloads.start();
    if selection.scenarios.iter().any(|scenario| scenario.controller == ControllerSetup::Shared) {
        // The scenarios before have written statuses, as another controller would.
        let flags = ["--allow-other-controller"];
        let mut shared = test_env::controller(&*plane, binary, "controller", &flags)?;
        run_all(selection, ControllerSetup::Shared, &env, Some(&shared), report).await;
        let start = Instant::now();
        let result = stops_cleanly(&*plane, &mut shared).await;
        report.line(
            &full_name(selection.plane, "shared_controller_stops_cleanly"),
            result,
            start.elapsed(),
        );
    }
    run_all(selection, ControllerSetup::PerScenario, &env, None, report).await;
    run_all(selection, ControllerSetup::Exclusive, &env, None, report).await;
    cache.abort();
    Ok(())
}

/// Runs the scenarios of one controller set-up concurrently.
async fn run_all(
    selection: &Selection,
    setup: ControllerSetup,
    env: &impl Fn(&Scenario) -> TestEnv,
    shared: Option<&Process>,
    report: &mut Report,
) {
    let scenarios = selection.scenarios.iter().filter(|scenario| scenario.controller == setup);
    let mut results = stream::iter(scenarios)
        .map(|scenario| {
            let env = env(scenario);
            async move {
                let start = Instant::now();
                (scenario, run_one(scenario, env).await, start.elapsed())
            }
        })
        .buffer_unordered(if setup == ControllerSetup::Exclusive { 1 } else { CONCURRENCY });
    while let Some((scenario, result, time)) = results.next().await {
        let result = result.map_err(|error| match shared {
            Some(shared) => {
                let log = shared.tail(15, &namespace(scenario));
                anyhow!("{error:#}\n  the controller's log:\n{log}")
            }
            None => error,
        });
        report.line(&full_name(selection.plane, scenario.name), result, time);
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
    let result = match tokio::time::timeout(LIMIT, run).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(anyhow!("panicked")),
        Err(_) => Err(anyhow!("took longer than {LIMIT:?}")),
    };
    match result {
        Ok(()) => Ok(()),
        Err(error) => Err(anyhow!("{error:#}\n{}", env.dump().await)),
    }
}

/// The shared controller stops on SIGTERM, never panicked, and was never denied a request.
async fn stops_cleanly(plane: &dyn ControlPlane, shared: &mut Process) -> Result<()> {
    let status = shared.terminate(Duration::from_secs(15)).await?;
    ensure!(status.success(), "SIGTERM: {status}\n{}", shared.tail(10, ""));
    plane.permissions_suffice(shared)?;
    let panicked = shared.tail(5, "panicked");
    ensure!(panicked.is_empty(), "{panicked}");
    Ok(())
}
