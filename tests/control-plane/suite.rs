//! All selected scenarios against one control plane.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use futures::{FutureExt as _, StreamExt as _, stream};
use hpa_kube_apiserver::Process;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::runtime::{WatchStreamExt as _, reflector, watcher};

use crate::control_plane::{ControlPlane, Kind};
use crate::metrics::Metrics;
use crate::report::Report;
use crate::workload::Workloads;
use crate::world::{self, World};
use crate::{Scenario, Selection, Under, full_name};

/// Scenarios at a time.
const CONCURRENCY: usize = 12;
/// No scenario waits this long on purpose.
const LIMIT: Duration = Duration::from_mins(3);

/// Starts the control plane and runs the scenarios of each kind of controller in turn.
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
    let world = |scenario: &Scenario| World {
        ns: namespace(scenario),
        client: client.clone(),
        plane: plane.clone(),
        metrics: metrics.clone(),
        workloads: workloads.clone(),
        binary: binary.to_owned(),
    };

    batch(selection, Under::Nobody, &world, None, report).await;
    workloads.start();
    if selection.scenarios.iter().any(|scenario| scenario.controller == Under::Shared) {
        let mut shared = world::controller(&*plane, binary, "controller", &[])?;
        batch(selection, Under::Shared, &world, Some(&shared), report).await;
        let start = Instant::now();
        let result = ended_well(&*plane, &mut shared).await;
        report.line(
            &full_name(selection.plane, "shared_controller_ends_well"),
            result,
            start.elapsed(),
        );
    }
    batch(selection, Under::Own, &world, None, report).await;
    batch(selection, Under::Alone, &world, None, report).await;
    cache.abort();
    Ok(())
}

/// The scenarios of one kind of controller, several at a time.
async fn batch(
    selection: &Selection,
    under: Under,
    world: &impl Fn(&Scenario) -> World,
    shared: Option<&Process>,
    report: &mut Report,
) {
    let scenarios = selection.scenarios.iter().filter(|scenario| scenario.controller == under);
    let mut results = stream::iter(scenarios)
        .map(|scenario| {
            let world = world(scenario);
            async move {
                let start = Instant::now();
                (scenario, one(scenario, world).await, start.elapsed())
            }
        })
        .buffer_unordered(if under == Under::Alone { 1 } else { CONCURRENCY });
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

/// The namespace of a scenario.
fn namespace(scenario: &Scenario) -> String {
    scenario.name.replace('_', "-")
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
async fn ended_well(plane: &dyn ControlPlane, shared: &mut Process) -> Result<()> {
    let status = shared.terminate(Duration::from_secs(15)).await?;
    ensure!(status.success(), "SIGTERM: {status}\n{}", shared.tail(10, ""));
    plane.rights_sufficed(shared)?;
    let panicked = shared.tail(5, "panicked");
    ensure!(panicked.is_empty(), "{panicked}");
    Ok(())
}
