//! Recorded values at regular intervals, with gaps.

use hpa_simulate::report::six_digits;

/// One value per step, `None` in gaps.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Series(pub(super) Vec<Option<f64>>);

impl Series {
    /// A series of gaps.
    pub(super) fn empty(len: usize) -> Self {
        Self(vec![None; len])
    }

    /// The steps from `first` to `last`, both included.
    pub(super) fn slice(&self, first: usize, last: usize) -> Self {
        let count = (last + 1).saturating_sub(first);
        Self(self.0.iter().skip(first).take(count).copied().collect())
    }

    pub(super) fn values(&self) -> impl Iterator<Item = f64> {
        self.0.iter().copied().flatten()
    }

    /// Whether all steps are gaps.
    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    pub(super) fn get(&self, index: usize) -> Option<f64> {
        self.0.get(index).copied().flatten()
    }

    /// The share of steps with a value, from 0 to 1.
    pub(super) fn coverage(&self) -> f64 {
        self.values().count() as f64 / self.0.len().max(1) as f64
    }

    /// Combines the values of two series. A gap of either is a gap of the result.
    pub(super) fn zip(&self, other: &Self, combine: impl Fn(f64, f64) -> f64) -> Self {
        let pairs = self.0.iter().zip(&other.0);
        Self(pairs.map(|(one, other)| Some(combine((*one)?, (*other)?))).collect())
    }

    pub(super) fn divided_by(&self, divisor: f64) -> Self {
        Self(self.0.iter().map(|value| value.map(|value| value / divisor)).collect())
    }

    /// Sets a gap to 0 if the other series is 0 in the same step.
    pub(super) fn zero_gaps_where_zero(&mut self, other: &Self) {
        for (value, other) in self.0.iter_mut().zip(&other.0) {
            if value.is_none() && other.is_some_and(|other| other <= 0.0) {
                *value = Some(0.0);
            }
        }
    }

    /// The value at a share of the sorted values: 0 is the smallest, 1 the largest. Rounds up.
    pub(super) fn quantile(&self, share: f64) -> Option<f64> {
        let mut values: Vec<f64> = self.values().collect();
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        let index = (0..=last).find(|index| *index as f64 >= share * last as f64);
        values.get(index.unwrap_or(last)).copied()
    }

    /// The mean of the values; 0 if all steps are gaps.
    pub(super) fn mean(&self) -> f64 {
        self.values().sum::<f64>() / (self.values().count().max(1) as f64)
    }

    /// The number of steps in the longest gap.
    pub(super) fn longest_gap(&self) -> usize {
        self.0.split(Option::is_some).map(<[_]>::len).max().unwrap_or_default()
    }

    /// Points (seconds, value) of a load that is linear between them. Leaves out gaps, and values
    /// that equal both neighbors.
    pub(super) fn points(&self, step: f64) -> Vec<(f64, f64)> {
        let all = self.known().map(|(index, value)| (index as f64 * step, six_digits(value)));
        let all: Vec<(f64, f64)> = all.collect();
        let is_needed = |index: usize| {
            let at = |index: Option<usize>| all.get(index?).map(|(_, value)| value.to_bits());
            let value = at(Some(index));
            at(index.checked_sub(1)) != value || at(Some(index + 1)) != value
        };
        let points = all.iter().enumerate().filter(|(index, _)| is_needed(*index));
        points.map(|(_, point)| *point).collect()
    }

    /// Points (seconds, value) of a load that is constant between them. Each value starts `lead`
    /// seconds before its step, but not before 0. If several values would start at 0, only the last
    /// of them does. Gaps are interpolated linearly. The last value has a point even if it repeats:
    /// otherwise, the load would seem to end early.
    pub(super) fn step_points(&self, step: f64, lead: f64) -> Vec<(f64, f64)> {
        let mut points: Vec<(f64, f64)> = Vec::new();
        for (index, value) in self.filled().into_iter().enumerate() {
            let (time, value) = ((index as f64 * step - lead).max(0.0), six_digits(value));
            match points.last_mut() {
                Some((_, last)) if last.to_bits() == value.to_bits() => {}
                // A step shorter than `lead` has several values that start at 0.
                Some((start, last)) if time <= *start => *last = value,
                _ => points.push((time, value)),
            }
        }
        let end = self.0.len().saturating_sub(1) as f64 * step - lead;
        let last = points.last().copied();
        points.extend(last.filter(|(start, _)| end > *start).map(|(_, value)| (end, value)));
        points
    }

    /// The values with their indexes, without gaps.
    fn known(&self) -> impl Iterator<Item = (usize, f64)> {
        self.0.iter().enumerate().filter_map(|(index, value)| Some((index, (*value)?)))
    }

    /// All values, with gaps interpolated linearly.
    fn filled(&self) -> Vec<f64> {
        let known: Vec<(usize, f64)> = self.known().collect();
        let value_at = |index: usize| {
            let next = known.partition_point(|(known, _)| *known <= index);
            let previous = next.checked_sub(1).and_then(|previous| known.get(previous));
            match (previous, known.get(next)) {
                (Some((from, low)), Some((to, high))) => {
                    low + (high - low) * (index - from) as f64 / (to - from) as f64
                }
                (Some((_, value)), None) | (None, Some((_, value))) => *value,
                (None, None) => 0.0,
            }
        };
        (0..self.0.len()).map(value_at).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(values: &[f64]) -> Series {
        Series(values.iter().map(|value| Some(*value).filter(|value| !value.is_nan())).collect())
    }

    #[test]
    fn longest_gap_has_its_number_of_steps() {
        let series = series(&[f64::NAN, 1.0, f64::NAN, f64::NAN, f64::NAN, 2.0]);
        assert_eq!(series.longest_gap(), 3);
        assert!((series.coverage() - 1.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn points_leave_out_constant_parts_and_gaps() {
        let series = series(&[1.0, 1.0, 1.0, 2.0, f64::NAN, 2.0, 2.0, 3.123_456_7]);
        let points = [(0.0, 1.0), (30.0, 1.0), (45.0, 2.0), (90.0, 2.0), (105.0, 3.12346)];
        assert_eq!(series.points(15.0), points);
    }

    #[test]
    fn step_points_begin_before_their_step_and_fill_gaps() {
        let series = series(&[1.0, 1.0, 2.0, f64::NAN, 4.0, 4.0, 5.0]);
        let points = [(0.0, 1.0), (15.5, 2.0), (30.5, 3.0), (45.5, 4.0), (75.5, 5.0)];
        assert_eq!(series.step_points(15.0, 14.5), points);
    }

    #[test]
    fn step_points_end_with_the_last_value() {
        let series = series(&[1.0, 2.0, 2.0, 2.0]);
        assert_eq!(series.step_points(15.0, 14.5), [(0.0, 1.0), (0.5, 2.0), (30.5, 2.0)]);
    }

    #[test]
    fn step_points_of_short_steps_are_in_order_of_time() {
        let series = series(&[1.0, 2.0, 3.0, 3.0, 4.0]);
        assert_eq!(series.step_points(5.0, 14.5), [(0.0, 3.0), (5.5, 4.0)]);
        assert_eq!(series.step_points(1.0, 14.5), [(0.0, 4.0)]);
    }

    #[test]
    fn quantile_is_one_of_the_values() {
        let series = series(&[4.0, 1.0, 3.0, 2.0]);
        assert_eq!(series.quantile(0.5), Some(3.0));
        assert_eq!((series.quantile(0.0), series.quantile(1.0)), (Some(1.0), Some(4.0)));
        assert_eq!(Series::empty(3).quantile(0.5), None);
    }

    #[test]
    fn load_without_pods_is_zero() {
        let mut load = series(&[f64::NAN, f64::NAN, 5.0]);
        load.zero_gaps_where_zero(&series(&[0.0, 2.0, 2.0]));
        assert_eq!(load.0, [Some(0.0), None, Some(5.0)]);
    }
}
