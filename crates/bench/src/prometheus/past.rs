//! Past values: a load that is three times as high from 8:10 to 17:50 UTC as in the night.

use std::fmt::Write as _;

/// The minute of the day at which the load starts to rise.
const RISE_START: i64 = 8 * 60;
/// The minute of the day at which the load is low again.
const FALL_END: i64 = 18 * 60;
/// The duration of the rise and of the fall, in minutes.
const RISE_MINUTES: i64 = 10;
const MINUTES_PER_DAY: i64 = 1440;
/// The maximum number of points in a response, as in Prometheus.
const MAX_POINTS: i64 = 11_000;

/// The times of a range query, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Range {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) step: i64,
}

impl Range {
    /// Parses times in seconds, and a step such as `60000ms`. Returns `None` if one of them is
    /// invalid, or if there are too many points.
    pub(super) fn parse(start: &str, end: &str, step: &str) -> Option<Self> {
        let seconds = |text: &str| text.split('.').next()?.parse::<i64>().ok();
        let step = step.strip_suffix("ms")?.parse::<i64>().ok()? / 1000;
        let range = Self { start: seconds(start)?, end: seconds(end)?, step };
        let length = range.end.saturating_sub(range.start);
        (step > 0 && length / step < MAX_POINTS).then_some(range)
    }

    /// The response to a range query: one series. `low` is the load in the night.
    pub(super) fn response(self, low: f64) -> String {
        let mut body = concat!(
            r#"{"status":"success","data":{"resultType":"matrix","result":["#,
            r#"{"metric":{},"values":["#
        )
        .to_owned();
        let step = usize::try_from(self.step).unwrap_or(usize::MAX);
        for at in (self.start..=self.end).step_by(step) {
            let comma = if at == self.start { "" } else { "," };
            // Writing to a string cannot fail.
            let _ = write!(body, r#"{comma}[{at},"{}"]"#, low * load_factor(at / 60));
        }
        body.push_str("]}]}}");
        body
    }
}

/// The load of a minute since the epoch, as a multiple of the load in the night.
fn load_factor(minute: i64) -> f64 {
    let minute = minute.rem_euclid(MINUTES_PER_DAY);
    let (since, until) = (minute - RISE_START, FALL_END - minute);
    let share = since.clamp(0, RISE_MINUTES).min(until.clamp(0, RISE_MINUTES));
    1.0 + 2.0 * share as f64 / RISE_MINUTES as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_has_the_load_of_its_times() {
        let range = Range::parse("28500", "29100.000", "300000ms").unwrap();
        let response: serde_json::Value = serde_json::from_str(&range.response(5.0)).unwrap();
        let values = &response["data"]["result"][0]["values"];
        assert_eq!(*values, serde_json::json!([[28500, "5"], [28800, "5"], [29100, "10"]]));
    }

    #[test]
    fn range_at_the_limit_of_integers_has_its_points() {
        let start = i64::MAX - 1;
        let range = Range::parse(&start.to_string(), &i64::MAX.to_string(), "60000ms").unwrap();
        let response: serde_json::Value = serde_json::from_str(&range.response(5.0)).unwrap();
        assert_eq!(response["data"]["result"][0]["values"].as_array().unwrap().len(), 1);
        assert_eq!(Range::parse(&i64::MIN.to_string(), &i64::MAX.to_string(), "1000ms"), None);
    }

    #[test]
    fn long_range_is_refused() {
        assert_eq!(Range::parse("0", "86400", "1000ms"), None);
        assert_eq!(Range::parse("0", "86400", "0ms"), None);
    }
}
