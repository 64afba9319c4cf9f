//! Stops, starts and restarts.

use std::{pin::pin, time::Duration};

use futures::StreamExt;
use hpa_testbed::{Config, Effect, Fault, Faults, Match, Restart, Snapshot, Testbed};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Error, ResourceExt,
    api::{ListParams, WatchEvent, WatchParams},
    runtime::{reflector, watcher},
};
use rstest::rstest;
use serde_json::json;

use crate::support::{PODS, SkewedClock, Watch, at, crd, faulty, get, pod, post, queue};

fn names(testbed: &Testbed) -> Vec<String> {
    testbed
        .list("v1", "Pod")
        .iter()
        .map(|pod| at(pod, "/metadata/name").as_str().unwrap().to_owned())
        .collect()
}

/// A server with the pods a and b, and a snapshot with only a.
fn with_older_state() -> (Testbed, Snapshot) {
    let testbed = Testbed::default();
    testbed.apply(pod("a", json!({}))).unwrap();
    let snapshot = testbed.snapshot();
    testbed.apply(pod("b", json!({}))).unwrap();
    (testbed, snapshot)
}

#[rstest]
#[case::same(|_: Snapshot| Restart::Same, &["a", "b"])]
#[case::older(Restart::Older, &["a"])]
#[case::fresh(|_: Snapshot| Restart::Fresh, &[])]
#[tokio::test]
async fn server_has_the_given_state_after_a_restart(
    #[case] restart: fn(Snapshot) -> Restart,
    #[case] expected: &[&str],
) {
    let (testbed, older) = with_older_state();
    let restart = restart(older);
    let is_same = matches!(restart, Restart::Same);
    let before = testbed.resource_version();
    let mut watch = Watch::pods(&testbed, &format!("&resourceVersion={before}")).await;
    testbed.restart(restart, Duration::ZERO);
    assert_eq!(watch.next().await, None);
    assert_eq!(names(&testbed), expected);
    let (code, _) = get(&testbed, "/api/v1/namespaces/kube-system").await;
    assert_eq!(code, 200);
    assert_eq!(testbed.resource_version() > before, !is_same);
    // With the same state, a watch can resume from the last resource version, but not from an
    // earlier one.
    for (version, can_resume) in [(before, is_same), (before - 1, false)] {
        let api: Api<Pod> = Api::default_namespaced(testbed.client());
        let mut events =
            pin!(api.watch(&WatchParams::default(), &version.to_string()).await.unwrap());
        testbed.apply(pod("c", json!({ "at": version.to_string() }))).unwrap();
        match events.next().await.unwrap() {
            Ok(WatchEvent::Added(pod)) => assert!(can_resume && pod.name_any() == "c"),
            Ok(WatchEvent::Error(status)) => {
                assert!(!can_resume && status.code == 410, "{status:?}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn restart_also_compacts_resources_without_objects() {
    let testbed = Testbed::default();
    let before = testbed.resource_version();
    testbed.restart(Restart::Fresh, Duration::ZERO);
    let mut watch = Watch::pods(&testbed, &format!("&resourceVersion={before}")).await;
    assert_eq!(at(&watch.next().await.unwrap(), "/object/code"), 410);
}

#[tokio::test]
async fn informer_follows_a_restored_state() {
    let (testbed, older) = with_older_state();
    let api: Api<Pod> = Api::default_namespaced(testbed.client());
    let (reader, writer) = reflector::store();
    let cached = reflector(writer, watcher(api, watcher::Config::default()));
    let mut cached = pin!(cached.filter_map(|event| async { event.ok() }));
    while reader.len() < 2 {
        cached.next().await.unwrap();
    }
    testbed.restart(Restart::Older(older), Duration::ZERO);
    while reader.len() != 1 {
        cached.next().await.unwrap();
    }
    assert_eq!(reader.state()[0].name_any(), "a");
}

#[tokio::test]
async fn restart_restores_custom_resources() {
    let testbed = Testbed::default();
    let before = testbed.snapshot();
    testbed.apply(crd()).unwrap();
    testbed.apply(queue()).unwrap();
    let with_crd = testbed.snapshot();
    let path = "/apis/example.com/v1/namespaces/default/queues";
    testbed.restart(Restart::Older(before), Duration::ZERO);
    assert_eq!(get(&testbed, path).await.0, 404);
    testbed.restart(Restart::Older(with_crd), Duration::ZERO);
    assert_eq!(get(&testbed, path).await.0, 200);
    testbed.restart(Restart::Fresh, Duration::ZERO);
    assert_eq!(get(&testbed, path).await.0, 404);
}

async fn is_down(testbed: &Testbed) -> bool {
    let api: Api<Pod> = Api::default_namespaced(testbed.client());
    match api.list(&ListParams::default()).await {
        Ok(_) => false,
        Err(Error::Service(_)) => true,
        Err(other) => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn server_is_down_for_the_given_time() {
    let (testbed, older) = with_older_state();
    testbed.restart(Restart::Older(older), Duration::from_secs(5));
    assert!(is_down(&testbed).await);
    tokio::time::advance(Duration::from_millis(4999)).await;
    assert!(is_down(&testbed).await);
    tokio::time::advance(Duration::from_millis(1)).await;
    assert!(!is_down(&testbed).await);
    testbed.stop();
    assert!(is_down(&testbed).await);
    testbed.start(Restart::Same);
    assert!(!is_down(&testbed).await);
    assert_eq!(names(&testbed), ["a"]);
}

#[rstest]
#[case::stalled(Effect::Stall)]
#[case::slow(Effect::Slow { by: Duration::from_secs(3600) })]
#[tokio::test(start_paused = true)]
async fn stop_aborts_waiting_requests(#[case] effect: Effect) {
    let faults = Faults::new(0);
    let id = faults.add(Fault::on(Match::verb("create")).effect(effect));
    let testbed = faulty(&faults);
    let mut create = {
        let testbed = testbed.clone();
        tokio::spawn(async move { post(&testbed, PODS, &pod("a", json!({}))).await })
    };
    faults.wait_for_hits(id, 1).await;
    assert!(futures::poll!(&mut create).is_pending());
    let start = faults.elapsed();
    testbed.restart(Restart::Same, Duration::ZERO);
    assert!(create.await.is_err_and(|error| error.is_panic()));
    assert_eq!(faults.elapsed(), start);
    assert_eq!(names(&testbed), [""; 0]);
}

#[tokio::test]
async fn skewed_clock_affects_timestamps() {
    let clock = SkewedClock::new("2026-01-01T10:00:00Z".parse().unwrap());
    let testbed = Testbed::new(Config { clock: clock.as_fn(), ..Config::default() });
    let created = |name| {
        let pod = testbed.apply(pod(name, json!({}))).unwrap();
        at(&pod, "/metadata/creationTimestamp").as_str().unwrap().to_owned()
    };
    assert_eq!(created("a"), "2026-01-01T10:00:00Z");
    clock.set(SignedDuration::from_mins(-90));
    assert_eq!(created("b"), "2026-01-01T08:30:00Z");
}

/// After a restore without `--bump-revision`, the next change reuses a resource version, and a
/// watch that has already seen that version gets no event.
#[tokio::test]
async fn rewound_server_hides_changes_from_old_watches() {
    let testbed = Testbed::default();
    testbed.apply(pod("a", json!({}))).unwrap();
    let (snapshot, snapshot_version) = (testbed.snapshot(), testbed.resource_version());
    testbed.apply(pod("b", json!({}))).unwrap();
    testbed.apply(pod("c", json!({}))).unwrap();
    let seen = testbed.resource_version();
    testbed.restart(Restart::Rewound(snapshot), Duration::ZERO);
    assert_eq!(testbed.resource_version(), snapshot_version);
    assert_eq!(names(&testbed), ["a"]);
    let mut watch = Watch::pods(&testbed, &format!("&resourceVersion={seen}")).await;
    for name in ["d", "e", "f"] {
        testbed.apply(pod(name, json!({}))).unwrap();
    }
    let event = watch.next().await.unwrap();
    assert_eq!(at(&event, "/object/metadata/name"), "f", "only the change after version {seen}");
    let (code, _) = get(&testbed, &format!("{PODS}?resourceVersion={}", seen + 100)).await;
    assert_eq!(code, 504);
}
