//! The configuration, state and availability of the server.

use std::{
    collections::BTreeMap,
    fmt,
    ops::{Deref, DerefMut},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use serde_json::json;
use tokio::{sync::watch, time::Instant};

use crate::{
    faults::Interceptor,
    metrics_provider::MetricsProvider,
    names,
    objects::create,
    registry::Registry,
    request::ApiRequest,
    store::{ChangeListener, Object, ObjectId, ResourceKey, Store},
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

    /// The locked state. Changes are attributed to the client of the request.
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

    /// Accepts requests again with this state, after a delay.
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

/// The stored objects and the served resources.
pub(crate) struct State {
    pub(crate) registry: Registry,
    pub(crate) store: Store,
}

/// The locked state while the request of a client is handled.
pub(crate) struct ClientState<'a> {
    state: MutexGuard<'a, State>,
}

impl<'a> ClientState<'a> {
    pub(crate) fn new(mut state: MutexGuard<'a, State>, client: &str) -> Self {
        state.store.set_client(Some(client));
        Self { state }
    }
}

impl Deref for ClientState<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for ClientState<'_> {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

impl Drop for ClientState<'_> {
    fn drop(&mut self) {
        self.state.store.set_client(None);
    }
}

const WATCH_CACHE_SIZE: usize = 10_000;
const BOOKMARK_INTERVAL: Duration = Duration::from_mins(1);

/// Configuration of a testbed.
#[derive(Clone)]
pub struct Config {
    /// The number of changes of each resource in the watch cache. A watch from an older resource
    /// version gets 410 `Expired`.
    pub watch_cache_size: usize,
    /// Interval of `BOOKMARK` events, for watches that allow them.
    pub bookmark_interval: Duration,
    /// Whether spec changes increment `metadata.generation` of autoscalers, as they do since
    /// Kubernetes 1.37.
    pub hpa_generation: bool,
    /// Feature gate `HPAScaleToZero`: `minReplicas` may be 0.
    pub scale_to_zero: bool,
    /// Serves the three metrics APIs. If unset, they don't exist.
    pub metrics: Option<Arc<dyn MetricsProvider>>,
    /// Called for every request before it is handled, to inject faults.
    pub interceptor: Option<Arc<dyn Interceptor>>,
    /// Called for every change of an object.
    pub listener: Option<Arc<dyn ChangeListener>>,
    /// The server's wall clock.
    pub clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// `gitVersion` in the response of `/version`.
    pub git_version: String,
}

impl Config {
    /// Groups and versions of the metrics APIs that are served.
    pub(crate) fn metrics_apis(&self) -> Vec<(String, String)> {
        self.metrics.as_ref().map(|provider| provider.served()).unwrap_or_default()
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            watch_cache_size: WATCH_CACHE_SIZE,
            bookmark_interval: BOOKMARK_INTERVAL,
            hpa_generation: true,
            scale_to_zero: true,
            metrics: None,
            interceptor: None,
            listener: None,
            clock: Arc::new(Timestamp::now),
            git_version: "v1.37.0".to_owned(),
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("watch_cache_size", &self.watch_cache_size)
            .field("bookmark_interval", &self.bookmark_interval)
            .field("hpa_generation", &self.hpa_generation)
            .field("scale_to_zero", &self.scale_to_zero)
            .field("git_version", &self.git_version)
            .finish_non_exhaustive()
    }
}

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
    /// An earlier state, as after `etcdutl snapshot restore --bump-revision --mark-compacted`, the
    /// right way with running clients: resource versions continue above the highest one ever used,
    /// and all earlier ones are compacted. Every watch gets 410 and its client relists.
    Older(Snapshot),
    /// An earlier state, as after `etcdutl snapshot restore` without `--bump-revision`: resource
    /// versions since the snapshot are reused for other objects. A watch at one of them gets no
    /// events or bookmarks until higher resource versions are in use.
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
