//! Parses the values in a response.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use hpa_calc::Quantity;
use serde_json::Value;

use super::server::MetricsResponse;
use crate::manifests::{items, string_at};

/// Values by object, by labels, or by container and resource. If the response has an error status,
/// the status, and a text with status and message.
pub(super) type Values = Result<BTreeMap<String, Quantity>, (u16, String)>;

pub(super) fn parse(response: &MetricsResponse) -> anyhow::Result<Values> {
    if response.status != 200 {
        return Ok(Err((response.status, response.to_string())));
    }
    let items = items(response.body.get("items"));
    let mut values = BTreeMap::new();
    match string_at(&response.body, "/kind") {
        "MetricValueList" => {
            for item in items {
                values.insert(object_name(item), quantity(&item["value"])?);
            }
        }
        "ExternalMetricValueList" => {
            for item in items {
                values.insert(label_text(&item["metricLabels"]), quantity(&item["value"])?);
            }
        }
        "PodMetricsList" => {
            for item in items {
                add_containers(item, &mut values)?;
            }
        }
        kind => bail!("unknown kind {kind:?}"),
    }
    Ok(Ok(values))
}

fn quantity(value: &Value) -> anyhow::Result<Quantity> {
    let text = value.as_str().context("a value is missing")?;
    text.parse().with_context(|| format!("the value {text:?}"))
}

/// The name of a value's object, such as `pod web-1`.
fn object_name(item: &Value) -> String {
    let kind = string_at(item, "/describedObject/kind").to_lowercase();
    format!("{kind} {}", string_at(item, "/describedObject/name"))
}

/// The labels of a value, such as `queue=orders,tenant=acme`.
fn label_text(labels: &Value) -> String {
    let labels = labels.as_object().into_iter().flatten();
    let pairs =
        labels.map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default()));
    let pairs = pairs.collect::<Vec<_>>().join(",");
    if pairs.is_empty() { "without labels".to_owned() } else { pairs }
}

/// Adds the usage of a pod's containers, by names such as `pod web-1, container app: cpu`.
fn add_containers(item: &Value, values: &mut BTreeMap<String, Quantity>) -> anyhow::Result<()> {
    let pod = string_at(item, "/metadata/name");
    for container in items(item.get("containers")) {
        let name = string_at(container, "/name");
        for (resource, value) in container["usage"].as_object().into_iter().flatten() {
            values.insert(format!("pod {pod}, container {name}: {resource}"), quantity(value)?);
        }
    }
    Ok(())
}
