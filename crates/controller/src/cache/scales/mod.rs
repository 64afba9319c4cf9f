//! The cached scales of one kind in one scope.

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use hashbrown::{HashMap, HashSet};
use parking_lot::RwLock;
use tokio::{sync::Notify, time::Instant};

use crate::{
    cache::{StrPair, is_newer, watch_age::WatchAge},
    scale_target::ScaleObject,
};

/// Scales by namespace and name. Reads return nothing until the cache is synced, from a failure of
/// the watch until the relist, and while the age of the cache is too high or unknown.
pub(crate) struct ScaleCache {
    state: RwLock<State>,
    max_age: Duration,
    watch_age: Arc<WatchAge>,
    contradicted: Notify,
}

#[derive(Default)]
struct State {
    /// The start of the last complete list. `None` before, and after an event was missed.
    listed_at: Option<Instant>,
    scales: HashMap<NamespacedName, ScaleObject>,
    list: Option<ListInProgress>,
}

struct ListInProgress {
    started: Instant,
    scales: HashMap<NamespacedName, ScaleObject>,
    /// The names of scales that responses have updated since the list started. These scales may be
    /// newer than the list.
    updated_by_response: HashSet<NamespacedName>,
}

/// The namespace and the name of an object.
type NamespacedName = (Box<str>, Box<str>);

/// Whether two scales differ although they are of the same version of an object. One of them is
/// then wrong, for example because it was derived with outdated paths.
fn are_contradictory(one: &ScaleObject, other: &ScaleObject) -> bool {
    !one.resource_version.is_empty()
        && one.resource_version == other.resource_version
        && one != other
}

impl ScaleCache {
    /// An empty cache, which is not read if its watch last confirmed it longer than `max_age` ago.
    pub(crate) fn new(max_age: Duration) -> Self {
        Self {
            state: RwLock::default(),
            max_age,
            watch_age: Arc::default(),
            contradicted: Notify::new(),
        }
    }

    /// The time since the watch last confirmed the cache.
    pub(crate) fn watch_age(&self) -> &Arc<WatchAge> {
        &self.watch_age
    }

    /// Waits until a response and the watch deliver different scales of the same version of an
    /// object. Returns at once if that happened since the last call.
    pub(crate) async fn contradicted(&self) {
        self.contradicted.notified().await;
    }

    /// The cached scale. `None` also if the last complete list did not start after `listed_after`,
    /// because an older list may lack changes from before that time.
    pub(crate) fn get(
        &self,
        namespace: &str,
        name: &str,
        listed_after: Option<Instant>,
    ) -> Option<ScaleObject> {
        let state = self.state.read();
        let listed_at = state.listed_at?;
        if listed_after.is_some_and(|after| listed_at <= after)
            || self.watch_age.age().is_none_or(|age| age > self.max_age)
        {
            return None;
        }
        state.scales.get(&StrPair(namespace, name)).cloned()
    }

    /// Stores the API server's response to a read or write, if it is newer than the cached scale.
    /// If no scale is cached, nothing is stored: the object may have been deleted since the
    /// response. A cached scale that the response contradicts is removed.
    pub(crate) fn observe_response(&self, namespace: &str, name: &str, scale: &ScaleObject) {
        let mut state = self.state.write();
        let key = StrPair(namespace, name);
        let Some(cached) = state.scales.get_mut(&key) else { return };
        if are_contradictory(cached, scale) {
            state.scales.remove(&key);
            self.contradicted.notify_one();
            return;
        }
        if !is_newer(&scale.resource_version, &cached.resource_version) {
            return;
        }
        *cached = scale.clone();
        if let Some(list) = &mut state.list {
            list.updated_by_response.insert((namespace.into(), name.into()));
        }
    }

    /// Stores a scale from a watch event, unless a response already delivered a newer one. A cached
    /// scale that the event contradicts is removed.
    pub(crate) fn apply(&self, namespace: &str, name: &str, scale: &ScaleObject) {
        let mut state = self.state.write();
        let key = StrPair(namespace, name);
        match state.scales.get_mut(&key) {
            Some(cached) if is_newer(&cached.resource_version, &scale.resource_version) => {}
            Some(cached) if are_contradictory(cached, scale) => {
                state.scales.remove(&key);
                self.contradicted.notify_one();
            }
            Some(cached) => *cached = scale.clone(),
            None => _ = state.scales.insert((namespace.into(), name.into()), scale.clone()),
        }
    }

    /// Removes an object that was deleted at this version, or whose scale can no longer be derived,
    /// unless a newer version is cached.
    pub(crate) fn delete(&self, namespace: &str, name: &str, resource_version: &str) {
        let scales = &mut self.state.write().scales;
        let key = StrPair(namespace, name);
        let cached = scales.get(&key);
        if cached.is_some_and(|cached| !is_newer(&cached.resource_version, resource_version)) {
            scales.remove(&key);
        }
    }

    /// Call this when the watch has failed: events may be missed until the next list is complete.
    pub(crate) fn invalidate(&self) {
        self.state.write().listed_at = None;
    }

    /// Call this before the list is requested. Discards a list that did not finish.
    pub(crate) fn begin_list(&self) {
        self.state.write().list = Some(ListInProgress {
            started: Instant::now(),
            scales: HashMap::new(),
            updated_by_response: HashSet::new(),
        });
    }

    /// Adds a scale of the list.
    pub(crate) fn list_apply(&self, namespace: &str, name: &str, scale: &ScaleObject) {
        if let Some(list) = &mut self.state.write().list {
            list.scales.insert((namespace.into(), name.into()), scale.clone());
        }
    }

    /// Replaces the cache with the list, even where a cached scale has a higher resource version:
    /// the API server's storage may have been restored. Only a newer scale from a response that
    /// arrived during the list stays.
    pub(crate) fn finish_list(&self) {
        let mut state = self.state.write();
        let Some(ListInProgress { started, scales, updated_by_response }) = state.list.take()
        else {
            return;
        };
        let previous = std::mem::replace(&mut state.scales, scales);
        let updated = previous.into_iter().filter(|(name, _)| updated_by_response.contains(name));
        for (name, cached) in updated {
            if let Some(listed) = state.scales.get_mut(&name)
                && is_newer(&cached.resource_version, &listed.resource_version)
            {
                *listed = cached;
            }
        }
        state.listed_at = Some(started);
    }
}
