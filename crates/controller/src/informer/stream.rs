//! The events of a watch that never ends: failures are logged, and retried with a backoff.

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, TryStreamExt, stream};
use hpa_calc::go_text::truncate;
use hpa_metrics::{describe, is_within_list, mark_logged_if_due};
use kube::{
    Api, Client,
    core::ApiResource,
    runtime::{
        WatchStreamExt,
        utils::Backoff,
        watcher::{self, DefaultBackoff, watcher},
    },
};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, info, warn};

use super::{WatchIntervals, relist_timer::RelistTimer, watch_client::WatchObserver};
use crate::{
    cache::{WatchAge, WatchAges},
    k8s::{ConnectionLost, MAX_PAGE_SIZE, PartialObject},
    key::Scope,
};

/// The maximum number of characters of an error in the debug API. The log has the whole error.
const MAX_ERROR_CHARS: usize = 500;

type Events = stream::BoxStream<'static, watcher::Result<watcher::Event<PartialObject>>>;

/// Lists and watches without end. Backs off after failures. The API server ends each watch after at
/// most `timeout`, and kube's watcher resumes it. A watch that is silent for 5 s longer is dropped
/// and resumed on another connection.
fn watch_events(api: Api<PartialObject>, max_backoff: Duration, timeout: Duration) -> Events {
    let timeout = u32::try_from(timeout.as_secs()).unwrap_or(u32::MAX);
    let config = watcher::Config::default().page_size(MAX_PAGE_SIZE).timeout(timeout);
    let backoff = CappedBackoff { backoff: DefaultBackoff::default(), max: max_backoff };
    watcher(api, config).backoff(backoff).boxed()
}

/// kube's backoff with a maximum. An event doesn't reset it, because every retry of a list starts
/// with an event before the API server has responded. kube's backoff resets itself after two
/// minutes without a failure.
struct CappedBackoff {
    backoff: DefaultBackoff,
    max: Duration,
}

impl Iterator for CappedBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.backoff.next().map(|delay| delay.min(self.max))
    }
}

impl Backoff for CappedBackoff {
    fn reset(&mut self) {}
}

/// Logs the failures of a watch when they start, every minute while they last, and when they end.
/// Lost connections are logged at debug level only.
struct FailureLog {
    watch: String,
    scope: String,
    /// The time of the last log line about a failure, if the watch hasn't recovered since.
    last_logged: Option<Instant>,
}

impl FailureLog {
    fn new(watch: String, scope: &Scope) -> Self {
        let scope = scope.clone().unwrap_or_else(|| "all namespaces".to_owned());
        Self { watch, scope, last_logged: None }
    }

    /// `cache_age` is the time since the API server last confirmed the cache that decisions use.
    /// `None` if no list is complete yet.
    fn failed(&mut self, error: &watcher::Error, cache_age: Option<Duration>) {
        if is_connection_lost(error) {
            let error = describe_failure(error);
            debug!(watch = self.watch, scope = self.scope, error, "watch interrupted, retrying");
        } else if self.mark_logged_if_due() {
            warn!(
                watch = self.watch,
                scope = self.scope,
                cache_age_seconds = cache_age.map(|age| age.as_secs()),
                error = describe_failure(error),
                "watch failed, retrying"
            );
        }
    }

    fn not_installed(&mut self, group: &str) {
        if self.mark_logged_if_due() {
            warn!(
                watch = self.watch,
                scope = self.scope,
                "API group {group} is not installed: its autoscalers are not reconciled until it \
                 is installed (hpa crd prints its definition)"
            );
        }
    }

    /// Returns whether to log a failure now, and if so, starts the next interval.
    fn mark_logged_if_due(&mut self) -> bool {
        mark_logged_if_due(&mut self.last_logged, Instant::now())
    }

    fn succeeded(&mut self) {
        if self.last_logged.take().is_some() {
            info!(watch = self.watch, scope = self.scope, "watch recovered");
        }
    }
}

/// The HTTP status with which the API server refused a list or a watch.
fn status_code(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => Some(status.code),
        _ => None,
    }
}

/// Whether the connection to the API server ended or can't be made. The client logs that once for
/// all watches, so the watches don't.
fn is_connection_lost(error: &watcher::Error) -> bool {
    let (watcher::Error::InitialListFailed(cause)
    | watcher::Error::WatchStartFailed(cause)
    | watcher::Error::WatchFailed(cause)) = error
    else {
        return false;
    };
    match cause {
        kube::Error::ReadEvents(_) => true,
        kube::Error::Service(error) => error.is::<ConnectionLost>(),
        _ => false,
    }
}

/// Describes a failure. kube's own text ends in a debug dump of the API server's response.
fn describe_failure(error: &watcher::Error) -> String {
    let (action, cause) = match error {
        watcher::Error::InitialListFailed(cause) => ("list failed", cause),
        watcher::Error::WatchStartFailed(cause) => ("watch refused", cause),
        watcher::Error::WatchFailed(cause) => ("watch ended", cause),
        watcher::Error::WatchError(status) => return format!("watch ended: {}", status.message),
        error @ watcher::Error::NoResourceVersion => return describe(error),
    };
    match cause {
        kube::Error::Api(status) => format!("{action}: {}", status.message),
        kube::Error::Service(error) => format!("{action}: {}", describe(&**error)),
        cause => format!("{action}: {}", describe(cause)),
    }
}

/// Whether an event arrived but could not be parsed. Without a relist, the watch would resume after
/// that event.
fn is_event_lost(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::WatchFailed(cause) => !matches!(cause, kube::Error::ReadEvents(_)),
        _ => false,
    }
}

/// The events of a watch of one kind in one scope. It never ends: failures are logged and retried.
pub(super) struct WatchStream {
    api: Api<PartialObject>,
    events: Events,
    observer: Arc<WatchObserver>,
    /// The timeout of each watch request.
    timeout: Duration,
    failures: FailureLog,
    relist_timer: RelistTimer,
    /// For a kind that need not be installed: its API group, and the channel that gets `true` if it
    /// isn't installed.
    pub(super) optional: Option<(&'static str, watch::Sender<bool>)>,
    /// Whether a watch that RBAC forbids only marks its cache as unwatched, without a log line. The
    /// caller handles [`Interruption::is_forbidden`].
    pub(super) tolerates_forbidden: bool,
    _rewind_check: AbortOnDropHandle<()>,
}

/// A watch failed and will be retried. Events may have been missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interruption {
    /// Whether RBAC forbids the watch, so that an early retry is unlikely to succeed.
    pub(super) is_forbidden: bool,
    /// Whether the optional kind isn't installed, so that it has no objects.
    pub(super) is_not_installed: bool,
    /// Whether an event could not be parsed. Then a relist is scheduled.
    pub(super) is_event_lost: bool,
}

impl WatchStream {
    /// Creates the stream. Each event, bookmark or end of its watch resets `age`. If the watch
    /// finds that the API server was rewound, it marks all `watch_ages` as outdated. These must
    /// include `age`.
    pub(super) fn new(
        name: impl Into<String>,
        resource: &ApiResource,
        client: &Client,
        scope: &Scope,
        intervals: WatchIntervals,
        age: Arc<WatchAge>,
        watch_ages: &Arc<WatchAges>,
    ) -> Self {
        let name = name.into();
        let timeout = intervals.timeout(&(&name, scope));
        let observer = WatchObserver::new(age, timeout);
        let observed_client = observer.instrument(client);
        let api: Api<PartialObject> = match scope {
            Some(namespace) => Api::namespaced_with(observed_client, namespace, resource),
            None => Api::all_with(observed_client, resource),
        };
        let rewind_check = observer.rewind_check.clone().run(
            client.clone(),
            api.resource_url().to_owned(),
            name.clone(),
            watch_ages.clone(),
            intervals.relist,
        );
        Self {
            observer,
            timeout,
            events: watch_events(api.clone(), intervals.relist, timeout),
            api,
            failures: FailureLog::new(name, scope),
            relist_timer: RelistTimer::new(intervals.relist),
            optional: None,
            tolerates_forbidden: false,
            _rewind_check: AbortOnDropHandle::new(tokio::spawn(rewind_check)),
        }
    }

    /// Schedules a relist after the relist interval, because events may have been missed.
    pub(super) fn schedule_relist(&mut self) {
        self.relist_timer.schedule_for_missed_events();
    }

    /// Schedules a relist for an undecodable object. The interval before it grows as long as there
    /// are such objects.
    pub(super) fn schedule_relist_for_undecodable(&mut self) {
        self.relist_timer.schedule_for_undecodable();
    }

    /// The next event, or [`Interruption`] if events may have been missed. `None` does not occur as
    /// long as kube's watches are endless.
    pub(super) async fn next_or_interrupted(
        &mut self,
    ) -> Result<Option<watcher::Event<PartialObject>>, Interruption> {
        loop {
            let relist_at = self.relist_timer.due_at();
            let relist_due = async {
                match relist_at {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let event = tokio::select! {
                biased;
                () = self.observer.age.outdated() => {
                    self.relist();
                    continue;
                }
                event = self.events.try_next() => event,
                () = self.observer.started.notified() => {
                    self.failures.succeeded();
                    continue;
                }
                () = relist_due => {
                    self.relist();
                    continue;
                }
            };
            return match event {
                Ok(event) => {
                    self.handle_event(event.as_ref());
                    Ok(event)
                }
                Err(error) => Err(self.handle_failure(&error)),
            };
        }
    }

    fn relist(&mut self) {
        self.relist_timer.list_started();
        self.events =
            watch_events(self.api.clone(), self.relist_timer.initial_interval, self.timeout);
    }

    fn handle_failure(&mut self, error: &watcher::Error) -> Interruption {
        self.observer.set_failed();
        let is_forbidden = status_code(error) == Some(403);
        let is_event_lost = is_event_lost(error);
        if is_event_lost {
            self.relist_timer.schedule_for_undecodable();
        }
        let mut is_not_installed = false;
        if is_forbidden && self.tolerates_forbidden {
            self.observer.age.set_unwatched();
        } else if let Some((group, not_installed)) = &self.optional
            && status_code(error) == Some(404)
        {
            self.observer.age.set_unwatched();
            not_installed.send_replace(true);
            self.failures.not_installed(group);
            is_not_installed = true;
        } else {
            let text = truncate(describe_failure(error), MAX_ERROR_CHARS);
            self.observer.age.set_error(Some(text));
            self.failures.failed(error, self.observer.age.confirmed_age());
        }
        Interruption { is_forbidden, is_not_installed, is_event_lost }
    }

    fn handle_event(&mut self, event: Option<&watcher::Event<PartialObject>>) {
        // Every retry of a list starts with `Init`, and the list may fail at a later page.
        if !event.is_some_and(is_within_list) {
            self.failures.succeeded();
        }
        match event {
            Some(watcher::Event::Init) => {
                self.relist_timer.list_started();
                self.observer.age.list_started();
            }
            Some(watcher::Event::InitDone) => {
                self.relist_timer.list_finished();
                self.observer.age.list_completed();
            }
            _ => {}
        }
    }
}
