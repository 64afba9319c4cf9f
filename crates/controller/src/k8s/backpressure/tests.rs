use std::convert::Infallible;

use tower::service_fn;

use super::*;

/// The headers of a rejection by the API server's Priority and Fairness.
const REJECTION: &[(&str, &str)] = &[
    ("audit-id", "8af6bce8-cf1f-4137-a8d4-a8b9b5360511"),
    ("cache-control", "no-cache, private"),
    ("content-type", "text/plain; charset=utf-8"),
    ("x-kubernetes-pf-flowschema-uid", "a4668259-c52d-47d2-b90b-57b366763397"),
    ("x-kubernetes-pf-prioritylevel-uid", "56cbdbf4-40c9-499b-b4fb-545fdf1fe6b3"),
    ("content-length", "43"),
];

/// The headers that kube-apiserver 1.36 adds to a rejection by an aggregated API server.
const PASSED_THROUGH: &[(&str, &str)] = &[
    ("audit-id", "8af6bce8-cf1f-4137-a8d4-a8b9b5360511"),
    ("cache-control", "no-cache, private"),
    ("x-kubernetes-pf-flowschema-uid", "b0e5f3a1-0d0e-4d0f-8f0c-7a1d5a1e2b11"),
];

/// A Status object from a handler of the API server, or from an adapter.
const STATUS: &[(&str, &str)] = &[
    ("audit-id", "8af6bce8-cf1f-4137-a8d4-a8b9b5360511"),
    ("cache-control", "no-cache, private"),
    ("content-type", "application/json"),
    ("x-kubernetes-pf-flowschema-uid", "a4668259-c52d-47d2-b90b-57b366763397"),
    ("content-length", "43"),
];

const EXTERNAL: &str = "/apis/external.metrics.k8s.io/v1beta1/namespaces/ns/queue";
const RESOURCE: &str = "/apis/metrics.k8s.io/v1beta1/namespaces/ns/pods";
const CORE: &str = "/api/v1/pods";

fn layer() -> BackpressureLayer {
    BackpressureLayer { max_delay: Duration::from_secs(10), group_concurrency: 2 }
}

/// The seconds at which the requests for these paths reach the server. It answers the first request
/// with `status`, the others with 200, and all with `headers`. The others are sent at once after
/// the first response.
async fn arrival_seconds(
    status: u16,
    headers: &[(&'static str, &'static str)],
    paths: &[&str],
) -> Vec<u64> {
    let start = Instant::now();
    let times = Arc::new(Mutex::new(HashMap::new()));
    let (received, headers) = (times.clone(), headers.to_vec());
    let server = service_fn(move |request: Request<Body>| {
        let is_first = received.lock().is_empty();
        let index = request.headers()["index"].to_str().expect("a text").to_owned();
        received.lock().insert(index, start.elapsed().as_secs());
        let mut response = Response::builder().status(if is_first { status } else { 200 });
        for (name, value) in &headers {
            response = response.header(*name, *value);
        }
        async move { Ok::<_, Infallible>(response.body(()).expect("a response")) }
    });
    let mut service = layer().layer(server);
    let mut responses = Vec::new();
    for (index, path) in paths.iter().enumerate() {
        let request = Request::get(*path).header("index", index).body(Body::empty());
        let ready = service.ready().await.expect("ready");
        let response = ready.call(request.expect("a request"));
        if index == 0 {
            response.await.expect("a response");
        } else {
            responses.push(response);
        }
    }
    for response in futures::future::join_all(responses).await {
        response.expect("a response");
    }
    let times = times.lock();
    (0..paths.len()).map(|index| times[&index.to_string()]).collect()
}

fn with_retry_after(
    headers: &[(&'static str, &'static str)],
    retry_after: &'static str,
) -> Vec<(&'static str, &'static str)> {
    [headers, &[("retry-after", retry_after)]].concat()
}

#[tokio::test(start_paused = true)]
async fn requests_of_the_group_wait_for_retry_after() {
    for headers in [
        with_retry_after(STATUS, "3"),
        with_retry_after(&[REJECTION, PASSED_THROUGH].concat(), "3"),
    ] {
        let times =
            arrival_seconds(429, &headers, &[EXTERNAL, RESOURCE, EXTERNAL, CORE, EXTERNAL]).await;
        assert_eq!(times, [0, 0, 3, 0, 3], "{headers:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn all_requests_wait_after_a_rejection_by_priority_and_fairness() {
    let times = arrival_seconds(
        429,
        &with_retry_after(REJECTION, "3"),
        &[EXTERNAL, RESOURCE, EXTERNAL, CORE],
    )
    .await;
    assert_eq!(times, [0, 3, 3, 3]);
}

#[tokio::test(start_paused = true)]
async fn requests_wait_a_second_without_usable_retry_after() {
    assert_eq!(arrival_seconds(429, &[], &[CORE, CORE]).await, [0, 1]);
    let headers = [("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT")];
    assert_eq!(arrival_seconds(429, &headers, &[CORE, CORE]).await, [0, 1]);
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_limited_to_the_maximum_delay() {
    assert_eq!(arrival_seconds(429, &[("retry-after", "86400")], &[CORE, CORE]).await, [0, 10]);
}

#[tokio::test(start_paused = true)]
async fn other_errors_do_not_delay_requests() {
    assert_eq!(arrival_seconds(503, &[("retry-after", "3")], &[CORE, CORE]).await, [0, 0]);
}

/// Reads of single objects never get a response.
#[tokio::test(start_paused = true)]
async fn page_of_a_list_does_not_wait_for_reads() {
    const PAGE: &str = "/apis/external.metrics.k8s.io/v1beta1/queues?limit=250";
    let server = service_fn(|request: Request<Body>| async move {
        if request.uri().query().is_none() {
            std::future::pending::<()>().await;
        }
        Ok::<_, Infallible>(Response::new(()))
    });
    let mut service = layer().layer(server);
    let mut responses = Vec::new();
    for path in [EXTERNAL, EXTERNAL, EXTERNAL, EXTERNAL, PAGE] {
        let request = Request::get(path).body(Body::empty()).expect("a request");
        responses.push(service.ready().await.expect("ready").call(request));
    }
    let page = responses.pop().expect("a page");
    let reads = futures::future::join_all(responses);
    tokio::select! {
        _ = reads => panic!("a read got a response"),
        page = tokio::time::timeout(Duration::from_secs(1), page) => {
            page.expect("a response in time").expect("a response");
        }
    }
}

/// Requests for one group never get a response.
#[tokio::test(start_paused = true)]
async fn hanging_group_leaves_connections_to_other_groups() {
    let received: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = received.clone();
    let server = service_fn(move |request: Request<Body>| {
        let path = request.uri().path().to_owned();
        log.lock().push(path.clone());
        async move {
            if path == EXTERNAL {
                std::future::pending::<()>().await;
            }
            Ok::<_, Infallible>(Response::new(()))
        }
    });
    let server = tower::ServiceBuilder::new().concurrency_limit(4).service(server);
    let mut service = layer().layer(server);
    #[expect(clippy::async_yields_async, reason = "a test waits for the response later, or never")]
    let mut send = async |path: &str| {
        let request = Request::get(path).body(Body::empty()).expect("a request");
        let response = service.ready().await.expect("ready").call(request);
        tokio::spawn(response)
    };
    let mut hanging = Vec::new();
    for _ in 0..5 {
        hanging.push(send(EXTERNAL).await);
    }
    for path in [RESOURCE, CORE, RESOURCE] {
        let response = tokio::time::timeout(Duration::from_secs(1), send(path).await).await;
        response.expect("a response in time").expect("no panic").expect("a response");
    }
    let hanging_count = || received.lock().iter().filter(|path| *path == EXTERNAL).count();
    assert_eq!(hanging_count(), 2);
    // Two of them time out, and two others are sent.
    hanging.drain(..2).for_each(|request| request.abort());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(hanging_count(), 4);
}
