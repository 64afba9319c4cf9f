//! Effects on watches.

use std::{pin::pin, time::Duration};

use futures::StreamExt;
use hpa_testbed::{Effect, Fault, Faults, Match, Testbed};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Error,
    api::{WatchEvent, WatchParams},
    runtime::{WatchStreamExt, watcher},
};
use rstest::rstest;
use serde_json::json;

use crate::support::{Watch, faulty, pod};

fn with_pods(faults: &Faults, count: usize) -> Testbed {
    let testbed = faulty(faults);
    for name in ["a", "b", "c"].iter().take(count) {
        testbed.apply(pod(name, json!({}))).unwrap();
    }
    testbed
}

fn watches() -> Match {
    Match::verb("watch")
}

/// The names in the events of a watch until it ends.
async fn names_until_end(testbed: &Testbed) -> Vec<String> {
    let api: Api<Pod> = Api::default_namespaced(testbed.client());
    let events = api.watch(&WatchParams::default(), "0").await.unwrap();
    let name = |event: Result<WatchEvent<Pod>, Error>| match event.unwrap() {
        WatchEvent::Added(pod) => pod.metadata.name.unwrap(),
        other => panic!("{other:?}"),
    };
    events.map(name).collect().await
}

#[rstest]
#[case(0, &[])]
#[case(2, &["a", "b"])]
#[tokio::test]
async fn watch_ends_after_some_events(#[case] after: usize, #[case] expected: &[&str]) {
    let faults = Faults::new(0);
    faults.add(Fault::on(watches()).effect(Effect::DropWatch { after }));
    let testbed = with_pods(&faults, 3);
    assert_eq!(names_until_end(&testbed).await, expected);
}

#[tokio::test]
async fn watch_ends_in_the_middle_of_an_event() {
    let faults = Faults::new(0);
    faults.add(Fault::on(watches()).effect(Effect::TruncatedEvent { after: 1 }));
    let testbed = with_pods(&faults, 3);
    let mut lines = Watch::pods(&testbed, "").await;
    assert_eq!(lines.event().await.1, "a");
    let text = lines.text().await.unwrap();
    assert!(
        text.starts_with("{\"type\":") && serde_json::from_str::<serde_json::Value>(&text).is_err()
    );
    assert_eq!(lines.text().await, None);
    assert_eq!(names_until_end(&testbed).await, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn silent_watch_stays_open_without_events() {
    let faults = Faults::new(0);
    let id = faults.add(
        Fault::on(watches())
            .until(Duration::from_secs(60))
            .effect(Effect::SilentWatch { after: 1 }),
    );
    let testbed = with_pods(&faults, 3);
    assert_eq!(names_until_end(&testbed).await, ["a"]);
    assert_eq!(faults.elapsed(), Duration::from_secs(60));
    // A removed fault doesn't affect a new watch.
    assert!(faults.remove(id));
    let mut lines = Watch::pods(&testbed, "").await;
    for name in ["a", "b", "c"] {
        assert_eq!(lines.event().await.1, name);
    }
}

#[rstest]
#[case::the_fault_is_removed(true)]
#[case::all_watches_end(false)]
#[tokio::test]
async fn silent_watch_ends_with_its_fault_or_all_watches(#[case] remove: bool) {
    let faults = Faults::new(0);
    faults.add(Fault::on(watches()).effect(Effect::SilentWatch { after: 0 }));
    let testbed = with_pods(&faults, 1);
    let mut lines = Watch::pods(&testbed, "").await;
    let mut next = Box::pin(lines.next());
    assert!(futures::poll!(next.as_mut()).is_pending());
    if remove {
        faults.clear();
    } else {
        testbed.end_watches();
    }
    assert_eq!(next.await, None);
}

#[rstest]
#[case::ends(Effect::DropWatch { after: 1 })]
#[case::falls_silent(Effect::SilentWatch { after: 1 })]
#[tokio::test(start_paused = true)]
async fn fault_affects_watches_that_started_before_it(#[case] effect: Effect) {
    let faults = Faults::new(0);
    let (from, until) = (Duration::from_secs(10), Duration::from_secs(20));
    faults.add(Fault::on(watches()).from(from).until(until).effect(effect.clone()));
    let testbed = with_pods(&faults, 2);
    let mut lines = Watch::pods(&testbed, "").await;
    for name in ["a", "b"] {
        assert_eq!(lines.event().await.1, name);
    }
    tokio::time::advance(from).await;
    for name in ["c", "d"] {
        testbed.apply(pod(name, json!({}))).unwrap();
    }
    assert_eq!(lines.event().await.1, "c");
    assert_eq!(lines.next().await, None);
    let silent = matches!(effect, Effect::SilentWatch { .. });
    assert_eq!(faults.elapsed(), if silent { until } else { from });
}

#[tokio::test(start_paused = true)]
async fn watch_survives_a_fault_that_ends_before_enough_events() {
    let faults = Faults::new(0);
    let until = Duration::from_secs(20);
    faults.add(Fault::on(watches()).until(until).effect(Effect::DropWatch { after: 1 }));
    let testbed = with_pods(&faults, 0);
    let mut lines = Watch::pods(&testbed, "").await;
    tokio::time::advance(until).await;
    for name in ["a", "b"] {
        testbed.apply(pod(name, json!({}))).unwrap();
        assert_eq!(lines.event().await.1, name);
    }
}

#[tokio::test(start_paused = true)]
async fn quiet_watch_ends_when_the_fault_starts() {
    let faults = Faults::new(0);
    faults.add(
        Fault::on(watches()).from(Duration::from_secs(10)).effect(Effect::DropWatch { after: 0 }),
    );
    let testbed = with_pods(&faults, 0);
    assert_eq!(Watch::pods(&testbed, "").await.next().await, None);
    assert_eq!(faults.elapsed(), Duration::from_secs(10));
}

#[tokio::test]
async fn fields_of_watch_events_can_be_changed() {
    let faults = Faults::new(0);
    let effect = Effect::ChangedField {
        object: "b".into(),
        pointer: "/metadata".into(),
        value: json!("nothing"),
    };
    faults.add(Fault::on(watches()).effect(effect));
    let testbed = with_pods(&faults, 3);
    let api: Api<Pod> = Api::default_namespaced(testbed.client());
    let mut events = pin!(api.watch(&WatchParams::default(), "0").await.unwrap());
    assert!(matches!(events.next().await, Some(Ok(WatchEvent::Added(_)))));
    assert!(matches!(events.next().await, Some(Err(_))));
    assert!(matches!(events.next().await, Some(Ok(WatchEvent::Added(_)))));
}

#[tokio::test(start_paused = true)]
async fn kube_runtime_watcher_recovers_from_failed_requests_and_ended_watches() {
    let faults = Faults::new(3);
    for (probability, effect) in [
        (0.1, Effect::Expired),
        (0.1, Effect::Disconnect { applied: false }),
        (0.1, Effect::Html { code: 200 }),
        (0.5, Effect::DropWatch { after: 1 }),
        (1.0, Effect::TruncatedEvent { after: 2 }),
    ] {
        faults.add(Fault::on(Match::any()).probability(probability).effect(effect));
    }
    let testbed = with_pods(&faults, 0);
    let api: Api<Pod> = Api::default_namespaced(testbed.client());
    let objects = watcher(api, watcher::Config::default()).default_backoff();
    let mut objects = pin!(objects.applied_objects().filter_map(|one| async { one.ok() }));
    for index in 0..50 {
        let name = format!("pod-{index}");
        testbed.apply(pod(&name, json!({}))).unwrap();
        while objects.next().await.unwrap().metadata.name.as_deref() != Some(name.as_str()) {}
    }
    assert!(faults.total_hits() > 30, "{}", faults.total_hits());
}
