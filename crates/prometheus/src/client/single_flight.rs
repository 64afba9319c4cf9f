//! One request for equal concurrent queries.

use std::{collections::HashMap, hash::Hash, sync::Arc};

use futures::{
    FutureExt,
    future::{BoxFuture, Shared, WeakShared},
};
use parking_lot::Mutex;

type Flights<K, T> = Arc<Mutex<HashMap<K, WeakShared<BoxFuture<'static, T>>>>>;

/// Requests in flight by key. A request is cancelled when its last caller is dropped.
#[derive(Debug)]
pub(crate) struct SingleFlight<K, T: Clone> {
    flights: Flights<K, T>,
}

impl<K, T> SingleFlight<K, T>
where
    K: Clone + Eq + Hash + Send + 'static,
    T: Clone + Send + Sync + 'static,
{
    pub(crate) fn new() -> Self {
        Self { flights: Arc::default() }
    }

    /// The result of the request in flight, or of a new one.
    pub(crate) async fn run<F>(&self, key: K, start: impl FnOnce() -> F) -> T
    where
        F: Future<Output = T> + Send + 'static,
    {
        self.join(key, start).await
    }

    fn join<F>(&self, key: K, start: impl FnOnce() -> F) -> Shared<BoxFuture<'static, T>>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let mut flights = self.flights.lock();
        if let Some(flight) = flights.get(&key).and_then(WeakShared::upgrade)
            && flight.peek().is_none()
        {
            return flight;
        }
        let guard = RemoveOnDrop { flights: self.flights.clone(), key: key.clone() };
        let request = start();
        let flight = async move {
            let result = request.await;
            drop(guard);
            result
        };
        let flight = flight.boxed().shared();
        if let Some(weak) = flight.downgrade() {
            flights.insert(key, weak);
        }
        flight
    }
}

/// Removes the entry of a request that has ended or was cancelled.
struct RemoveOnDrop<K: Eq + Hash, T: Clone> {
    flights: Flights<K, T>,
    key: K,
}

impl<K: Eq + Hash, T: Clone> Drop for RemoveOnDrop<K, T> {
    fn drop(&mut self) {
        self.flights.lock().remove(&self.key);
    }
}
