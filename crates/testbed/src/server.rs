//! The server: its availability, and restarts with another state.

use std::{collections::BTreeMap, time::Duration};

use parking_lot::Mutex;
use serde_json::json;
use tokio::{sync::watch, time::Instant};

use crate::{
    config::Config,
    names,
    objects::create,
    registry::Registry,
    request::ApiRequest,
    request_target::RequestTarget,
    state::{ClientState, State},
    store::{Object, ObjectId, ResourceKey, Store},
};

pub(crate) struct Server {
    pub(crate) config: Config,
    pub(crate) state: Mutex<State>,
    /// A new value ends all running watches.
    pub(crate) watches_ended: watch::Sender<u64>,
    pub(crate) lifecycle: Lifecycle,
}

impl Server {
    /// A server with the namespaces `default` and `kube-system`, and no other objects.
    pub(crate) fn new(config: Config) -> Self {
        let registry = Registry::new(config.hpa_generation);
        let store = Store::new(config.watch_cache_size, config.listener.clone());
        let state = Mutex::new(State { registry, store });
        let watches_ended = watch::Sender::new(0);
        let server = Self { config, state, watches_ended, lifecycle: Lifecycle::new() };
        server.create_namespaces();
        server
    }

    pub(crate) fn create_namespaces(&self) {
        for name in ["default", "kube-system"] {
            self.create_namespace(name);
        }
    }

    fn create_namespace(&self, name: &str) {
        let mut state = self.state.lock();
        let Some(resource) = state.registry.find("", "v1", "namespaces").cloned() else { return };
        let target = RequestTarget {
            resource,
            version: "v1".to_owned(),
            namespace: String::new(),
            name: String::new(),
        };
        let body = json!({ "metadata": { "name": name } });
        // Can't fail: the namespace is valid and doesn't exist yet.
        let _ = create(&mut state, &self.config, &target, body, false);
    }

    /// Locks the state. Changes are attributed to the client of the request.
    pub(crate) fn state_for(&self, request: &ApiRequest) -> ClientState<'_> {
        ClientState::new(self.state.lock(), &request.info.client)
    }

    /// The current time in the format of the API.
    pub(crate) fn now(&self) -> String {
        names::timestamp((self.config.clock)())
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let state = self.state.lock();
        Snapshot {
            registry: state.registry.clone(),
            objects: state.store.snapshot(),
            revision: state.store.revision(),
        }
    }

    /// Rejects new requests, ends watches, and aborts requests that a fault delays.
    pub(crate) fn stop(&self) {
        self.lifecycle.availability.send_replace(Availability::Down);
        self.end_watches();
    }

    /// Ends all running watches.
    pub(crate) fn end_watches(&self) {
        self.watches_ended.send_modify(|count| *count += 1);
    }

    /// Stops the server, sets its state, and accepts requests again after a delay.
    pub(crate) fn start(&self, state: Restart, after: Duration) {
        self.stop();
        match state {
            Restart::Same => self.state.lock().store.compact(),
            Restart::Older(snapshot) => {
                let mut state = self.state.lock();
                state.registry = snapshot.registry;
                state.store.restore(snapshot.objects);
            }
            Restart::Rewound(snapshot) => {
                let mut state = self.state.lock();
                state.registry = snapshot.registry;
                state.store.replace(snapshot.objects, snapshot.revision);
            }
            Restart::Fresh => {
                {
                    let mut state = self.state.lock();
                    state.registry = Registry::new(self.config.hpa_generation);
                    state.store.restore(BTreeMap::new());
                }
                self.create_namespaces();
            }
        }
        // A watch may have started between the stop and the change of the state.
        self.end_watches();
        let up = if after.is_zero() {
            Availability::Up
        } else {
            Availability::UpFrom(Instant::now() + after)
        };
        self.lifecycle.availability.send_replace(up);
    }
}

/// All resources and objects of a server at one time. The objects are shared, not copied.
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
    /// An earlier state, as after `etcdutl snapshot restore --bump-revision --mark-compacted`:
    /// resource versions continue above that of the last change, and all earlier ones are
    /// compacted. A watch from one of these gets 410, so its client relists.
    Older(Snapshot),
    /// An earlier state, as after `etcdutl snapshot restore` without `--bump-revision`: resource
    /// versions since the snapshot are reused for other objects. A watch from one of these gets no
    /// events or bookmarks until the server reaches that resource version again.
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

/// Stores whether the server is up, and notifies running requests of changes.
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

    /// Notifies of each stop and start.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Availability> {
        self.availability.subscribe()
    }
}
