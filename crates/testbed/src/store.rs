//! Stores all objects, with one counter of resource versions, and a bounded watch cache for each
//! resource.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use serde_json::Value;
use tokio::sync::watch;

use crate::{error::ApiError, json_fields};

/// A stored object, shared with readers.
pub(crate) type Object = Arc<Value>;

/// Namespace (empty if cluster-scoped) and name.
pub(crate) type ObjectId = (String, String);

/// Group and plural name.
pub(crate) type ResourceKey = (String, String);

/// All objects of a server, by resource and identity.
pub(crate) type Objects = BTreeMap<ResourceKey, BTreeMap<ObjectId, Object>>;

/// A change of an object in the watch cache.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) revision: u64,
    pub(crate) id: ObjectId,
    pub(crate) old: Option<Object>,
    /// `None` if the object was deleted.
    pub(crate) new: Option<Object>,
}

/// Called for every change of an object. If the server restarts with another state, the listener is
/// called for each object of that state as if it was created, and not for removed objects.
///
/// The server is locked during the call: the listener must neither block nor call the server.
pub trait ChangeListener: Send + Sync {
    fn on_change(&self, change: &ObjectChange<'_>);
}

/// An object was created (no `old`), updated, or deleted (no `new`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ObjectChange<'a> {
    pub resource: GroupResource<'a>,
    /// The client of the request: see [`RequestInfo::client`](crate::RequestInfo::client). `None`
    /// for changes without a request.
    pub client: Option<&'a str>,
    pub old: Option<&'a Value>,
    pub new: Option<&'a Value>,
}

/// The resource of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupResource<'a> {
    /// Empty for the core group.
    pub group: &'a str,
    pub plural: &'a str,
}

/// The objects and the watch cache of one resource.
#[derive(Debug)]
pub(crate) struct Collection {
    objects: BTreeMap<ObjectId, Object>,
    /// The watch cache, oldest change first.
    changes: VecDeque<Change>,
    /// Changes up to this resource version are no longer in `changes`. The objects at this version
    /// are the oldest ones that are available.
    pub(crate) compacted: u64,
    /// The resource version of the last change.
    latest: watch::Sender<u64>,
    /// The last paginated list. Its pages share the objects.
    paged: Option<ListSnapshot>,
}

/// All objects at one resource version.
#[derive(Clone, Debug)]
pub(crate) struct ListSnapshot {
    pub(crate) revision: u64,
    pub(crate) objects: Arc<BTreeMap<ObjectId, Object>>,
}

impl Collection {
    fn new(revision: u64, compacted: u64) -> Self {
        let latest = watch::Sender::new(revision);
        Self { objects: BTreeMap::new(), changes: VecDeque::new(), compacted, latest, paged: None }
    }

    /// The current objects.
    pub(crate) fn objects(&self) -> &BTreeMap<ObjectId, Object> {
        &self.objects
    }

    /// The objects at a resource version.
    pub(crate) fn list_at(&self, revision: u64) -> Result<ListSnapshot, ApiError> {
        self.ensure_available(revision)?;
        let mut objects = self.objects.clone();
        for change in self.changes.iter().rev().take_while(|change| change.revision > revision) {
            match &change.old {
                Some(old) => objects.insert(change.id.clone(), Arc::clone(old)),
                None => objects.remove(&change.id),
            };
        }
        Ok(ListSnapshot { revision, objects: Arc::new(objects) })
    }

    /// Like [`Self::list_at`], and caches the list for the following pages.
    pub(crate) fn page_at(&mut self, revision: u64) -> Result<ListSnapshot, ApiError> {
        self.ensure_available(revision)?;
        if let Some(paged) = self.paged.as_ref().filter(|paged| paged.revision == revision) {
            return Ok(paged.clone());
        }
        let paged = self.list_at(revision)?;
        self.paged = Some(paged.clone());
        Ok(paged)
    }

    /// The changes after a resource version.
    pub(crate) fn changes_after(&self, revision: u64) -> Result<Vec<Change>, ApiError> {
        self.ensure_available(revision)?;
        let from = self.changes.partition_point(|change| change.revision <= revision);
        Ok(self.changes.range(from..).cloned().collect())
    }

    /// A receiver of the resource version of the last change.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.latest.subscribe()
    }

    /// Fails with 410 `Expired` if the resource version is no longer in the watch cache.
    fn ensure_available(&self, requested: u64) -> Result<(), ApiError> {
        let oldest = self.compacted;
        if requested >= oldest {
            return Ok(());
        }
        Err(ApiError::expired(format!("too old resource version: {requested} ({oldest})")))
    }

    fn record(&mut self, change: Change, limit: usize) {
        let revision = change.revision;
        self.changes.push_back(change);
        while self.changes.len() > limit {
            let removed = self.changes.pop_front();
            self.compacted = removed.map_or(self.compacted, |removed| removed.revision);
        }
        self.latest.send_replace(revision);
    }
}

/// The objects of all resources.
pub(crate) struct Store {
    listener: Option<Arc<dyn ChangeListener>>,
    /// The client whose request is handled. `None` outside of requests.
    client: Option<String>,
    revision: u64,
    watch_cache_size: usize,
    /// Changes up to this resource version are compacted in all collections.
    compacted: u64,
    collections: BTreeMap<ResourceKey, Collection>,
}

impl Store {
    pub(crate) fn new(watch_cache_size: usize, listener: Option<Arc<dyn ChangeListener>>) -> Self {
        Self {
            listener,
            client: None,
            revision: 1,
            watch_cache_size,
            compacted: 0,
            collections: BTreeMap::new(),
        }
    }

    /// Attributes the changes from now on to a client, for the listener.
    pub(crate) fn set_client(&mut self, client: Option<&str>) {
        self.client = client.map(str::to_owned);
    }

    /// The resource version of the last change.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    pub(crate) fn collection(&mut self, key: &ResourceKey) -> &mut Collection {
        let (revision, compacted) = (self.revision, self.compacted);
        self.collections.entry(key.clone()).or_insert_with(|| Collection::new(revision, compacted))
    }

    pub(crate) fn get(&self, key: &ResourceKey, id: &ObjectId) -> Option<&Object> {
        self.collections.get(key)?.objects.get(id)
    }

    /// Stores an object with the next resource version.
    pub(crate) fn put(&mut self, key: &ResourceKey, id: ObjectId, mut object: Value) -> Object {
        self.revision += 1;
        let (revision, limit) = (self.revision, self.watch_cache_size);
        json_fields::set(&mut object, &["metadata", "resourceVersion"], revision.to_string());
        let object = Arc::new(object);
        let old = self.collection(key).objects.insert(id.clone(), Arc::clone(&object));
        self.notify(key, old.as_deref(), Some(&object));
        let collection = self.collection(key);
        collection.record(Change { revision, id, old, new: Some(Arc::clone(&object)) }, limit);
        object
    }

    /// Deletes an object. Returns its last state, with the resource version of the deletion.
    pub(crate) fn remove(&mut self, key: &ResourceKey, id: &ObjectId) -> Option<Object> {
        let old = self.collections.get_mut(key)?.objects.remove(id)?;
        self.revision += 1;
        let (revision, limit) = (self.revision, self.watch_cache_size);
        self.notify(key, Some(&old), None);
        let change = Change { revision, id: id.clone(), old: Some(Arc::clone(&old)), new: None };
        self.collection(key).record(change, limit);
        Some(with_resource_version(&old, revision))
    }

    fn notify(&self, (group, plural): &ResourceKey, old: Option<&Value>, new: Option<&Value>) {
        if let Some(listener) = &self.listener {
            let resource = GroupResource { group, plural };
            let client = self.client.as_deref();
            listener.on_change(&ObjectChange { resource, client, old, new });
        }
    }

    pub(crate) fn ids_in_namespace(&self, namespace: &str) -> Vec<(ResourceKey, ObjectId)> {
        let entries = |(key, collection): (&ResourceKey, &Collection)| {
            let ids = collection.objects.keys().filter(|(parent, _)| parent == namespace);
            ids.map(|id| (key.clone(), id.clone())).collect::<Vec<_>>()
        };
        self.collections.iter().flat_map(entries).collect()
    }

    /// Removes all changes from the watch caches.
    pub(crate) fn compact(&mut self) {
        let revision = self.revision;
        self.compacted = revision;
        for collection in self.collections.values_mut() {
            collection.changes.clear();
            collection.compacted = revision;
        }
    }

    pub(crate) fn snapshot(&self) -> Objects {
        let entries = |(key, collection): (&ResourceKey, &Collection)| {
            (key.clone(), collection.objects.clone())
        };
        self.collections.iter().map(entries).collect()
    }

    /// Replaces all objects, and removes all changes from the watch caches. The server continues
    /// from this resource version, which may be an earlier one.
    pub(crate) fn replace(&mut self, objects: Objects, revision: u64) {
        self.revision = revision;
        for collection in self.collections.values_mut() {
            collection.objects.clear();
            collection.paged = None;
            collection.latest.send_replace(revision);
        }
        for (key, objects) in objects {
            for object in objects.values() {
                self.notify(&key, None, Some(object));
            }
            self.collection(&key).objects = objects;
        }
        self.compact();
    }
}

/// A copy of the object with another `resourceVersion`.
pub(crate) fn with_resource_version(object: &Value, revision: u64) -> Object {
    let mut object = object.clone();
    json_fields::set(&mut object, &["metadata", "resourceVersion"], revision.to_string());
    Arc::new(object)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Simulated controllers reconcile the restored objects only if the latest resource version of
    /// the collection has changed.
    #[test]
    fn replaced_collection_has_the_given_resource_version() {
        let mut store = Store::new(10, None);
        let key = (String::new(), "pods".to_owned());
        let id = ("shop".to_owned(), "web-0".to_owned());
        store.put(&key, id.clone(), json!({}));
        let (objects, revision) = (store.snapshot(), store.revision());
        store.put(&key, id, json!({}));
        store.replace(objects, revision);
        assert_eq!(*store.collection(&key).subscribe().borrow(), revision);
    }
}
