//! Several instances in one leader election, in virtual time.

#![allow(clippy::expect_used, reason = "a wrong assumption fails the test")]

mod instance;

use std::{pin::pin, sync::Arc, time::Duration};

use futures::TryStreamExt;
use hpa_lease::{Clock, ElectionLease, Leadership, lead};
use hpa_testbed::Testbed;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
};
use serde_json::json;
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use self::instance::{
    Instance, LEASE_DURATION, MOMENT, Network, RENEW_DEADLINE, RETRY_PERIOD, SkewedClock,
    assert_single_leader_for, client, election, lease, leases, takeover,
};

/// The longest poll interval of a standby: 2.2 retry periods.
const MAX_POLL_INTERVAL: Duration = Duration::from_millis(4400);

/// The maximum age of the last renewal of a healthy leader.
const MAX_RENEWAL_AGE: Duration = RETRY_PERIOD.saturating_add(MOMENT);

/// Asserts that a period of this length started with the last renewal before a fault.
/// `since_fault` is the time from the fault until the end of the period was observed, which may
/// take `delay`.
#[track_caller]
fn assert_counts_from_last_renewal(since_fault: Duration, length: Duration, delay: Duration) {
    let expected = length.saturating_sub(MAX_RENEWAL_AGE)..=length + delay;
    assert!(expected.contains(&since_fault), "{since_fault:?} of {length:?}");
}

#[tokio::test(start_paused = true)]
async fn one_of_several_instances_stays_the_leader() {
    let testbed = Testbed::default();
    let names = ["a", "b", "c"];
    let instances = names.map(|name| Instance::start(&testbed, name, SignedDuration::ZERO));
    assert_single_leader_for(Duration::from_mins(10), &instances.each_ref()).await;
    assert_eq!(instances.iter().filter(|instance| instance.is_leader()).count(), 1);
    let (_, seconds, transitions) = lease(&testbed).await;
    assert_eq!((seconds, transitions), (15, 0));
}

#[tokio::test(start_paused = true)]
async fn lease_of_a_killed_leader_is_acquired_when_it_expires() {
    let testbed = Testbed::default();
    let first = Instance::leader(&testbed, "a").await;
    let second = Instance::standby(&testbed, "b").await;
    assert_single_leader_for(Duration::from_mins(1), &[&first, &second]).await;
    drop(first.candidate);
    let killed = Instant::now();
    let predecessor =
        second.leadership().acquired().await.expect("the leader").expect("a predecessor");
    assert_counts_from_last_renewal(killed.elapsed(), LEASE_DURATION, Duration::ZERO);
    assert_eq!(predecessor.annotations["instance"], "a");
    assert_eq!(lease(&testbed).await, ("b".into(), 15, 1));
}

#[tokio::test(start_paused = true)]
async fn released_lease_is_acquired_at_once() {
    let (testbed, clock) = (Testbed::default(), SkewedClock::start());
    let first = Instance::leader(&testbed, "a").await;
    let second = Instance::standby(&testbed, "b").await;
    assert_single_leader_for(Duration::from_mins(1), &[&first, &second]).await;
    let (released, wall) = (Instant::now(), clock.now());
    first.candidate.release().await;
    let predecessor =
        second.leadership().acquired().await.expect("the leader").expect("a predecessor");
    assert!(released.elapsed() < MOMENT, "{:?}", released.elapsed());
    let skew = predecessor.renewed.duration_since(wall).abs();
    assert!(skew < SignedDuration::from_secs(1), "{skew}");
}

#[tokio::test(start_paused = true)]
async fn released_lease_is_acquired_by_a_poll_without_watch() {
    let testbed = Testbed::default();
    let first = Instance::leader(&testbed, "a").await;
    let second = Instance::standby(&testbed, "b").await;
    // The standby can neither watch nor poll until the lease is released.
    second.network.send_replace(Network::Fails);
    testbed.end_watches();
    sleep(MOMENT).await;
    first.candidate.release().await;
    second.network.send_replace(Network::Works);
    let released = Instant::now();
    second.leadership().acquired().await.expect("the leader");
    let waited = released.elapsed();
    assert!(waited > MOMENT && waited <= MAX_POLL_INTERVAL, "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn leader_that_cannot_renew_stops_before_another_starts() {
    for fault in [Network::Fails, Network::Hangs, Network::Slow(Duration::from_secs(8))] {
        let testbed = Testbed::default();
        let first = Instance::leader(&testbed, "a").await;
        let second = Instance::standby(&testbed, "b").await;
        assert_single_leader_for(Duration::from_secs(20), &[&first, &second]).await;
        first.network.send_replace(fault);
        let cut = Instant::now();
        let lost = async {
            first.leadership().lost().await;
            cut.elapsed()
        };
        let (lost, taken) = tokio::join!(lost, takeover(&first, &second));
        assert_counts_from_last_renewal(lost, RENEW_DEADLINE, Duration::ZERO);
        assert_counts_from_last_renewal(taken, LEASE_DURATION, 2 * MOMENT);
        first.network.send_replace(Network::Works);
        assert_single_leader_for(Duration::from_mins(1), &[&first, &second]).await;
        assert!(!first.is_leader() && second.is_leader());
    }
}

/// Standbys count from when they observe a renewal, which may be before the leader receives the
/// response.
#[tokio::test(start_paused = true)]
async fn leadership_counts_from_the_renewal_request() {
    let testbed = Testbed::default();
    let first = Instance::leader(&testbed, "a").await;
    let lease = leases(&testbed).get("hpa-controller").await.expect("the lease");
    let version = lease.metadata.resource_version.expect("a version");
    first.network.send_replace(Network::DelaysResponses(Duration::from_secs(3)));
    let changes = leases(&testbed).watch(&WatchParams::default(), &version).await.expect("a watch");
    let renewal = pin!(changes).try_next().await.expect("no failure");
    assert!(matches!(renewal, Some(WatchEvent::Modified(_))), "{renewal:?}");
    let renewed = Instant::now();
    // This renewal gets a response, later ones don't.
    first.network.send_replace(Network::Hangs);
    first.leadership().lost().await;
    let held = renewed.elapsed();
    assert!(held <= RENEW_DEADLINE && held + MOMENT >= RENEW_DEADLINE, "{held:?}");
}

#[tokio::test(start_paused = true)]
async fn short_outage_does_not_lose_the_lease() {
    let testbed = Testbed::default();
    let first = Instance::leader(&testbed, "a").await;
    let second = Instance::standby(&testbed, "b").await;
    for fault in [Network::Fails, Network::Hangs, Network::Slow(Duration::from_secs(3))] {
        first.network.send_replace(fault);
        second.network.send_replace(fault);
        assert_single_leader_for(Duration::from_secs(4), &[&first, &second]).await;
        first.network.send_replace(Network::Works);
        second.network.send_replace(Network::Works);
        assert_single_leader_for(Duration::from_mins(1), &[&first, &second]).await;
        assert!(first.is_leader(), "{fault:?}");
    }
    first.network.send_replace(Network::Slow(Duration::from_secs(1)));
    assert_single_leader_for(Duration::from_mins(5), &[&first, &second]).await;
    assert!(first.is_leader());
}

#[tokio::test(start_paused = true)]
async fn wall_clock_skew_has_no_effect() {
    for hours in [-24, 24] {
        let testbed = Testbed::default();
        let first = Instance::leader(&testbed, "a").await;
        let second = Instance::start(&testbed, "b", SignedDuration::from_hours(hours));
        assert_single_leader_for(Duration::from_mins(2), &[&first, &second]).await;
        assert!(first.is_leader());
        first.network.send_replace(Network::Hangs);
        let taken = takeover(&first, &second).await;
        assert_counts_from_last_renewal(taken, LEASE_DURATION, 2 * MOMENT);
        let third = Instance::standby(&testbed, "c").await;
        assert_single_leader_for(Duration::from_mins(2), &[&first, &second, &third]).await;
        assert!(second.is_leader());
    }
}

#[tokio::test(start_paused = true)]
async fn deleted_lease_is_created_again_by_its_holder() {
    let testbed = Testbed::default();
    let first = Instance::leader(&testbed, "a").await;
    let second = Instance::standby(&testbed, "b").await;
    leases(&testbed).delete("hpa-controller", &DeleteParams::default()).await.expect("deleted");
    assert_single_leader_for(Duration::from_mins(1), &[&first, &second]).await;
    assert!(first.is_leader());
    assert_eq!(lease(&testbed).await.0, "a");
}

#[tokio::test(start_paused = true)]
async fn edited_annotation_is_neither_a_renewal_nor_a_loss() {
    let testbed = Testbed::default();
    let first = Instance::leader(&testbed, "a").await;
    let second = Instance::standby(&testbed, "b").await;
    let start = Instant::now();
    let annotate = async || {
        // Each edit has its own value, or it would change nothing.
        let note = start.elapsed().as_nanos().to_string();
        let patch = Patch::Merge(json!({ "metadata": { "annotations": { "note": note } } }));
        leases(&testbed)
            .patch("hpa-controller", &PatchParams::default(), &patch)
            .await
            .expect("a patch");
    };
    for _ in 0..10 {
        annotate().await;
        assert_single_leader_for(Duration::from_secs(3), &[&first, &second]).await;
    }
    assert!(first.is_leader());
    drop(first.candidate);
    let killed = Instant::now();
    sleep_until(killed + Duration::from_secs(8)).await;
    annotate().await;
    second.leadership().acquired().await.expect("the leader");
    assert!(killed.elapsed() <= LEASE_DURATION, "{:?}", killed.elapsed());
    let lease = leases(&testbed).get("hpa-controller").await.expect("the lease");
    assert!(lease.metadata.annotations.expect("annotations").contains_key("note"));
}

/// The API server accepts times that a `Timestamp` can't represent.
#[tokio::test(start_paused = true)]
async fn lease_with_renewals_out_of_range_is_acquired_when_they_end() {
    let testbed = Testbed::default();
    let first = Instance::leader(&testbed, "a").await;
    drop(first.candidate);
    let leases: Api<ElectionLease> = Api::namespaced(testbed.client(), "kube-system");
    let renew = async |time: &str| {
        let patch = Patch::Merge(json!({ "spec": { "acquireTime": time, "renewTime": time } }));
        leases.patch("hpa-controller", &PatchParams::default(), &patch).await.expect("a patch");
    };
    renew("9999-12-31T23:59:59.999998Z").await;
    let second = Instance::standby(&testbed, "b").await;
    sleep(Duration::from_secs(10)).await;
    let renewed = Instant::now();
    renew("9999-12-31T23:59:59.999999Z").await;
    let predecessor = second.leadership().acquired().await.expect("the leader");
    assert_eq!(predecessor, None, "the time of its end is unknown");
    let waited = renewed.elapsed();
    assert!(waited >= LEASE_DURATION && waited <= LEASE_DURATION + 2 * MOMENT, "{waited:?}");
    assert_eq!(lease(&testbed).await, ("b".into(), 15, 1));
}

#[tokio::test(start_paused = true)]
async fn manually_taken_lease_is_lost_at_the_next_renewal() {
    let testbed = Testbed::default();
    let first = Instance::leader(&testbed, "a").await;
    let patch = Patch::Merge(json!({ "spec": { "holderIdentity": "kubectl" } }));
    leases(&testbed)
        .patch("hpa-controller", &PatchParams::default(), &patch)
        .await
        .expect("a patch");
    timeout(RETRY_PERIOD + MOMENT, first.leadership().lost()).await.expect("lost");
}

fn config_map() -> ConfigMap {
    serde_json::from_value(json!({ "metadata": { "generateName": "test-" } }))
        .expect("a config map")
}

#[tokio::test(start_paused = true)]
async fn only_the_leader_writes() {
    let testbed = Testbed::default();
    let first = Instance::leader(&testbed, "a").await;
    let second = Instance::standby(&testbed, "b").await;
    let maps = |instance: &Instance| -> Api<ConfigMap> {
        Api::namespaced(instance.leadership().fence(&instance.client), "default")
    };
    let write =
        async |maps: &Api<ConfigMap>| maps.create(&PostParams::default(), &config_map()).await;
    let (leader, standby) = (maps(&first), maps(&second));
    write(&leader).await.expect("the leader writes");
    let error = write(&standby).await.expect_err("a standby does not").to_string();
    assert!(error.contains("this instance is not the leader"), "{error}");
    // Without any response, the leadership ends at the renew deadline.
    first.network.send_replace(Network::Hangs);
    let started = Instant::now();
    let error = write(&leader).await.expect_err("aborted").to_string();
    assert!(error.contains("this instance is not the leader"), "{error}");
    assert_counts_from_last_renewal(started.elapsed(), RENEW_DEADLINE, Duration::ZERO);
    first.network.send_replace(Network::Works);
    assert!(write(&leader).await.is_err());
    assert_eq!(
        leader.list(&ListParams::default()).await.expect("reads are allowed").items.len(),
        1
    );
    second.leadership().acquired().await.expect("the leader");
    write(&standby).await.expect("the new leader writes");
    assert_eq!(testbed.list("v1", "ConfigMap").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn write_that_outlasts_renewals_succeeds() {
    let testbed = Testbed::default();
    let first = Instance::leader(&testbed, "a").await;
    let slow = watch::Sender::new(Network::Slow(Duration::from_secs(25)));
    let client = first.leadership().fence(&client(&testbed, slow.subscribe()));
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    maps.create(&PostParams::default(), &config_map()).await.expect("the leader writes");
}

#[tokio::test(start_paused = true)]
async fn writes_are_allowed_without_an_election() {
    let leadership = Leadership::without_election();
    assert!(leadership.is_leader());
    assert_eq!(leadership.acquired().await, Ok(None));
    let testbed = Testbed::default();
    let maps: Api<ConfigMap> = Api::namespaced(leadership.fence(&testbed.client()), "default");
    maps.create(&PostParams::default(), &config_map()).await.expect("written");
}

/// Creates a config map through the fence of an instance.
async fn write_as(instance: &Instance) -> kube::Result<ConfigMap> {
    let client = instance.leadership().fence(&instance.client);
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    maps.create(&PostParams::default(), &config_map()).await
}

/// A suspension looks like a jump of the wall clock, because the monotonic clock stops.
#[tokio::test(start_paused = true)]
async fn suspended_leader_writes_nothing_and_loses_its_leadership() {
    let testbed = Testbed::default();
    let first = Instance::leader(&testbed, "a").await;
    sleep(RETRY_PERIOD * 5).await;
    write_as(&first).await.expect("the leader writes");
    first.clock.skew(SignedDuration::from_secs(10));
    let error = write_as(&first).await.expect_err("refused").to_string();
    assert!(error.contains("this instance is not the leader"), "{error}");
    assert!(!first.is_leader());
    timeout(RETRY_PERIOD + MOMENT, first.leadership().lost()).await.expect("lost");
    sleep(RETRY_PERIOD + MOMENT).await;
    first.clock.skew(SignedDuration::ZERO);
    assert!(!first.is_leader(), "a corrected clock doesn't restore the leadership");
    assert!(write_as(&first).await.is_err());
    assert_eq!(testbed.list("v1", "ConfigMap").len(), 1);
}

/// The request waits in the client while the machine is suspended.
#[tokio::test(start_paused = true)]
async fn write_that_waits_during_a_suspension_is_not_sent() {
    let testbed = Testbed::default();
    let first = Instance::leader(&testbed, "a").await;
    sleep(RETRY_PERIOD * 5 + MOMENT * 2).await;
    let slow = watch::Sender::new(Network::Slow(MOMENT));
    let client = first.leadership().fence(&client(&testbed, slow.subscribe()));
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    let (parameters, map) = (PostParams::default(), config_map());
    let mut write = pin!(maps.create(&parameters, &map));
    timeout(MOMENT / 2, &mut write).await.expect_err("it waits");
    first.clock.skew(SignedDuration::from_mins(1));
    write.await.expect_err("refused");
    assert!(testbed.list("v1", "ConfigMap").is_empty());
}

#[tokio::test(start_paused = true)]
async fn small_clock_steps_keep_the_leadership() {
    let testbed = Testbed::default();
    let first = Instance::leader(&testbed, "a").await;
    for step in [1, 3, -2, 4, -3600, -3595] {
        first.clock.skew(SignedDuration::from_secs(step));
        assert!(first.is_leader(), "after a step to {step} s");
        write_as(&first).await.expect("the leader writes");
        sleep(RETRY_PERIOD * 2).await;
    }
    assert!(first.is_leader());
}

/// The work ends with the leadership, and starts again with the next one.
#[tokio::test(start_paused = true)]
async fn work_starts_again_after_a_lost_lease() {
    let testbed = Testbed::default();
    let network = watch::Sender::new(Network::Works);
    let election = election(client(&testbed, network.subscribe()), "a");
    let running = watch::Sender::new(false);
    let work = async |_| {
        running.send_replace(true);
        let _ended = OnDrop(|| _ = running.send_replace(false));
        std::future::pending::<()>().await;
    };
    let (stop, clock) = (CancellationToken::new(), Arc::new(SkewedClock::start()));
    let test = async {
        let mut is_running = running.subscribe();
        let mut wait_until = async |value: bool| {
            let changed = is_running.wait_for(|running| *running == value);
            timeout(LEASE_DURATION * 2, changed).await.expect("in time").expect("a sender");
        };
        wait_until(true).await;
        network.send_replace(Network::Hangs);
        wait_until(false).await;
        assert_eq!(lease(&testbed).await.0, "a", "not released");
        network.send_replace(Network::Works);
        wait_until(true).await;
        stop.cancel();
    };
    let leading = lead(Some(&election), clock, &stop, work);
    tokio::join!(test, leading);
    assert!(!*running.borrow());
    assert_eq!(lease(&testbed).await.0, "", "released");
}

struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
