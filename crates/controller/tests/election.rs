//! Instances that want to lead, against one API server, in virtual time.

#![allow(clippy::expect_used, reason = "a test may stop where it was misled")]

use std::{pin::pin, sync::Arc, time::Duration};

use futures::TryStreamExt;
use hpa_controller::{
    Clock,
    leader_election::{Candidate, Leadership, Predecessor},
};
use hpa_test_harness::{VirtualClock, election};
use hpa_testbed::Testbed;
use http::{Request, Response, StatusCode};
use jiff::SignedDuration;
use k8s_openapi::api::{coordination::v1::Lease, core::v1::ConfigMap};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
    client::Body,
};
use serde_json::json;
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until, timeout},
};
use tower::service_fn;

const LEASE: Duration = Duration::from_secs(15);
const RENEW: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_secs(2);
/// The longest that a standby waits between two looks.
const LOOK: Duration = Duration::from_millis(4400);
/// More than nothing, less than any period.
const MOMENT: Duration = Duration::from_millis(50);

/// How old the last renewal may be.
const SLACK: Duration = Duration::from_millis(2050);

/// What happens to the requests of one instance.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wire {
    Works,
    Fails,
    Hangs,
    Slow(Duration),
    /// What is asked for is done at once, and answered so much later.
    AnswersLate(Duration),
}

struct Instance {
    candidate: Candidate,
    wire: watch::Sender<Wire>,
    client: Client,
}

impl Instance {
    fn start(testbed: &Testbed, name: &str, skew: SignedDuration) -> Self {
        let wire = watch::Sender::new(Wire::Works);
        let client = client(testbed, wire.subscribe());
        let election = election(client.clone(), "kube-system", name);
        let clock = VirtualClock::start();
        clock.skew(skew);
        let candidate = Candidate::new(Some(&election), Arc::new(clock));
        Self { candidate, wire, client }
    }

    async fn leading(testbed: &Testbed, name: &str) -> Self {
        let instance = Self::start(testbed, name, SignedDuration::ZERO);
        timeout(MOMENT, instance.leadership().acquired())
            .await
            .expect("a free lease")
            .expect("leads");
        instance
    }

    /// One that knows that another leads.
    async fn standby(testbed: &Testbed, name: &str) -> Self {
        let instance = Self::start(testbed, name, SignedDuration::ZERO);
        sleep(MOMENT).await;
        assert!(!instance.is_leader());
        instance
    }

    fn leadership(&self) -> &Leadership {
        self.candidate.leadership()
    }

    fn is_leader(&self) -> bool {
        self.leadership().is_leader()
    }
}

fn client(testbed: &Testbed, wire: watch::Receiver<Wire>) -> Client {
    let server = testbed.client();
    let answer = service_fn(move |request: Request<Body>| {
        let (server, mode) = (server.clone(), *wire.borrow());
        async move {
            match mode {
                Wire::Works => {}
                Wire::Slow(time) => sleep(time).await,
                Wire::Hangs => std::future::pending().await,
                Wire::AnswersLate(time) => {
                    let answer = server.send(request).await;
                    sleep(time).await;
                    return answer;
                }
                Wire::Fails => {
                    let answer = Response::builder().status(StatusCode::SERVICE_UNAVAILABLE);
                    return Ok(answer.body(Body::empty()).expect("a response"));
                }
            }
            server.send(request).await
        }
    });
    Client::new(answer, "default")
}

fn leases(testbed: &Testbed) -> Api<Lease> {
    Api::namespaced(testbed.client(), "kube-system")
}

async fn lease(testbed: &Testbed) -> (String, i32, i32) {
    let lease = leases(testbed).get("hpa-controller").await.expect("the lease");
    let spec = lease.spec.expect("a spec");
    let number = |number: Option<i32>| number.expect("a number");
    (
        spec.holder_identity.expect("a holder"),
        number(spec.lease_duration_seconds),
        number(spec.lease_transitions),
    )
}

/// Lets time pass, during which never two lead.
async fn watch_for(time: Duration, instances: &[&Instance]) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        sleep(Duration::from_millis(100)).await;
        let leaders = instances.iter().filter(|instance| instance.is_leader()).count();
        assert!(leaders <= 1, "{leaders} lead");
    }
}

/// Waits until the second leads, during which never both do; how long that took.
async fn takeover(first: &Instance, second: &Instance) -> Duration {
    let start = Instant::now();
    while !second.is_leader() {
        watch_for(Duration::from_millis(100), &[first, second]).await;
        assert!(start.elapsed() < Duration::from_mins(2), "nobody took over");
    }
    start.elapsed()
}

#[tokio::test(start_paused = true)]
async fn one_of_several_leads_and_goes_on() {
    let testbed = Testbed::default();
    let names = ["a", "b", "c"];
    let instances = names.map(|name| Instance::start(&testbed, name, SignedDuration::ZERO));
    watch_for(Duration::from_mins(10), &instances.each_ref()).await;
    assert_eq!(instances.iter().filter(|instance| instance.is_leader()).count(), 1);
    let (_, seconds, transitions) = lease(&testbed).await;
    assert_eq!((seconds, transitions), (15, 0));
}

#[tokio::test(start_paused = true)]
async fn lease_of_a_killed_leader_is_taken_when_it_expires() {
    let testbed = Testbed::default();
    let first = Instance::leading(&testbed, "a").await;
    let second = Instance::standby(&testbed, "b").await;
    watch_for(Duration::from_mins(1), &[&first, &second]).await;
    drop(first.candidate);
    let killed = Instant::now();
    let predecessor = second.leadership().acquired().await.expect("leads").expect("one before");
    // Its last renewal was up to a retry period ago.
    assert!(
        killed.elapsed() <= LEASE && killed.elapsed() + SLACK >= LEASE,
        "{:?}",
        killed.elapsed()
    );
    assert!(predecessor.kept_history);
    assert_eq!(lease(&testbed).await, ("b".into(), 15, 1));
}

#[tokio::test(start_paused = true)]
async fn released_lease_is_taken_at_once() {
    let (testbed, clock) = (Testbed::default(), VirtualClock::start());
    let first = Instance::leading(&testbed, "a").await;
    let second = Instance::standby(&testbed, "b").await;
    watch_for(Duration::from_mins(1), &[&first, &second]).await;
    let (released, wall) = (Instant::now(), clock.now());
    first.candidate.release().await;
    let predecessor = second.leadership().acquired().await.expect("leads").expect("one before");
    assert!(released.elapsed() < MOMENT, "{:?}", released.elapsed());
    let off = predecessor.renewed.duration_since(wall).abs();
    assert!(off < SignedDuration::from_secs(1), "{off}");
}

#[tokio::test(start_paused = true)]
async fn released_lease_is_found_without_a_watch_too() {
    let testbed = Testbed::default();
    let first = Instance::leading(&testbed, "a").await;
    let second = Instance::standby(&testbed, "b").await;
    // It cannot begin another watch, nor look, until the lease is released.
    second.wire.send_replace(Wire::Fails);
    testbed.drop_watches();
    sleep(MOMENT).await;
    first.candidate.release().await;
    second.wire.send_replace(Wire::Works);
    let released = Instant::now();
    second.leadership().acquired().await.expect("leads");
    assert!(released.elapsed() > MOMENT && released.elapsed() <= LOOK, "{:?}", released.elapsed());
}

#[tokio::test(start_paused = true)]
async fn leader_that_cannot_renew_ends_before_another_begins() {
    for fault in [Wire::Fails, Wire::Hangs, Wire::Slow(Duration::from_secs(8))] {
        let testbed = Testbed::default();
        let first = Instance::leading(&testbed, "a").await;
        let second = Instance::standby(&testbed, "b").await;
        watch_for(Duration::from_secs(20), &[&first, &second]).await;
        first.wire.send_replace(fault);
        let cut = Instant::now();
        let lost = async {
            first.leadership().lost().await;
            cut.elapsed()
        };
        let (lost, taken) = tokio::join!(lost, takeover(&first, &second));
        assert!(lost <= RENEW && lost + SLACK >= RENEW, "{fault:?}: {lost:?}");
        assert!(taken + SLACK >= LEASE && taken <= LEASE + 2 * MOMENT, "{fault:?}: {taken:?}");
        first.wire.send_replace(Wire::Works);
        watch_for(Duration::from_mins(1), &[&first, &second]).await;
        assert!(!first.is_leader() && second.is_leader());
    }
}

/// Others count from when they see a renewal, which is before its answer arrives.
#[tokio::test(start_paused = true)]
async fn leadership_counts_from_when_the_renewal_was_sent() {
    let testbed = Testbed::default();
    let first = Instance::leading(&testbed, "a").await;
    let known = leases(&testbed).get("hpa-controller").await.expect("the lease");
    let version = known.metadata.resource_version.expect("a version");
    first.wire.send_replace(Wire::AnswersLate(Duration::from_secs(3)));
    let changes = leases(&testbed).watch(&WatchParams::default(), &version).await.expect("a watch");
    let renewal = pin!(changes).try_next().await.expect("no failure");
    assert!(matches!(renewal, Some(WatchEvent::Modified(_))), "{renewal:?}");
    let renewed = Instant::now();
    // This renewal is answered yet, no other is.
    first.wire.send_replace(Wire::Hangs);
    first.leadership().lost().await;
    let held = renewed.elapsed();
    assert!(held <= RENEW && held + MOMENT >= RENEW, "{held:?}");
}

#[tokio::test(start_paused = true)]
async fn short_outage_and_a_slow_server_are_no_loss() {
    let testbed = Testbed::default();
    let first = Instance::leading(&testbed, "a").await;
    let second = Instance::standby(&testbed, "b").await;
    for fault in [Wire::Fails, Wire::Hangs, Wire::Slow(Duration::from_secs(3))] {
        first.wire.send_replace(fault);
        second.wire.send_replace(fault);
        watch_for(Duration::from_secs(4), &[&first, &second]).await;
        first.wire.send_replace(Wire::Works);
        second.wire.send_replace(Wire::Works);
        watch_for(Duration::from_mins(1), &[&first, &second]).await;
        assert!(first.is_leader(), "{fault:?}");
    }
    first.wire.send_replace(Wire::Slow(Duration::from_secs(1)));
    watch_for(Duration::from_mins(5), &[&first, &second]).await;
    assert!(first.is_leader());
}

#[tokio::test(start_paused = true)]
async fn clocks_that_show_other_times_change_nothing() {
    for hours in [-24, 24] {
        let testbed = Testbed::default();
        let first = Instance::leading(&testbed, "a").await;
        let second = Instance::start(&testbed, "b", SignedDuration::from_hours(hours));
        watch_for(Duration::from_mins(2), &[&first, &second]).await;
        assert!(first.is_leader());
        first.wire.send_replace(Wire::Hangs);
        let taken = takeover(&first, &second).await;
        assert!(taken + SLACK >= LEASE && taken <= LEASE + 2 * MOMENT, "{hours}: {taken:?}");
        let third = Instance::standby(&testbed, "c").await;
        watch_for(Duration::from_mins(2), &[&first, &second, &third]).await;
        assert!(second.is_leader());
    }
}

#[tokio::test(start_paused = true)]
async fn lease_that_is_deleted_stays_its_holders() {
    let testbed = Testbed::default();
    let first = Instance::leading(&testbed, "a").await;
    let second = Instance::standby(&testbed, "b").await;
    leases(&testbed).delete("hpa-controller", &DeleteParams::default()).await.expect("deleted");
    watch_for(Duration::from_mins(1), &[&first, &second]).await;
    assert!(first.is_leader());
    assert_eq!(lease(&testbed).await.0, "a");
}

#[tokio::test(start_paused = true)]
async fn annotation_of_the_lease_is_neither_a_renewal_nor_a_loss() {
    let testbed = Testbed::default();
    let first = Instance::leading(&testbed, "a").await;
    let second = Instance::standby(&testbed, "b").await;
    let annotate = async || {
        let patch = Patch::Merge(
            json!({ "metadata": { "annotations": { "note": Instant::now().elapsed().as_nanos().to_string() } } }),
        );
        leases(&testbed)
            .patch("hpa-controller", &PatchParams::default(), &patch)
            .await
            .expect("a patch");
    };
    for _ in 0..10 {
        annotate().await;
        watch_for(Duration::from_secs(3), &[&first, &second]).await;
    }
    assert!(first.is_leader());
    drop(first.candidate);
    let killed = Instant::now();
    sleep_until(killed + Duration::from_secs(8)).await;
    annotate().await;
    second.leadership().acquired().await.expect("leads");
    assert!(killed.elapsed() <= LEASE, "{:?}", killed.elapsed());
    assert!(
        leases(&testbed)
            .get("hpa-controller")
            .await
            .expect("it")
            .metadata
            .annotations
            .expect("some")
            .contains_key("note")
    );
}

#[tokio::test(start_paused = true)]
async fn lease_taken_by_hand_is_lost_at_the_next_renewal() {
    let testbed = Testbed::default();
    let first = Instance::leading(&testbed, "a").await;
    let patch = Patch::Merge(json!({ "spec": { "holderIdentity": "kubectl" } }));
    leases(&testbed)
        .patch("hpa-controller", &PatchParams::default(), &patch)
        .await
        .expect("a patch");
    timeout(RETRY + MOMENT, first.leadership().lost()).await.expect("lost");
}

fn config_map() -> ConfigMap {
    serde_json::from_value(json!({ "metadata": { "generateName": "written-" } }))
        .expect("a config map")
}

#[tokio::test(start_paused = true)]
async fn only_the_leader_writes() {
    let testbed = Testbed::default();
    let first = Instance::leading(&testbed, "a").await;
    let second = Instance::standby(&testbed, "b").await;
    let maps = |instance: &Instance| -> Api<ConfigMap> {
        Api::namespaced(instance.leadership().fence(&instance.client), "default")
    };
    let write =
        async |maps: &Api<ConfigMap>| maps.create(&PostParams::default(), &config_map()).await;
    let (of_first, of_second) = (maps(&first), maps(&second));
    write(&of_first).await.expect("the leader writes");
    let error = write(&of_second).await.expect_err("a standby does not").to_string();
    assert!(error.contains("this instance is not the leader"), "{error}");
    // One that is cut off and asks for nothing any more: time alone ends it.
    first.wire.send_replace(Wire::Hangs);
    let begun = Instant::now();
    let error = write(&of_first).await.expect_err("it is given up").to_string();
    assert!(error.contains("this instance is not the leader"), "{error}");
    assert!(begun.elapsed() <= RENEW && begun.elapsed() + SLACK >= RENEW, "{:?}", begun.elapsed());
    first.wire.send_replace(Wire::Works);
    assert!(write(&of_first).await.is_err());
    assert_eq!(
        of_first.list(&ListParams::default()).await.expect("reading is free").items.len(),
        1
    );
    second.leadership().acquired().await.expect("leads");
    write(&of_second).await.expect("the new leader writes");
    assert_eq!(testbed.list("v1", "ConfigMap").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn write_outlasts_the_renewals_it_waits_through() {
    let testbed = Testbed::default();
    let first = Instance::leading(&testbed, "a").await;
    let slow = watch::Sender::new(Wire::Slow(Duration::from_secs(25)));
    let client = first.leadership().fence(&client(&testbed, slow.subscribe()));
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    maps.create(&PostParams::default(), &config_map()).await.expect("the leader writes");
}

#[tokio::test(start_paused = true)]
async fn without_an_election_everything_is_written() {
    let leadership = Leadership::without_election();
    assert!(leadership.is_leader());
    assert_eq!(leadership.acquired().await, Some(None::<Predecessor>));
    let testbed = Testbed::default();
    let maps: Api<ConfigMap> = Api::namespaced(leadership.fence(&testbed.client()), "default");
    maps.create(&PostParams::default(), &config_map()).await.expect("written");
}
