//! The default rules of the adapter's chart.

use std::fs;

use anyhow::{Context as _, Result, ensure};
use hpa_calc::{Quantity, Selector};
use hpa_metrics::{Catalog as _, CustomQuery, MetricSource as _, Objects, resource::GroupResource};
use hpa_tests::repository_path;

use crate::reader::{NAMESPACE, Reader, compare};

/// Resource, metric, object in the namespace `shop`, and value. The metric names are those of
/// prometheus-adapter's default rules.
const EXPECTED: &[(&str, &str, &str, f64)] = &[
    // Without the container `POD`.
    ("pods", "cpu_usage", "web-1", 0.25),
    ("pods", "network_receive_bytes", "web-1", 1000.0),
    ("pods", "memory_working_set_bytes", "web-1", 4096.0),
    ("services", "queue_length", "web", 3.0),
    ("pods", "http_requests", "web-1", 20.0),
    ("pods", "process_cpu", "web-1", 0.5),
];
/// Metrics that must not exist.
const ABSENT: &[&str] = &[
    "container_cpu_usage",
    "container_cpu_usage_seconds",
    "container_memory_working_set_bytes",
    "cpu_usage_seconds",
    "cpu_usage_seconds_total",
    "http_requests_total",
    "network_receive_bytes_total",
    "process_cpu_seconds",
    "process_cpu_seconds_total",
];

pub(crate) async fn check(reader: &Reader) -> Result<()> {
    let path = repository_path("charts/hpa-adapter/files/default-rules.yaml");
    let source = reader.source(&fs::read_to_string(path)?).await?;
    for listed in source.custom_metrics() {
        ensure!(!ABSENT.contains(&&*listed.metric), "{}/{}", listed.resource, listed.metric);
    }
    for (resource, metric, object, expected) in EXPECTED {
        let request = CustomQuery {
            resource: GroupResource::new("", resource),
            namespace: NAMESPACE.to_owned(),
            objects: Objects::Named((*object).to_owned()),
            metric: (*metric).to_owned(),
            metric_selector: Selector::everything(),
        };
        let values = source.read_custom(request).await;
        let values = values.with_context(|| format!("{resource}/{metric}"))?;
        let by_name = values.items.into_iter();
        let by_name = by_name.map(|item| (item.object.into(), Quantity::from(item.value).as_f64()));
        compare(&by_name.collect(), &[(object, *expected)])
            .with_context(|| values.origin.query.clone())?;
    }
    Ok(())
}
