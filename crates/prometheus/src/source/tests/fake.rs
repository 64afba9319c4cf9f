//! A fake Prometheus, and sources that read from it.

use std::{collections::HashMap, convert::Infallible, sync::Arc};

use hpa_calc::Selector;
use hpa_metrics::{
    Catalog, CustomQuery, ExternalQuery, FixedMapper, ObjectKey, ObjectLister, ObjectMetadata,
    Objects, Query, ResourceMapper,
    resource::GroupResource,
    test_doubles::{FixedObjects, resources},
};
use http::{Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{
    client::{Client, Settings},
    rules::{Compat, Config},
    source::{PrometheusSettings, PrometheusSource, Servers},
};

/// Computes the samples of a query, or returns `None` for a query without samples.
type Compute = fn(&str) -> Option<Value>;

/// A server that answers requests by their selector or query, and records them.
#[derive(Clone, Default)]
pub(in crate::source) struct Prometheus {
    answers: Arc<Mutex<HashMap<String, (u16, Value)>>>,
    computed: Arc<Mutex<Option<Compute>>>,
    /// Queries that are never answered.
    hanging: Arc<Mutex<Vec<String>>>,
    pub(super) requests: Arc<Mutex<Vec<String>>>,
}

impl Prometheus {
    /// Sets the status and the body of the answer to a selector or query.
    pub(super) fn set_answer(&self, key: &str, status: u16, body: Value) {
        self.answers.lock().insert(key.to_owned(), (status, body));
    }

    /// Replaces all answers by those of another server.
    pub(super) fn copy_answers(&self, other: &Self) {
        *self.answers.lock() = other.answers.lock().clone();
    }

    pub(in crate::source) fn set_series(&self, selector: &str, series: &Value) {
        self.set_answer(selector, 200, json!({ "status": "success", "data": series }));
    }

    pub(in crate::source) fn set_vector(&self, query: &str, samples: &Value) {
        self.set_answer(query, 200, vector(samples));
    }

    pub(in crate::source) fn fail(&self, key: &str) {
        let body = json!({ "status": "error", "errorType": "execution", "error": "boom" });
        self.set_answer(key, 422, body);
    }

    pub(in crate::source) fn hang(&self, key: &str) {
        self.hanging.lock().push(key.to_owned());
    }

    /// Computes the samples of queries that have no answer.
    pub(in crate::source) fn compute(&self, samples: Compute) {
        *self.computed.lock() = Some(samples);
    }

    pub(in crate::source) fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut self.requests.lock())
    }

    pub(in crate::source) fn client(&self, name: &str, compat: Compat) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move { Ok::<_, Infallible>(server.answer(request).await) }
        });
        let settings =
            Settings { compat, ..Settings::new(name, &format!("http://{name}")).unwrap() };
        Client::from_kube_client(settings, kube::Client::new(service, "default"))
    }

    async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let parameters: HashMap<_, _> = form_urlencoded::parse(&body).into_owned().collect();
        let key = parameters.get("match[]").or_else(|| parameters.get("query")).unwrap().clone();
        self.requests.lock().push(key.clone());
        if self.hanging.lock().contains(&key) {
            return std::future::pending().await;
        }
        let empty = (200, json!({ "status": "success", "data": [] }));
        let computed = self.computed.lock().and_then(|samples| samples(&key));
        let computed = computed.map(|samples| (200, vector(&samples)));
        let answer = self.answers.lock().get(&key).cloned();
        let (status, body) = answer.or(computed).unwrap_or(empty);
        let mut response = Response::builder().status(status);
        // The body of a redirection is its destination.
        if status == 302 {
            response = response.header("location", body.as_str().unwrap());
        }
        response.body(Body::from(body.to_string().into_bytes())).unwrap()
    }
}

/// The body of an answer with samples.
fn vector(samples: &Value) -> Value {
    let data = json!({ "resultType": "vector", "result": samples });
    json!({ "status": "success", "data": data })
}

pub(in crate::source) const RULES: &str = "
rules:
- seriesQuery: http_requests_total
  resources:
    overrides: &overrides
      namespace: {resource: namespace}
      pod: {resource: pod}
  metricsQuery: sum(rate(<<.Series>>{<<.LabelMatchers>>}[2m])) by (<<.GroupBy>>)
- seriesQuery: inflight
  resources:
    overrides: *overrides
  metricsQuery: max(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
externalRules:
- seriesQuery: queue_length
  resources:
    namespaced: false
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>})
resourceRules:
  cpu: &usage
    containerQuery: cpu{<<.LabelMatchers>>}
    nodeQuery: node_cpu{<<.LabelMatchers>>}
    containerLabel: container
    resources:
      overrides:
        namespace: {resource: namespace}
        pod: {resource: pod}
        instance: {resource: node}
  memory:
    <<: *usage
    containerQuery: memory{<<.LabelMatchers>>}
    nodeQuery: node_memory{<<.LabelMatchers>>}
  window: 3m
";

pub(super) fn objects() -> FixedObjects {
    let object = |resource, namespace: &str, name: &str, app: &str| {
        let metadata = ObjectMetadata {
            key: ObjectKey::new(namespace, name),
            labels: [("app", app)].into_iter().collect(),
        };
        (resource, metadata)
    };
    let pod = |namespace, name, app| object(GroupResource::pods(), namespace, name, app);
    let node = |name| object(GroupResource::nodes(), "", name, "");
    let objects = vec![
        pod("shop", "web-1", "web"),
        pod("shop", "web-0", "web"),
        pod("shop", "api.0", "api"),
        pod("other", "a", "other"),
        node("n0"),
        node("n1"),
    ];
    FixedObjects { objects, ..FixedObjects::default() }
}

/// A Prometheus with the series of the rules.
pub(in crate::source) fn prometheus() -> Prometheus {
    let server = Prometheus::default();
    let labels = |name: &str| json!([{ "__name__": name, "namespace": "shop", "pod": "web-0" }]);
    server.set_series("http_requests_total", &labels("http_requests_total"));
    server.set_series("inflight", &labels("inflight"));
    server.set_series("queue_length", &json!([{ "__name__": "queue_length", "queue": "mail" }]));
    server
}

pub(super) fn source_with(server: &Prometheus, rules: &str, compat: Compat) -> PrometheusSource {
    let settings = PrometheusSettings { compat, ..PrometheusSettings::default() };
    let (mapper, objects) = (Arc::new(FixedMapper(resources())), Arc::new(objects()));
    create_source(server, rules, settings, mapper, objects)
}

/// Creates a source with `server` as the default server.
pub(in crate::source) fn create_source(
    server: &Prometheus,
    rules: &str,
    settings: PrometheusSettings,
    mapper: Arc<dyn ResourceMapper>,
    objects: Arc<dyn ObjectLister>,
) -> PrometheusSource {
    let servers = Servers::new(Some(server.client("main", settings.compat)), Arc::new(()));
    let config = Config::parse(rules).unwrap();
    PrometheusSource::new(config, servers, settings, mapper, objects).unwrap()
}

pub(super) async fn source(server: &Prometheus, compat: Compat) -> PrometheusSource {
    let source = source_with(server, RULES, compat);
    source.relist().await.unwrap();
    server.take_requests();
    source
}

pub(in crate::source) fn request(metric: &str) -> CustomQuery {
    CustomQuery {
        resource: GroupResource::new("", "pod"),
        namespace: "shop".to_owned(),
        objects: Objects::Selected(Selector::everything()),
        metric: metric.to_owned(),
        metric_selector: Selector::everything(),
    }
}

/// The query for the usage of all nodes.
pub(super) fn all_nodes() -> Query {
    let nodes = Objects::Selected(Selector::everything());
    Query::NodeUsage { nodes, fields: Box::default() }
}

pub(super) fn has_custom(
    source: &PrometheusSource,
    resource: &GroupResource,
    is_namespaced: bool,
    metric: &str,
) -> bool {
    let namespace = if is_namespaced { "shop" } else { "" };
    let (resource, namespace) = (resource.clone(), namespace.to_owned());
    source.has(&CustomQuery { resource, namespace, ..request(metric) }.into())
}

pub(super) fn external(metric: &str) -> ExternalQuery {
    ExternalQuery {
        namespace: "shop".to_owned(),
        metric: metric.to_owned(),
        metric_selector: Selector::everything(),
    }
}

pub(in crate::source) fn sample(pod: &str, value: &str) -> Value {
    json!({ "metric": { "pod": pod }, "value": [1_700_000_000.5, value] })
}
