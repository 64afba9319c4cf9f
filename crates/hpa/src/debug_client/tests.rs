use futures::stream;
use hpa_calc::explain::UnschedulablePods;
use http_body_util::StreamBody;
use hyper::body::Frame;
use jiff::SignedDuration;
use rstest::rstest;
use serde_json::Value;

use super::*;
use crate::kubectl::answering_client;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

fn arguments(namespace: Option<&str>, lease: Option<&str>) -> ControllerArguments {
    ControllerArguments {
        controller_namespace: namespace.map(ToOwned::to_owned),
        controller_lease: lease.map(ToOwned::to_owned),
        controller_url: None,
    }
}

/// Reads a debug API without a token.
fn debug_client(client: Client, time_limit: Option<Duration>, source: &str) -> DebugClient {
    let source = source.to_owned();
    DebugClient { client, prefix: String::new(), token: None, time_limit, source }
}

/// A debug API that answers each path with this status and document.
fn answering_api(
    answer: impl Fn(&str) -> (u16, Value) + Clone + Send + 'static,
    source: &str,
) -> DebugClient {
    let service = tower::service_fn(move |request: Request<Body>| {
        let (status, document) = answer(request.uri().path());
        let response = http::Response::builder().status(status).header(MARKER_HEADER, "v1");
        std::future::ready(response.body(Body::from(document.to_string().into_bytes())))
    });
    debug_client(Client::new(service, "default"), None, source)
}

#[rstest]
#[case::nothing(&[], None, None, "kube-system/hpa-controller")]
#[case::other_controllers(&["kube-controller-manager", "kubectl"], None, None,
    "kube-system/hpa-controller")]
#[case::status(&["hpa-controller:scaling/hpa"], None, None, "scaling/hpa")]
#[case::without_election(&["hpa-controller"], None, None, "kube-system/hpa-controller")]
#[case::most(&["hpa-controller:a/x", "hpa-controller:b/y", "hpa-controller:b/y"], None, None,
    "b/y")]
#[case::first_of_equals(&["hpa-controller:a/x", "hpa-controller:b/y"], None, None, "a/x")]
#[case::flags(&["hpa-controller:a/x"], Some("c"), Some("z"), "c/z")]
#[case::one_flag(&["hpa-controller:a/x"], Some("c"), None, "c/x")]
fn lease_comes_from_flags_or_most_statuses(
    #[case] managers: &[&str],
    #[case] namespace: Option<&str>,
    #[case] lease: Option<&str>,
    #[case] expected: &str,
) {
    let namespaces = ["shop", "blog", "mail"];
    let named = LeaseKey::of_statuses(namespaces.into_iter().zip(managers.iter().copied()));
    let first = named.first().map(|lease| &lease.key);
    let chosen = LeaseKey::choose(&arguments(namespace, lease), first);
    assert_eq!(chosen.to_string(), expected);
}

/// A tenant can forge the field managers of all statuses of its namespace.
#[test]
fn lease_named_by_more_namespaces_comes_before_one_named_by_more_statuses() {
    let forged = [("tenant", "hpa-controller:tenant/fake"); 3];
    let real = ["shop", "blog"].map(|namespace| (namespace, "hpa-controller:scaling/hpa"));
    let named = LeaseKey::of_statuses(forged.into_iter().chain(real));
    let named: Vec<_> = named.iter().map(|lease| lease.key.name.as_str()).collect();
    assert_eq!(named, ["hpa", "fake"]);
}

/// A tie of counts must not let a tenant's own lease come first.
#[rstest]
#[case::usual("hpa-controller:autoscaling/hpa-controller", "autoscaling/hpa-controller")]
#[case::of_another_namespace("hpa-controller:scaling/hpa", "scaling/hpa")]
fn lease_of_a_tenant_loses_a_tie(#[case] manager: &str, #[case] expected: &str) {
    let statuses = [("eve", "hpa-controller:eve/evil"), ("shop", manager)];
    let named = LeaseKey::of_statuses(statuses);
    assert_eq!(named[0].key.to_string(), expected);
    assert_eq!([named[0].is_local(), named[1].is_local()], [false, true]);
}

#[test]
fn lost_lease_is_no_reason_for_an_instance_without_leader_election() {
    let lease = LeaseKey { namespace: "kube-system".into(), name: "hpa-controller".into() };
    let lost = [
        Unavailable::NoPod { pod: "kube-system/vm".into() },
        Unavailable::NotHeld { lease: lease.clone(), released: None },
        Unavailable::NoLease(lease),
    ];
    for error in lost {
        let of_writer = |manager| error.clone().for_writer(manager);
        assert_eq!(of_writer(Some("hpa-controller")), Unavailable::NoElection);
        assert_eq!(of_writer(Some("hpa-controller:kube-system/hpa-controller")), error);
        assert_eq!(of_writer(None), error);
    }
    let off = Unavailable::Off { pod: "scaling/hpa-1".into() };
    assert_eq!(off.clone().for_writer(Some("hpa-controller")), off);
}

#[test]
fn error_message_is_read_from_json_or_text() {
    assert_eq!(message(br#"{"kind":"Status","message":"no"}"#), "no");
    assert_eq!(message(br#"{"error":"no"}"#), "no");
    assert_eq!(message(b"502 Bad Gateway\n"), "502 Bad Gateway");
}

/// A tenant may have forged the lease that leads to the server.
#[rstest]
#[case::json(format!(r#"{{"error":"{}"}}"#, "x".repeat(5000)))]
#[case::text("x".repeat(5000))]
fn long_error_message_is_cut_off(#[case] body: String) {
    let message = message(body.as_bytes());
    assert!(message.starts_with("xxx") && message.chars().count() <= MAX_MESSAGE_CHARS + 1);
}

/// The body of an error has no end. The first case is an error of the debug API.
#[rstest]
#[case::api(400, true, "the debug API refuses the request: its message is too long")]
#[case::not_found(404, true, "pod eve/fake-0 serves something other than the debug API")]
#[case::other_server(200, false, "pod eve/fake-0 serves something other than the debug API")]
#[case::proxy(
    502,
    false,
    "the debug API can't be reached: pod eve/fake-0 answered 502 Bad \
    Gateway: its message is too long"
)]
#[tokio::test]
async fn errors_of_a_hostile_debug_api_are_read_up_to_a_small_limit(
    #[case] status: u16,
    #[case] has_marker: bool,
    #[case] expected: &str,
) {
    let sent_bytes = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let sent = sent_bytes.clone();
    let service = tower::service_fn(move |_: Request<Body>| {
        let sent = sent.clone();
        let body = stream::repeat_with(move || {
            let chunk = Bytes::from_static(&[b'['; 4096]);
            sent.fetch_add(chunk.len(), std::sync::atomic::Ordering::Relaxed);
            Ok::<_, std::io::Error>(Frame::data(chunk))
        });
        let mut response = http::Response::builder().status(status);
        if has_marker {
            response = response.header(MARKER_HEADER, "v1");
        }
        let response = response.body(StreamBody::new(body)).expect("a response");
        async move { Ok::<_, std::convert::Infallible>(response) }
    });
    let client = debug_client(Client::new(service, "default"), None, "pod eve/fake-0");
    assert_eq!(client.status().await.expect_err("no status").to_string(), expected);
    let sent = sent_bytes.load(std::sync::atomic::Ordering::Relaxed);
    assert!(sent <= 2 * MAX_ERROR_BYTES, "{sent} bytes");
}

/// The error of a read of the debug API at a URL.
async fn read_status(url: &str) -> String {
    let client = DebugClient::for_url(&url.parse().unwrap(), REQUEST_TIMEOUT).unwrap();
    client.status().await.expect_err("no document").to_string()
}

#[tokio::test]
async fn unreachable_debug_api_is_named_with_its_cause_once() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let expected = format!("the debug API can't be reached: {url}: Connection refused");
    assert_eq!(read_status(&url).await, expected);
}

/// The kernel completes the connection, and nothing answers, as with a stopped process.
#[tokio::test(start_paused = true)]
async fn silent_debug_api_is_given_up_after_the_request_timeout() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let expected = format!(
        "the debug API can't be reached: {url}: no response within 10s (--request-timeout)"
    );
    assert_eq!(read_status(&url).await, expected);
}

#[tokio::test(start_paused = true)]
async fn response_whose_body_stalls_is_given_up_after_the_request_timeout() {
    let service = tower::service_fn(|_: Request<Body>| async {
        let body = StreamBody::new(stream::pending::<Result<Frame<Bytes>, std::io::Error>>());
        let response = http::Response::builder().header(MARKER_HEADER, "v1").body(body);
        Ok::<_, std::convert::Infallible>(response.expect("a response"))
    });
    let client = Client::new(service, "default");
    let client = debug_client(client, Some(REQUEST_TIMEOUT), "http://127.0.0.1:8081");
    let timed_out = Unavailable::timed_out("http://127.0.0.1:8081", REQUEST_TIMEOUT);
    assert_eq!(client.status().await.err(), Some(timed_out.clone()));
    assert_eq!(client.autoscalers().await.err(), Some(timed_out));
}

#[tokio::test]
async fn plain_request_to_an_https_server_gets_a_hint() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let length = tokio::io::AsyncReadExt::read(&mut stream, &mut [0; 4096]).await.unwrap();
        assert!(length > 0);
        // A TLS alert: unexpected message.
        let alert = [21, 3, 3, 0, 2, 2, 10];
        tokio::io::AsyncWriteExt::write_all(&mut stream, &alert).await.unwrap();
    });
    let error = read_status(&url).await;
    assert!(error.starts_with(&format!("the debug API can't be reached: {url}: ")), "{error}");
    assert!(error.contains("It may serve HTTPS"), "{error}");
}

/// The holder of a lease that a server returns.
async fn read_holder(lease: Value) -> LeaseHolder {
    let client = answering_client(move |_| (200, lease.clone()));
    let name = LeaseKey { namespace: "kube-system".into(), name: "hpa-controller".into() };
    LeaseHolder::read(&client, &name).await.unwrap()
}

#[tokio::test]
async fn scope_of_an_instance_on_a_host_is_read_from_its_lease() {
    let scope = r#"{"holder":"host-1_1","apis":["core"],"namespaces":["shop"]}"#;
    let namespaces = async |identity: &str| {
        let holder = read_holder(serde_json::json!({
            "metadata": { "annotations": { "hpa-controller/instance-scope": scope } },
            "spec": { "holderIdentity": identity },
        }));
        holder.await.scope.map(|scope| scope.namespaces)
    };
    assert_eq!(namespaces("host-1_1").await, Some(vec!["shop".to_owned()]));
    assert_eq!(namespaces("host-2_1").await, None, "an earlier version keeps the annotation");
}

/// The API server accepts times that a `Timestamp` can't represent.
#[tokio::test]
async fn lease_with_a_renew_time_out_of_range_counts_as_not_renewed() {
    let holder = read_holder(serde_json::json!({
        "metadata": { "name": "hpa-controller", "namespace": "kube-system" },
        "spec": {
            "holderIdentity": "a_1", "leaseDurationSeconds": 15,
            "renewTime": "9999-12-31T23:59:59.999999Z",
        },
    }));
    let holder = holder.await;
    assert_eq!((&*holder.identity, holder.renewed), ("a_1", None));
    assert!(holder.is_expired());
    assert_eq!(
        holder.describe_expiry(),
        "the time of the last renewal of the lease kube-system/hpa-controller can't be read"
    );
}

#[tokio::test]
async fn times_of_a_holder_with_a_wrong_clock_are_corrected() {
    let (ahead, behind) = (
        Some(": its clock is 10m ahead of that of the API server"),
        Some(": its clock is 20s behind that of the API server"),
    );
    let stored = "2026-01-31T12:00:00Z".parse::<Timestamp>().unwrap();
    for (seconds, expected) in [(600, ahead), (-20, behind), (-4, None), (0, None)] {
        let by_holder = stored + SignedDuration::from_secs(seconds);
        let holder = read_holder(serde_json::json!({
            "metadata": { "managedFields": [
                { "time": stored.to_string(), "fieldsV1": { "f:spec": { "f:renewTime": {} } } },
                { "time": "2026-02-01T00:00:00Z", "fieldsV1": { "f:metadata": {} } },
            ] },
            "spec": {
                "holderIdentity": "a_1", "acquireTime": by_holder.to_string(),
                "renewTime": by_holder.to_string(),
            },
        }));
        let holder = holder.await;
        let time = if expected.is_some() { stored } else { by_holder };
        assert_eq!((holder.acquired, holder.renewed), (Some(time), Some(time)));
        let clause = describe_wrong_clock(holder.clock_lead);
        let expected = expected.map(|end| format!("the controller misjudges times{end}"));
        assert_eq!(clause, expected);
    }
}

#[tokio::test]
async fn lease_is_judged_by_the_time_at_which_it_was_read() {
    let read = read_holder(serde_json::json!({
        "metadata": {}, "spec": { "holderIdentity": "a_1" },
    }));
    let read = read.await;
    let duration = SignedDuration::from_secs(15);
    for (age, expected) in [
        (Some(-5), None),
        (Some(15), None),
        (Some(16), Some(" for 16s")),
        (Some(200), Some(" for 3m")),
        (Some(7500), Some(" for 2h 5m")),
        (None, Some(" yet")),
    ] {
        let renewed = age.map(|age| read.requested_at - SignedDuration::from_secs(age));
        let holder = LeaseHolder { renewed, duration, ..read.clone() };
        let expiry = holder.is_expired().then(|| holder.describe_expiry());
        let start = "no controller has renewed the lease kube-system/hpa-controller";
        assert_eq!(expiry, expected.map(|end| [start, end].concat()));
    }
}

/// The port of the metrics, for example.
#[tokio::test]
async fn server_of_something_else_is_reported_as_such() {
    let client = answering_client(|_| (404, Value::Null));
    let client = debug_client(client, None, "http://127.0.0.1:1");
    let error = client.status().await.expect_err("no status").to_string();
    assert_eq!(error, "http://127.0.0.1:1 serves something other than the debug API");
}

/// A server whose pages all have the same autoscaler and name another page.
#[tokio::test]
async fn list_of_a_hostile_debug_api_ends() {
    let request_count = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let requests = request_count.clone();
    let answer = move |_: &str| {
        let index = requests.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let list = serde_json::json!({
            "now": "2026-01-31T12:00:00Z", "continue": format!("token-{index}"),
            "items": [{
                "api": "core", "namespace": "shop", "name": "web", "uid": "u", "isFailing": false,
            }],
        });
        (200, list)
    };
    let client = answering_api(answer, "pod eve/fake-0");
    let error = client.autoscalers().await.expect_err("the list has no end").to_string();
    let expected = "the debug API can't be reached: pod eve/fake-0: the list of autoscalers has no \
                    end: a page has no new autoscaler";
    assert_eq!(error, expected);
    assert_eq!(request_count.load(std::sync::atomic::Ordering::Relaxed), 2);
}

/// The document about an instance whose workers don't run.
pub(crate) fn status_document() -> Value {
    serde_json::json!({
        "build": { "version": "0.1.0", "revision": "6f7a8b9c0d", "date": "unknown" },
        "now": "2026-01-31T12:00:00Z", "isLeader": true, "isWorking": false, "dryRun": false,
        "syncPeriodSeconds": 15.0,
        "settings": {
            "tolerance": 0.1, "downscaleStabilizationSeconds": 300.0,
            "cpuInitializationPeriodSeconds": 300.0, "initialReadinessDelaySeconds": 30.0,
            "scaleToZero": true,
        },
        "queue": { "due": 0, "queued": 1, "inProgress": 0, "longestRunningSeconds": 0.2 },
        "cacheAgesSeconds": {}, "undecodableObjects": 0, "historyUnsavedSeconds": 0.0,
        "autoscalers": 1, "failing": 0,
        "decisionMemory": { "limitBytes": 1, "usedBytes": 0, "perAutoscalerBytes": 1 },
    })
}

/// The caller then reads the autoscalers' events, which name the overwritten ones.
#[rstest]
#[case::some_are_overwritten(1, true)]
#[case::none_is_overwritten(0, false)]
#[tokio::test]
async fn unreadable_list_lacks_the_overwritten_autoscalers(
    #[case] overwritten: u32,
    #[case] expected: bool,
) {
    let answer = move |path: &str| {
        let mut document = status_document();
        document["overwritten"] = overwritten.into();
        (if path.ends_with("/autoscalers") { 500 } else { 200 }, document)
    };
    let client = answering_api(answer, "pod scaling/hpa-1");
    let instance = client.instance().await.expect("an instance");
    assert_eq!(instance.lacks_overwritten_autoscalers(), expected);
}

/// The stored statuses lack these causes.
#[tokio::test]
async fn activities_have_the_causes_of_the_last_decisions() {
    let pods = UnschedulablePods { count: 3, total: 9 };
    let answer = move |path: &str| {
        let now = "2026-01-31T12:00:00Z";
        let document = if path.ends_with("/autoscalers") {
            serde_json::json!({ "now": now, "items": [{
                "api": "core", "namespace": "shop", "name": "web", "uid": "u", "isFailing": false,
                "lastReconcileSecondsAgo": 5.0,
                "last": { "from": now, "until": now, "count": 1, "decision": {
                    "currentReplicas": 9, "desiredReplicas": 9, "reason": "maxReplicas",
                    "sentence": "maxReplicas is 9", "unschedulablePods": pods,
                } },
            }] })
        } else {
            status_document()
        };
        (200, document)
    };
    let client = answering_api(answer, "pod scaling/hpa-1");
    let activities = client.instance().await.expect("an instance").activities();
    let activity = &activities["shop/web"];
    assert_eq!(activity.last_decision.as_deref(), Some("maxReplicas is 9"));
    assert_eq!((activity.unschedulable_pods, activity.overwritten_scalings), (Some(pods), None));
}
