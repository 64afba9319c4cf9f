//! Reads the objects that collectors need from an API server.

use std::{
    collections::{BTreeMap, HashMap},
    error::Error,
    io,
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use hpa_calc::{
    Selector,
    api::{CrossVersionObjectReference, plural},
};
use hpa_metrics::{KubeObjects, ListError, StoredObject};
use k8s_openapi::api::autoscaling::v1::Scale;
use kube::{
    Api, Client,
    core::{ApiResource, GroupVersionKind},
};
use parking_lot::Mutex;
use serde::{Deserialize, de::DeserializeOwned};
use tokio::time::Instant;

use crate::{Cluster, Ingress, LookupError, Pod, RouteGroup};

/// The age at which the cached selector of a target is read again.
const SELECTOR_LIFETIME: Duration = Duration::from_secs(60);

/// The age at which the cached replicas of a target are read again. Requests in quick succession
/// share a read. It must be below the shortest sync period. Otherwise, a decision could use the
/// replicas before the last scaling, and scale by the same value again.
const REPLICAS_LIFETIME: Duration = Duration::from_millis(250);

/// Looks up the selectors of targets.
#[async_trait]
pub trait Targets: Send + Sync {
    /// The selector of a target's pods.
    async fn selector(
        &self,
        namespace: &str,
        target: &CrossVersionObjectReference,
    ) -> Result<Selector, LookupError>;
}

/// Reads pods from a cache, and other objects from the API server. Scales are cached for a short
/// time.
pub struct KubeCluster {
    client: Client,
    objects: Arc<KubeObjects>,
    scales: Mutex<ScaleCache>,
}

/// Namespace, API version, kind and name.
type TargetKey = (String, String, String, String);

fn target_key(namespace: &str, target: &CrossVersionObjectReference) -> TargetKey {
    let CrossVersionObjectReference { api_version, kind, name, .. } = target;
    (namespace.to_owned(), api_version.clone(), kind.clone(), name.clone())
}

/// The last read scales of targets.
struct ScaleCache {
    scales: HashMap<TargetKey, CachedScale>,
    /// The time of the last removal of old scales.
    cleaned_at: Instant,
}

impl ScaleCache {
    /// Adds a scale. Removes old ones only once in [`SELECTOR_LIFETIME`], because a removal visits
    /// all scales.
    fn insert(&mut self, key: TargetKey, scale: CachedScale) {
        if self.cleaned_at.elapsed() >= SELECTOR_LIFETIME {
            self.scales.retain(|_, scale| scale.read_at.elapsed() < SELECTOR_LIFETIME);
            self.cleaned_at = Instant::now();
        }
        self.scales.insert(key, scale);
    }
}

/// The status of a target's scale, and the time of the read.
#[derive(Clone, Debug)]
struct CachedScale {
    read_at: Instant,
    selector: String,
    replicas: i32,
}

impl KubeCluster {
    /// A cluster that reads pods from the caches of `objects`, which must watch pods.
    pub fn new(client: Client, objects: Arc<KubeObjects>) -> Self {
        let scales = ScaleCache { scales: HashMap::new(), cleaned_at: Instant::now() };
        Self { client, objects, scales: Mutex::new(scales) }
    }

    /// Returns the API of an object's kind. Fails if the group, version, kind or name isn't a path
    /// segment. Tenants choose them, and could otherwise make the operator request another path.
    fn api(
        &self,
        namespace: &str,
        (api_version, kind): (&str, &str),
        name: &str,
    ) -> Result<Api<StoredObject>, LookupError> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let segments =
            [version, kind, name].into_iter().chain((!group.is_empty()).then_some(group));
        if !segments.into_iter().all(is_path_segment) {
            return Err(not_found(kind, namespace, name));
        }
        let plural = plural(kind);
        let kind = GroupVersionKind::gvk(group, version, kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, &plural);
        Ok(Api::namespaced_with(self.client.clone(), namespace, &resource))
    }

    /// The scale of a target, as it was at most `max_age` ago.
    async fn scale(
        &self,
        namespace: &str,
        target: &CrossVersionObjectReference,
        max_age: Duration,
    ) -> Result<CachedScale, LookupError> {
        let key = target_key(namespace, target);
        let cached = self.scales.lock().scales.get(&key).cloned();
        if let Some(scale) = cached.filter(|scale| scale.read_at.elapsed() < max_age) {
            return Ok(scale);
        }
        let kind = (&*target.api_version, &*target.kind);
        let scale = self.api(namespace, kind, &target.name)?.get_scale(&target.name).await;
        let scale: Scale =
            scale.map_err(|error| lookup_error(&target.kind, namespace, &target.name, error))?;
        let Some(status) = scale.status else {
            let error = io::Error::other("the scale has no status");
            return Err(request_error(&target.kind, namespace, &target.name, error));
        };
        let selector = status.selector.unwrap_or_default();
        let scale = CachedScale { read_at: Instant::now(), selector, replicas: status.replicas };
        self.scales.lock().insert(key, scale.clone());
        Ok(scale)
    }

    /// Reads the spec and the annotations of an object.
    async fn get<T: DeserializeOwned>(
        &self,
        namespace: &str,
        (api_version, kind): (&str, &str),
        name: &str,
    ) -> Result<(T, BTreeMap<String, String>), LookupError> {
        let object = self.api(namespace, (api_version, kind), name)?.get(name).await;
        let object = object.map_err(|error| lookup_error(kind, namespace, name, error))?;
        let fields: SpecAndAnnotations<T> =
            object.decode().map_err(|error| request_error(kind, namespace, name, error))?;
        Ok((fields.spec, fields.metadata.annotations.unwrap_or_default()))
    }
}

/// The spec and the annotations of an object. `ObjectMeta` isn't used, because a time out of range
/// in it would fail the decoding.
#[derive(Deserialize)]
pub(super) struct SpecAndAnnotations<T> {
    #[serde(default)]
    pub(super) metadata: AnnotationsOnly,
    pub(super) spec: T,
}

#[derive(Default, Deserialize)]
pub(super) struct AnnotationsOnly {
    pub(super) annotations: Option<BTreeMap<String, String>>,
}

fn is_path_segment(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    !text.is_empty() && !matches!(text, "." | "..") && text.bytes().all(is_allowed)
}

fn not_found(kind: &str, namespace: &str, name: &str) -> LookupError {
    let (kind, namespace, name) = (kind.to_owned(), namespace.to_owned(), name.to_owned());
    LookupError::NotFound { kind, namespace, name }
}

/// A failed request, or an unusable response.
fn request_error(
    kind: &str,
    namespace: &str,
    name: &str,
    error: impl Error + Send + Sync + 'static,
) -> LookupError {
    let (kind, namespace, name) = (kind.to_owned(), namespace.to_owned(), name.to_owned());
    LookupError::Request { kind, namespace, name, source: Arc::new(error) }
}

fn lookup_error(kind: &str, namespace: &str, name: &str, error: kube::Error) -> LookupError {
    match error {
        kube::Error::Api(status) if status.code == 404 => not_found(kind, namespace, name),
        error => request_error(kind, namespace, name, error),
    }
}

#[async_trait]
impl Targets for KubeCluster {
    async fn selector(
        &self,
        namespace: &str,
        target: &CrossVersionObjectReference,
    ) -> Result<Selector, LookupError> {
        let scale = self.scale(namespace, target, SELECTOR_LIFETIME).await?;
        Selector::parse(&scale.selector)
            .map_err(|error| request_error(&target.kind, namespace, &target.name, error))
    }
}

#[async_trait]
impl Cluster for KubeCluster {
    async fn pods(
        &self,
        namespace: &str,
        target: &CrossVersionObjectReference,
    ) -> Result<Vec<Pod>, LookupError> {
        let selector = self.selector(namespace, target).await?;
        if selector.is_empty() {
            // An empty selector would match all pods of the namespace.
            return Ok(Vec::new());
        }
        self.objects.pods(namespace, &selector).map_err(|error| match error {
            ListError::NotSynced(kind) => LookupError::NotSynced(kind),
            error => request_error("Pod", namespace, &selector.to_string(), error),
        })
    }

    async fn replicas(
        &self,
        namespace: &str,
        target: &CrossVersionObjectReference,
    ) -> Result<i32, LookupError> {
        Ok(self.scale(namespace, target, REPLICAS_LIFETIME).await?.replicas)
    }

    async fn ingress(&self, namespace: &str, name: &str) -> Result<Ingress, LookupError> {
        #[derive(Deserialize)]
        struct Rule {
            #[serde(default)]
            host: String,
        }
        #[derive(Deserialize)]
        struct Spec {
            #[serde(default)]
            rules: Vec<Rule>,
        }
        let kind = ("networking.k8s.io/v1", "Ingress");
        let (spec, annotations) = self.get::<Spec>(namespace, kind, name).await?;
        Ok(Ingress { hosts: spec.rules.into_iter().map(|rule| rule.host).collect(), annotations })
    }

    async fn route_group(&self, namespace: &str, name: &str) -> Result<RouteGroup, LookupError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Backend {
            #[serde(default)]
            backend_name: String,
            #[serde(default)]
            weight: i64,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Spec {
            #[serde(default)]
            hosts: Vec<String>,
            #[serde(default)]
            default_backends: Vec<Backend>,
        }
        let kind = ("zalando.org/v1", "RouteGroup");
        let (spec, _) = self.get::<Spec>(namespace, kind, name).await?;
        let backends = spec.default_backends.into_iter();
        let default_backends =
            backends.map(|backend| (backend.backend_name, backend.weight)).collect();
        Ok(RouteGroup { hosts: spec.hosts, default_backends })
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use kube::client::Body;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn response(object: &Value) -> Response<Body> {
        Response::new(Body::from(object.to_string().into_bytes()))
    }

    fn cluster(client: Client) -> KubeCluster {
        KubeCluster::new(client.clone(), Arc::new(KubeObjects::new(client)))
    }

    fn target(api_version: &str, kind: &str, name: &str) -> CrossVersionObjectReference {
        let [api_version, kind, name] = [api_version, kind, name].map(str::to_owned);
        let default = CrossVersionObjectReference::default();
        CrossVersionObjectReference { api_version, kind, name, ..default }
    }

    #[rstest]
    #[case("apps/v1", "Deployment", "web", "/apis/apps/v1/namespaces/shop/deployments/web/scale")]
    #[case("v1", "Pod", "web", "/api/v1/namespaces/shop/pods/web/scale")]
    #[case("apps/v1/../../../api/v1", "Secret", "x", "")]
    #[case("v1?x=", "Secret", "x", "")]
    #[case("a/..", "Deployment", "web", "")]
    #[case("apps/v1", "Deployment", "..", "")]
    #[case("apps/v1", "Deployment", "web%2F..", "")]
    #[case("apps/v1", "Deployment/../x", "web", "")]
    #[case("", "Deployment", "web", "")]
    #[tokio::test]
    async fn names_from_tenants_must_be_path_segments(
        #[case] api_version: &str,
        #[case] kind: &str,
        #[case] name: &str,
        #[case] expected: &str,
    ) {
        let paths = Arc::<Mutex<Vec<String>>>::default();
        let requested = paths.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            requested.lock().push(request.uri().to_string());
            async { Ok::<_, Infallible>(Response::new(Body::empty())) }
        });
        let cluster = cluster(Client::new(service, "default"));
        let target = target(api_version, kind, name);
        cluster.scale("shop", &target, REPLICAS_LIFETIME).await.unwrap_err();
        assert_eq!(paths.lock().join(" "), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn replicas_are_those_of_the_current_decision() {
        let reads = Arc::<Mutex<i32>>::default();
        let counted = reads.clone();
        let service = tower::service_fn(move |_: Request<Body>| {
            *counted.lock() += 1;
            let scale = json!({
                "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": { "name": "web" },
                "status": { "replicas": *counted.lock() * 2 },
            });
            async move { Ok::<_, Infallible>(response(&scale)) }
        });
        let cluster = cluster(Client::new(service, "default"));
        let target = target("apps/v1", "Deployment", "web");
        assert_eq!(cluster.replicas("shop", &target).await.unwrap(), 2);
        assert_eq!(cluster.replicas("shop", &target).await.unwrap(), 2);
        assert_eq!(*reads.lock(), 1);
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(cluster.replicas("shop", &target).await.unwrap(), 4);
    }

    #[tokio::test]
    async fn scale_without_a_status_is_an_error() {
        let service = tower::service_fn(|_: Request<Body>| async {
            let scale = json!({ "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {} });
            Ok::<_, Infallible>(response(&scale))
        });
        let cluster = cluster(Client::new(service, "default"));
        let target = target("apps/v1", "Deployment", "web");
        cluster.replicas("shop", &target).await.unwrap_err();
        cluster.pods("shop", &target).await.unwrap_err();
    }

    #[tokio::test(start_paused = true)]
    async fn old_scales_are_removed() {
        let key = |name: &str| target_key(name, &CrossVersionObjectReference::default());
        let scale =
            || CachedScale { read_at: Instant::now(), selector: String::new(), replicas: 1 };
        let mut cache = ScaleCache { scales: HashMap::new(), cleaned_at: Instant::now() };
        cache.insert(key("old"), scale());
        tokio::time::advance(SELECTOR_LIFETIME).await;
        cache.insert(key("new"), scale());
        assert!(cache.scales.into_keys().eq([key("new")]));
    }

    #[tokio::test]
    async fn ingress_with_times_out_of_range_is_read() {
        let service = tower::service_fn(|_: Request<Body>| async {
            let ingress = json!({
                "metadata": {
                    "name": "web",
                    "annotations": { "a": "b" },
                    "managedFields": [{ "time": "9999-12-31T23:59:59Z" }],
                },
                "spec": { "rules": [{ "host": "web.example" }] },
            });
            Ok::<_, Infallible>(response(&ingress))
        });
        let cluster = cluster(Client::new(service, "default"));
        let ingress = cluster.ingress("shop", "web").await.unwrap();
        assert_eq!(ingress.hosts, ["web.example"]);
        assert_eq!(ingress.annotations, BTreeMap::from([("a".to_owned(), "b".to_owned())]));
    }
}
