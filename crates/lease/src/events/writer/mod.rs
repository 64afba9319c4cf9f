//! Writes events to the API server.

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference as EventObject},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::{
    Client, Resource,
    api::{Patch, PatchParams, PostParams},
    core::Request,
};
use serde::de::IgnoredAny;
use serde_json::json;
use tokio::{sync::mpsc, time};
use tracing::{debug, warn};

use super::{
    correlator::{Correlator, EventWrite},
    event::{DroppedEvents, RecordedEvent, increment},
};
use crate::request_error::RequestError;

/// The component in the events of the reference controller.
const COMPONENT: &str = "horizontal-pod-autoscaler";

const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum number of attempts to write an event.
const MAX_ATTEMPTS: u32 = 4;
/// The delay before the second attempt. It doubles with each attempt.
const INITIAL_BACKOFF: Duration = Duration::from_secs(1);

/// Writes recorded events as core/v1 Events of component `horizontal-pod-autoscaler`.
///
/// Equal events share an Event object with a count. If events differ only in their messages, those
/// from the tenth message on share one. Each object has one budget for its `SuccessfulRescale`
/// events and one for all others: 25 events, and one more every five minutes.
pub struct EventWriter {
    client: Client,
    events: mpsc::Receiver<RecordedEvent>,
    dropped: Arc<DroppedEvents>,
    correlator: Correlator,
}

impl EventWriter {
    pub(super) fn new(
        client: Client,
        events: mpsc::Receiver<RecordedEvent>,
        dropped: Arc<DroppedEvents>,
    ) -> Self {
        Self { client, events, dropped, correlator: Correlator::new() }
    }

    /// Writes events until all recorders are dropped and the queue is empty.
    pub async fn run(mut self) {
        while let Some(event) = self.events.recv().await {
            match self.correlator.decide(event) {
                Some(write) => self.write(&write).await,
                None => increment(&self.dropped.over_budget),
            }
        }
    }

    async fn write(&self, write: &EventWrite) {
        let (namespace, object) = (&write.object.namespace, &write.object.name);
        let reason = &write.reason;
        let mut backoff = INITIAL_BACKOFF;
        for attempts_left in (0..MAX_ATTEMPTS).rev() {
            let attempt = time::timeout(REQUEST_TIMEOUT, self.try_write(write));
            let Err(error) = attempt.await.unwrap_or(Err(RequestError::TimedOut)) else { return };
            match Failure::of(&error) {
                Failure::NotNeeded => {
                    debug!(%namespace, %object, reason, cause = %error, "event not needed");
                    return;
                }
                Failure::Temporary if attempts_left > 0 => {
                    time::sleep(backoff).await;
                    backoff = backoff.saturating_mul(2);
                }
                Failure::Temporary | Failure::Permanent => {
                    warn!(%namespace, %object, reason, cause = %error, "cannot write event");
                    increment(&self.dropped.failed_write);
                    return;
                }
            }
        }
    }

    async fn try_write(&self, write: &EventWrite) -> Result<(), RequestError> {
        let events = Request::new(Event::url_path(&(), Some(namespace(write))));
        if write.count > 1 {
            let update = json!({
                "count": write.count,
                "lastTimestamp": Time(write.last),
                "message": write.message,
            });
            let patch = events.patch(&write.name, &PatchParams::default(), &Patch::Merge(update));
            match self.send(patch.map_err(kube::Error::BuildRequest)?).await {
                // The Event object expired, or was never written.
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                other => return Ok(other?),
            }
        }
        let event = serde_json::to_vec(&event(write)).map_err(kube::Error::SerdeError)?;
        let create = events.create(&PostParams::default(), event);
        Ok(self.send(create.map_err(kube::Error::BuildRequest)?).await?)
    }

    /// Sends a request without decoding the event in the response: users of its namespace may have
    /// stored times in it that a `Timestamp` can't represent. Then the write would seem to have
    /// failed, and further attempts would delay the events of all namespaces.
    async fn send(&self, request: http::Request<Vec<u8>>) -> kube::Result<()> {
        self.client.request::<IgnoredAny>(request).await.map(drop)
    }
}

/// The kind of failure to write an event.
enum Failure {
    /// The event exists already, or its namespace is gone or being deleted.
    NotNeeded,
    /// Another attempt may succeed.
    Temporary,
    Permanent,
}

impl Failure {
    fn of(error: &RequestError) -> Self {
        let RequestError::Refused(status) = error else { return Self::Temporary };
        let mut causes = status.details.iter().flat_map(|details| &details.causes);
        let is_terminating = causes.any(|cause| cause.reason == "NamespaceTerminating");
        if is_terminating || status.is_not_found() || status.is_already_exists() {
            Self::NotNeeded
        } else if status.code == 429 || status.code >= 500 {
            Self::Temporary
        } else {
            Self::Permanent
        }
    }
}

fn namespace(write: &EventWrite) -> &str {
    if write.object.namespace.is_empty() { "default" } else { &write.object.namespace }
}

fn event(write: &EventWrite) -> Event {
    let non_empty = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let object = &write.object;
    Event {
        metadata: ObjectMeta {
            name: Some(write.name.clone()),
            namespace: Some(namespace(write).to_owned()),
            ..ObjectMeta::default()
        },
        involved_object: EventObject {
            api_version: non_empty(&object.api_version),
            kind: non_empty(&object.kind),
            namespace: non_empty(&object.namespace),
            name: non_empty(&object.name),
            uid: non_empty(&object.uid),
            resource_version: non_empty(&object.resource_version),
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
