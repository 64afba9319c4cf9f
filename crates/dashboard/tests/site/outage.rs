//! Outages of the API server, and rights that the user lacks.

use hpa_testbed::{Effect, Fault, Match};
use rstest::rstest;
use serde_json::{Value, json};

use crate::{Cluster, forbidden_effect};

#[rstest]
#[case::dead(Effect::Disconnect { applied: false }, "The API server has been unreachable since ")]
#[case::token(
    Effect::status(401, "Unauthorized", "Unauthorized"),
    "The API server has rejected your credentials since "
)]
#[tokio::test]
async fn outage_keeps_the_last_values_with_their_time(
    #[case] effect: Effect,
    #[case] expected: &str,
) {
    let cluster = Cluster::new().await;
    let mut reporter = cluster.dashboard.reporter();
    let (mut list, mut detail) = (cluster.open_list().await, cluster.open_detail("web").await);
    let changes = list.until(|changes| changes["isReading"] == false).await;
    assert_eq!(changes["outage"], Value::Null);
    let before = detail.until(|view| view["report"]["metrics"][0]["podList"] != Value::Null).await;
    cluster.faults.add(Fault::on(Match::any()).effect(effect));
    let view = detail.until(|view| view["outage"] != Value::Null).await;
    assert_eq!(view["report"]["sentence"], before["report"]["sentence"]);
    let problems = view["problems"].as_array().expect("problems");
    let sentence = problems[0].as_str().expect("a sentence");
    assert!(problems.len() == 1 && sentence.starts_with(expected), "{problems:?}");
    let changes = list.until(|changes| changes["outage"] != Value::Null).await;
    assert_eq!((&changes["reset"], &changes["problems"]), (&json!(false), &view["problems"]));
    let outage = &changes["outage"];
    assert!(outage["valuesAt"].as_str() <= outage["since"].as_str(), "{outage}");
    assert!(outage["valuesAt"].is_string() && outage["isPartial"] == false, "{outage}");
    assert_eq!(format!("{}.", reporter.next_sentence().await), sentence);
    cluster.faults.clear();
    list.until(|changes| changes["outage"] == Value::Null && changes["isReading"] == false).await;
    detail.until(|view| view["outage"] == Value::Null && view["problems"] == json!([])).await;
    let end = reporter.next_sentence().await;
    assert!(end.starts_with("The API server can be read again as of "), "{end}");
    // The autoscaler is watched again.
    cluster.metrics.set_cpu_percent(90);
    detail.until(|view| view["report"]["scaleTo"] == 6).await;
}

#[tokio::test]
async fn outage_at_the_start_is_reported_instead_of_an_empty_list() {
    let fault = json!({ "effect": { "disconnect": {} } });
    let cluster = Cluster::with_faults(&[fault]).await;
    let changes = cluster.open_list().await.until(|changes| changes["outage"] != Value::Null).await;
    assert_eq!(changes["problems"].as_array().map(Vec::len), Some(1), "{changes}");
    assert_eq!((&changes["rows"], &changes["isReading"]), (&json!([]), &json!(false)));
    assert_eq!(changes["outage"]["valuesAt"], Value::Null);
    let view = cluster.open_detail("web").await.until(|view| view["outage"] != Value::Null).await;
    assert_eq!((&view["isReading"], &view["isComplete"]), (&json!(false), &json!(false)));
}

fn forbid(resource: &str) -> Value {
    json!({ "match": { "resources": [resource] }, "effect": forbidden_effect() })
}

#[tokio::test]
async fn forbidden_list_is_reported_with_verb_resource_and_namespace() {
    let cluster = Cluster::with_faults(&[forbid("horizontalpodautoscalers")]).await;
    let changes = cluster.open_list().await.until(|changes| changes["outage"] != Value::Null).await;
    let right = "You may not list horizontalpodautoscalers.autoscaling, neither in all namespaces \
                 nor in the namespace default, so none is shown. --namespace selects another one";
    assert!(changes["problems"][0].as_str().expect("a sentence").starts_with(right), "{changes}");
    assert_eq!(changes["outage"]["valuesAt"], Value::Null);
}

#[rstest]
#[case::scale(forbid("deployments"))]
#[case::pods(forbid("pods"))]
#[tokio::test]
async fn missing_right_for_the_decision_does_not_fail_the_autoscaler(#[case] fault: Value) {
    let cluster = Cluster::with_faults(&[fault, forbid("events")]).await;
    let mut detail = cluster.open_detail("web").await;
    let view = detail.until(|view| view["problems"] != json!([])).await;
    let problem = view["problems"][0].as_str().expect("a sentence");
    assert!(
        problem.starts_with("The decision isn't computed, because you lack a right: "),
        "{problem}"
    );
    assert!(problem.contains("you may not"), "the API server's message: {problem}");
    assert_eq!((view.get("report"), &view["row"]["state"]), (None, &json!("steady")));
    assert_eq!(view["conditions"].as_array().map(Vec::len), Some(2), "they are shown");
    let missing = view["missing"].to_string();
    assert!(missing.contains("Events can't be read: "), "{missing}");
    assert_eq!(view["areEventsKnown"], false);
    assert_eq!(view["outage"], Value::Null);
}
