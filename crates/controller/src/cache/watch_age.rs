//! The ages of the caches: the time since a watch confirmed each.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use hpa_lease::{Clock, Instants};
use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};
use tracing::warn;

use super::is_newer;

/// The age of a cache that a watch keeps up to date: the time since the watch last confirmed that
/// the cache has all changes. A watch that is silent confirms nothing, because its connection may
/// be dead.
#[derive(Debug)]
pub struct WatchAge {
    /// `None` if nothing is watched: the kind isn't installed, RBAC forbids it, or the scale paths
    /// of the kind are unknown.
    confirmed: Mutex<Option<Confirmation>>,
    /// The latest list, complete or not.
    list: Mutex<Option<List>>,
    /// The error of the watch. `None` if the API server has accepted it since.
    error: Mutex<Option<String>>,
    outdated: Notify,
}

#[derive(Clone, Copy, Debug)]
struct List {
    started: Instant,
    is_complete: bool,
}

#[derive(Clone, Copy, Debug)]
struct Confirmation {
    at: Instant,
    /// The age of the cache at that time: zero, unless a suspension was detected then.
    age: Duration,
    /// Whether the API server was rewound since then, so that a list is due.
    is_rewound: bool,
    /// Whether this is the start of the watch: nothing has confirmed the cache yet.
    is_start: bool,
}

impl Confirmation {
    fn new(at: Instant) -> Self {
        Self { at, age: Duration::ZERO, is_rewound: false, is_start: false }
    }

    fn age_now(self) -> Duration {
        self.at.elapsed().saturating_add(self.age)
    }
}

impl Default for WatchAge {
    /// The age counts from now, until the first list is complete.
    fn default() -> Self {
        let start = Confirmation { is_start: true, ..Confirmation::new(Instant::now()) };
        Self {
            confirmed: Mutex::new(Some(start)),
            list: Mutex::default(),
            error: Mutex::default(),
            outdated: Notify::new(),
        }
    }
}

impl WatchAge {
    /// The age of the cache. `None` if nothing is watched, or the API server was rewound and a list
    /// is due.
    pub fn age(&self) -> Option<Duration> {
        let confirmed = *self.confirmed.lock();
        confirmed.filter(|confirmed| !confirmed.is_rewound).map(Confirmation::age_now)
    }

    /// Like [`WatchAge::age`], but a rewind has no effect.
    fn displayed_age(&self) -> Option<Duration> {
        self.confirmed.lock().map(Confirmation::age_now)
    }

    /// The time since the API server last confirmed the cache. `None` if it never has, or if
    /// nothing is watched.
    pub(crate) fn confirmed_age(&self) -> Option<Duration> {
        self.displayed_age().filter(|_| !self.is_never_listed())
    }

    /// Whether the cache is watched, but no list is complete yet.
    fn is_never_listed(&self) -> bool {
        self.confirmed.lock().is_some_and(|confirmed| confirmed.is_start)
    }

    /// Records that the cache has all changes until `at`.
    pub fn confirm(&self, at: Instant) {
        let mut confirmed = self.confirmed.lock();
        if confirmed.is_none_or(|confirmed| confirmed.is_rewound || confirmed.at <= at) {
            *confirmed = Some(Confirmation::new(at));
        }
    }

    /// Records that a list of all objects starts.
    pub(crate) fn list_started(&self) {
        *self.list.lock() = Some(List { started: Instant::now(), is_complete: false });
    }

    /// Records that the list is complete: the cache has all changes until the list started.
    pub(crate) fn list_completed(&self) {
        let mut list = self.list.lock();
        if let Some(list) = &mut *list {
            list.is_complete = true;
            self.confirm(list.started);
        }
    }

    /// Records that the watch failed, or with `None` that the API server has accepted it.
    pub(crate) fn set_error(&self, error: Option<String>) {
        *self.error.lock() = error;
    }

    /// Records that nothing is watched until the next [`WatchAge::confirm`].
    pub fn set_unwatched(&self) {
        *self.confirmed.lock() = None;
    }

    /// Adds the duration of a suspension of the machine, and wakes [`WatchAge::outdated`].
    fn add_suspension(&self, duration: Duration) {
        if let Some(confirmed) = &mut *self.confirmed.lock() {
            // A list that started before now confirms nothing.
            let age = confirmed.age_now().saturating_add(duration);
            *confirmed = Confirmation { at: Instant::now(), age, ..*confirmed };
        }
        self.outdated.notify_one();
    }

    /// Marks the cache as outdated: the API server was rewound before it received a request that
    /// was sent at `sent`. A list that started after `sent` has the new state, so the cache is not
    /// outdated. A list in progress isn't repeated, because each response would restart it. If that
    /// list has the old state, a later response marks the cache as outdated. Returns whether a
    /// relist is required.
    fn set_rewound(&self, sent: Instant) -> bool {
        let list = *self.list.lock();
        if list.is_some_and(|list| !list.is_complete || list.started >= sent) {
            return false;
        }
        if let Some(confirmed) = &mut *self.confirmed.lock() {
            confirmed.is_rewound = true;
        }
        self.outdated.notify_one();
        true
    }

    /// Waits until a suspension of the machine or a rewind of the API server requires a relist.
    /// Only one task may wait.
    pub(crate) async fn outdated(&self) {
        self.outdated.notified().await;
    }
}

/// The ages of all watches. A suspension or a rewind outdates all of them.
#[derive(Debug, Default)]
pub struct WatchAges {
    /// Each watch with the name of its resource. A resource has a watch for each scope.
    watches: Mutex<Vec<(String, Arc<WatchAge>)>>,
}

impl WatchAges {
    pub(crate) fn add(&self, resource: String, watch: Arc<WatchAge>) {
        self.watches.lock().push((resource, watch));
    }

    /// The age of each watched resource. If there is a watch per namespace, the oldest counts.
    pub fn by_resource(&self) -> BTreeMap<String, Duration> {
        let mut ages = BTreeMap::<String, Duration>::new();
        for (resource, watch) in &*self.watches.lock() {
            if let Some(age) = watch.displayed_age() {
                let oldest = ages.entry(resource.clone()).or_default();
                *oldest = age.max(*oldest);
            }
        }
        ages
    }

    /// The watched resources of which no list is complete yet, or not in each namespace. Their ages
    /// count from the start of the watch.
    pub fn never_listed(&self) -> BTreeSet<String> {
        let watches = self.watches.lock();
        let never_listed = watches.iter().filter(|(_, watch)| watch.is_never_listed());
        never_listed.map(|(resource, _)| resource.clone()).collect()
    }

    /// The errors of the watches that failed, by resource. A watch that the API server has accepted
    /// since has none.
    pub fn errors(&self) -> BTreeMap<String, String> {
        let watches = self.watches.lock();
        let errors = watches.iter().filter_map(|(resource, watch)| {
            // While nothing is watched, there is no current error.
            watch.displayed_age()?;
            Some((resource.clone(), watch.error.lock().clone()?))
        });
        errors.collect()
    }

    /// Adds the duration of a suspension of the machine to all ages. The informers relist.
    pub fn add_suspension(&self, duration: Duration) {
        for (_, watch) in &*self.watches.lock() {
            watch.add_suspension(duration);
        }
    }

    /// Makes the informers relist if the API server was rewound: its storage was restored to an
    /// earlier state, and it reuses resource versions. Watches that resume at a version from before
    /// the rewind would miss changes.
    ///
    /// A rewind is proven if the resource version in a response is lower than `known`, a version of
    /// the same resource when the request was sent.
    pub(crate) fn detect_rewind(&self, resource: &str, known: &str, response: &str, sent: Instant) {
        if !is_newer(known, response) {
            return;
        }
        let watches = self.watches.lock();
        let relists = watches.iter().filter(|(_, watch)| watch.set_rewound(sent)).count();
        if relists > 0 {
            warn!(
                resource,
                known,
                response,
                "the API server's resource versions went back, as after a restore of etcd without \
                 a revision bump: relisting"
            );
        }
    }
}

/// Makes the informers relist after the machine was suspended. Their connections may be dead, but
/// no timeout detects this soon, because the monotonic clock stops during a suspension.
pub(crate) struct SuspensionDetector {
    clock: Arc<dyn Clock>,
    /// A shorter suspension has no effect.
    threshold: Duration,
    last_check: Mutex<Instants>,
    watch_ages: Arc<WatchAges>,
}

impl SuspensionDetector {
    pub(crate) fn new(
        clock: Arc<dyn Clock>,
        threshold: Duration,
        watch_ages: Arc<WatchAges>,
    ) -> Self {
        let last_check = Mutex::new(clock.instants());
        Self { clock, threshold, last_check, watch_ages }
    }

    /// Marks the caches as outdated if the machine was suspended since the last check, at least for
    /// the threshold.
    pub(crate) fn check(&self) {
        let now = self.clock.instants();
        let last = std::mem::replace(&mut *self.last_check.lock(), now);
        let suspended = now.suspended_since(last);
        if suspended >= self.threshold {
            let seconds = suspended.as_secs();
            warn!(seconds, "the wall clock jumped as after a suspension, relisting");
            self.watch_ages.add_suspension(suspended);
        }
    }
}
