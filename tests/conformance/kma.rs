//! `kma_hpa_config` and `kma_promql`: what kube-metrics-adapter collects for an autoscaler.

use std::collections::{BTreeMap, BTreeSet};

use hpa_calc::{
    api::HorizontalPodAutoscaler,
    go_duration,
    quantity::{Format, MilliValue, Quantity},
};
use hpa_collectors::{
    Compat, Environment, MetricConfig, Plan, PlanError,
    annotations::Annotations,
    metric_configs,
    plan::Source,
    promql::{self, Ingress, QueryResult, RouteGroup},
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::compare::{difference, normalize};

const COMPAT: Compat = Compat::KubeMetricsAdapter;

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

type ConfigResult = Result<Vec<MetricConfig>, PlanError>;

/// Compares the configurations of an autoscaler's metrics, and whether they can be collected.
pub(crate) fn hpa_config(line: &Value) -> Result<(), String> {
    let (hpa, configs) = configs(line)?;
    let error = configs.as_ref().err().map(ToString::to_string);
    same("error", &line["error"], &json!(error))?;
    let expected = line["configs"].as_array().map_or(&[][..], Vec::as_slice);
    let configs = configs.unwrap_or_default();
    same("configs", &json!(expected.len()), &json!(configs.len()))?;
    for (expected, config) in expected.iter().zip(&configs) {
        compare_config(expected, config)?;
        let plan = Plan::new(config, &hpa.spec.scale_target_ref, &environment(None));
        compare_plan(&expected["collector"], &plan)?;
    }
    Ok(())
}

fn compare_config(expected: &Value, config: &MetricConfig) -> Result<(), String> {
    let mut metric = json!(config.metric);
    let mut expected_metric = expected["metric"].clone();
    normalize(&mut metric);
    normalize(&mut expected_metric);
    same("metric", &expected_metric, &metric)?;
    let object = config.object.as_ref().map(|object| {
        json!({
            "apiVersion": object.api_version, "kind": object.kind, "name": object.name,
            "namespace": object.namespace,
        })
    });
    same("object", &expected["object"], &json!(object))?;
    same("type", &expected["type"], &json!(config.metric_type.name()))?;
    same("config", &expected["config"], &json!(config.values))?;
    same("collectorType", &expected["collectorType"], &json!(config.collector))?;
    same("perReplica", &expected["perReplica"], &json!(config.per_replica))?;
    same_duration("interval", &expected["interval"], config.interval)?;
    same_duration("minPodReadyAge", &expected["minPodReadyAge"], config.min_pod_ready_age)
}

fn compare_plan(expected: &Value, plan: &Result<Plan, PlanError>) -> Result<(), String> {
    let error = expected["error"].as_str();
    match (error, plan) {
        (None, Ok(plan)) => {
            same("collector.kind", &expected["kind"], &json!(kind(&plan.source)))?;
            same_duration("collector.interval", &expected["interval"], plan.interval)
        }
        // Whether the target exists is not known to the plan.
        (Some(text), _) if text.ends_with("not found") && text.contains("pod label selector") => {
            Ok(())
        }
        // Own texts, which say what is wrong with the path.
        (Some(_), Err(PlanError::JsonPath(_))) => Ok(()),
        (Some(text), Err(error)) => {
            same("collector.error", &json!(text), &json!(error.to_string()))
        }
        (Some(text), Ok(_)) => Err(format!("collector: expected the error {text}")),
        (None, Err(error)) => Err(format!("collector: unexpected error {error}")),
    }
}

fn kind(source: &Source) -> &'static str {
    match source {
        Source::Pods(_) => "PodCollector",
        Source::Prometheus { .. } => "PrometheusCollector",
        Source::Skipper { .. } => "SkipperCollector",
        Source::ExternalRps { .. } => "ExternalRPSCollector",
        Source::Http { .. } => "HTTPCollector",
        Source::Influx { .. } => "InfluxDBCollector",
        Source::Sqs(_) => "AWSSQSCollector",
        Source::Zmon(_) => "ZMONCollector",
        Source::Nakadi(_) => "NakadiCollector",
        Source::Schedule { is_cluster: false, .. } => "ScalingScheduleCollector",
        Source::Schedule { is_cluster: true, .. } => "ClusterScalingScheduleCollector",
    }
}

/// Compares the query of a metric and the value of its result.
pub(crate) fn promql(line: &Value) -> Result<(), String> {
    let (hpa, configs) = configs(line)?;
    let configs = configs.map_err(|error| error.to_string())?;
    let [config] = configs.as_slice() else { return Err("not one metric".to_owned()) };
    let environment = environment(line["externalRPSMetricName"].as_str());
    let plan = match Plan::new(config, &hpa.spec.scale_target_ref, &environment) {
        Ok(plan) => plan,
        Err(error) => return same("newError", &line["newError"], &json!(error.to_string())),
    };
    same("newError", &line["newError"], &Value::Null)?;
    let query = query(line, &plan.source);
    let sent = line.pointer("/prometheusRequests/0/params/query");
    same("query", sent.unwrap_or(&Value::Null), &json!(query.as_ref().ok()))?;
    let value = query.and_then(|query| value(line, &hpa, &plan.source, &query));
    let expected = line.pointer("/values/0/value").unwrap_or(&Value::Null);
    let milli = |milli| Quantity::from_milli(MilliValue::from_milli(milli), Format::DecimalSI);
    let shown = value.as_ref().ok().map(|value| milli(*value).to_string());
    same("value", expected, &json!(shown))?;
    // The text of an error is only a hint.
    same("has error", &json!(!line["error"].is_null()), &json!(value.is_err()))
}

fn query(line: &Value, source: &Source) -> Result<String, String> {
    let (object, backend) = match source {
        Source::Prometheus { query, .. } | Source::ExternalRps { query } => {
            return Ok(query.clone());
        }
        Source::Skipper { object, backend, .. } => (object, backend),
        other => return Err(format!("not a query: {other:?}")),
    };
    let name = if object.kind == "Ingress" { "ingress" } else { "routegroup" };
    let found = line.get(name).filter(|found| !found.is_null() && object.name == "main");
    let found = found.ok_or("not found")?;
    let hosts: Vec<String> = Deserialize::deserialize(&found["hosts"]).unwrap_or_default();
    let (namespace, name) = (object.namespace.as_str(), object.name.as_str());
    let query = if object.kind == "Ingress" {
        let annotations: BTreeMap<String, String> =
            Deserialize::deserialize(&found["annotations"]).unwrap_or_default();
        let ingress = Ingress { namespace, name, hosts: &hosts, annotations: &annotations };
        let names: Vec<String> =
            Deserialize::deserialize(&line["backendAnnotations"]).unwrap_or_default();
        promql::ingress(ingress, &names, backend, COMPAT)
    } else {
        let backends = found["defaultBackends"].as_array().cloned().unwrap_or_default();
        let backends: Vec<(String, i64)> = backends
            .iter()
            .map(|backend| {
                let name = backend["backendName"].as_str().unwrap_or_default();
                (name.to_owned(), backend["weight"].as_i64().unwrap_or_default())
            })
            .collect();
        let group = RouteGroup { namespace, name, hosts: &hosts, default_backends: &backends };
        promql::route_group(group, backend, COMPAT)
    };
    query.map_err(|error| error.to_string())
}

fn value(
    line: &Value,
    hpa: &HorizontalPodAutoscaler,
    source: &Source,
    query: &str,
) -> Result<i64, String> {
    let response = &line["prometheusResponse"];
    let body = response["body"].as_str().unwrap_or_default();
    let body: Value = serde_json::from_str(body).map_err(|error| error.to_string())?;
    if body["status"] != "success" {
        return Err(format!("{}: {}", body["errorType"], body["error"]));
    }
    let number = |sample: &Value| sample[1].as_str().and_then(|text| text.parse::<f64>().ok());
    let result = &body["data"]["result"];
    let result = match body["data"]["resultType"].as_str() {
        Some("scalar") => QueryResult::Scalar(number(result).ok_or("no number")?),
        Some("vector") => {
            let samples = result.as_array().map_or(&[][..], Vec::as_slice);
            QueryResult::Vector(samples.iter().filter_map(|item| number(&item["value"])).collect())
        }
        _ => QueryResult::Other,
    };
    let target = &hpa.spec.scale_target_ref;
    let replicas = || match target.kind.as_str() {
        "Deployment" | "StatefulSet" if target.name != "web" => Err("not found".to_owned()),
        "Deployment" | "StatefulSet" => {
            Ok(i32::try_from(line["targetReplicas"].as_i64().unwrap_or_default()).unwrap_or(0))
        }
        _ => Ok(0),
    };
    let divisor = match source {
        Source::Prometheus { per_replica: true, .. } => Some(()),
        _ => None,
    };
    // The result is checked before the replicas are read.
    promql::value(query, &result, None, COMPAT).map_err(|error| error.to_string())?;
    let divisor = divisor.map(|()| replicas()).transpose()?;
    let value =
        promql::value(query, &result, divisor, COMPAT).map_err(|error| error.to_string())?;
    match source {
        Source::Skipper { is_averaged: true, .. } => {
            promql::average(value, replicas()?).map_err(|error| error.to_string())
        }
        _ => Ok(value),
    }
}

fn same_duration(field: &str, expected: &Value, got: i64) -> Result<(), String> {
    let text = expected.as_str().unwrap_or_default();
    let nanos = go_duration::parse_nanos(text).map_err(|error| format!("{field}: {error}"))?;
    same(field, &json!(nanos), &json!(got))
}

fn same(field: &str, expected: &Value, got: &Value) -> Result<(), String> {
    difference(field, expected, got).map_or(Ok(()), Err)
}
