//! The server as tests see it, with direct access to the stored objects.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use axum::{Router, body::Body};
use http::Request;
use serde_json::{Value, json};

use crate::{
    config::Config,
    error::ApiError,
    json_fields,
    objects::{create, delete, update},
    registry::Resource,
    request_target::{RequestTarget, Subresource},
    server::{Restart, Server, Snapshot, State},
    service::{ServerHandle, Service, handle_http},
    store::{Object, ObjectId, ResourceKey},
};

/// A Kubernetes API server in memory. Clones share the same server.
#[derive(Clone)]
pub struct Testbed {
    server: Arc<Server>,
}

impl Default for Testbed {
    fn default() -> Self {
        Self::new(Config::default())
    }
}

impl Testbed {
    /// A server with only the namespaces `default` and `kube-system`.
    pub fn new(config: Config) -> Self {
        Self { server: Arc::new(Server::new(config)) }
    }

    /// A client that calls the server directly, without a socket. Its namespace is `default`.
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.service(), "default")
    }

    /// Like [`client`](Self::client), with a name that faults can match: see
    /// [`RequestInfo::client`].
    ///
    /// [`RequestInfo::client`]: crate::RequestInfo::client
    pub fn client_named(&self, name: &str) -> kube::Client {
        kube::Client::new(self.service_named(name), "default")
    }

    /// The server as a tower service.
    pub fn service(&self) -> Service {
        Service { server: Arc::clone(&self.server), client: None }
    }

    /// Like [`service`](Self::service), with a client name that faults can match.
    pub fn service_named(&self, name: &str) -> Service {
        Service { client: Some(name.into()), ..self.service() }
    }

    /// Accepts HTTP connections until the handle is dropped, and returns the bound address. For
    /// port 0, the system chooses the port.
    pub async fn serve(&self, address: SocketAddr) -> io::Result<(SocketAddr, ServerHandle)> {
        let server = Arc::clone(&self.server);
        let router =
            Router::new().fallback(move |request: Request<Body>| handle_http(server, request));
        ServerHandle::serve(address, router).await
    }

    /// A kubeconfig for the server at this address, without TLS and credentials. Its namespace is
    /// `default`.
    pub fn kubeconfig(address: SocketAddr) -> String {
        Self::kubeconfig_with_namespace(address, "default")
    }

    /// Like [`Testbed::kubeconfig`], for another namespace.
    pub fn kubeconfig_with_namespace(address: SocketAddr, namespace: &str) -> String {
        format!(
            "apiVersion: v1
kind: Config
current-context: testbed
clusters:
- name: testbed
  cluster:
    server: http://{address}
contexts:
- name: testbed
  context:
    cluster: testbed
    user: testbed
    namespace: {namespace:?}
users:
- name: testbed
  user: {{}}
"
        )
    }

    /// Creates or replaces an object, including its status and regardless of its resource version.
    /// The default namespace is `default`.
    pub fn apply(&self, mut object: Value) -> Result<Value, ApiError> {
        let mut state = self.server.state_without_client();
        let target = target_for(&state, &object)?;
        let config = &self.server.config;
        json_fields::set(&mut object, &["metadata", "namespace"], target.namespace.as_str());
        json_fields::remove(&mut object, &["metadata", "resourceVersion"]);
        json_fields::remove(&mut object, &["metadata", "uid"]);
        let exists = state.store.get(&target.resource.key(), &target.id()).is_some();
        let mut stored = if exists {
            update(&mut state, config, &target, Subresource::None, false, |_| Ok(object.clone()))?
        } else {
            create(&mut state, config, &target, object.clone(), false)?
        };
        let has_status = target.served_version()?.has_status && !target.resource.is_crd();
        if let Some(status) = object.get("status").filter(|_| has_status) {
            let name = json_fields::str_at(&stored, "/metadata/name").to_owned();
            let target = RequestTarget { name, ..target };
            stored = update(&mut state, config, &target, Subresource::Status, false, |live| {
                let mut live = live.clone();
                json_fields::set(&mut live, &["status"], status.clone());
                Ok(live)
            })?;
        }
        Ok((*stored).clone())
    }

    /// Returns an object as it is stored, whatever `api_version` is: an autoscaler in
    /// `autoscaling/v2`, any other object in the version in which it was created. The namespace is
    /// empty for cluster-scoped objects.
    pub fn get(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        let state = self.server.state.lock();
        let resource = resource(&state, api_version, kind)?;
        let id = (namespace.to_owned(), name.to_owned());
        state.store.get(&resource.key(), &id).map(|object| (**object).clone())
    }

    /// Returns all objects of a kind as they are stored, ordered by namespace and name.
    pub fn list(&self, api_version: &str, kind: &str) -> Vec<Value> {
        let mut state = self.server.state.lock();
        let Some(resource) = resource(&state, api_version, kind) else { return Vec::new() };
        let objects = state.store.collection(&resource.key()).objects().values();
        objects.map(|object| (**object).clone()).collect()
    }

    /// Deletes an object, or marks it as deleted if it has finalizers. The default namespace is
    /// `default`.
    pub fn delete(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<(), ApiError> {
        let now = self.server.now();
        let metadata = json!({ "namespace": namespace, "name": name });
        let reference = json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata });
        let mut state = self.server.state_without_client();
        let target = target_for(&state, &reference)?;
        delete(&mut state, &target, &now).map(drop)
    }

    /// The stored objects of a resource.
    pub(crate) fn objects(&self, key: &ResourceKey) -> Vec<Object> {
        let mut state = self.server.state.lock();
        state.store.collection(key).objects().values().map(Arc::clone).collect()
    }

    /// Changes a stored object without validation, for the simulated controllers and kubelets.
    /// Writes nothing if the object doesn't exist or doesn't change.
    pub(crate) fn modify(&self, key: &ResourceKey, id: &ObjectId, change: impl FnOnce(&mut Value)) {
        let mut state = self.server.state_without_client();
        let Some(old) = state.store.get(key, id).cloned() else { return };
        let mut new = (*old).clone();
        change(&mut new);
        if new != *old {
            state.store.put(key, id.clone(), new);
        }
    }

    /// The resource version of the last change to one of these resources.
    pub(crate) fn latest_version(&self, keys: &[ResourceKey]) -> u64 {
        let mut state = self.server.state.lock();
        keys.iter()
            .map(|key| *state.store.collection(key).subscribe().borrow())
            .max()
            .unwrap_or_default()
    }

    /// The namespaced resources with a scale subresource.
    pub(crate) fn scalable_resources(&self) -> Vec<Arc<Resource>> {
        let state = self.server.state.lock();
        let has_scale = |one: &Resource| one.versions.iter().any(|version| version.scale.is_some());
        let is_scalable = |one: &&Arc<Resource>| one.namespaced && has_scale(one);
        state.registry.iter().filter(is_scalable).cloned().collect()
    }

    /// The resource version of the last change.
    pub fn resource_version(&self) -> u64 {
        self.server.state.lock().store.revision()
    }

    /// Clears the watch caches. A watch or list at an older resource version gets 410 `Expired`.
    pub fn compact(&self) {
        self.server.state.lock().store.compact();
    }

    /// The current state, for [`restart`](Self::restart).
    pub fn snapshot(&self) -> Snapshot {
        self.server.snapshot()
    }

    /// Restarts the server with this state. Aborts watches, and requests that a fault or a gate
    /// delays. New requests fail until `down_for` has elapsed.
    pub fn restart(&self, state: Restart, down_for: Duration) {
        self.server.restart(state, down_for);
    }

    /// Stops the server: requests and watches fail until [`start`](Self::start). The methods of
    /// this type, such as [`apply`](Self::apply), still work.
    pub fn stop(&self) {
        self.server.stop();
    }

    /// Starts the server with this state, after [`stop`](Self::stop).
    pub fn start(&self, state: Restart) {
        self.server.restart(state, Duration::ZERO);
    }

    /// Ends all running watches.
    pub fn end_watches(&self) {
        self.server.end_watches();
    }
}

fn resource(state: &State, api_version: &str, kind: &str) -> Option<Arc<Resource>> {
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    state.registry.find_kind(group, version, kind).cloned()
}

fn target_for(state: &State, object: &Value) -> Result<RequestTarget, ApiError> {
    let (api_version, kind) =
        (json_fields::str_at(object, "/apiVersion"), json_fields::str_at(object, "/kind"));
    let resource = resource(state, api_version, kind).ok_or_else(|| {
        ApiError::bad_request(format!(
            "no matches for kind \"{kind}\" in version \"{api_version}\""
        ))
    })?;
    let version = api_version.rsplit('/').next().unwrap_or_default().to_owned();
    let namespace = match json_fields::str_at(object, "/metadata/namespace") {
        _ if !resource.namespaced => "",
        "" => "default",
        namespace => namespace,
    };
    let (namespace, name) =
        (namespace.to_owned(), json_fields::str_at(object, "/metadata/name").to_owned());
    Ok(RequestTarget { resource, version, namespace, name })
}
