//! Objects and series that exist in Prometheus.

use std::{collections::BTreeMap, fmt::Write};

use hpa_provider::PrometheusProvider;
use hpa_rules::results::QueryResult;

/// How many objects a request without names is about.
const MAX_OBJECTS: usize = 20;

/// The labels of the newest series with a name. `None` if there is none.
pub(super) async fn labels(
    provider: &PrometheusProvider,
    server: &str,
    series: &str,
) -> Option<BTreeMap<String, String>> {
    vector(provider, server, &format!("topk(1, {{__name__={series:?}}})")).await?.into_iter().next()
}

/// The names of objects that a series has, in a label.
pub(super) async fn objects(
    provider: &PrometheusProvider,
    server: &str,
    series: &str,
    namespace: Option<(&str, &str)>,
    label: &str,
) -> Vec<String> {
    let mut matchers = format!("__name__={series:?},{label}!=\"\"");
    if let Some((label, value)) = namespace {
        // Writing to a string can't fail.
        let _ = write!(matchers, ",{label}={value:?}");
    }
    let query = format!("group by ({label}) ({{{matchers}}})");
    let found = vector(provider, server, &query).await.unwrap_or_default();
    let mut names: Vec<String> =
        found.into_iter().filter_map(|mut labels| labels.remove(label)).collect();
    names.sort_unstable();
    names.truncate(MAX_OBJECTS);
    names
}

/// Whether a selector has series of the last day.
pub(super) async fn had_series(
    provider: &PrometheusProvider,
    server: &str,
    selector: &str,
) -> bool {
    let day = jiff::SignedDuration::from_hours(24);
    let since = jiff::Timestamp::now().saturating_sub(day).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    let Some(client) = provider.client(server) else {
        return false;
    };
    let max_bytes = provider.settings().max_series_bytes;
    let count = client.read_series(selector, since, max_bytes, |reader| reader.for_each(|_, _| {}));
    count.await.is_ok_and(|count| count > 0)
}

async fn vector(
    provider: &PrometheusProvider,
    server: &str,
    query: &str,
) -> Option<Vec<BTreeMap<String, String>>> {
    match &*provider.query_server(server, query).await?.ok()? {
        QueryResult::Vector(Some(samples)) => {
            Some(samples.iter().map(|sample| sample.labels.clone()).collect())
        }
        _ => None,
    }
}
