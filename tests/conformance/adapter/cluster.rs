//! Serves the recorded objects that the adapter requests.

use std::{collections::BTreeMap, convert::Infallible, sync::Arc};

use hpa_adapter::metrics_api::UrlQuery;
use hpa_calc::Selector;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Collected};
use kube::client::Body;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};

/// A kind of the recorded cluster.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct RecordedKind {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    namespaced: bool,
}

impl RecordedKind {
    /// The kinds in the first line of a file.
    pub(crate) fn all(header: &Value) -> Result<Vec<Self>, String> {
        Vec::deserialize(&header["kinds"]).map_err(|error| format!("kinds: {error}"))
    }

    fn api_version(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }
}

/// A cluster that records the adapter's requests.
pub(crate) struct Cluster {
    kinds: Vec<RecordedKind>,
    objects: Vec<Value>,
    requests: Mutex<ClusterRequests>,
}

/// The adapter's requests to the cluster.
#[derive(Debug, Default)]
pub(crate) struct ClusterRequests {
    /// Paths of lists, with the decoded selector.
    pub(crate) lists: Vec<String>,
    /// Attributes of access reviews.
    pub(crate) accesses: Vec<Value>,
}

impl Cluster {
    pub(crate) fn new(header: &Value, objects: &Value) -> Result<Arc<Self>, String> {
        let kinds = RecordedKind::all(header)?;
        let objects = objects.as_array().cloned().unwrap_or_default();
        Ok(Arc::new(Self { kinds, objects, requests: Mutex::default() }))
    }

    pub(crate) fn client(self: &Arc<Self>) -> kube::Client {
        let cluster = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let cluster = cluster.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await.map(Collected::to_bytes).unwrap_or_default();
                Ok::<_, Infallible>(cluster.respond(&head, &body).await.map(Body::from))
            }
        });
        kube::Client::new(service, "default")
    }

    /// The requests since the last call.
    pub(crate) fn take_requests(&self) -> ClusterRequests {
        std::mem::take(&mut *self.requests.lock())
    }

    pub(crate) async fn respond(
        &self,
        head: &http::request::Parts,
        body: &[u8],
    ) -> Response<Vec<u8>> {
        let query = UrlQuery::parse(head.uri.query().unwrap_or_default());
        if query.get("watch").is_some_and(|watch| watch != "false") {
            // A watch without events.
            return std::future::pending().await;
        }
        let path = head.uri.path();
        let document = if head.method == Method::POST && path.ends_with("/subjectaccessreviews") {
            self.review(body)
        } else {
            self.discovery(path).or_else(|| self.list(path, &query))
        };
        let status = if document.is_some() { StatusCode::OK } else { StatusCode::NOT_FOUND };
        let body = document.unwrap_or_else(|| {
            json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": format!("{path} is unknown"), "reason": "NotFound", "code": 404,
            })
        });
        let mut response = Response::new(body.to_string().into_bytes());
        *response.status_mut() = status;
        let json = http::HeaderValue::from_static("application/json");
        response.headers_mut().insert(http::header::CONTENT_TYPE, json);
        response
    }

    /// Records an access review and allows the access.
    fn review(&self, body: &[u8]) -> Option<Value> {
        let mut review: Value = serde_json::from_slice(body).ok()?;
        let spec = review.get("spec")?;
        let attributes =
            spec.get("resourceAttributes").or_else(|| spec.get("nonResourceAttributes"))?;
        self.requests.lock().accesses.push(attributes.clone());
        review["status"] = json!({ "allowed": true });
        Some(review)
    }

    /// The documents of unaggregated discovery.
    fn discovery(&self, path: &str) -> Option<Value> {
        match path {
            "/version" => return Some(json!({ "major": "1", "minor": "36" })),
            "/api" => return Some(json!({ "kind": "APIVersions", "versions": ["v1"] })),
            "/apis" => return Some(self.groups()),
            _ => {}
        }
        let api_version =
            path.strip_prefix("/apis/").or_else(|| path.strip_prefix("/api/"))?.to_owned();
        let resources = self.kinds.iter().filter(|kind| kind.api_version() == api_version);
        let resources: Vec<Value> = resources
            .map(|kind| {
                json!({
                    "name": kind.plural, "singularName": kind.singular, "kind": kind.kind,
                    "namespaced": kind.namespaced, "verbs": ["get", "list", "watch"],
                })
            })
            .collect();
        (!resources.is_empty()).then(|| {
            json!({
                "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version,
                "resources": resources,
            })
        })
    }

    fn groups(&self) -> Value {
        let mut versions: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
        for kind in self.kinds.iter().filter(|kind| !kind.group.is_empty()) {
            let version = json!({ "groupVersion": kind.api_version(), "version": kind.version });
            let versions = versions.entry(&kind.group).or_default();
            if !versions.contains(&version) {
                versions.push(version);
            }
        }
        let groups = versions.into_iter().map(|(name, versions)| {
            json!({ "name": name, "preferredVersion": versions.first(), "versions": versions })
        });
        json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups.collect::<Vec<_>>() })
    }

    /// Records a list request, and returns the matching objects in the recorded order.
    fn list(&self, path: &str, query: &UrlQuery) -> Option<Value> {
        let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (api_version, rest) = match segments.as_slice() {
            ["api", version, rest @ ..] => ((*version).to_owned(), rest),
            ["apis", group, version, rest @ ..] => (format!("{group}/{version}"), rest),
            _ => return None,
        };
        let (namespace, plural) = match rest {
            [plural] => (None, *plural),
            ["namespaces", namespace, plural] => (Some(*namespace), *plural),
            _ => return None,
        };
        let is_requested =
            |kind: &&RecordedKind| kind.plural == plural && kind.api_version() == api_version;
        let kind = self.kinds.iter().find(is_requested)?;
        let selector = query.get("labelSelector").unwrap_or_default();
        let parameters = match selector {
            "" => String::new(),
            selector => format!("?labelSelector={selector}"),
        };
        self.requests.lock().lists.push(format!("{path}{parameters}"));
        let selector = Selector::parse(selector).ok()?;
        let only_running = query.get("fieldSelector") == Some("status.phase=Running");
        let items = self.objects.iter().filter(|object| {
            let labels: BTreeMap<String, String> =
                serde_json::from_value(object["metadata"]["labels"].clone()).unwrap_or_default();
            object["kind"] == *kind.kind
                && object["apiVersion"] == *api_version
                && namespace.is_none_or(|namespace| object["metadata"]["namespace"] == namespace)
                && (!only_running || object["status"]["phase"] == "Running")
                && selector.matches(&labels)
        });
        Some(json!({
            "kind": format!("{}List", kind.kind), "apiVersion": api_version,
            "metadata": { "resourceVersion": "1" }, "items": items.collect::<Vec<_>>(),
        }))
    }
}
