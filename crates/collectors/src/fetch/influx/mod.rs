//! Queries to `InfluxDB` 2, in Flux. The value is the column `metricvalue` of the first row.

mod csv;

use crate::{Compat, promql};
use hpa_calc::MilliValue;
use http::{HeaderValue, header};
use serde::Deserialize;
use serde_json::json;

use crate::fetch::{
    error::{FetchError, HttpError},
    fetchers::{Fetchers, authorized},
    http::{Call, Destination, Reply, at, url},
    settings::{Credential, Secret},
};

const SERVICE: &str = "InfluxDB";
const MAX_MESSAGE: usize = 300;

/// A query, with what the autoscaler sets instead of the operator.
pub(crate) struct FluxQuery<'q> {
    pub(crate) query: &'q str,
    pub(crate) address: &'q Option<String>,
    pub(crate) token: &'q Option<String>,
    pub(crate) org: &'q Option<String>,
}

/// The response to a query that is refused.
#[derive(Deserialize)]
struct Refusal {
    #[serde(default)]
    message: String,
}

impl Fetchers {
    /// The value of a query. The reference drops it and reports 0.
    pub(crate) async fn influx(&self, query: &FluxQuery<'_>) -> Result<MilliValue, FetchError> {
        let call = self.influx_call(query)?;
        let body = json!({
            "query": query.query,
            "type": "flux",
            "dialect": {
                "annotations": ["datatype", "group", "default"], "delimiter": ",", "header": true,
            },
        });
        let csv = HeaderValue::from_static("application/csv");
        let call = call.header(header::ACCEPT, csv).post("application/json", body.to_string());
        let reply = self.http.send(&call).await?;
        if reply.status != http::StatusCode::OK {
            return Err(refusal(&call, &reply));
        }
        let value = csv::metric_value(&reply.body)
            .map_err(|problem| FetchError::Response { service: SERVICE, problem })?;
        Ok(MilliValue::from_milli(promql::milli(value, self.compat)?))
    }

    fn influx_call(&self, query: &FluxQuery<'_>) -> Result<Call, FetchError> {
        if query.token.is_some() && self.compat == Compat::Off {
            return Err(FetchError::TokenInAnnotation);
        }
        let own_token = query.token.as_ref().map(|token| Credential::Text(Secret::new(token)));
        let org = query.org.as_deref().unwrap_or(&self.influx_org);
        let limits = self.http.limits();
        let call = |base, destination| {
            let uri = url::below(base, "/api/v2/query", &[("org", org)]);
            uri.map(|uri| Call::new(uri, destination, limits))
        };
        let Some(address) = query.address else {
            let service = self.influx.as_ref().ok_or(FetchError::NotConfigured(SERVICE))?;
            let call = call(&service.url, Destination::Operator);
            let call = call.ok_or(FetchError::NotConfigured(SERVICE))?;
            return authorized(call, "Token", own_token.as_ref().or(service.token.as_ref()));
        };
        let invalid = || FetchError::Setting { key: "address", value: address.clone() };
        let base = url::parse(address).map_err(|_| invalid())?;
        let call = call(&base, Destination::Tenant).ok_or_else(invalid)?;
        match &own_token {
            Some(_) => authorized(call, "Token", own_token.as_ref()),
            // Never the operator's token: the tenant's server would get it.
            None => self.with_credential_as("Token", call),
        }
    }
}

/// What the operator's server says about a query. What another server says is not repeated.
fn refusal(call: &Call, reply: &Reply<'_>) -> FetchError {
    let is_refused = reply.status == http::StatusCode::BAD_REQUEST;
    let message = serde_json::from_slice::<Refusal>(&reply.body).ok().map(|body| body.message);
    match message.filter(|_| is_refused && call.destination == Destination::Operator) {
        Some(message) => {
            let message = message.chars().take(MAX_MESSAGE).collect();
            FetchError::Server { service: SERVICE, message }
        }
        None => at(&call.uri, HttpError::Status(reply.status)),
    }
}
