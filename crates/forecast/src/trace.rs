//! A recorded load, minute by minute.

use jiff::Timestamp;

use crate::history::{History, MAX_DAYS, as_f32};

const MINUTE_SECONDS: i64 = 60;
/// The longest time between two samples that is interpolated. Longer times are gaps.
const MAX_GAP_MINUTES: usize = 120;
const MAX_MINUTES: usize = MAX_DAYS * 24 * 60;

/// A recorded load, for checks on the past. It has one value for each minute.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// The number of the first minute, counted from 1970.
    start: i64,
    /// The load of each minute. NaN in gaps.
    loads: Vec<f32>,
}

impl Trace {
    /// Builds a trace from samples in order of time. A minute has the mean of its samples. Minutes
    /// between samples that are at most two hours apart are interpolated. About eight weeks are
    /// kept: older minutes are dropped. Samples before the last minute, and those that are negative
    /// or not finite, are ignored.
    pub fn new(samples: impl IntoIterator<Item = (Timestamp, f64)>) -> Self {
        let mut trace = Self { start: 0, loads: Vec::new() };
        let (mut sum, mut count) = (0.0, 0_u32);
        for (at, load) in samples {
            let minute = at.as_second().div_euclid(MINUTE_SECONDS);
            if !load.is_finite() || load < 0.0 {
                continue;
            }
            let end = trace.start + i64::try_from(trace.loads.len()).unwrap_or(i64::MAX);
            if trace.loads.is_empty() || minute - end >= i64::from(u32::MAX) {
                trace = Self { start: minute, loads: vec![f32::NAN] };
                (sum, count) = (0.0, 0);
            } else if minute >= end {
                trace.append_minutes(usize::try_from(minute - end).unwrap_or(usize::MAX));
                (sum, count) = (0.0, 0);
            } else if minute + 1 < end {
                continue;
            }
            sum += load;
            count += 1;
            trace.set_last(sum / f64::from(count));
        }
        trace
    }

    /// Appends a gap of `missing` minutes, and one minute whose load is to be set.
    fn append_minutes(&mut self, missing: usize) {
        if missing >= MAX_MINUTES {
            self.start += i64::try_from(self.loads.len() + missing).unwrap_or(i64::MAX);
            self.loads.clear();
        } else {
            self.loads.extend(std::iter::repeat_n(f32::NAN, missing));
        }
        self.loads.push(f32::NAN);
        let excess = self.loads.len().saturating_sub(MAX_MINUTES + MAX_GAP_MINUTES);
        if excess > 0 {
            // Drops a whole day, because dropping from the front of a vector is expensive.
            let dropped = (excess + 24 * 60).min(self.loads.len().saturating_sub(1));
            self.loads.drain(..dropped);
            self.start += i64::try_from(dropped).unwrap_or(i64::MAX);
        }
    }

    /// Sets the load of the last minute. Interpolates the gap before it, unless it is too long.
    fn set_last(&mut self, load: f64) {
        let Some((last, before)) = self.loads.split_last_mut() else { return };
        *last = as_f32(load);
        let gap = before.iter().rev().take_while(|load| load.is_nan()).count();
        let known = before.len().checked_sub(gap + 1).and_then(|index| before.get(index)).copied();
        let Some(from) = known.filter(|_| gap > 0 && gap < MAX_GAP_MINUTES) else { return };
        let step = (load - f64::from(from)) / (gap + 1) as f64;
        for (index, missing) in before.iter_mut().rev().take(gap).rev().enumerate() {
            *missing = as_f32(f64::from(from) + step * (index + 1) as f64);
        }
    }

    /// The number of minutes.
    pub fn len(&self) -> usize {
        self.loads.len()
    }

    /// Whether the trace has no minutes.
    pub fn is_empty(&self) -> bool {
        self.loads.is_empty()
    }

    /// The time of a minute's end, when its load is known.
    pub fn time(&self, minute: usize) -> Timestamp {
        let minute = self.start + i64::try_from(minute).unwrap_or(i64::MAX) + 1;
        Timestamp::from_second(minute.saturating_mul(MINUTE_SECONDS)).unwrap_or(Timestamp::MAX)
    }

    /// The load of a minute. `None` in gaps.
    pub fn load(&self, minute: usize) -> Option<f64> {
        self.loads.get(minute).filter(|load| !load.is_nan()).map(|load| f64::from(*load))
    }

    /// The trace with all loads multiplied by `factor`.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        let loads = self.loads.iter().map(|load| as_f32(f64::from(*load) * factor));
        Self { start: self.start, loads: loads.collect() }
    }

    /// The part of the trace with these minutes, counted from its start.
    #[must_use]
    pub fn slice(&self, minutes: std::ops::Range<usize>) -> Self {
        let end = minutes.end.min(self.loads.len());
        let first = minutes.start.min(end);
        let loads = self.loads.get(first..end).map(<[f32]>::to_vec).unwrap_or_default();
        Self { start: self.start + i64::try_from(first).unwrap_or_default(), loads }
    }

    /// The loads. NaN in gaps.
    pub(crate) fn loads(&self) -> &[f32] {
        &self.loads
    }

    /// The history of the whole trace.
    pub fn history(&self) -> History {
        self.history_of_last_days(MAX_DAYS)
    }

    /// The history of the last days of the trace.
    pub fn history_of_last_days(&self, days: usize) -> History {
        let mut history = History::new(days);
        for (minute, load) in self.loads.iter().enumerate() {
            // A second before the minute's end, which is in the minute's bucket.
            let at = self.time(minute).saturating_sub(jiff::SignedDuration::from_secs(1));
            if let Ok(at) = at {
                history.add(at, (*load).into());
            }
        }
        history
    }
}
