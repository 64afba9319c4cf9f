//! The state of a cache's first list.

use std::error::Error;

use tokio::sync::watch;

use crate::describe;

/// The outcome of a cache's first list, with the error if it failed. By default, the list has not
/// ended.
#[derive(Debug, Default)]
pub struct SyncState(watch::Sender<Option<Result<(), String>>>);

impl SyncState {
    /// Reports that the first list is complete.
    pub fn set_synced(&self) {
        self.0.send_if_modified(|state| state.replace(Ok(())) != Some(Ok(())));
    }

    /// Reports that a list has failed. A cache that has synced keeps its objects and stays synced.
    pub fn set_failed(&self, error: &(dyn Error + 'static)) {
        self.0.send_if_modified(|state| {
            let is_synced = matches!(state, Some(Ok(())));
            if !is_synced {
                *state = Some(Err(describe(error)));
            }
            !is_synced
        });
    }

    /// Whether the first list is complete.
    pub fn is_synced(&self) -> bool {
        matches!(*self.0.borrow(), Some(Ok(())))
    }

    /// The error of the last attempt at the first list. `None` before an attempt has failed, and
    /// once the list is complete.
    pub fn failure(&self) -> Option<String> {
        self.0.borrow().clone().and_then(Result::err)
    }

    /// Waits until a list has succeeded or failed, unless one has already.
    pub async fn wait_for_first_outcome(&self) {
        // This fails only if the sender is dropped, and `self` owns it.
        _ = self.0.subscribe().wait_for(Option::is_some).await;
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[tokio::test]
    async fn failure_is_reported_until_the_first_list_is_complete() {
        let state = SyncState::default();
        assert_eq!((state.is_synced(), state.failure()), (false, None));
        let refused = io::Error::other("refused");
        let ((), ()) =
            tokio::join!(state.wait_for_first_outcome(), async { state.set_failed(&refused) });
        assert_eq!((state.is_synced(), state.failure()), (false, Some("refused".to_owned())));
        state.set_synced();
        state.set_failed(&refused);
        state.wait_for_first_outcome().await;
        assert_eq!((state.is_synced(), state.failure()), (true, None));
    }
}
