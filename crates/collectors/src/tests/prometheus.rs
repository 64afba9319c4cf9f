//! Tests of the collectors that query Prometheus.

use std::time::Duration;

use rstest::rstest;

use super::*;
use crate::Limits;

fn vector(value: &str) -> Reply {
    ok(&format!(
        r#"{{"status":"success","data":{{"resultType":"vector","result":[
            {{"metric":{{}},"value":[1700000000,"{value}"]}},
            {{"metric":{{}},"value":[1,"99"]}}]}}}}"#
    ))
}

fn client(name: &str, server: &Server) -> Client {
    Client::new(ServerSettings::new(name, &server.url("/prefix")).unwrap(), Arc::new(())).unwrap()
}

fn object(
    kind: &str,
    api_version: &str,
    target: &str,
    key: &str,
    values: &[(&str, &str)],
) -> CollectorPlan {
    let field = if target == "Value" { "value" } else { "averageValue" };
    let metric = json!({"type": "Object", "object": {
        "describedObject": {"apiVersion": api_version, "kind": kind, "name": "main"},
        "metric": {
            "name": "requests-per-second", "selector": {"matchLabels": {"backend": "green"}},
        },
        "target": {"type": target, field: "1"},
    }});
    plan(metric, &format!("object.requests-per-second.{key}"), values, Compat::Off)
}

/// The received queries of a server.
fn queries(server: &Server) -> Vec<String> {
    let body = |request: &String| {
        let (_, body) = request.split_once("\r\n\r\n").unwrap();
        let mut pairs = form_urlencoded::parse(body.as_bytes());
        pairs.find(|(name, _)| name == "query").unwrap().1.into_owned()
    };
    server.requests().iter().map(body).collect()
}

#[tokio::test]
async fn first_sample_of_the_default_server_is_the_value() {
    let server = Server::start(|_| vector("2.5")).await;
    let settings = Settings { prometheus: Some(client("default", &server)), ..settings() };
    let plan = external("prometheus", &[("query", r#"sum(rate(x{a="b"}[1m]))"#)]);
    assert_eq!(milli(fetch(settings, FakeCluster::default(), &plan).await), 2500);
    assert_eq!(queries(&server), [r#"sum(rate(x{a="b"}[1m]))"#]);
    assert!(server.requests()[0].starts_with("POST /prefix/api/v1/query HTTP/1.1\r\n"));
}

#[tokio::test]
async fn server_is_chosen_by_alias_or_url() {
    let [default, other, named] = [
        Server::start(|_| vector("1")).await,
        Server::start(|_| vector("2")).await,
        Server::start(|_| vector("3")).await,
    ];
    let settings = || Settings {
        prometheus: Some(client("default", &default)),
        prometheus_servers: [("other".to_owned(), client("other", &other))].into(),
        credentials: [(named.url(""), Credential::Text(Secret::new("t0k")))].into(),
        limits: Limits { request_timeout: Duration::from_millis(14_500), ..Limits::default() },
        ..settings()
    };
    let read = async |key: &str, value: &str| {
        let plan = external("prometheus", &[("query", "up"), (key, value)]);
        milli(fetch(settings(), FakeCluster::default(), &plan).await)
    };
    assert_eq!(read("x", "y").await, 1000);
    assert_eq!(read("prometheus-server-alias", "other").await, 2000);
    assert_eq!(read("prometheus-server", &named.url("/api-root/")).await, 3000);
    assert!(default.requests().len() == 1 && other.requests().len() == 1);
    let request = named.requests().remove(0);
    assert!(request.starts_with("POST /api-root/api/v1/query HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("authorization: Bearer t0k\r\n"), "{request}");
    assert!(request.ends_with("&timeout=14500ms"), "{request}");
    assert_eq!(queries(&named), ["up"]);
}

#[rstest]
#[case::no_sample(
    ok(r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#),
    "query 'up' did not result a valid response: the result has no samples"
)]
#[case::nan(
    vector("NaN"),
    "query 'up' did not result a valid response: the sample is not a number (NaN)"
)]
#[case::nan_scalar(
    ok(r#"{"status":"success","data":{"resultType":"scalar","result":[1,"NaN"]}}"#),
    "query 'up' did not result a valid response: the scalar is not a number (NaN)"
)]
#[case::infinite(vector("+Inf"), "did not result a valid response: the sample is infinite")]
#[case::too_large(vector("1e308"), "the value 1e308 is out of range")]
#[case::matrix(
    ok(r#"{"status":"success","data":{"resultType":"matrix","result":[]}}"#),
    "query 'up' did not result a valid response: the result is a range vector"
)]
#[case::refused(
    with_status(
        400,
        r#"{"status":"error","errorType":"bad_data","error":"parse error of secret"}"#
    ),
    "Prometheus reported bad_data"
)]
#[case::not_found(with_status(404, "secret"), "unsuccessful response: 404 Not Found")]
#[case::other_json(ok(r#"{"status":"success","data":"secret"}"#), "it is not JSON of its API")]
#[case::other(ok("secret"), "it is not JSON of its API")]
#[case::redirection(redirect("http://127.0.0.1/secret"), "the redirection is not followed")]
#[tokio::test]
async fn invalid_response_of_a_tenants_server_is_an_error(
    #[case] reply: Reply,
    #[case] expected: &str,
) {
    let server = Server::start(move |_| reply.clone()).await;
    let url = server.url("");
    let plan = external("prometheus", &[("query", "up"), ("prometheus-server", &url)]);
    let error = error(fetch(settings(), FakeCluster::default(), &plan).await);
    assert!(error.contains(expected) && !error.contains("secret"), "{error}");
}

#[rstest]
#[case::syntax(400, "bad_data", "bad_data: unexpected end of sum(")]
#[case::execution(400, "execution", "Prometheus reported execution: message omitted")]
#[case::server_error(500, "internal", "unknown response code 500")]
#[case::rate_limit(429, "too_many_requests", "unknown response code 429")]
#[tokio::test]
async fn message_of_the_operators_server_is_kept_for_syntax_only(
    #[case] status: u16,
    #[case] error_type: &str,
    #[case] expected: &str,
) {
    let body = format!(
        r#"{{"status":"error","errorType":"{error_type}","error":"unexpected end of sum("}}"#
    );
    let server = Server::start(move |_| with_status(status, &body)).await;
    let settings = Settings { prometheus: Some(client("p", &server)), ..settings() };
    let plan = external("prometheus", &[("query", "sum(")]);
    let error = error(fetch(settings, FakeCluster::default(), &plan).await);
    assert!(error.contains(expected), "{error}");
    assert_eq!(error.contains("unexpected end"), error_type == "bad_data", "{error}");
}

#[tokio::test]
async fn error_about_a_response_of_the_operators_server_names_its_address() {
    let server = Server::start(|_| ok("a login page")).await;
    let settings = Settings { prometheus: Some(client("p", &server)), ..settings() };
    let plan = external("prometheus", &[("query", "up")]);
    let error = error(fetch(settings, FakeCluster::default(), &plan).await);
    let expected = format!("the query to p at {} failed: the response isn't", server.url(""));
    assert!(error.contains(&expected), "{error}");
}

#[tokio::test]
async fn value_of_an_object_is_divided_by_replicas_if_configured() {
    let server = Server::start(|_| vector("10")).await;
    let settings = || Settings { prometheus: Some(client("p", &server)), ..settings() };
    let objects = |replicas| FakeCluster { replicas, ..FakeCluster::default() };
    let plan = |target: &str, values: &[(&str, &str)]| {
        object("Service", "v1", target, "prometheus", &[&[("query", "up")], values].concat())
    };
    assert_eq!(milli(fetch(settings(), objects(4), &plan("Value", &[])).await), 10_000);
    // As in kube-metrics-adapter, an average target makes no difference, although the autoscaler
    // divides the value again.
    for target in ["Value", "AverageValue"] {
        let averaged = plan(target, &[("per-replica", "true")]);
        assert_eq!(milli(fetch(settings(), objects(4), &averaged).await), 2500, "{target}");
    }
    let averaged = plan("Value", &[("per-replica", "true")]);
    let error = error(fetch(settings(), objects(0), &averaged).await);
    assert_eq!(error, "unable to get average value for 0 replicas");
}

#[tokio::test]
async fn requests_of_an_ingress_are_weighted_and_averaged() {
    let server = Server::start(|_| vector("30")).await;
    let settings = || Settings {
        prometheus: Some(client("p", &server)),
        weight_annotations: vec!["zalando.org/backend-weights".to_owned()],
        ..settings()
    };
    let weights = r#"{"blue": 80, "green": 20}"#.to_owned();
    let ingress = Ingress {
        hosts: vec!["a.example.org".to_owned(), "b.example.org".to_owned()],
        annotations: [("zalando.org/backend-weights".to_owned(), weights)].into(),
    };
    let objects =
        || FakeCluster { replicas: 3, ingress: Some(ingress.clone()), ..FakeCluster::default() };
    let plan = |target| object("Ingress", "networking.k8s.io/v1", target, "x", &[]);
    assert_eq!(milli(fetch(settings(), objects(), &plan("AverageValue")).await), 30_000);
    assert_eq!(milli(fetch(settings(), objects(), &plan("Value")).await), 10_000);
    assert_eq!(
        queries(&server)[0],
        "scalar(sum(rate(skipper_serve_host_duration_seconds_count\
         {host=~\"a_example_org|b_example_org\"}[1m])) * 0.2000)"
    );
    let error = error(fetch(settings(), FakeCluster::default(), &plan("Value")).await);
    assert_eq!(error, "Ingress shop/main not found");
}

#[tokio::test]
async fn requests_of_a_route_group_are_weighted() {
    let server = Server::start(|_| vector("30")).await;
    let settings = Settings { prometheus: Some(client("p", &server)), ..settings() };
    let route_group = RouteGroup {
        hosts: vec!["a.org".to_owned()],
        default_backends: vec![("blue".to_owned(), 25), ("green".to_owned(), 75)],
    };
    let objects = FakeCluster { route_group: Some(route_group), ..FakeCluster::default() };
    let plan = object("RouteGroup", "zalando.org/v1", "AverageValue", "x", &[]);
    assert_eq!(milli(fetch(settings, objects, &plan).await), 30_000);
    assert!(queries(&server)[0].contains("{host=~\"a_org\"}[1m])) * 0.7500)"));
}

#[tokio::test]
async fn requests_of_host_names_are_weighted() {
    let server = Server::start(|_| vector("8")).await;
    let settings = Settings { prometheus: Some(client("p", &server)), ..settings() };
    let values = [("hostnames", "a.org,b.org"), ("weight", "50")];
    let plan = external("requests-per-second", &values);
    assert_eq!(milli(fetch(settings, FakeCluster::default(), &plan).await), 8000);
    assert!(queries(&server)[0].ends_with("{host=~\"a_org|b_org\"}[1m])) * 0.5000)"));
}

#[tokio::test]
async fn namespace_label_restricts_a_tenants_query() {
    let server = Server::start(|_| vector("1")).await;
    let settings = || Settings {
        prometheus: Some(client("p", &server)),
        namespace_label: Some("namespace".to_owned()),
        ..settings()
    };
    let plan = external("prometheus", &[("query", "sum(queue)")]);
    milli(fetch(settings(), FakeCluster::default(), &plan).await);
    let object = object("Service", "v1", "Value", "prometheus", &[("query", "jobs")]);
    milli(fetch(settings(), FakeCluster::default(), &object).await);
    let expected = [r#"sum(queue{namespace="shop"})"#, r#"jobs{namespace="shop"}"#];
    assert_eq!(queries(&server), expected);
    let other = external("prometheus", &[("query", "info(queue)")]);
    let refusal = error(fetch(settings(), FakeCluster::default(), &other).await);
    assert!(refusal.starts_with("the query can't be restricted to the namespace"), "{refusal}");
    let incomplete = external("prometheus", &[("query", "sum(queue")]);
    let mistake = error(fetch(settings(), FakeCluster::default(), &incomplete).await);
    assert!(mistake.starts_with("the query has a syntax error at byte 9: "), "{mistake}");
}

#[tokio::test]
async fn restricted_query_without_a_result_is_named_as_sent() {
    let server = Server::start(|_| vector("NaN")).await;
    let settings = Settings {
        prometheus: Some(client("p", &server)),
        namespace_label: Some("namespace".to_owned()),
        ..settings()
    };
    let plan = external("prometheus", &[("query", "sum(queue)")]);
    let error = error(fetch(settings, FakeCluster::default(), &plan).await);
    let expected = "query 'sum(queue{namespace=\"shop\"})' did not result a valid response: the \
                    sample is not a number (NaN); the query is restricted to the namespace shop \
                    (--collector-namespace-label)";
    assert!(error.ends_with(expected), "{error}");
}

#[test]
fn server_is_refused_in_a_namespace_without_permission() {
    let error_if_permitted_only_in = |server: &str, namespace: &str| {
        let namespaces = [namespace.to_owned()].into();
        let permissions = [(server.to_owned(), namespaces)].into();
        let values = [("query", "up"), ("prometheus-server", "http://a/")];
        let metric = external_metric("prometheus");
        let config = config(metric, "external.m.prometheus", &values, Compat::Off);
        let environment = Environment { permissions, ..Environment::default() };
        CollectorPlan::new(&config, &environment).err()
    };
    assert_eq!(error_if_permitted_only_in("url", "shop"), None);
    assert_eq!(error_if_permitted_only_in("prometheus", "bank"), None);
    let refused = error_if_permitted_only_in("url", "bank").expect("no permission").to_string();
    assert_eq!(refused, "the operator doesn't permit url in the namespace shop");
}
