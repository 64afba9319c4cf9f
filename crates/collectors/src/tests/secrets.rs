//! Tenants see errors in conditions and events, so errors must not reveal the data in responses.

use rstest::rstest;

use super::{tls::new_ca_file, *};

const SECRET: &str = "hunter2";

/// Responses without a value, each with the secret in a different part.
fn replies() -> Vec<Reply> {
    let json = [
        r#""hunter2""#,
        r#"{"hunter2": "hunter2"}"#,
        r#"{"v": "hunter2"}"#,
        r#"{"v": {"hunter2": 1}}"#,
        r#"{"v": "(hunter2"}"#,
        r#"{"v": ["hunter2", "hunter2"]}"#,
        r#"{"status":"error","errorType":"hunter2","error":"hunter2","message":"hunter2"}"#,
        r#"{"status":"error","errorType":"execution","error":"hunter2"}"#,
        r#"{"status":"success","data":{"resultType":"hunter2","result":"hunter2"}}"#,
        r#"{"status":"success","data":{"resultType":"string","result":[1,"hunter2"]}}"#,
        r#"{"status":"success","data":{"resultType":"vector","result":[
            {"metric":{"hunter2":"hunter2"},"value":[1,"hunter2"]}]}}"#,
        r#"{"__type":"aws#hunter2","message":"hunter2"}"#,
        r#"{"QueueUrl":"hunter2","Attributes":{"ApproximateNumberOfMessages":"hunter2"}}"#,
        r#"{"items":[{"id":"s","partitions":[{"consumer_lag_seconds":"hunter2"}]}]}"#,
        r#"{"items":[{"id":"../hunter2"}]}"#,
        r#"{"items":[],"_links":{"next":{"href":"http://hunter2.invalid/"}}}"#,
        r#"{"queries":[{"results":[{"values":[["hunter2","hunter2"]]}]}]}"#,
        "hunter2",
        "#datatype,string,hunter2\n#default,,\n,result,metricvalue\n,,hunter2\n",
        "#datatype,string,string\n#default,,\n,error,reference\n,hunter2,hunter2\n",
        "hunter2,metricvalue\nhunter2,hunter2\n",
    ];
    let statuses = [200, 204, 400, 401, 404, 422, 429, 500, 503].into_iter();
    let mut replies: Vec<Reply> =
        statuses.flat_map(|status| json.map(|body| with_status(status, body))).collect();
    for location in
        ["http://hunter2.invalid/", "http://127.0.0.9/hunter2", "hunter2:x", "https://hunter2/"]
    {
        replies.push(redirect(location));
    }
    for head in ["HTTP/1.1 200 hunter2\r\nhunter2", "hunter2", "HTTP/1.1 hunter2 x\r\n\r\n"] {
        replies.push(Reply::Bytes(head.into()));
    }
    let headers = "content-encoding: hunter2\r\nhunter2: hunter2\r\ncontent-length: 0\r\n\r\n";
    replies.push(Reply::Bytes(format!("HTTP/1.1 200 OK\r\n{headers}").into()));
    replies
}

#[rstest]
#[case::key("json-path", &[("endpoint", "URL"), ("json-key", "$.v")])]
#[case::expression("json-path", &[("endpoint", "URL"), ("json-eval", "$.v + 1")])]
#[case::pattern("json-path", &[("endpoint", "URL"), ("json-eval", "'x' =~ $.v")])]
#[case::index("json-path", &[("endpoint", "URL"), ("json-key", "$[($.v)]")])]
#[case::aggregated("json-path", &[("endpoint", "URL"), ("json-key", "$.v"), ("aggregator", "sum")])]
#[case::tenants_prometheus("prometheus", &[("query", "up"), ("prometheus-server", "URL")])]
#[case::prometheus("prometheus", &[("query", "up")])]
#[case::tenants_influx("influxdb", &[("query", "x"), ("address", "URL")])]
#[case::influx("influxdb", &[("query", "x")])]
#[case::zmon("zmon", &[("check-id", "1")])]
#[case::sqs("sqs-queue-length", &[("queue-name", "q"), ("region", "eu-west-1")])]
#[case::nakadi("nakadi", &[("metric-type", "consumer-lag-seconds"), ("subscription-id", "s")])]
#[case::nakadi_list("nakadi", &[("metric-type", "consumer-lag-seconds"),
    ("owning-application", "o"), ("event-types", "a"), ("consumer-group", "g")])]
#[tokio::test]
async fn error_has_no_text_of_the_response(#[case] kind: &str, #[case] values: &[(&str, &str)]) {
    let ca_file = new_ca_file();
    for reply in replies() {
        let (Reply::Bytes(bytes) | Reply::Stall(bytes) | Reply::Flood(bytes)) = &reply;
        let response = String::from_utf8_lossy(bytes).into_owned();
        let server = Server::start(move |_| reply.clone()).await;
        let url = server.url("");
        let clients = operator_clients(&url, ca_file.path(), FakeCluster::default());
        if let Err(error) = fetch_with(&clients, &external_at(&url, kind, values)).await {
            let text = hpa_metrics::describe(&error);
            assert!(!text.contains(SECRET), "{text}\n{response}");
        }
    }
}
