//! Tests of `hpa rules check` and `explain` with servers that don't answer queries, or answer with
//! an error that isn't about the query.

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::{
    Json, Router,
    extract::{Path, Query, RawForm},
    http::{StatusCode, header},
    routing::any,
};
use rstest::rstest;
use serde_json::json;

use super::*;

const HTML: &str = "text/html";
const JSON: &str = "application/json";
/// A list of one series.
const SERIES: &str = r#"{"status": "success",
    "data": [{"__name__": "m", "namespace": "shop", "pod": "web-0"}]}"#;
const NO_SAMPLES: &str = r#"{"status": "success", "data": {"resultType": "vector", "result": []}}"#;

/// Serves each request with a status and an empty body. Returns the URL.
async fn serve_status(status: u16) -> String {
    let status = StatusCode::from_u16(status).unwrap();
    serve(Router::new().fallback(move || async move { status })).await
}

/// A Prometheus that lists a series for each selector, except for those of `unread`, for which it
/// answers 502. It answers each query with `status` and `body`. Returns the URL.
async fn serve_series(status: u16, content_type: &'static str, body: &'static str) -> String {
    let list = |RawForm(form): RawForm| async move {
        let is_unread = String::from_utf8_lossy(&form).contains("unread");
        let status = if is_unread { StatusCode::BAD_GATEWAY } else { StatusCode::OK };
        (status, [(header::CONTENT_TYPE, JSON)], SERIES)
    };
    let status = StatusCode::from_u16(status).unwrap();
    let answer = move || async move { (status, [(header::CONTENT_TYPE, content_type)], body) };
    serve(Router::new().route("/api/v1/series", any(list)).fallback(answer)).await
}

/// Explains a metric in the namespace `shop`. Returns the first line and the outcome.
async fn explain_headline(rules: &str, api: &str, metric: &str, url: &str) -> (String, Outcome) {
    let (text, outcome) = explain_with(rules, api, metric, &["--prometheus-url", url]).await;
    (text.lines().next().unwrap().to_owned(), outcome)
}

#[tokio::test]
async fn rules_are_not_checked_if_no_server_answers() {
    let of_pods = "rules: [{seriesQuery: a, resources: {template: <<.Resource>>}, metricsQuery: \
                   'sum(a{<<.LabelMatchers>>}) by (<<.GroupBy>>)'}]\n";
    for (rules, count) in [(&*resource_rules(), "resourceRules"), (of_pods, "1 rule")] {
        for (status, cause) in [
            (
                401,
                "unknown response code 401: check the credentials and the headers \
                 (--prometheus-header)",
            ),
            (403, "unknown response code 403: check the credentials"),
            (404, "unknown response code 404: check the path of the URL"),
            (429, "unknown response code 429"),
            (500, "unknown response code 500"),
        ] {
            let url = serve_status(status).await;
            let (report, outcome) = check_rules(rules, &url).await;
            assert_eq!(outcome, Outcome::Inconclusive, "{report}");
            let start = format!(
                "FILE: no problems in the file ({count}); not checked against Prometheus: \
                 Prometheus at {url}: {cause}\n"
            );
            assert!(report.starts_with(&start), "{report}");
        }
        let (report, outcome) = check_rules(rules, "http://127.0.0.1:1").await;
        assert_eq!(outcome, Outcome::Inconclusive, "{report}");
        let cause = "against Prometheus: the request to Prometheus at 127.0.0.1:1 failed: ";
        assert!(report.contains(cause), "{report}");
    }
}

#[rstest]
#[case::proxy(503, HTML, "<html>", "unknown response code 503")]
#[case::login_page(200, HTML, "<html>", "the response isn't a response of Prometheus: ")]
#[case::starting(
    503,
    JSON,
    r#"{"status": "error", "errorType": "unavailable", "error": "starting"}"#,
    "unavailable: starting"
)]
#[case::rate_limit(429, JSON, "", "unknown response code 429")]
#[case::credentials(401, JSON, "", "unknown response code 401: check the credentials")]
#[tokio::test]
async fn unanswered_queries_beside_listed_series_are_not_checked(
    #[case] status: u16,
    #[case] content_type: &'static str,
    #[case] body: &'static str,
    #[case] cause: &str,
) {
    let url = serve_series(status, content_type, body).await;
    let (report, outcome) = check_rules(&format!("{RULES}{}", resource_rules()), &url).await;
    assert_eq!(outcome, Outcome::Inconclusive, "{report}");
    let first = report.lines().next().unwrap();
    let expected = format!(
        "; not checked against Prometheus: rules[0], externalRules[0], resourceRules: \
         Prometheus at {url}: {cause}"
    );
    assert!(first.starts_with("FILE: no problems") && first.contains(&expected), "{report}");
    assert_eq!(report.matches(cause).count(), 1, "{report}");
    let line = "not checked (see the first line)\n";
    assert_eq!(report.matches(&format!("  {line}")).count(), 2, "{report}");
    assert_eq!(report.matches(&format!("Query: {line}")).count(), 4, "{report}");
    assert!(!report.contains("no sample") && !report.contains("problem: "), "{report}");
}

#[rstest]
#[case::rejected(400, "bad_data")]
#[case::not_executed(422, "execution")]
#[case::victoria_metrics(422, "422")]
#[tokio::test]
async fn rejected_query_is_a_problem(#[case] status: u16, #[case] error_type: &'static str) {
    let body = json!({ "status": "error", "errorType": error_type, "error": "boom" }).to_string();
    let url = serve_series(status, JSON, body.leak()).await;
    let (report, outcome) = check_rules(RULES, &url).await;
    assert_eq!(outcome, Outcome::Failure, "{report}");
    let problem = format!("  problem: the query for a sample failed: {error_type}: boom\n");
    assert_eq!(report.matches(&problem).count(), 2, "{report}");
}

#[tokio::test]
async fn rule_with_unread_series_is_not_checked_beside_others() {
    let url = serve_series(200, JSON, NO_SAMPLES).await;
    let of_m = "externalRules:\n- seriesQuery: m";
    let rules = RULES.replace(of_m, "externalRules:\n- seriesQuery: unread");
    let (report, outcome) = check_rules(&rules, &url).await;
    assert_eq!(outcome, Outcome::Inconclusive, "{report}");
    let failure = format!("Prometheus at {url}: unknown response code 502");
    let expected = format!("; not checked against Prometheus: externalRules[0]: {failure}\n");
    assert!(report.contains(&expected), "{report}");
    assert!(report.contains(": m\n  series: 1, metrics: 2\n"), "{report}");

    let (first, outcome) = explain_headline(&rules, "external", "other", &url).await;
    assert_eq!(first, format!("other: the value is unknown: {failure}"));
    assert_eq!(outcome, Outcome::Inconclusive);
}

/// The first line has the causes of three servers, and the number of the others.
#[tokio::test]
async fn failure_that_the_first_line_leaves_out_is_below_its_rule() {
    let mut urls = vec![serve_series(200, JSON, NO_SAMPLES).await];
    for _ in 0..4 {
        urls.push(serve_status(502).await);
    }
    let server = |(index, url): (usize, &String)| format!("- {{name: s{index}, url: '{url}'}}\n");
    let rule = |index: usize| {
        format!(
            "- {{seriesQuery: m, server: s{index}, resources: {{namespaced: false}}, metricsQuery: \
             'sum(m{{<<.LabelMatchers>>}})'}}\n"
        )
    };
    let servers = urls.iter().enumerate().map(server).collect::<Vec<_>>().concat();
    let rules = (0..urls.len()).map(rule).collect::<Vec<_>>().concat();
    let file = format!("servers:\n{servers}externalRules:\n{rules}");
    let (report, outcome) = check_rules_with(&file, &["--connect"]).await;
    assert_eq!(outcome, Outcome::Inconclusive, "{report}");
    assert!(report.lines().next().unwrap().ends_with(" and 1 more"), "{report}");
    assert_eq!(report.matches("  not checked (see the first line)\n").count(), 3, "{report}");
    let cause = format!("  not checked: Prometheus at {}: unknown response code 502", urls[4]);
    assert!(report.contains(&cause), "{report}");
}

#[rstest]
#[case::custom("custom", "pods/m", "m")]
#[case::external("external", "m", "m")]
#[case::resource("resource", "pods/cpu", "pods/cpu")]
#[tokio::test]
async fn first_line_of_explain_names_the_server_that_did_not_answer(
    #[case] api: &str,
    #[case] metric: &str,
    #[case] name: &str,
) {
    let rules = format!("{RULES}{}", resource_rules());
    let unknown = format!("{name}: the value is unknown: ");
    let (first, outcome) = explain_headline(&rules, api, metric, "http://127.0.0.1:1").await;
    assert_eq!(outcome, Outcome::Inconclusive, "{first}");
    let cause = "the request to Prometheus at 127.0.0.1:1 failed: Connection refused";
    assert_eq!(first, format!("{unknown}{cause}"));

    let url = serve_series(503, HTML, "<html>").await;
    let (first, outcome) = explain_headline(&rules, api, metric, &url).await;
    assert_eq!(outcome, Outcome::Inconclusive, "{first}");
    assert_eq!(first, format!("{unknown}Prometheus at {url}: unknown response code 503"));

    let body = r#"{"status": "error", "errorType": "execution", "error": "boom"}"#;
    let url = serve_series(422, JSON, body).await;
    let (first, outcome) = explain_headline(&rules, api, metric, &url).await;
    assert_eq!(outcome, Outcome::Failure, "{first}");
    assert!(first.starts_with(&format!("{name} has no value: ")), "{first}");
    assert!(first.ends_with("execution: boom"), "{first}");
}

/// A Prometheus that lists a series for each selector, and doesn't answer queries. Returns the URL
/// and the number of queries.
async fn serve_hanging_queries() -> (String, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let list = || async { ([(header::CONTENT_TYPE, JSON)], SERIES) };
    let counter = count.clone();
    let hang = move || {
        counter.fetch_add(1, Ordering::Relaxed);
        pending::<StatusCode>()
    };
    let router = Router::new().route("/api/v1/series", any(list)).fallback(hang);
    (serve(router).await, count)
}

#[tokio::test]
async fn queries_to_a_server_stop_after_two_timeouts() {
    let (url, count) = serve_hanging_queries().await;
    let flags = ["--prometheus-url", &url, "--prometheus-query-timeout", "500ms"];
    let rules = format!("{RULES}{}", resource_rules());
    let (report, outcome) = check_rules_with(&rules, &flags).await;
    assert_eq!(outcome, Outcome::Inconclusive, "{report}");
    assert_eq!(count.load(Ordering::Relaxed), 2, "{report}");
    let first = report.lines().next().unwrap();
    let unchecked = "not checked against Prometheus: rules[0], externalRules[0], resourceRules: no \
                     response from Prometheus at ";
    assert!(first.contains(unchecked), "{report}");
    let note = " within 0.5 s; after 2 timeouts in a row, no further queries were sent";
    assert!(first.ends_with(note), "{report}");

    let names = ["--name", "a", "--name", "b", "--name", "c", "--name", "d"];
    let flags = [flags.as_slice(), &names].concat();
    let (text, outcome) = explain_with(RULES, "custom", "pods/m", &flags).await;
    assert_eq!(outcome, Outcome::Inconclusive, "{text}");
    let first = text.lines().next().unwrap();
    assert!(first.starts_with("m: the value is unknown: no response from "), "{text}");
    assert!(first.ends_with(note) && text.contains("\n2 objects not read\n"), "{text}");
}

/// Writes a kubeconfig for an API server with this URL.
fn write_kubeconfig(server: &str) -> tempfile::NamedTempFile {
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
        "clusters": [{ "name": "c", "cluster": { "server": server } }],
        "users": [{ "name": "u", "user": { "token": "t" } }],
    });
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), config.to_string()).unwrap();
    file
}

#[rstest]
#[case::custom("custom", "pods/m")]
#[case::external("external", "m")]
#[case::resource("resource", "pods/cpu")]
#[tokio::test]
async fn unreachable_api_server_leaves_rules_unchecked(#[case] api: &str, #[case] metric: &str) {
    let kubeconfig = write_kubeconfig("http://127.0.0.1:1");
    let url = serve_series(200, JSON, NO_SAMPLES).await;
    let cluster = ["--kubeconfig", kubeconfig.path().to_str().unwrap()];
    let both = [cluster.as_slice(), &["--prometheus-url", url.as_str()]].concat();
    let rules = format!("{RULES}{}", resource_rules());
    let cause = "unable to read the resources of the API server: ";
    for flags in [cluster.as_slice(), &both] {
        let (report, outcome) = check_rules_with(&rules, flags).await;
        assert_eq!(outcome, Outcome::Inconclusive, "{report}");
        let start = format!(
            "FILE: no problems in the file (1 rule, 1 external rule, resourceRules); not checked \
             against the cluster: {cause}"
        );
        assert!(report.starts_with(&start) && report.lines().count() == 1, "{report}");
    }
    let (text, outcome) = explain_with(&rules, api, metric, &both).await;
    assert_eq!(outcome, Outcome::Inconclusive, "{text}");
    assert!(text.starts_with(&format!("{metric}: the value is unknown: {cause}")), "{text}");
}

#[derive(serde::Deserialize)]
struct ListParameters {
    limit: usize,
    /// The index of the first object.
    #[serde(default, rename = "continue")]
    start: usize,
}

/// The response of an API server that lists a page of the objects with these names.
fn list_page(names: &[String], parameters: &ListParameters) -> Value {
    let end = names.len().min(parameters.start + parameters.limit);
    let next = if end < names.len() { end.to_string() } else { String::new() };
    let items = names[parameters.start..end].iter();
    let items: Vec<_> = items.map(|name| json!({ "metadata": { "name": name } })).collect();
    json!({
        "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
        "metadata": { "continue": next }, "items": items,
    })
}

/// Serves an API server that has pods, nodes and namespaces. It lists these pods, and refuses all
/// other lists. Returns a kubeconfig.
async fn serve_cluster(pods: Option<Vec<String>>) -> tempfile::NamedTempFile {
    let resource = |plural: &str, kind: &str, scope: &str| {
        json!({
            "resource": plural, "singularResource": kind.to_lowercase(), "scope": scope,
            "responseKind": { "group": "", "version": "v1", "kind": kind }, "verbs": ["list"],
        })
    };
    let resources = [
        resource("pods", "Pod", "Namespaced"),
        resource("nodes", "Node", "Cluster"),
        resource("namespaces", "Namespace", "Cluster"),
    ];
    let discovery = |items: Value| {
        json!({
            "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
            "items": items,
        })
    };
    let core = json!([{
        "metadata": {}, "versions": [{ "version": "v1", "resources": resources }],
    }]);
    let (core, groups) = (discovery(core), discovery(json!([])));
    let list = |Path(plural): Path<String>, Query(parameters): Query<ListParameters>| async move {
        if let Some(pods) = pods.filter(|_| plural == "pods") {
            return (StatusCode::OK, Json(list_page(&pods, &parameters)));
        }
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": format!("{plural} is forbidden"), "reason": "Forbidden", "code": 403,
        });
        (StatusCode::FORBIDDEN, Json(status))
    };
    let router = Router::new()
        .route("/api", any(move || async move { Json(core) }))
        .route("/apis", any(move || async move { Json(groups) }))
        .route("/api/v1/{plural}", any(list));
    write_kubeconfig(&serve(router).await)
}

/// Checks `resourceRules` against a cluster with these pods, and a Prometheus with the usage of the
/// pod web-0 and the node node-0. The cluster refuses to list nodes. If `pods` is `None`, it also
/// refuses to list pods.
async fn check_against_cluster(pods: Option<Vec<String>>) -> (String, Outcome) {
    let now = jiff::Timestamp::now().as_second();
    let labels =
        json!({ "namespace": "shop", "pod": "web-0", "container": "app", "node": "node-0" });
    let samples = [json!({ "metric": labels, "value": [now, "1"] })];
    let data = json!({ "resultType": "vector", "result": samples });
    let body = json!({ "status": "success", "data": data }).to_string();
    let prometheus = serve_series(200, JSON, body.leak()).await;
    let kubeconfig = serve_cluster(pods).await;
    let path = kubeconfig.path().to_str().unwrap();
    let flags = ["--kubeconfig", path, "--prometheus-url", &prometheus];
    check_rules_with(&resource_rules(), &flags).await
}

#[tokio::test]
async fn objects_that_cannot_be_listed_leave_resource_rules_unchecked() {
    let (report, outcome) = check_against_cluster(None).await;
    assert_eq!(outcome, Outcome::Inconclusive, "{report}");
    let (first, others) = report.split_once('\n').unwrap();
    let end = "; nodes not compared: nodes is forbidden; pods not compared: pods is forbidden";
    assert!(first.starts_with("FILE: no problems") && first.ends_with(end), "{report}");
    assert!(!others.contains("forbidden"), "{report}");
    assert!(others.contains("cpu.nodeQuery: nodes: 1, such as node-0"), "{report}");
}

#[tokio::test]
async fn first_line_names_only_the_objects_that_were_not_compared() {
    let (report, outcome) = check_against_cluster(Some(vec!["w1-0".to_owned()])).await;
    assert_eq!(outcome, Outcome::Inconclusive, "{report}");
    let first = report.lines().next().unwrap();
    assert!(first.starts_with("FILE: 2 problems"), "{report}");
    assert!(first.ends_with("; nodes not compared: nodes is forbidden"), "{report}");
    let problem = "`pod` is web-0, but the pods of the cluster have names such as w1-0";
    assert_eq!(report.matches(problem).count(), 2, "{report}");
}

#[tokio::test]
async fn results_are_compared_with_the_objects_of_all_pages() {
    let others = (0..80).map(|index| format!("w1-{index}"));
    let pods = others.chain(["web-0".to_owned()]).collect();
    let (report, _) = check_against_cluster(Some(pods)).await;
    assert!(report.starts_with("FILE: no problems"), "{report}");
    assert!(!report.contains("pods not compared"), "{report}");
    assert!(report.contains("cpu.containerQuery: pods: 1, such as web-0"), "{report}");
}

/// A Prometheus in which 25 pods have the value 1. Returns the URL.
async fn serve_many_pods() -> String {
    let now = jiff::Timestamp::now().as_second();
    let labels = |index: usize| json!({ "namespace": "shop", "pod": format!("web-{index:02}") });
    let samples: Vec<_> =
        (0..25).map(|index| json!({ "metric": labels(index), "value": [now, "1"] })).collect();
    let body = json!({
        "status": "success", "data": { "resultType": "vector", "result": samples },
    });
    serve_series(200, JSON, body.to_string().leak()).await
}

#[tokio::test]
async fn first_line_of_explain_counts_only_objects_that_were_read() {
    let url = serve_many_pods().await;
    let (first, outcome) = explain_headline(RULES, "custom", "pods/m", &url).await;
    assert_eq!(outcome, Outcome::Success, "{first}");
    assert_eq!(first, "m has at least 20 values of rules[0]: 20 of 25 objects were read");
    let flags = ["--prometheus-url", &url, "--name", "web-24"];
    let (text, _) = explain_with(RULES, "custom", "pods/m", &flags).await;
    assert!(text.starts_with("m has 1 value of rules[0]\n"), "{text}");
}
