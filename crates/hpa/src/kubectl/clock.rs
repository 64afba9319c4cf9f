//! The time by the API server's clock. Leases and statuses have times of machines of the cluster,
//! whose clocks are synchronized. The clock of the user's machine may not be.

use hpa_controller::{Clock, SystemClock};
use hpa_lease::Instants;
use http::{HeaderMap, header::DATE};
use jiff::{SignedDuration, Timestamp, fmt::rfc2822::DateTimeParser};
use parking_lot::Mutex;

/// The paths whose responses are from the API server itself. An aggregated API server may have
/// written the headers of other responses.
const OWN_PATHS: [&str; 3] = ["/api/", "/apis/autoscaling/", "/apis/coordination.k8s.io/"];

/// The lead of the API server's clock over this machine's. All requests of a command go to one API
/// server.
static OFFSET: Mutex<SignedDuration> = Mutex::new(SignedDuration::ZERO);

/// The current time by the API server's clock, see [`api_server_time`].
pub(crate) fn now() -> Timestamp {
    api_server_time(Timestamp::now())
}

/// Converts a time by this machine's clock to one by the API server's. Returns `local` until a
/// response has shown the difference.
pub(crate) fn api_server_time(local: Timestamp) -> Timestamp {
    shifted(local, *OFFSET.lock())
}

fn shifted(local: Timestamp, offset: SignedDuration) -> Timestamp {
    local.checked_add(offset).unwrap_or(local)
}

/// A clock with the time of [`now`].
#[derive(Default)]
pub(crate) struct ApiServerClock(SystemClock);

impl Clock for ApiServerClock {
    fn instants(&self) -> Instants {
        let local = self.0.instants();
        Instants { wall: api_server_time(local.wall), ..local }
    }
}

/// Corrects the clock by the response to a request that was sent at `sent_at` by this machine's.
pub(super) fn adjust(path: &str, headers: &HeaderMap, sent_at: Timestamp) {
    let Some(date) = server_time(path, headers) else { return };
    let received_at = Timestamp::now();
    let mut offset = OFFSET.lock();
    let correction = correction(date, shifted(sent_at, *offset), shifted(received_at, *offset));
    *offset = offset.saturating_add(correction);
}

/// The time in the `Date` header, if it is the API server's own.
fn server_time(path: &str, headers: &HeaderMap) -> Option<Timestamp> {
    let is_own = OWN_PATHS.iter().any(|own| path.starts_with(own));
    let date = headers.get(DATE).filter(|_| is_own)?;
    DateTimeParser::new().parse_timestamp(date).ok()
}

/// The smallest correction that explains a `Date` header, which has whole seconds: it was written
/// between the request and the response. Zero if the clock explains it already, so the clock is
/// steady.
fn correction(date: Timestamp, sent_at: Timestamp, received_at: Timestamp) -> SignedDuration {
    let latest = date.checked_add(SignedDuration::from_secs(1)).unwrap_or(date);
    if date > received_at {
        date.duration_since(received_at)
    } else if latest < sent_at {
        latest.duration_since(sent_at)
    } else {
        SignedDuration::ZERO
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use rstest::rstest;

    use super::*;

    #[test]
    fn time_is_that_of_the_api_server_itself() {
        let date = HeaderValue::from_static("Sun, 06 Nov 1994 08:49:37 GMT");
        let headers = HeaderMap::from_iter([(DATE, date)]);
        let time = |path| server_time(path, &headers).map(Timestamp::as_second);
        assert_eq!(time("/apis/coordination.k8s.io/v1/namespaces/a/leases/b"), Some(784_111_777));
        assert_eq!(time("/apis/metrics.k8s.io/v1beta1/pods"), None, "an aggregated API server");
        assert_eq!(server_time("/api/v1/namespaces/a", &HeaderMap::new()), None);
    }

    /// A request was sent at 100.2 s and answered at 100.7 s.
    #[rstest]
    #[case::same_second(100, 0)]
    #[case::second_of_the_request_is_over(99, -200)]
    #[case::server_is_ahead(160, 59_300)]
    #[case::server_is_behind(40, -59_200)]
    fn correction_is_the_smallest_that_explains_the_header(
        #[case] date: i64,
        #[case] expected: i64,
    ) {
        let at = |millis| Timestamp::from_millisecond(millis).expect("a time");
        let (date, sent_at, received_at) = (at(date * 1000), at(100_200), at(100_700));
        let first = correction(date, sent_at, received_at);
        assert_eq!(first, SignedDuration::from_millis(expected));
        let next = correction(date, shifted(sent_at, first), shifted(received_at, first));
        assert_eq!(next, SignedDuration::ZERO, "the corrected clock explains it");
    }
}
