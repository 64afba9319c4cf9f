//! A fake Prometheus: series and current values of the pods' metrics, and past values for
//! forecasts.

mod past;
mod series;

use std::{convert::Infallible, fmt::Write as _, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use axum::{
    Json, Router,
    body::Body,
    extract::{RawForm, State},
    response::{IntoResponse as _, Response},
    routing::get,
};
use futures::{StreamExt as _, stream};
use http::{StatusCode, header};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::json;
use tokio::net::TcpListener;

pub(crate) use self::series::Catalog;
use crate::{
    args::{PrometheusArguments, SeriesArguments, Workloads},
    load::{Load, PodValue},
    objects,
    stats::PrometheusStats,
};

/// The path prefix of the fake Prometheus in `hpa-bench serve`.
pub(crate) const PATH_PREFIX: &str = "/prometheus";

/// A rules file that selects all series. [`objects::PODS_METRIC`] is one of its metrics.
pub(crate) const RULES: &str = r#"rules:
- seriesQuery: '{namespace!="",pod!=""}'
  resources:
    overrides:
      namespace: {resource: namespace}
      pod: {resource: pod}
  name:
    matches: '^(.*)_total$'
    as: '${1}_per_second'
  metricsQuery: 'sum(rate(<<.Series>>{<<.LabelMatchers>>}[2m])) by (<<.GroupBy>>)'
"#;

/// The time between two reports of `hpa-bench prometheus`.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);

/// A server of the part of Prometheus' API that adapters and controllers use.
#[derive(Clone)]
pub(crate) struct FakePrometheus {
    catalog: Catalog,
    load: Arc<Load>,
    stats: Arc<Mutex<PrometheusStats>>,
}

impl FakePrometheus {
    pub(crate) fn new(catalog: Catalog, load: Arc<Load>) -> Self {
        Self { catalog, load, stats: Arc::default() }
    }

    /// A server with series of the workloads' pods, as many as the arguments say, but at least one
    /// for each name.
    pub(crate) fn with_series(workloads: &Workloads, series: &SeriesArguments) -> Self {
        let population = workloads.population();
        let load = Load::new(&population);
        for (index, (namespace, name)) in (0..).zip(objects::targets(&population)) {
            load.add(&namespace, &name, index);
        }
        Self::new(Catalog::new(&population, series.series, series.names), Arc::new(load))
    }

    pub(crate) fn stats(&self) -> PrometheusStats {
        self.stats.lock().clone()
    }

    pub(crate) fn router(&self) -> Router {
        let series =
            async |State(server): State<Self>, RawForm(form)| server.respond_to_series(&form);
        let query =
            async |State(server): State<Self>, RawForm(form)| server.respond_to_query(&form);
        let range =
            async |State(server): State<Self>, RawForm(form)| server.respond_to_query_range(&form);
        Router::new()
            .route("/api/v1/query_range", get(range).post(range))
            .route("/api/v1/series", get(series).post(series))
            .route("/api/v1/query", get(query).post(query))
            .with_state(self.clone())
    }

    /// Serves in a task, and returns the URL.
    pub(crate) async fn spawn(&self, address: SocketAddr) -> Result<String> {
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("cannot listen on {address}"))?;
        let url = format!("http://{}", listener.local_addr()?);
        let router = self.router();
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(url)
    }

    /// `/api/v1/series`
    fn respond_to_series(&self, form: &[u8]) -> Response {
        let Some(selector) = form_parameter(form, "match[]") else {
            return error_response("no match[] parameter provided");
        };
        let name = Query::parse(&selector).map_or(selector, |query| query.series);
        let name = (!name.is_empty()).then_some(name);
        let stats = self.stats.clone();
        let end = stream::once(async move {
            stats.lock().series_responses += 1;
            axum::body::Bytes::new()
        });
        let parts = stream::iter(self.catalog.clone().response_parts(name.as_deref())).chain(end);
        let body = Body::from_stream(parts.map(Ok::<_, Infallible>));
        ([(header::CONTENT_TYPE, "application/json")], body).into_response()
    }

    /// `/api/v1/query`
    fn respond_to_query(&self, form: &[u8]) -> Response {
        let text = form_parameter(form, "query").unwrap_or_default();
        let Some(query) = Query::parse(&text) else {
            return error_response("hpa-bench answers only queries with a selector in braces");
        };
        let namespace = query.namespace.as_deref().unwrap_or_default();
        *self.stats.lock().queries.entry(namespace.to_owned()).or_default() += 1;
        let values = if self.catalog.has_name(&query.series) {
            self.load.pod_values(namespace, query.pods.as_deref())
        } else {
            Vec::new()
        };
        let body = vector_response(namespace, &values, &query.labels);
        ([(header::CONTENT_TYPE, "application/json")], body).into_response()
    }

    /// `/api/v1/query_range`: for any query, the CPU usage of an autoscaler's pods in the past.
    fn respond_to_query_range(&self, form: &[u8]) -> Response {
        let text = |name| form_parameter(form, name).unwrap_or_default();
        let Some(range) = past::Range::parse(&text("start"), &text("end"), &text("step")) else {
            return error_response("hpa-bench answers range queries of at most 11000 points");
        };
        // The peak is three times `low`. The pods for the peak are 1.5 times the initial ones,
        // fewer than `maxReplicas`.
        let low = f64::from(self.load.pods_per_target * objects::CPU_USAGE) / 1e3 / 2.0;
        ([(header::CONTENT_TYPE, "application/json")], range.response(low)).into_response()
    }
}

/// The response to an instant query: a value for each pod, with these labels.
fn vector_response(namespace: &str, values: &[PodValue], labels: &[String]) -> String {
    let has_label = |name: &str| labels.iter().any(|label| label == name);
    let namespace = if has_label("namespace") {
        format!(r#""namespace":"{namespace}""#)
    } else {
        String::new()
    };
    let has_pod = has_label("pod");
    let now = Timestamp::now().as_millisecond() as f64 / 1e3;
    let mut body = r#"{"status":"success","data":{"resultType":"vector","result":["#.to_owned();
    for (index, PodValue { pod, value }) in values.iter().enumerate() {
        let pod = if has_pod { format!(r#""pod":"{pod}""#) } else { String::new() };
        let comma = if pod.is_empty() || namespace.is_empty() { "" } else { "," };
        let separator = if index == 0 { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = write!(
            body,
            r#"{separator}{{"metric":{{{namespace}{comma}{pod}}},"value":[{now:.3},"{value}"]}}"#
        );
    }
    body.push_str("]}}");
    body
}

fn form_parameter(form: &[u8], name: &str) -> Option<String> {
    let mut pairs = form_urlencoded::parse(form);
    pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

fn error_response(message: &str) -> Response {
    let body = json!({ "status": "error", "errorType": "bad_data", "error": message });
    (StatusCode::BAD_REQUEST, Json(body)).into_response()
}

/// `hpa-bench prometheus`: serves until the process ends, and prints counts of the requests.
pub(crate) async fn run(arguments: &PrometheusArguments) -> Result<()> {
    let server = FakePrometheus::with_series(&arguments.workloads, &arguments.series);
    let url = server.spawn(arguments.listen).await?;
    eprintln!("hpa-bench: Prometheus is at {url}, matching rules:\n{RULES}");
    let mut last = PrometheusStats::default();
    loop {
        tokio::time::sleep(REPORT_INTERVAL).await;
        let stats = server.stats();
        if stats != last {
            eprintln!(
                "hpa-bench: {} responses with series, {} queries in {} namespaces",
                stats.series_responses,
                stats.total_queries(),
                stats.queries.len()
            );
            last = stats;
        }
    }
}

/// The first selector of a query, and the labels of the result.
#[derive(Debug, Default, PartialEq)]
struct Query {
    series: String,
    namespace: Option<String>,
    /// The names of the pods. `None` for all.
    pods: Option<Vec<String>>,
    /// The labels of the result, from `by`.
    labels: Vec<String>,
}

impl Query {
    /// Parses a query such as `sum(rate(SERIES{MATCHERS}[5m])) by (LABELS)`. Returns `None` without
    /// a selector in braces.
    fn parse(text: &str) -> Option<Self> {
        let (before, rest) = text.split_once('{')?;
        let (matchers, after) = split_matchers(rest)?;
        let is_name = |character: char| character.is_ascii_alphanumeric() || character == '_';
        let start = before.rfind(|character| !is_name(character)).map_or(0, |index| index + 1);
        let mut query = Self {
            series: before.get(start..)?.to_owned(),
            labels: by_labels(before).or_else(|| by_labels(after)).unwrap_or_default(),
            ..Self::default()
        };
        for (label, value) in matchers {
            match label {
                "__name__" => value.clone_into(&mut query.series),
                "namespace" => query.namespace = Some(value.to_owned()),
                "pod" if !value.is_empty() => {
                    query.pods = Some(value.split('|').map(str::to_owned).collect());
                }
                _ => {}
            }
        }
        Some(query)
    }
}

/// Splits `a="b",c=~"d|e"}rest` into pairs of label and value, and the rest. Matchers with `!=` or
/// `!~` are left out.
fn split_matchers(text: &str) -> Option<(Vec<(&str, &str)>, &str)> {
    let mut matchers = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        if let Some(after) = rest.strip_prefix('}') {
            return Some((matchers, after));
        }
        let (matcher, after) = rest.split_once('"')?;
        let (value, after) = after.split_once('"')?;
        rest = after;
        let is_negative = matcher.contains('!');
        if !is_negative {
            matchers.push((matcher.trim_end_matches(['=', '~', ' ']), value));
        }
    }
}

/// The labels of the first `by` clause.
fn by_labels(text: &str) -> Option<Vec<String>> {
    let (_, rest) = text.split_once("by")?;
    let (labels, _) = rest.trim_start().strip_prefix('(')?.split_once(')')?;
    Some(labels.split(',').map(|label| label.trim().to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::names(
        r#"sum(rate(m{namespace="n",pod=~"a-0|a-1"}[2m])) by (pod)"#,
        Some(&["a-0", "a-1"][..]),
        &["pod"]
    )]
    #[case::one_name(r#"sum(m{namespace="n",pod="a-0"}) by (pod)"#, Some(&["a-0"][..]), &["pod"])]
    #[case::all_pods(
        r#"sum by (namespace, pod) (rate(m{namespace="n"}[5m]))"#,
        None,
        &["namespace", "pod"]
    )]
    #[case::name_as_a_matcher(r#"{__name__="m", namespace="n", pod!=""}"#, None, &[])]
    fn query_is_parsed(#[case] text: &str, #[case] pods: Option<&[&str]>, #[case] labels: &[&str]) {
        let owned = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
        let expected = Query {
            series: "m".to_owned(),
            namespace: Some("n".to_owned()),
            pods: pods.map(owned),
            labels: owned(labels),
        };
        assert_eq!(Query::parse(text), Some(expected));
    }

    #[rstest]
    #[case("up")]
    #[case("m{a")]
    #[case(r#"m{a="b}"#)]
    fn query_without_a_selector_is_refused(#[case] text: &str) {
        assert_eq!(Query::parse(text), None);
    }
}
