//! The manifests in `examples/autoscalers`.

use std::fs;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::{APPLY, send};
use crate::test_env::TestEnv;

/// Every manifest is accepted, without unknown fields and with the values that it states.
pub(in super::super) async fn api_examples(env: TestEnv) -> Result<()> {
    let dir = hpa_tests::repository_path("examples/autoscalers");
    let mut autoscaler_count = 0;
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let text = fs::read_to_string(&path)?;
        for document in text.split("\n---\n") {
            let object: Value = serde_saphyr::from_str(document)
                .with_context(|| format!("{}: not YAML", path.display()))?;
            let applied = apply(&env, &object).await;
            let applied = applied.with_context(|| format!("{}: {document}", path.display()))?;
            ensure!(contains(&applied["spec"], &object["spec"]), "{document}\n{applied}");
            autoscaler_count += usize::from(object["kind"] == "HorizontalPodAutoscaler");
        }
    }
    ensure!(autoscaler_count >= 9, "only {autoscaler_count} autoscalers");
    Ok(())
}

/// Applies an object on the server with strict field validation.
async fn apply(env: &TestEnv, object: &Value) -> Result<Value> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let version = text(&object["apiVersion"]);
    let api = if version.contains('/') { "apis" } else { "api" };
    let resource = match object["kind"].as_str().context("no kind")? {
        "Ingress" => "ingresses".to_owned(),
        kind => kind.to_lowercase() + "s",
    };
    let (namespace, name) = (&env.ns, text(&object["metadata"]["name"]));
    let path = format!("/{api}/{version}/namespaces/{namespace}/{resource}/{name}");
    let query = "fieldManager=examples&fieldValidation=Strict";
    send(env, http::Method::PATCH, &format!("{path}?{query}"), APPLY, object).await?.ok()
}

/// Whether `stored` has every field of `expected` with the same value. Only the value of
/// `tolerance` may differ, because the API server stores quantities in canonical form: `0.02` as
/// `20m`.
fn contains(stored: &Value, expected: &Value) -> bool {
    match (stored, expected) {
        (Value::Object(stored), Value::Object(expected)) => {
            expected.iter().all(|(name, expected)| {
                let stored = stored.get(name);
                stored.is_some_and(|stored| name == "tolerance" || contains(stored, expected))
            })
        }
        (Value::Array(stored), Value::Array(expected)) => {
            stored.len() == expected.len()
                && stored.iter().zip(expected).all(|(stored, expected)| contains(stored, expected))
        }
        _ => stored == expected,
    }
}
