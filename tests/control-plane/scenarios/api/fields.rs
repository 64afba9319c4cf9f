//! Field validation, protobuf bodies and `autoscaling/v1`.

use anyhow::{Result, ensure};
use http::Method;
use serde_json::{Value, json};

use super::{
    APPLY, JSON, MERGE, STRATEGIC, autoscaler, autoscalers, deployment, deployments, get, patch,
    post, send,
};
use crate::test_env::TestEnv;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const UNKNOWN: &str = "strict decoding error: unknown field \"spec.minReplicaz\"";

fn autoscaler_with_unknown_field() -> Value {
    let mut object = autoscaler("web", json!({}));
    object["spec"]["minReplicaz"] = json!(2);
    object
}

pub(in super::super) async fn api_unknown_fields(env: TestEnv) -> Result<()> {
    let path = autoscalers(&env);
    let strict = format!("{path}?fieldValidation=Strict");
    let kind = "HorizontalPodAutoscaler in version \"v2\" cannot be handled as a \
        HorizontalPodAutoscaler";
    let response = post(&env, &strict, &autoscaler_with_unknown_field()).await?;
    response.expect_error(400, "BadRequest", &format!("{kind}: {UNKNOWN}"))?;
    let stored = post(&env, &path, &autoscaler_with_unknown_field()).await?.ok()?;
    ensure!(stored["spec"].get("minReplicaz").is_none(), "{stored}");

    let (web, change) = (format!("{path}/web"), json!({"spec": {"minReplicaz": 3}}));
    let strict = format!("{web}?fieldValidation=Strict");
    let go_map = "map[spec:map[minReplicaz:3]]";
    let message = format!(" \"\" is invalid: patch: Invalid value: {go_map:?}: {UNKNOWN}");
    patch(&env, &strict, STRATEGIC, &change).await?.expect_error(422, "Invalid", &message)?;
    let response = patch(&env, &strict, MERGE, &change).await?;
    response.expect_error_starting_with(
        422,
        "Invalid",
        " \"\" is invalid: patch: Invalid value: ",
    )?;
    let stored = patch(&env, &web, MERGE, &change).await?.ok()?;
    ensure!(stored["spec"].get("minReplicaz").is_none(), "{stored}");

    let applied =
        patch(&env, &format!("{web}?fieldManager=x"), APPLY, &autoscaler_with_unknown_field())
            .await?;
    let message = "failed to create typed patch object (/web; autoscaling/v2, \
        Kind=HorizontalPodAutoscaler): .spec.minReplicaz: field not declared in schema";
    ensure!((applied.code, &applied.body["message"]) == (500, &json!(message)), "{applied:?}");

    let response =
        post(&env, &format!("{path}?fieldValidation=Foo"), &autoscaler_with_unknown_field())
            .await?;
    let message = "CreateOptions.meta.k8s.io \"\" is invalid: fieldValidation: Unsupported value: \
        \"Foo\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"";
    response.expect_error(422, "Invalid", message)
}

pub(in super::super) async fn api_values_of_wrong_type(env: TestEnv) -> Result<()> {
    for (pointer, value, why) in [
        (
            "/spec/replicas",
            json!("two"),
            "string into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            "/spec/replicas",
            json!(1.5),
            "number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            "/metadata/labels",
            json!({"a": 1}),
            "number into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            "/spec/template/spec/containers",
            json!({}),
            "object into Go struct field PodSpec.spec.template.spec.containers of type \
             []v1.Container",
        ),
    ] {
        let mut object = deployment("web");
        *object.pointer_mut(pointer).expect("a field") = value;
        let kind = "Deployment in version \"v1\" cannot be handled as a Deployment";
        let message = format!("{kind}: json: cannot unmarshal {why}");
        post(&env, &deployments(&env), &object).await?.expect_error(400, "BadRequest", &message)?;
    }
    Ok(())
}

/// A field of a protobuf message with fewer than 128 bytes, as text.
fn field(number: u8, value: &str) -> String {
    let length = u8::try_from(value.len()).expect("a short value");
    format!("{}{}{value}", char::from(number << 3 | 2), char::from(length))
}

fn integer(number: u8, value: u8) -> String {
    format!("{}{}", char::from(number << 3), char::from(value))
}

/// An autoscaler as protobuf.
pub(in super::super) async fn api_protobuf(env: TestEnv) -> Result<()> {
    let type_meta = field(1, "autoscaling/v2") + &field(2, "HorizontalPodAutoscaler");
    let target = field(1, "Deployment") + &field(2, "web") + &field(3, "apps/v1");
    let resource = field(1, "cpu") + &field(2, &(field(1, "Utilization") + &integer(4, 50)));
    let metric = field(1, "Resource") + &field(4, &resource);
    let spec = field(1, &target) + &integer(2, 2) + &integer(3, 5) + &field(4, &metric);
    let object = field(1, &field(1, "web")) + &field(2, &spec);
    let body = format!("k8s\0{}{}", field(1, &type_meta), field(2, &object));
    let path = autoscalers(&env);
    let created = send(&env, Method::POST, &path, PROTOBUF, &json!(body)).await?.ok()?;
    let target = json!({"type": "Utilization", "averageUtilization": 50});
    let expected = json!({
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": 2, "maxReplicas": 5,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
    });
    ensure!(created["spec"] == expected, "{created}");
    let broken = send(&env, Method::POST, &path, PROTOBUF, &json!("abc")).await?;
    broken.expect_error_starting_with(
        400,
        "BadRequest",
        "the object provided is unrecognized (must be of type",
    )
}

/// `autoscaling/v1` has the fields of v2 in annotations, and a write in v1 keeps them.
pub(in super::super) async fn api_v1(env: TestEnv) -> Result<()> {
    let cpu = json!({"type": "Resource", "resource": {
        "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50},
    }});
    let path = autoscalers(&env);
    post(&env, &path, &autoscaler("web", json!({"metrics": [cpu]}))).await?.ok()?;
    let web = format!("{}/web", path.replace("/v2/", "/v1/"));
    let v1 = get(&env, &web).await?.ok()?;
    ensure!(v1["apiVersion"] == "autoscaling/v1", "{v1}");
    ensure!(v1["spec"]["targetCPUUtilizationPercentage"] == 50, "{v1}");
    let metrics = json!([{"type": "Pods", "pods": {
        "metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "5"},
    }}]);
    let policy = json!({"type": "Pods", "value": 1, "periodSeconds": 60});
    let change = json!({"spec": {
        "metrics": metrics, "behavior": {"scaleDown": {"policies": [policy]}},
    }});
    let v2 = patch(&env, &format!("{path}/web"), MERGE, &change).await?.ok()?;
    let mut v1 = get(&env, &web).await?.ok()?;
    let annotations = v1["metadata"]["annotations"].clone();
    let annotation = |name: &str| -> Result<Value> {
        let name = format!("autoscaling.alpha.kubernetes.io/{name}");
        Ok(serde_json::from_str(annotations[&name].as_str().unwrap_or_default())?)
    };
    let pods = json!({"metricName": "m", "targetAverageValue": "5"});
    ensure!(annotation("metrics")? == json!([{"type": "Pods", "pods": pods}]), "{v1}");
    let down = annotation("behavior")?["ScaleDown"]["Policies"][0].clone();
    ensure!(down == json!({"Type": "Pods", "Value": 1, "PeriodSeconds": 60}), "{v1}");
    v1["spec"]["maxReplicas"] = json!(6);
    send(&env, Method::PUT, &web, JSON, &v1).await?.ok()?;
    let mut expected = v2["spec"].clone();
    expected["maxReplicas"] = json!(6);
    let stored = get(&env, &format!("{path}/web")).await?.ok()?;
    ensure!(stored["spec"] == expected, "expected {expected}, got {stored}");
    Ok(())
}
