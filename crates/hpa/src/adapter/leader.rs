//! Runs the leader's tasks. The adapter that holds the lease is the leader.

use std::sync::Arc;

use hpa_controller::k8s::Clients;
use hpa_lease::{
    Election, LeaderContext, LeaderTask, Leadership, SystemClock, TaskPanics, events::EventRecorder,
};
use kube::Client;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::{args::LeaseArguments, run::pod_namespace};

/// Configures the election. `None` without `--leader-elect`. `clients` must not be shared, because
/// renewals would queue behind other requests.
pub(super) fn election(lease: &LeaseArguments, clients: Clients) -> Option<Election> {
    let config = lease.election_config(pod_namespace(&clients), None);
    lease.leader_elect.then_some(Election { client: clients.api, config })
}

/// Runs tasks while this instance is the leader, until `stop` is cancelled. Then releases the
/// lease. Without an election, this instance is the leader from the start.
pub(super) async fn run(
    election: Option<Election>,
    client: Client,
    tasks: Vec<LeaderTask>,
    panics: TaskPanics,
    stop: CancellationToken,
) {
    let clock = Arc::new(SystemClock::default());
    let lead = |leadership: Leadership| {
        info!("writing events and the status of schedules");
        let client = leadership.fence(&client);
        let (events, writer) = EventRecorder::new(client.clone());
        let context = LeaderContext { client, events };
        let mut running = JoinSet::new();
        running.spawn(panics.clone().catch("event writer", writer.run()));
        for task in &tasks {
            running.spawn(task.clone().run(context.clone(), panics.clone()));
        }
        async move { while running.join_next().await.is_some() {} }
    };
    hpa_lease::lead(election.as_ref(), clock, &stop, lead).await;
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::FutureExt;
    use hpa_testbed::Testbed;

    use super::*;

    #[tokio::test]
    async fn panic_of_a_task_stops_the_adapter() {
        let task = LeaderTask::new("test task", |_| async { panic!("a bug") }.boxed());
        let (panics, stop) = (TaskPanics::default(), CancellationToken::new());
        let client = Testbed::default().client();
        let running = pin!(run(None, client, vec![task], panics.clone(), stop.clone()));
        let outcome = panics.stop_at_panic(&stop, running).await;
        assert_eq!(outcome.unwrap_err().to_string(), "the test task panicked");
    }
}
