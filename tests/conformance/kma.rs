//! `kma_hpa_config` and `kma_promql`: the metrics that kube-metrics-adapter collects for an
//! autoscaler.

use std::{collections::BTreeSet, sync::Arc};

use hpa_calc::{
    api::HorizontalPodAutoscaler,
    go_duration,
    quantity::{Format, Quantity},
};
use hpa_collectors::{
    Clients, CollectorPlan, Compat, ConfigError, Context, Environment, MetricConfig,
    annotations::Annotations, metric_configs,
};
use hpa_prometheus::client::{Client, Settings};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    adapter::prometheus::Prometheus,
    compare::{ensure_equal, normalize},
    kma_http::objects::Objects,
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

type ConfigResult = Result<Vec<MetricConfig>, ConfigError>;

/// The autoscaler of a line, and the configurations of its metrics.
fn configs(line: &Value) -> Result<(HorizontalPodAutoscaler, ConfigResult), String> {
    let hpa = HorizontalPodAutoscaler::deserialize(&line["hpa"])
        .map_err(|error| format!("hpa: {error}"))?;
    let annotations = Annotations::parse(&hpa.metadata.annotations);
    let configs = metric_configs(&hpa, &annotations, COMPAT);
    Ok((hpa, configs))
}

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
        // kube-metrics-adapter looks up the target, which may be missing. A plan does not.
        (Some(text), _) if text.ends_with("not found") && text.contains("pod label selector") => {
            Ok(())
        }
        // Messages about a JSONPath differ from kube-metrics-adapter: they name the mistake in the
        // path.
        (Some(_), Err(ConfigError::JsonPath(_))) => Ok(()),
        (Some(text), Err(error)) => {
            ensure_equal("collector.error", &json!(text), &json!(error.to_string()))
        }
        (Some(text), Ok(_)) => Err(format!("collector: expected the error {text}")),
        (None, Err(error)) => Err(format!("collector: unexpected error {error}")),
    }
}

/// The type of kube-metrics-adapter's collector for a plan.
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
pub(crate) async fn promql(line: &Value) -> Result<(), String> {
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
    let namespace = &hpa.metadata.namespace;
    let clients = Clients::new(settings, Arc::new(recorded_objects(line, namespace)));
    let clients = clients.map_err(|error| error.to_string())?;
    let target = &hpa.spec.scale_target_ref;
    let context = Context::new(&clients, namespace, target, Timestamp::now());
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
fn recorded_objects(line: &Value, namespace: &str) -> Objects {
    let target = |kind: &str| {
        json!({
            "kind": kind, "metadata": { "name": "web", "namespace": namespace },
            "status": { "replicas": line["targetReplicas"] },
        })
    };
    let mut objects = vec![target("Deployment"), target("StatefulSet")];
    let (ingress, route_group) = (&line["ingress"], &line["routegroup"]);
    if !ingress.is_null() {
        let hosts = ingress["hosts"].as_array().into_iter().flatten();
        let rules: Vec<Value> = hosts.map(|host| json!({ "host": host })).collect();
        let annotations = &ingress["annotations"];
        objects.push(json!({
            "kind": "Ingress",
            "metadata": { "name": "main", "namespace": namespace, "annotations": annotations },
            "spec": { "rules": rules },
        }));
    }
    if !route_group.is_null() {
        let metadata = json!({ "name": "main", "namespace": namespace });
        objects.push(json!({ "kind": "RouteGroup", "metadata": metadata, "spec": route_group }));
    }
    Objects::new(&objects.into())
}

fn ensure_equal_duration(field: &str, expected: &Value, got: i64) -> Result<(), String> {
    let text = expected.as_str().unwrap_or_default();
    let nanos = go_duration::parse_nanos(text).map_err(|error| format!("{field}: {error}"))?;
    ensure_equal(field, &json!(nanos), &json!(got))
}
