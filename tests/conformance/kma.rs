//! `kma_hpa_config` and `kma_promql`: the metrics that kube-metrics-adapter collects for an
//! autoscaler.

use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;
use hpa_calc::{
    api::{CrossVersionObjectReference, HorizontalPodAutoscaler},
    go_duration,
    quantity::{Format, Quantity},
};
use hpa_collectors::{
    Clients, Cluster, CollectorPlan, Compat, ConfigError, Context, Environment, Ingress,
    LookupError, MetricConfig, Pod, RouteGroup, annotations::Annotations, metric_configs,
};
use hpa_prometheus::client::{Client, Settings};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    adapter::prometheus::Prometheus,
    compare::{ensure_equal, normalize},
};

const COMPAT: Compat = Compat::Reference;

fn environment(external_rps_metric: Option<&str>) -> Environment {
    let default = Environment::default();
    Environment {
        prometheus_aliases: BTreeSet::from(["internal".to_owned()]),
        sqs_regions: BTreeSet::from(["us-west-1".to_owned()]),
        external_rps_metric: external_rps_metric.unwrap_or(&default.external_rps_metric).to_owned(),
        compat: COMPAT,
        ..default
    }
}

fn configs(line: &Value) -> Result<(HorizontalPodAutoscaler, ConfigResult), String> {
    let hpa = HorizontalPodAutoscaler::deserialize(&line["hpa"])
        .map_err(|error| format!("hpa: {error}"))?;
    let annotations = Annotations::parse(&hpa.metadata.annotations);
    let configs = metric_configs(&hpa, &annotations, COMPAT);
    Ok((hpa, configs))
}

type ConfigResult = Result<Vec<MetricConfig>, ConfigError>;

/// Compares the configurations of an autoscaler's metrics, and the plans for reading them.
pub(crate) fn hpa_config(line: &Value) -> Result<(), String> {
    let (_, configs) = configs(line)?;
    let error = configs.as_ref().err().map(ToString::to_string);
    ensure_equal("error", &line["error"], &json!(error))?;
    let expected = line["configs"].as_array().map_or(&[][..], Vec::as_slice);
    let configs = configs.unwrap_or_default();
    ensure_equal("configs", &json!(expected.len()), &json!(configs.len()))?;
    for (expected, config) in expected.iter().zip(&configs) {
        compare_config(expected, config)?;
        let plan = CollectorPlan::new(config, &environment(None));
        compare_plan(&expected["collector"], config, &plan)?;
    }
    Ok(())
}

fn compare_config(expected: &Value, config: &MetricConfig) -> Result<(), String> {
    let mut metric = json!(config.metric);
    let mut expected_metric = expected["metric"].clone();
    normalize(&mut metric);
    normalize(&mut expected_metric);
    ensure_equal("metric", &expected_metric, &metric)?;
    let object = config.object.as_ref().map(|object| {
        json!({
            "apiVersion": object.api_version, "kind": object.kind, "name": object.name,
            "namespace": config.namespace,
        })
    });
    ensure_equal("object", &expected["object"], &json!(object))?;
    ensure_equal("type", &expected["type"], &json!(config.metric_type.name()))?;
    ensure_equal("config", &expected["config"], &json!(config.values()))?;
    ensure_equal("collectorType", &expected["collectorType"], &json!(config.collector))?;
    ensure_equal("perReplica", &expected["perReplica"], &json!(config.per_replica))?;
    ensure_equal_duration("interval", &expected["interval"], config.interval)?;
    ensure_equal_duration("minPodReadyAge", &expected["minPodReadyAge"], config.min_pod_ready_age)
}

fn compare_plan(
    expected: &Value,
    config: &MetricConfig,
    plan: &Result<CollectorPlan, ConfigError>,
) -> Result<(), String> {
    let error = expected["error"].as_str();
    match (error, plan) {
        (None, Ok(plan)) => {
            ensure_equal(
                "collector.kind",
                &expected["kind"],
                &json!(reference_collector(plan, config)),
            )?;
            ensure_equal_duration("collector.interval", &expected["interval"], plan.interval_nanos)
        }
        // The reference looks up the target, which may be missing. A plan does not.
        (Some(text), _) if text.ends_with("not found") && text.contains("pod label selector") => {
            Ok(())
        }
        // Messages about a JSONPath differ from the reference: they name the mistake in the path.
        (Some(_), Err(ConfigError::JsonPath(_))) => Ok(()),
        (Some(text), Err(error)) => {
            ensure_equal("collector.error", &json!(text), &json!(error.to_string()))
        }
        (Some(text), Ok(_)) => Err(format!("collector: expected the error {text}")),
        (None, Err(error)) => Err(format!("collector: unexpected error {error}")),
    }
}

/// The type of the reference's collector for a plan.
fn reference_collector(plan: &CollectorPlan, config: &MetricConfig) -> &'static str {
    let kind = config.object.as_ref().map(|object| object.kind.as_str());
    match plan.name {
        "pods" => "PodCollector",
        "prometheus" => "PrometheusCollector",
        "skipper" => "SkipperCollector",
        "external-rps" => "ExternalRPSCollector",
        "http" => "HTTPCollector",
        "influxdb" => "InfluxDBCollector",
        "sqs" => "AWSSQSCollector",
        "zmon" => "ZMONCollector",
        "nakadi" => "NakadiCollector",
        "schedule" if kind == Some("ScalingSchedule") => "ScalingScheduleCollector",
        "schedule" => "ClusterScalingScheduleCollector",
        _ => "unknown",
    }
}

/// Compares the query of an autoscaler's only metric, as sent over HTTP, and the metric's value.
pub(crate) fn promql(line: &Value) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| error.to_string())?.block_on(check_query(line))
}

async fn check_query(line: &Value) -> Result<(), String> {
    let (hpa, configs) = configs(line)?;
    let configs = configs.map_err(|error| error.to_string())?;
    let [config] = configs.as_slice() else { return Err("not one metric".to_owned()) };
    let environment = environment(line["externalRPSMetricName"].as_str());
    let plan = match CollectorPlan::new(config, &environment) {
        Ok(plan) => plan,
        Err(error) => {
            return ensure_equal("newError", &line["newError"], &json!(error.to_string()));
        }
    };
    ensure_equal("newError", &line["newError"], &Value::Null)?;
    let prometheus = Prometheus::start().await.map_err(|error| error.to_string())?;
    let recorded_query = line.pointer("/prometheusRequests/0/params/query").unwrap_or(&Value::Null);
    prometheus.expect(&json!([{
        "method": "POST", "path": "/api/v1/query", "params": [["query", recorded_query]],
        "response": line["prometheusResponse"],
    }]));
    let settings = Settings::new("prometheus", &format!("http://{}", prometheus.address));
    let settings = settings.map_err(|error| error.to_string())?;
    let client = Client::new(settings, Arc::new(())).map_err(|error| error.to_string())?;
    let settings = hpa_collectors::Settings {
        compat: COMPAT,
        prometheus: Some(client),
        weight_annotations: Deserialize::deserialize(&line["backendAnnotations"])
            .unwrap_or_default(),
        ..hpa_collectors::Settings::default()
    };
    let clients = Clients::new(settings, Arc::new(RecordedCluster(line.clone())));
    let clients = clients.map_err(|error| error.to_string())?;
    let target = &hpa.spec.scale_target_ref;
    let context = Context::new(&clients, &hpa.metadata.namespace, target, Timestamp::now());
    let values = plan.read(&context).await;
    let received = prometheus.received();
    let mut params = received.iter().flat_map(|one| one["params"].as_array().into_iter().flatten());
    let sent_query = params.find(|pair| pair[0] == "query").map(|pair| pair[1].clone());
    ensure_equal("query", recorded_query, &sent_query.unwrap_or_default())?;
    let expected = line.pointer("/values/0/value").unwrap_or(&Value::Null);
    let quantity = |milli| Quantity::from_milli(milli, Format::DecimalSI).to_string();
    let value = values.as_ref().ok().and_then(|values| values.samples.first());
    ensure_equal("value", expected, &json!(value.map(|sample| quantity(sample.value))))?;
    // The messages of errors may differ.
    ensure_equal("has error", &json!(!line["error"].is_null()), &json!(values.is_err()))
}

/// The recorded objects of a line: the target `web`, and an Ingress or `RouteGroup` named `main`.
struct RecordedCluster(Value);

impl RecordedCluster {
    fn named_main(&self, field: &str, kind: &str, name: &str) -> Result<&Value, LookupError> {
        let object = self.0.get(field).filter(|object| !object.is_null() && name == "main");
        object.ok_or_else(|| not_found(kind, name))
    }
}

fn not_found(kind: &str, name: &str) -> LookupError {
    let (kind, name) = (kind.to_owned(), name.to_owned());
    LookupError::NotFound { kind, namespace: String::new(), name }
}

#[async_trait]
impl Cluster for RecordedCluster {
    async fn pods(
        &self,
        _: &str,
        _: &CrossVersionObjectReference,
    ) -> Result<Vec<Pod>, LookupError> {
        Ok(Vec::new())
    }

    async fn replicas(
        &self,
        _: &str,
        target: &CrossVersionObjectReference,
    ) -> Result<i32, LookupError> {
        match target.kind.as_str() {
            "Deployment" | "StatefulSet" if target.name != "web" => {
                Err(not_found(&target.kind, &target.name))
            }
            "Deployment" | "StatefulSet" => {
                Ok(i32::deserialize(&self.0["targetReplicas"]).unwrap_or_default())
            }
            _ => Ok(0),
        }
    }

    async fn ingress(&self, _: &str, name: &str) -> Result<Ingress, LookupError> {
        let ingress = self.named_main("ingress", "Ingress", name)?;
        Ok(Ingress {
            hosts: Deserialize::deserialize(&ingress["hosts"]).unwrap_or_default(),
            annotations: Deserialize::deserialize(&ingress["annotations"]).unwrap_or_default(),
        })
    }

    async fn route_group(&self, _: &str, name: &str) -> Result<RouteGroup, LookupError> {
        let group = self.named_main("routegroup", "RouteGroup", name)?;
        let backends = group["defaultBackends"].as_array().into_iter().flatten();
        let backend = |backend: &Value| {
            let name = backend["backendName"].as_str().unwrap_or_default();
            (name.to_owned(), backend["weight"].as_i64().unwrap_or_default())
        };
        Ok(RouteGroup {
            hosts: Deserialize::deserialize(&group["hosts"]).unwrap_or_default(),
            default_backends: backends.map(backend).collect(),
        })
    }
}

fn ensure_equal_duration(field: &str, expected: &Value, got: i64) -> Result<(), String> {
    let text = expected.as_str().unwrap_or_default();
    let nanos = go_duration::parse_nanos(text).map_err(|error| format!("{field}: {error}"))?;
    ensure_equal(field, &json!(nanos), &json!(got))
}
