//! Time zones and times of day, by the rules of Go.

use jiff::{
    Timestamp,
    civil::{Date, Time},
    tz::{Offset, TimeZone, TimeZoneDatabase},
};

/// Finds a time zone by its exact name. Go's lookup is case-sensitive.
pub(crate) fn find(zones: &TimeZoneDatabase, name: &str) -> Option<TimeZone> {
    if name == "UTC" {
        return Some(TimeZone::UTC);
    }
    zones.get(name).ok().filter(|zone| zone.iana_name() == Some(name))
}

/// The instant of a civil time, computed as Go's `time.Date` does: it takes the civil time as UTC,
/// subtracts the offset at that instant, and uses the offset at the result. For a time in a gap,
/// the result may be before or after the gap, and differ from jiff's.
pub(crate) fn instant(date: Date, time: Time, zone: &TimeZone) -> Timestamp {
    // An error can only mean a year out of jiff's range.
    let Ok(utc) = TimeZone::UTC.to_timestamp(date.to_datetime(time)) else { return Timestamp::MAX };
    let minus_offset_at = |instant: Timestamp| {
        utc.saturating_sub(zone.to_offset(instant).duration_since(Offset::UTC))
    };
    minus_offset_at(utc).and_then(minus_offset_at).unwrap_or(Timestamp::MAX)
}

/// The first instant of a day, and that of the next one.
pub(crate) fn day(date: Date, zone: &TimeZone) -> (Timestamp, Timestamp) {
    let start = |date: Date| zone.to_timestamp(date.to_datetime(Time::midnight()));
    // An error can only mean a year out of jiff's range.
    let end = date.tomorrow().and_then(start).unwrap_or(Timestamp::MAX);
    (start(date).unwrap_or(Timestamp::MIN), end)
}

/// Parses `HH:MM` as Go's layout `15:04`: the hour may have one digit.
pub(crate) fn parse_time(text: &str) -> Option<Time> {
    let (hour, minute) = text.split_once(':')?;
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let has_lengths = matches!(hour.len(), 1 | 2) && minute.len() == 2;
    if !has_lengths || !digits(hour) || !digits(minute) {
        return None;
    }
    Time::new(hour.parse().ok()?, minute.parse().ok()?, 0, 0).ok()
}

/// Parses an RFC 3339 timestamp as strictly as Go: jiff accepts more formats. A comma may precede
/// the fraction, as in Go.
pub(crate) fn parse_timestamp(text: &str) -> Option<Timestamp> {
    // 0 means any digit.
    const SHAPE: &[u8] = b"0000-00-00T00:00:00";
    let (date_time, rest) = text.split_at_checked(SHAPE.len())?;
    let is_shape = date_time.bytes().zip(SHAPE).all(|(byte, expected)| match expected {
        b'0' => byte.is_ascii_digit(),
        _ => byte == *expected,
    });
    // jiff accepts the second 60.
    if !is_shape || date_time.ends_with("60") {
        return None;
    }
    let (fraction, zone) = match rest.strip_prefix(['.', ',']) {
        Some(rest) => rest.split_at(rest.find(|char: char| !char.is_ascii_digit())?),
        None => ("", rest),
    };
    let is_offset = zone == "Z"
        || matches!(zone.as_bytes(), [b'+' | b'-', a, b, b':', c, d]
            if [a, b, c, d].iter().all(|byte| byte.is_ascii_digit()));
    if !is_offset || (rest.starts_with(['.', ',']) && fraction.is_empty()) {
        return None;
    }
    // Go ignores digits below a nanosecond.
    let fraction: String = fraction.chars().take(9).collect();
    let dot = if fraction.is_empty() { "" } else { "." };
    format!("{date_time}{dot}{fraction}{zone}").parse().ok()
}
