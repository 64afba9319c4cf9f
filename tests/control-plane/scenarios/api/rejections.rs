//! Rejected requests and their messages.

use anyhow::{Context as _, Result, ensure};
use http::Method;
use serde_json::{Value, json};

use super::{
    JSON, MERGE, autoscaler, autoscalers, deployment, deployments, get, patch, post, put, send,
};
use crate::test_env::TestEnv;

/// Missing and already existing objects.
pub(in super::super) async fn api_not_found(env: TestEnv) -> Result<()> {
    let path = deployments(&env);
    post(&env, &path, &deployment("web")).await?.ok()?;
    let again = post(&env, &path, &deployment("web")).await?;
    again.expect_error(409, "AlreadyExists", "deployments.apps \"web\" already exists")?;
    let details = json!({"name": "web", "group": "apps", "kind": "deployments"});
    ensure!(again.body["details"] == details, "{}", again.body);
    for (method, place, body) in [
        (Method::GET, "/nope", Value::Null),
        (Method::PUT, "/nope", deployment("nope")),
        (Method::DELETE, "/nope", Value::Null),
        (Method::GET, "/nope/scale", Value::Null),
    ] {
        let response = send(&env, method, &format!("{path}{place}"), JSON, &body).await?;
        response.expect_error(404, "NotFound", "deployments.apps \"nope\" not found")?;
    }
    let elsewhere = path.replace(&env.ns, "nowhere");
    let response = post(&env, &elsewhere, &deployment("web")).await?;
    response.expect_error(404, "NotFound", "namespaces \"nowhere\" not found")
}

/// Unknown paths, methods and media types.
pub(in super::super) async fn api_unknown_paths(env: TestEnv) -> Result<()> {
    let path = deployments(&env);
    post(&env, &path, &deployment("web")).await?.ok()?;
    let web = format!("{path}/web");
    let no_resource = "the server could not find the requested resource";
    for path in
        [format!("{path}/web/nosuch"), format!("/apis/apps/v1/namespaces/{}/nosuch", env.ns)]
    {
        let response = get(&env, &path).await?;
        response.expect_error(404, "NotFound", no_resource)?;
        ensure!(response.body["details"] == json!({}), "{}", response.body);
    }
    for path in [
        "/apis/nosuch.io/v1/namespaces/x/things",
        "/apis/nosuch.io/v1",
        "/apis/nosuch.io",
        "/nosuch",
    ] {
        let response = get(&env, path).await?;
        ensure!(
            (response.code, &response.body) == (404, &json!("404 page not found\n")),
            "{path}: {response:?}"
        );
    }
    let not_allowed = "the server does not allow this method on the requested resource";
    for (method, path, media_type) in [
        (Method::PATCH, path.clone(), MERGE),
        (Method::PUT, path.clone(), JSON),
        (Method::POST, web.clone(), JSON),
        (Method::DELETE, format!("{web}/scale"), JSON),
        (Method::POST, "/apis/apps/v1/deployments".to_owned(), JSON),
    ] {
        let response = send(&env, method, &path, media_type, &json!({})).await?;
        response.expect_error(405, "MethodNotAllowed", not_allowed).with_context(|| path)?;
    }
    let unknown = send(&env, Method::POST, &path, "text/plain", &json!("a: b")).await?;
    let text = "the body of the request was in an unknown format - accepted media types include: \
                application/json";
    unknown.expect_error_starting_with(415, "UnsupportedMediaType", text)?;
    let unknown = patch(&env, &web, JSON, &json!({})).await?;
    unknown.expect_error(415, "UnsupportedMediaType", "415: Unsupported Media Type")?;
    let unacceptable = send(&env, Method::GET, &web, "text/plain", &Value::Null).await?;
    unacceptable.expect_error_starting_with(406, "NotAcceptable", "406: Not Acceptable")
}

/// Objects that don't match the URL.
pub(in super::super) async fn api_misplaced_objects(env: TestEnv) -> Result<()> {
    let path = deployments(&env);
    let web = format!("{path}/web");
    post(&env, &path, &deployment("web")).await?.ok()?;
    let with = |field: &str, value: &str| {
        let mut object = deployment("web");
        object["metadata"] = json!({"name": "web", field: value});
        object
    };
    let other_namespace = post(&env, &path, &with("namespace", "other")).await?;
    let text =
        "the namespace of the provided object does not match the namespace sent on the request";
    other_namespace.expect_error(400, "BadRequest", text)?;
    let other_name = put(&env, &web, &deployment("other")).await?;
    let text = "the name of the object (other) does not match the name on the URL (web)";
    other_name.expect_error(400, "BadRequest", text)?;
    let mut other_version = deployment("new");
    other_version["apiVersion"] = "apps/v2".into();
    let response = post(&env, &path, &other_version).await?;
    let text = "Deployment in version \"v2\" cannot be handled as a Deployment: no kind \
                \"Deployment\" is registered for version \"apps/v2\"";
    response.expect_error_starting_with(400, "BadRequest", text)?;
    let response = post(&env, &path, &with("resourceVersion", "1")).await?;
    let text = "resourceVersion should not be set on objects to be created";
    ensure!((response.code, &response.body["message"]) == (500, &json!(text)), "{response:?}");
    ensure!(response.body["reason"].is_null(), "{response:?}");
    let no_object = post(&env, &path, &json!("{\"a\":")).await?;
    no_object.expect_status(400, "BadRequest")?;
    let dry = post(&env, &format!("{path}?dryRun=some"), &deployment("new")).await?;
    let text = "CreateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"some\"]: \
                supported values: \"All\"";
    dry.expect_error(422, "Invalid", text)
}

/// Validation reports all errors of an autoscaler, and the message contains each of them.
pub(in super::super) async fn api_invalid_autoscalers(env: TestEnv) -> Result<()> {
    let path = autoscalers(&env);
    let cpu = json!({"type": "Resource", "resource": {
        "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 0},
    }});
    let policy = json!({"type": "X", "value": 0, "periodSeconds": 3000});
    let specs = [
        (json!({"maxReplicas": 0}), vec!["spec.maxReplicas"]),
        (json!({"minReplicas": 7, "maxReplicas": 3}), vec!["spec.maxReplicas"]),
        (json!({"minReplicas": -1}), vec!["spec.minReplicas"]),
        (json!({"scaleTargetRef": {"kind": "", "name": "a/b"}}), vec!["spec.scaleTargetRef.kind"]),
        (json!({"metrics": [cpu]}), vec!["spec.metrics[0].resource.target.averageUtilization"]),
        (
            json!({"behavior": {"scaleUp": {
                "stabilizationWindowSeconds": 4000, "policies": [policy],
            }}}),
            vec![
                "spec.behavior.scaleUp.stabilizationWindowSeconds",
                "spec.behavior.scaleUp.policies[0].type",
                "spec.behavior.scaleUp.policies[0].value",
                "spec.behavior.scaleUp.policies[0].periodSeconds",
            ],
        ),
    ];
    for (spec, expected) in specs {
        let response = post(&env, &path, &autoscaler("bad", spec.clone())).await?;
        response.expect_error_starting_with(
            422,
            "Invalid",
            "HorizontalPodAutoscaler.autoscaling \"bad\" is invalid: ",
        )?;
        let details = &response.body["details"];
        let about = json!([details["name"], details["group"], details["kind"]]);
        ensure!(about == json!(["bad", "autoscaling", "HorizontalPodAutoscaler"]), "{details}");
        let causes = details["causes"].as_array().context("no causes")?;
        let message = response.body["message"].as_str().unwrap_or_default();
        for cause in causes {
            let text = cause["message"].as_str().context("no message")?;
            ensure!(message.contains(text), "{text:?} is not in {message:?}");
        }
        for field in expected {
            ensure!(
                causes.iter().any(|cause| cause["field"] == field),
                "{spec}: no {field} in {details}"
            );
        }
    }
    let response =
        post(&env, &path, &autoscaler("bad", json!({"maxReplicas": 0, "minReplicas": 1}))).await?;
    // In Kubernetes 1.34 and 1.35, the first problem has another text. The recorded responses have
    // the texts of the newest version.
    let text = "HorizontalPodAutoscaler.autoscaling \"bad\" is invalid: [spec.maxReplicas: ";
    response.expect_error_starting_with(422, "Invalid", text)?;
    let response = post(&env, &path, &autoscaler("bad", json!({"maxReplicas": "five"}))).await?;
    let text = "HorizontalPodAutoscaler in version \"v2\" cannot be handled as a \
                HorizontalPodAutoscaler: ";
    response.expect_error_starting_with(400, "BadRequest", text)?;
    ensure!(get(&env, &format!("{path}/bad")).await?.code == 404, "it was stored");
    Ok(())
}

/// Updates of spec and status are validated.
pub(in super::super) async fn api_invalid_updates(env: TestEnv) -> Result<()> {
    post(&env, &autoscalers(&env), &autoscaler("good", json!({}))).await?.ok()?;
    let good = format!("{}/good", autoscalers(&env));
    let response = patch(&env, &good, MERGE, &json!({"spec": {"minReplicas": 9}})).await?;
    response.expect_error_starting_with(
        422,
        "Invalid",
        "HorizontalPodAutoscaler.autoscaling \"good\" is invalid: ",
    )?;
    let status = json!({"status": {"currentReplicas": -2}});
    let response = patch(&env, &format!("{good}/status"), MERGE, &status).await?;
    let text = "HorizontalPodAutoscaler.autoscaling \"good\" is invalid: status.currentReplicas: \
                Invalid value: -2: must be greater than or equal to 0";
    response.expect_error(422, "Invalid", text)
}
