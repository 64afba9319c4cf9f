//! Queries to Prometheus.

use crate::{
    config::ObjectReference,
    plan::Server,
    promql::{self, QueryResult},
};
use hpa_calc::MilliValue;
use hpa_prometheus::client::{Client, InstantQuery, QueryFailure, TimeoutParameter};
use hpa_prometheus::rules::results::QueryResult as Response;

use crate::fetch::{
    error::{FetchError, HttpError},
    fetchers::{Context, Fetchers},
    http::{Call, Destination, at, url},
};

impl Fetchers {
    /// The value of a query, divided by the target's replicas if `per_replica`.
    pub(crate) async fn prometheus(
        &self,
        query: &str,
        server: &Server,
        per_replica: bool,
        context: &Context<'_>,
    ) -> Result<MilliValue, FetchError> {
        let result = self.query(query, server).await?;
        // Without a result, the replicas don't matter.
        let value = promql::value(query, &result, None, self.compat)?;
        if !per_replica {
            return Ok(MilliValue::from_milli(value));
        }
        let replicas = self.cluster.replicas(context.namespace, context.target).await?;
        let value = promql::value(query, &result, Some(replicas), self.compat)?;
        Ok(MilliValue::from_milli(value))
    }

    /// Requests per second of an Ingress or `RouteGroup`.
    pub(crate) async fn skipper(
        &self,
        object: &ObjectReference,
        backend: &str,
        is_averaged: bool,
        context: &Context<'_>,
    ) -> Result<MilliValue, FetchError> {
        let query = self.skipper_query(object, backend).await?;
        let result = self.query(&query, &Server::Default).await?;
        let value = promql::value(&query, &result, None, self.compat)?;
        if !is_averaged {
            return Ok(MilliValue::from_milli(value));
        }
        let replicas = self.cluster.replicas(context.namespace, context.target).await?;
        Ok(MilliValue::from_milli(promql::average(value, replicas)?))
    }

    async fn skipper_query(
        &self,
        object: &ObjectReference,
        backend: &str,
    ) -> Result<String, FetchError> {
        let ObjectReference { namespace, name, .. } = object;
        if object.kind == "Ingress" {
            let found = self.cluster.ingress(namespace, name).await?;
            let (hosts, annotations) = (&found.hosts, &found.annotations);
            let ingress = promql::Ingress { namespace, name, hosts, annotations };
            return Ok(promql::ingress(ingress, &self.weight_annotations, backend, self.compat)?);
        }
        let found = self.cluster.route_group(namespace, name).await?;
        let (hosts, default_backends) = (&found.hosts, found.default_backends.as_slice());
        let group = promql::RouteGroup { namespace, name, hosts, default_backends };
        Ok(promql::route_group(group, backend, self.compat)?)
    }

    async fn query(&self, query: &str, server: &Server) -> Result<QueryResult, FetchError> {
        let client = match server {
            Server::Default => self.prometheus.as_ref(),
            Server::Alias(name) => self.prometheus_servers.get(name),
            Server::Url(url) => return self.query_url(query, url).await,
        };
        let client = client.ok_or(FetchError::NotConfigured("a Prometheus server"))?;
        let response = self.query_client(query, client).await?;
        Ok(convert(&response))
    }

    async fn query_client(
        &self,
        query: &str,
        client: &Client,
    ) -> Result<std::sync::Arc<Response>, FetchError> {
        let query = InstantQuery { query: query.to_owned(), timeout: TimeoutParameter::Limit };
        client.query(&query).await.map_err(|source| FetchError::Prometheus {
            server: client.settings().name.clone(),
            source,
        })
    }

    /// Queries a server that a tenant names.
    async fn query_url(&self, query: &str, server: &str) -> Result<QueryResult, FetchError> {
        let url = server.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
        let uri = url::parse(&format!("{url}/api/v1/query")).map_err(|_| FetchError::Setting {
            key: "prometheus-server",
            value: server.to_owned(),
        })?;
        let form = form_urlencoded::Serializer::new(String::new())
            .append_pair("query", query)
            .append_pair("timeout", &format!("{}s", self.http.limits().request_timeout.as_secs()))
            .finish();
        let call = Call::new(uri, Destination::Tenant, self.http.limits());
        let call = self.with_credential(call.post("application/x-www-form-urlencoded", form))?;
        let reply = self.http.send(&call).await?;
        // With these, Prometheus responds with JSON.
        let is_known =
            reply.status.is_success() || matches!(reply.status.as_u16(), 400 | 422 | 503);
        if !is_known {
            return Err(at(&call.uri, HttpError::Status(reply.status)));
        }
        let response =
            hpa_prometheus::client::decode_query(&reply.body, hpa_prometheus::rules::Compat::Off);
        let response = response.map_err(|failure| FetchError::Prometheus {
            server: url::display(&call.uri),
            source: without_content(failure),
        })?;
        Ok(convert(&response))
    }
}

/// The failure without parts of a response that isn't one of Prometheus.
fn without_content(failure: QueryFailure) -> QueryFailure {
    match failure {
        QueryFailure::Decode(_) => QueryFailure::Decode("it has another form".to_owned()),
        other => other,
    }
}

fn convert(response: &Response) -> QueryResult {
    match response {
        Response::Vector(samples) => {
            let samples = samples.iter().flatten();
            QueryResult::Vector(samples.map(|sample| sample.value).collect())
        }
        Response::Scalar { value, .. } => QueryResult::Scalar(*value),
        Response::Other(_) => QueryResult::Other,
    }
}
