//! A recorded load, minute by minute.

use jiff::Timestamp;

use crate::history::{History, MAX_DAYS, as_f32, as_i64};

pub(crate) const MINUTES_PER_DAY: usize = 24 * 60;
const MINUTE_SECONDS: i64 = 60;
/// The longest time between two samples that is interpolated. Longer times are gaps.
const MAX_GAP_MINUTES: usize = 120;
const MAX_MINUTES: usize = MAX_DAYS * MINUTES_PER_DAY;

/// A recorded load with one value for each minute. [`Backtest`](crate::Backtest) runs autoscalers
/// on it.
#[derive(Clone, Debug, Default, PartialEq)]
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
        let mut trace = Self::default();
        let (mut sum, mut count) = (0.0, 0_u32);
        for (at, load) in samples {
            let minute = at.as_second().div_euclid(MINUTE_SECONDS);
            if !load.is_finite() || load < 0.0 {
                continue;
            }
            let end = trace.start + as_i64(trace.loads.len());
            if trace.loads.is_empty() || minute - end >= as_i64(MAX_MINUTES) {
                trace = Self { start: minute, loads: vec![f32::NAN] };
                (sum, count) = (0.0, 0);
            } else if minute >= end {
                trace.append_minutes(usize::try_from(minute - end).unwrap_or_default());
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

    /// Appends a gap of `missing` minutes, and one minute whose load is to be set. Drops the oldest
    /// minutes if there are too many.
    fn append_minutes(&mut self, missing: usize) {
        self.loads.extend(std::iter::repeat_n(f32::NAN, missing + 1));
        let excess = self.loads.len().saturating_sub(MAX_MINUTES + MAX_GAP_MINUTES);
        if excess > 0 {
            // Drops a day more, because each removal from the front of a vector is expensive.
            let dropped = (excess + MINUTES_PER_DAY).min(self.loads.len().saturating_sub(1));
            self.loads.drain(..dropped);
            self.start += as_i64(dropped);
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
        let minute = self.start + as_i64(minute) + 1;
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
        Self { start: self.start + as_i64(first), loads }
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
