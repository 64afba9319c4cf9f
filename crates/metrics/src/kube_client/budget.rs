//! A limit for the bytes of all responses that are being read.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of each response that don't count. Responses of the usual size therefore never fail
/// because of others.
const FREE_BYTES: usize = 256 << 10;

/// The limit in bytes for all responses together, without [`FREE_BYTES`] of each.
pub(super) struct ByteBudget {
    limit: usize,
    used: AtomicUsize,
}

impl ByteBudget {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, used: AtomicUsize::new(0) }
    }

    /// An empty share, for a response that is about to be read.
    pub(super) fn share(&self) -> Share<'_> {
        Share { budget: self, counted_bytes: 0 }
    }
}

/// The bytes of one response that count. They are given back on drop.
pub(super) struct Share<'a> {
    budget: &'a ByteBudget,
    counted_bytes: usize,
}

impl Share<'_> {
    /// Extends the share to a response of `bytes` bytes. Returns false if the budget doesn't
    /// suffice.
    pub(super) fn grow_to(&mut self, bytes: usize) -> bool {
        let counted = bytes.saturating_sub(FREE_BYTES).max(self.counted_bytes);
        let growth = counted - self.counted_bytes;
        let extend =
            |used: usize| used.checked_add(growth).filter(|used| *used <= self.budget.limit);
        let extended =
            self.budget.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, extend).is_ok();
        if extended {
            self.counted_bytes = counted;
        }
        extended
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.counted_bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_responses_share_the_budget() {
        let budget = ByteBudget::new(1000);
        let (mut first, mut second) = (budget.share(), budget.share());
        assert!(first.grow_to(FREE_BYTES + 600) && second.grow_to(FREE_BYTES + 400));
        assert!(!second.grow_to(FREE_BYTES + 401));
        assert!(budget.share().grow_to(FREE_BYTES), "small responses don't count");
        drop(first);
        assert!(second.grow_to(FREE_BYTES + 1000) && !second.grow_to(FREE_BYTES + 1001));
        drop(second);
        assert_eq!(budget.used.load(Ordering::Relaxed), 0);
    }
}
