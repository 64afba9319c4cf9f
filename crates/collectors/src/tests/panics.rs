//! Inputs on which the reference panics and ends its process.

use rstest::rstest;

use super::*;

#[rstest]
#[case::remainder_of_values("json-eval", "$.a % $.b")]
#[case::remainder("json-eval", "1 % 0")]
#[case::remainder_in_a_filter("json-key", "$.values[?(@ % 0 == 1)]")]
#[tokio::test]
async fn division_by_zero_in_a_pod_is_an_error_of_the_pod(
    #[case] key: &str,
    #[case] expression: &str,
) {
    let server = Server::start(|_| ok(r#"{"a": 1, "b": 0, "values": [3]}"#)).await;
    let port = server.address.port().to_string();
    let objects = with_pods(&[pod("a", "127.0.0.1")]);
    let plan = pod_plan(&[(key, expression), ("port", &port)]);
    let error = error(fetch(settings(), objects, &plan).await);
    assert!(error.contains("division by zero"), "{error}");
}

#[tokio::test]
async fn division_by_zero_at_an_endpoint_is_an_error() {
    let server = Server::start(|_| ok(r#"{"a": 1, "b": 0}"#)).await;
    let url = server.url("/");
    let plan = external("json-path", &[("endpoint", &url), ("json-eval", "$.a % $.b")]);
    let error = error(fetch(settings(), FakeCluster::default(), &plan).await);
    assert!(error.contains("division by zero"), "{error}");
}
