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
    follow::{Change, follow, kube_error, message, status_code},
    model::{Board, Controller, Identity, ObservedAutoscaler, SourceState, Update, seconds},
    probe::{Failure, Probe, last_cause},
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
    /// Whether `namespace` is that one.
    pub(crate) is_fallback: bool,
    pub(crate) board: Arc<Board>,
    pub(crate) probe: Arc<Probe>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// After this number of requests in a row that had no answer, though the API server answers the
/// [`Probe`], the failure is reported. A proxy that ends an idle watch is normal, and so is a 503 of
/// an API server that starts.
const MAX_UNANSWERED: u32 = 3;

/// The reason why the watch stopped.
enum Stop {
    NotServed,
    /// The user may not read all namespaces.
    Forbidden(MissingRight),
    /// The API server answers again, so that its autoscalers are listed at once.
    Restored,
}

/// A right that the user lacks.
struct MissingRight {
    verb: &'static str,
    user: Option<String>,
}

impl MissingRight {
    fn new(error: &watcher::Error) -> Self {
        let verb = match error {
            watcher::Error::InitialListFailed(_) => "list",
            _ => "watch",
        };
        let message = message(error);
        let user = message.split_once("User \"").and_then(|(_, rest)| rest.split_once('"'));
        Self { verb, user: user.map(|(user, _)| user.to_owned()) }
    }

    /// States the right: `The user ann may not list horizontalpodautoscalers.autoscaling`.
    fn sentence(&self, api: AutoscalerApi) -> String {
        let who = self.user.as_ref().map_or("You".to_owned(), |user| format!("The user {user}"));
        let group = api.api_version().split_once('/').unwrap_or_default().0;
        format!("{who} may not {} horizontalpodautoscalers.{group}", self.verb)
    }
}

impl AutoscalerFeed {
    pub(crate) async fn run(mut self) {
        loop {
            self.board.up().await;
            let stop = if self.is_served().await { self.follow().await } else { Stop::NotServed };
            match stop {
                Stop::Restored => {}
                Stop::NotServed => {
                    self.board.update(Update::Replace(self.api, Vec::new()), self.clock.now());
                    self.board.set_source(self.api, SourceState::NotServed);
                    sleep(NOT_SERVED_INTERVAL).await;
                }
                Stop::Forbidden(right) => {
                    let (right, namespace) = (right.sentence(self.api), self.fallback.clone());
                    self.board.set_note(
                        self.api,
                        format!(
                            "{right} in all namespaces, so only those of the namespace {namespace} \
                             are shown. --namespace selects another one."
                        ),
                    );
                    self.is_fallback = true;
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
        let mut unanswered = 0;
        let (failures, failed) = watch::channel(false);
        let following = follow(api, watcher::Config::default(), |change| {
            _ = failures.send_replace(is_failed_watch(&change));
            match self.on_change(change, &mut unanswered) {
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
            () = self.board.restored() => return Stop::Restored,
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

    fn on_change(&self, change: Change<DynamicObject>, unanswered: &mut u32) -> ControlFlow<Stop> {
        let observe = |object| observe(self.api, object);
        let update = match change {
            Change::Replace(objects) => {
                Update::Replace(self.api, objects.into_iter().map(observe).collect())
            }
            Change::Apply(object) => Update::Apply(Box::new(observe(object))),
            Change::Delete(object) => Update::Delete(identity(self.api, &object)),
            Change::Failed(error) => return self.on_failure(&error, unanswered),
        };
        *unanswered = 0;
        self.board.update(update, self.clock.now());
        // The watch works again.
        self.board.set_source(self.api, SourceState::Synced);
        ControlFlow::Continue(())
    }

    fn on_failure(&self, error: &watcher::Error, unanswered: &mut u32) -> ControlFlow<Stop> {
        match status_code(error) {
            Some(404) => return ControlFlow::Break(Stop::NotServed),
            Some(403) if self.namespace.is_none() => {
                return ControlFlow::Break(Stop::Forbidden(MissingRight::new(error)));
            }
            _ => {}
        }
        let is_list = matches!(error, watcher::Error::InitialListFailed(_));
        let failure = kube_error(error).and_then(|error| Failure::of(error, self.probe.timeout));
        let is_unanswered = failure.is_some();
        if is_unanswered {
            self.probe.suspected.notify_one();
            *unanswered += 1;
            if *unanswered < MAX_UNANSWERED {
                return ControlFlow::Continue(());
            }
        }
        self.board.fail_source(self.api, is_unanswered, self.clock.now(), |since| {
            self.describe(error, is_list, &seconds(since))
        });
        ControlFlow::Continue(())
    }

    /// A sentence about a list or watch that fails, without a full stop.
    fn describe(&self, error: &watcher::Error, is_list: bool, since: &str) -> String {
        let api = self.api;
        if let (Some(403), Some(namespace)) = (status_code(error), &self.namespace) {
            let right = MissingRight::new(error).sentence(api);
            return match (is_list, self.is_fallback) {
                (true, true) => format!(
                    "{right}, neither in all namespaces nor in the namespace {namespace}, so none is \
                     shown. --namespace selects another one"
                ),
                (true, false) => {
                    format!("{right} in the namespace {namespace}, so none is shown")
                }
                (false, _) => format!(
                    "{right} in the namespace {namespace}, so those that are shown are of {since} \
                     and don't change"
                ),
            };
        }
        let cause = match kube_error(error) {
            Some(kube::Error::Api(_)) | None => message(error),
            Some(error) => last_cause(error),
        };
        if is_list {
            return format!(
                "The list of the autoscalers of {api} has failed since {since}: {cause}"
            );
        }
        format!(
            "The watch of the autoscalers of {api} has failed since {since}, so they may be \
             outdated: {cause}"
        )
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
        faults.add(
            Fault::on(watches).first(MAX_UNANSWERED.into()).effect(Effect::ServiceUnavailable),
        );
        let config = Config { interceptor: Some(Arc::new(faults)), ..Config::default() };
        let testbed = Testbed::new(config);
        let clients = Clients::from_service(testbed.service(), &ClientLimits::default());
        let api = AutoscalerApi::Core;
        let board = Arc::new(Board::new(&[api], Settings::default(), SettingPolicy::default()));
        let clock = Arc::new(SystemClock::default());
        let limit = Duration::from_secs(10);
        let probe = Probe::new(&clients, None, limit, board.clone(), clock.clone());
        probe.check().await;
        let feed = AutoscalerFeed {
            client: clients.api,
            api,
            namespace: None,
            fallback: String::new(),
            is_fallback: false,
            board: board.clone(),
            probe: Arc::new(probe),
            clock,
        };
        let feed = tokio::spawn(feed.run());
        let mut changes = board.subscribe();
        let mut problems = async |are_expected: bool| {
            let read = changes.wait_for(|_| board.problems().is_empty() != are_expected);
            timeout(RESUMED_AFTER * 2, read).await.expect("a change").expect("a board");
            board.problems()
        };
        let failed = problems(true).await;
        let start = "The watch of the autoscalers of autoscaling/v2 has failed since ";
        assert!(failed.len() == 1 && failed[0].starts_with(start), "{failed:?}");
        assert!(problems(false).await.is_empty());
        feed.abort();
    }
}
