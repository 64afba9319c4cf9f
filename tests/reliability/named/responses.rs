//! Requests that are refused, time out, or get invalid responses.

use std::time::Duration;

use hpa_testbed::{Effect, Match};
use hpa_tests::harness::TestbedExt;

use super::scenario::{Scenario, autoscalers, metrics, on, pods, scales, trigger_on};
use crate::cluster::Cluster;

/// Changes an annotation of all targets.
fn touch_all(cluster: &Cluster) {
    for name in crate::cluster::TARGETS {
        let age = cluster.clock.age().as_millis().to_string();
        cluster.edit(cluster.testbed.deployment(name), |object| {
            object["metadata"]["annotations"] = serde_json::json!({ "touched": age });
        });
    }
}

#[tokio::test(start_paused = true)]
async fn conflicts_on_scales() {
    Scenario::with([on(scales("update"), Effect::Conflict)]).assert_survives().await;
}

#[tokio::test(start_paused = true)]
async fn conflicts_on_statuses() {
    Scenario::with([on(autoscalers("patch"), Effect::Conflict)]).assert_survives().await;
}

#[tokio::test(start_paused = true)]
async fn conflicts_on_scales_and_statuses() {
    let faults =
        [on(scales("update"), Effect::Conflict), on(autoscalers("patch"), Effect::Conflict)];
    Scenario::with(faults).assert_survives().await;
}

/// A user writes the targets every second, so that scale writes may use an outdated resource
/// version.
#[tokio::test(start_paused = true)]
async fn conflict_storm() {
    let slow = Effect::Slow { by: Duration::from_millis(300) };
    let mut scenario = Scenario::with([on(scales("update"), slow)]);
    for at in 60..240 {
        scenario = scenario.incident(at, touch_all);
    }
    scenario.assert_survives().await;
}

#[tokio::test(start_paused = true)]
async fn some_conflicts() {
    Scenario::with([trigger_on(scales("update")).every(2).effect(Effect::Conflict)])
        .assert_survives()
        .await;
}

#[tokio::test(start_paused = true)]
async fn too_many_requests() {
    let busy = Effect::TooManyRequests { retry_after_seconds: Some(5) };
    Scenario::with([on(Match::any(), busy)]).assert_survives().await;
}

#[tokio::test(start_paused = true)]
async fn too_many_requests_for_a_minute() {
    let busy = Effect::TooManyRequests { retry_after_seconds: Some(60) };
    Scenario::with([trigger_on(scales("update")).first(3).effect(busy)]).assert_survives().await;
}

#[tokio::test(start_paused = true)]
async fn internal_errors() {
    Scenario::with([on(Match::any(), Effect::InternalError)]).assert_survives().await;
}

#[tokio::test(start_paused = true)]
async fn service_unavailable() {
    Scenario::with([on(Match::any(), Effect::ServiceUnavailable)]).assert_survives().await;
}

#[tokio::test(start_paused = true)]
async fn gateway_timeouts() {
    Scenario::with([on(Match::any(), Effect::Timeout)]).assert_survives().await;
}

#[tokio::test(start_paused = true)]
async fn metrics_unavailable() {
    Scenario::with([on(metrics(), Effect::ServiceUnavailable)]).assert_survives().await;
}

#[tokio::test(start_paused = true)]
async fn slow_scales() {
    Scenario::with([on(Match::any().subresource("scale"), slow(7))]).assert_survives().await;
}

#[tokio::test(start_paused = true)]
async fn slow_metrics() {
    Scenario::with([on(metrics(), slow(7))]).assert_survives().await;
}

#[tokio::test(start_paused = true)]
async fn slow_statuses() {
    Scenario::with([on(autoscalers("patch"), slow(7))]).assert_survives().await;
}

#[tokio::test(start_paused = true)]
async fn slow_lists() {
    Scenario::with([on(Match::verb("list"), slow(25))])
        .incident(70, Cluster::expire_watches)
        .assert_survives()
        .await;
}

#[tokio::test(start_paused = true)]
async fn everything_too_slow() {
    Scenario::with([on(Match::any(), slow(40))]).assert_survives().await;
}

fn slow(seconds: u64) -> Effect {
    Effect::Slow { by: Duration::from_secs(seconds) }
}

#[tokio::test(start_paused = true)]
async fn lost_responses_to_scale_writes() {
    Scenario::with([on(scales("update"), Effect::LostResponse)]).assert_survives().await;
}

#[tokio::test(start_paused = true)]
async fn lost_responses_to_status_writes() {
    Scenario::with([on(autoscalers("patch"), Effect::LostResponse)]).assert_survives().await;
}

#[tokio::test(start_paused = true)]
async fn disconnected_before_applying() {
    Scenario::with([on(Match::any(), Effect::Disconnect { applied: false })])
        .assert_survives()
        .await;
}

#[tokio::test(start_paused = true)]
async fn disconnected_after_applying() {
    Scenario::with([on(Match::any(), Effect::Disconnect { applied: true })])
        .assert_survives()
        .await;
}

#[tokio::test(start_paused = true)]
async fn html_with_status_200() {
    Scenario::with([on(Match::any(), Effect::Html { code: 200 })]).assert_survives().await;
}

#[tokio::test(start_paused = true)]
async fn html_with_status_502() {
    Scenario::with([on(Match::any(), Effect::Html { code: 502 })]).assert_survives().await;
}

#[tokio::test(start_paused = true)]
async fn half_bodies() {
    Scenario::with([on(Match::any(), Effect::TruncatedBody)]).assert_survives().await;
}

#[tokio::test(start_paused = true)]
async fn forbidden() {
    let forbidden = Effect::status(403, "Forbidden", "not allowed");
    Scenario::with([on(Match::any(), forbidden)]).assert_survives().await;
}

#[tokio::test(start_paused = true)]
async fn unauthorized() {
    let unauthorized = Effect::status(401, "Unauthorized", "Unauthorized");
    Scenario::with([on(Match::any(), unauthorized)]).assert_survives().await;
}

/// Requests of all kinds fail at random, some kinds in several ways.
#[tokio::test(start_paused = true)]
async fn many_requests_fail_at_random() {
    // With a higher probability, no reconcile would reach its scale write before the faults end.
    // `LostResponse` would then never trigger, which fails the test.
    let sometimes = |matching, effect| trigger_on(matching).probability(0.15).effect(effect);
    let faults = [
        sometimes(metrics(), slow(4)),
        sometimes(metrics(), Effect::TooManyRequests { retry_after_seconds: Some(3) }),
        trigger_on(scales("update")).first(2).effect(Effect::LostResponse),
        sometimes(scales("get"), Effect::TruncatedBody),
        sometimes(autoscalers("patch"), Effect::LostResponse),
        sometimes(pods("watch"), Effect::DropWatch { after: 2 }),
        sometimes(autoscalers("watch"), Effect::TruncatedEvent { after: 1 }),
        trigger_on(Match::any()).probability(0.1).effect(Effect::InternalError),
    ];
    let mut scenario = Scenario::with(faults);
    for at in (70..240).step_by(10) {
        scenario = scenario.incident(at, |cluster| cluster.testbed.end_watches());
    }
    scenario.assert_survives().await;
}
