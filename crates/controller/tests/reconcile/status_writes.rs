//! Status writes, conditions, and what the observer receives.

use std::sync::Arc;

use hpa_calc::{history::Direction, selector::Selector};
use hpa_controller::{Finished, Observer, Reconciled, cache::ErrorClass, reconcile::Reconciler};
use parking_lot::Mutex;

use crate::{
    fixture::{conditions, key, reconciler, server, usage},
    server::Server,
};

#[tokio::test]
async fn unchanged_status_is_written_once() {
    let server = Arc::new(Mutex::new(server()));
    let mut reconciler = reconciler(&server);
    reconciler.metrics = Arc::new(usage(50));
    for _ in 0..3 {
        reconciler.reconcile(&key()).await;
    }
    let server = server.lock();
    assert_eq!(server.scale_writes, []);
    assert_eq!(server.status_patches.len(), 1, "{:?}", server.status_patches);
}

#[tokio::test]
async fn autoscaler_without_target_selects_no_pods() {
    let server = Arc::new(Mutex::new(server()));
    let reconciler = reconciler(&server);
    reconciler.reconcile(&key()).await;
    let pods = reconciler.pods.select("shop", &Selector::everything());
    assert_eq!(reconciler.selectors.controlling("shop", &pods), [key()]);
    server.lock().scale_is_served = false;
    reconciler.reconcile(&key()).await;
    assert_eq!(reconciler.selectors.controlling("shop", &pods), []);
    let conditions = conditions(&server.lock());
    assert!(conditions.contains("FailedGetScale"), "{conditions}");
}

/// Direction of the scaling, desired replicas, error.
type Outcome = (Option<Direction>, Option<i32>, Option<ErrorClass>);

/// Records the outcomes.
#[derive(Default)]
struct Outcomes(Mutex<Vec<Outcome>>);

impl Observer for Outcomes {
    fn reconciled(&self, reconciled: &Reconciled<'_>) {
        assert_eq!(reconciled.read_durations.len(), 1);
    }

    fn finished(&self, finished: &Finished<'_>) {
        assert_eq!(finished.key, &key());
        self.0.lock().push((finished.scaled, finished.desired_replicas, finished.error));
    }
}

/// The outcomes that an observer receives for one reconcile.
async fn observed_outcomes(server: Server) -> Vec<Outcome> {
    let server = Arc::new(Mutex::new(server));
    let outcomes = Arc::new(Outcomes::default());
    let reconciler = Reconciler { observer: outcomes.clone(), ..reconciler(&server) };
    reconciler.reconcile(&key()).await;
    std::mem::take(&mut *outcomes.0.lock())
}

#[tokio::test]
async fn observer_receives_the_outcome() {
    assert_eq!(observed_outcomes(server()).await, [(Some(Direction::Up), Some(4), None)]);
    let unread = Server { scale_is_served: false, ..server() };
    assert_eq!(observed_outcomes(unread).await, [(None, None, Some(ErrorClass::Internal))]);
    let unstored = Server { refuses_status_writes: true, ..server() };
    assert_eq!(
        observed_outcomes(unstored).await,
        [(Some(Direction::Up), None, Some(ErrorClass::Internal))]
    );
}
