//! Detects that another client changes the target's replicas after each scaling.

/// The number of consecutive overwritten scalings after which they are reported. Fewer may come
/// from a user who scales by hand.
const REPORT_AFTER: u32 = 3;

/// The number of further overwritten scalings after which they are reported again, because events
/// expire.
const REPORT_AGAIN_AFTER: u32 = 100;

/// The consecutive scalings of a target that another client has overwritten.
#[derive(Debug, Default)]
pub(crate) struct OverwrittenReplicas {
    /// The replicas that the last reconcile wrote.
    written: Option<i32>,
    /// The number of consecutive scalings whose replicas the next reconcile no longer found.
    overwritten_count: u32,
}

impl OverwrittenReplicas {
    /// Records that a reconcile has written these replicas.
    pub(crate) fn record_write(&mut self, replicas: i32) {
        self.written = Some(replicas);
    }

    /// Compares the replicas that a reconcile reads with those that the last one wrote. Returns the
    /// latter if the change is to be reported.
    pub(crate) fn observe(&mut self, replicas: i32) -> Option<i32> {
        let written = self.written.take()?;
        if replicas == written {
            self.overwritten_count = 0;
            return None;
        }
        self.overwritten_count = self.overwritten_count.saturating_add(1);
        let further = self.overwritten_count.checked_sub(REPORT_AFTER)?;
        (further % REPORT_AGAIN_AFTER == 0).then_some(written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether each of these scalings to 5 is reported, if the next reconcile reads this number.
    fn reported(found: &[i32]) -> Vec<bool> {
        let mut overwritten = OverwrittenReplicas::default();
        let observe = |found: &i32| {
            overwritten.record_write(5);
            overwritten.observe(*found).is_some()
        };
        found.iter().map(observe).collect()
    }

    #[test]
    fn third_scaling_that_is_overwritten_is_reported_and_later_ones_rarely() {
        let all = reported(&[2; 250]).into_iter().enumerate();
        let numbers: Vec<_> = all.filter(|(_, it)| *it).map(|(index, _)| index + 1).collect();
        assert_eq!(numbers, [3, 103, 203]);
    }

    #[test]
    fn scaling_that_lasts_ends_the_series() {
        assert!(!reported(&[2, 2, 5, 2, 2]).contains(&true));
    }

    #[test]
    fn later_change_is_not_counted() {
        let mut overwritten = OverwrittenReplicas::default();
        overwritten.record_write(5);
        let found = [5, 2, 3, 4].map(|replicas| overwritten.observe(replicas));
        assert_eq!(found, [None; 4]);
        assert_eq!(overwritten.overwritten_count, 0);
    }
}
