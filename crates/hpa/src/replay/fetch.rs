//! Reads series from Prometheus, in chunks that it accepts.

use std::time::Duration;

use anyhow::{Context, bail};
use hpa_prometheus::client::{Client, RangeQuery};
use jiff::{SignedDuration, Timestamp};

use super::{
    query::Query,
    series::Series,
    window::{Chunk, Window},
};
use crate::simulate::progress::Progress;

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
            self.read_chunk(query, chunk, &mut series).await?;
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

    /// The value at the end of the window.
    pub(super) async fn read_last(&self, query: &Query) -> anyhow::Result<Option<f64>> {
        let end = self.window.end();
        let points = self.query_points(query, Chunk { start: end, end }).await?;
        Ok(points.first().map(|(_, value)| *value).filter(|value| value.is_finite()))
    }

    async fn read_chunk(
        &self,
        query: &Query,
        chunk: Chunk,
        series: &mut Series,
    ) -> anyhow::Result<()> {
        let delay = SignedDuration::try_from_secs_f64(query.delay).unwrap_or_default();
        let delayed = |time: Timestamp| time.checked_add(delay).unwrap_or(time);
        let shifted = Chunk { start: delayed(chunk.start), end: delayed(chunk.end) };
        for (ms, value) in self.query_points(query, shifted).await? {
            let time = Timestamp::from_millisecond(ms).ok();
            let time = time.and_then(|time| time.checked_sub(delay).ok());
            let index = time.and_then(|time| self.window.closest_point(time.as_millisecond()));
            let slot = index.and_then(|index| series.0.get_mut(index));
            if let (Some(slot), true) = (slot, value.is_finite()) {
                *slot = Some(value);
            }
        }
        Ok(())
    }

    /// Queries a chunk. Returns the times in milliseconds and the values of the only series, or
    /// nothing without a series.
    async fn query_points(&self, query: &Query, chunk: Chunk) -> anyhow::Result<Vec<(i64, f64)>> {
        let range = RangeQuery {
            query: query.text.clone(),
            start: chunk.start,
            end: chunk.end,
            step: Duration::from_secs(self.window.step.unsigned_abs()),
        };
        let client = query.client.as_ref().unwrap_or(self.client);
        let series = client.query_range(&range).await.with_context(|| {
            let url = client.settings().url_without_credentials();
            format!("unable to read {} from {url} with the query {}", query.subject, query.text)
        })?;
        let [one] = series.as_slice() else {
            if series.is_empty() {
                return Ok(Vec::new());
            }
            bail!(
                "the query for {} has {} series, not one: aggregate them, for example with \
                 sum(...). The query is {}",
                query.subject,
                series.len(),
                query.text
            );
        };
        Ok(one.points.clone())
    }
}
