//! Numbers of documents.

use std::sync::Arc;

use crate::jsonpath::Extractor;
use crate::{Compat, promql};
use hpa_calc::MilliValue;

use crate::fetch::{
    error::{FetchError, HttpError},
    http::{Http, Reply, at},
};

/// The number of a response, which must have the status 200.
pub(crate) async fn number(
    http: &Http,
    uri: &http::Uri,
    reply: Reply<'_>,
    extractor: &Arc<Extractor>,
    compat: Compat,
) -> Result<MilliValue, FetchError> {
    let reply = reply.ok().map_err(|source| at(uri, source))?;
    let number = if reply.is_large() {
        let (extractor, mut reply) = (extractor.clone(), reply);
        let body = std::mem::take(&mut reply.body);
        // Held until the document is dropped, as the permits of the reply.
        let _decoder = http.decoder().await;
        let number = tokio::task::spawn_blocking(move || extractor.extract(&body)).await;
        drop(reply);
        number.map_err(|error| at(uri, HttpError::Task(error)))??
    } else {
        extractor.extract(&reply.body)?
    };
    Ok(MilliValue::from_milli(promql::milli(number, compat)?))
}
