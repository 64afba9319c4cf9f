//! From a plan to values.

use std::sync::Arc;

use crate::jsonpath::Extractor;
use crate::plan::{Server, Source};
use hpa_calc::MilliValue;
use tokio::time::{Instant, timeout};

use crate::fetch::{
    error::FetchError,
    fetchers::{Context, Fetched, Fetchers},
    http::{Call, Destination, url},
    influx::FluxQuery,
    json,
};

/// A collection may take as long as this number of requests.
const REQUESTS: u32 = 4;

impl Fetchers {
    /// Reads the values of a plan once. Dropping the future closes its connections.
    pub async fn fetch(
        &self,
        source: &Source,
        context: &Context<'_>,
    ) -> Result<Fetched, FetchError> {
        let limits = self.http.limits();
        let limit = match source {
            // Those of pods have a limit of their own, which is shorter.
            Source::Pods(_) => limits.max_request_timeout,
            _ => limits.request_timeout,
        };
        let limit = limit * REQUESTS;
        let fetched = timeout(limit, self.read(source, context)).await;
        fetched.unwrap_or(Err(FetchError::Timeout(limit)))
    }

    async fn read(&self, source: &Source, context: &Context<'_>) -> Result<Fetched, FetchError> {
        let start = Instant::now();
        let value = match source {
            Source::Pods(source) => return self.pods(source, context).await,
            Source::Prometheus { query, server, per_replica } => {
                self.prometheus(query, server, *per_replica, context).await?
            }
            Source::Skipper { object, backend, is_averaged } => {
                self.skipper(object, backend, *is_averaged, context).await?
            }
            Source::ExternalRps { query } => {
                self.prometheus(query, &Server::Default, false, context).await?
            }
            Source::Http { endpoint, extractor } => self.endpoint(endpoint, extractor).await?,
            Source::Influx { query, address, token, org } => {
                let query = FluxQuery { query, address, token, org };
                self.influx(&query).await?
            }
            #[cfg(feature = "sqs")]
            Source::Sqs(queue) => self.sqs(queue, context.now).await?,
            #[cfg(feature = "zmon")]
            Source::Zmon(check) => return self.zmon(check).await,
            #[cfg(feature = "nakadi")]
            Source::Nakadi(subscription) => self.nakadi(subscription).await?,
            Source::Schedule { .. } => return Err(FetchError::Schedule),
            #[cfg(not(all(feature = "sqs", feature = "zmon", feature = "nakadi")))]
            other => return Err(FetchError::NotBuilt(other.collector())),
        };
        Ok(Fetched::single(value, context.time_since(start)))
    }

    /// A document of an endpoint.
    async fn endpoint(
        &self,
        endpoint: &str,
        extractor: &Extractor,
    ) -> Result<MilliValue, FetchError> {
        let uri = url::parse(endpoint)
            .map_err(|_| FetchError::Setting { key: "endpoint", value: endpoint.to_owned() })?;
        let call = Call::new(uri, Destination::Tenant, self.http.limits());
        let call = self.with_credential(call)?;
        let reply = self.http.get(&call).await?;
        let extractor = Arc::new(extractor.clone());
        json::number(&self.http, &call.uri, reply, &extractor, self.compat).await
    }
}
