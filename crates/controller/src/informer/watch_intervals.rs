//! How often the informers relist and resume their watches.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

/// The intervals of all watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchIntervals {
    /// The delay from an undecodable object to the relist that it causes, and the longest backoff
    /// of a watch that failed.
    pub relist: Duration,
    /// The longest time without a confirmation by the API server after which a cached scale is
    /// still used.
    pub max_age: Duration,
}

impl WatchIntervals {
    /// The timeout of the requests of one watch: 75 to 90 % of `max_age`, so that the next request
    /// has started by then. It differs between watches, so that they don't resume together.
    pub(super) fn timeout(&self, watch: &impl Hash) -> Duration {
        let mut hasher = DefaultHasher::new();
        watch.hash(&mut hasher);
        let percent = 75 + u32::try_from(hasher.finish() % 16).unwrap_or_default();
        self.max_age * percent / 100
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_differ_and_leave_time_to_resume() {
        let max_age = Duration::from_secs(30);
        let intervals = WatchIntervals { relist: Duration::from_secs(7), max_age };
        let timeouts: Vec<_> = (0..100).map(|watch| intervals.timeout(&watch)).collect();
        assert_eq!(timeouts.iter().min(), Some(&Duration::from_millis(22_500)));
        assert_eq!(timeouts.iter().max(), Some(&Duration::from_secs(27)));
    }
}
