//! Creation, updates and deletion.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::{
    MERGE, autoscaler, autoscalers, config_maps, delete, deployment, deployments, get, patch, post,
    put, resource_version,
};
use crate::test_env::TestEnv;

/// Defaults of a new autoscaler, canonical quantities, and generated names.
pub(in super::super) async fn api_defaults(env: TestEnv) -> Result<()> {
    let path = autoscalers(&env);
    let object = post(&env, &path, &autoscaler("web", json!({}))).await?.ok()?;
    for field in ["uid", "creationTimestamp", "resourceVersion"] {
        ensure!(object["metadata"][field].is_string(), "no {field}: {object}");
    }
    ensure!(object["metadata"]["namespace"] == env.ns.as_str(), "{object}");
    let cpu = json!([{"type": "Resource", "resource": {
        "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80},
    }}]);
    ensure!(
        (&object["spec"]["minReplicas"], &object["spec"]["metrics"]) == (&json!(1), &cpu),
        "{object}"
    );
    ensure!(object["spec"]["behavior"].is_null(), "{object}");
    ensure!(object["status"] == json!({"currentMetrics": null, "desiredReplicas": 0}), "{object}");

    let pods = json!({"type": "Pods", "value": 2, "periodSeconds": 60});
    let behavior =
        json!({"scaleUp": {"policies": [pods]}, "scaleDown": {"selectPolicy": "Disabled"}});
    let object =
        post(&env, &path, &autoscaler("behaves", json!({"behavior": behavior}))).await?.ok()?;
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let expected = json!({
        "scaleUp": {"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [pods]},
        "scaleDown": {"selectPolicy": "Disabled", "policies": [percent]},
    });
    ensure!(object["spec"]["behavior"] == expected, "{}", object["spec"]["behavior"]);
    // Quantities become canonical.
    let metric = json!({"type": "Resource", "resource": {
        "name": "memory", "target": {"type": "AverageValue", "averageValue": "1024Ki"},
    }});
    let object =
        post(&env, &path, &autoscaler("amount", json!({"metrics": [metric]}))).await?.ok()?;
    ensure!(
        object.pointer("/spec/metrics/0/resource/target/averageValue") == Some(&json!("1Mi")),
        "{object}"
    );
    let made = json!({"metadata": {"generateName": "made-"}});
    let object = post(&env, &config_maps(&env), &made).await?.ok()?;
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    ensure!(name.starts_with("made-") && name.len() == 10, "{name:?}");
    ensure!(object["metadata"]["generateName"] == "made-", "{object}");
    Ok(())
}

/// The generation counts spec changes only.
pub(in super::super) async fn api_generations(env: TestEnv) -> Result<()> {
    let path = format!("{}/web", deployments(&env));
    let object = post(&env, &deployments(&env), &deployment("web")).await?.ok()?;
    ensure!(object["metadata"]["generation"] == 1 && object["status"] == json!({}), "{object}");
    let status = format!("{path}/status");
    let scale = format!("{path}/scale");
    let replicas = |replicas: i64| json!({"spec": {"replicas": replicas}});
    for (patched, change, generation) in [
        (&path, json!({"metadata": {"labels": {"a": "b"}}}), 1),
        (&path, json!({}), 1),
        (&status, json!({"status": {"replicas": 2}}), 1),
        (&status, replicas(9), 1),
        (&path, json!({"status": {"replicas": 8}}), 1),
        (&path, replicas(3), 2),
        (&path, replicas(3), 2),
        (&scale, replicas(4), 3),
    ] {
        patch(&env, patched, MERGE, &change).await?.ok().with_context(|| format!("{change}"))?;
        let object = get(&env, &path).await?.ok()?;
        ensure!(object["metadata"]["generation"] == generation, "after {change}: {object}");
    }
    let object = get(&env, &path).await?.ok()?;
    ensure!(
        object["spec"]["replicas"] == 4 && object["status"] == json!({"replicas": 2}),
        "{object}"
    );
    // Zeros are omitted in a status, and a patch without changes does not change the resource
    // version.
    let before = resource_version(&object)?.to_owned();
    let zero = json!({"status": {"readyReplicas": 0}});
    let object = patch(&env, &status, MERGE, &zero).await?.ok()?;
    ensure!(
        object["status"] == json!({"replicas": 2}) && resource_version(&object)? == before,
        "{object}"
    );
    Ok(())
}

/// Writes with an outdated resource version fail.
pub(in super::super) async fn api_conflicts(env: TestEnv) -> Result<()> {
    let path = format!("{}/web", deployments(&env));
    let first = post(&env, &deployments(&env), &deployment("web")).await?.ok()?;
    let mut changed = first.clone();
    changed["spec"]["replicas"] = 5.into();
    let second = put(&env, &path, &changed).await?.ok()?;
    ensure!(resource_version(&second)? != resource_version(&first)?, "{second}");
    let modified = "Operation cannot be fulfilled on deployments.apps \"web\": the object has been \
                    modified; please apply your changes to the latest version and try again";
    let response = put(&env, &path, &changed).await?;
    response.expect_error(409, "Conflict", modified)?;
    let details = json!({"name": "web", "group": "apps", "kind": "deployments"});
    ensure!(response.body["details"] == details, "{}", response.body);
    for place in ["", "/status", "/scale"] {
        let old = json!({"metadata": {"resourceVersion": resource_version(&first)?}});
        let response = patch(&env, &format!("{path}{place}"), MERGE, &old).await?;
        response.expect_error(409, "Conflict", modified).with_context(|| place)?;
    }
    let other = json!({"metadata": {"uid": "1"}});
    let response = patch(&env, &path, MERGE, &other).await?;
    let text = "Deployment.apps \"web\" is invalid: metadata.uid: Invalid value: \"1\": field is \
                immutable";
    response.expect_error(422, "Invalid", text)?;
    changed["metadata"] = json!({"name": "web", "uid": "1"});
    let response = put(&env, &path, &changed).await?;
    response.expect_error_starting_with(
        409,
        "Conflict",
        "Operation cannot be fulfilled on deployments.apps \"web\": StorageError: ",
    )?;
    let stored = get(&env, &path).await?.ok()?;
    ensure!(stored == second, "it changed: {stored}");
    Ok(())
}

/// A dry run stores nothing.
pub(in super::super) async fn api_dry_run(env: TestEnv) -> Result<()> {
    let (path, web) = (deployments(&env), format!("{}/web", deployments(&env)));
    let tried = post(&env, &format!("{path}?dryRun=All"), &deployment("web")).await?.ok()?;
    ensure!(
        tried["metadata"]["uid"].is_string() && tried["metadata"]["resourceVersion"].is_null(),
        "{tried}"
    );
    ensure!(get(&env, &web).await?.code == 404, "it was stored");
    let stored = post(&env, &path, &deployment("web")).await?.ok()?;
    let replicas = json!({"spec": {"replicas": 7}});
    for place in ["", "/scale"] {
        let tried =
            patch(&env, &format!("{web}{place}?dryRun=All"), MERGE, &replicas).await?.ok()?;
        ensure!(tried["spec"]["replicas"] == 7, "{tried}");
    }
    delete(&env, &format!("{web}?dryRun=All"), &Value::Null).await?.ok()?;
    ensure!(get(&env, &web).await?.ok()? == stored, "it changed");
    Ok(())
}

/// Deletion with preconditions, with finalizers, and of a collection.
pub(in super::super) async fn api_deletion(env: TestEnv) -> Result<()> {
    delete_with_preconditions(&env).await?;
    delete_with_finalizer(&env).await?;
    delete_collection(&env).await
}

async fn delete_with_preconditions(env: &TestEnv) -> Result<()> {
    let path = config_maps(env);
    let object = post(env, &path, &json!({"metadata": {"name": "a"}})).await?.ok()?;
    let a = format!("{path}/a");
    let response = delete(env, &a, &json!({"preconditions": {"uid": "1"}})).await?;
    let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
    let text = format!(
        "Operation cannot be fulfilled on ConfigMap \"a\": the UID in the precondition (1) does \
         not match the UID in record ({uid}). The object might have been deleted and then recreated"
    );
    response.expect_error(409, "Conflict", &text)?;
    let response = delete(env, &a, &json!({"preconditions": {"resourceVersion": "1"}})).await?;
    response.expect_error_starting_with(
        409,
        "Conflict",
        "Operation cannot be fulfilled on ConfigMap \"a\": the ResourceVersion in",
    )?;
    let response = delete(env, &a, &json!({"propagationPolicy": "Never"})).await?;
    response.expect_error_starting_with(
        422,
        "Invalid",
        "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: ",
    )?;
    let gone = delete(env, &a, &json!({"preconditions": {"uid": uid}})).await?.ok()?;
    let expected = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "details": {"name": "a", "kind": "configmaps", "uid": uid},
    });
    ensure!(gone == expected, "{gone}");
    Ok(())
}

async fn delete_with_finalizer(env: &TestEnv) -> Result<()> {
    let path = config_maps(env);
    let held = json!({"metadata": {"name": "b", "finalizers": ["suite.test/hold"]}});
    post(env, &path, &held).await?.ok()?;
    let b = format!("{path}/b");
    for _ in 0..2 {
        let object = delete(env, &b, &Value::Null).await?.ok()?;
        ensure!(object["metadata"]["deletionTimestamp"].is_string(), "{object}");
    }
    patch(env, &b, MERGE, &json!({"metadata": {"finalizers": null}})).await?.ok()?;
    get(env, &b).await?.expect_error(404, "NotFound", "configmaps \"b\" not found")
}

async fn delete_collection(env: &TestEnv) -> Result<()> {
    let path = config_maps(env);
    for (name, keep) in [("c", "no"), ("d", "yes"), ("e", "no")] {
        let object = json!({"metadata": {"name": name, "labels": {"keep": keep}}});
        post(env, &path, &object).await?.ok()?;
    }
    let selected = format!("{path}?labelSelector=keep%3Dno");
    let deleted = delete(env, &selected, &Value::Null).await?.ok()?;
    ensure!(super::names(&deleted) == ["c", "e"], "{deleted}");
    let left = get(env, &format!("{path}?labelSelector=keep")).await?.ok()?;
    ensure!(super::names(&left) == ["d"], "{left}");
    Ok(())
}
