//! The backlog of a queue.

/// Waiting work, and totals of arrived and drained work, in units of load.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Backlog {
    pub waiting: f64,
    pub arrived: f64,
    pub drained: f64,
}

impl Backlog {
    /// Adds arriving work, then drains up to `capacity`. Returns the drained work.
    pub fn advance(&mut self, arriving: f64, capacity: f64) -> f64 {
        let drained = capacity.min(self.waiting + arriving).max(0.0);
        self.arrived += arriving;
        self.drained += drained;
        self.waiting = (self.waiting + arriving - drained).max(0.0);
        drained
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::float_cmp, reason = "sums of small whole numbers are exact")]

    use super::Backlog;

    #[test]
    fn work_is_conserved() {
        let mut rng = fastrand::Rng::with_seed(3);
        let mut backlog = Backlog { waiting: 50.0, ..Backlog::default() };
        for _ in 0..1000 {
            let (arriving, capacity) = (f64::from(rng.u32(0..100)), f64::from(rng.u32(0..120)));
            let drained = backlog.advance(arriving, capacity);
            assert!(drained <= capacity && backlog.waiting >= 0.0);
            assert_eq!(50.0 + backlog.arrived, backlog.drained + backlog.waiting);
        }
    }

    #[test]
    fn backlog_only_grows_without_capacity() {
        let mut backlog = Backlog::default();
        let waiting: Vec<f64> = [3.0, 0.0, 4.0]
            .map(|arriving| {
                backlog.advance(arriving, 0.0);
                backlog.waiting
            })
            .to_vec();
        assert_eq!(waiting, [3.0, 3.0, 7.0]);
    }
}
