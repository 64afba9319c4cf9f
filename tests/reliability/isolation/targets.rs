//! Targets whose API hangs, for example because of an unresponsive conversion webhook, and targets
//! whose scale writes wait for an admission webhook.

use std::time::Duration;

use hpa_testbed::{Effect, Fault, Match};
use hpa_tests::harness::objects;

use super::count_and_longest_gap;
use crate::{
    NAMESPACE, PERIOD,
    cluster::{CONTROLLER, running_cluster},
    targets::{Id, Kind, Source, Target, fleet_definition},
};

/// The number of targets: more than there are workers or concurrent requests.
const FLEET_COUNT: usize = 100;

fn fleet(index: usize) -> Target {
    let id = Id::new(NAMESPACE, &format!("fleet-{index}"));
    Target {
        id,
        kind: Kind::Fleet,
        source: Source::External,
        can_scale_to_zero: false,
        settings: Vec::new(),
    }
}

#[tokio::test(start_paused = true)]
async fn hanging_custom_resources_delay_no_other_autoscaler() {
    let (cluster, faults) = running_cluster().await;
    cluster.apply(fleet_definition());
    for target in (0..FLEET_COUNT).map(fleet) {
        cluster.loads.set_of(&target.id, 2);
        cluster.apply(target.workload(2));
        cluster.apply(target.autoscaler());
    }
    cluster.sleep(4 * PERIOD).await;
    let requests = Match::any().group("example.com").client(CONTROLLER);
    faults.add(Fault::on(requests).effect(Effect::Stall));
    // Each fleet now needs 6 replicas.
    (0..FLEET_COUNT).map(fleet).for_each(|target| cluster.loads.set_of(&target.id, 6));
    let since = cluster.clock.age();
    cluster.sleep(20 * PERIOD).await;
    let (count, longest_gap) = count_and_longest_gap(&cluster, "web", since);
    assert!(longest_gap <= 2 * PERIOD, "web: {count} reconciles, longest gap {longest_gap:?}");
    faults.clear();
    for target in (0..FLEET_COUNT).map(fleet) {
        let start = cluster.clock.age();
        while cluster.replicas(&target) != 6 {
            let waited = cluster.clock.age().saturating_sub(start);
            assert!(waited < 4 * PERIOD, "{} is not scaled", target.id);
            cluster.sleep(PERIOD / 15).await;
        }
    }
    cluster.shut_down().await;
}

/// The API server calls the webhook of a tenant before it stores a scale, and waits for it. Each
/// write takes longer than the request timeout. The tenant has more targets than the controller has
/// concurrent requests for an API group.
#[tokio::test(start_paused = true)]
async fn slow_admission_webhook_delays_only_its_targets() {
    let (cluster, faults) = running_cluster().await;
    let mut namespace = objects::namespace();
    namespace["metadata"]["name"] = "tenant".into();
    cluster.apply(namespace);
    let slow = |index: usize| {
        let id = Id::new("tenant", &format!("slow-{index}"));
        Target { id, ..Target::in_shop("slow") }
    };
    let targets: Vec<_> = (0..40).map(slow).collect();
    for target in &targets {
        cluster.loads.set_of(&target.id, 2);
        cluster.apply(target.workload(2));
        cluster.apply(target.autoscaler());
    }
    cluster.sleep(4 * PERIOD).await;
    let writes = Match::verb("update").subresource("scale").namespace("tenant").client(CONTROLLER);
    let webhook = Effect::Slow { by: Duration::from_secs(25) };
    faults.add(Fault::on(writes).effect(webhook));
    for target in &targets {
        cluster.loads.set_of(&target.id, 4);
    }
    cluster.sleep(PERIOD).await;
    let start = cluster.clock.age();
    cluster.loads.set("web", 4);
    cluster.wait_for_replicas("web", 4).await;
    let waited = cluster.clock.age().saturating_sub(start);
    assert!(waited <= 2 * PERIOD, "web is scaled after {waited:?}");
    for target in &targets {
        while cluster.replicas(target) != 4 {
            let waited = cluster.clock.age().saturating_sub(start);
            assert!(waited < 16 * PERIOD, "{} is not scaled", target.id);
            cluster.sleep(PERIOD / 15).await;
        }
    }
    cluster.shut_down().await;
}
