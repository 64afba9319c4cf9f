//! The replayed time and its steps.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::series::Series;

/// The maximum number of points of a request. Prometheus rejects more than 11 000 per series.
const POINTS_PER_REQUEST: i64 = 10_000;
/// With the default step, a window has at most this many steps, to bound memory.
const MAX_DEFAULT_STEPS: i64 = 50_000;
/// The maximum number of points that `--since` and `--step` may ask for.
pub(super) const MAX_POINTS: usize = 200_000;
/// The minimum default step, in seconds: the default sync period.
const MIN_DEFAULT_STEP: i64 = 15;

/// A period that is read in equal steps of whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) start: Timestamp,
    /// The length of a step.
    pub(super) step_seconds: i64,
    /// The number of steps. There is one more point, because both start and end are points.
    pub(super) step_count: i64,
}

impl Window {
    /// The period of the length `since` before `until`. The default step depends on the length.
    pub(super) fn new(since: Duration, until: Timestamp, step: Option<Duration>) -> Self {
        let whole = |time: Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
        let since = whole(since);
        let default_step =
            since / MAX_DEFAULT_STEPS / MIN_DEFAULT_STEP * MIN_DEFAULT_STEP + MIN_DEFAULT_STEP;
        let step_seconds = step.map_or(default_step, whole).max(1);
        let step_count = since / step_seconds;
        let length = step_count * step_seconds;
        let start = Timestamp::from_second(until.as_second().saturating_sub(length));
        Self { start: start.unwrap_or(until), step_seconds, step_count }
    }

    /// The number of points.
    pub(super) fn len(&self) -> usize {
        usize::try_from(self.step_count + 1).unwrap_or_default()
    }

    /// The length of the period.
    pub(super) fn seconds(&self) -> f64 {
        (self.step_count * self.step_seconds) as f64
    }

    pub(super) fn end(&self) -> Timestamp {
        self.at(self.step_count)
    }

    /// The period from one point to another.
    pub(super) fn slice(&self, first: usize, last: usize) -> Self {
        let step = |index: usize| i64::try_from(index).unwrap_or(i64::MAX);
        self.between(step(first), step(last))
    }

    fn between(&self, first: i64, last: i64) -> Self {
        Self { start: self.at(first), step_count: last - first, ..*self }
    }

    /// The known values of a series, with the times of its points.
    pub(super) fn samples(&self, series: &Series) -> impl Iterator<Item = (Timestamp, f64)> {
        self.times().zip(&series.0).filter_map(|(time, value)| Some((time, (*value)?)))
    }

    /// The times of the points.
    pub(super) fn times(&self) -> impl Iterator<Item = Timestamp> {
        (0..=self.step_count).map(|step| self.at(step))
    }

    fn at(&self, step: i64) -> Timestamp {
        let offset = SignedDuration::from_secs(step.saturating_mul(self.step_seconds));
        self.start.checked_add(offset).unwrap_or(Timestamp::MAX)
    }

    /// Divides the points into chunks of at most [`POINTS_PER_REQUEST`].
    pub(super) fn chunks(&self) -> impl Iterator<Item = Self> {
        let count = self.step_count / POINTS_PER_REQUEST + 1;
        (0..count).map(|chunk| {
            let first = chunk * POINTS_PER_REQUEST;
            let last = (first + POINTS_PER_REQUEST - 1).min(self.step_count);
            self.between(first, last)
        })
    }

    /// The index of the point that is closest to a time in milliseconds. `None` if the time is more
    /// than half a step outside the window.
    pub(super) fn closest_point(&self, ms: i64) -> Option<usize> {
        let elapsed = ms.checked_sub(self.start.as_millisecond())?;
        let step = self.step_seconds.checked_mul(1000)?;
        let index = elapsed.checked_add(step / 2)?.div_euclid(step);
        usize::try_from(index).ok().filter(|index| *index < self.len())
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const HOUR: u64 = 3600;

    fn window(since: Duration, step: Option<Duration>) -> Window {
        Window::new(since, Timestamp::from_second(1_800_000_000).unwrap(), step)
    }

    #[rstest]
    #[case::hour(HOUR, 15)]
    #[case::week(7 * 24 * HOUR, 15)]
    #[case::month(30 * 24 * HOUR, 60)]
    #[case::year(365 * 24 * HOUR, 645)]
    fn step_bounds_the_number_of_points(#[case] since: u64, #[case] step: i64) {
        let window = window(Duration::from_secs(since), None);
        assert_eq!(window.step_seconds, step);
        assert!(window.len() <= 50_001, "{}", window.len());
    }

    #[test]
    fn limit_counts_points() {
        let exceeds_limit = |steps: u64| {
            window(Duration::from_secs(steps), Some(Duration::from_secs(1))).len() > MAX_POINTS
        };
        assert!(!exceeds_limit(199_999));
        assert!(exceeds_limit(200_000));
    }

    #[test]
    fn chunks_cover_every_point_once_within_the_limit_of_prometheus() {
        let window = window(Duration::from_secs(7 * 24 * HOUR), None);
        let mut next = window.start.as_second();
        for chunk in window.chunks() {
            assert_eq!(chunk.start.as_second(), next);
            let end = chunk.end().as_second();
            let points = (end - chunk.start.as_second()) / window.step_seconds + 1;
            assert!((1..=11_000).contains(&points), "{points}");
            next = end + window.step_seconds;
        }
        assert_eq!(next, window.end().as_second() + window.step_seconds);
        assert_eq!(window.end().as_second(), 1_800_000_000);
    }

    #[test]
    fn closest_point_is_within_half_a_step() {
        let window = window(Duration::from_secs(60), Some(Duration::from_secs(15)));
        let start = window.start.as_millisecond();
        assert_eq!(window.closest_point(start), Some(0));
        assert_eq!(window.closest_point(start + 16_000), Some(1));
        assert_eq!(window.closest_point(start + 60_000), Some(4));
        assert_eq!(
            (window.closest_point(start - 15_000), window.closest_point(start + 75_000)),
            (None, None)
        );
    }
}
