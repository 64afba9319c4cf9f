//! Range queries.

use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;

use crate::client::{
    decode::{Data, Point, decode_data, parse},
    error::QueryFailure,
};

/// A range query: an expression, evaluated at `start` and after every `step` until `end`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeQuery {
    pub query: String,
    /// The first evaluation.
    pub start: Timestamp,
    /// The query is not evaluated after this time.
    pub end: Timestamp,
    /// The time between two evaluations.
    pub step: Duration,
}

/// A series in the result of a range query: times in milliseconds since the Unix epoch, each with
/// the value, ordered by time. Times without a value are left out.
pub type RangeSeries = Vec<(i64, f64)>;

#[derive(Deserialize)]
struct MatrixSeries<'a> {
    /// Absent if the series has only native histograms.
    #[serde(default, borrow)]
    values: Vec<Point<'a>>,
}

/// Decodes the response of a range query.
pub(crate) fn decode_range(body: &[u8]) -> Result<Vec<RangeSeries>, QueryFailure> {
    let Data { result_type, result } = decode_data(body)?;
    let ("matrix", Some(result)) = (&*result_type, result) else {
        let message = format!("expected a matrix, not a result of type {result_type:?}");
        return Err(QueryFailure::Decode(message));
    };
    let series: Vec<MatrixSeries<'_>> = parse(result)?;
    let convert = |series: MatrixSeries<'_>| -> Result<RangeSeries, QueryFailure> {
        series.values.iter().map(Point::convert).collect()
    };
    series.into_iter().map(convert).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(data: &str) -> Result<Vec<RangeSeries>, QueryFailure> {
        decode_range(format!(r#"{{"status":"success","data":{data}}}"#).as_bytes())
    }

    #[test]
    fn series_have_points() {
        let series = decode(
            r#"{"resultType":"matrix","result":[
                {"metric":{"pod":"a"},"values":[[1,"2.5"],[16.5,"NaN"]]},
                {"metric":{},"histograms":[[1,{"count":"1"}]]}]}"#,
        );
        let series = series.unwrap();
        assert_eq!(series[0][0], (1000, 2.5));
        assert_eq!(series[0][1].0, 16_500);
        assert!(series[0][1].1.is_nan());
        assert_eq!(series[1], RangeSeries::default());
    }

    #[test]
    fn other_result_types_are_errors() {
        for data in [r#"{"resultType":"vector","result":[]}"#, r#"{"resultType":"matrix"}"#] {
            assert!(matches!(decode(data), Err(QueryFailure::Decode(_))), "{data}");
        }
        let error = decode_range(br#"{"status":"error","errorType":"bad_data","error":"no"}"#);
        assert_eq!(error.unwrap_err().to_string(), "bad_data: no");
    }
}
