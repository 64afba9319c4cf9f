//! Tests of the collectors for `InfluxDB`, ZMON and Nakadi, with responses as documented.

use jiff::SignedDuration;
use rstest::rstest;

use super::*;

const CSV: &str = "#datatype,string,long,double\r\n#group,false,false,false\r\n\
                   #default,_result,,\r\n,result,table,metricvalue\r\n,,0,42.5\r\n\r\n";

fn token() -> Credential {
    Credential::Text(Secret::new("t0k"))
}

fn service(name: &'static str, endpoint: String) -> Settings {
    let service = ServiceSettings { endpoint, token: Some(token()), org: "own org".to_owned() };
    Settings { services: [(name, service)].into(), ..settings() }
}

fn influx(server: &Server) -> Settings {
    service("influxdb", server.url("/influx/"))
}

fn flux(values: &[(&str, &str)]) -> CollectorPlan {
    external("influxdb", &[&[("query", "from(bucket: \"b\")")], values].concat())
}

fn json_body(request: &str) -> Value {
    serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[tokio::test]
async fn influx_value_is_decoded() {
    let server = Server::start(|_| ok(CSV)).await;
    assert_eq!(milli(fetch(influx(&server), FakeCluster::default(), &flux(&[])).await), 42_500);
    let request = server.requests().remove(0);
    assert!(request.starts_with("POST /influx/api/v2/query?org=own+org HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("authorization: Token t0k\r\n"), "{request}");
    let body = json_body(&request);
    assert_eq!(body["query"], "from(bucket: \"b\")");
    assert_eq!(body["dialect"]["annotations"], json!(["datatype", "group", "default"]));
}

#[tokio::test]
async fn influx_server_of_a_tenant_never_gets_the_token_of_the_operator() {
    let (operators, tenants) = (Server::start(|_| ok(CSV)).await, Server::start(|_| ok(CSV)).await);
    let plan = flux(&[("address", &tenants.url("")), ("org", "theirs")]);
    assert_eq!(milli(fetch(influx(&operators), FakeCluster::default(), &plan).await), 42_500);
    let request = tenants.requests().remove(0);
    assert!(request.starts_with("POST /api/v2/query?org=theirs HTTP/1.1\r\n"), "{request}");
    assert!(!request.contains("authorization"), "{request}");
    assert!(operators.requests().is_empty());
    let credentials = [(tenants.url(""), Credential::Text(Secret::new("theirs")))].into();
    let settings = Settings { credentials, ..influx(&operators) };
    assert_eq!(milli(fetch(settings, FakeCluster::default(), &plan).await), 42_500);
    assert!(tenants.requests()[1].contains("authorization: Token theirs\r\n"));
}

#[tokio::test]
async fn influx_token_in_an_annotation_needs_the_compatible_mode() {
    let server = Server::start(|_| ok(CSV)).await;
    let plan = flux(&[("token", "annotated"), ("address", &server.url(""))]);
    let refused = error(fetch(influx(&server), FakeCluster::default(), &plan).await);
    assert!(refused.starts_with("a token in an annotation is not permitted"), "{refused}");
    let settings = Settings { compat: Compat::Reference, ..influx(&server) };
    assert_eq!(milli(fetch(settings, FakeCluster::default(), &plan).await), 42_500);
    assert!(server.requests()[0].contains("authorization: Token annotated\r\n"));
}

#[rstest]
#[case(
    with_status(400, r#"{"code":"invalid","message":"undefined identifier x"}"#),
    "InfluxDB refuses the query: the query is invalid or failed"
)]
#[case(with_status(401, r#"{"message":"secret"}"#), "unsuccessful response: 401 Unauthorized")]
#[case(ok(""), "unexpected response of InfluxDB: empty result returned")]
#[tokio::test]
async fn influx_failures_are_errors(#[case] reply: Reply, #[case] expected: &str) {
    let server = Server::start(move |_| reply.clone()).await;
    let error = error(fetch(influx(&server), FakeCluster::default(), &flux(&[])).await);
    assert!(error.ends_with(expected) && !error.contains("secret"), "{error}");
}

fn zmon(server: &Server) -> Settings {
    service("zmon", server.url("/kairos"))
}

#[tokio::test]
async fn last_value_of_a_zmon_check_has_its_own_time() {
    let server = Server::start(|_| {
        ok(r#"{"queries":[{"results":[{"values":[[1795348680000,1],[1795348740000,2.5]]}]}]}"#)
    })
    .await;
    let plan = external(
        "zmon",
        &[
            ("check-id", "1234"),
            ("key", "custom.*"),
            ("tag-application", "web"),
            ("aggregators", "avg,max"),
            ("duration", "5m"),
        ],
    );
    let fetched = fetch(zmon(&server), FakeCluster::default(), &plan).await.unwrap();
    assert_eq!(fetched.samples[0].value.as_milli(), 2500);
    assert_eq!(fetched.samples[0].at, now() - SignedDuration::from_mins(1));
    let request = server.requests().remove(0);
    assert!(request.starts_with("POST /kairos/api/v1/datapoints/query HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("authorization: Bearer t0k\r\n"), "{request}");
    assert!(request.contains("x-attribution: hpa/1234\r\n"), "{request}");
    let five_minutes = json!({"value": 5, "unit": "minutes"});
    let expected = json!({
        "start_relative": five_minutes,
        "metrics": [{
            "name": "zmon.check.1234",
            "limit": 10000,
            "tags": {"application": ["web"], "key": ["custom.*"]},
            "group_by": [{"name": "tag", "tags": ["key"]}],
            "aggregators": [
                {"name": "avg", "sampling": five_minutes},
                {"name": "max", "sampling": five_minutes},
            ],
        }],
    });
    assert_eq!(json_body(&request), expected);
}

/// A response of ZMON with the value 1 at a time relative to [`now`].
fn zmon_reply(seconds_ahead: i64) -> Reply {
    let time = (now().as_second() + seconds_ahead) * 1000;
    ok(&format!(r#"{{"queries":[{{"results":[{{"values":[[{time},1]]}}]}}]}}"#))
}

/// The last value is 11 minutes old. The default duration is 10 minutes.
#[tokio::test]
async fn zmon_value_older_than_the_duration_is_missing() {
    let server = Server::start(|_| zmon_reply(-11 * 60)).await;
    let plan = external("zmon", &[("check-id", "1")]);
    let values = fetch(zmon(&server), FakeCluster::default(), &plan).await.unwrap();
    assert!(values.samples.is_empty());
    let longer = external("zmon", &[("check-id", "1"), ("duration", "12m")]);
    assert_eq!(milli(fetch(zmon(&server), FakeCluster::default(), &longer).await), 1000);
}

/// A value would count as fresh until its time. The clock of the server may be ahead by a minute.
#[tokio::test]
async fn zmon_value_with_a_time_far_ahead_is_an_error() {
    let plan = external("zmon", &[("check-id", "1")]);
    let read = async |seconds_ahead: i64, compat: Compat| {
        let server = Server::start(move |_| zmon_reply(seconds_ahead)).await;
        let settings = Settings { compat, ..zmon(&server) };
        fetch(settings, FakeCluster::default(), &plan).await
    };
    assert_eq!(milli(read(60, Compat::Off).await), 1000);
    assert_eq!(milli(read(61, Compat::Reference).await), 1000);
    let error = error(read(61, Compat::Off).await);
    assert!(error.ends_with("the time of the last value is more than a minute ahead"), "{error}");
}

/// Durations are rounded: 90 minutes to two hours, 80 minutes to one. `KairosDB` dates an aggregate
/// by its first point, and its clock may be behind by 30 s.
#[rstest]
#[case::rounded_up("90m", 119, true)]
#[case::rounded_up_and_skewed("90m", 120, true)]
#[case::older("90m", 121, false)]
#[case::rounded_down("80m", 62, false)]
#[tokio::test]
async fn zmon_value_may_be_as_old_as_the_rounded_duration(
    #[case] duration: &str,
    #[case] minutes: i64,
    #[case] is_used: bool,
) {
    let server = Server::start(move |_| zmon_reply(-minutes * 60 - 5)).await;
    let values = [("check-id", "1"), ("duration", duration), ("aggregators", "avg")];
    let plan = external("zmon", &values);
    let values = fetch(zmon(&server), FakeCluster::default(), &plan).await.unwrap();
    assert_eq!(!values.samples.is_empty(), is_used);
}

#[rstest]
#[case(r"{}")]
#[case(r#"{"queries":[{"results":[]}]}"#)]
#[case(r#"{"queries":[{"results":[{"values":[]}]}]}"#)]
#[tokio::test]
async fn zmon_check_without_values_has_no_value(#[case] body: &'static str) {
    let server = Server::start(move |_| ok(body)).await;
    let plan = external("zmon", &[("check-id", "1")]);
    let fetched = fetch(zmon(&server), FakeCluster::default(), &plan).await.unwrap();
    assert!(fetched.samples.is_empty());
}

#[rstest]
#[case("median", ok("{}"), "invalid aggregators config value: median")]
#[case("last", ok("[secret]"), "unexpected response of ZMON: the body can't be decoded")]
#[case(
    "last",
    ok(r#"{"queries":[{"results":[{"values":[[1,2,3]]}]}]}"#),
    "unexpected response of ZMON: the body can't be decoded"
)]
#[case("last", with_status(500, ""), "unsuccessful response: 500 Internal Server Error")]
#[tokio::test]
async fn zmon_failures_are_errors(
    #[case] aggregators: &str,
    #[case] reply: Reply,
    #[case] expected: &str,
) {
    let server = Server::start(move |_| reply.clone()).await;
    let plan = external("zmon", &[("check-id", "1"), ("aggregators", aggregators)]);
    let error = error(fetch(zmon(&server), FakeCluster::default(), &plan).await);
    assert!(error.ends_with(expected), "{error}");
}

fn nakadi(server: &Server) -> Settings {
    service("nakadi", server.url(""))
}

/// Two pages of subscriptions, and the statistics of each.
fn nakadi_reply(request: &str) -> Reply {
    match request.split(' ').nth(1).unwrap() {
        "/subscriptions?consumer_group=g&event_type=a&event_type=b&owning_application=o" => {
            ok(r#"{"items":[{"id":"s1"},{"id":"s2"}],
                "_links":{"next":{"href":"/subscriptions?page=2"}}}"#)
        }
        "/subscriptions?page=2" => ok(r#"{"items":[{"id":"s3"}],"_links":{}}"#),
        "/subscriptions/s1/stats?show_time_lag=true" => {
            ok(r#"{"items":[{"event_type":"a","partitions":[
                {"unconsumed_events":5,"consumer_lag_seconds":7},
                {"unconsumed_events":1,"consumer_lag_seconds":0}]}]}"#)
        }
        "/subscriptions/s2/stats?show_time_lag=true" => ok(r#"{"items":[]}"#),
        "/subscriptions/s3/stats?show_time_lag=true" => {
            ok(r#"{"items":[{"event_type":"b","partitions":[
                {"unconsumed_events":10,"consumer_lag_seconds":3}]}]}"#)
        }
        _ => with_status(404, ""),
    }
}

#[rstest]
#[case::lag("consumer-lag-seconds", 7000)]
#[case::events("unconsumed-events", 16_000)]
#[tokio::test]
async fn nakadi_partitions_of_all_subscriptions_are_aggregated(
    #[case] metric_type: &str,
    #[case] expected: i64,
) {
    let server = Server::start(nakadi_reply).await;
    let plan = selected_subscriptions(metric_type, "a, b");
    assert_eq!(milli(fetch(nakadi(&server), FakeCluster::default(), &plan).await), expected);
    assert!(
        server.requests().iter().all(|request| request.contains("authorization: Bearer t0k\r\n"))
    );
    assert_eq!(server.requests().len(), 5);
}

fn selected_subscriptions(metric_type: &str, event_types: &str) -> CollectorPlan {
    external(
        "nakadi",
        &[
            ("metric-type", metric_type),
            ("owning-application", "o"),
            ("event-types", event_types),
            ("consumer-group", "g"),
        ],
    )
}

fn subscription(id: &str) -> CollectorPlan {
    external("nakadi", &[("metric-type", "unconsumed-events"), ("subscription-id", id)])
}

#[tokio::test]
async fn nakadi_subscription_is_read_by_its_id() {
    let server = Server::start(nakadi_reply).await;
    let read = async |id| fetch(nakadi(&server), FakeCluster::default(), &subscription(id)).await;
    assert_eq!(milli(read("s1").await), 6000);
    let empty = error(read("s2").await);
    assert!(empty.ends_with("expected at least 1 event-type, 0 returned"), "{empty}");
    let invalid = error(read("../admin").await);
    assert_eq!(invalid, "invalid subscription-id config value: ../admin");
    assert_eq!(server.requests().len(), 2);
}

/// kube-metrics-adapter reads a missing number as 0, and an autoscaler may then scale down.
#[rstest]
#[case::one_partition_without_lag(
    r#"{"items":[{"partitions":[{"consumer_lag_seconds":7},{}]}]}"#,
    7000
)]
#[case::null(r#"{"items":[{"partitions":[{"consumer_lag_seconds":null}]}]}"#, 0)]
#[case::other_name(r#"{"items":[{"partitions":[{"lag":7}]}]}"#, 0)]
#[case::no_partition(r#"{"items":[{"partitions":[]}]}"#, 0)]
#[case::no_partitions(r#"{"items":[{}]}"#, 0)]
#[tokio::test]
async fn missing_number_of_nakadi_is_an_error_unless_compatible(
    #[case] body: &'static str,
    #[case] reference: i64,
) {
    let server = Server::start(move |_| ok(body)).await;
    let values = [("metric-type", "consumer-lag-seconds"), ("subscription-id", "s1")];
    let plan = external("nakadi", &values);
    let text = error(fetch(nakadi(&server), FakeCluster::default(), &plan).await);
    assert!(text.starts_with("unexpected response of Nakadi: the statistics"), "{text}");
    let compat = Settings { compat: Compat::Reference, ..nakadi(&server) };
    assert_eq!(milli(fetch(compat, FakeCluster::default(), &plan).await), reference);
}

#[rstest]
#[case::server_error("HTTP/1.1 503 X\r\ncontent-length: 0\r\n\r\n", 3)]
#[case::too_many("HTTP/1.1 429 X\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n", 3)]
#[case::too_many_without_time("HTTP/1.1 429 X\r\ncontent-length: 0\r\n\r\n", 3)]
#[case::too_many_bad_time("HTTP/1.1 429 X\r\nretry-after: soon\r\ncontent-length: 0\r\n\r\n", 1)]
#[case::forbidden("HTTP/1.1 403 X\r\ncontent-length: 0\r\n\r\n", 1)]
#[case::closed("", 3)]
#[tokio::test]
async fn nakadi_request_is_retried_unless_the_error_is_permanent(
    #[case] reply: &'static str,
    #[case] requests: usize,
) {
    let server = Server::start(move |_| Reply::Bytes(reply.as_bytes().to_vec())).await;
    fetch(nakadi(&server), FakeCluster::default(), &subscription("s1")).await.unwrap_err();
    assert_eq!(server.requests().len(), requests);
}

#[rstest]
#[case::path(r#"{"items":[{"id":"../secret"}]}"#)]
#[case::empty(r#"{"items":[{"id":""}]}"#)]
#[tokio::test]
async fn invalid_id_in_a_nakadi_response_is_an_error_without_the_id(#[case] body: &'static str) {
    let server = Server::start(move |_| ok(body)).await;
    let plan = selected_subscriptions("unconsumed-events", "a");
    let error = error(fetch(nakadi(&server), FakeCluster::default(), &plan).await);
    assert!(error.ends_with("the ID of a subscription is invalid"), "{error}");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn negative_number_of_a_nakadi_partition_is_an_error_unless_it_is_a_lag() {
    let partitions = r#"[{"unconsumed_events":9,"consumer_lag_seconds":9},
        {"unconsumed_events":-1,"consumer_lag_seconds":-1}]"#;
    let body = format!(r#"{{"items":[{{"partitions":{partitions}}}]}}"#);
    let server = Server::start(move |_| ok(&body)).await;
    let fetch_type = async |metric_type: &str| {
        let settings = [("metric-type", metric_type), ("subscription-id", "s1")];
        fetch(nakadi(&server), FakeCluster::default(), &external("nakadi", &settings)).await
    };
    let error = error(fetch_type("unconsumed-events").await);
    assert!(error.ends_with("a partition have a negative number"), "{error}");
    assert_eq!(milli(fetch_type("consumer-lag-seconds").await), 9000);
}

#[tokio::test]
async fn next_page_of_nakadi_must_be_on_the_same_server() {
    let other = Server::start(nakadi_reply).await;
    let href = other.url("/subscriptions?page=2");
    let page = format!(r#"{{"items":[],"_links":{{"next":{{"href":"{href}"}}}}}}"#);
    let server = Server::start(move |_| ok(&page)).await;
    let plan = selected_subscriptions("unconsumed-events", "a");
    let error = error(fetch(nakadi(&server), FakeCluster::default(), &plan).await);
    assert!(error.ends_with("the next page is on another server"), "{error}");
    assert!(other.requests().is_empty());
}

#[rstest]
#[case::prometheus(
    external("prometheus", &[("query", "up")]),
    "a Prometheus server is not configured"
)]
#[case::influx(flux(&[]), "InfluxDB is not configured")]
#[case::zmon(external("zmon", &[("check-id", "1")]), "ZMON is not configured")]
#[case::nakadi(subscription("s1"), "Nakadi is not configured")]
#[tokio::test]
async fn server_that_is_not_configured_is_an_error(
    #[case] plan: CollectorPlan,
    #[case] expected: &str,
) {
    assert_eq!(error(fetch(settings(), FakeCluster::default(), &plan).await), expected);
}

/// The time limit includes retries and pages.
#[tokio::test]
async fn collection_of_several_requests_has_a_time_limit() {
    let reply = "HTTP/1.1 429 X\r\nretry-after: 3600\r\ncontent-length: 0\r\n\r\n";
    let server = Server::start(move |_| Reply::Bytes(reply.as_bytes().to_vec())).await;
    // In real time: long enough for each response on a busy machine.
    let request_timeout = std::time::Duration::from_millis(500);
    let limits = crate::Limits { request_timeout, ..crate::Limits::default() };
    let settings = Settings { limits, ..nakadi(&server) };
    let error = error(fetch(settings, FakeCluster::default(), &subscription("s1")).await);
    assert_eq!(error, "not read within 2 s");
}
