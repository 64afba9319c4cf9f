//! Watches the autoscalers of the cluster, and updates the board.

use std::{ops::ControlFlow, sync::Arc, time::Duration};

use hpa_controller::{AutoscalerApi, Clock, HpaKey, k8s::StatusController};
use hpa_metrics::{StoredObject, decode_value};
use jiff::Timestamp;
use kube::{Api, Client, ResourceExt, runtime::watcher};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use crate::{
    informer::{Change, error_message, kube_error, list_and_watch, status_code},
    model::{Board, ObservedAutoscaler, SourceState, Update, format_time},
    probe::{Failure, Probe, last_cause},
};

/// Interval of checks for an API that the cluster doesn't serve.
const NOT_SERVED_INTERVAL: Duration = Duration::from_secs(60);
/// A failed watch counts as resumed after this time without another failure. Longer than the
/// backoff between two attempts.
const RESUMED_AFTER: Duration = Duration::from_secs(120);
/// A failure is reported after this many consecutive requests without a usable answer. A single
/// one is normal: a proxy ends an idle watch, or a starting API server responds with 503. The
/// [`Probe`] reports an API server that can't be read at all.
const UNANSWERED_BEFORE_REPORT: u32 = 3;

/// Watches the autoscalers of one API, forever.
pub(crate) struct AutoscalerWatcher {
    pub(crate) client: Client,
    pub(crate) api: AutoscalerApi,
    /// `None` for all namespaces.
    pub(crate) namespace: Option<String>,
    /// Whether `namespace` was set to that of the client, because the user may not list autoscalers
    /// in all namespaces.
    pub(crate) uses_fallback: bool,
    pub(crate) board: Arc<Board>,
    pub(crate) probe: Arc<Probe>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// The failures without a usable answer since the last success.
#[derive(Default)]
struct UnansweredRequests {
    count: u32,
    /// The time of the first failure.
    since: Option<Timestamp>,
}

/// The reason why [`AutoscalerWatcher::watch`] returned.
enum StopReason {
    NotServed,
    /// The user may not read all namespaces.
    Forbidden(MissingRight),
    /// An outage is over. A new list at once replaces the watch, which would resume only after its
    /// backoff.
    OutageEnded,
}

/// A right that the user lacks.
struct MissingRight {
    verb: &'static str,
    user: Option<String>,
}

impl MissingRight {
    fn new(error: &watcher::Error) -> Self {
        let verb = if is_list_failure(error) { "list" } else { "watch" };
        let message = error_message(error);
        let user = message.split_once("User \"").and_then(|(_, rest)| rest.split_once('"'));
        Self { verb, user: user.map(|(user, _)| user.to_owned()) }
    }

    /// States the right: `The user ann may not list horizontalpodautoscalers.autoscaling`.
    fn sentence(&self, api: AutoscalerApi) -> String {
        let who = self.user.as_ref().map_or("You".to_owned(), |user| format!("The user {user}"));
        let resource = api.resource();
        format!("{who} may not {} {}.{}", self.verb, resource.plural, resource.group)
    }
}

impl AutoscalerWatcher {
    pub(crate) async fn run(mut self) {
        loop {
            self.board.wait_until_up().await;
            let reason =
                if self.is_served().await { self.watch().await } else { StopReason::NotServed };
            match reason {
                StopReason::OutageEnded => {}
                StopReason::NotServed => {
                    self.board.update(Update::Replace(self.api, Vec::new()), self.clock.now());
                    self.board.set_source(self.api, SourceState::NotServed);
                    sleep(NOT_SERVED_INTERVAL).await;
                }
                StopReason::Forbidden(right) => {
                    let right = right.sentence(self.api);
                    let namespace = self.client.default_namespace().to_owned();
                    self.board.set_note(
                        self.api,
                        format!(
                            "{right} in all namespaces, so only those of the namespace {namespace} \
                             are shown. --namespace selects another one."
                        ),
                    );
                    self.uses_fallback = true;
                    self.namespace = Some(namespace);
                }
            }
        }
    }

    /// Returns false only if the API server responds that it doesn't serve the API. A list request
    /// can't show this: if the user may not list, the API server responds with 403 even if it
    /// doesn't have the API.
    async fn is_served(&self) -> bool {
        let resources = self.client.list_api_group_resources(self.api.api_version()).await;
        !matches!(resources, Err(kube::Error::Api(status)) if status.code == 404)
    }

    async fn watch(&self) -> StopReason {
        let resource = self.api.resource();
        let api: Api<StoredObject> = match &self.namespace {
            Some(namespace) => {
                self.board.set_namespace(self.api, namespace.clone());
                Api::namespaced_with(self.client.clone(), namespace, &resource)
            }
            None => Api::all_with(self.client.clone(), &resource),
        };
        let mut unanswered = UnansweredRequests::default();
        let (watch_failed, watch_failed_receiver) = watch::channel(false);
        let watching = list_and_watch(api, watcher::Config::default(), |change| {
            let is_failed_watch =
                matches!(&change, Change::Failed(error) if !is_list_failure(error));
            _ = watch_failed.send_replace(is_failed_watch);
            self.on_change(change, &mut unanswered)
        });
        tokio::select! {
            reason = watching => reason,
            // Doesn't end: the sender exists as long as `watching`.
            () = self.clear_watch_failures(watch_failed_receiver) => StopReason::OutageEnded,
            () = self.board.wait_until_restored() => StopReason::OutageEnded,
        }
    }

    /// Sets the source to synced if no change or failure follows a failed watch for
    /// [`RESUMED_AFTER`]. A kube watcher doesn't report that it resumed. Runs while the sender
    /// exists.
    async fn clear_watch_failures(&self, mut watch_failed: watch::Receiver<bool>) {
        while watch_failed.changed().await.is_ok() {
            while let Ok(Ok(())) = timeout(RESUMED_AFTER, watch_failed.changed()).await {}
            if *watch_failed.borrow() {
                self.board.set_source(self.api, SourceState::Synced);
            }
        }
    }

    /// Updates the board with a change or failure. Breaks if the watch can't go on.
    fn on_change(
        &self,
        change: Change<StoredObject>,
        unanswered: &mut UnansweredRequests,
    ) -> ControlFlow<StopReason> {
        let now = self.clock.now();
        let observe = |object: &StoredObject| observe(self.api, object, now);
        let update = match change {
            Change::Replace(objects) => {
                Update::Replace(self.api, objects.iter().map(observe).collect())
            }
            Change::Apply(object) => Update::Apply(Box::new(observe(&object))),
            Change::Delete(object) => Update::Delete(key(self.api, &object)),
            Change::Failed(error) => return self.on_failure(&error, unanswered),
        };
        *unanswered = UnansweredRequests::default();
        self.board.update(update, now);
        // A list or watch event clears an earlier failure.
        self.board.set_source(self.api, SourceState::Synced);
        ControlFlow::Continue(())
    }

    fn on_failure(
        &self,
        error: &watcher::Error,
        unanswered: &mut UnansweredRequests,
    ) -> ControlFlow<StopReason> {
        match status_code(error) {
            Some(404) => return ControlFlow::Break(StopReason::NotServed),
            Some(403) if self.namespace.is_none() => {
                return ControlFlow::Break(StopReason::Forbidden(MissingRight::new(error)));
            }
            _ => {}
        }
        let failure =
            kube_error(error).and_then(|error| Failure::from_error(error, self.probe.timeout));
        let is_unanswered = failure.is_some();
        let mut since = self.clock.now();
        if is_unanswered {
            self.probe.failure_suspected.notify_one();
            unanswered.count += 1;
            since = *unanswered.since.get_or_insert(since);
            if unanswered.count < UNANSWERED_BEFORE_REPORT {
                return ControlFlow::Continue(());
            }
        }
        self.board.fail_source(self.api, is_unanswered, since, |since| {
            self.describe(error, &format_time(since))
        });
        ControlFlow::Continue(())
    }

    /// A sentence about a failed list, or else about a failed watch, without a full stop.
    fn describe(&self, error: &watcher::Error, since: &str) -> String {
        let (api, is_list) = (self.api, is_list_failure(error));
        if let (Some(403), Some(namespace)) = (status_code(error), &self.namespace) {
            let right = MissingRight::new(error).sentence(api);
            return match (is_list, self.uses_fallback) {
                (true, true) => format!(
                    "{right}, neither in all namespaces nor in the namespace {namespace}, so none \
                     is shown. --namespace selects another one"
                ),
                (true, false) => {
                    format!("{right} in the namespace {namespace}, so none is shown")
                }
                (false, _) => format!(
                    "{right} in the namespace {namespace}, so the list has not been \
                     updated since {since}"
                ),
            };
        }
        let cause = match kube_error(error) {
            Some(kube::Error::Api(_)) | None => error_message(error),
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

fn is_list_failure(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::InitialListFailed(_))
}

fn key(api: AutoscalerApi, object: &StoredObject) -> HpaKey {
    HpaKey::for_api(api, object.namespace().unwrap_or_default(), object.name_any())
}

fn observe(api: AutoscalerApi, object: &StoredObject, now: Timestamp) -> ObservedAutoscaler {
    let (hpa, controller) = match object.to_value() {
        Ok(value) => {
            let controller = StatusController::of_object(&value, now);
            (decode_value(value).map_err(|error| error.to_string()), controller)
        }
        Err(error) => (Err(error.to_string()), StatusController::default()),
    };
    ObservedAutoscaler { id: key(api, object), hpa, controller }
}

#[cfg(test)]
mod tests {
    use hpa_calc::{Settings, settings::SettingPolicy};
    use hpa_controller::{
        SystemClock,
        k8s::{ClientLimits, Clients},
    };
    use hpa_testbed::{Config, Effect, Fault, Faults, Match, Testbed};
    use kube::core::ObjectList;
    use serde_json::json;

    use super::*;

    #[test]
    fn autoscaler_with_times_out_of_range_is_listed_beside_others() {
        let end = "9999-12-31T23:59:59Z";
        let autoscaler = |name, managed_fields| {
            let metadata =
                json!({ "namespace": "shop", "name": name, "managedFields": managed_fields });
            let target = json!({ "kind": "Deployment", "name": name });
            json!({ "metadata": metadata, "spec": { "maxReplicas": 3, "scaleTargetRef": target } })
        };
        let write =
            |manager, at| json!({ "manager": manager, "subresource": "status", "time": at });
        let list: ObjectList<StoredObject> = serde_json::from_value(json!({
            "metadata": {},
            "items": [
                autoscaler(
                    "evil",
                    json!([
                        write("a", end),
                        write("b", "2026-01-01T00:00:00Z"),
                        write("c", "2126-01-01T00:00:00Z"),
                    ])
                ),
                autoscaler("web", json!([{ "manager": "kubectl", "time": end }])),
            ],
        }))
        .expect("a list");
        let now = "2026-01-01T00:00:10Z".parse().expect("a time");
        let observed: Vec<_> =
            list.iter().map(|object| observe(AutoscalerApi::Core, object, now)).collect();
        let [evil, web] = &*observed else { panic!("{observed:?}") };
        assert!(evil.hpa.is_ok() && web.hpa.is_ok(), "{observed:?}");
        assert_eq!((&*evil.id.name, &*web.id.name), ("evil", "web"));
        let expected = (Some("b".to_owned()), "2026-01-01T00:00:00Z".parse().ok());
        assert_eq!((evil.controller.name.clone(), evil.controller.at), expected);
        assert_eq!(web.controller, StatusController::default());
    }

    #[tokio::test(start_paused = true)]
    async fn failed_watch_is_reported_until_it_resumes() {
        let faults = Faults::new(1);
        let watches = Match::verb("watch").resource("horizontalpodautoscalers");
        let failures = UNANSWERED_BEFORE_REPORT.into();
        faults.add(Fault::on(watches).first(failures).effect(Effect::ServiceUnavailable));
        let config = Config { interceptor: Some(Arc::new(faults)), ..Config::default() };
        let testbed = Testbed::new(config);
        let clients = Clients::from_service(testbed.service(), &ClientLimits::default());
        let api = AutoscalerApi::Core;
        let board = Arc::new(Board::new(&[api], Settings::default(), SettingPolicy::default()));
        let clock = Arc::new(SystemClock::default());
        let limit = Duration::from_secs(10);
        let probe = Probe::new(&clients, None, limit, board.clone(), clock.clone());
        probe.check_connection().await;
        let autoscalers = AutoscalerWatcher {
            client: clients.api,
            api,
            namespace: None,
            uses_fallback: false,
            board: board.clone(),
            probe: Arc::new(probe),
            clock,
        };
        let watching = tokio::spawn(autoscalers.run());
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
        watching.abort();
    }
}
