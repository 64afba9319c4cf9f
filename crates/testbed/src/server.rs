//! The server as handlers see it: configuration, state and availability.

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
    restart::{Availability, Lifecycle, Restart, Snapshot},
    state::{ClientState, State},
    store::Store,
    target::Target,
};

pub(crate) struct Server {
    pub(crate) config: Config,
    pub(crate) state: Mutex<State>,
    /// A new value ends all running watches.
    pub(crate) watches_dropped: watch::Sender<u64>,
    pub(crate) lifecycle: Lifecycle,
}

impl Server {
    /// A server with the default namespaces only.
    pub(crate) fn new(config: Config) -> Self {
        let registry = Registry::new(config.hpa_generation);
        let store = Store::new(config.watch_cache_size, config.listener.clone());
        let state = Mutex::new(State { registry, store });
        let watches_dropped = watch::Sender::new(0);
        let server = Self { config, state, watches_dropped, lifecycle: Lifecycle::new() };
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
        let target = Target {
            resource,
            version: "v1".to_owned(),
            namespace: String::new(),
            name: String::new(),
        };
        let body = json!({ "metadata": { "name": name } });
        // Can't fail: the namespace is valid and doesn't exist yet.
        let _ = create(&mut state, &self.config, &target, body, false);
    }

    /// The state, for changes that a request makes.
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

    /// Rejects new requests, and aborts running requests and watches.
    pub(crate) fn stop(&self) {
        self.lifecycle.availability.send_replace(Availability::Down);
        self.drop_watches();
    }

    /// Ends all running watches.
    pub(crate) fn drop_watches(&self) {
        self.watches_dropped.send_modify(|count| *count += 1);
    }

    /// Accepts requests again after a delay, with this state.
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
        self.drop_watches();
        let up = if after.is_zero() {
            Availability::Up
        } else {
            Availability::UpFrom(Instant::now() + after)
        };
        self.lifecycle.availability.send_replace(up);
    }
}
