//! Reconciles in dry run, compared with the status of a peer controller.

use std::{sync::Arc, time::Duration};

use hpa_calc::{
    api::{ConditionReason, HorizontalPodAutoscaler},
    selector::Selector,
};
use hpa_controller::{
    HpaKey, Observer, ReconcileBeforeStatusWrite,
    cache::Origin,
    reconcile::Reconciler,
    scale_target::ScaleClient,
    shadow::{
        ComparisonResult::{self, Different, Same, Unsettled},
        read_only,
    },
};
use parking_lot::Mutex;
use serde_json::json;

use crate::{
    fixture::{hpa, key, pod, reconciler, server, usage},
    server::Server,
};

#[derive(Default)]
struct RecordedResults(Mutex<Vec<ComparisonResult>>);

impl Observer for RecordedResults {
    fn concluded(&self, _: &ReconcileBeforeStatusWrite<'_>) {}

    fn compared(&self, _: &HpaKey, result: ComparisonResult) {
        self.0.lock().push(result);
    }
}

/// A reconciler in dry run, the results of its comparisons, and its server.
fn dry_run_reconciler(server: Server) -> (Reconciler, Arc<RecordedResults>, Arc<Mutex<Server>>) {
    let (server, results) = (Arc::new(Mutex::new(server)), Arc::<RecordedResults>::default());
    let reconciler = Reconciler { dry_run: true, observer: results.clone(), ..reconciler(&server) };
    (reconciler, results, server)
}

/// The autoscaler with the status of a peer that scaled the target from 2 to this many replicas.
fn hpa_with_peer_status(desired: i32) -> HorizontalPodAutoscaler {
    let mut hpa = hpa();
    let condition = |condition_type: &str, status: &str, reason: &str| {
        json!({
            "type": condition_type,
            "status": status,
            "reason": reason,
        })
    };
    hpa.status = serde_json::from_value(json!({
        "currentReplicas": 2, "desiredReplicas": desired,
        "currentMetrics": [{ "type": "Resource", "resource": { "name": "cpu",
            "current": { "averageUtilization": 100, "averageValue": "100m" } } }],
        "conditions": [condition("AbleToScale", "True", "SucceededRescale"),
            condition("ScalingActive", "True", "ValidMetricFound"),
            condition("ScalingLimited", "False", "DesiredWithinRange")],
    }))
    .expect("a status");
    hpa
}

/// The results of comparisons with a peer that has scaled the target to the first of these numbers
/// of replicas, and writes them to its status as the desired replicas, one after the other.
async fn results_with_peer(peer_replicas: &[i32]) -> Vec<ComparisonResult> {
    let server = Server { replicas: peer_replicas[0].into(), ..server() };
    let (reconciler, results, server) = dry_run_reconciler(server);
    reconciler.reconcile(&key()).await;
    for (index, replicas) in peer_replicas.iter().enumerate() {
        let mut hpa = hpa_with_peer_status(*replicas);
        // Makes each status a new one.
        hpa.status.conditions[0].message = index.to_string().into();
        reconciler.autoscalers.apply(&key(), hpa, Origin::List);
        reconciler.reconcile(&key()).await;
    }
    let server = server.lock();
    assert_eq!(
        (server.scale_writes.len(), server.status_patches.len(), server.events.len()),
        (0, 0, 0)
    );
    results.0.lock().clone()
}

#[tokio::test]
async fn same_decision_has_the_result_same() {
    assert_eq!(results_with_peer(&[4, 4]).await, [Same, Same]);
}

#[tokio::test]
async fn persistent_difference_has_the_result_different() {
    assert_eq!(results_with_peer(&[3, 3]).await, [Unsettled, Different]);
}

/// The peer scales before it writes its status, so pods and metrics may have changed since its
/// decision.
#[tokio::test]
async fn scaling_is_compared_on_inputs_read_before_it() {
    let (mut reconciler, results, server) = dry_run_reconciler(server());
    reconciler.reconcile(&key()).await;
    server.lock().replicas = 4;
    for name in ["web-2", "web-3"] {
        reconciler.pods.index("shop").expect("an index").apply("shop", pod(name));
    }
    reconciler.metrics = Arc::new(usage(50));
    reconciler.autoscalers.apply(&key(), hpa_with_peer_status(4), Origin::List);
    reconciler.reconcile(&key()).await;
    assert_eq!(*results.0.lock(), [Same]);
    // Our history continues with the peer's recommendation.
    let autoscaler = reconciler.autoscalers.get(&key()).expect("a cached autoscaler");
    let history = autoscaler.history(reconciler.clock.instants());
    assert_eq!(history.recommendations.last().map(|last| last.replicas), Some(4));
}

/// After a scaling, the peer may agree again.
#[tokio::test]
async fn scaling_that_our_decision_does_not_reach_is_different_at_once() {
    let (reconciler, results, server) = dry_run_reconciler(server());
    reconciler.reconcile(&key()).await;
    server.lock().replicas = 6;
    reconciler.autoscalers.apply(&key(), hpa_with_peer_status(6), Origin::List);
    reconciler.reconcile(&key()).await;
    assert_eq!(*results.0.lock(), [Different]);
}

#[tokio::test]
async fn scaling_is_compared_on_metric_values_of_the_peer_status() {
    let (mut reconciler, results, _) = dry_run_reconciler(server());
    // With the default window, the first recommendation of 4 would still apply and scale up.
    let rules = json!({ "scaleDown": { "stabilizationWindowSeconds": 0 } });
    let behavior: Option<_> = serde_json::from_value(rules).expect("a behavior");
    let [mut undecided, mut decided] = [hpa(), hpa_with_peer_status(4)];
    (undecided.spec.behavior, decided.spec.behavior) = (behavior.clone(), behavior);
    reconciler.autoscalers.apply(&key(), undecided, Origin::List);
    for milli in [100, 50, 50] {
        reconciler.metrics = Arc::new(usage(milli));
        reconciler.reconcile(&key()).await;
    }
    reconciler.autoscalers.apply(&key(), decided, Origin::List);
    reconciler.reconcile(&key()).await;
    assert_eq!(*results.0.lock(), [Same]);
}

/// While its status is unchanged, the peer has not decided on a load that changed since.
#[tokio::test]
async fn unchanged_status_delays_our_recommendation() {
    let (mut reconciler, results, _) = dry_run_reconciler(server());
    reconciler.metrics = Arc::new(usage(50));
    reconciler.reconcile(&key()).await;
    let mut decided = hpa_with_peer_status(2);
    decided.status.conditions[0].reason = ConditionReason::ReadyForNewScale;
    decided.status.current_metrics[0] =
        serde_json::from_value(json!({ "type": "Resource", "resource": {
        "name": "cpu", "current": { "averageUtilization": 50, "averageValue": "50m" } } }))
        .expect("a metric");
    reconciler.autoscalers.apply(&key(), decided, Origin::List);
    let mut recommended = Vec::new();
    for milli in [50, 25, 25, 25] {
        reconciler.metrics = Arc::new(usage(milli));
        reconciler.reconcile(&key()).await;
        let autoscaler = reconciler.autoscalers.get(&key()).expect("a cached autoscaler");
        let history = autoscaler.history(reconciler.clock.instants());
        recommended.push(history.recommendations.last().map(|last| last.replicas));
    }
    assert_eq!(recommended, [2, 2, 2, 1].map(Some));
    assert_eq!(*results.0.lock(), [Same, Same, Unsettled]);
}

/// An outdated selector would make those of other autoscalers ambiguous.
#[tokio::test]
async fn selector_is_cleared_at_zero_replicas_and_with_an_unreadable_new_target() {
    let (reconciler, _, server) = dry_run_reconciler(server());
    let pods = reconciler.pods.select("shop", &Selector::everything());
    let controlling = || reconciler.selectors.controlling("shop", &pods);
    for (replicas, expected) in [(2, vec![key()]), (0, vec![]), (2, vec![key()])] {
        server.lock().replicas = replicas;
        reconciler.reconcile(&key()).await;
        assert_eq!(controlling(), expected, "{replicas} replicas");
    }
    let mut moved = hpa();
    moved.spec.scale_target_ref.name = "unreadable".into();
    reconciler.autoscalers.apply(&key(), moved, Origin::List);
    reconciler.reconcile(&key()).await;
    assert_eq!(controlling(), []);
}

#[tokio::test]
async fn read_only_client_sends_no_writes() {
    let server = Arc::new(Mutex::new(server()));
    let mut reconciler = reconciler(&server);
    // The reconciler itself is not in dry run.
    reconciler.client = read_only(&reconciler.client);
    reconciler.scales = ScaleClient::new(reconciler.client.clone(), Duration::from_secs(5));
    reconciler.reconcile(&key()).await;
    let server = server.lock();
    assert_eq!((server.scale_writes.len(), server.status_patches.len()), (0, 0));
}
