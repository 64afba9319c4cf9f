//! The replicas that a cluster had, which a replay shows beside those of its runs.

use jiff::Timestamp;

/// Replicas that were recorded at regular intervals.
#[derive(Clone, Debug, Default)]
pub struct RecordedReplicas {
    /// The time of the first value, which is the start of the run.
    pub start: Timestamp,
    /// Seconds between two values.
    pub step: f64,
    /// The replicas; `None` in gaps.
    pub values: Vec<Option<f64>>,
}

/// Consecutive recorded replicas without a gap.
pub(super) struct Segment {
    /// Seconds, and replicas rounded to whole ones.
    pub(super) points: Vec<(f64, f64)>,
    /// The second in which the gap after the segment begins.
    pub(super) end: f64,
}

impl RecordedReplicas {
    /// The recorded replicas between gaps.
    pub(super) fn segments(&self) -> Vec<Segment> {
        let mut first = 0_usize;
        let mut segments = Vec::new();
        for chunk in self.values.chunk_by(|one, next| one.is_some() == next.is_some()) {
            let point = |(index, value): (usize, &Option<f64>)| {
                Some(((first + index) as f64 * self.step, (*value)?.round()))
            };
            let points: Vec<_> = chunk.iter().enumerate().filter_map(point).collect();
            first += chunk.len();
            if !points.is_empty() {
                segments.push(Segment { points, end: first as f64 * self.step });
            }
        }
        segments
    }

    /// The minimum and maximum of the recorded replicas.
    pub(super) fn range(&self) -> Option<(f64, f64)> {
        let values = || self.values.iter().flatten().map(|value| value.round());
        Some((values().reduce(f64::min)?, values().reduce(f64::max)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_whole_replicas_between_gaps() {
        let values = vec![None, Some(2.0), Some(2.6), None, None, Some(13.6)];
        let recorded = RecordedReplicas { step: 15.0, values, ..RecordedReplicas::default() };
        let segments: Vec<_> =
            recorded.segments().into_iter().map(|segment| (segment.points, segment.end)).collect();
        let expected = [(vec![(15.0, 2.0), (30.0, 3.0)], 45.0), (vec![(75.0, 14.0)], 90.0)];
        assert_eq!(segments, expected);
        assert_eq!(recorded.range(), Some((2.0, 14.0)));
        assert!(RecordedReplicas::default().range().is_none());
    }
}
