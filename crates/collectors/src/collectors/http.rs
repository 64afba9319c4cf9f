//! Reads a number from a JSON document of an HTTP endpoint.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;

use crate::{
    collector::{Collector, Context, Environment, Server, Values},
    config::MetricConfig,
    document::{self, JsonSettings},
    error::{ConfigError, FetchError},
    guarded_http::{Destination, check_url_syntax, url},
    jsonpath::Extractor,
};

/// The URL of a document, and the number to extract from it.
#[derive(Clone, Debug)]
pub(crate) struct HttpDocument {
    pub(crate) endpoint: String,
    pub(crate) extractor: Arc<Extractor>,
}

#[async_trait]
impl Collector for HttpDocument {
    fn parse(metric: &MetricConfig, environment: &Environment) -> Result<Self, ConfigError> {
        let (none, both) = ("not found", "cannot be used together");
        let json = JsonSettings::new(metric, none, both)?;
        let endpoint = metric.value("endpoint").ok_or(ConfigError::Missing("endpoint"))?.to_owned();
        check_url_syntax("endpoint", &endpoint, environment.compat)?;
        if metric.labels().is_none_or(BTreeMap::is_empty) {
            let name = &metric.metric.name;
            let message = format!("no label selector specified for metric: {name}");
            return Err(ConfigError::new(message));
        }
        Ok(Self { endpoint, extractor: json.extractor(environment.compat)? })
    }

    fn servers(&self) -> Vec<Server> {
        vec![Server::Url(self.endpoint.clone())]
    }

    async fn read(&self, context: &Context<'_>) -> Result<Values, FetchError> {
        let invalid = |_| FetchError::setting("endpoint", &self.endpoint);
        let uri = url::parse(&self.endpoint).map_err(invalid)?;
        let request = context.request(uri, Destination::Tenant);
        let request = context.clients.with_credential(request, "Bearer")?;
        let reply = context.get(&request).await?;
        let value = document::extract_number(context, &request.uri, reply, &self.extractor).await?;
        Ok(context.single(value))
    }
}
