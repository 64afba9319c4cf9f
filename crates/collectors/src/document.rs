//! Reads numbers from JSON documents, for the collectors `pods` and `http`.

use std::sync::Arc;

use hpa_calc::MilliValue;
use http::Uri;

use crate::{
    Compat,
    collector::{Context, to_milli},
    config::MetricConfig,
    error::{ConfigError, FetchError, HttpError},
    guarded_http::{Reply, http_error},
    jsonpath::{Aggregator, Extractor, Query},
};

/// The settings of a metric that is read from a document.
pub(crate) struct JsonSettings<'m> {
    key: &'m str,
    eval: &'m str,
    aggregator: Option<&'m str>,
}

impl<'m> JsonSettings<'m> {
    /// Fails unless exactly one of `json-key` and `json-eval` is set. `none` and `both` are the
    /// ends of the error messages, which differ between the collectors of kube-metrics-adapter.
    pub(crate) fn new(
        metric: &'m MetricConfig,
        none: &str,
        both: &str,
    ) -> Result<Self, ConfigError> {
        let value = |name: &str| metric.value(name).unwrap_or_default();
        let (key, eval) = (value("json-key"), value("json-eval"));
        let problem = match (key.is_empty(), eval.is_empty()) {
            (true, true) => format!("or json-eval {none}"),
            (false, false) => format!("and json-eval {both}"),
            _ => return Ok(Self { key, eval, aggregator: metric.value("aggregator") }),
        };
        Err(ConfigError::of_setting("json-eval", format!("config value json-key {problem}")))
    }

    pub(crate) fn extractor(&self, compat: Compat) -> Result<Arc<Extractor>, ConfigError> {
        let parse = |name: &str| {
            Aggregator::new(name).ok_or_else(|| ConfigError::Aggregator(name.to_owned()))
        };
        let aggregator = self.aggregator.map(parse).transpose()?;
        let query = if self.key.is_empty() {
            Query::expression(self.eval)
        } else {
            Query::key(self.key).map_err(ConfigError::JsonPath)?
        };
        Ok(Arc::new(Extractor::new(query, aggregator).with_compat(compat)))
    }
}

/// Extracts the number from a response, which must have the status 200. The evaluation runs on
/// another thread, because it may take a second of CPU and can't be interrupted.
pub(crate) async fn extract_number(
    context: &Context<'_>,
    uri: &Uri,
    reply: Reply,
    extractor: &Arc<Extractor>,
) -> Result<MilliValue, FetchError> {
    let mut reply = reply.ok().map_err(|source| http_error(uri, source))?;
    let clients = context.clients;
    let (extractor, body) = (extractor.clone(), std::mem::take(&mut reply.body));
    let number = clients.http.evaluate(context.namespace, move || extractor.extract(&body)).await;
    // The reply must live until here, because it holds the permit for a large body.
    drop(reply);
    let number =
        number.map_err(|error| http_error(uri, HttpError::EvaluationPanicked(error)))??;
    Ok(MilliValue::from_milli(to_milli(number, clients.compat)?))
}
