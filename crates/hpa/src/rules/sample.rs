//! Objects and series that exist in Prometheus.

use std::{collections::BTreeMap, fmt::Write};

use hpa_prometheus::rules::results::QueryResult;
use hpa_prometheus::source::PrometheusProvider;
use jiff::{SignedDuration, Timestamp};

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

/// Says since when a selector has no samples, if it had some within the last day.
pub(super) async fn age(
    provider: &PrometheusProvider,
    server: &str,
    selector: &str,
) -> Option<String> {
    // Each step looks back five minutes, so that no sample is between two steps.
    let query = format!("time() - max(max_over_time(timestamp({selector})[1d:5m]))");
    let newest = match provider.query_server(server, &query).await.and_then(Result::ok).as_deref() {
        Some(QueryResult::Vector(Some(samples))) => samples.first().map(|sample| sample.value),
        _ => None,
    };
    let newest = newest.and_then(|age| SignedDuration::try_from_secs_f64(age.round()).ok());
    if let Some(age) = newest {
        return Some(format!("The newest sample is {age:#} old"));
    }
    // The query fails for a selector of several names.
    let had_series = had_series(provider, server, selector).await;
    had_series.then(|| "There were samples within the last day".to_owned())
}

async fn had_series(provider: &PrometheusProvider, server: &str, selector: &str) -> bool {
    let day = SignedDuration::from_hours(24);
    let since = Timestamp::now().saturating_sub(day).unwrap_or(Timestamp::UNIX_EPOCH);
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
