//! Numbers in JSON documents, for the collectors that read documents.

use std::sync::Arc;

use hpa_calc::MilliValue;
use http::Uri;

use crate::{
    Compat,
    clients::Clients,
    collectors::prometheus::milli,
    config::MetricConfig,
    error::{ConfigError, FetchError, HttpError},
    guarded_http::{Reply, at},
    jsonpath::{self, Extractor, Query},
};

/// The settings of documents.
pub(crate) struct JsonSettings<'m> {
    pub(crate) key: &'m str,
    pub(crate) eval: &'m str,
    aggregator: Option<&'m str>,
}

impl<'m> JsonSettings<'m> {
    pub(crate) fn new(metric: &'m MetricConfig) -> Self {
        let value = |name: &str| metric.value(name).unwrap_or_default();
        Self {
            key: value("json-key"),
            eval: value("json-eval"),
            aggregator: metric.value("aggregator"),
        }
    }

    pub(crate) fn extractor(&self, compat: Compat) -> Result<Arc<Extractor>, ConfigError> {
        let unknown = |name: &str| ConfigError::Aggregator(name.to_owned());
        let aggregator =
            self.aggregator.map(|name| name.parse().map_err(|_| unknown(name))).transpose()?;
        let query = if self.key.is_empty() {
            Query::expression(self.eval)
        } else {
            Query::key(self.key).map_err(ConfigError::JsonPath)?
        };
        let compat = match compat {
            Compat::Off => jsonpath::Compat::Off,
            Compat::KubeMetricsAdapter => jsonpath::Compat::KubeMetricsAdapter,
        };
        Ok(Arc::new(Extractor::new(query, aggregator).with_compat(compat)))
    }
}

/// The number of a response, which must have the status 200.
pub(crate) async fn number(
    clients: &Clients,
    uri: &Uri,
    reply: Reply<'_>,
    extractor: &Arc<Extractor>,
) -> Result<MilliValue, FetchError> {
    let reply = reply.ok().map_err(|source| at(uri, source))?;
    let number = if reply.is_large() {
        let (extractor, mut reply) = (extractor.clone(), reply);
        let body = std::mem::take(&mut reply.body);
        // Held until the document is dropped, as the permits of the reply.
        let _decoder = clients.http.decoder().await;
        let number = tokio::task::spawn_blocking(move || extractor.extract(&body)).await;
        drop(reply);
        number.map_err(|error| at(uri, HttpError::Task(error)))??
    } else {
        extractor.extract(&reply.body)?
    };
    Ok(MilliValue::from_milli(milli(number, clients.compat)?))
}
