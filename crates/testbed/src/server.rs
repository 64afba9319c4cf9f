//! What handlers share: the configuration, the state, and whether the server is up.

use std::{collections::BTreeMap, time::Duration};

use parking_lot::Mutex;
use serde_json::json;
use tokio::{sync::watch, time::Instant};

use crate::{
    config::Config,
    names,
    objects::create,
    registry::Registry,
    restart::{Lifecycle, Restart, Snapshot, Up},
    state::State,
    store::Store,
    target::Target,
};

/// The server.
pub(crate) struct Server {
    pub(crate) config: Config,
    pub(crate) state: Mutex<State>,
    /// A new value ends the watches that run.
    pub(crate) watches_dropped: watch::Sender<u64>,
    pub(crate) lifecycle: Lifecycle,
}

impl Server {
    /// A server with the namespaces that every cluster has.
    pub(crate) fn new(config: Config) -> Self {
        let registry = Registry::new(config.autoscalers_count_generations);
        let store = Store::new(config.log_limit, config.listener.clone());
        let state = Mutex::new(State { registry, store });
        let watches_dropped = watch::Sender::new(0);
        let server = Self { config, state, watches_dropped, lifecycle: Lifecycle::new() };
        server.create_namespaces();
        server
    }

    /// Creates the namespaces that every cluster has.
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
        // It cannot be refused: the server is new.
        let _ = create(&mut state, &self.config, &target, body, false);
    }

    /// The time in the API's form.
    pub(crate) fn now(&self) -> String {
        names::timestamp((self.config.clock)())
    }

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
