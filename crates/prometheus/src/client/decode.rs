//! Decodes responses with samples or metadata.
//!
//! As in prometheus-adapter, only the first JSON value of the body is read, and JSON that reports
//! no error is a success even with status 400, 422 or 503.

use std::{borrow::Cow, collections::BTreeMap};

use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;

use crate::{
    client::{error::QueryFailure, time::parse_ms},
    rules::{
        Compat,
        results::{QueryResult, Sample},
    },
};

#[derive(Deserialize)]
struct Response<'a> {
    #[serde(default, borrow)]
    status: Cow<'a, str>,
    #[serde(default, borrow)]
    data: Option<&'a RawValue>,
    #[serde(default, rename = "errorType", borrow)]
    error_type: Cow<'a, str>,
    #[serde(default, borrow)]
    error: Cow<'a, str>,
    /// A list of texts in responses of Prometheus. Other servers may send something else.
    #[serde(default, borrow)]
    warnings: Option<&'a RawValue>,
}

/// The data of a successful response.
#[derive(Deserialize)]
pub(crate) struct Data<'a> {
    #[serde(default, rename = "resultType", borrow)]
    pub(crate) result_type: Cow<'a, str>,
    #[serde(default, borrow)]
    pub(crate) result: Option<&'a RawValue>,
}

/// A time and a value. The value is a string, because JSON has no NaN.
#[derive(Deserialize)]
pub(crate) struct Point<'a>(#[serde(borrow)] &'a RawValue, #[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize)]
struct VectorSample<'a> {
    #[serde(default)]
    metric: Option<BTreeMap<String, String>>,
    #[serde(default, borrow)]
    value: Option<Point<'a>>,
    #[serde(default, borrow)]
    histogram: Option<(&'a RawValue, IgnoredAny)>,
}

/// Decodes the data of a response. Fails if the response reports an error or has no data.
pub(crate) fn decode_data(body: &[u8]) -> Result<Data<'_>, QueryFailure> {
    decode_response(body)?.parse_data()
}

/// Decodes a response. Fails if it reports an error.
fn decode_response(body: &[u8]) -> Result<Response<'_>, QueryFailure> {
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let is_object = body.trim_ascii_start().starts_with(b"{");
    let response = Response::deserialize(&mut deserializer)
        .map_err(|error| decode_error(&error, is_object))?;
    if response.status == "error" {
        let (error_type, message) = (response.error_type.into_owned(), response.error.into_owned());
        return Err(QueryFailure::Api { error_type, message });
    }
    Ok(response)
}

impl<'a> Response<'a> {
    /// Fails if there is no data.
    fn parse_data(&self) -> Result<Data<'a>, QueryFailure> {
        parse(self.data.ok_or_else(|| QueryFailure::Decode("it has no data".to_owned()))?)
    }

    /// The warnings about the result. Empty if they are not a list of texts.
    fn warnings(&self) -> Vec<Cow<'a, str>> {
        let warnings = self.warnings.and_then(|warnings| serde_json::from_str(warnings.get()).ok());
        warnings.unwrap_or_default()
    }
}

/// Decodes the type of a metric in a response with metadata. `None` if the response doesn't have
/// it.
pub(crate) fn decode_metric_type(
    body: &[u8],
    metric: &str,
) -> Result<Option<String>, QueryFailure> {
    #[derive(Deserialize)]
    struct Metadata {
        #[serde(default, rename = "type")]
        metric_type: String,
    }
    let Some(data) = decode_response(body)?.data else { return Ok(None) };
    let mut types: BTreeMap<String, Vec<Metadata>> = parse(data)?;
    let types = types.remove(metric).unwrap_or_default();
    Ok(types.into_iter().next().map(|metadata| metadata.metric_type))
}

/// Decodes the response of an instant query.
pub fn decode_instant(body: &[u8], compat: Compat) -> Result<QueryResult, QueryFailure> {
    decode_instant_with_warnings(body, compat).map(|(result, _)| result)
}

/// Like [`decode_instant`], with the warnings of the server.
pub(crate) fn decode_instant_with_warnings(
    body: &[u8],
    compat: Compat,
) -> Result<(QueryResult, Vec<Cow<'_, str>>), QueryFailure> {
    let response = decode_response(body)?;
    Ok((convert_result(response.parse_data()?, compat)?, response.warnings()))
}

fn convert_result(
    Data { result_type, result }: Data<'_>,
    compat: Compat,
) -> Result<QueryResult, QueryFailure> {
    let missing = || QueryFailure::Decode("it has no result".to_owned());
    match &*result_type {
        "vector" => {
            let Some(result) = result else {
                return Ok(QueryResult::Vector(None));
            };
            let samples: Vec<VectorSample<'_>> = parse(result)?;
            let samples = samples.into_iter().map(|sample| sample.convert(compat));
            Ok(QueryResult::Vector(Some(samples.collect::<Result<_, _>>()?)))
        }
        "scalar" => {
            let (timestamp_ms, value) =
                parse::<Point<'_>>(result.ok_or_else(missing)?)?.convert()?;
            Ok(QueryResult::Scalar { timestamp_ms, value })
        }
        "matrix" => Ok(QueryResult::Other("matrix".to_owned())),
        "string" => Err(QueryFailure::StringResult),
        other => {
            Err(QueryFailure::Decode(format!("no support for query result value type {other:?}")))
        }
    }
}

/// The failure of a response that can't be decoded. `is_object`: whether it begins as a JSON
/// object. Texts of proxies don't, but may begin as other JSON: `404 page not found`.
pub(crate) fn decode_error(error: &serde_json::Error, is_object: bool) -> QueryFailure {
    QueryFailure::Decode(if is_object || error.is_eof() {
        error.to_string()
    } else {
        "it isn't a JSON object, but may be a login page or a page of a proxy".to_owned()
    })
}

pub(crate) fn parse<'a, T: Deserialize<'a>>(value: &'a RawValue) -> Result<T, QueryFailure> {
    serde_json::from_str(value.get()).map_err(|error| QueryFailure::Decode(error.to_string()))
}

fn time_ms(time: &RawValue) -> Result<i64, QueryFailure> {
    let invalid = || QueryFailure::Decode(format!("invalid time {}", time.get()));
    parse_ms(time.get()).ok_or_else(invalid)
}

impl Point<'_> {
    /// The time in milliseconds since the Unix epoch, and the value.
    pub(crate) fn convert(&self) -> Result<(i64, f64), QueryFailure> {
        let invalid = |_| QueryFailure::Decode(format!("invalid value {:?}", self.1));
        Ok((time_ms(self.0)?, self.1.parse().map_err(invalid)?))
    }
}

impl VectorSample<'_> {
    fn convert(self, compat: Compat) -> Result<Sample, QueryFailure> {
        let labels = self.metric.unwrap_or_default();
        let (timestamp_ms, value) = match (&self.histogram, &self.value) {
            // prometheus-adapter decodes a native histogram as zero.
            (Some((time, _)), _) => {
                let value = if compat == Compat::Reference { 0.0 } else { f64::NAN };
                (time_ms(time)?, value)
            }
            (None, Some(point)) => point.convert()?,
            (None, None) if compat == Compat::Reference => (0, 0.0),
            (None, None) => {
                return Err(QueryFailure::Decode("a sample has no value".to_owned()));
            }
        };
        Ok(Sample { labels, timestamp_ms, value })
    }
}

#[cfg(test)]
mod tests;
