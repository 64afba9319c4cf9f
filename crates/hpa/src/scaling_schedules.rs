//! Scaling schedules as metrics: `--scaling-schedule`.

use std::sync::Arc;

use futures::FutureExt;
use hpa_calc::HorizontalPodAutoscaler;
use hpa_collectors::schedules::{
    Compat,
    source::{Now, ScheduleClient, ScheduleKey, Schedules, schedules_of},
};
use hpa_controller::{Dependencies, Options};
use hpa_lease::{LeaderTask, TaskPanics};
use kube::Client;

use crate::args::ScalingScheduleArguments;

/// Starts the watch of schedules if `--scaling-schedule` is set. Without `namespaces`, watches all.
pub(crate) fn start(
    arguments: &ScalingScheduleArguments,
    compat: Compat,
    client: Client,
    namespaces: Vec<String>,
    now: Now,
    on_change: impl Fn(&[ScheduleKey]) + Send + Sync + 'static,
    panics: &TaskPanics,
) -> anyhow::Result<Option<Arc<Schedules>>> {
    if !arguments.scaling_schedule {
        return Ok(None);
    }
    arguments.defaults.check_time_zone()?;
    let schedules = Arc::new(Schedules::new(arguments.defaults.settings(compat), now));
    let watched = schedules.clone();
    let watch = async move { watched.watch(client, &namespaces, on_change).await };
    panics.spawn("watch of scaling schedules", watch);
    Ok(Some(schedules))
}

/// Adds scaling schedules to a controller if `--scaling-schedule` is set.
pub(crate) fn attach(
    arguments: &ScalingScheduleArguments,
    options: &Options,
    dependencies: Dependencies,
    panics: &TaskPanics,
) -> anyhow::Result<Dependencies> {
    let clock = dependencies.clock.clone();
    let trigger = dependencies.trigger.clone();
    let on_change = move |changed: &[_]| {
        trigger.reconcile_where(|hpa| schedules_of(hpa).any(|key| changed.contains(&key)));
    };
    let (client, namespaces) = (dependencies.clients.api.clone(), options.namespaces.clone());
    let now = Arc::new(move || clock.now());
    let schedules = start(arguments, Compat::Off, client, namespaces, now, on_change, panics)?;
    let Some(schedules) = schedules else { return Ok(dependencies) };
    let mut leader_tasks = dependencies.leader_tasks;
    leader_tasks.push(status_writer(schedules.clone()));
    Ok(Dependencies {
        metrics: Arc::new(ScheduleClient::new(schedules.clone(), dependencies.metrics)),
        next_metric_change: Arc::new(move |hpa: &HorizontalPodAutoscaler, since, now| {
            schedules.next_change(hpa, since, now)
        }),
        leader_tasks,
        ..dependencies
    })
}

/// A task that writes `status.active` of all schedules.
pub(crate) fn status_writer(schedules: Arc<Schedules>) -> LeaderTask {
    LeaderTask::new("writer of schedules' statuses", move |context| {
        let schedules = schedules.clone();
        async move { schedules.write_statuses(context.client).await }.boxed()
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use hpa_collectors::schedules::definition::schedule_definitions;
    use hpa_testbed::Testbed;
    use hpa_tests::harness::{NAMESPACE, TestbedExt, objects};
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::args::{Arguments, Command};

    #[tokio::test]
    async fn panic_of_the_watch_is_reported() {
        let testbed = Testbed::default();
        testbed.apply_all(schedule_definitions().unwrap());
        let schedule = json!({
            "apiVersion": "zalando.org/v1", "kind": "ScalingSchedule",
            "metadata": { "name": "evening", "namespace": NAMESPACE },
            "spec": { "schedules": [] },
        });
        testbed.apply_all([objects::namespace(), schedule]);
        let arguments = Arguments::parse_from(["hpa", "run", "--scaling-schedule"]);
        let Command::Run(arguments) = arguments.command else {
            unreachable!("the arguments say `run`")
        };
        let (client, panics) = (testbed.client(), TaskPanics::default());
        let now = Arc::new(Timestamp::now);
        start(
            &arguments.schedules,
            Compat::Off,
            client,
            Vec::new(),
            now,
            |_| panic!("a bug"),
            &panics,
        )
        .unwrap();
        let panicked = panics.panicked().await;
        assert_eq!(panicked.to_string(), "the watch of scaling schedules panicked");
    }
}
