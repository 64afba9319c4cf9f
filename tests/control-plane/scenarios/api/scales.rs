//! The scale subresource, of built-in and of custom resources.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::{
    APPLY, JSON_PATCH, MERGE, STRATEGIC, deployment, deployments, get, patch, post, put,
    resource_version,
};
use crate::scenarios::targets::define_kind;
use crate::test_env::TestEnv;
use crate::workload::Kind;

/// The scale of a Deployment: read, update, and all kinds of patches.
pub(in super::super) async fn api_scale(env: TestEnv) -> Result<()> {
    let object = post(&env, &deployments(&env), &deployment("web")).await?.ok()?;
    let path = format!("{}/web/scale", deployments(&env));
    let scale = get(&env, &path).await?.ok()?;
    let metadata = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"]
        .map(|field| (field.to_owned(), object["metadata"][field].clone()));
    let expected = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": Value::Object(metadata.into_iter().collect()),
        "spec": {"replicas": 2}, "status": {"replicas": 0, "selector": "app=web"},
    });
    ensure!(scale == expected, "{scale}");

    let mut next = scale.clone();
    next["spec"]["replicas"] = 3.into();
    let stored = put(&env, &path, &next).await?.ok()?;
    ensure!(
        stored["spec"]["replicas"] == 3 && resource_version(&stored)? != resource_version(&scale)?,
        "{stored}"
    );
    let modified = "Operation cannot be fulfilled on deployments.apps \"web\": the object has been \
                    modified; please apply your changes to the latest version and try again";
    put(&env, &path, &next).await?.expect_error(409, "Conflict", modified)?;
    let set = |replicas: i64| json!({"spec": {"replicas": replicas}});
    let applied = json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale",
        "metadata": {"name": "web"}, "spec": {"replicas": 7},
    });
    let replace = json!([{"op": "replace", "path": "/spec/replicas", "value": 5}]);
    for (query, media_type, change, expected) in [
        ("", MERGE, set(4), json!(4)),
        ("", JSON_PATCH, replace, json!(5)),
        ("", STRATEGIC, set(6), json!(6)),
        ("?fieldManager=x&force=true", APPLY, applied, json!(7)),
        ("", MERGE, set(0), Value::Null),
    ] {
        let scale = patch(&env, &format!("{path}{query}"), media_type, &change).await?.ok()?;
        ensure!(scale["spec"]["replicas"] == expected, "{media_type}: {scale}");
    }
    let object = get(&env, &format!("{}/web", deployments(&env))).await?.ok()?;
    ensure!(object["spec"]["replicas"] == 0, "{object}");
    Ok(())
}

/// Scales that don't match the URL or the Deployment, and a negative number of replicas.
pub(in super::super) async fn api_rejected_scales(env: TestEnv) -> Result<()> {
    post(&env, &deployments(&env), &deployment("web")).await?.ok()?;
    let path = format!("{}/web/scale", deployments(&env));
    for (field, code, reason, text) in [
        (
            "uid",
            409,
            "Conflict",
            "Operation cannot be fulfilled on deployments.apps \"web\": StorageError: ",
        ),
        (
            "name",
            400,
            "BadRequest",
            "the name of the object (x) does not match the name on the URL (web)",
        ),
        ("namespace", 400, "BadRequest", "the namespace of the provided object does not match"),
    ] {
        let mut wrong =
            json!({"metadata": {"name": "web", "namespace": env.ns}, "spec": {"replicas": 9}});
        wrong["metadata"][field] = "x".into();
        put(&env, &path, &wrong)
            .await?
            .expect_error_starting_with(code, reason, text)
            .with_context(|| field)?;
    }
    let negative =
        json!({"metadata": {"name": "web", "namespace": env.ns}, "spec": {"replicas": -3}});
    let text = "Scale.autoscaling \"web\" is invalid: spec.replicas: Invalid value: -3: must be \
                greater than or equal to 0";
    put(&env, &path, &negative).await?.expect_error(422, "Invalid", text)
}

/// The scale of a custom resource follows its definition.
pub(in super::super) async fn api_custom_scale(env: TestEnv) -> Result<()> {
    let kind = Kind::new("api.hpa-rs.test", "v1", "Queue", "queues");
    define_kind(&env, kind, &["v1", "v1alpha1"]).await?;
    let path = format!("/apis/api.hpa-rs.test/v1/namespaces/{}/queues", env.ns);
    let object = json!({
        "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": {"name": "jobs"},
        "spec": {"replicas": 3}, "status": {"replicas": 9},
    });
    let stored = post(&env, &path, &object).await?.ok()?;
    ensure!(stored["metadata"]["generation"] == 1 && stored["status"].is_null(), "{stored}");
    let (jobs, scale) = (format!("{path}/jobs"), format!("{path}/jobs/scale"));
    let status = json!({"status": {"replicas": 2, "selector": "app=jobs"}});
    patch(&env, &format!("{jobs}/status"), MERGE, &status).await?.ok()?;
    let seen = get(&env, &scale).await?.ok()?;
    let expected = json!([{"replicas": 3}, {"replicas": 2, "selector": "app=jobs"}]);
    ensure!(json!([seen["spec"], seen["status"]]) == expected, "{seen}");
    let mut next = seen.clone();
    next["spec"]["replicas"] = 4.into();
    put(&env, &scale, &next).await?.ok()?;
    let modified = "Operation cannot be fulfilled on queues.api.hpa-rs.test \"jobs\": the object \
                    has been modified; please apply your changes to the latest version and try \
                    again";
    put(&env, &scale, &next).await?.expect_error(409, "Conflict", modified)?;
    let stored = get(&env, &jobs.replace("/v1/", "/v1alpha1/")).await?.ok()?;
    ensure!(
        stored["apiVersion"] == "api.hpa-rs.test/v1alpha1" && stored["spec"]["replicas"] == 4,
        "{stored}"
    );
    ensure!(stored["metadata"]["generation"] == 2, "{stored}");
    check_rejected_writes(&env, &path, &object).await?;
    check_unset_replicas(&env, &path, kind).await
}

/// Rejected writes of the custom resource `jobs`, of its scale and of a new one.
async fn check_rejected_writes(env: &TestEnv, path: &str, object: &Value) -> Result<()> {
    let (jobs, scale) = (format!("{path}/jobs"), format!("{path}/jobs/scale"));
    for path in [&jobs, &scale] {
        let response = patch(env, path, STRATEGIC, &json!({})).await?;
        response.expect_error_starting_with(
            415,
            "UnsupportedMediaType",
            "the body of the request was in an unknown format",
        )?;
    }
    let response = patch(env, &scale, MERGE, &json!({"spec": {"replicas": -5}})).await?;
    let text = "Queue.api.hpa-rs.test \"jobs\" is invalid: .spec.replicas: Invalid value: -5: \
                should be a non-negative integer";
    response.expect_error(422, "Invalid", text)?;
    let response = put(env, &jobs, object).await?;
    let text = "queues.api.hpa-rs.test \"jobs\" is invalid: metadata.resourceVersion: Invalid \
                value: 0: must be specified for an update";
    response.expect_error(422, "Invalid", text)?;
    let without_kind = json!({"metadata": {"name": "no-kind"}});
    let text =
        "the object provided is unrecognized (must be of type Queue): Object 'Kind' is missing in";
    post(env, path, &without_kind).await?.expect_error_starting_with(400, "BadRequest", text)
}

/// Unset replicas of a custom resource can't be read, but can be written.
async fn check_unset_replicas(env: &TestEnv, path: &str, kind: Kind) -> Result<()> {
    let bare = json!({
        "apiVersion": kind.api_version(), "kind": kind.kind,
        "metadata": {"name": "bare"}, "spec": {},
    });
    post(env, path, &bare).await?.ok()?;
    let path = format!("{path}/bare/scale");
    let response = get(env, &path).await?;
    let text = "Internal error occurred: the spec replicas field \".spec.replicas\" does not exist";
    response.expect_error(500, "InternalError", text)?;
    let scale = patch(env, &path, MERGE, &json!({"spec": {"replicas": 2}})).await?.ok()?;
    ensure!(scale["spec"]["replicas"] == 2, "{scale}");
    Ok(())
}
