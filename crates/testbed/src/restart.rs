//! Servers that stop and come back, with the state they had or another.

use std::{collections::BTreeMap, time::Duration};

use tokio::{sync::watch, time::Instant};

use crate::{
    registry::Registry,
    server::Server,
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
    up: watch::Sender<Up>,
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

impl Server {
    pub(crate) fn snapshot(&self) -> Snapshot {
        let state = self.state.lock();
        Snapshot { registry: state.registry.clone(), objects: state.store.all() }
    }

    /// Takes no requests, and breaks those that run and the watches.
    pub(crate) fn stop(&self) {
        self.lifecycle.up.send_replace(Up::Never);
        self.drop_watches();
    }

    /// Ends all watches that run.
    pub(crate) fn drop_watches(&self) {
        self.watches_dropped.send_modify(|count| *count += 1);
    }

    /// Takes requests again, after a time, with this state.
    pub(crate) fn start(&self, state: Restart, after: Duration) {
        self.stop();
        match state {
            Restart::Same => self.state.lock().store.compact(),
            Restart::Older(snapshot) => {
                let mut state = self.state.lock();
                state.registry = snapshot.registry;
                state.store.restore(snapshot.objects);
            }
            Restart::Fresh => {
                {
                    let mut state = self.state.lock();
                    state.registry = Registry::new(self.config.autoscalers_count_generations);
                    state.store.restore(BTreeMap::new());
                }
                self.create_namespaces();
            }
        }
        // None may have begun between the stop and the change of the state.
        self.drop_watches();
        let up = if after.is_zero() { Up::Always } else { Up::From(Instant::now() + after) };
        self.lifecycle.up.send_replace(up);
    }
}
