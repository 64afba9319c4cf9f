//! Reads series from Prometheus, in chunks that it accepts.

use std::time::Duration;

use anyhow::bail;
use hpa_prometheus::client::{Client, QueryFailure, RangeQuery, Settings};
use jiff::Timestamp;

use super::{query::Query, series::Series, window::Window};
use crate::simulate::Progress;

/// A failed query. The text is for the operator: it may have the query and the path of the URL.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(super) struct ReadFailure {
    text: String,
    /// The cause for users of the cluster: without the query, a path or text from a response.
    pub(super) cause: String,
}

/// Reads the series of a window.
pub(super) struct Reader<'a> {
    pub(super) client: &'a Client,
    pub(super) window: Window,
    pub(super) progress: Option<&'a Progress>,
}

impl Reader<'_> {
    /// Reads a query, whose result must be at most one series. Without one, all steps are gaps.
    pub(super) async fn read(&self, query: &Query) -> anyhow::Result<Series> {
        let mut series = Series::empty(self.window.len());
        for chunk in self.window.chunks() {
            self.read_chunk(query, &chunk, &mut series).await?;
            if let Some(progress) = self.progress {
                progress.add(1.0);
            }
        }
        Ok(series)
    }

    /// Like [`Self::read`], but a query without a result is an error.
    pub(super) async fn read_required(&self, query: &Query) -> anyhow::Result<Series> {
        let series = self.read(query).await?;
        if series.is_empty() {
            let Query { subject, text, advice, .. } = query;
            let (from, to) = (self.window.start, self.window.end());
            bail!(
                "Prometheus has no samples of {subject} from {from} to {to}: {advice}. The query \
                 is {text}"
            );
        }
        Ok(series)
    }

    async fn read_chunk(
        &self,
        query: &Query,
        chunk: &Window,
        series: &mut Series,
    ) -> anyhow::Result<()> {
        let delayed = |time: Timestamp| time.checked_add(query.delay).unwrap_or(time);
        let (start, end) = (delayed(chunk.start), delayed(chunk.end()));
        for (ms, value) in self.query_points(query, start, end).await? {
            let time = Timestamp::from_millisecond(ms).ok();
            let time = time.and_then(|time| time.checked_sub(query.delay).ok());
            let index = time.and_then(|time| self.window.closest_point(time.as_millisecond()));
            if value.is_finite()
                && let Some(step) = index.and_then(|index| series.0.get_mut(index))
            {
                *step = Some(value);
            }
        }
        Ok(())
    }

    /// Queries a part of the window. Returns the times in milliseconds and the values of the only
    /// series. Empty if there is none.
    async fn query_points(
        &self,
        query: &Query,
        start: Timestamp,
        end: Timestamp,
    ) -> anyhow::Result<Vec<(i64, f64)>> {
        let range = RangeQuery {
            query: query.text.clone(),
            start,
            end,
            step: Duration::from_secs(self.window.step_seconds.unsigned_abs()),
        };
        let client = query.client.as_ref().unwrap_or(self.client);
        let series = client.query_range(&range).await;
        let series = series.map_err(|failure| read_error(query, client.settings(), &failure))?;
        if series.len() > 1 {
            let Query { subject, text, .. } = query;
            let cause = format!("the query for {subject} has {} series, not one", series.len());
            let text =
                format!("{cause}: aggregate them, for example with sum(...). The query is {text}");
            return Err(ReadFailure { text, cause }.into());
        }
        Ok(series.into_iter().next().unwrap_or_default())
    }
}

/// The error of a failed query. It has the text of the query only if the query is at fault, because
/// that text is long.
fn read_error(query: &Query, server: &Settings, failure: &QueryFailure) -> ReadFailure {
    let Query { subject, text, .. } = query;
    let url = server.url_without_credentials();
    let text = if failure.is_caused_by_query() {
        format!("unable to read {subject} from {url}: {failure}. The query is {text}")
    } else {
        format!("unable to read {subject}: {}", failure.describe_with_server(&url))
    };
    ReadFailure { text, cause: failure.reason_with_server(&server.origin()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_has_the_query_only_if_it_is_at_fault() {
        let query = Query::new("replicas", "max(a) or max(b)".to_owned(), "");
        let settings = Settings::new("main", "http://p:9090/x").unwrap();
        let error = |failure| read_error(&query, &settings, &failure).to_string();
        let address: std::sync::Arc<str> = "p:9090".into();
        let refused = QueryFailure::Request { address, cause: "Connection refused".to_owned() };
        let expected = "unable to read replicas: the request to Prometheus at p:9090 failed: \
                        Connection refused";
        assert_eq!(error(refused), expected);
        let expected = "unable to read replicas: Prometheus at http://p:9090/x: the response isn't \
                        a response of Prometheus: EOF";
        assert_eq!(error(QueryFailure::Decode("EOF".to_owned())), expected);
        let rejected = || QueryFailure::Api {
            error_type: "bad_data".to_owned(),
            message: "parse error".to_owned(),
        };
        let expected = "unable to read replicas from http://p:9090/x: bad_data: parse error. The \
                        query is max(a) or max(b)";
        assert_eq!(error(rejected()), expected);
        let cause = read_error(&query, &settings, &rejected()).cause;
        assert_eq!(cause, "Prometheus at http://p:9090: Prometheus reported bad_data");
    }
}
