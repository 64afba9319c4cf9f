//! A queue of work.

/// What waits in a queue, and what came and went so far, in units of load.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Backlog {
    pub(crate) waiting: f64,
    pub(crate) arrived: f64,
    pub(crate) drained: f64,
}

impl Backlog {
    /// Lets time pass: so much arrives, and up to that much can be worked off. Returns what was.
    pub(crate) fn pass(&mut self, arrives: f64, able: f64) -> f64 {
        let drained = able.min(self.waiting + arrives).max(0.0);
        self.arrived += arrives;
        self.drained += drained;
        self.waiting = (self.waiting + arrives - drained).max(0.0);
        drained
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::float_cmp, reason = "sums of small whole numbers are exact")]

    use super::Backlog;

    #[test]
    fn nothing_is_lost_and_nothing_made() {
        let mut rng = fastrand::Rng::with_seed(3);
        let mut backlog = Backlog { waiting: 50.0, ..Backlog::default() };
        for _ in 0..1000 {
            let (arrives, able) = (f64::from(rng.u32(0..100)), f64::from(rng.u32(0..120)));
            let drained = backlog.pass(arrives, able);
            assert!(drained <= able && backlog.waiting >= 0.0);
            assert_eq!(50.0 + backlog.arrived, backlog.drained + backlog.waiting);
        }
    }

    #[test]
    fn without_pods_it_only_grows() {
        let mut backlog = Backlog::default();
        let waiting: Vec<f64> = [3.0, 0.0, 4.0]
            .map(|arrives| {
                backlog.pass(arrives, 0.0);
                backlog.waiting
            })
            .to_vec();
        assert_eq!(waiting, [3.0, 3.0, 7.0]);
    }
}
