use std::sync::Arc;

use hpa_testbed::{Config, Testbed};
use jiff::SignedDuration;
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::{
    AUTOSCALERS, DEPLOYMENTS, PODS, SkewedClock, TABLE, Watch, at, autoscaler, crd, deployment,
    pod, queue, send,
};

const CREATED: &str = "2026-01-01T00:00:00Z";

fn testbed() -> Testbed {
    Testbed::new(Config { clock: Arc::new(|| CREATED.parse().unwrap()), ..Config::default() })
}

/// The columns without those of `-o wide`, and the table.
async fn get_table(testbed: &Testbed, path: &str) -> (Vec<String>, Value) {
    let (code, table) = send(testbed, "GET", path, TABLE, &Value::Null).await;
    assert_eq!((code, at(&table, "/kind")), (200, &json!("Table")));
    let columns = at(&table, "/columnDefinitions").as_array().unwrap();
    let narrow = columns.iter().filter(|column| column["priority"] == 0);
    (narrow.map(|column| column["name"].as_str().unwrap().to_owned()).collect(), table)
}

fn running(mut pod: Value) -> Value {
    let status = json!({ "ready": true, "restartCount": 2, "state": { "running": {} } });
    pod["status"] = json!({ "phase": "Running", "containerStatuses": [status] });
    pod
}

#[rstest]
#[case(autoscaler("web"), AUTOSCALERS,
    &["Name", "Reference", "Targets", "MinPods", "MaxPods", "Replicas", "Age"],
    json!(["web", "Deployment/web", "cpu: <unknown>/80%", "1", 5, 0, "0s"]))]
#[case(deployment("web"), DEPLOYMENTS, &["Name", "Ready", "Up-to-date", "Available", "Age"],
    json!(["web", "0/2", 0, 0, "0s", "main,side", "a,b", "app=web"]))]
#[case(running(pod("a", json!({}))), PODS, &["Name", "Ready", "Status", "Restarts", "Age"],
    json!(["a", "1/1", "Running", "2", "0s", "<none>", "<none>", "<none>", "<none>"]))]
#[case(
    queue(),
    "/apis/example.com/v1/namespaces/default/queues",
    &["Name", "Workers"],
    json!(["jobs", 3])
)]
#[case(json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "x" } }),
    "/api/v1/namespaces/default/configmaps", &["Name", "Data", "Age"], json!(["x", 0, "0s"]))]
#[tokio::test]
async fn table_has_the_columns_of_its_kind(
    #[case] object: Value,
    #[case] path: &str,
    #[case] columns: &[&str],
    #[case] cells: Value,
) {
    let testbed = testbed();
    testbed.apply(crd()).unwrap();
    testbed.apply(object).unwrap();
    let (names, table) = get_table(&testbed, path).await;
    assert_eq!(names, columns);
    assert_eq!(at(&table, "/rows/0/cells"), &cells);
    assert_eq!(at(&table, "/rows/0/object/kind"), "PartialObjectMetadata");
}

#[rstest]
#[case("None", Value::Null)]
#[case("Metadata", json!("PartialObjectMetadata"))]
#[case("Object", json!("Pod"))]
#[tokio::test]
async fn rows_include_the_requested_part_of_the_object(#[case] include: &str, #[case] kind: Value) {
    let testbed = testbed();
    testbed.apply(pod("a", json!({}))).unwrap();
    let (_, table) = get_table(&testbed, &format!("{PODS}/a?includeObject={include}")).await;
    assert_eq!(at(&table, "/rows/0/object/kind"), &kind);
}

#[tokio::test]
async fn ages_grow_during_a_watch() {
    let clock = SkewedClock::new(CREATED.parse().unwrap());
    let testbed = Testbed::new(Config { clock: clock.as_fn(), ..Config::default() });
    testbed.apply(autoscaler("web")).unwrap();
    let mut watch = Watch::new(&testbed, &format!("{AUTOSCALERS}?watch=1"), TABLE).await;
    assert_eq!(at(&watch.next().await.unwrap(), "/object/rows/0/cells/6"), "0s");
    clock.set(SignedDuration::from_mins(5));
    let mut changed = autoscaler("web");
    changed["metadata"]["labels"] = json!({ "changed": "yes" });
    testbed.apply(changed).unwrap();
    assert_eq!(at(&watch.next().await.unwrap(), "/object/rows/0/cells/6"), "5m");
}
