//! Tests of the reasons for missing objects in `hpa rules explain`.

use std::collections::BTreeMap;

use axum::{Form, Json, Router, routing::any};
use serde_json::{Value, json};

use super::{explain_with, serve};
use crate::rules::outcome::Outcome;

/// The result of a query for the series `m` of two namespaces. That of `shop` has no label `pod`.
fn samples(query: &str) -> Vec<Value> {
    let metric = if query.starts_with("group by (namespace)") {
        json!({ "namespace": "wl" })
    } else if query.contains("namespace=\"shop\",pod=\"\"") && !query.contains("pod!=") {
        json!({ "__name__": "m", "namespace": "shop", "pod_name": "web-1" })
    } else {
        return Vec::new();
    };
    vec![json!({ "metric": metric, "value": [1_700_000_000, "1"] })]
}

async fn serve_prometheus() -> String {
    let list = || async {
        Json(json!({ "status": "success", "data": [
            { "__name__": "m", "namespace": "shop", "pod_name": "web-1" },
            { "__name__": "m", "namespace": "wl", "pod": "web-1" },
        ] }))
    };
    let answer = |Form(parameters): Form<BTreeMap<String, String>>| async move {
        let query = parameters.get("query").map(String::as_str).unwrap_or_default();
        let data = json!({ "resultType": "vector", "result": samples(query) });
        Json(json!({ "status": "success", "data": data }))
    };
    let router = Router::new().route("/api/v1/series", any(list)).fallback(answer);
    serve(router).await
}

#[tokio::test]
async fn label_missing_in_one_namespace_only_is_named() {
    let url = serve_prometheus().await;
    for series_query in ["m", "'m{namespace!=\"\",pod!=\"\"}'"] {
        let rules = format!(
            "rules:\n- seriesQuery: {series_query}\n  resources: {{template: <<.Resource>>}}\n  \
             metricsQuery: sum(m{{<<.LabelMatchers>>}}) by (<<.GroupBy>>)\n"
        );
        let flags = ["--prometheus-url", &url];
        let (text, outcome) = explain_with(&rules, "custom", "pods/m", &flags).await;
        assert_eq!(outcome, Outcome::Failure, "{text}");
        let expected = "m has no value: in the namespace shop, m has no label `pod`, which queries \
                        use to select the pod: the series have the label `pod_name`: map it with \
                        resources.overrides: {pod_name: {resource: pod}}; the series in wl have \
                        `pod`";
        assert_eq!(text.lines().next(), Some(expected), "{text}");
    }
}
