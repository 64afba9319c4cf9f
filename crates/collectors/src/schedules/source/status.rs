//! Writes `status.active` of schedules.

use std::time::Duration;

use hpa_metrics::StoredObject;
use kube::{
    Client,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use super::{Schedules, cache::CachedSchedule, kind::ScheduleKey};

/// The minimum time between two checks of all statuses. Each write of a status is a change, after
/// which another check would follow at once.
const MIN_WAIT: Duration = Duration::from_secs(1);

/// The maximum wait for a change after [`MIN_WAIT`]. Together, they are the 10 s between checks of
/// the status in kube-metrics-adapter.
const MAX_FURTHER_WAIT: Duration = Duration::from_secs(9);

impl Schedules {
    /// Writes `status.active` of all valid schedules within about ten seconds of its changes. Never
    /// returns. Must run in only one process, because the clocks of processes differ.
    pub async fn write_statuses(&self, client: Client) {
        let mut changes = self.cache.subscribe();
        let mut has_failed = false;
        loop {
            changes.mark_unchanged();
            has_failed = self.write_outdated_statuses(&client, has_failed).await;
            sleep(MIN_WAIT).await;
            // Continues after a change or the timeout.
            timeout(MAX_FURTHER_WAIT, changes.changed()).await.ok();
        }
    }

    /// Writes outdated statuses. Returns whether a write failed, except because the schedule was
    /// changed or deleted since. Logs only the first of consecutive failures.
    async fn write_outdated_statuses(&self, client: &Client, has_failed: bool) -> bool {
        let mut fails_now = false;
        for (key, entry) in self.cache.all() {
            let evaluated = self.evaluation(&key, &entry).await;
            let is_active = evaluated.ok().and_then(|(evaluation, _)| evaluation.is_active);
            let Some(is_active) = is_active.filter(|active| *active != entry.is_active) else {
                continue;
            };
            match write_status(client, &key, &entry, is_active).await {
                Ok(()) => debug!(schedule = %key, is_active, "wrote the status"),
                // The schedule was changed or deleted. The watch will report that.
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                Err(error) => {
                    if !has_failed && !fails_now {
                        let error = hpa_metrics::describe(&error);
                        warn!(schedule = %key, error, "unable to write the status, retrying");
                    }
                    fails_now = true;
                }
            }
        }
        fails_now
    }
}

/// Writes `status.active`, unless the schedule has changed since it was cached.
async fn write_status(
    client: &Client,
    key: &ScheduleKey,
    entry: &CachedSchedule,
    is_active: bool,
) -> kube::Result<()> {
    let api = StoredObject::api(client.clone(), &key.namespace, &key.kind.api_resource());
    let patch = json!({
        "metadata": { "resourceVersion": entry.resource_version },
        "status": { "active": is_active },
    });
    let params =
        PatchParams { field_manager: Some("hpa-controller".to_owned()), ..PatchParams::default() };
    api.patch_status(&key.name, &params, &Patch::Merge(patch)).await.map(|_| ())
}
