//! Servers that stop and come back, with the state they had or another.

use std::collections::BTreeMap;

use tokio::{sync::watch, time::Instant};

use crate::{
    registry::Registry,
    store::{Id, Key, Object},
};

/// All objects of a server at a moment. It is cheap: it shares the objects with the server.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(crate) registry: Registry,
    pub(crate) objects: BTreeMap<Key, BTreeMap<Id, Object>>,
}

/// The state with which a server comes back.
#[derive(Clone, Debug)]
pub enum Restart {
    /// The one it had. A watch goes on from the last version; the changes before are forgotten, as the watch cache of
    /// a new kube-apiserver does not have them.
    Same,
    /// An earlier one, as after `etcdutl snapshot restore --bump-revision --mark-compacted`, the way to restore under
    /// clients that run: versions go on above the highest that was ever given, and all before count as compacted.
    /// Every watch gets 410 and its client lists anew.
    Older(Snapshot),
    /// None: only the namespaces that every cluster has. Of versions the same holds as for an older state.
    Fresh,
}

/// Whether the server takes requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Up {
    Always,
    From(Instant),
    Never,
}

/// When the server runs.
#[derive(Debug)]
pub(crate) struct Lifecycle {
    pub(crate) up: watch::Sender<Up>,
}

impl Lifecycle {
    pub(crate) fn new() -> Self {
        Self { up: watch::Sender::new(Up::Always) }
    }

    pub(crate) fn is_down(&self) -> bool {
        match *self.up.borrow() {
            Up::Always => false,
            Up::From(time) => Instant::now() < time,
            Up::Never => true,
        }
    }

    /// Tells of the next time that the server stops.
    pub(crate) fn stops(&self) -> watch::Receiver<Up> {
        self.up.subscribe()
    }
}
