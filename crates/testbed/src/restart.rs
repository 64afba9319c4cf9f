//! Stopping and starting the server, with the previous state or another one.

use std::collections::BTreeMap;

use tokio::{sync::watch, time::Instant};

use crate::{
    registry::Registry,
    store::{Object, ObjectId, ResourceKey},
};

/// All objects of a server at one time. Taking a snapshot is cheap: it shares the objects.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(crate) registry: Registry,
    pub(crate) objects: BTreeMap<ResourceKey, BTreeMap<ObjectId, Object>>,
    /// The resource version of the last change.
    pub(crate) revision: u64,
}

/// The state that a server starts with.
#[derive(Clone, Debug)]
pub enum Restart {
    /// The state before the stop. Watches can resume from the last resource version only: like a
    /// new kube-apiserver, the server starts with an empty watch cache.
    Same,
    /// An earlier state, as after `etcdutl snapshot restore --bump-revision --mark-compacted`,
    /// which is how to restore under running clients: resource versions continue above the highest
    /// one ever used, and all earlier ones count as compacted. Every watch gets 410 and its client
    /// relists.
    Older(Snapshot),
    /// An earlier state, as after `etcdutl snapshot restore` without `--bump-revision`: resource
    /// versions that were used since the snapshot are used again, for other objects. A watch at one
    /// of them gets no events, not even bookmarks, until later resource versions are in use.
    Rewound(Snapshot),
    /// An empty state, with the default namespaces only. Resource versions continue as for
    /// [`Restart::Older`].
    Fresh,
}

/// Whether the server accepts requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Availability {
    Up,
    UpFrom(Instant),
    Down,
}

/// Tracks whether the server is up.
#[derive(Debug)]
pub(crate) struct Lifecycle {
    pub(crate) availability: watch::Sender<Availability>,
}

impl Lifecycle {
    pub(crate) fn new() -> Self {
        Self { availability: watch::Sender::new(Availability::Up) }
    }

    pub(crate) fn is_down(&self) -> bool {
        match *self.availability.borrow() {
            Availability::Up => false,
            Availability::UpFrom(time) => Instant::now() < time,
            Availability::Down => true,
        }
    }

    /// Notifies about the next stop.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Availability> {
        self.availability.subscribe()
    }
}
