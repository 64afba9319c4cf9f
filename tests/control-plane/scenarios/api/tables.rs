//! Tables as `kubectl get` uses them, and metadata-only objects.

use anyhow::{Result, ensure};
use http::Method;
use serde_json::{Value, json};

use super::{MERGE, autoscaler, autoscalers, deployment, deployments, patch, post, send};
use crate::test_env::TestEnv;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// Name, type, format and priority of each column, and the cells of the rows.
async fn table(env: &TestEnv, path: &str) -> Result<(Value, Value)> {
    let table = send(env, Method::GET, path, TABLE, &Value::Null).await?.ok()?;
    ensure!(table["kind"] == "Table" && table["apiVersion"] == "meta.k8s.io/v1", "{table}");
    let fields =
        |column: &Value| ["name", "type", "format", "priority"].map(|field| column[field].clone());
    let columns =
        table["columnDefinitions"].as_array().into_iter().flatten().map(fields).collect::<Vec<_>>();
    let rows = table["rows"].as_array().into_iter().flatten();
    Ok((json!(columns), rows.map(|row| row["cells"].clone()).collect()))
}

/// Tables of autoscalers, with and without a metric, and of Deployments.
pub(in super::super) async fn api_tables(env: TestEnv) -> Result<()> {
    let path = autoscalers(&env);
    post(&env, &path, &autoscaler("web", json!({}))).await?.ok()?;
    let (columns, cells) = table(&env, &path).await?;
    // Names, formats and priorities. The types are not compared.
    let mut expected = vec![json!(["Name", "name", 0])];
    let others = ["Reference", "Targets", "MinPods", "MaxPods", "Replicas", "Age"];
    expected.extend(others.map(|name| json!([name, "", 0])));
    let found = columns.as_array().into_iter().flatten();
    let found = found.map(|column| json!([column[0], column[2], column[3]]));
    ensure!(found.eq(expected), "{columns}");
    let age = cells[0][6].clone();
    ensure!(
        cells == json!([["web", "Deployment/web", "cpu: <unknown>/80%", "1", 5, 0, age]]),
        "{cells}"
    );
    let metric = json!({"type": "Resource", "resource": {
        "name": "cpu", "current": {"averageUtilization": 50, "averageValue": "50m"},
    }});
    let status =
        json!({"status": {"currentReplicas": 2, "desiredReplicas": 2, "currentMetrics": [metric]}});
    patch(&env, &format!("{path}/web/status"), MERGE, &status).await?.ok()?;
    let (_, cells) = table(&env, &format!("{path}/web")).await?;
    ensure!(cells[0][2] == "cpu: 50%/80%" && cells[0][5] == 2, "{cells}");

    let path = deployments(&env);
    post(&env, &path, &deployment("web")).await?.ok()?;
    let (columns, cells) = table(&env, &path).await?;
    let mut expected = vec![json!(["Name", "string", "name", 0])];
    let shown = ["Ready", "Up-to-date", "Available", "Age"];
    expected.extend(shown.map(|name| json!([name, "string", "", 0])));
    let hidden = ["Containers", "Images", "Selector"];
    expected.extend(hidden.map(|name| json!([name, "string", "", 1])));
    ensure!(columns == json!(expected), "{columns}");
    let age = cells[0][4].clone();
    ensure!(cells == json!([["web", "0/2", 0, 0, age, "app", "none", "app=web"]]), "{cells}");
    let response =
        send(&env, Method::GET, &format!("{path}?includeObject=All"), TABLE, &Value::Null).await?;
    let text = "Unable to convert to Table as requested: includeObject: Invalid value: \"All\": \
                must be 'Metadata', 'Object', 'None', or empty";
    response.expect_error(400, "BadRequest", text)
}

/// Metadata of one object and of a list.
pub(in super::super) async fn api_metadata_only(env: TestEnv) -> Result<()> {
    let object = post(&env, &deployments(&env), &deployment("web")).await?.ok()?;
    let only = json!({
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
        "metadata": object["metadata"],
    });
    let accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let path = deployments(&env);
    let one = send(&env, Method::GET, &format!("{path}/web"), accept, &Value::Null).await?.ok()?;
    ensure!(one == only, "{one}");
    let accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    let many = send(&env, Method::GET, &path, accept, &Value::Null).await?.ok()?;
    ensure!(
        many["kind"] == "PartialObjectMetadataList" && many["items"] == json!([only]),
        "{many}"
    );
    Ok(())
}
