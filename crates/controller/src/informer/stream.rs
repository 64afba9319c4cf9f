//! A watch that goes on whatever happens.

use std::{fmt::Debug, time::Duration};

use futures::{StreamExt, TryStreamExt, stream};
use hpa_metrics_client::describe;
use kube::{
    Api, Resource,
    runtime::{
        WatchStreamExt,
        utils::Backoff,
        watcher::{self, DefaultBackoff, watcher},
    },
};
use serde::de::DeserializeOwned;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};
use tracing::{info, warn};

use crate::scope::Scope;

/// Objects a page of a list holds: it bounds what is in memory before it is made small.
const PAGE_SIZE: u32 = 250;

/// A failure this long after the last one is news.
const QUIET: Duration = Duration::from_mins(1);

/// A watch's events, a failure being what a retry follows on.
type Events<T> = stream::BoxStream<'static, watcher::Result<watcher::Event<T>>>;

/// What can be watched.
pub(crate) trait Watchable:
    Resource + DeserializeOwned + Clone + Debug + Send + 'static
{
}

impl<T: Resource + DeserializeOwned + Clone + Debug + Send + 'static> Watchable for T {}

/// Watches objects, without end, backing off after failures.
fn events<T: Watchable>(api: Api<T>, longest: Duration) -> Events<T> {
    let config = watcher::Config::default().page_size(PAGE_SIZE);
    let backoff = SteadyBackoff { backoff: DefaultBackoff::default(), longest };
    watcher(api, config).backoff(backoff).boxed()
}

/// kube's backoff, but never longer than `longest`, and not reset by an event: every retry of a list begins with one,
/// though nothing has been answered yet. It resets itself after two minutes without a failure.
struct SteadyBackoff {
    backoff: DefaultBackoff,
    longest: Duration,
}

impl Iterator for SteadyBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.backoff.next().map(|wait| wait.min(self.longest))
    }
}

impl Backoff for SteadyBackoff {
    fn reset(&mut self) {}
}

/// Logs the failures of a watch once when they begin and once when they end.
struct Health {
    what: String,
    scope: String,
    /// When it failed last, if it did not work since.
    failed: Option<Instant>,
}

impl Health {
    fn new(what: String, scope: &Scope) -> Self {
        let scope = scope.clone().unwrap_or_else(|| "all namespaces".to_owned());
        Self { what, scope, failed: None }
    }

    fn failed(&mut self, error: &watcher::Error) {
        let now = Instant::now();
        // A watch that goes on where it broke off shows in nothing that it works again.
        if self.failed.replace(now).is_none_or(|last| now.duration_since(last) > QUIET) {
            warn!(
                watch = self.what,
                scope = self.scope,
                error = describe(error),
                "the watch failed; retrying"
            );
        }
    }

    /// The kind is not served at all, which it need not be.
    fn absent(&mut self, group: &str) {
        let now = Instant::now();
        if self.failed.replace(now).is_none_or(|last| now.duration_since(last) > QUIET) {
            warn!(
                watch = self.what,
                scope = self.scope,
                "the API group {group} is not installed (hpa crd prints its definition): none of its autoscalers is \
                 handled until it is"
            );
        }
    }

    fn succeeded(&mut self) {
        if self.failed.take().is_some() {
            info!(watch = self.what, scope = self.scope, "the watch works again");
        }
    }
}

/// The HTTP status by which a list or a watch was refused.
fn code(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => Some(status.code),
        _ => None,
    }
}

/// Whether an event was lost: it came, but nobody can tell of what. The next one would go on after it.
fn is_lost(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::WatchFailed(cause) => !matches!(cause, kube::Error::ReadEvents(_)),
        _ => false,
    }
}

/// When to list anew because objects could not be decoded. What is garbled on its way is whole the next time; what is
/// stored so stays, and is asked for ever less often.
struct Relist {
    after: Duration,
    wait: Duration,
    at: Option<Instant>,
}

impl Relist {
    const LONGEST: Duration = Duration::from_mins(5);

    fn after(first: Duration) -> Self {
        Self { after: first, wait: first, at: None }
    }

    /// An object could not be decoded.
    fn wanted(&mut self) {
        self.at.get_or_insert_with(|| Instant::now() + self.wait);
    }

    /// A list begins.
    fn begun(&mut self) {
        self.at = None;
    }

    /// A list has ended.
    fn done(&mut self) {
        if self.at.is_none() {
            self.wait = self.after;
            return;
        }
        // What was wanted early in a long list waits as long as what was wanted late.
        self.at = Some(Instant::now() + self.wait);
        self.wait = (self.wait * 2).min(Self::LONGEST.max(self.after));
    }
}

/// The events of a watch of a kind in a scope, without end. Failures are logged and waited out.
pub(crate) struct WatchStream<T> {
    api: Api<T>,
    events: Events<T>,
    health: Health,
    relist: Relist,
    /// Of a kind that need not be served: its API group, and who is told that it is not.
    absent: Option<(&'static str, watch::Sender<bool>)>,
    may_be_forbidden: bool,
}

/// A watch failed; it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interrupted {
    /// Whether it is not permitted, so that there is little sense in trying again soon.
    pub(crate) is_forbidden: bool,
    /// Whether an event could not be read at all. Everything is listed anew for it.
    pub(crate) is_lost: bool,
}

impl<T: Watchable> WatchStream<T> {
    /// A watch that lists anew `pace` after an object that could not be decoded, and never waits longer after a failure.
    pub(crate) fn new(what: impl Into<String>, api: Api<T>, scope: &Scope, pace: Duration) -> Self {
        let (events, health) = (events(api.clone(), pace), Health::new(what.into(), scope));
        Self {
            api,
            events,
            health,
            relist: Relist::after(pace),
            absent: None,
            may_be_forbidden: false,
        }
    }

    /// The same for a kind of a group that need not be served: `absent` is told if it is not, and it is asked for
    /// again and again.
    pub(crate) fn optional(self, group: &'static str, absent: watch::Sender<bool>) -> Self {
        Self { absent: Some((group, absent)), ..self }
    }

    /// The same for what need not be permitted: whoever takes the events says so in its own words.
    pub(crate) fn tolerate_forbidden(self) -> Self {
        Self { may_be_forbidden: true, ..self }
    }

    /// Tells that an object could not be decoded.
    pub(crate) fn relist(&mut self) {
        self.relist.wanted();
    }

    /// The next event; `None` does not occur while kube's watches are endless.
    pub(crate) async fn next(&mut self) -> Option<watcher::Event<T>> {
        loop {
            if let Ok(event) = self.next_or_interrupted().await {
                return event;
            }
        }
    }

    /// As [`WatchStream::next`], for those who have to know that something may have been missed for a while.
    pub(crate) async fn next_or_interrupted(
        &mut self,
    ) -> Result<Option<watcher::Event<T>>, Interrupted> {
        loop {
            let at = self.relist.at;
            let due = async {
                match at {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let event = tokio::select! {
                biased;
                event = self.events.try_next() => event,
                () = due => {
                    self.relist.begun();
                    self.events = events(self.api.clone(), self.relist.after);
                    continue;
                }
            };
            return match event {
                Ok(event) => Ok(self.seen(event)),
                Err(error) => {
                    let (is_forbidden, is_lost) = (code(&error) == Some(403), is_lost(&error));
                    if is_lost {
                        self.relist.wanted();
                    }
                    if !(is_forbidden && self.may_be_forbidden) {
                        self.failed(&error);
                    }
                    Err(Interrupted { is_forbidden, is_lost })
                }
            };
        }
    }

    fn failed(&mut self, error: &watcher::Error) {
        match &self.absent {
            // The API server does not know the kind.
            Some((group, absent)) if code(error) == Some(404) => {
                absent.send_replace(true);
                self.health.absent(group);
            }
            _ => self.health.failed(error),
        }
    }

    fn seen(&mut self, event: Option<watcher::Event<T>>) -> Option<watcher::Event<T>> {
        // A list begins with every retry, and may break off at a later page.
        if !matches!(event, Some(watcher::Event::Init | watcher::Event::InitApply(_))) {
            self.health.succeeded();
        }
        match event {
            Some(watcher::Event::Init) => self.relist.begun(),
            Some(watcher::Event::InitDone) => self.relist.done(),
            _ => {}
        }
        event
    }
}
