//! The recipes of the cookbook must have the same values with and without shared queries.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use hpa_calc::Selector;
use hpa_metrics::{
    CustomQuery, MetricSource as _, Objects, describe, resource::GroupResource, wire::MetricValue,
};
use hpa_prometheus::source::{PrometheusSource, SharingSettings};

use crate::{
    document::Recipe,
    reader::{NAMESPACE, Reader},
};

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
    let (resource, metric) = match (&recipe.metric.pods, &recipe.metric.object) {
        (Some(pods), _) => (GroupResource::pods(), pods.metric.name.clone()),
        (None, Some(object)) => {
            let described = &object.described_object;
            let group = described.api_version.split_once('/').map_or("", |(group, _)| group);
            let resolved = reader.resources.resolve(group, &described.kind.to_lowercase())?;
            (resolved.group_resource.clone(), object.metric.name.clone())
        }
        (None, None) => bail!("no custom metric"),
    };
    let request = CustomQuery {
        resource,
        namespace: NAMESPACE.to_owned(),
        objects: Objects::Selected(Selector::everything()),
        metric,
        metric_selector: Selector::everything(),
    };
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
