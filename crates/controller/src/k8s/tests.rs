use std::{
    convert::Infallible,
    io::Write,
    path::{Path, PathBuf},
    time::Duration,
};

use http::{Request, Response};
use http_body_util::{BodyExt, StreamBody};
use kube::{
    Client,
    client::{Body, ClientBuilder},
};
use rstest::rstest;
use tokio::time::{Instant, sleep};

use super::{
    client::{ClientConfig, ClientSource, Clients},
    limits::{RateLimit, RateLimitLayer, RequestTimeoutLayer},
    watch_throttle::WatchThrottleLayer,
};

fn request(path: &str) -> Request<Body> {
    Request::get(path).body(Body::empty()).unwrap()
}

/// A client with limits whose server answers after a delay.
fn slow_client(delay: Duration, rate: Option<RateLimit>) -> Client {
    let service = tower::service_fn(move |_: Request<Body>| async move {
        sleep(delay).await;
        Ok::<_, Infallible>(Response::new(Body::from(b"{}".to_vec())))
    });
    ClientBuilder::new(service, "default")
        .with_layer(&RequestTimeoutLayer(Duration::from_secs(10)))
        .with_layer(&tower::util::option_layer(rate.map(RateLimitLayer)))
        .build()
}

#[tokio::test(start_paused = true)]
async fn a_request_that_hangs_ends_and_so_does_a_watch_that_does_not_begin() {
    let client = slow_client(Duration::from_secs(60), None);
    let start = Instant::now();
    let error = client.send(request("/api/v1/pods?limit=1&watched=true")).await.unwrap_err();
    assert!(error.to_string().ends_with("context deadline exceeded"), "{error}");
    assert_eq!(start.elapsed(), Duration::from_secs(10));
    // The watcher's own timeout runs from the beginning of the answer only.
    let start = Instant::now();
    assert!(client.send(request("/api/v1/pods?limit=1&watch=true")).await.is_err());
    assert_eq!(start.elapsed(), Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_does_not_end_ends() {
    let service = tower::service_fn(|_: Request<Body>| async move {
        // The first frame of a body, again and again.
        let endless = futures::stream::unfold((), |()| async {
            sleep(Duration::from_secs(4)).await;
            Body::from(b"more".to_vec()).frame().await.map(|frame| (frame, ()))
        });
        Ok::<_, Infallible>(Response::new(StreamBody::new(Box::pin(endless))))
    });
    let layer = RequestTimeoutLayer(Duration::from_secs(10));
    let client = ClientBuilder::new(service, "default").with_layer(&layer).build();
    let start = Instant::now();
    let request = Request::get("/api/v1/pods").body(Vec::new()).unwrap();
    assert!(client.request_text(request).await.is_err());
    assert_eq!(start.elapsed(), Duration::from_secs(10));
    let watch = Request::get("/api/v1/pods?watch=1").body(Vec::new()).unwrap();
    assert!(
        tokio::time::timeout(Duration::from_secs(600), client.request_text(watch)).await.is_err()
    );
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_lets_a_burst_pass_and_holds_back_the_rest() {
    let client = slow_client(Duration::ZERO, Some(RateLimit { qps: 2.0, burst: 3 }));
    let start = Instant::now();
    let mut at = Vec::new();
    for _ in 0..6 {
        client.send(request("/api")).await.unwrap();
        at.push((start.elapsed().as_millis() + 5) / 10 * 10);
    }
    assert_eq!(at, [0, 0, 0, 500, 1000, 1500]);
    sleep(Duration::from_secs(60)).await;
    let start = Instant::now();
    for _ in 0..3 {
        client.send(request("/api")).await.unwrap();
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[rstest]
#[case(RateLimit { qps: 0.0, burst: 0 })]
#[case(RateLimit { qps: f64::NAN, burst: 0 })]
#[case(RateLimit { qps: -1.0, burst: 1 })]
#[tokio::test(start_paused = true)]
async fn a_rate_of_nothing_is_slow_but_not_wrong(#[case] rate: RateLimit) {
    let client = slow_client(Duration::ZERO, Some(rate));
    let start = Instant::now();
    client.send(request("/api")).await.unwrap();
    client.send(request("/api")).await.unwrap();
    assert_eq!(start.elapsed().as_secs(), 86_400);
}

const KUBECONFIG: &str = r"
apiVersion: v1
kind: Config
current-context: here
contexts:
- {name: here, context: {cluster: local, user: me}}
- {name: broken, context: {cluster: absent, user: me}}
- {name: locked, context: {cluster: local, user: key}}
clusters:
- {name: local, cluster: {server: 'https://api.example:6443'}}
users:
- {name: me, user: {token: hunter2}}
- {name: key, user: {client-certificate-data: aHVudGVyMg==, client-key-data: aHVudGVyMg==}}
";

async fn failure(path: &Path, context: Option<&str>) -> Option<String> {
    let source = ClientSource::Kubeconfig {
        path: Some(PathBuf::from(path)),
        context: context.map(str::to_owned),
    };
    let config = ClientConfig { source, ..ClientConfig::default() };
    let error = Clients::new(&config).await.err()?;
    let text = format!("{error} {error:?}");
    assert!(!text.contains("hunter2") && !text.contains("aHVudGVyMg"), "{text}");
    Some(error.to_string())
}

#[rstest]
#[case(KUBECONFIG, None, None)]
#[case(KUBECONFIG, Some("here"), None)]
#[case(KUBECONFIG, Some("gone"), Some(r#", context "gone": failed to load current context: gone"#))]
#[case(
    KUBECONFIG,
    Some("broken"),
    Some(r#", context "broken": failed to load the cluster of context: absent"#)
)]
#[case(KUBECONFIG, Some("locked"), Some(": the certificates or the key for TLS cannot be used"))]
#[case(
    "users:\n- {token: hunter2",
    None,
    Some(", current context: it is not valid YAML of a kubeconfig")
)]
#[tokio::test]
async fn a_kubeconfig_is_used_or_named_without_secrets(
    #[case] content: &str,
    #[case] context: Option<&str>,
    #[case] expected: Option<&str>,
) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(content.as_bytes()).unwrap();
    let failure = failure(file.path(), context).await;
    match (failure, expected) {
        (None, None) => {}
        (Some(failure), Some(expected)) => {
            assert!(failure.ends_with(expected), "{failure}");
            assert!(failure.contains(&file.path().display().to_string()), "{failure}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_missing_kubeconfig_is_named() {
    let failure = failure(Path::new("/nonexistent/kubeconfig"), None).await.unwrap();
    assert!(
        failure.starts_with("unable to use kubeconfig /nonexistent/kubeconfig, current context: "),
        "{failure}"
    );
}

#[tokio::test(start_paused = true)]
async fn watches_of_the_same_objects_keep_a_distance() {
    let service = tower::service_fn(|_: Request<Body>| async {
        Ok::<_, Infallible>(Response::new(Body::empty()))
    });
    let layer = WatchThrottleLayer(Duration::from_secs(1));
    let client = ClientBuilder::new(service, "default").with_layer(&layer).build();
    let start = Instant::now();
    for path in ["/pods?watch=true", "/others?watch=1", "/pods", "/pods?limit=1"] {
        client.send(request(path)).await.unwrap();
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
    for _ in 0..3 {
        client.send(request("/pods?watch=true")).await.unwrap();
    }
    assert!(start.elapsed() >= Duration::from_secs(3), "{:?}", start.elapsed());
    sleep(Duration::from_mins(1)).await;
    let after_pause = Instant::now();
    client.send(request("/pods?watch=true")).await.unwrap();
    assert_eq!(after_pause.elapsed(), Duration::ZERO);
}
