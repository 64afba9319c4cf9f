//! The recipes of the cookbook must have the same values with and without shared queries.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use hpa_metrics::{CustomQuery, MetricSource as _, describe, wire::MetricValue};
use hpa_prometheus::source::{PrometheusSource, SharingSettings};

use crate::{cookbook::custom_query, document::Recipe, reader::Reader};

/// The recipes with custom metrics, and the objects that are read.
const SHARED: [(&str, &[&str]); 8] = [
    ("Requests per second", &["web-1", "web-2", "web-3", "api-1"]),
    ("Ratio", &["web-1", "web-2", "web-3"]),
    ("99th percentile", &["web", "api"]),
    ("Ingress", &["shop", "admin"]),
    ("JVM heap", &["web-1", "web-2"]),
    ("GPU utilization", &["web-1", "web-2"]),
    ("Recording rules", &["web", "api"]),
    ("Labels of kube-state-metrics", &["web", "api"]),
];

/// Reads the objects of a recipe with single and with shared queries, and compares the values.
pub(crate) async fn check(reader: &Reader, recipe: &Recipe) -> Result<()> {
    let found = SHARED.iter().find(|(title, _)| *title == recipe.title);
    let Some((_, objects)) = found else {
        ensure!(recipe.metric.external.is_some(), "not tested");
        return Ok(());
    };
    let request = custom_query(reader, &recipe.metric)?.context("no custom metric")?;
    let sharing = SharingSettings::for_sync_period(Duration::from_secs(15));
    let single = reader.source(&recipe.rules).await?;
    let shared = reader.source_with(&recipe.rules, Some(sharing)).await?;
    let mut value_count = 0;
    for object in *objects {
        let of_single = read(&single, &request, object).await;
        let of_shared = read(&shared, &request, object).await;
        ensure!(of_single == of_shared, "{object}: single {of_single:?}, shared {of_shared:?}");
        value_count += usize::from(of_single.is_ok());
    }
    ensure!(value_count > 0, "no object has a value");
    let counts = shared.query_counts();
    let counts = counts.first().context("no queries")?;
    ensure!((counts.single, counts.shared) == (1, 1), "{counts:?}");
    Ok(())
}

/// The value and its time, or the error.
async fn read(
    source: &PrometheusSource,
    request: &CustomQuery,
    object: &str,
) -> Result<Vec<MetricValue>, String> {
    let values = source.read_custom(request.clone().named(object)).await;
    values.map(|values| values.items).map_err(|error| describe(&error))
}
