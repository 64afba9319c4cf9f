//! Caches whose watches are dead or keep failing, undetected by the informers.

use std::time::Duration;

use hpa_testbed::{Effect, Fault, FaultId, Faults, Match};
use hpa_tests::harness::{TestbedExt, objects};
use jiff::SignedDuration;
use serde_json::json;

use super::{
    count_requests, finish, on, running_cluster, scalings_by_controller, series_value,
    sleep_periods,
};
use crate::{
    PERIOD,
    cluster::{CONTROLLER, Cluster},
};

/// The maximum number of sync periods until a stale cache is repaired: two until the cache counts
/// as stale, and one until the next reconcile.
const MAX_REPAIR_PERIODS: u32 = 3;

fn watches(resource: &str) -> Match {
    Match::verb("watch").resource(resource)
}

const WATCHED: [(&str, &str); 3] =
    [("apps", "deployments"), ("autoscaling", "horizontalpodautoscalers"), ("", "pods")];

/// Counts the lists of the watched resources. They include checks for a rewind of resource
/// versions, which list one object after an interrupted watch and every five minutes.
struct ListCounter<'a> {
    faults: &'a Faults,
    lists: [FaultId; 3],
}

impl<'a> ListCounter<'a> {
    fn start(faults: &'a Faults) -> Self {
        let count = |(group, resource)| {
            let lists = Match::verb("list").group(group).resource(resource);
            count_requests(faults, lists)
        };
        Self { faults, lists: WATCHED.map(count) }
    }

    fn count(&self) -> [u64; 3] {
        self.lists.map(|fault| self.faults.hits(fault))
    }
}

/// The age of the watch of a resource in seconds, according to the metrics.
fn watch_age(cluster: &Cluster, resource: &str) -> f64 {
    let series = format!("hpa_controller_watch_age_seconds{{resource=\"{resource}\"}}");
    series_value(cluster, &series)
}

/// The ages of all watches, in sync periods.
fn watch_ages(cluster: &Cluster) -> [f64; 3] {
    let resources = ["deployments.apps", "horizontalpodautoscalers", "pods"];
    resources.map(|resource| watch_age(cluster, resource) / PERIOD.as_secs_f64())
}

/// A cluster whose target `web` has the four replicas that it needs.
async fn steady_at_four() -> (Cluster, Faults) {
    let (cluster, faults) = running_cluster().await;
    cluster.loads.set("web", 4);
    cluster.wait_for_replicas("web", 4).await;
    sleep_periods(&cluster, 4).await;
    (cluster, faults)
}

#[tokio::test(start_paused = true)]
async fn healthy_watches_confirm_their_caches_within_two_periods() {
    let (cluster, faults) = steady_at_four().await;
    let resumed = count_requests(&faults, watches("deployments"));
    let lists = ListCounter::start(&faults);
    for _ in 0..600 {
        cluster.sleep(Duration::from_secs(1)).await;
        let ages = watch_ages(&cluster);
        assert!(ages.iter().all(|age| *age <= 2.0), "{ages:?}");
    }
    // In ten minutes, with watches that last 22 to 27 s.
    let resumed = faults.hits(resumed);
    assert!((22..=27).contains(&resumed), "{resumed} watches of Deployments");
    assert_eq!(lists.count(), [2; 3], "a watch that resumes is checked every five minutes");
    finish(cluster).await;
}

/// The desired replicas equal those in the cache: no write reveals the change.
#[tokio::test(start_paused = true)]
async fn change_hidden_by_a_silent_watch_is_repaired_within_the_bound() {
    let (cluster, faults) = steady_at_four().await;
    let silent = faults.add(on(watches("deployments"), Effect::SilentWatch { after: 0 }));
    cluster.testbed.end_watches();
    faults.wait_for_hits(silent, 1).await;
    cluster.scale("web", 2);
    sleep_periods(&cluster, MAX_REPAIR_PERIODS).await;
    assert_eq!(cluster.testbed.replicas("web"), 4);
    assert!(watch_age(&cluster, "deployments.apps") > PERIOD.as_secs_f64() * 2.0);
    // It stays repaired while the watch stays silent.
    cluster.scale("web", 2);
    sleep_periods(&cluster, 2).await;
    assert_eq!(cluster.testbed.replicas("web"), 4);
    faults.clear();
    finish(cluster).await;
}

/// A connection dies. Only the watches detect it, and they resume on another connection.
#[tokio::test(start_paused = true)]
async fn silent_watch_resumes_on_another_connection() {
    let (cluster, faults) = steady_at_four().await;
    let silence = |(_, resource)| {
        let once = Fault::on(watches(resource).client(CONTROLLER));
        once.first(1).effect(Effect::SilentWatch { after: 0 })
    };
    let lists = ListCounter::start(&faults);
    let silent = WATCHED.map(|watched| faults.add(silence(watched)));
    cluster.testbed.end_watches();
    for silent in silent {
        faults.wait_for_hits(silent, 1).await;
    }
    cluster.edit(cluster.testbed.hpa("web"), |object| object["spec"]["minReplicas"] = 6.into());
    // The timeout of the watch, at most 27 s, and 5 s until it is considered dead.
    cluster.sleep(Duration::from_secs(33)).await;
    assert_eq!(cluster.testbed.replicas("web"), 6);
    let ages = watch_ages(&cluster);
    assert!(ages.iter().all(|age| *age < 2.5), "{ages:?}");
    assert_eq!(lists.count(), [2; 3], "two checks, because two watches ended early");
    sleep_periods(&cluster, 2).await;
    let ages = watch_ages(&cluster);
    assert!(ages.iter().all(|age| *age <= 2.0), "{ages:?}");
    finish(cluster).await;
}

/// The watch is alive, but its events differ from the stored objects.
#[tokio::test(start_paused = true)]
async fn cached_scale_that_contradicts_the_pods_is_read() {
    let (cluster, faults) = steady_at_four().await;
    for pointer in ["/spec/replicas", "/status/replicas"] {
        let (object, pointer, value) = ("web".to_owned(), pointer.to_owned(), json!(4));
        faults.add(on(watches("deployments"), Effect::ChangedField { object, pointer, value }));
    }
    cluster.testbed.end_watches();
    sleep_periods(&cluster, 2).await;
    cluster.scale("web", 2);
    sleep_periods(&cluster, 5).await;
    assert_eq!(cluster.testbed.replicas("web"), 4);
    faults.clear();
    finish(cluster).await;
}

/// A cluster in which `web` has six ready pods, four of them unready in the cache. The load of the
/// two others needs two replicas, that of all six needs eight.
async fn cluster_with_outdated_readiness() -> (Cluster, Faults) {
    let (cluster, faults) = running_cluster().await;
    cluster.loads.set("web", 6);
    cluster.wait_for_replicas("web", 6).await;
    sleep_periods(&cluster, 2).await;
    for index in 2..6 {
        let mut pod = objects::pod("web", index);
        pod["status"]["conditions"][0]["status"] = "False".into();
        pod["status"]["conditions"][0]["lastTransitionTime"] = "2020-01-01T00:00:00Z".into();
        cluster.apply(pod);
    }
    sleep_periods(&cluster, 2).await;
    faults.add(on(watches("pods"), Effect::InternalError));
    cluster.testbed.end_watches();
    sleep_periods(&cluster, 1).await;
    for index in 0..6 {
        cluster.apply(objects::pod("web", index));
        cluster.loads.set_pod_milli(&format!("web-{index}"), if index < 2 { 800 } else { 1600 });
    }
    (cluster, faults)
}

#[tokio::test(start_paused = true)]
async fn scale_down_by_outdated_readiness_is_decided_again_on_listed_pods() {
    let (cluster, faults) = cluster_with_outdated_readiness().await;
    let since = cluster.clock.age();
    sleep_periods(&cluster, 12).await;
    assert_eq!(scalings_by_controller(&cluster, "web", since), [(6, 8)]);
    faults.clear();
    finish(cluster).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_scaled_down_while_outdated_pods_cannot_be_listed() {
    let (cluster, faults) = cluster_with_outdated_readiness().await;
    let since = cluster.clock.age();
    let lists = Match::verb("list").group("").resource("pods");
    let failing = faults.add(on(lists, Effect::ServiceUnavailable));
    sleep_periods(&cluster, 12).await;
    assert_eq!(scalings_by_controller(&cluster, "web", since), []);
    assert!(faults.hits(failing) > 0);
    let able = cluster.testbed.condition("web", "AbleToScale").expect("a condition");
    assert_eq!(&able[..2], ["False", "FailedUpdateScale"], "{able:?}");
    assert!(able[2].contains("failed to list the pods of the target"), "{able:?}");
    faults.clear();
    finish(cluster).await;
}

/// The machine was suspended, which the monotonic clock doesn't count, and its connections are
/// dead.
#[tokio::test(start_paused = true)]
async fn caches_are_relisted_after_a_suspension() {
    let (cluster, faults) = steady_at_four().await;
    let watches = Fault::on(Match::verb("watch").client(CONTROLLER));
    let silent = faults.add(watches.first(3).effect(Effect::SilentWatch { after: 0 }));
    cluster.testbed.end_watches();
    faults.wait_for_hits(silent, 3).await;
    cluster.edit(cluster.testbed.hpa("web"), |object| object["spec"]["minReplicas"] = 6.into());
    // Until the checks of the watches are done.
    cluster.sleep(Duration::from_secs(1)).await;
    let lists = ListCounter::start(&faults);
    cluster.controller_clock.set_skew(SignedDuration::from_hours(1));
    // The reconcile that detects the jump, and the one after the relist. A silent watch would hide
    // the new bound for longer.
    sleep_periods(&cluster, 1).await;
    cluster.sleep(Duration::from_secs(1)).await;
    assert_eq!(lists.count(), [1; 3]);
    assert_eq!(cluster.testbed.replicas("web"), 6);
    finish(cluster).await;
}

#[tokio::test(start_paused = true)]
async fn short_forward_and_any_backward_clock_steps_cause_no_relist() {
    let (cluster, faults) = steady_at_four().await;
    let lists = ListCounter::start(&faults);
    // Steps of 2, 3, -9, 9 and -3605 s. Only a forward step of the renew deadline (10 s) or more
    // counts as a suspension.
    for skew in [2, 5, -4, 5, -3600] {
        cluster.controller_clock.set_skew(SignedDuration::from_secs(skew));
        sleep_periods(&cluster, 1).await;
    }
    assert_eq!(lists.count(), [0; 3]);
    finish(cluster).await;
}
