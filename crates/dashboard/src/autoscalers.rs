//! Keeps the board up to date with the autoscalers of the cluster.

use std::{ops::ControlFlow, sync::Arc, time::Duration};

use hpa_controller::{AutoscalerApi, Clock};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject},
    core::GroupVersionKind,
    runtime::watcher,
};
use tokio::time::sleep;

use crate::{
    follow::{Change, follow, message, status_code},
    model::{Board, Controller, Identity, ObservedAutoscaler, SourceState, Update},
};

/// Interval of checks for an API that the cluster doesn't serve.
const NOT_SERVED_INTERVAL: Duration = Duration::from_secs(60);

/// Watches the autoscalers of one API, forever.
pub(crate) struct AutoscalerFeed {
    pub(crate) client: Client,
    pub(crate) api: AutoscalerApi,
    /// `None` for all namespaces.
    pub(crate) namespace: Option<String>,
    /// The namespace to watch if the user may not list autoscalers in all namespaces.
    pub(crate) fallback: String,
    pub(crate) board: Arc<Board>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// The reason why the watch stopped.
enum Stop {
    NotServed,
    Forbidden,
}

impl AutoscalerFeed {
    pub(crate) async fn run(mut self) {
        loop {
            let stop = if self.is_served().await { self.follow().await } else { Stop::NotServed };
            match stop {
                Stop::NotServed => {
                    self.board.update(Update::Replace(self.api, Vec::new()), self.clock.now());
                    self.board.set_source(self.api, SourceState::NotServed);
                    sleep(NOT_SERVED_INTERVAL).await;
                }
                Stop::Forbidden => {
                    let namespace = self.fallback.clone();
                    self.board.add_note(format!(
                        "You may not list the autoscalers of {} in all namespaces, so only those of \
                         the namespace {namespace} are shown. --namespace selects another one.",
                        self.api
                    ));
                    self.namespace = Some(namespace);
                }
            }
        }
    }

    /// Whether the cluster serves the API. A list request doesn't show this: without permission, it
    /// is forbidden in any case.
    async fn is_served(&self) -> bool {
        let resources = self.client.list_api_group_resources(self.api.api_version()).await;
        !matches!(resources, Err(kube::Error::Api(status)) if status.code == 404)
    }

    async fn follow(&self) -> Stop {
        let resource = resource(self.api);
        let api: Api<DynamicObject> = match &self.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        };
        let mut stop = Stop::NotServed;
        follow(api, watcher::Config::default(), |change| match self.on_change(change) {
            ControlFlow::Continue(()) => true,
            ControlFlow::Break(why) => {
                stop = why;
                false
            }
        })
        .await;
        stop
    }

    fn on_change(&self, change: Change<DynamicObject>) -> ControlFlow<Stop> {
        let observe = |object| observe(self.api, object);
        let update = match change {
            Change::Replace(objects) => {
                Update::Replace(self.api, objects.into_iter().map(observe).collect())
            }
            Change::Apply(object) => Update::Apply(Box::new(observe(object))),
            Change::Delete(object) => Update::Delete(identity(self.api, &object)),
            Change::Failed(error) => {
                return match status_code(&error) {
                    Some(404) => ControlFlow::Break(Stop::NotServed),
                    Some(403) if self.namespace.is_none() => ControlFlow::Break(Stop::Forbidden),
                    _ => {
                        let text = message(&error);
                        let sentence =
                            format!("The autoscalers of {} can't be read: {text}", self.api);
                        self.board.set_source(self.api, SourceState::Failed(sentence));
                        ControlFlow::Continue(())
                    }
                };
            }
        };
        self.board.update(update, self.clock.now());
        // The watch works again.
        self.board.set_source(self.api, SourceState::Synced);
        ControlFlow::Continue(())
    }
}

fn resource(api: AutoscalerApi) -> ApiResource {
    let (group, version) = api.api_version().split_once('/').unwrap_or_default();
    let kind = GroupVersionKind::gvk(group, version, "HorizontalPodAutoscaler");
    ApiResource::from_gvk_with_plural(&kind, "horizontalpodautoscalers")
}

fn identity(api: AutoscalerApi, object: &DynamicObject) -> Identity {
    Identity { api, namespace: object.namespace().unwrap_or_default(), name: object.name_any() }
}

fn observe(api: AutoscalerApi, object: DynamicObject) -> ObservedAutoscaler {
    let (id, controller) = (identity(api, &object), controller(&object));
    let hpa = serde_json::to_value(object).and_then(serde_json::from_value);
    ObservedAutoscaler { id, hpa: hpa.map_err(|error| error.to_string()), controller }
}

/// The field manager of the newest write of the status.
fn controller(object: &DynamicObject) -> Controller {
    let entries = object.managed_fields().iter();
    let of_status = entries.filter(|entry| entry.subresource.as_deref() == Some("status"));
    let newest = of_status.max_by_key(|entry| entry.time.as_ref().map(|time| time.0));
    newest.map_or_else(Controller::default, |entry| Controller {
        name: entry.manager.clone(),
        at: entry.time.as_ref().map(|time| time.0),
    })
}
