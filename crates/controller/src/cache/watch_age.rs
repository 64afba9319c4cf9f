//! How long ago each watch confirmed its cache.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

/// The age of a cache that a watch keeps up to date: the time since the watch last confirmed that
/// the cache has all changes. A watch that is silent confirms nothing, because its connection may
/// be dead.
#[derive(Debug)]
pub struct WatchAge {
    /// `None` if nothing is watched: the kind isn't installed, or RBAC forbids it.
    confirmed: Mutex<Option<Confirmed>>,
    outdated: Notify,
}

#[derive(Clone, Copy, Debug)]
struct Confirmed {
    at: Instant,
    /// How old the cache was then: a suspension of the machine had outdated it.
    age: Duration,
}

impl Confirmed {
    fn age_now(self) -> Duration {
        self.at.elapsed().saturating_add(self.age)
    }
}

impl Default for WatchAge {
    /// The age counts from now, until the first list is complete.
    fn default() -> Self {
        let confirmed = Confirmed { at: Instant::now(), age: Duration::ZERO };
        Self { confirmed: Mutex::new(Some(confirmed)), outdated: Notify::new() }
    }
}

impl WatchAge {
    /// The age of the cache. `None` if nothing is watched.
    pub fn age(&self) -> Option<Duration> {
        let confirmed = *self.confirmed.lock();
        confirmed.map(Confirmed::age_now)
    }

    /// The cache has all changes until `at`.
    pub fn confirm(&self, at: Instant) {
        let mut confirmed = self.confirmed.lock();
        if confirmed.is_none_or(|confirmed| confirmed.at <= at) {
            *confirmed = Some(Confirmed { at, age: Duration::ZERO });
        }
    }

    /// Nothing is watched until the next [`WatchAge::confirm`].
    pub fn set_unwatched(&self) {
        *self.confirmed.lock() = None;
    }

    /// Adds the duration of a suspension of the machine, and ends the wait in
    /// [`WatchAge::outdated`].
    fn add_suspension(&self, duration: Duration) {
        if let Some(confirmed) = &mut *self.confirmed.lock() {
            // A list that started before this confirms nothing.
            let age = confirmed.age_now().saturating_add(duration);
            *confirmed = Confirmed { at: Instant::now(), age };
        }
        self.outdated.notify_one();
    }

    /// Waits until a suspension of the machine requires a relist. For one waiter.
    pub(crate) async fn outdated(&self) {
        self.outdated.notified().await;
    }
}

/// The ages of all watches.
#[derive(Debug, Default)]
pub struct WatchAges {
    /// With the name of the resource. There is a watch for each scope.
    watches: Mutex<Vec<(String, Arc<WatchAge>)>>,
}

impl WatchAges {
    pub(crate) fn add(&self, resource: String, watch: Arc<WatchAge>) {
        self.watches.lock().push((resource, watch));
    }

    /// The age of each watched resource: that of its oldest watch, if there is one per namespace.
    pub fn by_resource(&self) -> BTreeMap<String, Duration> {
        let mut ages = BTreeMap::<String, Duration>::new();
        for (resource, watch) in &*self.watches.lock() {
            if let Some(age) = watch.age() {
                let oldest = ages.entry(resource.clone()).or_default();
                *oldest = age.max(*oldest);
            }
        }
        ages
    }

    /// Adds the duration of a suspension of the machine to all ages. The informers relist.
    pub fn add_suspension(&self, duration: Duration) {
        for (_, watch) in &*self.watches.lock() {
            watch.add_suspension(duration);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn age_counts_from_the_last_confirmation() {
        let watch = WatchAge::default();
        advance(3 * SECOND).await;
        assert_eq!(watch.age(), Some(3 * SECOND));
        let list_started = Instant::now();
        advance(2 * SECOND).await;
        watch.confirm(list_started);
        assert_eq!(watch.age(), Some(2 * SECOND));
        watch.confirm(Instant::now());
        watch.confirm(list_started);
        assert_eq!(watch.age(), Some(Duration::ZERO), "an earlier confirmation has no effect");
        watch.set_unwatched();
        assert_eq!(watch.age(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn suspension_counts_until_a_later_confirmation() {
        let watch = Arc::new(WatchAge::default());
        let ages = WatchAges::default();
        ages.add("pods".to_owned(), watch.clone());
        let before = Instant::now();
        advance(2 * SECOND).await;
        ages.add_suspension(100 * SECOND);
        advance(SECOND).await;
        watch.confirm(before);
        assert!(watch.age() >= Some(101 * SECOND), "{:?}", watch.age());
        watch.confirm(Instant::now());
        assert_eq!(watch.age(), Some(Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn resource_is_as_old_as_its_oldest_watch() {
        let ages = WatchAges::default();
        let (old, fresh, unwatched) =
            (Arc::<WatchAge>::default(), Arc::<WatchAge>::default(), Arc::<WatchAge>::default());
        for watch in [&old, &fresh] {
            ages.add("pods".to_owned(), watch.clone());
        }
        ages.add("deployments.apps".to_owned(), unwatched.clone());
        unwatched.set_unwatched();
        advance(5 * SECOND).await;
        fresh.confirm(Instant::now());
        assert_eq!(ages.by_resource(), BTreeMap::from([("pods".to_owned(), 5 * SECOND)]));
    }
}
