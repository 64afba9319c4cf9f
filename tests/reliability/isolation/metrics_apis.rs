//! An overloaded or hanging metrics API.

use std::time::Duration;

use hpa_testbed::{Effect, Fault, Match};
use hpa_tests::harness::{TestbedExt, objects};
use serde_json::json;

use super::count_and_longest_gap;
use crate::{
    MAX_REPLICAS, PERIOD,
    cluster::{CONTROLLER, Cluster, running_cluster},
};

/// The duration of the failure.
const FAILURE_DURATION: Duration = Duration::from_mins(30);

/// The number of autoscalers with an external metric, in addition to `jobs`.
const EXTERNAL_COUNT: usize = 10;

fn external_metrics(effect: Effect) -> Fault {
    Fault::on(Match::any().group("external.metrics.k8s.io").client(CONTROLLER)).effect(effect)
}

/// Longer than any timeout.
fn hang() -> Effect {
    Effect::Slow { by: Duration::from_hours(1) }
}

/// Creates autoscalers, each with this many external metrics.
fn create_external(cluster: &Cluster, autoscaler_count: usize, metric_count: usize) {
    for at in 0..autoscaler_count {
        let name = format!("external-{at}");
        let metrics = (0..metric_count).map(|metric| format!("{name}-{metric}"));
        let metrics: Vec<_> = metrics.map(|name| objects::external_metric(&name, "10")).collect();
        cluster.apply(objects::deployment(&name, 1));
        cluster.apply(objects::hpa(&name, 1..=MAX_REPLICAS, metrics));
    }
}

/// Checks that `web`, which has only a CPU metric, was reconciled in every period.
fn assert_unaffected(cluster: &Cluster, since: Duration) {
    let (count, longest_gap) = count_and_longest_gap(cluster, "web", since);
    assert!(count >= 119, "reconciled {count} times");
    assert!(longest_gap <= PERIOD + Duration::from_secs(1), "after {longest_gap:?}");
}

#[tokio::test(start_paused = true)]
async fn overloaded_metrics_api_delays_no_other_api() {
    let (cluster, faults) = running_cluster().await;
    create_external(&cluster, EXTERNAL_COUNT, 1);
    faults.add(external_metrics(Effect::TooManyRequests { retry_after_seconds: Some(5) }));
    let since = cluster.clock.age();
    cluster.sleep(FAILURE_DURATION).await;
    assert!(faults.total_hits() > 100, "{} hits", faults.total_hits());
    assert_unaffected(&cluster, since);
    cluster.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn hanging_metrics_api_delays_no_other_autoscaler() {
    let (cluster, faults) = running_cluster().await;
    create_external(&cluster, EXTERNAL_COUNT, 1);
    faults.add(external_metrics(hang()));
    let since = cluster.clock.age();
    cluster.sleep(FAILURE_DURATION).await;
    assert!(faults.total_hits() > 100, "{} hits", faults.total_hits());
    assert_unaffected(&cluster, since);
    // Autoscalers with external metrics are also reconciled, and scale when the API responds again.
    let (count, longest_gap) = count_and_longest_gap(&cluster, "external-0", since);
    assert!(count >= 115 && longest_gap <= 2 * PERIOD, "{count} times, after {longest_gap:?}");
    cluster.loads.set("external-0-0", 4);
    faults.clear();
    cluster.wait_for_replicas("external-0", 4).await;
    let recovery = cluster.clock.age().saturating_sub(since + FAILURE_DURATION);
    assert!(recovery < 3 * PERIOD, "scaled after {recovery:?}");
    cluster.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn controller_stays_alive_when_hundreds_of_metrics_hang() {
    let (cluster, faults) = running_cluster().await;
    create_external(&cluster, 5, 250);
    faults.add(external_metrics(hang()));
    let since = cluster.clock.age();
    // Twice the time after which workers are reported as stuck.
    for _ in 0..40 {
        cluster.sleep(PERIOD).await;
        assert_eq!(cluster.telemetry.alive(), Ok(()), "at {:?}", cluster.clock.age());
    }
    let (count, longest_gap) = count_and_longest_gap(&cluster, "web", since);
    assert!(count >= 39 && longest_gap <= PERIOD + Duration::from_secs(1), "{longest_gap:?}");
    cluster.shut_down().await;
}

/// Each response takes most of the request timeout.
#[tokio::test(start_paused = true)]
async fn slow_metrics_api_fails_no_metric() {
    let (cluster, faults) = running_cluster().await;
    create_external(&cluster, EXTERNAL_COUNT, 1);
    for at in 0..EXTERNAL_COUNT {
        cluster.loads.set(&format!("external-{at}-0"), 4);
    }
    faults.add(external_metrics(Effect::Slow { by: Duration::from_secs(7) }));
    cluster.sleep(3 * PERIOD).await;
    for at in 0..EXTERNAL_COUNT {
        let hpa = cluster.testbed.hpa(&format!("external-{at}")).expect("an autoscaler");
        assert_eq!(hpa["status"]["desiredReplicas"], json!(4), "{hpa}");
    }
    cluster.shut_down().await;
}
