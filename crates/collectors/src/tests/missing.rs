//! A number that is missing in a response is an error or a missing value. It must not be read as 0,
//! because autoscalers would scale down.

use std::collections::BTreeSet;

use super::{tls::new_ca_file, *};
use crate::registry::COLLECTORS;

/// A plan for each collector that sends requests, and a response with the number 42.
fn cases(port: &str, url: &str) -> Vec<(CollectorPlan, String)> {
    let object = |api_version: &str, kind: &str| {
        let metric = json!({"type": "Object", "object": {
            "describedObject": {"apiVersion": api_version, "kind": kind, "name": "main"},
            "metric": {"name": "requests-per-second"},
            "target": {"type": "Value", "value": "1"},
        }});
        plan(metric, "object.requests-per-second.x", &[], Compat::Off)
    };
    let vector = |result: &str| {
        format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{result}]}}}}"#)
    };
    let sample = vector(r#"{"metric":{},"value":[1700000000,"42"]}"#);
    let scalar =
        r#"{"status":"success","data":{"resultType":"scalar","result":[1700000000,"42"]}}"#;
    let time = now().as_millisecond();
    vec![
        (pod_plan(&[("json-key", "$.v"), ("port", port)]), r#"{"v":42}"#.to_owned()),
        (
            external("json-path", &[("endpoint", url), ("json-key", "$.v")]),
            r#"{"v":42}"#.to_owned(),
        ),
        (external("prometheus", &[("query", "up")]), sample.clone()),
        (external("prometheus", &[("query", "up"), ("prometheus-server", url)]), sample.clone()),
        (object("networking.k8s.io/v1", "Ingress"), scalar.to_owned()),
        (object("zalando.org/v1", "RouteGroup"), scalar.to_owned()),
        (external("requests-per-second", &[("hostnames", "a.example.org")]), scalar.to_owned()),
        (
            external("influxdb", &[("query", "x")]),
            "#datatype,string,long,double\n#default,_result,,\n,result,table,metricvalue\n,,0,42\n"
                .to_owned(),
        ),
        (
            external("zmon", &[("check-id", "1")]),
            format!(r#"{{"queries":[{{"results":[{{"values":[[{time},42]]}}]}}]}}"#),
        ),
        (
            external("nakadi", &[("metric-type", "unconsumed-events"), ("subscription-id", "s1")]),
            r#"{"items":[{"partitions":[{"unconsumed_events":42}]}]}"#.to_owned(),
        ),
        (
            external("sqs-queue-length", &[("queue-name", "q"), ("region", "eu-west-1")]),
            r#"{"QueueUrl":"http://q.invalid/1/q","Attributes":{"ApproximateNumberOfMessages":"42",
                "ApproximateNumberOfMessagesNotVisible":"0"}}"#
                .to_owned(),
        ),
    ]
}

/// Responses without the number, or with another value in its place.
fn without_number(good: &str) -> Vec<String> {
    let mut all: Vec<String> = ["null", "\"\"", "\"NaN\"", "\"x\"", "{}", "[]", "true", "", " "]
        .iter()
        .flat_map(|other| [good.replace("\"42\"", other), good.replace("42", other)])
        .chain([good.replace("42", "NaN")])
        .collect();
    for member in ["v", "values", "value", "result", "unconsumed_events", "partitions"] {
        all.push(good.replace(&format!("\"{member}\""), "\"other\""));
    }
    // An event type without partitions beside one that has some.
    all.push(good.replace("{\"items\":[", "{\"items\":[{},"));
    all.push(good.replace("ApproximateNumberOfMessages\"", "Other\""));
    all.push(good.replace("metricvalue", "othervalue"));
    all.extend(["", "{}", "[]", "null", "0", "<html>", r#"{"items":[]}"#].map(str::to_owned));
    all.push(r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#.to_owned());
    all.push(r#"{"status":"success","data":{"resultType":"string","result":[1,"42"]}}"#.to_owned());
    all.retain(|body| body != good);
    all
}

fn objects() -> FakeCluster {
    FakeCluster {
        pods: vec![pod("web-0", "127.0.0.1")],
        replicas: 1,
        ingress: Some(Ingress { hosts: vec!["a.example.org".to_owned()], ..Ingress::default() }),
        route_group: Some(RouteGroup {
            hosts: vec!["a.example.org".to_owned()],
            ..RouteGroup::default()
        }),
    }
}

#[tokio::test]
async fn missing_number_in_a_response_is_never_zero() {
    let body = Arc::new(Mutex::new(String::new()));
    let response = body.clone();
    let server = Server::start(move |_| ok(&response.lock())).await;
    let (url, port) = (server.url(""), server.port());
    let ca_file = new_ca_file();
    let mut collectors = BTreeSet::new();
    for (plan, good) in cases(&port, &url) {
        collectors.insert(plan.name);
        let read = async |text: &str| {
            text.clone_into(&mut body.lock());
            let clients = operator_clients(&url, ca_file.path(), objects());
            fetch_with(&clients, &plan).await
        };
        assert_eq!(milli(read(&good).await), 42_000, "{}", plan.name);
        for bad in without_number(&good) {
            let Ok(values) = read(&bad).await else { continue };
            assert!(values.samples.is_empty(), "{}: {values:?} of {bad}", plan.name);
        }
    }
    // The collector `schedule` sends no requests.
    let all: BTreeSet<_> = COLLECTORS.iter().map(|collector| collector.name).collect();
    assert_eq!(all.difference(&collectors).collect::<Vec<_>>(), [&"schedule"]);
}
