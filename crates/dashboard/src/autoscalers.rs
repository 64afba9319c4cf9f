//! Keeps the board up to date with the autoscalers of the cluster.

use std::{ops::ControlFlow, sync::Arc, time::Duration};

use hpa_controller::{AutoscalerApi, Clock};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject},
    core::GroupVersionKind,
    runtime::watcher,
};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use crate::{
    follow::{Change, follow, message, status_code},
    model::{Board, Controller, Identity, ObservedAutoscaler, SourceState, Update},
};

/// Interval of checks for an API that the cluster doesn't serve.
const NOT_SERVED_INTERVAL: Duration = Duration::from_secs(60);
/// A failed watch counts as resumed after this time without another failure. Longer than the
/// backoff between two attempts.
const RESUMED_AFTER: Duration = Duration::from_secs(120);

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
            Some(namespace) => {
                self.board.set_namespace(self.api, namespace.clone());
                Api::namespaced_with(self.client.clone(), namespace, &resource)
            }
            None => Api::all_with(self.client.clone(), &resource),
        };
        let mut stop = Stop::NotServed;
        let (failures, failed) = watch::channel(false);
        let following = follow(api, watcher::Config::default(), |change| {
            _ = failures.send_replace(is_failed_watch(&change));
            match self.on_change(change) {
                ControlFlow::Continue(()) => true,
                ControlFlow::Break(why) => {
                    stop = why;
                    false
                }
            }
        });
        tokio::select! {
            () = following => {}
            () = self.clear_watch_failures(failed) => {}
        }
        stop
    }

    /// Clears the failure of a watch if no other failure follows within [`RESUMED_AFTER`], because
    /// a watcher doesn't report that it resumed. Runs while the sender exists.
    async fn clear_watch_failures(&self, mut failed: watch::Receiver<bool>) {
        while failed.changed().await.is_ok() {
            while let Ok(Ok(())) = timeout(RESUMED_AFTER, failed.changed()).await {}
            if *failed.borrow() {
                self.board.set_source(self.api, SourceState::Synced);
            }
        }
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
                        let (api, text) = (self.api, message(&error));
                        let sentence = match &error {
                            watcher::Error::InitialListFailed(_) => {
                                format!("The autoscalers of {api} can't be read: {text}")
                            }
                            _ => format!(
                                "The watch of the autoscalers of {api} failed, so they may be \
                                 outdated: {text}"
                            ),
                        };
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

/// Whether a watch failed after a complete list.
fn is_failed_watch(change: &Change<DynamicObject>) -> bool {
    let Change::Failed(error) = change else { return false };
    !matches!(error, watcher::Error::InitialListFailed(_))
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

#[cfg(test)]
mod tests {
    use hpa_calc::{Settings, settings::SettingPolicy};
    use hpa_controller::{
        SystemClock,
        k8s::{ClientLimits, Clients},
    };
    use hpa_testbed::{Config, Effect, Fault, Faults, Match, Testbed};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn failed_watch_is_reported_until_it_resumes() {
        let faults = Faults::new(1);
        let watches = Match::verb("watch").resource("horizontalpodautoscalers");
        faults.add(Fault::on(watches).first(2).effect(Effect::ServiceUnavailable));
        let config = Config { interceptor: Some(Arc::new(faults)), ..Config::default() };
        let testbed = Testbed::new(config);
        let clients = Clients::from_service(testbed.service(), &ClientLimits::default());
        let api = AutoscalerApi::Core;
        let board = Arc::new(Board::new(&[api], Settings::default(), SettingPolicy::default()));
        let feed = AutoscalerFeed {
            client: clients.api,
            api,
            namespace: None,
            fallback: String::new(),
            board: board.clone(),
            clock: Arc::new(SystemClock::default()),
        };
        let feed = tokio::spawn(feed.run());
        let mut changes = board.subscribe();
        let mut problems = async |are_expected: bool| {
            let read = changes.wait_for(|_| board.problems().is_empty() != are_expected);
            timeout(RESUMED_AFTER * 2, read).await.expect("a change").expect("a board");
            board.problems()
        };
        let failed = problems(true).await;
        let start = "The watch of the autoscalers of autoscaling/v2 failed, ";
        assert!(failed.len() == 1 && failed[0].starts_with(start), "{failed:?}");
        assert!(problems(false).await.is_empty());
        feed.abort();
    }
}
