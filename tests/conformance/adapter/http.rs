//! `prometheus_adapter_http`: requests to the adapter, and its requests to Prometheus and the
//! cluster.

use std::{sync::Arc, time::Duration};

use hpa_adapter::{
    Adapter, AdapterOptions, Authenticator, Authorizer, AuthorizerOptions, Metrics, Peer, Trust,
    Version,
};
use hpa_calc::Selector;
use hpa_metrics::{Catalog, FixedMapper, KubeObjects, MetricSource, ObjectLister};
use hpa_prometheus::client::{Client, Settings, Verb, parse_header};
use hpa_prometheus::rules::{Compat, Config};
use hpa_prometheus::source::{PrometheusSettings, PrometheusSource, Servers};
use http::Request;
use hyper::body::Bytes;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{cluster::Cluster, normalize, prometheus::Prometheus};
use crate::{compare::ensure_equal, rules};

const COMPAT: Compat = Compat::Reference;
const PORT: u16 = 61_234;
const TOKEN: &str = "tok-123";

/// Compares a line: an adapter's requests for series when it starts, and its responses to requests.
pub(crate) async fn check(line: &Value, header: &Value) -> Result<(), String> {
    let text = |error: std::io::Error| error.to_string();
    let prometheus = Prometheus::start().await.map_err(text)?;
    let cluster = Cluster::new(header, &line["objects"])?;
    let token = tempfile::NamedTempFile::new().map_err(text)?;
    std::fs::write(token.path(), TOKEN).map_err(text)?;
    let flags = Flags::parse(line, &prometheus, token.path())?;
    let objects = Arc::new(KubeObjects::new(cluster.client()).with_pod_lists());
    let watched = objects.clone();
    tokio::spawn(async move { tokio::join!(watched.watch_pods(), watched.watch_nodes()) });
    let all = Selector::everything();
    while objects.nodes(&all).await.is_err() || objects.running_pods("", &all).await.is_err() {
        tokio::task::yield_now().await;
    }
    let source = Arc::new(new_source(line, header, flags, objects)?);
    prometheus.expect(&line["discovery"]);
    // In some recordings, discovery fails.
    source.relist().await.ok();
    let received = without_responses(&json!(prometheus.received()));
    ensure_equal("discovery", &without_responses(&line["discovery"]), &received)?;
    let options = AdapterOptions {
        groups: watch::channel(source.groups()).1,
        compat: COMPAT,
        port: PORT,
        version: Version::default(),
        stop: CancellationToken::new(),
    };
    let adapter = new_adapter(source, &cluster, options, &["/healthz", "/readyz", "/livez"])?;
    cluster.take_requests();
    let requests = line["requests"].as_array().into_iter().flatten();
    for (index, recorded) in requests.enumerate() {
        let outcome = check_request(&adapter, &prometheus, &cluster, recorded).await;
        outcome.map_err(|difference| {
            let (method, path) = (&recorded["method"], &recorded["path"]);
            format!("request {index} {method} {path} {}: {difference}", recorded["headers"])
        })?;
    }
    Ok(())
}

/// The source of a line's configuration and flags.
fn new_source(
    line: &Value,
    header: &Value,
    flags: Flags,
    objects: Arc<KubeObjects>,
) -> Result<PrometheusSource, String> {
    let yaml = line["config"].as_str().unwrap_or_default();
    let config = Config::parse(yaml).map_err(|error| format!("config: {error}"))?;
    let client = Client::new(flags.settings, Arc::new(()));
    let client = client.map_err(|error| format!("flags: {error}"))?;
    let servers = Servers::new(Some(client), Arc::new(()));
    let settings = PrometheusSettings {
        compat: COMPAT,
        relist_interval: flags.relist_interval,
        max_age: flags.max_age,
        ..PrometheusSettings::default()
    };
    let mapper = Arc::new(FixedMapper(rules::resources(header)?));
    let source = PrometheusSource::new(config, servers, settings, mapper, objects);
    source.map_err(|error| error.to_string())
}

struct Flags {
    settings: Settings,
    relist_interval: Duration,
    max_age: Duration,
}

impl Flags {
    fn parse(
        line: &Value,
        prometheus: &Prometheus,
        token: &std::path::Path,
    ) -> Result<Self, String> {
        let flags = line["flags"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let flags: Vec<(&str, &str)> =
            flags.map(|flag| flag.split_once('=').unwrap_or((flag, ""))).collect();
        let flag_value = |name: &str| {
            flags.iter().rev().find(|(flag, _)| *flag == name).map(|(_, value)| *value)
        };
        let url = flag_value("--prometheus-url").unwrap_or("http://prometheus");
        let url = url.replace("http://prometheus", &format!("http://{}", prometheus.address));
        let mut settings =
            Settings::new("prometheus", &url).map_err(|error| format!("url: {error}"))?;
        settings.compat = COMPAT;
        settings.verb = flag_value("--prometheus-verb")
            .map_or(Ok(Verb::Get), str::parse)
            .map_err(|error| error.to_string())?;
        settings.token_file = flag_value("--prometheus-token-file").map(|_| token.to_owned());
        let headers = flags.iter().filter(|(name, _)| *name == "--prometheus-header");
        settings.headers = headers
            .map(|(_, value)| parse_header(value))
            .collect::<Result<_, _>>()
            .map_err(|error| error.to_string())?;
        let duration = |name: &str| {
            let duration = flag_value(name).map(str::parse::<jiff::SignedDuration>).transpose();
            duration.map_err(|error| format!("{name}: {error}"))
        };
        let relist_interval = duration("--metrics-relist-interval")?;
        let relist_interval =
            relist_interval.map_or(Duration::from_secs(600), jiff::SignedDuration::unsigned_abs);
        let max_age = duration("--metrics-max-age")?;
        let max_age = max_age.map_or(relist_interval, jiff::SignedDuration::unsigned_abs);
        Ok(Self { settings, relist_interval, max_age })
    }
}

/// An adapter that sends its access reviews to the cluster.
pub(crate) fn new_adapter(
    source: Arc<dyn MetricSource>,
    cluster: &Arc<Cluster>,
    options: AdapterOptions,
    always_allowed: &[&str],
) -> Result<Adapter, String> {
    let authorizer = AuthorizerOptions {
        always_allowed: always_allowed.iter().map(ToString::to_string).collect(),
        // Reviews are not cached: in the recordings, each request has its own.
        allowed_lifetime: Duration::ZERO,
        denied_lifetime: Duration::ZERO,
    };
    let authorizer = Authorizer::new(Arc::new(cluster.client()), &authorizer);
    let authenticator = Arc::new(Authenticator::new(Trust::default(), None));
    let metrics = Arc::new(Metrics::new().map_err(|error| error.to_string())?);
    Ok(Adapter::new(source, authenticator, authorizer, metrics, options))
}

async fn check_request(
    adapter: &Adapter,
    prometheus: &Prometheus,
    cluster: &Cluster,
    recorded: &Value,
) -> Result<(), String> {
    prometheus.expect(&recorded["prometheus"]);
    check_body(recorded, &send(adapter, recorded).await?)?;
    let requests = cluster.take_requests();
    let lists = without_relists(&recorded["lists"], &requests.lists);
    ensure_equal("lists", &json!(lists), &json!(requests.lists))?;
    let access = requests.accesses.first();
    ensure_equal("authorization", &recorded["authorization"], &json!(access))?;
    let expected = without_responses(&recorded["prometheus"]);
    ensure_equal("prometheus", &expected, &without_responses(&json!(prometheus.received())))
}

/// Sends a recorded request, and compares the status and the content type of the response. Returns
/// the body.
pub(crate) async fn send(adapter: &Adapter, recorded: &Value) -> Result<Bytes, String> {
    let method = recorded["method"].as_str().unwrap_or_default();
    let mut request =
        Request::builder().method(method).uri(recorded["path"].as_str().unwrap_or_default());
    for (name, value) in recorded["headers"].as_object().into_iter().flatten() {
        request = request.header(name, value.as_str().unwrap_or_default());
    }
    let request = request.body(()).map_err(|error| error.to_string())?;
    let client = Peer::new([127, 0, 0, 1].into(), Vec::new());
    let response = adapter.respond(&request.into_parts().0, &client).await;
    ensure_equal("status", &recorded["status"], &json!(response.status().as_u16()))?;
    let content_type = response.headers().get(http::header::CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok());
    ensure_equal("contentType", &recorded["contentType"], &json!(content_type))?;
    Ok(response.into_body())
}

fn check_body(recorded: &Value, body: &[u8]) -> Result<(), String> {
    if let Some(expected) = recorded.get("bodyText") {
        let text = normalize::replace_current_times(&String::from_utf8_lossy(body));
        return ensure_equal("bodyText", expected, &json!(text));
    }
    let mut found = serde_json::from_slice(body).map_err(|error| {
        format!("the body is not JSON: {error}: {}", String::from_utf8_lossy(body))
    })?;
    normalize::replace_volatile_parts(&mut found, PORT);
    ensure_equal("body", &recorded["body"], &found)
}

/// The recorded lists, without those of all pods and all nodes at the end, which are relists of
/// caches.
fn without_relists<'v>(recorded: &'v Value, found: &[String]) -> &'v [Value] {
    let recorded = recorded.as_array().map(Vec::as_slice).unwrap_or_default();
    match recorded {
        [lists @ .., pods, nodes]
            if pods == "/api/v1/pods" && nodes == "/api/v1/nodes" && lists.len() == found.len() =>
        {
            lists
        }
        _ => recorded,
    }
}

/// The requests of exchanges, sorted. Leaves out followed redirections, and duplicates, because a
/// client repeats a request after a closed connection.
fn without_responses(exchanges: &Value) -> Value {
    let exchanges = exchanges.as_array().into_iter().flatten();
    let exchanges = exchanges.filter(|exchange| exchange["path"] != "/login");
    let mut requests: Vec<Value> = exchanges
        .map(|exchange| {
            let mut request = exchange.clone();
            if let Some(fields) = request.as_object_mut() {
                fields.remove("response");
            }
            for pair in request["params"].as_array_mut().into_iter().flatten() {
                if let Some(text) = pair[1].as_str() {
                    pair[1] = json!(normalize::sort_alternatives(text));
                }
            }
            request
        })
        .collect();
    requests.sort_by_key(ToString::to_string);
    requests.dedup();
    requests.into()
}
