//! A limit for reviews.

use tokio::sync::Semaphore;

use crate::reviews::review::ReviewError;

/// Bounds reviews that run, and those that wait until they may.
#[derive(Debug)]
pub struct ReviewLimit {
    /// Those that run or wait.
    started: Semaphore,
    running: Semaphore,
}

impl ReviewLimit {
    /// Bounds reviews that run, and those that wait.
    pub fn new(running: usize, waiting: usize) -> Self {
        let started = Semaphore::new(running + waiting);
        Self { started, running: Semaphore::new(running) }
    }

    /// Runs a review as soon as it may. Fails at once if too many wait.
    pub async fn run<T>(
        &self,
        review: impl Future<Output = Result<T, ReviewError>>,
    ) -> Result<T, ReviewError> {
        let _started = self.started.try_acquire().map_err(|_| ReviewError::TooMany)?;
        let _running = self.running.acquire().await.map_err(|_| ReviewError::TooMany)?;
        review.await
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, future::pending};

    use super::*;

    #[tokio::test]
    async fn reviews_wait_for_others_and_are_refused_if_too_many_wait() {
        let limit = ReviewLimit::new(1, 1);
        let mut running = Box::pin(limit.run(pending::<Result<(), _>>()));
        assert!(running.as_mut().now_or_never().is_none());
        let mut waiting = Box::pin(limit.run(async { Ok(()) }));
        assert!(waiting.as_mut().now_or_never().is_none(), "one runs already");
        let refused = limit.run(async { Ok(()) }).now_or_never();
        assert!(matches!(refused, Some(Err(ReviewError::TooMany))));
        drop(running);
        assert!(matches!(waiting.now_or_never(), Some(Ok(()))));
    }
}
