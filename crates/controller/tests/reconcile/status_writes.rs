//! Status writes, conditions, and the outcomes that an observer receives.

use std::{sync::Arc, time::Duration};

use hpa_calc::{history::Direction, selector::Selector};
use hpa_controller::{
    Clock, FinishedReconcile, Instants, Observer, ReconcileBeforeStatusWrite,
    cache::{ErrorClass, Origin},
    reconcile::Reconciler,
};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::json;

use crate::{
    fixture::{conditions, hpa, key, reconciler, server, usage},
    server::{Server, merged_status},
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

/// A clock that the test advances.
struct ManualClock {
    start: Timestamp,
    elapsed: Mutex<Duration>,
}

impl Clock for ManualClock {
    fn instants(&self) -> Instants {
        let monotonic = *self.elapsed.lock();
        Instants { wall: self.start + monotonic, monotonic }
    }
}

/// A reconciler with a status interval of a minute, its clock and its server.
fn with_status_interval() -> (Reconciler, Arc<ManualClock>, Arc<Mutex<Server>>) {
    let server = Arc::new(Mutex::new(server()));
    let clock = Arc::new(ManualClock { start: Timestamp::now(), elapsed: Mutex::default() });
    let reconciler = Reconciler {
        status_interval: Duration::from_mins(1),
        clock: clock.clone(),
        ..reconciler(&server)
    };
    (reconciler, clock, server)
}

#[tokio::test]
async fn changed_values_are_written_once_in_a_status_interval() {
    let (mut reconciler, clock, server) = with_status_interval();
    let mut written = Vec::new();
    // Each step: second, usage, and whether the usage is written. The target is 50, and the
    // tolerance is 5.
    let steps = [
        (0, 50, true),
        (15, 51, false),
        (30, 52, false),
        (45, 51, false),
        // Reconciles may start a little early.
        (59, 52, true),
        (75, 51, false),
        (90, 51, false),
        (105, 51, false),
        (120, 51, true),
        (180, 51, false),
        (195, 52, true),
        // The value moved by more than the tolerance.
        (210, 46, true),
        (225, 50, false),
    ];
    for (second, milli, expected) in steps {
        *clock.elapsed.lock() = Duration::from_secs(second);
        reconciler.metrics = Arc::new(usage(milli));
        reconciler.reconcile(&key()).await;
        if expected {
            written.push(milli);
        }
        let patches = server.lock().status_patches.clone();
        let values: Vec<_> = patches
            .iter()
            .map(|patch| patch["status"]["currentMetrics"][0]["resource"]["current"].clone())
            .filter_map(|current| current["averageUtilization"].as_i64())
            .collect();
        assert_eq!(values, written, "after {second} s");
    }
}

#[tokio::test]
async fn other_changes_of_a_status_are_written_at_once() {
    let (mut reconciler, clock, server) = with_status_interval();
    reconciler.metrics = Arc::new(usage(50));
    reconciler.reconcile(&key()).await;
    // A scaling changes the desired replicas.
    *clock.elapsed.lock() = Duration::from_secs(15);
    reconciler.metrics = Arc::new(usage(100));
    reconciler.reconcile(&key()).await;
    assert_eq!(merged_status(&server.lock().status_patches)["desiredReplicas"], 4);
    // An unreadable scale changes a condition.
    *clock.elapsed.lock() = Duration::from_secs(30);
    server.lock().scale_is_served = false;
    reconciler.reconcile(&key()).await;
    let conditions = conditions(&server.lock());
    assert!(conditions.contains("FailedGetScale"), "{conditions}");
    assert_eq!(server.lock().status_patches.len(), 3);
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
pub(crate) type Outcome = (Option<Direction>, Option<i32>, Option<ErrorClass>);

/// Records the outcomes.
#[derive(Default)]
struct Outcomes(Mutex<Vec<Outcome>>);

impl Observer for Outcomes {
    fn concluded(&self, concluded: &ReconcileBeforeStatusWrite<'_>) {
        assert_eq!(concluded.read_durations.len(), 1);
    }

    fn finished(&self, finished: &FinishedReconcile<'_>) {
        assert_eq!(finished.key, &key());
        self.0.lock().push((finished.scaled, finished.desired_replicas, finished.error));
    }
}

/// The outcomes that an observer receives for one reconcile.
pub(crate) async fn observed_outcomes(server: Server) -> Vec<Outcome> {
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

#[tokio::test]
async fn observer_receives_the_outcome_of_an_undecodable_autoscaler() {
    let outcomes = Arc::new(Outcomes::default());
    let undecodable = Server { hpa_is_undecodable: true, ..server() };
    let server = Arc::new(Mutex::new(undecodable));
    let reconciler = Reconciler { observer: outcomes.clone(), ..reconciler(&server) };
    reconciler.autoscalers.mark_undecodable(&key());
    reconciler.reconcile(&key()).await;
    assert_eq!(*outcomes.0.lock(), [(None, None, Some(ErrorClass::Spec))]);
    server.lock().hpa_exists = false;
    reconciler.reconcile(&key()).await;
    assert_eq!(outcomes.0.lock().len(), 1, "a deleted autoscaler has no outcome");
}

/// The target was scaled by a user, and no peer updates the status.
#[tokio::test]
async fn observer_receives_the_outcome_of_a_dry_run_that_waits_for_the_peer() {
    let outcomes = Arc::new(Outcomes::default());
    let server = Arc::new(Mutex::new(server()));
    let reconciler =
        Reconciler { observer: outcomes.clone(), dry_run: true, ..reconciler(&server) };
    let mut hpa = hpa();
    let condition =
        json!({ "type": "AbleToScale", "status": "True", "reason": "ReadyForNewScale" });
    hpa.status = serde_json::from_value(json!({
        "currentReplicas": 3, "desiredReplicas": 3, "conditions": [condition],
    }))
    .expect("a status");
    reconciler.autoscalers.apply(&key(), hpa, Origin::List);
    server.lock().replicas = 5;
    for _ in 0..2 {
        reconciler.reconcile(&key()).await;
    }
    assert_eq!(*outcomes.0.lock(), [(None, None, None); 2]);
}
