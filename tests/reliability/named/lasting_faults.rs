//! Long faults, and faults with a lasting effect. These tests have no baseline to compare with.

use std::time::Duration;

use hpa_testbed::{Effect, Fault, Faults, Match, Restart};
use hpa_tests::harness::{TestbedExt, objects};

use crate::{
    PERIOD, WINDOW,
    cluster::{CONTROLLER, Cluster, TARGETS, hpa},
    invariants::violations,
};

/// The API server loses all data. Recreated autoscalers must not inherit recommendations.
#[tokio::test(start_paused = true)]
async fn server_restarts_empty() {
    let cluster = Cluster::start();
    cluster.wait_until_age(Duration::from_secs(60)).await;
    cluster.set_all_loads(6);
    cluster.wait_until_age(Duration::from_secs(80)).await;
    assert_eq!(cluster.all_replicas(), [6; 3]);
    cluster.restart(Restart::Fresh, Duration::from_secs(5));
    cluster.wait_until_age(Duration::from_secs(150)).await;
    assert!(cluster.has_running_controller());
    let gauge = "horizontal_pod_autoscaler_controller_num_horizontal_pod_autoscalers 0";
    assert!(
        cluster.telemetry.render().lines().any(|line| line == gauge),
        "autoscalers are still cached"
    );
    cluster.apply(objects::namespace());
    for target in TARGETS {
        cluster.loads.set(target, 3);
        cluster.apply(objects::deployment(target, 1));
        cluster.apply(hpa(target));
    }
    cluster.sleep(2 * PERIOD).await;
    // Not 6: the new autoscalers have no recommendations.
    assert_eq!(cluster.all_replicas(), [3; 3]);
    cluster.sleep(2 * WINDOW).await;
    assert_eq!(violations(&cluster), Vec::<String>::new());
    cluster.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn server_restored_from_before_an_edit() {
    let cluster = Cluster::start();
    cluster.wait_until_age(Duration::from_secs(60)).await;
    let snapshot = cluster.testbed.snapshot();
    cluster.edit(cluster.testbed.hpa("web"), |object| object["spec"]["maxReplicas"] = 3.into());
    cluster.loads.set("web", 6);
    cluster.wait_until_age(Duration::from_secs(90)).await;
    assert_eq!(cluster.testbed.replicas("web"), 3);
    cluster.restart(Restart::Older(snapshot), Duration::from_secs(5));
    assert_eq!(cluster.testbed.replicas("web"), 2);
    cluster.wait_until_age(Duration::from_secs(95) + 2 * PERIOD).await;
    assert_eq!(cluster.testbed.replicas("web"), 6);
    assert_eq!(violations(&cluster), Vec::<String>::new());
    cluster.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn most_requests_fail_for_ten_minutes() {
    let faults = Faults::new(7);
    let cluster = Cluster::with_faults(&faults);
    cluster.wait_until_age(Duration::from_secs(60)).await;
    let quarter_of_requests =
        |effect| Fault::on(Match::any().client(CONTROLLER)).probability(0.25).effect(effect);
    let kinds = [
        quarter_of_requests(Effect::ServiceUnavailable),
        quarter_of_requests(Effect::LostResponse),
        quarter_of_requests(Effect::Disconnect { applied: true }),
    ];
    let added = kinds.map(|fault| faults.add(fault));
    for (index, load) in [7, 2, 5, 1, 8, 3, 6, 1, 4, 2].into_iter().enumerate() {
        cluster.set_all_loads(load);
        let name = TARGETS[index % TARGETS.len()];
        cluster.sleep(Duration::from_secs(31)).await;
        cluster.scale(name, 9 - load);
        cluster.sleep(Duration::from_secs(29)).await;
    }
    for fault in added {
        assert!(faults.hits(fault) > 50, "{} hits", faults.hits(fault));
    }
    cluster.set_all_loads(7);
    faults.clear();
    cluster.sleep(2 * PERIOD).await;
    assert_eq!(cluster.all_replicas(), [7; 3]);
    assert_eq!(violations(&cluster), Vec::<String>::new());
    assert!(cluster.has_running_controller());
    cluster.shut_down().await;
}
