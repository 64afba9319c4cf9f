//! Cells that several tables have: names and ages.

use jiff::Timestamp;
use serde_json::Value;

use crate::json_fields;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

pub(super) fn name(object: &Value) -> Value {
    json_fields::str_at(object, "/metadata/name").into()
}

pub(super) fn age(object: &Value, now: Timestamp) -> Value {
    since(json_fields::str_at(object, "/metadata/creationTimestamp"), now).into()
}

/// The time from `then` to `now`.
pub(super) fn since(then: &str, now: Timestamp) -> String {
    match then.parse::<Timestamp>() {
        Ok(then) => short_duration(now.as_second() - then.as_second()),
        Err(_) => "<unknown>".to_owned(),
    }
}

/// Formats seconds in one or two units, like `HumanDuration` in apimachinery.
fn short_duration(seconds: i64) -> String {
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        _ if seconds < 2 * MINUTE => format!("{seconds}s"),
        _ if seconds < 10 * MINUTE => two_units(seconds, (MINUTE, "m"), (1, "s")),
        _ if seconds < 3 * HOUR => format!("{}m", seconds / MINUTE),
        _ if seconds < 8 * HOUR => two_units(seconds, (HOUR, "h"), (MINUTE, "m")),
        _ if seconds < 2 * DAY => format!("{}h", seconds / HOUR),
        _ if seconds < 8 * DAY => two_units(seconds, (DAY, "d"), (HOUR, "h")),
        _ if seconds < 2 * YEAR => format!("{}d", seconds / DAY),
        _ if seconds < 8 * YEAR => two_units(seconds, (YEAR, "y"), (DAY, "d")),
        _ => format!("{}y", seconds / YEAR),
    }
}

fn two_units(
    seconds: i64,
    (large, large_name): (i64, &str),
    (small, small_name): (i64, &str),
) -> String {
    let rest = seconds % large / small;
    let first = seconds / large;
    if rest == 0 {
        format!("{first}{large_name}")
    } else {
        format!("{first}{large_name}{rest}{small_name}")
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(-2, "<invalid>")]
    #[case(-1, "0s")]
    #[case(0, "0s")]
    #[case(119, "119s")]
    #[case(120, "2m")]
    #[case(121, "2m1s")]
    #[case(599, "9m59s")]
    #[case(600, "10m")]
    #[case(3 * HOUR - 1, "179m")]
    #[case(3 * HOUR, "3h")]
    #[case(3 * HOUR + MINUTE, "3h1m")]
    #[case(2 * DAY - 1, "47h")]
    #[case(2 * DAY + HOUR, "2d1h")]
    #[case(8 * DAY, "8d")]
    #[case(2 * YEAR + DAY, "2y1d")]
    #[case(9 * YEAR, "9y")]
    fn durations_are_formatted_as_by_kubectl(#[case] seconds: i64, #[case] expected: &str) {
        assert_eq!(short_duration(seconds), expected);
    }
}
