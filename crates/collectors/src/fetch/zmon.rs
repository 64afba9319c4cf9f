//! Checks of ZMON, whose values are in `KairosDB`.

use std::collections::BTreeMap;

use crate::{plan::ZmonSource, promql};
use hpa_calc::MilliValue;
use http::{HeaderName, HeaderValue, header};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::fetch::{
    error::FetchError,
    fetchers::{Fetched, Fetchers, authorized},
    http::{Call, Destination, at, url},
};

const SERVICE: &str = "ZMON";
const AGGREGATORS: [&str; 7] = ["avg", "count", "last", "max", "min", "sum", "diff"];
/// The largest number of values that ZMON permits.
const LIMIT: u32 = 10_000;

#[derive(Serialize)]
struct Query<'q> {
    start_relative: Sampling,
    metrics: [Metric<'q>; 1],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct Sampling {
    value: i64,
    unit: &'static str,
}

#[derive(Serialize)]
struct Metric<'q> {
    name: String,
    limit: u32,
    tags: BTreeMap<&'q str, [&'q str; 1]>,
    group_by: Vec<Group>,
    aggregators: Vec<Aggregator<'q>>,
}

#[derive(Serialize)]
struct Group {
    name: &'static str,
    tags: [&'static str; 1],
}

#[derive(Serialize)]
struct Aggregator<'q> {
    name: &'q str,
    sampling: Sampling,
}

#[derive(Deserialize)]
struct Response {
    #[serde(default)]
    queries: Vec<QueryResult>,
}

#[derive(Deserialize)]
struct QueryResult {
    #[serde(default)]
    results: Vec<Series>,
}

#[derive(Deserialize)]
struct Series {
    /// Milliseconds since 1970, and a value.
    #[serde(default)]
    values: Vec<(f64, f64)>,
}

impl Fetchers {
    /// The last value of a check, with its own time. Nothing if there is none.
    pub(crate) async fn zmon(&self, check: &ZmonSource) -> Result<Fetched, FetchError> {
        let service = self.zmon.as_ref().ok_or(FetchError::NotConfigured(SERVICE))?;
        let query = serde_json::to_vec(&query(check)?).map_err(|_| unexpected())?;
        let uri = url::below(&service.url, "/api/v1/datapoints/query", &[]);
        let uri = uri.ok_or(FetchError::NotConfigured(SERVICE))?;
        let attribution = format!("hpa/{}", check.check_id);
        let attribution = HeaderValue::try_from(attribution).map_err(|_| unexpected())?;
        let call = Call::new(uri, Destination::Operator, self.http.limits())
            .post("application/json", query)
            .header(header::ACCEPT, HeaderValue::from_static("application/json"))
            .header(HeaderName::from_static("x-attribution"), attribution);
        let call = authorized(call, "Bearer", service.token.as_ref())?;
        let reply = self.http.send(&call).await?.ok().map_err(|source| at(&call.uri, source))?;
        let response: Response = serde_json::from_slice(&reply.body).map_err(|_| unexpected())?;
        let results = response.queries.into_iter().next().map(|query| query.results);
        let series = results.into_iter().flatten().next();
        let Some((time, value)) = series.and_then(|series| series.values.last().copied()) else {
            return Ok(Fetched::default());
        };
        #[expect(clippy::cast_possible_truncation, reason = "out of range is no time")]
        let at = Timestamp::from_millisecond(time as i64).map_err(|_| unexpected())?;
        let value = MilliValue::from_milli(promql::milli(value, self.compat)?);
        Ok(Fetched::single(value, at))
    }
}

fn unexpected() -> FetchError {
    FetchError::Response { service: SERVICE, problem: "it is not one of KairosDB" }
}

fn query(check: &ZmonSource) -> Result<Query<'_>, FetchError> {
    let sampling = sampling(check.duration);
    let aggregator = |name: &'_ String| {
        AGGREGATORS
            .into_iter()
            .find(|known| known == name)
            .map(|name| Aggregator { name, sampling })
            .ok_or_else(|| FetchError::Setting { key: "aggregators", value: name.clone() })
    };
    let mut metric = Metric {
        name: format!("zmon.check.{}", check.check_id),
        limit: LIMIT,
        tags: check.tags.iter().map(|(name, value)| (&**name, [&**value])).collect(),
        group_by: Vec::new(),
        aggregators: check.aggregators.iter().map(aggregator).collect::<Result<_, _>>()?,
    };
    if !check.key.is_empty() {
        metric.tags.insert("key", [&check.key]);
        metric.group_by.push(Group { name: "tag", tags: ["key"] });
    }
    Ok(Query { start_relative: sampling, metrics: [metric] })
}

/// A duration in the largest unit that it has at least one of, rounded.
fn sampling(nanos: i64) -> Sampling {
    const SECOND: i64 = 1_000_000_000;
    const DAY: i64 = 86_400 * SECOND;
    let units = [
        ("years", 365 * DAY),
        ("months", 30 * DAY),
        ("weeks", 7 * DAY),
        ("days", DAY),
        ("hours", 3600 * SECOND),
        ("minutes", 60 * SECOND),
        ("seconds", SECOND),
        ("milliseconds", 1_000_000),
    ];
    let found = units.into_iter().find(|(_, length)| nanos >= *length);
    let Some((unit, length)) = found else { return Sampling { value: 0, unit: "milliseconds" } };
    Sampling { value: nanos.saturating_add(length / 2) / length, unit }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("10m", 10, "minutes")]
    #[case("90m", 2, "hours")]
    #[case("36h", 2, "days")]
    #[case("1s", 1, "seconds")]
    #[case("1500us", 2, "milliseconds")]
    #[case("8760h", 1, "years")]
    #[case("1us", 0, "milliseconds")]
    #[case("-1h", 0, "milliseconds")]
    fn duration_has_the_largest_unit(
        #[case] duration: &str,
        #[case] value: i64,
        #[case] unit: &'static str,
    ) {
        let nanos = hpa_calc::go_duration::parse_nanos(duration).unwrap();
        assert_eq!(sampling(nanos), Sampling { value, unit });
    }
}
