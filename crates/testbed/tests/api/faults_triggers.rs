//! Triggers: the affected requests and the time of faults.

use std::time::Duration;

use hpa_testbed::{Effect, Fault, Faults, Match, Testbed, clock::SimulatedClock};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{Api, Client, api::ListParams};
use rstest::rstest;
use serde_json::json;

use crate::support::{DEPLOYMENTS, PODS, code, deployment, faulty, get, pod, put};

/// Lists pods `count` times. Returns which of the requests failed, counted from 1.
async fn failures(client: Client, count: usize) -> Vec<usize> {
    let api: Api<Pod> = Api::default_namespaced(client);
    let mut failed = Vec::new();
    for index in 1..=count {
        if api.list(&ListParams::default()).await.is_err() {
            failed.push(index);
        }
    }
    failed
}

fn lists() -> Fault {
    Fault::on(Match::verb("list"))
}

#[rstest]
#[case::always(lists(), &[1, 2, 3, 4, 5, 6])]
#[case::nth(lists().nth(2), &[2])]
#[case::every(lists().every(3), &[3, 6])]
#[case::first(lists().first(2), &[1, 2])]
#[case::every_and_first(lists().every(2).first(2), &[2, 4])]
#[case::never(lists().probability(0.0), &[])]
#[tokio::test]
async fn trigger_counts_requests(#[case] trigger: Fault, #[case] expected: &[usize]) {
    let faults = Faults::new(0);
    let id = faults.add(trigger.effect(Effect::InternalError));
    let testbed = faulty(&faults);
    assert_eq!(failures(testbed.client(), 6).await, expected);
    assert_eq!(
        (faults.hits(id), faults.total_hits()),
        (expected.len() as u64, expected.len() as u64)
    );
    assert!(faults.remove(id) && !faults.remove(id));
    assert_eq!(failures(testbed.client(), 6).await, [0; 0]);
    assert_eq!(faults.hits(id), expected.len() as u64);
}

#[tokio::test]
async fn probability_is_deterministic_by_seed() {
    let failures_with = async |seed, others: usize| {
        let faults = Faults::new(seed);
        // The other faults must not affect the random numbers of this one.
        faults.add(lists().probability(0.3).effect(Effect::InternalError));
        for _ in 0..others {
            faults.add(Fault::on(Match::verb("get")).probability(0.5).effect(Effect::Conflict));
        }
        let testbed = faulty(&faults);
        get(&testbed, &format!("{PODS}/a")).await;
        failures(testbed.client(), 1000).await
    };
    let first = failures_with(1, 0).await;
    assert!((250..350).contains(&first.len()), "{}", first.len());
    assert_eq!(failures_with(1, 2).await, first);
    assert_ne!(failures_with(2, 0).await, first);
}

#[tokio::test]
async fn faults_have_independent_random_numbers() {
    let faults = Faults::new(1);
    for client in ["a", "b"] {
        faults.add(
            Fault::on(Match::any().client(client)).probability(0.5).effect(Effect::InternalError),
        );
    }
    let testbed = faulty(&faults);
    let (first, second) = (testbed.client_named("a"), testbed.client_named("b"));
    assert_ne!(failures(first, 100).await, failures(second, 100).await);
}

#[tokio::test(start_paused = true)]
async fn fault_is_active_between_from_and_until() {
    let faults = Faults::new(0);
    let (from, until) = (Duration::from_secs(10), Duration::from_secs(20));
    faults.add(lists().from(from).until(until).nth(1).effect(Effect::InternalError));
    let testbed = faulty(&faults);
    assert_eq!(failures(testbed.client(), 2).await, [0; 0]);
    tokio::time::advance(from).await;
    assert_eq!(faults.elapsed(), from);
    // Only requests while the fault is active are counted.
    assert_eq!(failures(testbed.client(), 2).await, &[1]);
    faults.clear();
    faults.add(lists().until(until).effect(Effect::InternalError));
    assert_eq!(failures(testbed.client(), 1).await, &[1]);
    tokio::time::advance(Duration::from_secs(10)).await;
    assert_eq!(failures(testbed.client(), 1).await, [0; 0]);
}

#[tokio::test(start_paused = true)]
async fn fault_times_follow_a_custom_clock() {
    let clock = SimulatedClock::new(Timestamp::UNIX_EPOCH, 60.0);
    let faults = Faults::with_clock(0, clock);
    faults.add(lists().from(Duration::from_secs(60)).effect(Effect::InternalError));
    let stalled = faults
        .add(Fault::on(Match::verb("get")).until(Duration::from_secs(90)).effect(Effect::Stall));
    let testbed = faulty(&faults);
    testbed.apply(pod("a", json!({}))).unwrap();
    assert_eq!(failures(testbed.client(), 1).await, [0; 0]);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(failures(testbed.client(), 1).await, &[1]);
    let api: Api<Pod> = Api::default_namespaced(testbed.client());
    let read = tokio::spawn(async move { api.get("a").await.map(drop) });
    faults.wait_for_hits(stalled, 1).await;
    tokio::time::advance(Duration::from_millis(500)).await;
    read.await.unwrap().unwrap();
}

#[tokio::test]
async fn fault_affects_only_the_matching_client() {
    let faults = Faults::new(0);
    let id =
        faults.add(Fault::on(Match::any().client("controller")).effect(Effect::ServiceUnavailable));
    let testbed = faulty(&faults);
    assert_eq!(failures(testbed.client(), 1).await, [0; 0]);
    assert_eq!(failures(testbed.client_named("controller"), 1).await, &[1]);
    assert_eq!(faults.wait_for_hits(id, 1).await, 1);
}

#[rstest]
#[case::group(Match::any().group("apps"), [true, true, false])]
#[case::core_group(Match::any().group(""), [false, false, true])]
#[case::resource(Match::any().resource("pods").resource("nodes"), [false, false, true])]
#[case::subresource(Match::any().subresource("scale"), [true, false, false])]
#[case::no_subresource(Match::any().subresource(""), [false, true, true])]
#[case::namespace(Match::any().namespace("default"), [true, true, true])]
#[case::other_namespace(Match::any().namespace("shop"), [false, false, false])]
#[case::name(Match::any().name("web"), [true, true, false])]
#[case::verbs(Match::verbs(["update", "patch"]), [true, false, false])]
#[case::all(
    Match::verb("update").group("apps").resource("deployments").subresource("scale").name("web"),
    [true, false, false]
)]
#[tokio::test]
async fn request_properties_are_matched(
    #[case] matching: Match,
    // For a PUT of a Deployment's scale, a GET of the Deployment, and a list of pods.
    #[case] expected: [bool; 3],
) {
    let faults = Faults::new(0);
    faults.add(Fault::on(matching).effect(Effect::status(418, "", "")));
    let testbed = faulty(&faults);
    testbed.apply(deployment("web")).unwrap();
    let path = format!("{DEPLOYMENTS}/web");
    let update = put(&testbed, &format!("{path}/scale"), &json!({})).await.0;
    let codes = [update, get(&testbed, &path).await.0, get(&testbed, PODS).await.0];
    assert_eq!(codes.map(|code| code == 418), expected);
}

#[tokio::test]
async fn discovery_matches_by_verb_but_not_by_group() {
    let faults = Faults::new(0);
    faults.add(Fault::on(Match::any().group("")).effect(Effect::InternalError));
    let testbed = faulty(&faults);
    assert_eq!(get(&testbed, "/apis").await.0, 200);
    faults.add(Fault::on(Match::verb("get")).effect(Effect::InternalError));
    assert_eq!(get(&testbed, "/apis").await.0, 500);
}

#[tokio::test(start_paused = true)]
async fn faults_combine_up_to_the_first_response() {
    let faults = Faults::new(0);
    let slow = faults.add(lists().effect(Effect::Slow { by: Duration::from_secs(5) }));
    let rejected =
        faults.add(lists().effect(Effect::TooManyRequests { retry_after_seconds: Some(3) }));
    let never = faults.add(lists().effect(Effect::InternalError));
    let testbed: Testbed = faulty(&faults);
    let api: Api<ConfigMap> = Api::default_namespaced(testbed.client());
    let start = tokio::time::Instant::now();
    assert_eq!(code(api.list(&ListParams::default()).await), 429);
    assert_eq!(start.elapsed(), Duration::from_secs(5));
    assert_eq!([slow, rejected, never].map(|id| faults.hits(id)), [1, 1, 0]);
}
