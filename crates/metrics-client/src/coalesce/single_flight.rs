//! One request for all who ask the same at the same time.

use std::{hash::Hash, sync::Arc, time::Duration};

use futures::{
    FutureExt,
    future::{BoxFuture, Shared, WeakShared},
};
use tokio::time::Instant;

use super::shards::Shards;
use crate::FetchError;

type Answer<T> = Result<Arc<T>, FetchError>;
type Flight<T> = Shared<BoxFuture<'static, Answer<T>>>;

/// A request under way, or its answer.
struct Entry<T> {
    started: Instant,
    /// Weak: a request that nobody waits for any more is dropped, and is not taken up again half done.
    flight: WeakShared<BoxFuture<'static, Answer<T>>>,
    answer: Option<Arc<T>>,
}

impl<T> Entry<T> {
    fn fresh_answer(&self, now: Instant, freshness: &Freshness<T>) -> Option<&Arc<T>> {
        self.answer.as_ref().filter(|answer| now.duration_since(self.started) < freshness(answer))
    }

    fn flight(&self) -> Option<Flight<T>> {
        self.flight.upgrade().filter(|flight| flight.peek().is_none())
    }
}

/// For how long after the start of its request an answer is given to others.
type Freshness<T> = dyn Fn(&T) -> Duration + Send + Sync;

/// Answers by key, each from at most one request at a time.
///
/// Whoever asks while a request for the key is under way waits for that one and gets its outcome, be it an error.
/// An answer is reused for those who ask within `freshness` of the *start* of its request, so that its data is never
/// older than that plus what the server adds; an error is not. The request is driven by all who wait for it: any of
/// them may be dropped. When all are, it is cancelled.
pub(crate) struct SingleFlight<K, T> {
    entries: Arc<Shards<K, Entry<T>>>,
    freshness: Arc<Freshness<T>>,
}

impl<K, T> SingleFlight<K, T>
where
    K: Clone + Eq + Hash + Send + Sync + 'static,
    T: Send + Sync + 'static,
{
    pub(crate) fn new(freshness: Duration) -> Self {
        Self::with_freshness(freshness, move |_| freshness)
    }

    /// With a freshness that depends on the answer; `usual` is the least of it.
    pub(crate) fn with_freshness(
        usual: Duration,
        freshness: impl Fn(&T) -> Duration + Send + Sync + 'static,
    ) -> Self {
        // Answers are memory; they go soon after they are of no more use.
        let sweep_interval = usual.max(Duration::from_secs(1));
        let freshness: Arc<Freshness<T>> = Arc::new(freshness);
        let fresh = freshness.clone();
        let keep = move |entry: &mut Entry<T>, now| {
            entry.fresh_answer(now, &*fresh).is_some() || entry.flight().is_some()
        };
        Self { entries: Arc::new(Shards::new(sweep_interval, keep)), freshness }
    }

    /// The answer for a key, from `fetch` if there is no other way.
    pub(crate) async fn get<F>(&self, key: K, fetch: impl FnOnce(K) -> F) -> Answer<T>
    where
        F: Future<Output = Result<T, FetchError>> + Send + 'static,
    {
        match self.join(&key, fetch) {
            Ok(answer) => Ok(answer),
            Err(flight) => flight.await,
        }
    }

    /// The answer that is there, or the request to wait for.
    fn join<F>(&self, key: &K, fetch: impl FnOnce(K) -> F) -> Result<Arc<T>, Flight<T>>
    where
        F: Future<Output = Result<T, FetchError>> + Send + 'static,
    {
        self.entries.with(key, |entries| {
            let now = Instant::now();
            if let Some(entry) = entries.get(key) {
                if let Some(answer) = entry.fresh_answer(now, &*self.freshness) {
                    return Ok(Arc::clone(answer));
                }
                if let Some(flight) = entry.flight() {
                    return Err(flight);
                }
            }
            let flight = self.start(key.clone(), fetch(key.clone()));
            if let Some(weak) = flight.downgrade() {
                entries.insert(key.clone(), Entry { started: now, flight: weak, answer: None });
            }
            Err(flight)
        })
    }

    /// A request that leaves its answer in the entry. Nothing runs before it is polled.
    fn start<F>(&self, key: K, request: F) -> Flight<T>
    where
        F: Future<Output = Result<T, FetchError>> + Send + 'static,
    {
        let entries = Arc::clone(&self.entries);
        async move {
            let answer = Arc::new(request.await?);
            entries.with(&key, |entries| {
                if let Some(entry) = entries.get_mut(&key) {
                    entry.answer = Some(Arc::clone(&answer));
                }
            });
            Ok(answer)
        }
        .boxed()
        .shared()
    }

    /// The number of entries kept.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}
