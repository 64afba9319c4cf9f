//! Finds existing objects and series in Prometheus.

use std::collections::BTreeMap;

use hpa_metrics::with_causes;
use hpa_prometheus::{
    client::QueryFailure,
    promql::{self, Node},
    rules::{explain::Warning, results::QueryResult},
    source::PrometheusProvider,
};
use jiff::{SignedDuration, Timestamp};

/// The maximum number of objects or namespaces that are read as values of a label.
const MAX_OBJECTS: usize = 20;

type Labels = BTreeMap<String, String>;

/// A server of a rules file.
#[derive(Clone, Copy)]
pub(super) struct Server<'p> {
    pub(super) provider: &'p PrometheusProvider,
    pub(super) name: &'p str,
}

/// A selector for a series of a rule: the matchers of `seriesQuery`, and labels that must exist.
pub(super) fn selector(series_query: &str, series: &str, labels: &[&str]) -> String {
    let mut matchers = vec![format!("__name__={series:?}")];
    if let Ok(promql::Expr { node: Node::Selector(selector), .. }) = promql::parse(series_query) {
        let others = selector.matchers.iter().filter(|matcher| matcher.label != "__name__");
        matchers.extend(others.map(|matcher| matcher.source.to_owned()));
    }
    matchers.extend(labels.iter().map(|label| format!("{label}!=\"\"")));
    format!("{{{}}}", matchers.join(","))
}

impl Server<'_> {
    async fn query(&self, query: &str) -> Option<Result<Vec<(Labels, f64)>, QueryFailure>> {
        let result = match self.provider.query_server(self.name, query).await? {
            Ok(result) => result,
            Err(failure) => return Some(Err(failure)),
        };
        let QueryResult::Vector(Some(samples)) = &*result else { return Some(Ok(Vec::new())) };
        Some(Ok(samples.iter().map(|sample| (sample.labels.clone(), sample.value)).collect()))
    }

    async fn samples(&self, query: &str) -> Vec<(Labels, f64)> {
        self.query(query).await.and_then(Result::ok).unwrap_or_default()
    }

    /// The result of a query, or the failure as text.
    pub(super) async fn vector(&self, query: &str) -> Result<Vec<Labels>, String> {
        match self.query(query).await {
            Some(Ok(samples)) => Ok(samples.into_iter().map(|(labels, _)| labels).collect()),
            Some(Err(failure)) => Err(with_causes(&failure)),
            None => Err(format!("the file has no server {}", self.name)),
        }
    }

    /// The labels of the series with the newest sample.
    pub(super) async fn newest(&self, selector: &str) -> Option<Labels> {
        let query = format!("topk(1, timestamp({selector}))");
        self.samples(&query).await.into_iter().next().map(|(labels, _)| labels)
    }

    /// The sorted values of a label. A series without the label has an empty value.
    pub(super) async fn values(&self, label: &str, selector: &str) -> Vec<String> {
        let found = self.samples(&format!("group by ({label}) ({selector})")).await.into_iter();
        let mut values: Vec<String> =
            found.map(|(mut labels, _)| labels.remove(label).unwrap_or_default()).collect();
        values.sort_unstable();
        values.truncate(MAX_OBJECTS);
        values
    }

    /// The age of the newest sample of a selector, if it had one within the last day.
    pub(super) async fn age(&self, selector: &str) -> Option<String> {
        // Steps of 5 minutes find every series, but miss up to 5 minutes of its newest samples.
        let coarse = format!("max(max_over_time(timestamp({selector})[1d:5m]))");
        let newest = self.samples(&format!("max(timestamp({selector})) or {coarse}")).await;
        let newest = newest.first().map(|(_, time)| *time);
        if let Some(time) = newest {
            let end = time + 601.0;
            let fine = format!("max(max_over_time(timestamp({selector})[602s:1s] @ {end:.0}))");
            let exact = self.samples(&fine).await.first().map(|(_, time)| *time);
            let time = exact.unwrap_or(time).max(time);
            #[expect(clippy::cast_precision_loss, reason = "an age in seconds")]
            let age = Timestamp::now().as_second() as f64 - time;
            let age = SignedDuration::try_from_secs_f64(age.round()).ok()?;
            return Some(format!("The newest sample is {age:#} old"));
        }
        // The queries fail for a selector that matches several names of series.
        let had_series = self.had_series(selector).await;
        had_series.then(|| "There were samples within the last day".to_owned())
    }

    async fn had_series(&self, selector: &str) -> bool {
        let day = SignedDuration::from_hours(24);
        let since = Timestamp::now().saturating_sub(day).unwrap_or(Timestamp::UNIX_EPOCH);
        let Some(client) = self.provider.client(self.name) else {
            return false;
        };
        let max_bytes = self.provider.settings().max_series_bytes;
        let count = client
            .read_series(selector, since, max_bytes, |reader| reader.for_each(|_, _| {}))
            .await;
        count.is_ok_and(|count| count > 0)
    }

    /// Removes warnings about counters that are gauges according to Prometheus's metadata.
    pub(super) async fn remove_gauge_warnings(&self, warnings: &mut Vec<Warning>) {
        let mut verified = Vec::with_capacity(warnings.len());
        for warning in warnings.drain(..) {
            if let Warning::CounterWithoutRate { series } = &warning
                && self.is_gauge(series).await
            {
                continue;
            }
            verified.push(warning);
        }
        *warnings = verified;
    }

    async fn is_gauge(&self, series: &str) -> bool {
        let Some(client) = self.provider.client(self.name) else { return false };
        matches!(client.metric_type(series).await, Ok(Some(kind)) if kind == "gauge")
    }
}
