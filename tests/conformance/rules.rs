//! `prometheus_rules`: names, metrics and queries of a rule of prometheus-adapter.

use std::{collections::BTreeMap, sync::Arc};

use hpa_calc::Selector;
use hpa_metrics::{
    CustomQuery, Objects,
    resource::{ApiResource, ApiResources, GroupResource},
};
use hpa_prometheus::rules::{
    Compat, Config, CustomRegistry, Rule, RuleSeries, Series, registry::DiscoveredRule,
    rule::Naming,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{adapter::cluster::RecordedKind, compare};

const COMPAT: Compat = Compat::Reference;

#[derive(Deserialize)]
struct Line {
    /// The rule, as in a rules file.
    rule: Value,
    #[serde(default)]
    series: Vec<SeriesFields>,
    #[serde(default)]
    queries: Vec<CustomCase>,
    #[serde(default)]
    external: Vec<ExternalCase>,
}

#[derive(Deserialize)]
struct SeriesFields {
    name: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CustomCase {
    resource: String,
    metric: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    names: Vec<String>,
    #[serde(default)]
    metric_selector: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExternalCase {
    series: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    metric_selector: String,
}

/// Compares the metrics and queries of a rule. `header` is the first line of the file.
pub(crate) fn check(line: &Value, header: &Value) -> Result<(), String> {
    let resources = resources(header)?;
    let case = Line::deserialize(line).map_err(|error| format!("line: {error}"))?;
    // JSON is YAML.
    let file = json!({ "rules": [case.rule] }).to_string();
    let config = Config::parse(&file).map_err(|error| format!("rule: {error}"))?;
    let rule = match Rule::new(&config.rules[0], &resources) {
        Ok(rule) => Arc::new(rule),
        Err(error) => return ensure_equal("configError", line, &json!(error.to_string())),
    };
    ensure_equal("configError", line, &Value::Null)?;
    let series: Vec<Series> = case.series.into_iter().map(SeriesFields::into_series).collect();
    let matching = series.iter().filter_map(|series| match rule.naming(&series.name) {
        Naming::Metric(metric) => Some((series.name.as_str(), metric)),
        _ => None,
    });
    let (filtered, names): (Vec<&str>, Vec<String>) = matching.unzip();
    ensure_equal("filtered", line, &json!(filtered))?;
    ensure_equal("names", line, &json!(names))?;

    let series = Arc::new(RuleSeries::new(&rule, &resources, &series));
    let source = DiscoveredRule { index: 0, rule: rule.clone(), series };
    let registry = CustomRegistry::new([&source]);
    let mut metrics: Vec<_> = registry.metrics().collect();
    metrics.sort_by_key(|metric| (metric.resource.to_string(), metric.metric.clone()));
    let metrics = metrics.iter().map(|metric| {
        let (resource, namespaced) = (metric.resource.to_string(), metric.is_namespaced);
        json!({"resource": resource, "namespaced": namespaced, "metric": metric.metric})
    });
    ensure_equal("metrics", line, &metrics.collect())?;

    for (index, case) in case.queries.iter().enumerate() {
        let query = custom_query(case, &registry, &resources)?;
        ensure_equal_in("queries", index, "query", line, &json!(query))?;
    }
    for (index, case) in case.external.iter().enumerate() {
        let selector = Selector::parse(&case.metric_selector).map_err(|error| error.to_string())?;
        let query =
            rule.external_query(&case.series, &case.namespace, &selector, &resources, COMPAT);
        let error = query.as_ref().err().map(ToString::to_string);
        ensure_equal_in("external", index, "query", line, &json!(query.ok()))?;
        ensure_equal_in("external", index, "error", line, &json!(error))?;
    }
    Ok(())
}

/// The query of a request. `None` if the metric is not found.
fn custom_query(
    case: &CustomCase,
    registry: &CustomRegistry,
    resources: &ApiResources,
) -> Result<Option<String>, String> {
    let (resource, group) = case.resource.split_once('.').unwrap_or((&case.resource, ""));
    let selector = Selector::parse(&case.metric_selector).map_err(|error| error.to_string())?;
    let request = CustomQuery {
        resource: GroupResource::new(group, resource),
        namespace: case.namespace.clone(),
        objects: Objects::Selected(Selector::everything()),
        metric: case.metric.clone(),
        metric_selector: selector,
    };
    Ok(registry.query(&request, &case.names, resources, COMPAT).ok())
}

/// The resources of the kinds in the first line of a file.
pub(crate) fn resources(header: &Value) -> Result<ApiResources, String> {
    let kinds = RecordedKind::all(header)?;
    Ok(ApiResources::new(kinds.into_iter().map(|kind| ApiResource {
        group_resource: GroupResource::new(&kind.group, &kind.plural),
        version: kind.version,
        kind: kind.kind,
        singular: kind.singular,
    })))
}

impl SeriesFields {
    fn into_series(self) -> Series {
        Series { name: self.name, labels: self.labels.into_keys().collect() }
    }
}

/// Compares a field of a line. Absent, `null` and empty lists are equal.
fn ensure_equal(field: &str, line: &Value, got: &Value) -> Result<(), String> {
    let expected = line.get(field).unwrap_or(&Value::Null);
    let is_empty = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    if is_empty(expected) && is_empty(got) {
        return Ok(());
    }
    compare::ensure_equal(field, expected, got)
}

/// Compares a field of an item in a list of a line.
fn ensure_equal_in(
    list: &str,
    index: usize,
    field: &str,
    line: &Value,
    got: &Value,
) -> Result<(), String> {
    let expected = line.pointer(&format!("/{list}/{index}/{field}")).unwrap_or(&Value::Null);
    compare::ensure_equal(&format!("{list}[{index}].{field}"), expected, got)
}
