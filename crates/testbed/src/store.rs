//! The objects, one counter of versions, and for each resource a bounded log of changes.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use serde_json::Value;
use tokio::sync::watch;

use crate::json;

/// An object as it is stored; a reader keeps its own hold on it.
pub(crate) type Object = Arc<Value>;

/// Namespace (empty for cluster scope) and name.
pub(crate) type Id = (String, String);

/// Group and plural.
pub(crate) type Key = (String, String);

/// One change of one object.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) revision: u64,
    pub(crate) id: Id,
    pub(crate) old: Option<Object>,
    /// None if the object was removed.
    pub(crate) new: Option<Object>,
}

/// Is told of every change of an object when it is stored, whoever made it. The server is locked meanwhile: it must
/// neither wait nor ask the server anything.
pub trait ChangeListener: Send + Sync {
    /// An object is stored (`new`) in place of another (`old`), or removed.
    fn changed(&self, resource: &ResourceName<'_>, old: Option<&Value>, new: Option<&Value>);
}

/// Names a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceName<'a> {
    /// The API group, empty for the core one.
    pub group: &'a str,
    /// The plural name.
    pub plural: &'a str,
}

/// The requested version lies before what the log still holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too old resource version: {asked} ({oldest})")]
pub(crate) struct Compacted {
    asked: u64,
    oldest: u64,
}

/// The objects of one resource.
#[derive(Debug)]
pub(crate) struct Collection {
    objects: BTreeMap<Id, Object>,
    log: VecDeque<Change>,
    /// Changes up to this version are no longer in the log.
    compacted: u64,
    latest: watch::Sender<u64>,
    /// What was last listed in pages, so that not all is copied for each of them.
    paged: Option<Listed>,
}

/// All objects as they were at a version.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    pub(crate) revision: u64,
    pub(crate) objects: Arc<BTreeMap<Id, Object>>,
}

impl Collection {
    fn new(revision: u64, compacted: u64) -> Self {
        let latest = watch::Sender::new(revision);
        Self { objects: BTreeMap::new(), log: VecDeque::new(), compacted, latest, paged: None }
    }

    /// All objects now.
    pub(crate) fn objects(&self) -> &BTreeMap<Id, Object> {
        &self.objects
    }

    /// All objects as they were at a version.
    pub(crate) fn objects_at(&self, revision: u64) -> Result<BTreeMap<Id, Object>, Compacted> {
        self.check(revision)?;
        let mut objects = self.objects.clone();
        for change in self.log.iter().rev().take_while(|change| change.revision > revision) {
            match &change.old {
                Some(old) => objects.insert(change.id.clone(), Arc::clone(old)),
                None => objects.remove(&change.id),
            };
        }
        Ok(objects)
    }

    /// The same, with the version.
    pub(crate) fn snapshot_at(&self, revision: u64) -> Result<Listed, Compacted> {
        Ok(Listed { revision, objects: Arc::new(self.objects_at(revision)?) })
    }

    /// The same, for a list in pages: it is kept for the pages to come.
    pub(crate) fn page_at(&mut self, revision: u64) -> Result<Listed, Compacted> {
        self.check(revision)?;
        if let Some(paged) = self.paged.as_ref().filter(|paged| paged.revision == revision) {
            return Ok(paged.clone());
        }
        let paged = self.snapshot_at(revision)?;
        self.paged = Some(paged.clone());
        Ok(paged)
    }

    /// The oldest version whose objects are still known.
    pub(crate) fn oldest(&self) -> u64 {
        self.compacted
    }

    /// The changes after a version.
    pub(crate) fn changes_after(&self, revision: u64) -> Result<Vec<Change>, Compacted> {
        self.check(revision)?;
        let from = self.log.partition_point(|change| change.revision <= revision);
        Ok(self.log.range(from..).cloned().collect())
    }

    /// Tells of every change to come.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.latest.subscribe()
    }

    fn check(&self, revision: u64) -> Result<(), Compacted> {
        if revision < self.compacted {
            return Err(Compacted { asked: revision, oldest: self.compacted });
        }
        Ok(())
    }

    fn record(&mut self, change: Change, limit: usize) {
        let revision = change.revision;
        self.log.push_back(change);
        while self.log.len() > limit {
            self.compacted = self.log.pop_front().map_or(self.compacted, |gone| gone.revision);
        }
        self.latest.send_replace(revision);
    }
}

/// All objects of the server.
pub(crate) struct Store {
    listener: Option<Arc<dyn ChangeListener>>,
    revision: u64,
    log_limit: usize,
    /// Changes up to this version were forgotten in all collections.
    compacted: u64,
    collections: BTreeMap<Key, Collection>,
}

impl Store {
    pub(crate) fn new(log_limit: usize, listener: Option<Arc<dyn ChangeListener>>) -> Self {
        Self { listener, revision: 1, log_limit, compacted: 0, collections: BTreeMap::new() }
    }

    /// The version of the last change.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// The objects of a resource.
    pub(crate) fn collection(&mut self, key: &Key) -> &mut Collection {
        let (revision, compacted) = (self.revision, self.compacted);
        self.collections.entry(key.clone()).or_insert_with(|| Collection::new(revision, compacted))
    }

    /// One object.
    pub(crate) fn get(&self, key: &Key, id: &Id) -> Option<&Object> {
        self.collections.get(key)?.objects.get(id)
    }

    /// Stores an object under the next version.
    pub(crate) fn put(&mut self, key: &Key, id: Id, mut object: Value) -> Object {
        self.revision += 1;
        let (revision, limit) = (self.revision, self.log_limit);
        json::set(&mut object, &["metadata", "resourceVersion"], revision.to_string());
        let object = Arc::new(object);
        let old = self.collection(key).objects.insert(id.clone(), Arc::clone(&object));
        self.tell(key, old.as_deref(), Some(&object));
        let collection = self.collection(key);
        collection.record(Change { revision, id, old, new: Some(Arc::clone(&object)) }, limit);
        object
    }

    /// Removes an object; the answer is its last state, with the version of the removal.
    pub(crate) fn remove(&mut self, key: &Key, id: &Id) -> Option<Object> {
        let old = self.collections.get_mut(key)?.objects.remove(id)?;
        self.revision += 1;
        let (revision, limit) = (self.revision, self.log_limit);
        self.tell(key, Some(&old), None);
        let change = Change { revision, id: id.clone(), old: Some(Arc::clone(&old)), new: None };
        self.collection(key).record(change, limit);
        Some(at_version(&old, revision))
    }

    fn tell(&self, (group, plural): &Key, old: Option<&Value>, new: Option<&Value>) {
        if let Some(listener) = &self.listener {
            listener.changed(&ResourceName { group, plural }, old, new);
        }
    }

    /// All objects of one namespace.
    pub(crate) fn in_namespace(&self, namespace: &str) -> Vec<(Key, Id)> {
        let of = |(key, collection): (&Key, &Collection)| {
            let ids = collection.objects.keys().filter(|(own, _)| own == namespace);
            ids.map(|id| (key.clone(), id.clone())).collect::<Vec<_>>()
        };
        self.collections.iter().flat_map(of).collect()
    }

    /// Forgets all changes up to now.
    pub(crate) fn compact(&mut self) {
        let revision = self.revision;
        self.compacted = revision;
        for collection in self.collections.values_mut() {
            collection.log.clear();
            collection.compacted = revision;
        }
    }

    /// All objects.
    pub(crate) fn all(&self) -> BTreeMap<Key, BTreeMap<Id, Object>> {
        let of = |(key, collection): (&Key, &Collection)| (key.clone(), collection.objects.clone());
        self.collections.iter().map(of).collect()
    }

    /// Makes these all objects, under the next version; no watch gets from the versions before to those after.
    pub(crate) fn restore(&mut self, objects: BTreeMap<Key, BTreeMap<Id, Object>>) {
        self.revision += 1;
        for collection in self.collections.values_mut() {
            collection.objects.clear();
        }
        for (key, objects) in objects {
            for object in objects.values() {
                self.tell(&key, None, Some(object));
            }
            self.collection(&key).objects = objects;
        }
        self.compact();
    }
}

/// The object with another resource version.
pub(crate) fn at_version(object: &Value, revision: u64) -> Object {
    let mut object = object.clone();
    json::set(&mut object, &["metadata", "resourceVersion"], revision.to_string());
    Arc::new(object)
}
