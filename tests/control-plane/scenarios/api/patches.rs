//! The four kinds of patches.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::{
    APPLY, JSON_PATCH, MERGE, STRATEGIC, autoscaler, autoscalers, deployment, deployments, get,
    patch, post,
};
use crate::test_env::TestEnv;

/// A merge patch, a JSON patch and a strategic merge patch of a Deployment.
pub(in super::super) async fn api_patches(env: TestEnv) -> Result<()> {
    post(&env, &deployments(&env), &deployment("web")).await?.ok()?;
    let path = format!("{}/web", deployments(&env));
    let labels = json!({"metadata": {"labels": {"app": null, "x": "1", "y": "2"}}});
    let object = patch(&env, &path, MERGE, &labels).await?.ok()?;
    ensure!(object["metadata"]["labels"] == json!({"x": "1", "y": "2"}), "{object}");
    let operations = json!([
        {"op": "test", "path": "/metadata/labels/x", "value": "1"},
        {"op": "add", "path": "/metadata/labels/z", "value": "3"},
        {"op": "move", "from": "/metadata/labels/x", "path": "/metadata/labels/m"},
        {"op": "copy", "from": "/metadata/labels/y", "path": "/metadata/labels/n"},
        {"op": "remove", "path": "/metadata/labels/y"},
        {"op": "replace", "path": "/spec/replicas", "value": 4},
    ]);
    let object = patch(&env, &path, JSON_PATCH, &operations).await?.ok()?;
    ensure!(object["metadata"]["labels"] == json!({"z": "3", "m": "1", "n": "2"}), "{object}");
    ensure!(object["spec"]["replicas"] == 4, "{object}");

    let side = |field: &str, value: &str| {
        let container = json!({"name": "side", field: value});
        json!({"spec": {"template": {"spec": {"containers": [container]}}}})
    };
    let images = |object: &Value| -> Vec<Value> {
        let containers = object.pointer("/spec/template/spec/containers").and_then(Value::as_array);
        containers.into_iter().flatten().map(|one| json!([one["name"], one["image"]])).collect()
    };
    for (field, value, expected) in [
        ("image", "one", json!([["side", "one"], ["app", "none"]])),
        ("image", "two", json!([["side", "two"], ["app", "none"]])),
        ("$patch", "delete", json!([["app", "none"]])),
    ] {
        let object = patch(&env, &path, STRATEGIC, &side(field, value)).await?.ok()?;
        ensure!(json!(images(&object)) == expected, "{field} {value}: {:?}", images(&object));
    }
    // Metrics have no merge key, so the list is replaced.
    let memory = json!([{"type": "Resource", "resource": {
        "name": "memory", "target": {"type": "Utilization", "averageUtilization": 10},
    }}]);
    post(&env, &autoscalers(&env), &autoscaler("web", json!({}))).await?.ok()?;
    let path = format!("{}/web", autoscalers(&env));
    let object =
        patch(&env, &path, STRATEGIC, &json!({"spec": {"metrics": memory}})).await?.ok()?;
    ensure!(object["spec"]["metrics"] == memory, "{object}");
    // Removing the metrics restores the default.
    let object = patch(&env, &path, MERGE, &json!({"spec": {"metrics": null}})).await?.ok()?;
    ensure!(object.pointer("/spec/metrics/0/resource/name") == Some(&json!("cpu")), "{object}");
    Ok(())
}

/// Rejected patches change nothing.
pub(in super::super) async fn api_rejected_patches(env: TestEnv) -> Result<()> {
    let stored = post(&env, &deployments(&env), &deployment("web")).await?.ok()?;
    let path = format!("{}/web", deployments(&env));
    let rejected = "the server rejected our request due to an error in our request";
    for operation in [
        json!({"op": "test", "path": "/spec/replicas", "value": 99}),
        json!({"op": "replace", "path": "/spec/nope/x", "value": 99}),
        json!({"op": "remove", "path": "/spec/nope"}),
        json!({"op": "turn", "path": "/spec/replicas"}),
    ] {
        let response = patch(&env, &path, JSON_PATCH, &json!([operation])).await?;
        response.expect_error(422, "Invalid", rejected).with_context(|| operation.to_string())?;
    }
    for (media_type, body) in
        [(JSON_PATCH, json!({})), (MERGE, json!([1])), (MERGE, json!("{\"a\""))]
    {
        let response = patch(&env, &path, media_type, &body).await?;
        response.expect_error_starting_with(400, "BadRequest", "error decoding patch: ")?;
    }
    let response = patch(&env, &path, MERGE, &json!({"metadata": {"name": "xyz"}})).await?;
    let text = "the name of the object (xyz) does not match the name on the URL (web)";
    response.expect_error(400, "BadRequest", text)?;
    let response = patch(&env, &path, MERGE, &json!({"spec": {"replicas": -1}})).await?;
    let text = "Deployment.apps \"web\" is invalid: spec.replicas: Invalid value: -1: must be \
                greater than or equal to 0";
    response.expect_error(422, "Invalid", text)?;
    ensure!(get(&env, &path).await?.ok()? == stored, "it changed");
    Ok(())
}

/// The entries of `managedFields`: operation, manager and the fields of the spec.
fn managed_fields(object: &Value) -> Vec<Value> {
    let entries = object["metadata"]["managedFields"].as_array();
    let entries = entries.into_iter().flatten();
    entries
        .map(|one| json!([one["operation"], one["manager"], one["fieldsV1"]["f:spec"]]))
        .collect()
}

/// Server-side apply: creation, ownership, conflict, force.
pub(in super::super) async fn api_apply(env: TestEnv) -> Result<()> {
    let path = format!("{}/web", autoscalers(&env));
    let by = |manager: &str| format!("{path}?fieldManager={manager}");
    let wanted = |extra_fields: Value| autoscaler("web", extra_fields);
    let new = patch(&env, &by("one"), APPLY, &wanted(json!({"minReplicas": 2}))).await?;
    ensure!(new.code == 201, "{new:?}");
    let target = json!({"f:apiVersion": {}, "f:kind": {}, "f:name": {}});
    let fields = json!({"f:scaleTargetRef": target, "f:maxReplicas": {}, "f:minReplicas": {}});
    ensure!(managed_fields(&new.body) == [json!(["Apply", "one", fields])], "{}", new.body);

    let other = wanted(json!({"minReplicas": 3}));
    let response = patch(&env, &by("two"), APPLY, &other).await?;
    response.expect_error(
        409,
        "Conflict",
        "Apply failed with 1 conflict: conflict with \"one\": .spec.minReplicas",
    )?;
    let cause = json!([{
        "reason": "FieldManagerConflict", "message": "conflict with \"one\"",
        "field": ".spec.minReplicas",
    }]);
    ensure!(response.body["details"]["causes"] == cause, "{}", response.body);
    let response =
        patch(&env, &by("two"), APPLY, &wanted(json!({"minReplicas": 3, "maxReplicas": 9})))
            .await?;
    let text = "Apply failed with 2 conflicts: conflicts with \"one\":\n- .spec.maxReplicas\n- \
                .spec.minReplicas";
    response.expect_error(409, "Conflict", text)?;
    let forced = patch(&env, &format!("{}&force=true", by("two")), APPLY, &other).await?.ok()?;
    ensure!(forced["spec"]["minReplicas"] == 3, "{forced}");
    ensure!(managed_fields(&forced).len() == 2, "{forced}");
    // A field without manager is removed; here the default replaces it.
    let dropped = patch(&env, &by("two"), APPLY, &wanted(json!({}))).await?.ok()?;
    ensure!(dropped["spec"]["minReplicas"] == 1, "{dropped}");
    let updated =
        patch(&env, &by("hand"), MERGE, &json!({"spec": {"maxReplicas": 6}})).await?.ok()?;
    ensure!(
        managed_fields(&updated).contains(&json!(["Update", "hand", {"f:maxReplicas": {}}])),
        "{updated}"
    );
    let response = patch(&env, &by("one"), APPLY, &wanted(json!({"minReplicas": 2}))).await?;
    let text = "Apply failed with 1 conflict: conflict with \"hand\" using autoscaling/v2: \
                .spec.maxReplicas";
    response.expect_error(409, "Conflict", text)?;
    let response = patch(&env, &path, APPLY, &wanted(json!({}))).await?;
    let text = "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is \
                required for apply patch";
    response.expect_error(422, "Invalid", text)?;
    let response = patch(&env, &by("one"), APPLY, &json!({"metadata": {"name": "web"}})).await?;
    response.expect_error(400, "BadRequest", "invalid object type: /, Kind=")
}
