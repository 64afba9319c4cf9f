//! Scaling schedules in the controller's process: `hpa run --scaling-schedule`.

use std::sync::Arc;

use anyhow::anyhow;
use futures::FutureExt;
use hpa_calc::HorizontalPodAutoscaler;
use hpa_collectors::schedules::Compat;
use hpa_collectors::schedules::source::{ScheduleClient, Schedules, schedules_of};
use hpa_controller::{Dependencies, KnownMetricChanges, Options};
use hpa_lease::LeaderTask;
use jiff::Timestamp;

use crate::args::ScalingScheduleArguments;

/// The times at which the values of schedules change.
struct ScheduleChanges(Arc<Schedules>);

impl KnownMetricChanges for ScheduleChanges {
    fn next_change(&self, hpa: &HorizontalPodAutoscaler, now: Timestamp) -> Option<Timestamp> {
        self.0.next_change(hpa, now)
    }
}

/// Adds scaling schedules to a controller, if they are on.
pub(crate) fn attach(
    arguments: &ScalingScheduleArguments,
    options: &Options,
    dependencies: Dependencies,
) -> anyhow::Result<Dependencies> {
    if !arguments.scaling_schedule {
        return Ok(dependencies);
    }
    arguments.defaults.check().map_err(|error| anyhow!(error))?;
    let clock = dependencies.clock.clone();
    let settings = arguments.defaults.settings(Compat::Off);
    let schedules = Arc::new(Schedules::new(settings, Arc::new(move || clock.now())));
    tokio::spawn({
        let (schedules, trigger) = (schedules.clone(), dependencies.trigger.clone());
        let (client, namespaces) = (dependencies.clients.api.clone(), options.namespaces.clone());
        async move {
            let on_change = |changed: &[_]| {
                trigger.reconcile_where(|hpa| schedules_of(hpa).any(|key| changed.contains(&key)));
            };
            schedules.watch(client, &namespaces, on_change).await;
        }
    });
    let mut leader_tasks = dependencies.leader_tasks;
    leader_tasks.push(status_writer(schedules.clone()));
    Ok(Dependencies {
        metrics: Arc::new(ScheduleClient::new(schedules.clone(), dependencies.metrics)),
        metric_changes: Arc::new(ScheduleChanges(schedules)),
        leader_tasks,
        ..dependencies
    })
}

/// Writes `status.active` of all schedules.
pub(crate) fn status_writer(schedules: Arc<Schedules>) -> LeaderTask {
    LeaderTask::new(move |context| {
        let schedules = schedules.clone();
        async move { schedules.write_statuses(context.client).await }.boxed()
    })
}
