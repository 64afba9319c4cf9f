//! Sentences of rows that depend on the target's scale or on other autoscalers.

use hpa_tests::harness::{TestbedExt, objects};
use serde_json::{Value, json};

use crate::{Cluster, hpa, with_status};

/// Waits until the sentence of a row contains a text, and returns the sentence.
async fn sentence_with(cluster: &Cluster, id: &str, text: &str) -> String {
    let mut latest = String::new();
    cluster
        .open_list()
        .await
        .until(|changes| {
            let mut rows = changes["rows"].as_array().expect("rows").iter();
            let row = rows.find(|row| row["id"] == id);
            let sentence = row.and_then(|row| row["sentence"].as_str());
            if let Some(sentence) = sentence {
                sentence.clone_into(&mut latest);
            }
            latest.contains(text)
        })
        .await;
    latest
}

/// The autoscaler `web` with 4 replicas, whose status has a metric above its target.
fn above_target() -> Value {
    let mut web = with_status(hpa("web"), 4, 4);
    let current = json!({ "averageUtilization": 90, "averageValue": "90m" });
    web["status"]["currentMetrics"] =
        json!([{ "type": "Resource", "resource": { "name": "cpu", "current": current } }]);
    web
}

#[tokio::test]
async fn row_counts_the_pods_that_exist() {
    let cluster = Cluster::new().await;
    let mut deployment = objects::running_deployment("web", 4);
    deployment["status"]["replicas"] = json!(3);
    cluster.testbed.apply_all([deployment, above_target()]);
    let sentence = sentence_with(&cluster, "core/shop/web", "3 of 4 pods exist").await;
    assert_eq!(sentence, "cpu is at 90% of requests, target 60%; 3 of 4 pods exist");
}

#[tokio::test]
async fn row_and_page_have_the_reason_why_pods_are_refused() {
    let cluster = Cluster::new().await;
    let mut deployment = objects::running_deployment("web", 4);
    deployment["status"] = json!({ "replicas": 3, "conditions": [{
        "type": "ReplicaFailure", "status": "True",
        "message": "pods \"web-x\" is forbidden: exceeded quota: pods",
    }] });
    cluster.testbed.apply_all([deployment, above_target()]);
    let refused = "; 3 of 4 pods exist: exceeded quota: pods";
    let sentence = sentence_with(&cluster, "core/shop/web", refused).await;
    assert!(sentence.ends_with(refused), "{sentence}");
    let mut detail = cluster.open_detail("web").await;
    let has_reason = |view: &Value| view["report"]["sentence"].to_string().contains(refused);
    detail.until(has_reason).await;
}

#[tokio::test]
async fn row_and_page_name_another_autoscaler_of_the_target() {
    let cluster = Cluster::with_custom_api().await;
    let mut other = hpa("other");
    other["apiVersion"] = json!("autoscaling.hpa-rs.dev/v2");
    other["spec"]["scaleTargetRef"]["name"] = json!("web");
    cluster.testbed.apply_all([other]);
    sentence_with(&cluster, "core/shop/web", "; rhpa/shop/other has the same target").await;
    sentence_with(&cluster, "custom/shop/other", "; shop/web has the same target").await;
    let mut detail = cluster.open_detail("web").await;
    let view = detail.until(|view| view["report"] != Value::Null).await;
    assert_eq!(view["problems"], json!(["rhpa/shop/other scales Deployment/web too."]));
}

#[tokio::test]
async fn control_and_format_characters_of_the_cluster_are_escaped() {
    let cluster = Cluster::new().await;
    let mut web = with_status(hpa("web"), 4, 4);
    web["spec"]["scaleTargetRef"]["kind"] = json!("\u{2066}Odd");
    web["status"]["conditions"][1] = json!({ "type": "ScalingActive", "status": "False",
        "reason": "FailedGetResourceMetric", "message": "a\u{1b}[2J\u{202e}b\nc" });
    cluster.testbed.apply_all([web]);
    let mut detail = cluster.open_detail("web").await;
    let view = detail.until(|view| view["row"]["target"] == r"\u{2066}Odd/web").await;
    assert_eq!(view["conditions"][1]["message"], r"a\u{1b}[2J\u{202e}b\nc");
}
