//! Lists and watches.

use std::collections::VecDeque;

use anyhow::{Context as _, Result, ensure};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use hpa_tests::programs;
use http::Request;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{JSON, MERGE, config_maps, delete, get, names, patch, post, resource_version};
use crate::test_env::{TestEnv, WAIT_LIMIT};

async fn create_config_maps(env: &TestEnv, names: &[&str]) -> Result<()> {
    for name in names {
        let object = json!({"metadata": {"name": name, "labels": {"name": name, "suite": "yes"}}});
        post(env, &config_maps(env), &object).await?.ok()?;
    }
    Ok(())
}

/// All pages of a list have the state at the time of the first page.
pub(in super::super) async fn api_pages(env: TestEnv) -> Result<()> {
    create_config_maps(&env, &["a", "b", "c", "d", "e"]).await?;
    let path = format!("{}?labelSelector=suite", config_maps(&env));
    let first = get(&env, &format!("{path}&limit=2")).await?.ok()?;
    ensure!(names(&first) == ["a", "b"] && first["kind"] == "ConfigMapList", "{first}");
    // With a selector, the server returns no remaining count.
    ensure!(first["metadata"]["remainingItemCount"].is_null(), "{first}");
    create_config_maps(&env, &["bb"]).await?;
    let mut page = first.clone();
    let mut seen = Vec::new();
    while let Some(token) = page["metadata"]["continue"].as_str() {
        page = get(&env, &format!("{path}&limit=2&continue={token}")).await?.ok()?;
        ensure!(
            page["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"],
            "{page}"
        );
        seen.push(json!(names(&page)));
    }
    ensure!(seen == [json!(["c", "d"]), json!(["e"])], "{seen:?}");
    let fields = format!("{}?fieldSelector=metadata.name%3Db", config_maps(&env));
    ensure!(names(&get(&env, &fields).await?.ok()?) == ["b"]);
    let both = "fieldSelector=metadata.name!%3Db&labelSelector=name%20in%20(a,b,c)";
    let list = get(&env, &format!("{}?{both}", config_maps(&env))).await?.ok()?;
    ensure!(names(&list) == ["a", "c"], "{list}");
    // A list from the cache ignores the limit.
    let whole = get(&env, &format!("{path}&limit=2&resourceVersion=0")).await?.ok()?;
    ensure!(names(&whole).len() > 2 && whole["metadata"]["continue"].is_null(), "{whole}");
    Ok(())
}

/// Invalid parameters of lists and watches.
pub(in super::super) async fn api_rejected_lists(env: TestEnv) -> Result<()> {
    let path = super::deployments(&env);
    let label = "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt";
    let field = "\"spec.replicas\" is not a known field selector: only \"metadata.name\", \
                 \"metadata.namespace\"";
    for (query, text) in [
        ("labelSelector=a%20b", label),
        ("fieldSelector=spec.replicas%3D1", field),
        ("continue=x", "invalid continue token: "),
        ("resourceVersion=x", "invalid resource version: resourceVersion: Invalid value: \"x\": "),
    ] {
        get(&env, &format!("{path}?{query}")).await?.expect_error_starting_with(
            400,
            "BadRequest",
            text,
        )?;
    }
    let begins = "ListOptions.meta.k8s.io \"\" is invalid: ";
    for (query, text) in [
        (
            "resourceVersionMatch=Exact",
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless \
             resourceVersion is provided",
        ),
        (
            "watch=1&resourceVersionMatch=NotOlderThan",
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless \
             sendInitialEvents is provided",
        ),
        (
            "watch=1&sendInitialEvents=true&allowWatchBookmarks=true",
            "resourceVersionMatch: Forbidden: sendInitialEvents requires setting \
             resourceVersionMatch to NotOlderThan",
        ),
    ] {
        let response = get(&env, &format!("{path}?{query}")).await?;
        response.expect_error(422, "Invalid", &format!("{begins}{text}")).with_context(|| query)?;
    }
    Ok(())
}

struct Watch {
    chunks: BoxStream<'static, Result<Vec<u8>>>,
    /// The start of a line whose end has not arrived.
    partial_line: Vec<u8>,
    events: VecDeque<Value>,
}

async fn start_watch(env: &TestEnv, query: &str) -> Result<Watch> {
    let request =
        Request::get(format!("{}?watch=1&{query}", config_maps(env))).header("accept", JSON);
    let response = env.client.send(request.body(Vec::new().into())?).await?;
    ensure!(response.status() == 200, "{}", response.status());
    let body = axum::body::Body::new(response.into_body()).into_data_stream();
    let chunks = body.map(|chunk| Ok(chunk?.to_vec()));
    Ok(Watch { chunks: chunks.boxed(), partial_line: Vec::new(), events: VecDeque::new() })
}

impl Watch {
    /// Type and object of the next event.
    async fn next(&mut self) -> Result<(String, Value)> {
        while self.events.is_empty() {
            let chunk = timeout(WAIT_LIMIT, self.chunks.next()).await.context("no event")?;
            self.partial_line.extend(chunk.context("the watch ended")??);
            while let Some(end) = self.partial_line.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.partial_line.drain(..=end).collect();
                self.events.push_back(serde_json::from_slice(&line)?);
            }
        }
        let event = self.events.pop_front().unwrap_or_default();
        Ok((event["type"].as_str().unwrap_or_default().to_owned(), event["object"].clone()))
    }

    /// Checks type and name of the next event, and returns its object.
    async fn expect_event(&mut self, kind: &str, name: &str) -> Result<Value> {
        let (got, object) = self.next().await?;
        ensure!(
            got == kind && object["metadata"]["name"] == name,
            "not {kind} {name}: {got} {object}"
        );
        Ok(object)
    }
}

/// A watch delivers all changes after its resource version, in order.
pub(in super::super) async fn api_watch(env: TestEnv) -> Result<()> {
    create_config_maps(&env, &["a", "b"]).await?;
    let path = config_maps(&env);
    let start = get(&env, &path).await?.ok()?;
    let mut all = start_watch(
        &env,
        &format!("labelSelector=suite%3Dyes&resourceVersion={}", resource_version(&start)?),
    )
    .await?;
    create_config_maps(&env, &["c"]).await?;
    let changed =
        patch(&env, &format!("{path}/a"), MERGE, &json!({"data": {"x": "y"}})).await?.ok()?;
    patch(&env, &format!("{path}/b"), MERGE, &json!({"metadata": {"labels": {"suite": "no"}}}))
        .await?
        .ok()?;
    delete(&env, &format!("{path}/c"), &Value::Null).await?.ok()?;
    all.expect_event("ADDED", "c").await?;
    ensure!(all.expect_event("MODIFIED", "a").await? == changed);
    // An object that leaves the selection is DELETED: the old object with the new resource version.
    let left = all.expect_event("DELETED", "b").await?;
    ensure!(left["metadata"]["labels"]["suite"] == "yes", "{left}");
    let gone = all.expect_event("DELETED", "c").await?;
    let number = |object: &Value| -> Result<u64> { Ok(resource_version(object)?.parse()?) };
    ensure!(number(&left)? > number(&changed)? && number(&gone)? > number(&left)?, "{left} {gone}");

    // From any resource version, the existing objects come first. Without a version, the response
    // is 504 as long as the watch cache lags: with etcd before 3.4.25, until another ConfigMap
    // changes.
    let any_version = "fieldSelector=metadata.name%3Da&resourceVersion=0";
    let (kind, a) = start_watch(&env, any_version).await?.next().await?;
    ensure!(kind == "ADDED" && a == changed, "{kind} {a}");
    Ok(())
}

/// A streaming list delivers the objects, then a bookmark, then changes.
pub(in super::super) async fn api_streaming_list(env: TestEnv) -> Result<()> {
    create_config_maps(&env, &["a", "b"]).await?;
    let path = config_maps(&env);
    let query = "sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan";
    let mut stream = start_watch(&env, &format!("{query}&labelSelector=suite")).await?;
    let (kind, a) = stream.next().await?;
    let message = a["message"].as_str().unwrap_or_default();
    if kind == "ERROR" && message.contains("storage feature RequestWatchProgress is disabled") {
        programs::skip("etcd", "it is too old for streaming lists");
        return Ok(());
    }
    ensure!(kind == "ADDED" && a["metadata"]["name"] == "a", "{kind} {a}");
    let b = stream.expect_event("ADDED", "b").await?;
    let (kind, bookmark) = stream.next().await?;
    ensure!(kind == "BOOKMARK" && bookmark["kind"] == "ConfigMap", "{kind} {bookmark}");
    let end = &bookmark["metadata"]["annotations"]["k8s.io/initial-events-end"];
    ensure!(*end == "true", "{bookmark}");
    ensure!(
        resource_version(&bookmark)?.parse::<u64>()? >= resource_version(&b)?.parse()?,
        "{bookmark}"
    );
    let changed =
        patch(&env, &format!("{path}/a"), MERGE, &json!({"data": {"x": "y"}})).await?.ok()?;
    ensure!(stream.expect_event("MODIFIED", "a").await? == changed);
    Ok(())
}
