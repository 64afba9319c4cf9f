//! Replicas of the past, to compare runs with.

/// Replicas at equal distances in time from the start of a run on.
#[derive(Clone, Debug, Default)]
pub struct RecordedReplicas {
    /// Seconds between two values.
    pub step: f64,
    /// `None` where nothing is recorded.
    pub values: Vec<Option<f64>>,
}

/// Recorded replicas without a gap.
pub(super) struct Part {
    /// Times and whole replicas.
    pub(super) points: Vec<(f64, f64)>,
    pub(super) end: f64,
}

impl RecordedReplicas {
    pub(super) fn parts(&self) -> Vec<Part> {
        let mut first = 0_usize;
        let mut parts = Vec::new();
        for chunk in self.values.chunk_by(|one, next| one.is_some() == next.is_some()) {
            let point = |(index, value): (usize, &Option<f64>)| {
                Some(((first + index) as f64 * self.step, (*value)?.round()))
            };
            let points: Vec<_> = chunk.iter().enumerate().filter_map(point).collect();
            first += chunk.len();
            if !points.is_empty() {
                parts.push(Part { points, end: first as f64 * self.step });
            }
        }
        parts
    }

    /// The fewest and the most recorded replicas.
    pub(super) fn range(&self) -> Option<(f64, f64)> {
        let values = || self.values.iter().flatten().map(|value| value.round());
        Some((values().reduce(f64::min)?, values().reduce(f64::max)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_whole_replicas_between_gaps() {
        let values = vec![None, Some(2.0), Some(2.6), None, None, Some(13.6)];
        let recorded = RecordedReplicas { step: 15.0, values };
        let parts: Vec<_> =
            recorded.parts().into_iter().map(|part| (part.points, part.end)).collect();
        let expected = [(vec![(15.0, 2.0), (30.0, 3.0)], 45.0), (vec![(75.0, 14.0)], 90.0)];
        assert_eq!(parts, expected);
        assert_eq!(recorded.range(), Some((2.0, 14.0)));
        assert!(RecordedReplicas::default().range().is_none());
    }
}
