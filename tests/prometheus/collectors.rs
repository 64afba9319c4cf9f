//! The collectors that query Prometheus: for an Ingress, for a `RouteGroup`, for host names, and
//! with a query from an annotation.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::{Context as _, Result, ensure};
use async_trait::async_trait;
use hpa_calc::api::{CrossVersionObjectReference, HorizontalPodAutoscaler};
use hpa_collectors::{
    Clients, Cluster, CollectorPlan, Context, Environment, Ingress, LookupError, Pod, Policy,
    RouteGroup, Settings, annotations::Annotations, metric_configs,
};
use hpa_prometheus::client::Client;
use jiff::Timestamp;
use serde_json::{Value, json};

const WEIGHTS: &str = "zalando.org/backend-weights";

/// An autoscaler's metric and annotations, and the expected value in thousandths.
struct Case {
    name: &'static str,
    metric: Value,
    annotations: Value,
    milli: i64,
}

/// A cluster that returns the same objects for all names, except for an Ingress `wildcard`.
struct FixedCluster;

#[async_trait]
impl Cluster for FixedCluster {
    async fn pods(
        &self,
        _: &str,
        _: &CrossVersionObjectReference,
    ) -> Result<Vec<Pod>, LookupError> {
        Ok(Vec::new())
    }

    async fn replicas(&self, _: &str, _: &CrossVersionObjectReference) -> Result<i32, LookupError> {
        Ok(4)
    }

    async fn ingress(&self, _: &str, name: &str) -> Result<Ingress, LookupError> {
        let host = if name == "wildcard" { "*.shop.example" } else { "a.shop.example" };
        let weights = r#"{"blue": 75, "green": 25}"#.to_owned();
        let annotations = BTreeMap::from([(WEIGHTS.to_owned(), weights)]);
        Ok(Ingress { hosts: vec![host.to_owned()], annotations })
    }

    async fn route_group(&self, _: &str, _: &str) -> Result<RouteGroup, LookupError> {
        let hosts = ["a.shop.example", "b.shop.example"].map(str::to_owned).to_vec();
        Ok(RouteGroup { hosts, default_backends: Vec::new() })
    }
}

fn object(kind: &str, name: &str, target_type: &str) -> Value {
    let field = if target_type == "Value" { "value" } else { "averageValue" };
    let metric = json!({
        "name": "requests-per-second", "selector": {"matchLabels": {"backend": "green"}},
    });
    json!({"type": "Object", "object": {
        "describedObject": {"apiVersion": "x/v1", "kind": kind, "name": name},
        "metric": metric, "target": {"type": target_type, field: "1"},
    }})
}

fn external(kind: &str) -> Value {
    json!({"type": "External", "external": {
        "metric": {"name": "m", "selector": {"matchLabels": {"type": kind}}},
        "target": {"type": "AverageValue", "averageValue": "1"},
    }})
}

/// Each second, the fixture counts 40 requests to `a.shop.example`, 12 to `b.shop.example`, and 8
/// to the wildcard host.
fn cases(url: &str) -> Vec<Case> {
    let case = |name, metric, annotations, milli| Case { name, metric, annotations, milli };
    let query = |query: &str| json!({"metric-config.external.m.prometheus/query": query});
    let query_and_server = json!({
        "metric-config.external.m.prometheus/query": "sum(queue_length) * 2",
        "metric-config.external.m.prometheus/prometheus-server": url,
    });
    vec![
        case("ingress", object("Ingress", "web", "AverageValue"), json!({}), 10_000),
        case("ingress_averaged", object("Ingress", "web", "Value"), json!({}), 2500),
        case(
            "ingress_of_a_wildcard",
            object("Ingress", "wildcard", "AverageValue"),
            json!({}),
            2000,
        ),
        case("route_group", object("RouteGroup", "web", "AverageValue"), json!({}), 52_000),
        case(
            "host_names",
            external("requests-per-second"),
            json!({
                "metric-config.external.m.requests-per-second/hostnames":
                    "a.shop.example,b.shop.example",
                "metric-config.external.m.requests-per-second/weight": "50",
            }),
            26_000,
        ),
        case("query", external("prometheus"), query("sum(queue_length)"), 8000),
        case("scalar", external("prometheus"), query("scalar(sum(queue_length)) / 16"), 500),
        case("server_of_the_autoscaler", external("prometheus"), query_and_server, 16_000),
    ]
}

/// The result of each case.
pub(crate) async fn check(url: &str) -> Result<Vec<(&'static str, Result<()>)>> {
    let client = Client::new(hpa_prometheus::client::Settings::new("default", url)?, Arc::new(()))?;
    let addresses = vec![std::net::Ipv4Addr::LOCALHOST.into()];
    let settings = Settings {
        policy: Policy { addresses, ..Policy::default() },
        prometheus: Some(client),
        weight_annotations: vec![WEIGHTS.to_owned()],
        ..Settings::default()
    };
    let clients = Clients::new(settings, Arc::new(FixedCluster))?;
    let mut results = Vec::new();
    for case in cases(url) {
        results.push((case.name, compare(&clients, &case).await));
    }
    let invalid_query = json!({"metric-config.external.m.prometheus/query": "sum("});
    let error = read(&clients, &external("prometheus"), &invalid_query).await.err();
    let error = error.map(|error| format!("{error:#}"));
    let is_explained = error.as_ref().is_some_and(|error| error.contains("bad_data: "));
    let result = if is_explained { Ok(()) } else { Err(anyhow::anyhow!("{error:?}")) };
    results.push(("invalid_query", result));
    Ok(results)
}

async fn compare(clients: &Clients, case: &Case) -> Result<()> {
    let milli = read(clients, &case.metric, &case.annotations).await?;
    // Prometheus extrapolates rates, so they are not exact.
    let is_close = (milli - case.milli).abs() * 100 <= case.milli;
    ensure!(is_close, "{milli} instead of {}", case.milli);
    Ok(())
}

/// The value of an autoscaler's metric, in thousandths.
async fn read(clients: &Clients, metric: &Value, annotations: &Value) -> Result<i64> {
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let hpa: HorizontalPodAutoscaler = serde_json::from_value(json!({
        "metadata": {"namespace": "shop", "name": "web", "annotations": annotations},
        "spec": {"scaleTargetRef": target, "maxReplicas": 10, "metrics": [metric]},
    }))?;
    let target = &hpa.spec.scale_target_ref;
    let annotations = Annotations::parse(&hpa.metadata.annotations);
    let environment = Environment::default();
    let configs = metric_configs(&hpa, &annotations, environment.compat)?;
    let config = configs.first().context("no metric")?;
    let context = Context::new(clients, "shop", target, Timestamp::now());
    let plan = CollectorPlan::new(config, &environment)?;
    let values = plan.read(&context).await?;
    let sample = values.samples.first().context("no value")?;
    Ok(plan.current_value(sample, &context).await?.as_milli())
}
