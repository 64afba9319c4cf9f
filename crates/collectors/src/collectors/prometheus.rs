//! Reads the result of a Prometheus query.

use std::sync::Arc;

use async_trait::async_trait;
use hpa_calc::{MilliValue, report::error_texts};
use hpa_prometheus::{
    client::{Client, InstantQuery, QueryFailure, TimeoutParameter, decode_instant},
    promql,
    rules::results::QueryResult,
};

use crate::{
    Compat,
    collector::{Collector, Context, Environment, Server, Values, divide, to_milli},
    config::MetricConfig,
    error::{ConfigError, FetchError, HttpError, QueryError},
    guarded_http::{Destination, check_url_syntax, http_error, url},
    settings::DEFAULT_PROMETHEUS,
};

/// The maximum length of a query in an error. A failed metric keeps its error in memory.
const MAX_QUERY_CHARS_IN_ERROR: usize = 300;

/// The error of an external metric without a selector.
pub(super) const NO_SELECTOR: &str = "selector for prometheus query is not specified";

/// A query and its server.
#[derive(Clone, Debug)]
pub(crate) struct PrometheusQuery {
    pub(super) query: String,
    server: Server,
    division: Division,
    /// Whether a tenant wrote the query, in an annotation or label of the autoscaler.
    is_from_tenant: bool,
}

/// Whether and when a value is divided by the target's replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Division {
    None,
    /// Each time that the value is used, see [`Collector::is_per_replica`].
    AtUse,
    /// At the read, before the value is truncated to thousandths, as in kube-metrics-adapter.
    BeforeTruncation,
    /// At the read, after the truncation, as in kube-metrics-adapter for an Ingress or
    /// `RouteGroup`.
    AfterTruncation,
}

#[async_trait]
impl Collector for PrometheusQuery {
    fn parse(metric: &MetricConfig, environment: &Environment) -> Result<Self, ConfigError> {
        let is_external = metric.object.is_none();
        if is_external {
            metric.require_selector(NO_SELECTOR)?;
        }
        let (_, query) = query_setting(metric)?;
        let (server, division) = if is_external {
            (external_server(metric, environment)?, Division::None)
        } else {
            let division = match (metric.per_replica, environment.compat) {
                (false, _) => Division::None,
                (true, Compat::Off) => Division::AtUse,
                (true, Compat::Reference) => Division::BeforeTruncation,
            };
            (default_server(), division)
        };
        Ok(Self { query: query.to_owned(), server, division, is_from_tenant: true })
    }

    fn servers(&self) -> Vec<Server> {
        vec![self.server.clone()]
    }

    fn is_per_replica(&self) -> bool {
        self.division == Division::AtUse
    }

    async fn read(&self, context: &Context<'_>) -> Result<Values, FetchError> {
        let compat = context.clients.compat;
        let query = self.restricted_query(context)?;
        let result = self.query_server(query.clone(), context).await?;
        let milli_value = |replicas| {
            to_milli_value(&query, &result, replicas, compat).map_err(|mut error| {
                if let QueryError::NoResult { namespace, .. } = &mut error
                    && query != self.query
                {
                    *namespace = Some(context.namespace.to_owned());
                }
                error
            })
        };
        // Checks the result before the replicas are read.
        let milli = milli_value(None)?;
        let milli = match self.division {
            Division::None | Division::AtUse => milli,
            Division::BeforeTruncation => milli_value(Some(context.replicas().await?))?,
            Division::AfterTruncation => divide(milli, context.replicas().await?)?,
        };
        Ok(context.single(MilliValue::from_milli(milli)))
    }
}

impl PrometheusQuery {
    /// A query that a collector builds, to the operator's default server.
    pub(super) fn for_default_server(query: String, division: Division) -> Self {
        Self { query, server: default_server(), division, is_from_tenant: false }
    }

    /// The query to send. If [`Settings::namespace_label`](crate::Settings) is set, a tenant's
    /// query to the operator's server is restricted to the series of the autoscaler's namespace.
    fn restricted_query(&self, context: &Context<'_>) -> Result<String, FetchError> {
        let is_tenants_server = matches!(self.server, Server::Url(_));
        match &context.clients.namespace_label {
            Some(label) if self.is_from_tenant && !is_tenants_server => {
                promql::restrict(&self.query, label, context.namespace).map_err(|error| {
                    match promql::parse_without_regex_checks(&self.query) {
                        Ok(_) => FetchError::NotRestricted(error),
                        Err(error) => FetchError::QuerySyntax(error),
                    }
                })
            }
            _ => Ok(self.query.clone()),
        }
    }

    async fn query_server(
        &self,
        query: String,
        context: &Context<'_>,
    ) -> Result<Arc<QueryResult>, FetchError> {
        let clients = context.clients;
        match &self.server {
            Server::Url(url) => query_tenants_server(url, &query, context).await.map(Arc::new),
            Server::Operator(name) if name == DEFAULT_PROMETHEUS => {
                query_operators_server(clients.prometheus.as_ref(), query).await
            }
            Server::Operator(name) => {
                query_operators_server(clients.prometheus_servers.get(name), query).await
            }
            Server::Pods => Err(FetchError::NotConfigured("a Prometheus server")),
        }
    }
}

fn default_server() -> Server {
    Server::Operator(DEFAULT_PROMETHEUS.to_owned())
}

/// The server of an external metric's query.
fn external_server(
    metric: &MetricConfig,
    environment: &Environment,
) -> Result<Server, ConfigError> {
    if let Some(url) = metric.value("prometheus-server") {
        check_url_syntax("prometheus-server", url, environment.compat)?;
        return Ok(Server::Url(url.to_owned()));
    }
    let Some(alias) = metric.value("prometheus-server-alias") else { return Ok(default_server()) };
    if !environment.prometheus_aliases.contains(alias) {
        let message = format!("no additional prometheus server found for alias {alias}");
        return Err(ConfigError::of_setting("prometheus-server-alias", message));
    }
    Ok(Server::Operator(alias.to_owned()))
}

/// The name and the value of the setting that contains the query: `query`, or in the legacy form of
/// an external metric, the setting that `query-name` names.
pub(crate) fn query_setting(metric: &MetricConfig) -> Result<(&str, &str), ConfigError> {
    if let Some(query) = metric.value("query") {
        return Ok(("query", query));
    }
    if metric.object.is_some() {
        return Err(ConfigError::new("no prometheus query defined"));
    }
    let name = metric.require("query-name", "query or query name not specified on metric")?;
    Ok((name, metric.value(name).ok_or(ConfigError::NoQuery)?))
}

/// Queries a server whose URL is in the settings of the metric.
async fn query_tenants_server(
    server: &str,
    query: &str,
    context: &Context<'_>,
) -> Result<QueryResult, FetchError> {
    let clients = context.clients;
    if clients.namespace_label.is_some() && !clients.http.has_host_list() {
        return Err(FetchError::UrlNotRestricted);
    }
    let base = server.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
    let uri = url::parse(&format!("{base}/api/v1/query"))
        .map_err(|_| FetchError::setting("prometheus-server", server))?;
    let timeout = clients.limits().request_timeout.as_millis();
    let form = form_urlencoded::Serializer::new(String::new())
        .append_pair("query", query)
        .append_pair("timeout", &format!("{timeout}ms"))
        .finish();
    let request =
        context.request(uri, Destination::Tenant).post("application/x-www-form-urlencoded", form);
    let request = clients.with_credential(request, "Bearer")?;
    let reply = context.send(&request).await?;
    // With these statuses, Prometheus sends JSON.
    let is_json = reply.status.is_success() || matches!(reply.status.as_u16(), 400 | 422 | 503);
    if !is_json {
        return Err(http_error(&request.uri, HttpError::Status(reply.status)));
    }
    let result = decode_instant(&reply.body, Compat::Off);
    result.map_err(|failure| FetchError::Prometheus {
        server: hpa_metrics::url_origin(&request.uri),
        source: without_response_content(failure, ServerOwner::Tenant),
    })
}

async fn query_operators_server(
    client: Option<&Client>,
    query: String,
) -> Result<Arc<QueryResult>, FetchError> {
    let client = client.ok_or(FetchError::NotConfigured("a Prometheus server"))?;
    let query = InstantQuery { query, timeout: TimeoutParameter::Limit };
    client.query(&query).await.map_err(|failure| {
        let mut server = client.settings().name.clone();
        if failure.lacks_server() || matches!(failure, QueryFailure::StringResult) {
            server = format!("{server} at {}", client.settings().origin());
        }
        FetchError::Prometheus {
            server,
            source: without_response_content(failure, ServerOwner::Operator),
        }
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ServerOwner {
    Tenant,
    Operator,
}

/// Removes the content of responses from a failure, because messages may quote series. A message of
/// the operator's server about the syntax of a query (`bad_data`) is kept: it quotes only the
/// query.
fn without_response_content(failure: QueryFailure, owner: ServerOwner) -> QueryFailure {
    match failure {
        QueryFailure::Decode(_) | QueryFailure::StringResult => {
            QueryFailure::Decode("it is not JSON of its API, or has no numbers".to_owned())
        }
        // The hint may contain the destination of a redirection.
        QueryFailure::Status { server, status, .. } => {
            let (reported, hint) = (String::new(), String::new());
            QueryFailure::Status { server, status, reported, hint }
        }
        QueryFailure::Api { ref error_type, .. }
            if owner == ServerOwner::Tenant || error_type != "bad_data" =>
        {
            let message = "message omitted, because it may contain other tenants' data".to_owned();
            QueryFailure::Api { error_type: failure.reason(), message }
        }
        other => other,
    }
}

/// The value of a result in thousandths. With `replicas`, it is divided by their number, which
/// kube-metrics-adapter doesn't check.
fn to_milli_value(
    query: &str,
    result: &QueryResult,
    replicas: Option<i32>,
    compat: Compat,
) -> Result<i64, QueryError> {
    let no_result = |reason| {
        let query = query.chars().take(MAX_QUERY_CHARS_IN_ERROR).collect();
        QueryError::NoResult { query, reason, namespace: None }
    };
    let (value, nan) = match result {
        QueryResult::Vector(samples) => {
            let first = samples.iter().flatten().next();
            let first = first.ok_or_else(|| no_result(error_texts::NO_SAMPLES))?;
            (first.value, error_texts::NOT_A_NUMBER)
        }
        QueryResult::Scalar { value, .. } => (*value, error_texts::SCALAR_IS_NAN),
        // kube-metrics-adapter reads a matrix as 0. A string is no valid response.
        QueryResult::Other(_) if compat == Compat::Off => {
            return Err(no_result(error_texts::RANGE_VECTOR));
        }
        QueryResult::Other(_) => (0.0, error_texts::NOT_A_NUMBER),
    };
    if value.is_nan() {
        return Err(no_result(nan));
    }
    if value.is_infinite() && compat == Compat::Off {
        return Err(no_result(error_texts::INFINITE));
    }
    to_milli(replicas.map_or(value, |replicas| value / f64::from(replicas)), compat)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use hpa_prometheus::rules::results::Sample;

    use super::*;

    fn scalar(value: f64) -> QueryResult {
        QueryResult::Scalar { timestamp_ms: 0, value }
    }

    fn vector(values: &[f64]) -> QueryResult {
        let sample =
            |value: &f64| Sample { labels: BTreeMap::new(), timestamp_ms: 0, value: *value };
        QueryResult::Vector(Some(values.iter().map(sample).collect()))
    }

    #[test]
    fn result_without_a_finite_value_is_an_error_by_default() {
        let matrix = QueryResult::Other("matrix".to_owned());
        for (result, reference) in [(scalar(f64::INFINITY), i64::MIN), (matrix, 0)] {
            to_milli_value("q", &result, None, Compat::Off).expect_err("no value");
            assert_eq!(to_milli_value("q", &result, None, Compat::Reference), Ok(reference));
        }
        let nan = vector(&[f64::NAN]);
        to_milli_value("q", &nan, None, Compat::Reference).expect_err("NaN");
    }

    #[test]
    fn first_of_several_samples_is_the_value() {
        assert_eq!(to_milli_value("q", &vector(&[1.5, 9.0]), None, Compat::Off), Ok(1500));
    }

    #[test]
    fn first_sample_is_divided_by_any_number_of_replicas_if_compatible() {
        let read = |result: QueryResult, replicas| {
            to_milli_value("q", &result, Some(replicas), Compat::Reference)
        };
        assert_eq!(read(vector(&[1.5, 9.0]), 3), Ok(500));
        assert_eq!(read(scalar(1.0), 0), Ok(i64::MIN));
    }
}
