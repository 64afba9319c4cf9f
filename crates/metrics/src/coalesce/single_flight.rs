//! One request for concurrent callers with equal keys.

use std::{hash::Hash, sync::Arc, time::Duration};

use futures::{
    FutureExt,
    future::{BoxFuture, Either, Shared, WeakShared, ready},
};
use tokio::time::Instant;

use super::sharding::ShardedMap;
use crate::MetricError;

type Response<T, E> = Result<Arc<T>, E>;
type Flight<T, E> = Shared<BoxFuture<'static, Response<T, E>>>;

/// A request in flight, or its response.
struct Entry<T, E> {
    started: Instant,
    /// Weak, so that the request is cancelled when its last caller is dropped.
    flight: WeakShared<BoxFuture<'static, Response<T, E>>>,
    response: Option<Arc<T>>,
}

impl<T, E: Clone> Entry<T, E> {
    fn fresh_response(&self, now: Instant, freshness: &Freshness<T>) -> Option<&Arc<T>> {
        self.response
            .as_ref()
            .filter(|response| now.duration_since(self.started) < freshness(response))
    }

    fn flight(&self) -> Option<Flight<T, E>> {
        self.flight.upgrade().filter(|flight| flight.peek().is_none())
    }
}

/// Returns how long a response is reused, from the start of its request.
type Freshness<T> = dyn Fn(&T) -> Duration + Send + Sync;

/// Responses by key, with at most one request in flight for each key.
///
/// If a request for its key is in flight, a caller waits for that request and gets the same
/// response or error. A response is reused within `freshness` of the *start* of its request, so the
/// age of its data is at most `freshness` plus the delay of the server. An error is not reused. All
/// waiting callers poll the request, so any of them may be dropped. The request is cancelled when
/// all are.
pub struct SingleFlight<K, T, E = MetricError> {
    entries: Arc<ShardedMap<K, Entry<T, E>>>,
    freshness: Arc<Freshness<T>>,
}

impl<K, T, E> SingleFlight<K, T, E>
where
    K: Clone + Eq + Hash + Send + Sync + 'static,
    T: Send + Sync + 'static,
    E: Clone + Send + Sync + 'static,
{
    /// Reuses responses within `freshness`. With zero, callers share only requests in flight.
    pub fn new(freshness: Duration) -> Self {
        Self::with_freshness(freshness, move |_| freshness)
    }

    /// Reuses a response within the freshness that `freshness` returns for it. Stale responses are
    /// dropped every `usual_freshness`, or every second if that is longer.
    pub(crate) fn with_freshness(
        usual_freshness: Duration,
        freshness: impl Fn(&T) -> Duration + Send + Sync + 'static,
    ) -> Self {
        // Responses take memory, so they are dropped soon after they have become stale.
        let sweep_interval = usual_freshness.max(Duration::from_secs(1));
        let freshness: Arc<Freshness<T>> = Arc::new(freshness);
        let freshness_of_entries = freshness.clone();
        let retain = move |entry: &mut Entry<T, E>, now| {
            entry.fresh_response(now, &*freshness_of_entries).is_some() || entry.flight().is_some()
        };
        Self { entries: Arc::new(ShardedMap::new(sweep_interval, retain)), freshness }
    }

    /// Returns the response for a key. Calls `fetch` if there is no fresh response and no request
    /// in flight.
    pub async fn get<F>(&self, key: K, fetch: impl FnOnce(K) -> F) -> Response<T, E>
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        let response = self.entries.with(&key, |entries| {
            let now = Instant::now();
            if let Some(entry) = entries.get(&key) {
                if let Some(response) = entry.fresh_response(now, &*self.freshness) {
                    return Either::Left(ready(Response::<T, E>::Ok(Arc::clone(response))));
                }
                if let Some(flight) = entry.flight() {
                    return Either::Right(flight);
                }
            }
            let flight = self.start(key.clone(), fetch(key.clone()));
            if let Some(weak) = flight.downgrade() {
                entries.insert(key.clone(), Entry { started: now, flight: weak, response: None });
            }
            Either::Right(flight)
        });
        response.await
    }

    /// Returns a request that starts when it is polled. At its end, it stores a reusable response
    /// in the entry, and otherwise removes the entry.
    fn start<F>(&self, key: K, request: F) -> Flight<T, E>
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        let (entries, freshness) = (Arc::clone(&self.entries), Arc::clone(&self.freshness));
        async move {
            let response = request.await.map(Arc::new);
            let reusable = response.as_ref().ok().filter(|response| !freshness(response).is_zero());
            entries.with(&key, |entries| match reusable {
                Some(response) => {
                    if let Some(entry) = entries.get_mut(&key) {
                        entry.response = Some(Arc::clone(response));
                    }
                }
                // Removes the key, because it can be large.
                None => drop(entries.remove(&key)),
            });
            response
        }
        .boxed()
        .shared()
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}
