//! Tests of collectors with real sockets.

mod endpoint;
mod missing;
mod pods;
mod prometheus;
mod restricted;
mod secrets;
mod services;
mod sqs;
mod ssrf;
mod tls;

use std::{
    net::{IpAddr, SocketAddr},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use hpa_calc::api::{CrossVersionObjectReference, HorizontalPodAutoscaler};
use hpa_prometheus::client::{Client, Settings as ServerSettings};
use hpa_testbed::{Config, Effect, Faults, Testbed};
use jiff::{Timestamp, ToSpan};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpListener,
    task::JoinSet,
};
use tokio_rustls::{TlsAcceptor, rustls::ServerConfig};

use crate::{
    Clients, Cluster, CollectorPlan, Compat, Context, Credential, Environment, FetchError,
    HttpError, Ingress, LookupError, Pod, Policy, RouteGroup, Secret, ServiceSettings, Settings,
    Values, annotations::Annotations, metric_configs,
};

/// A cluster that returns the same objects for every namespace and target.
#[derive(Debug, Default)]
pub(crate) struct FakeCluster {
    pub(crate) pods: Vec<Pod>,
    pub(crate) replicas: i32,
    pub(crate) ingress: Option<Ingress>,
    pub(crate) route_group: Option<RouteGroup>,
}

#[async_trait]
impl Cluster for FakeCluster {
    async fn pods(
        &self,
        _: &str,
        _: &CrossVersionObjectReference,
    ) -> Result<Vec<Pod>, LookupError> {
        Ok(self.pods.clone())
    }

    async fn replicas(&self, _: &str, _: &CrossVersionObjectReference) -> Result<i32, LookupError> {
        Ok(self.replicas)
    }

    async fn ingress(&self, namespace: &str, name: &str) -> Result<Ingress, LookupError> {
        self.ingress.clone().ok_or_else(|| not_found("Ingress", namespace, name))
    }

    async fn route_group(&self, namespace: &str, name: &str) -> Result<RouteGroup, LookupError> {
        self.route_group.clone().ok_or_else(|| not_found("RouteGroup", namespace, name))
    }
}

fn not_found(kind: &str, namespace: &str, name: &str) -> LookupError {
    let [kind, namespace, name] = [kind, namespace, name].map(str::to_owned);
    LookupError::NotFound { kind, namespace, name }
}

/// A pod that has been ready for 30 s.
fn pod(name: &str, ip: &str) -> Pod {
    Pod {
        name: name.to_owned(),
        ip: ip.to_owned(),
        ready_since: Some(now() - 30.seconds()),
        is_terminating: false,
    }
}

fn with_pods(pods: &[Pod]) -> FakeCluster {
    FakeCluster { pods: pods.to_vec(), ..FakeCluster::default() }
}

pub(crate) fn now() -> Timestamp {
    "2026-11-22T12:00:00Z".parse().unwrap()
}

/// Settings that permit the addresses of test servers.
pub(crate) fn settings() -> Settings {
    let addresses = vec![IpAddr::from([127, 0, 0, 1]), "::1".parse().unwrap()];
    Settings { policy: Policy { addresses, ..Policy::default() }, ..Settings::default() }
}

/// Clients with servers of the operator for all collectors, at one URL. Without the CA file, each
/// client of Prometheus would load the CAs of the system. That takes a tenth of a second in a debug
/// build.
fn operator_clients(url: &str, ca_file: &Path, objects: FakeCluster) -> Clients {
    let service = |name| {
        let token = Some(Credential::Text(Secret::new("token")));
        (name, ServiceSettings { endpoint: url.to_owned(), token, org: String::new() })
    };
    let ca_file = Some(ca_file.to_owned());
    let server = ServerSettings { ca_file, ..ServerSettings::new("p", url).unwrap() };
    let settings = Settings {
        services: ["influxdb", "zmon", "nakadi"].map(service).into(),
        prometheus: Some(Client::new(server, Arc::new(())).unwrap()),
        ..settings()
    };
    let url = url.to_owned();
    Clients::new(settings, Arc::new(objects)).unwrap().map_http(|http| {
        http.with_environment(move |name| match name {
            "AWS_ENDPOINT_URL" => Some(url.clone()),
            "AWS_ACCESS_KEY_ID" | "AWS_SECRET_ACCESS_KEY" => Some("x".to_owned()),
            _ => None,
        })
    })
}

/// The plan of an external metric `m` of this type, with these settings as annotations.
pub(crate) fn external(kind: &str, values: &[(&str, &str)]) -> CollectorPlan {
    plan(external_metric(kind), &format!("external.m.{kind}"), values, Compat::Off)
}

/// Like [`external`], with `url` for each `URL` in the settings.
fn external_at(url: &str, kind: &str, values: &[(&str, &str)]) -> CollectorPlan {
    let values: Vec<_> =
        values.iter().map(|(key, value)| (*key, value.replace("URL", url))).collect();
    let values: Vec<_> = values.iter().map(|(key, value)| (*key, value.as_str())).collect();
    external(kind, &values)
}

fn external_metric(kind: &str) -> Value {
    json!({"type": "External", "external": {
        "metric": {"name": "m", "selector": {"matchLabels": {"type": kind}}},
        "target": {"type": "AverageValue", "averageValue": "1"},
    }})
}

/// The plan of a metric `m` of pods.
pub(crate) fn pod_plan(values: &[(&str, &str)]) -> CollectorPlan {
    plan(pods_metric(), "pods.m.json-path", values, Compat::Off)
}

fn pods_metric() -> Value {
    json!({"type": "Pods", "pods": {
        "metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "1"},
    }})
}

pub(crate) fn plan(
    metric: Value,
    key: &str,
    values: &[(&str, &str)],
    compat: Compat,
) -> CollectorPlan {
    let environment = Environment {
        prometheus_aliases: ["other".to_owned()].into(),
        sqs_regions: ["eu-west-1".to_owned()].into(),
        compat,
        ..Environment::default()
    };
    CollectorPlan::new(&config(metric, key, values, compat), &environment).unwrap()
}

pub(crate) fn config(
    metric: Value,
    key: &str,
    values: &[(&str, &str)],
    compat: Compat,
) -> crate::MetricConfig {
    let annotations: serde_json::Map<_, _> = values
        .iter()
        .map(|(name, value)| (format!("metric-config.{key}/{name}"), json!(value)))
        .collect();
    let hpa: HorizontalPodAutoscaler = serde_json::from_value(json!({
        "metadata": {"namespace": "shop", "name": "web", "annotations": annotations},
        "spec": {"scaleTargetRef": target(), "maxReplicas": 10, "metrics": [metric]},
    }))
    .unwrap();
    let annotations = Annotations::parse(&hpa.metadata.annotations);
    assert_eq!(annotations.problems, []);
    metric_configs(&hpa, &annotations, compat).unwrap().remove(0)
}

pub(crate) fn target() -> CrossVersionObjectReference {
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    serde_json::from_value(target).unwrap()
}

pub(crate) async fn fetch(
    settings: Settings,
    objects: FakeCluster,
    plan: &CollectorPlan,
) -> Result<Values, FetchError> {
    fetch_with(&Clients::new(settings, Arc::new(objects)).unwrap(), plan).await
}

pub(crate) async fn fetch_with(
    clients: &Clients,
    plan: &CollectorPlan,
) -> Result<Values, FetchError> {
    let target = target();
    let context = Context::new(clients, "shop", &target, now());
    let mut values = plan.read(&context).await?;
    for sample in &mut values.samples {
        sample.value = plan.current_value(sample, &context).await?;
    }
    Ok(values)
}

/// The only value, in thousandths.
pub(crate) fn milli(fetched: Result<Values, FetchError>) -> i64 {
    let fetched = fetched.unwrap();
    assert_eq!(fetched.samples.len(), 1, "{fetched:?}");
    fetched.samples[0].value.as_milli()
}

/// The message of an error with its causes.
pub(crate) fn error(fetched: Result<Values, FetchError>) -> String {
    hpa_metrics::describe(&fetched.unwrap_err())
}

/// Whether the destination is not permitted.
pub(crate) fn is_refused(error: &FetchError) -> bool {
    match error {
        FetchError::Http { source: HttpError::Refused(_), .. } => true,
        FetchError::AllPods { first, .. } => is_refused(first),
        _ => false,
    }
}

/// The response of a test server.
#[derive(Clone)]
pub(crate) enum Reply {
    /// Bytes, then the connection is closed.
    Bytes(Vec<u8>),
    /// Bytes, then nothing until the client closes the connection.
    Stall(Vec<u8>),
    /// Bytes, then spaces until the client closes the connection.
    Flood(Vec<u8>),
}

pub(crate) fn ok(body: &str) -> Reply {
    with_status(200, body)
}

pub(crate) fn with_status(status: u16, body: &str) -> Reply {
    let length = body.len();
    Reply::Bytes(format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n\r\n{body}").into())
}

pub(crate) fn redirect(location: &str) -> Reply {
    let head = format!("HTTP/1.1 302 Found\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n");
    Reply::Bytes(head.into())
}

/// A server that records requests. Dropping it closes it.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    max_open: Arc<AtomicUsize>,
    task: JoinSet<()>,
}

impl Server {
    pub(crate) async fn start(respond: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_on("127.0.0.1:0", None, respond).await
    }

    pub(crate) async fn start_on(
        address: &str,
        tls: Option<ServerConfig>,
        respond: impl Fn(&str) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (requests, max_open) = (Arc::default(), Arc::default());
        let mut server = Self { address, requests, max_open, task: JoinSet::new() };
        let (requests, max_open) = (server.requests.clone(), server.max_open.clone());
        let respond = Arc::new(respond);
        let acceptor = tls.map(|config| TlsAcceptor::from(Arc::new(config)));
        server.task.spawn(async move {
            let (mut connections, open) = (JoinSet::new(), Arc::new(AtomicUsize::new(0)));
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                max_open.fetch_max(open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                let (requests, respond) = (requests.clone(), respond.clone());
                let (acceptor, open) = (acceptor.clone(), open.clone());
                connections.spawn(async move {
                    match acceptor {
                        None => serve(stream, &requests, &*respond).await,
                        Some(acceptor) => {
                            if let Ok(stream) = acceptor.accept(stream).await {
                                serve(stream, &requests, &*respond).await;
                            }
                        }
                    }
                    open.fetch_sub(1, Ordering::SeqCst);
                });
                while connections.try_join_next().is_some() {}
            }
        });
        server
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn port(&self) -> String {
        self.address.port().to_string()
    }

    /// The head and body of all requests.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().clone()
    }

    /// The largest number of concurrent connections.
    pub(crate) fn max_open(&self) -> usize {
        self.max_open.load(Ordering::SeqCst)
    }
}

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    recorded: &Mutex<Vec<String>>,
    respond: &(dyn Fn(&str) -> Reply + Send + Sync),
) {
    let Some(request) = read_request(&mut stream).await else { return };
    recorded.lock().push(request.clone());
    match respond(&request) {
        Reply::Bytes(bytes) => {
            stream.write_all(&bytes).await.ok();
            stream.shutdown().await.ok();
        }
        Reply::Stall(bytes) => {
            stream.write_all(&bytes).await.ok();
            while stream.read(&mut [0; 64]).await.is_ok_and(|count| count > 0) {}
        }
        Reply::Flood(bytes) => {
            stream.write_all(&bytes).await.ok();
            while stream.write_all(&[b' '; 4096]).await.is_ok() {}
        }
    }
}

async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(": ")?;
                name.eq_ignore_ascii_case("content-length").then(|| value.parse::<usize>().ok())?
            });
            if body.len() >= length.unwrap_or_default() {
                return Some(text);
            }
        }
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer).await.ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&buffer[..count]);
    }
}

/// A testbed whose requests can be made to fail.
pub(crate) fn faulty_testbed() -> (Testbed, Faults) {
    let faults = Faults::new(1);
    let interceptor = Some(Arc::new(faults.clone()) as Arc<_>);
    (Testbed::new(Config { interceptor, ..Config::default() }), faults)
}

/// The response of an API server that doesn't serve the requested API.
pub(crate) fn not_served() -> Effect {
    Effect::status(404, "NotFound", "404 page not found")
}

/// Records the messages of this crate's log events, from level INFO on, until the guard is dropped.
pub(crate) fn recorded_logs() -> (Arc<Mutex<Vec<String>>>, tracing::subscriber::DefaultGuard) {
    let logs = Arc::<Mutex<Vec<String>>>::default();
    (logs.clone(), tracing::subscriber::set_default(LogRecorder(logs)))
}

struct LogRecorder(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for LogRecorder {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("hpa_collectors") && *metadata.level() <= tracing::Level::INFO
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut |field: &tracing::field::Field, value: &dyn std::fmt::Debug| {
            if field.name() == "message" {
                self.0.lock().push(format!("{value:?}"));
            }
        });
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}
