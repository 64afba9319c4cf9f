//! Reads values of ZMON checks from `KairosDB`.

use std::collections::BTreeMap;

use async_trait::async_trait;
use hpa_calc::MilliValue;
use http::{HeaderName, HeaderValue, header};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    Compat,
    clients::add_credential,
    collector::{Collector, Context, Environment, Server, Values, to_milli},
    config::{MetricConfig, integer_setting, nanos_setting},
    error::{ConfigError, FetchError},
    guarded_http::{Destination, Reply, http_error, url},
};

/// The name in errors.
const DISPLAY_NAME: &str = "ZMON";
/// The name in `Settings::services` and in permissions.
const SERVICE_KEY: &str = "zmon";
const DEFAULT_DURATION_NANOS: i64 = 600_000_000_000;
const AGGREGATORS: [&str; 7] = ["avg", "count", "last", "max", "min", "sum", "diff"];
/// The maximum number of aggregators. It limits the length of the query.
const MAX_AGGREGATORS: usize = 16;
/// The server's clock may be at most this far behind the local clock.
const MAX_SKEW: SignedDuration = SignedDuration::from_secs(30);
/// The time of a value may be at most this far ahead of the local clock. A value further ahead
/// would count as fresh until the local clock reaches its time.
const MAX_AHEAD: SignedDuration = SignedDuration::from_secs(60);
/// The maximum number of values that the server may return.
const MAX_VALUES: u32 = 10_000;

/// A duration in the JSON of `KairosDB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct KairosDuration {
    value: i64,
    unit: &'static str,
    /// The same duration in nanoseconds.
    #[serde(skip)]
    nanos: i64,
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

/// A check, and the selection of its data.
#[derive(Clone, Debug)]
pub(crate) struct ZmonCheck {
    check_id: i64,
    key: String,
    /// Names, without the prefix `tag-`, and values.
    tags: Vec<(String, String)>,
    aggregators: Vec<String>,
    /// The length of the period before now whose values are read, in nanoseconds.
    duration: i64,
}

#[async_trait]
impl Collector for ZmonCheck {
    fn parse(metric: &MetricConfig, _: &Environment) -> Result<Self, ConfigError> {
        metric.require_selector("selector for zmon-check is not specified")?;
        let check_id = metric.require("check-id", "ZMON check ID not specified on metric")?;
        let check_id = integer_setting("check-id", check_id)?;
        let duration = match metric.value("duration") {
            Some(text) => nanos_setting("duration", text)?,
            None => DEFAULT_DURATION_NANOS,
        };
        let tag = |(key, value): (&str, &str)| {
            Some((key.strip_prefix("tag-")?.to_owned(), value.to_owned()))
        };
        let aggregators = metric.value("aggregators").unwrap_or("last");
        if aggregators.split(',').count() > MAX_AGGREGATORS {
            return Err(ConfigError::Invalid("aggregators", aggregators.to_owned()));
        }
        Ok(Self {
            check_id,
            key: metric.value("key").unwrap_or_default().to_owned(),
            tags: metric.values().into_iter().filter_map(tag).collect(),
            aggregators: aggregators.split(',').map(str::to_owned).collect(),
            duration,
        })
    }

    fn servers(&self) -> Vec<Server> {
        vec![Server::Operator(SERVICE_KEY.to_owned())]
    }

    /// Reads the last value of the check. Without data, there is no sample, and no error.
    async fn read(&self, context: &Context<'_>) -> Result<Values, FetchError> {
        let compat = context.clients.compat;
        let reply = self.query_server(context).await?;
        let undecodable = || unexpected_response("the body can't be decoded");
        let response: Response = serde_json::from_slice(&reply.body).map_err(|_| undecodable())?;
        let results = response.queries.into_iter().next().map(|query| query.results);
        let series = results.into_iter().flatten().next();
        let Some((time, value)) = series.and_then(|series| series.values.last().copied()) else {
            return Ok(Values::default());
        };
        #[expect(clippy::cast_possible_truncation, reason = "the limits of i64 are no valid times")]
        let at = Timestamp::from_millisecond(time as i64).map_err(|_| undecodable())?;
        // The server may ignore the duration of the query, and return an older value. An aggregate
        // has the time of its first point, so a current one may be as old as the duration.
        let age = context.now.duration_since(at);
        let max_age = SignedDuration::from_nanos(round_duration(self.duration).nanos) + MAX_SKEW;
        if compat == Compat::Off && age > max_age {
            return Ok(Values::default());
        }
        if compat == Compat::Off && age < -MAX_AHEAD {
            let problem = "the time of the last value is more than a minute ahead";
            return Err(unexpected_response(problem));
        }
        let value = MilliValue::from_milli(to_milli(value, compat)?);
        Ok(Values::single(value, at))
    }
}

impl ZmonCheck {
    async fn query_server(&self, context: &Context<'_>) -> Result<Reply, FetchError> {
        let service = context.clients.service(SERVICE_KEY);
        let service = service.ok_or(FetchError::NotConfigured(DISPLAY_NAME))?;
        let query = build_query(self)?.to_string();
        let uri = url::with_path(&service.url, "/api/v1/datapoints/query", &[]);
        let uri = uri.ok_or(FetchError::NotConfigured(DISPLAY_NAME))?;
        let attribution = format!("hpa/{}", self.check_id);
        let attribution = HeaderValue::try_from(attribution)
            .map_err(|_| FetchError::setting("check-id", &self.check_id.to_string()))?;
        let request = context
            .request(uri, Destination::Operator)
            .post("application/json", query)
            .header(header::ACCEPT, HeaderValue::from_static("application/json"))
            .header(HeaderName::from_static("x-attribution"), attribution);
        let request = add_credential(request, "Bearer", service.token.as_ref())?;
        let reply = context.send(&request).await?;
        reply.ok().map_err(|source| http_error(&request.uri, source))
    }
}

fn unexpected_response(problem: &'static str) -> FetchError {
    FetchError::Response { service: DISPLAY_NAME, problem }
}

/// The query of a check, in the JSON of `KairosDB`.
fn build_query(check: &ZmonCheck) -> Result<Value, FetchError> {
    let sampling = round_duration(check.duration);
    if let Some(name) = check.aggregators.iter().find(|name| !AGGREGATORS.contains(&name.as_str()))
    {
        return Err(FetchError::setting("aggregators", name));
    }
    let aggregators = check.aggregators.iter();
    let aggregators = aggregators.map(|name| json!({ "name": name, "sampling": sampling }));
    let mut tags: BTreeMap<&str, [&str; 1]> =
        check.tags.iter().map(|(name, value)| (&**name, [&**value])).collect();
    let mut group_by = Vec::new();
    if !check.key.is_empty() {
        tags.insert("key", [&check.key]);
        group_by.push(json!({ "name": "tag", "tags": ["key"] }));
    }
    let metric = json!({
        "name": format!("zmon.check.{}", check.check_id),
        "limit": MAX_VALUES,
        "tags": tags,
        "group_by": group_by,
        "aggregators": aggregators.collect::<Vec<_>>(),
    });
    Ok(json!({ "start_relative": sampling, "metrics": [metric] }))
}

/// Rounds a duration to a multiple of the largest unit that isn't longer than the duration. A
/// duration below a millisecond becomes 0.
fn round_duration(nanos: i64) -> KairosDuration {
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
    let largest = units.into_iter().find(|(_, length)| nanos >= *length);
    let Some((unit, unit_length)) = largest else {
        return KairosDuration { value: 0, unit: "milliseconds", nanos: 0 };
    };
    let value = nanos.saturating_add(unit_length / 2) / unit_length;
    KairosDuration { value, unit, nanos: value.saturating_mul(unit_length) }
}

#[cfg(test)]
mod tests {
    use hpa_calc::go_duration;
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
    fn duration_is_rounded_to_the_largest_unit(
        #[case] duration: &str,
        #[case] value: i64,
        #[case] unit: &'static str,
    ) {
        let nanos = go_duration::parse_nanos(duration).unwrap();
        let sampling = round_duration(nanos);
        assert_eq!((sampling.value, sampling.unit), (value, unit));
    }
}
