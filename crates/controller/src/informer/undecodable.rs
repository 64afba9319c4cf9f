//! Distinguishes objects that are stored undecodable from objects that were damaged in transit.

use std::collections::HashMap;

use crate::k8s::PartialObject;

/// An object that is undecodable in this many consecutive lists counts as stored undecodable:
/// another relist would not help. The interval between the lists grows, so with the default sync
/// period, damage in transit would have to last for about 50 s.
const CONFIRMING_LISTS: u32 = 4;

/// The identity of an object, from its metadata. Missing fields are empty.
#[derive(Clone, Debug, Default)]
pub(super) struct ObjectId {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) resource_version: String,
}

impl From<&PartialObject> for ObjectId {
    fn from(object: &PartialObject) -> Self {
        Self {
            namespace: object.namespace().to_owned(),
            name: object.name().to_owned(),
            uid: object.uid().to_owned(),
            resource_version: object.resource_version().to_owned(),
        }
    }
}

/// The undecodable objects of the last list and of later events, by UID.
#[derive(Debug, Default)]
pub(super) struct UndecodableObjects {
    known: HashMap<String, UndecodableVersion>,
    /// The undecodable objects of a list in progress.
    list: Vec<ObjectId>,
}

#[derive(Debug)]
struct UndecodableVersion {
    resource_version: String,
    /// The number of consecutive lists that had the object in this version.
    list_count: u32,
}

impl UndecodableObjects {
    pub(super) fn begin_list(&mut self) {
        self.list.clear();
    }

    pub(super) fn list_add(&mut self, id: ObjectId) {
        self.list.push(id);
    }

    /// Replaces the known objects with those of the list. Returns whether a relist may help.
    pub(super) fn finish_list(&mut self) -> bool {
        let mut previous = std::mem::take(&mut self.known);
        let mut needs_relist = false;
        for ObjectId { uid, resource_version, .. } in self.list.drain(..) {
            let seen = previous.remove(&uid);
            let seen = seen.filter(|seen| seen.resource_version == resource_version);
            let list_count = seen.map_or(0, |seen| seen.list_count) + 1;
            // Objects without a UID can't be told apart: each list may have another one.
            needs_relist |= uid.is_empty() || list_count < CONFIRMING_LISTS;
            self.known.insert(uid, UndecodableVersion { resource_version, list_count });
        }
        needs_relist
    }

    /// Adds an object of a watch event. Returns whether a relist may help.
    pub(super) fn add(&mut self, id: ObjectId) -> bool {
        let ObjectId { uid, resource_version, .. } = id;
        if let Some(seen) = self.known.get(&uid)
            && seen.resource_version == resource_version
        {
            return uid.is_empty() || seen.list_count < CONFIRMING_LISTS;
        }
        self.known.insert(uid, UndecodableVersion { resource_version, list_count: 0 });
        true
    }

    /// Removes an object that was decoded or deleted.
    pub(super) fn remove(&mut self, uid: &str) {
        self.known.remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(uid: &str, version: &str) -> ObjectId {
        let (uid, resource_version) = (uid.to_owned(), version.to_owned());
        ObjectId { uid, resource_version, ..ObjectId::default() }
    }

    /// Whether each of these lists needs a relist. A list has at most one undecodable object.
    fn lists_need_relist(
        known: &mut UndecodableObjects,
        lists: &[Option<(&str, &str)>],
    ) -> Vec<bool> {
        let needs_relist = |undecodable: &Option<(&str, &str)>| {
            known.begin_list();
            if let Some((uid, version)) = undecodable {
                known.list_add(id(uid, version));
            }
            known.finish_list()
        };
        lists.iter().map(needs_relist).collect()
    }

    #[test]
    fn object_that_stays_undecodable_needs_no_further_relist() {
        let mut known = UndecodableObjects::default();
        assert_eq!(
            lists_need_relist(&mut known, &[Some(("a", "1")); 5]),
            [true, true, true, false, false]
        );
        assert!(!known.add(id("a", "1")));
        assert!(known.add(id("a", "2")));
        assert_eq!(lists_need_relist(&mut known, &[Some(("a", "2"))]), [true]);
    }

    #[test]
    fn object_needs_a_relist_again_after_a_list_without_it() {
        let mut known = UndecodableObjects::default();
        lists_need_relist(&mut known, &[Some(("a", "1")); 4]);
        assert_eq!(lists_need_relist(&mut known, &[None, Some(("a", "1"))]), [false, true]);
    }

    #[test]
    fn decoded_object_is_forgotten() {
        let mut known = UndecodableObjects::default();
        lists_need_relist(&mut known, &[Some(("a", "1")); 4]);
        known.remove("a");
        assert!(known.add(id("a", "1")));
    }

    #[test]
    fn object_without_uid_needs_a_relist_after_each_list() {
        let mut known = UndecodableObjects::default();
        assert_eq!(lists_need_relist(&mut known, &[Some(("", "")); 6]), [true; 6]);
        assert!(known.add(id("", "")));
    }

    #[test]
    fn list_that_failed_midway_does_not_count() {
        let mut known = UndecodableObjects::default();
        for _ in 0..9 {
            known.begin_list();
            known.list_add(id("a", "1"));
        }
        assert!(known.finish_list());
    }
}
