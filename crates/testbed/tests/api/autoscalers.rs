use std::{fs::File, io::BufRead, path::Path};

use flate2::read::GzDecoder;
use hpa_testbed::{Config, Testbed};
use serde_json::{Value, json};

use crate::support::{AUTOSCALERS, at, autoscaler, patch, post, put};

const RECORDED: &str = "../../tests/conformance/hpa_admission.jsonl.gz";

/// Sends the first 600 recorded requests. The status codes must be those of kube-apiserver, and so
/// must the errors whose order is not random.
#[tokio::test]
async fn invalid_autoscalers_get_the_recorded_errors() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(RECORDED);
    let lines = std::io::BufReader::new(GzDecoder::new(File::open(path).unwrap())).lines();
    let testbed = Testbed::default();
    let mut compared = 0;
    for line in lines.take(600) {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let object = json!({ "metadata": { "name": "web" }, "spec": line["input"] });
        let (code, response) = post(&testbed, &format!("{AUTOSCALERS}?dryRun=All"), &object).await;
        assert_eq!(json!(code), line["status"], "{line}");
        if code != 422 || has_several_sources(&line) {
            continue;
        }
        assert_eq!(at(&response, "/message"), &line["message"]);
        assert_eq!(at(&response, "/details/causes"), &line["causes"]);
        compared += 1;
    }
    assert!(compared > 50, "{compared}");
}

/// Whether the metric has fields of several sources. kube-apiserver reports these in random order.
fn has_several_sources(line: &Value) -> bool {
    line["message"]
        .as_str()
        .is_some_and(|text| text.contains("must populate the given metric source only"))
}

#[tokio::test]
async fn new_autoscaler_gets_defaults() {
    let testbed = Testbed::default();
    let (code, stored) = post(&testbed, AUTOSCALERS, &autoscaler("web")).await;
    assert_eq!((code, at(&stored, "/spec/minReplicas")), (201, &json!(1)));
    assert_eq!(at(&stored, "/spec/metrics/0/resource/target/averageUtilization"), 80);
}

#[tokio::test]
async fn updates_of_autoscalers_are_validated() {
    let testbed = Testbed::default();
    let (_, mut stored) = post(&testbed, AUTOSCALERS, &autoscaler("web")).await;
    let path = format!("{AUTOSCALERS}/web");
    stored["spec"]["minReplicas"] = json!(9);
    let text = "HorizontalPodAutoscaler.autoscaling \"web\" is invalid: spec.maxReplicas: \
        Invalid value: 5: must be greater than or equal to `minReplicas`";
    let (code, status) = put(&testbed, &path, &stored).await;
    assert_eq!((code, at(&status, "/message")), (422, &json!(text)));
    assert_eq!(at(&status, "/details/causes/0/reason"), "FieldValueInvalid");
    let change = json!({ "spec": { "minReplicas": 9 } });
    assert_eq!(patch(&testbed, &path, "merge-patch+json", &change).await, (422, status));
}

#[tokio::test]
async fn min_replicas_zero_depends_on_the_feature_gate() {
    let mut object = autoscaler("web");
    object["spec"]["minReplicas"] = json!(0);
    object["spec"]["metrics"] = json!([{ "type": "External", "external": {
        "metric": { "name": "queue" }, "target": { "type": "Value", "value": "1" } } }]);
    for (scale_to_zero, code) in [(true, 201), (false, 422)] {
        let testbed = Testbed::new(Config { scale_to_zero, ..Config::default() });
        assert_eq!(post(&testbed, AUTOSCALERS, &object).await.0, code);
    }
}

#[tokio::test]
async fn undecodable_autoscaler_is_a_bad_request() {
    let mut object = autoscaler("web");
    object["spec"]["maxReplicas"] = json!("many");
    assert_eq!(post(&Testbed::default(), AUTOSCALERS, &object).await.0, 400);
}
