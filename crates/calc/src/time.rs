//! Arithmetic on times that saturates: the spans come from specs, settings and statuses.

use jiff::{SignedDuration, Timestamp};

/// `time + span`, limited to the range of timestamps.
pub(crate) fn after(time: Timestamp, span: SignedDuration) -> Timestamp {
    let end = if span.is_negative() { Timestamp::MIN } else { Timestamp::MAX };
    time.checked_add(span).unwrap_or(end)
}

/// `time - span`, limited to the range of timestamps.
pub(crate) fn before(time: Timestamp, span: SignedDuration) -> Timestamp {
    let end = if span.is_negative() { Timestamp::MAX } else { Timestamp::MIN };
    time.checked_sub(span).unwrap_or(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_arithmetic_saturates() {
        let (long, back) = (SignedDuration::MAX, SignedDuration::MIN);
        assert_eq!(after(Timestamp::UNIX_EPOCH, long), Timestamp::MAX);
        assert_eq!(after(Timestamp::UNIX_EPOCH, back), Timestamp::MIN);
        assert_eq!(before(Timestamp::UNIX_EPOCH, long), Timestamp::MIN);
        assert_eq!(before(Timestamp::UNIX_EPOCH, back), Timestamp::MAX);
    }
}
