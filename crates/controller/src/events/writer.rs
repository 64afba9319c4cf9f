use std::{sync::Arc, time::Duration};

use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference as EventObject},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::{sync::mpsc, time};

use super::{
    DroppedEvents, RecordedEvent,
    correlator::{Correlator, Decision, EventWrite},
    count,
};

/// The component that the reference controller's events come from.
const COMPONENT: &str = "horizontal-pod-autoscaler";

/// How an [`EventWriter`] works.
#[derive(Clone, Copy, Debug)]
pub struct EventWriterConfig {
    /// How many events may wait to be written; more are dropped.
    pub queue_length: usize,
    /// How long one request may take.
    pub request_timeout: Duration,
    /// How often to try to reach the API server with one event.
    pub tries: u32,
    /// How long to wait before the second try; twice as long before each further one.
    pub retry_after: Duration,
}

impl Default for EventWriterConfig {
    /// 1000 events, 10 s, 4 tries, 1 s.
    fn default() -> Self {
        Self {
            queue_length: 1000,
            request_timeout: Duration::from_secs(10),
            tries: 4,
            retry_after: Duration::from_secs(1),
        }
    }
}

/// Writes what is recorded as core/v1 Events of component `horizontal-pod-autoscaler`.
///
/// Equal events share an Event, whose count and last time are raised. Many similar ones are combined to one, and an
/// object has a budget: 25 events and one more every five minutes, for its `SuccessfulRescale` events and for all
/// others apart.
pub struct EventWriter {
    client: Client,
    config: EventWriterConfig,
    events: mpsc::Receiver<RecordedEvent>,
    dropped: Arc<DroppedEvents>,
    correlator: Correlator,
}

impl EventWriter {
    pub(super) fn new(
        client: Client,
        config: EventWriterConfig,
        events: mpsc::Receiver<RecordedEvent>,
        dropped: Arc<DroppedEvents>,
    ) -> Self {
        Self { client, config, events, dropped, correlator: Correlator::new() }
    }

    /// Writes events until all recorders are dropped and the queue is empty.
    pub async fn run(mut self) {
        while let Some(event) = self.events.recv().await {
            match self.correlator.decide(event) {
                Decision::Write(write) => self.write(&write).await,
                Decision::OverBudget => count(&self.dropped.over_budget),
            }
        }
    }

    async fn write(&self, write: &EventWrite) {
        let mut wait = self.config.retry_after;
        for last in (0..self.config.tries.max(1)).rev() {
            let outcome =
                match time::timeout(self.config.request_timeout, self.try_write(write)).await {
                    Ok(outcome) => outcome.map_err(Failure::from),
                    Err(_) => Err(Failure::Unreachable("timed out".to_owned())),
                };
            let (namespace, object) = (&write.object.namespace, &write.object.name);
            match outcome {
                Ok(()) => return,
                Err(Failure::Moot(cause)) => {
                    tracing::debug!(%namespace, %object, reason = write.reason, cause, "event not wanted");
                    return;
                }
                Err(Failure::Unreachable(_)) if last > 0 => {
                    time::sleep(wait).await;
                    wait = wait.saturating_mul(2);
                }
                Err(Failure::Unreachable(cause) | Failure::Refused(cause)) => {
                    tracing::warn!(%namespace, %object, reason = write.reason, cause, "cannot write event");
                    count(&self.dropped.failed_write);
                    return;
                }
            }
        }
    }

    async fn try_write(&self, write: &EventWrite) -> Result<(), kube::Error> {
        let api: Api<Event> = Api::namespaced(self.client.clone(), namespace(write));
        if write.count > 1 {
            let seen = json!({"count": write.count, "lastTimestamp": Time(write.last), "message": write.message});
            match api.patch(&write.name, &PatchParams::default(), &Patch::Merge(seen)).await {
                // It expired or was never written.
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                other => return other.map(drop),
            }
        }
        api.create(&PostParams::default(), &event(write)).await.map(drop)
    }
}

/// Why an event was not written.
enum Failure {
    /// Nobody will miss it.
    Moot(String),
    /// It is worth another try.
    Unreachable(String),
    /// It is not.
    Refused(String),
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        let kube::Error::Api(status) = error else { return Self::Unreachable(error.to_string()) };
        let causes = status.details.iter().flat_map(|details| &details.causes);
        let is_ending = causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating");
        let message = status.message.clone();
        if is_ending || status.is_not_found() || status.is_already_exists() {
            Self::Moot(message)
        } else if status.code == 429 || status.code >= 500 {
            Self::Unreachable(message)
        } else {
            Self::Refused(message)
        }
    }
}

/// The namespace that an event is written to.
fn namespace(write: &EventWrite) -> &str {
    if write.object.namespace.is_empty() { "default" } else { &write.object.namespace }
}

fn event(write: &EventWrite) -> Event {
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let object = &write.object;
    Event {
        metadata: ObjectMeta {
            name: Some(write.name.clone()),
            namespace: Some(namespace(write).to_owned()),
            ..ObjectMeta::default()
        },
        involved_object: EventObject {
            api_version: some(&object.api_version),
            kind: some(&object.kind),
            namespace: some(&object.namespace),
            name: some(&object.name),
            uid: some(&object.uid),
            resource_version: some(&object.resource_version),
            field_path: None,
        },
        type_: Some(write.event_type.as_str().to_owned()),
        reason: Some(write.reason.clone()),
        message: Some(write.message.clone()),
        count: Some(write.count),
        first_timestamp: Some(Time(write.first)),
        last_timestamp: Some(Time(write.last)),
        source: Some(EventSource { component: Some(COMPONENT.to_owned()), host: None }),
        reporting_component: Some(COMPONENT.to_owned()),
        reporting_instance: Some(String::new()),
        ..Event::default()
    }
}
