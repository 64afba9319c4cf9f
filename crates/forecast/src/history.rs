//! The past of a load, in bounded memory.

use std::collections::VecDeque;

use jiff::Timestamp;

/// The length of a bucket in seconds.
pub(crate) const BUCKET_SECONDS: i64 = 300;
const BUCKETS_PER_DAY: usize = 288;
/// The maximum number of days in a history or trace. The gate uses 28: two weeks that it measures,
/// and the two weeks before them that forecasts read.
pub const MAX_DAYS: usize = 56;
/// Buckets beyond the whole days: about five hours. A forecast also reads the load shortly before
/// the same time on the oldest day, and a clock change shifts that time by an hour. With 64
/// buckets, 14 days take exactly 8 KiB, which is a size class of allocators.
const EXTRA_BUCKETS: usize = 64;

/// The newest means of a load, in buckets of five minutes. A bucket takes two bytes: 14 days take
/// 8 KiB.
///
/// A bucket without samples is missing; it doesn't count as 0.
#[derive(Clone, Debug)]
pub struct History {
    /// The number of the first bucket, counted from 1970.
    first: i64,
    means: VecDeque<Mean>,
    /// The sum and the number of the samples in the last bucket.
    last_sum: f64,
    last_count: u32,
    capacity: usize,
}

impl History {
    /// An empty history of the newest `days` days, which are clamped to 2 to [`MAX_DAYS`].
    pub fn new(days: usize) -> Self {
        let capacity = days.clamp(2, MAX_DAYS) * BUCKETS_PER_DAY + EXTRA_BUCKETS;
        Self { first: 0, means: VecDeque::new(), last_sum: 0.0, last_count: 0, capacity }
    }

    /// Adds a sample. Samples must be in order of time. A sample before the last bucket is ignored,
    /// and so are negative and non-finite values. A gap longer than the history empties it.
    pub fn add(&mut self, at: Timestamp, load: f64) {
        if !load.is_finite() || load < 0.0 {
            return;
        }
        let bucket = at.as_second().div_euclid(BUCKET_SECONDS);
        let end = self.first.saturating_add(as_i64(self.means.len()));
        let ahead = usize::try_from(bucket.saturating_sub(end)).ok();
        match ahead {
            _ if self.means.is_empty() => self.start(bucket),
            Some(missing) if missing < self.capacity => {
                self.drop_oldest(missing + 1);
                self.means.extend(std::iter::repeat_n(Mean::MISSING, missing + 1));
                (self.last_sum, self.last_count) = (0.0, 0);
            }
            Some(_) => self.start(bucket),
            None if bucket + 1 < end => return,
            // The sample belongs to the last bucket.
            None => {}
        }
        self.last_sum += load;
        self.last_count = self.last_count.saturating_add(1);
        if let Some(mean) = self.means.back_mut() {
            *mean = Mean::new(self.last_sum / f64::from(self.last_count));
        }
    }

    /// Drops the buckets that begin after a time. Such buckets exist if the clock was ahead. If
    /// they stayed, [`Self::add`] would ignore all samples until the clock reaches the last bucket.
    pub fn drop_after(&mut self, at: Timestamp) {
        let bucket = at.as_second().div_euclid(BUCKET_SECONDS);
        let len = usize::try_from(bucket.saturating_sub(self.first).saturating_add(1));
        let len = len.unwrap_or_default();
        if len >= self.means.len() {
            return;
        }
        self.means.truncate(len);
        let last = self.means.back().and_then(|mean| mean.load());
        (self.last_sum, self.last_count) = last.map_or((0.0, 0), |load| (load, 1));
    }

    /// Makes room for `added` buckets, to bound the memory.
    fn drop_oldest(&mut self, added: usize) {
        let excess = (self.means.len() + added).saturating_sub(self.capacity);
        self.means.drain(..excess);
        self.first += as_i64(excess);
    }

    /// Empties the history, and starts it with one bucket without samples.
    fn start(&mut self, bucket: i64) {
        self.means.reserve_exact(self.capacity);
        self.means.clear();
        self.means.push_back(Mean::MISSING);
        self.first = bucket;
        (self.last_sum, self.last_count) = (0.0, 0);
    }

    /// The load at a time, interpolated between the means of two buckets. `None` if one of them is
    /// missing.
    pub fn load(&self, at: Timestamp) -> Option<f64> {
        self.load_at(at.as_second() as f64)
    }

    /// The mean of each bucket that has samples, with the time of its middle.
    pub fn means(&self) -> impl Iterator<Item = (Timestamp, f64)> + '_ {
        self.means.iter().enumerate().filter_map(|(index, mean)| {
            let bucket = self.first.checked_add(as_i64(index))?;
            let middle = bucket.checked_mul(BUCKET_SECONDS)? + BUCKET_SECONDS / 2;
            let at = Timestamp::from_second(middle).ok()?;
            mean.load().map(|load| (at, load))
        })
    }

    /// The share of buckets that have samples, and the time from the first to the last bucket, in
    /// days.
    pub fn coverage_and_days(&self) -> (f64, f64) {
        let known = self.means.iter().filter(|mean| **mean != Mean::MISSING).count();
        let len = self.means.len();
        (known as f64 / len.max(1) as f64, len as f64 / BUCKETS_PER_DAY as f64)
    }

    /// The load at a time in seconds since 1970, interpolated between the middles of two buckets.
    /// `None` if one of them is missing.
    pub(crate) fn load_at(&self, second: f64) -> Option<f64> {
        let position = (second - BUCKET_SECONDS as f64 / 2.0) / BUCKET_SECONDS as f64;
        let whole = position.floor();
        let index = as_index(whole - self.first as f64)?;
        let (before, after) = (self.means.get(index)?.load()?, self.means.get(index + 1)?.load()?);
        Some(before + (after - before) * (position - whole))
    }

    /// The mean of the newest `buckets` buckets that ended by a time, in seconds since 1970. `None`
    /// if one of them is missing.
    pub(crate) fn mean_before(&self, second: i64, buckets: usize) -> Option<f64> {
        let bucket = second.div_euclid(BUCKET_SECONDS) - self.first;
        let end = usize::try_from(bucket).ok().filter(|end| *end <= self.means.len())?;
        let mut means = self.means.range(end.checked_sub(buckets)?..end);
        let sum = means.try_fold(0.0, |sum, mean| Some(sum + mean.load()?))?;
        Some(sum / buckets as f64)
    }

    /// The second since 1970 in which the history starts.
    pub(crate) fn start_second(&self) -> i64 {
        self.first.saturating_mul(BUCKET_SECONDS)
    }
}

/// The mean load of a bucket in two bytes, or [`Self::MISSING`]. The error of at most 0.1 % is
/// small compared with the tolerance of an autoscaler.
///
/// The encoding is that of an `f32` without the sign, without the exponents below 2⁻⁴⁰ and above
/// 2⁸⁷, and without the last 14 bits of the fraction. Loads below that range become 0, and loads
/// above it become the largest load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mean(u16);

impl Mean {
    const MISSING: Self = Self(u16::MAX);
    const LARGEST: u16 = u16::MAX - 1;
    const DROPPED_BITS: u32 = 14;
    /// 2⁻⁴⁰ as an `f32`.
    const SMALLEST: u32 = (127 - 40) << 23;

    fn new(load: f64) -> Self {
        let half = 1 << (Self::DROPPED_BITS - 1);
        let bits = (as_f32(load).to_bits() + half).saturating_sub(Self::SMALLEST);
        let high_bits = u16::try_from(bits >> Self::DROPPED_BITS).unwrap_or(Self::LARGEST);
        Self(high_bits.min(Self::LARGEST))
    }

    fn load(self) -> Option<f64> {
        match self {
            Self::MISSING => None,
            Self(0) => Some(0.0),
            Self(high_bits) => {
                let bits = (u32::from(high_bits) << Self::DROPPED_BITS) + Self::SMALLEST;
                Some(f32::from_bits(bits).into())
            }
        }
    }
}

pub(crate) fn as_i64(len: usize) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}

#[allow(clippy::cast_possible_truncation, reason = "seven digits of a load are enough")]
pub(crate) fn as_f32(value: f64) -> f32 {
    value as f32
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked")]
pub(crate) fn as_index(value: f64) -> Option<usize> {
    (value >= 0.0 && value < u32::MAX.into()).then_some(value as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn history(samples: &[(i64, f64)]) -> History {
        let mut history = History::new(2);
        for (at, load) in samples {
            history.add(second(*at), *load);
        }
        history
    }

    fn at(history: &History, second: f64) -> Option<f64> {
        history.load_at(second).map(|load| (load * 1e3).round() / 1e3)
    }

    #[test]
    fn bucket_is_the_mean_of_its_samples() {
        let history = history(&[(600, 1.0), (700, 3.0), (899, 5.0), (900, 9.0)]);
        assert_eq!(at(&history, 750.0), Some(3.0));
        assert_eq!(at(&history, 900.0), Some(6.0));
        assert_eq!(at(&history, 749.0), None);
        assert_eq!(at(&history, 1051.0), None);
    }

    #[test]
    fn decoded_mean_is_within_a_thousandth() {
        for load in [1e-11, 0.001, 0.3, 1.0, 1.0019, 49.95, 1e3, 123_456_789.0, 1e15, 1e26] {
            let known = Mean::new(load).load().unwrap();
            assert!((known / load - 1.0).abs() < 0.001, "{load}: {known}");
        }
        for exact in [0.0, 0.25, 1.0, 5.0, 300.0, 511.0] {
            assert_eq!(Mean::new(exact).load(), Some(exact));
        }
        assert_eq!(Mean::new(1e-13).load(), Some(0.0));
        for beyond in [1e27, 1e38, f64::MAX] {
            let largest = Mean::new(beyond).load();
            assert!(largest.is_some_and(|it| (1.5e26..1e27).contains(&it)), "{largest:?}");
        }
        assert_eq!(Mean::MISSING.load(), None);
    }

    #[test]
    fn missing_bucket_is_not_zero() {
        let history = history(&[(0, 1.0), (300, 1.0), (900, 1.0), (1200, 1.0)]);
        assert_eq!(at(&history, 300.0), Some(1.0));
        assert_eq!(at(&history, 600.0), None);
        assert_eq!(at(&history, 1200.0), Some(1.0));
    }

    #[test]
    fn invalid_samples_are_ignored() {
        let mut filled = history(&[(0, 1.0), (300, 2.0)]);
        for (at, load) in [(310, f64::NAN), (310, f64::INFINITY), (310, -1.0), (0, 7.0)] {
            filled.add(second(at), load);
        }
        assert_eq!(at(&filled, 300.0), Some(1.5));
    }

    #[test]
    fn buckets_after_a_time_can_be_dropped() {
        let filled = || history(&[(0, 1.0), (300, 2.0), (600, 3.0), (900, 4.0)]);
        let mut ahead = filled();
        ahead.drop_after(second(599));
        assert_eq!(ahead.means().map(|(_, load)| load).collect::<Vec<_>>(), [1.0, 2.0]);
        ahead.add(second(310), 4.0);
        ahead.add(second(600), 5.0);
        assert_eq!(ahead.means().map(|(_, load)| load).collect::<Vec<_>>(), [1.0, 3.0, 5.0]);
        ahead.drop_after(second(900));
        assert_eq!(ahead.means().count(), 3);
        ahead.drop_after(Timestamp::MIN);
        assert_eq!(ahead.means().count(), 0);
        ahead.add(second(310), 4.0);
        assert_eq!(ahead.means().map(|(_, load)| load).collect::<Vec<_>>(), [4.0]);
    }

    #[test]
    fn memory_is_bounded_by_days_and_by_jumps_of_the_clock() {
        let mut history = History::new(2);
        for bucket in 0..10_000 {
            history.add(second(bucket * 300), 1.0);
        }
        assert_eq!(size_of::<Mean>(), 2);
        assert_eq!(history.means.len(), history.capacity);
        assert!(history.means.capacity() <= history.capacity);
        history.add(second(10_100 * 300), 1.0);
        assert!(history.means.capacity() <= history.capacity);
        assert_eq!(at(&history, 9_999.0 * 300.0), Some(1.0), "kept");
        history.add(Timestamp::MAX, 1.0);
        assert_eq!(history.means.len(), 1);
        history.add(Timestamp::MIN, 1.0);
        assert_eq!(history.means.len(), 1);
        history.add(Timestamp::MAX, 1.0);
        assert!(history.means.len() <= 1);
    }
}
