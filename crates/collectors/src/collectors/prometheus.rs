//! Reads the result of a Prometheus query.

use std::sync::Arc;

use async_trait::async_trait;
use hpa_calc::MilliValue;
use hpa_prometheus::{
    client::{Client, InstantQuery, QueryFailure, TimeoutParameter, decode_query},
    promql,
    rules::results::QueryResult,
};

use crate::{
    Compat,
    collector::{Collector, Context, Environment, Server, Values, milli, to_milli},
    config::MetricConfig,
    error::{ConfigError, FetchError, HttpError, QueryError},
    guarded_http::{Destination, check_url, http_error, url},
};

/// The name of the operator's default server.
pub(crate) const DEFAULT_SERVER: &str = "prometheus";

/// The maximum length of a query in an error, which failed metrics store.
const MAX_QUERY_IN_ERROR: usize = 300;

/// A query and its server.
#[derive(Clone, Debug)]
pub(crate) struct PrometheusQuery {
    pub(super) query: String,
    server: Server,
    division: Division,
    /// Whether a tenant wrote the query, in an annotation or label of the autoscaler.
    is_from_tenant: bool,
}

/// The division of a value by the target's replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Division {
    None,
    /// Before the value is converted to thousandths.
    PerReplica,
    /// After the conversion, as the reference does for an Ingress.
    Average,
}

#[async_trait]
impl Collector for PrometheusQuery {
    fn parse(metric: &MetricConfig, environment: &Environment) -> Result<Self, ConfigError> {
        if metric.object.is_some() {
            let query = metric.value("query").ok_or(ConfigError::NoObjectQuery)?.to_owned();
            let division = if metric.per_replica { Division::PerReplica } else { Division::None };
            return Ok(Self { division, is_from_tenant: true, ..Self::of_default_server(query) });
        }
        metric.labels().ok_or(ConfigError::PrometheusNoSelector)?;
        let query = if let Some(query) = metric.value("query") {
            query
        } else {
            // The legacy form: `query-name` names the key of the query.
            let name = metric.value("query-name").ok_or(ConfigError::NoQueryName)?;
            metric.value(name).ok_or(ConfigError::NoQuery)?
        };
        let named = (metric.value("prometheus-server"), metric.value("prometheus-server-alias"));
        let server = match named {
            (Some(url), _) => {
                check_url(url, environment.compat)
                    .map_err(|problem| ConfigError::Url(url.to_owned(), problem))?;
                Server::Url(url.to_owned())
            }
            (None, Some(alias)) if !environment.prometheus_aliases.contains(alias) => {
                return Err(ConfigError::PrometheusAlias(alias.to_owned()));
            }
            (None, Some(alias)) => Server::Operator(alias.to_owned()),
            (None, None) => Server::Operator(DEFAULT_SERVER.to_owned()),
        };
        Ok(Self { query: query.to_owned(), server, division: Division::None, is_from_tenant: true })
    }

    fn servers(&self) -> Vec<Server> {
        vec![self.server.clone()]
    }

    async fn read(&self, context: &Context<'_>) -> Result<Values, FetchError> {
        let compat = context.clients.compat;
        let result = self.result(context).await?;
        // An invalid result is an error before the replicas are read.
        let milli = value(&self.query, &result, None, compat)?;
        if self.division == Division::None {
            return Ok(context.single(MilliValue::from_milli(milli)));
        }
        let replicas = context.clients.cluster.replicas(context.namespace, context.target).await?;
        let milli = if self.division == Division::PerReplica {
            value(&self.query, &result, Some(replicas), compat)?
        } else {
            average(milli, replicas)?
        };
        Ok(context.single(MilliValue::from_milli(milli)))
    }
}

impl PrometheusQuery {
    /// A query that a collector builds, to the operator's default server.
    pub(super) fn of_default_server(query: String) -> Self {
        let server = Server::Operator(DEFAULT_SERVER.to_owned());
        Self { query, server, division: Division::None, is_from_tenant: false }
    }

    pub(super) fn divided(self, division: Division) -> Self {
        Self { division, ..self }
    }

    /// The query to send. With [`Settings::namespace_label`](crate::Settings), a tenant's query to
    /// the operator's server is restricted to the series of the autoscaler's namespace.
    fn sent_query(&self, context: &Context<'_>) -> Result<String, FetchError> {
        let is_tenants_server = matches!(self.server, Server::Url(_));
        match &context.clients.namespace_label {
            Some(label) if self.is_from_tenant && !is_tenants_server => {
                promql::restrict(&self.query, label, context.namespace)
                    .map_err(FetchError::NotRestricted)
            }
            _ => Ok(self.query.clone()),
        }
    }

    async fn result(&self, context: &Context<'_>) -> Result<Arc<QueryResult>, FetchError> {
        let clients = context.clients;
        let query = self.sent_query(context)?;
        match &self.server {
            Server::Url(url) => self.result_of_url(url, context).await.map(Arc::new),
            Server::Operator(name) if name == DEFAULT_SERVER => {
                result_of(clients.prometheus.as_ref(), query).await
            }
            Server::Operator(name) => result_of(clients.prometheus_servers.get(name), query).await,
            Server::Pods => Err(FetchError::NotConfigured("a Prometheus server")),
        }
    }

    /// Queries a server that the autoscaler names.
    async fn result_of_url(
        &self,
        server: &str,
        context: &Context<'_>,
    ) -> Result<QueryResult, FetchError> {
        let clients = context.clients;
        let base = server.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
        let uri = url::parse(&format!("{base}/api/v1/query"))
            .map_err(|_| FetchError::setting("prometheus-server", server))?;
        let form = form_urlencoded::Serializer::new(String::new())
            .append_pair("query", &self.query)
            .append_pair("timeout", &format!("{}s", clients.limits().request_timeout.as_secs()))
            .finish();
        let request = context.request(uri, Destination::Tenant);
        let request =
            clients.with_credential(request.post("application/x-www-form-urlencoded", form))?;
        let reply = context.send(&request).await?;
        // The statuses with JSON responses of Prometheus.
        let is_known =
            reply.status.is_success() || matches!(reply.status.as_u16(), 400 | 422 | 503);
        if !is_known {
            return Err(http_error(&request.uri, HttpError::Status(reply.status)));
        }
        let result = decode_query(&reply.body, Compat::Off);
        result.map_err(|failure| FetchError::Prometheus {
            server: url::origin(&request.uri),
            source: without_content(failure, ServerOwner::Tenant),
        })
    }
}

/// Queries a server of the operator.
async fn result_of(client: Option<&Client>, query: String) -> Result<Arc<QueryResult>, FetchError> {
    let client = client.ok_or(FetchError::NotConfigured("a Prometheus server"))?;
    let query = InstantQuery { query, timeout: TimeoutParameter::Limit };
    client.query(&query).await.map_err(|failure| FetchError::Prometheus {
        server: client.settings().name.clone(),
        source: without_content(failure, ServerOwner::Operator),
    })
}

/// Who configures a server: a tenant, in an autoscaler, or the operator.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ServerOwner {
    Tenant,
    Operator,
}

/// Removes the content of responses from a failure, because messages may quote series. Only
/// messages of the operator's servers about a query's syntax are kept, which quote nothing but the
/// query.
fn without_content(failure: QueryFailure, owner: ServerOwner) -> QueryFailure {
    match failure {
        QueryFailure::Decode(_) => QueryFailure::Decode("it is not JSON of its API".to_owned()),
        // The hint may contain the destination of a redirection.
        QueryFailure::Status { status, .. } => QueryFailure::Status { status, hint: String::new() },
        QueryFailure::Api { ref error_type, .. }
            if owner == ServerOwner::Tenant || error_type != "bad_data" =>
        {
            let message = "message omitted, because it may contain other tenants' data".to_owned();
            QueryFailure::Api { error_type: failure.reason(), message }
        }
        other => other,
    }
}

/// The value of a result in thousandths, divided by `replicas` if given.
fn value(
    query: &str,
    result: &QueryResult,
    replicas: Option<i32>,
    compat: Compat,
) -> Result<i64, QueryError> {
    let no_result = || QueryError::NoResult(query.chars().take(MAX_QUERY_IN_ERROR).collect());
    let value = match result {
        QueryResult::Vector(samples) => {
            samples.iter().flatten().next().ok_or_else(no_result)?.value
        }
        QueryResult::Scalar { value, .. } => *value,
        // The reference reads a matrix as 0, and can't decode a string.
        QueryResult::Other(kind) if compat != Compat::Off && kind == "matrix" => 0.0,
        QueryResult::Other(_) => return Err(no_result()),
    };
    if value.is_nan() {
        return Err(no_result());
    }
    let value = match replicas {
        Some(replicas) if replicas < 1 && compat == Compat::Off => {
            return Err(QueryError::NoReplicas(replicas));
        }
        Some(replicas) => value / f64::from(replicas),
        None => value,
    };
    milli(value, compat)
}

/// Divides a value by the replicas, for metrics whose target isn't an average.
fn average(milli: i64, replicas: i32) -> Result<i64, QueryError> {
    if replicas < 1 {
        return Err(QueryError::NoReplicas(replicas));
    }
    to_milli(milli as f64 / f64::from(replicas), Compat::Reference)
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
    fn nan_and_infinity_are_errors_unless_compatible() {
        let read = |result: QueryResult, replicas, compat| value("q", &result, replicas, compat);
        let infinite = scalar(f64::INFINITY);
        for (result, replicas, reference) in [
            (infinite, None, i64::MIN),
            (scalar(1.0), Some(0), i64::MIN),
            (QueryResult::Other("matrix".to_owned()), None, 0),
        ] {
            read(result.clone(), replicas, Compat::Off).expect_err("no value");
            assert_eq!(read(result, replicas, Compat::Reference), Ok(reference));
        }
        let nan = vector(&[f64::NAN]);
        read(nan, None, Compat::Reference).expect_err("NaN");
        assert_eq!(read(vector(&[1.5, 9.0]), Some(3), Compat::Off), Ok(500));
    }
}
