//! The server: its availability, and restarts with another state.

use std::{collections::BTreeMap, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use serde_json::json;
use tokio::{sync::watch, time::Instant};

use crate::{
    clock::format_time,
    config::Config,
    objects::create,
    registry::Registry,
    request::ApiRequest,
    request_target::RequestTarget,
    store::{Objects, Store},
};

/// The stored objects and the served resources.
pub(crate) struct State {
    pub(crate) registry: Registry,
    pub(crate) store: Store,
}

pub(crate) struct Server {
    pub(crate) config: Config,
    pub(crate) state: Mutex<State>,
    /// A new value ends all running watches.
    pub(crate) watches_ended: watch::Sender<u64>,
    /// Changes with each stop and start.
    availability: watch::Sender<Availability>,
}

impl Server {
    /// A server with the namespaces `default` and `kube-system`, and no other objects.
    pub(crate) fn new(config: Config) -> Self {
        let registry = Registry::new();
        let store = Store::new(config.watch_cache_size, config.listener.clone());
        let state = Mutex::new(State { registry, store });
        let watches_ended = watch::Sender::new(0);
        let availability = watch::Sender::new(Availability::Up);
        let server = Self { config, state, watches_ended, availability };
        server.create_namespaces();
        server
    }

    fn create_namespaces(&self) {
        let mut state = self.state_without_client();
        let Some(resource) = state.registry.find("", "v1", "namespaces").cloned() else { return };
        let (version, namespace) = ("v1".to_owned(), String::new());
        let target = RequestTarget { resource, version, namespace, name: String::new() };
        for name in ["default", "kube-system"] {
            let body = json!({ "metadata": { "name": name } });
            // Can't fail: the namespace is valid and doesn't exist yet.
            let _ = create(&mut state, &self.config, &target, body, false);
        }
    }

    /// Locks the state for changes, which are attributed to the client of the request.
    pub(crate) fn state_for(&self, request: &ApiRequest) -> MutexGuard<'_, State> {
        let mut state = self.state_without_client();
        state.store.set_client(Some(&request.info.client));
        state
    }

    /// Locks the state for changes without a client.
    pub(crate) fn state_without_client(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        state.store.set_client(None);
        state
    }

    /// The current time in the format of the API.
    pub(crate) fn now(&self) -> String {
        format_time((self.config.clock)())
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let state = self.state.lock();
        Snapshot {
            registry: state.registry.clone(),
            objects: state.store.snapshot(),
            revision: state.store.revision(),
        }
    }

    /// Rejects new requests, ends watches, and aborts requests that a fault or a gate delays.
    pub(crate) fn stop(&self) {
        self.availability.send_replace(Availability::Down);
        self.end_watches();
    }

    pub(crate) fn end_watches(&self) {
        self.watches_ended.send_modify(|count| *count += 1);
    }

    /// Stops the server, sets its state, and accepts requests again after a delay.
    pub(crate) fn restart(&self, state: Restart, down_for: Duration) {
        self.stop();
        match state {
            Restart::Same => self.state.lock().store.compact(),
            Restart::Older(snapshot) => self.restore(snapshot.registry, snapshot.objects, None),
            Restart::Rewound(Snapshot { registry, objects, revision }) => {
                self.restore(registry, objects, Some(revision));
            }
            Restart::Fresh => {
                self.restore(Registry::new(), BTreeMap::new(), None);
                self.create_namespaces();
            }
        }
        // A watch may have started between the stop and the change of the state.
        self.end_watches();
        let up = if down_for.is_zero() {
            Availability::Up
        } else {
            Availability::UpFrom(Instant::now() + down_for)
        };
        self.availability.send_replace(up);
    }

    /// Replaces all resources and objects. `revision` is the resource version to continue from, by
    /// default the next one.
    fn restore(&self, registry: Registry, objects: Objects, revision: Option<u64>) {
        let mut state = self.state_without_client();
        state.registry = registry;
        let revision = revision.unwrap_or(state.store.revision() + 1);
        state.store.replace(objects, revision);
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

/// All resources and objects of a server at one time. The objects are shared, not copied.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(crate) registry: Registry,
    pub(crate) objects: Objects,
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
