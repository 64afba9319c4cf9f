//! Parses the values in a response.

use std::{collections::BTreeMap, fmt::Write};

use anyhow::{Context, bail};
use hpa_calc::Quantity;
use serde_json::Value;

use super::server::MetricsResponse;

/// Values by object, by labels, or by container and resource. An error is the status of the
/// response, and a text with status and message.
pub(super) type Values = Result<BTreeMap<String, Quantity>, (u16, String)>;

pub(super) fn parse(response: &MetricsResponse) -> anyhow::Result<Values> {
    if response.status != 200 {
        return Ok(Err((response.status, response.to_string())));
    }
    let kind = response.body.get("kind").and_then(Value::as_str).unwrap_or_default();
    let mut values = BTreeMap::new();
    for item in response.body.get("items").and_then(Value::as_array).into_iter().flatten() {
        match kind {
            "MetricValueList" => {
                values.insert(object_name(item), quantity(&item["value"])?);
            }
            "ExternalMetricValueList" => {
                values.insert(label_text(&item["metricLabels"]), quantity(&item["value"])?);
            }
            "PodMetricsList" => add_containers(item, &mut values)?,
            _ => bail!("unknown kind {kind:?}"),
        }
    }
    Ok(Ok(values))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn quantity(value: &Value) -> anyhow::Result<Quantity> {
    let text = value.as_str().context("a value is missing")?;
    text.parse().with_context(|| format!("the value {text:?}"))
}

/// The name of a value's object, such as `pod web-1`.
fn object_name(item: &Value) -> String {
    let described = &item["describedObject"];
    format!("{} {}", text(&described["kind"]).to_lowercase(), text(&described["name"]))
}

/// The labels of a value, such as `queue=orders,tenant=acme`.
fn label_text(labels: &Value) -> String {
    let mut result = String::new();
    for (name, value) in labels.as_object().into_iter().flatten() {
        let separator = if result.is_empty() { "" } else { "," };
        let _ = write!(result, "{separator}{name}={}", text(value));
    }
    if result.is_empty() { "without labels".to_owned() } else { result }
}

/// Adds the usage of a pod's containers, by names such as `pod web-1, container app: cpu`.
fn add_containers(item: &Value, values: &mut BTreeMap<String, Quantity>) -> anyhow::Result<()> {
    let pod = text(item.pointer("/metadata/name").unwrap_or(&Value::Null));
    for container in item["containers"].as_array().into_iter().flatten() {
        let name = text(&container["name"]);
        for (resource, value) in container["usage"].as_object().into_iter().flatten() {
            values.insert(format!("pod {pod}, container {name}: {resource}"), quantity(value)?);
        }
    }
    Ok(())
}
