use std::{sync::Arc, time::Duration};

use hpa_calc::{
    api::ResourceName,
    readings::{MetricQuery, ReadError, Reading},
    selector::Selector,
};
use rstest::rstest;
use tokio::time::{Instant, advance};

use super::*;
use crate::{
    Coalescing, CoalescingSettings, MetricsClient, describe,
    test_support::{Reply, Server, kinds, object, pod, selector},
};

const GROUP: &str = "/apis/metrics.k8s.io";
const SETTINGS: ClientSettings = ClientSettings {
    request_timeout: Duration::from_secs(10),
    max_body_bytes: 4096,
    max_total_bytes: 1 << 20,
    version_lifetime: Duration::from_secs(15),
};

fn source(server: &Server) -> KubeMetricsClient {
    KubeMetricsClient::new(server.client(), SETTINGS)
}

fn client(server: &Server) -> impl MetricsClient {
    let settings = CoalescingSettings::for_sync_period(Duration::from_secs(15));
    Coalescing::new(source(server), kinds(), settings)
}

async fn cpu(server: &Server) -> Result<Reading, ReadError> {
    let query = MetricQuery::Resource { resource: ResourceName::Cpu, container: None };
    client(server).read("ns", &selector("app=web"), &query).await
}

fn pod_metrics(pods: &Selector) -> Query {
    Query::pod_usage("ns", pods)
}

fn is_group(uri: &str) -> bool {
    uri.matches('/').count() == 2
}

/// A server with every group in all its versions. Other requests get `reply`.
fn serving(reply: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Server {
    Server::new(move |uri| match uri {
        GROUP => Reply::group(&["v1", "v1beta1"]),
        _ if is_group(uri) => Reply::group(&["v1beta1", "v1beta2"]),
        _ => reply(uri),
    })
}

fn items(items: &[serde_json::Value]) -> Reply {
    Reply::json(serde_json::json!({ "items": items }).to_string())
}

#[tokio::test(start_paused = true)]
async fn usage_of_selected_pods_is_requested() {
    let server = serving(|_| items(&[pod("web-1", &[("app", "web")], "250m")]));
    let Ok(Reading::Pods(samples)) = cpu(&server).await else { panic!("no samples") };
    assert_eq!(samples.get("web-1").map(|sample| sample.value.as_milli()), Some(250));
    let list = "/apis/metrics.k8s.io/v1/namespaces/ns/pods?labelSelector=app%3Dweb";
    assert_eq!(server.take_requests(), [GROUP, list]);
}

#[rstest]
#[case(&["v1beta1", "v1"], Some("v1"))]
#[case(&["v1alpha1", "v1beta1"], Some("v1beta1"))]
#[case(&["v1alpha1"], None)]
#[tokio::test(start_paused = true)]
async fn preferred_known_version_is_requested(
    #[case] served: &'static [&'static str],
    #[case] requested: Option<&str>,
) {
    let server =
        Server::new(move |uri| if is_group(uri) { Reply::group(served) } else { items(&[]) });
    let read = source(&server).read(&pod_metrics(&Selector::everything())).await;
    match requested {
        Some(version) => {
            assert_eq!(
                server.take_requests(),
                [GROUP.to_owned(), format!("{GROUP}/{version}/namespaces/ns/pods")]
            );
        }
        None => {
            assert_eq!(read.unwrap_err().to_string(), "no known available metric versions found");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn versions_are_discovered_once_per_lifetime() {
    let server = serving(|_| items(&[]).with_delay(Duration::from_secs(1)));
    let source = source(&server);
    let discoveries = || server.take_requests().iter().filter(|uri| is_group(uri)).count();
    let [one, two] = ["app=one", "app=two"].map(|pods| pod_metrics(&selector(pods)));
    let (first, second) = tokio::join!(source.read(&one), source.read(&two));
    assert!(first.is_ok() && second.is_ok());
    assert_eq!(discoveries(), 1, "concurrent queries share a discovery");
    advance(Duration::from_secs(13)).await;
    source.read(&one).await.unwrap();
    assert_eq!(discoveries(), 0, "within the lifetime");
    advance(Duration::from_secs(2)).await;
    source.read(&one).await.unwrap();
    assert_eq!(discoveries(), 1, "after the lifetime");
}

#[tokio::test(start_paused = true)]
async fn failed_discovery_is_repeated_by_the_next_query() {
    let is_broken = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let fails = Arc::clone(&is_broken);
    let server = Server::new(move |uri| {
        if fails.load(std::sync::atomic::Ordering::Relaxed) {
            Reply::text(503, "service unavailable")
        } else if is_group(uri) {
            Reply::group(&["v1beta1"])
        } else {
            items(&[pod("web-1", &[], "1")])
        }
    });
    let error = cpu(&server).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "unable to fetch metrics from resource metrics API: \
         the server is currently unable to handle the request (get pods.metrics.k8s.io)"
    );
    is_broken.store(false, std::sync::atomic::Ordering::Relaxed);
    assert!(cpu(&server).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn object_paths_are_those_of_the_reference() {
    let server = serving(|_| Reply::json(r#"{"items":[{"value":"7"}]}"#));
    let (source, series) = (source(&server), selector("a=b"));
    for object in [
        object("v1", "Service", "front"),
        object("apps/v1", "Deployment", "main"),
        object("v1", "Namespace", "elsewhere"),
    ] {
        let (metric, metric_selector) = ("m".into(), series.clone());
        let query = MetricQuery::Object { object, metric, metric_selector };
        let request =
            Query::for_metric("ns", &Selector::everything(), &query, &kinds()).await.unwrap();
        source.read(&request).await.unwrap();
    }
    let query = MetricQuery::Pods { metric: "m".into(), metric_selector: Selector::everything() };
    source
        .read(&Query::for_metric("ns", &selector("app=web"), &query, &kinds()).await.unwrap())
        .await
        .unwrap();
    let base = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/ns";
    assert_eq!(
        server.take_requests(),
        [
            "/apis/custom.metrics.k8s.io".to_owned(),
            format!("{base}/services/front/m?metricLabelSelector=a%3Db"),
            format!("{base}/deployments.apps/main/m?metricLabelSelector=a%3Db"),
            format!("{base}/metrics/m?metricLabelSelector=a%3Db"),
            format!("{base}/pods/%2A/m?labelSelector=app%3Dweb"),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn usage_of_named_pods_and_of_nodes_is_requested_by_field() {
    let server = serving(|_| items(&[pod("web-1", &[], "1")]));
    let source = source(&server);
    let other = FieldRequirement {
        field: MetadataField::Namespace,
        must_equal: false,
        value: "kube-system".to_owned(),
    };
    let pods = Query::PodUsage {
        namespace: String::new(),
        pods: Objects::Named("web-1".to_owned()),
        fields: [other].into(),
    };
    let nodes =
        Query::NodeUsage { nodes: Objects::Selected(selector("zone=a")), fields: Box::default() };
    assert_eq!(source.read(&pods).await.unwrap().into_pods().unwrap().items.len(), 1);
    assert_eq!(source.read(&nodes).await.unwrap().into_nodes().unwrap().items.len(), 1);
    let fields = "metadata.name%3Dweb-1%2Cmetadata.namespace%21%3Dkube-system";
    assert_eq!(
        server.take_requests(),
        [
            GROUP.to_owned(),
            format!("{GROUP}/v1/pods?fieldSelector={fields}"),
            format!("{GROUP}/v1/nodes?labelSelector=zone%3Da"),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn external_metric_is_requested_in_lower_case_without_discovery() {
    let server = serving(|_| Reply::text(404, "404 page not found"));
    let query = MetricQuery::External {
        metric: "queueLength".into(),
        metric_selector: selector("queue in (a,b)"),
    };
    let error = client(&server).read("ns", &Selector::everything(), &query).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "unable to fetch metrics from external metrics API: \
         the server could not find the requested resource (get queueLength.external.metrics.k8s.io)"
    );
    let list = "/apis/external.metrics.k8s.io/v1beta1/namespaces/ns/queuelength\
                ?labelSelector=queue%20in%20%28a%2Cb%29";
    assert_eq!(server.take_requests(), [list]);
}

#[rstest]
#[case(
    "example.com/v1",
    "Queue",
    "unable to map kind Queue.example.com to resource: \
     no matches for kind \"Queue\" in group \"example.com\""
)]
#[case(
    "v1",
    "Queue",
    r#"unable to map kind Queue to resource: no matches for kind "Queue" in group """#
)]
#[case(
    "a/b/c",
    "Queue",
    r#"unable to map kind Queue to resource: no matches for kind "Queue" in group """#
)]
#[case(
    "slow/v1",
    "Queue",
    "unable to map kind Queue.slow to resource: context deadline exceeded: no response within 10s"
)]
#[tokio::test(start_paused = true)]
async fn unknown_kind_is_an_error(
    #[case] api_version: &str,
    #[case] kind: &str,
    #[case] message: &str,
) {
    let server = serving(|_| items(&[]));
    let metric_selector = Selector::everything();
    let query = MetricQuery::Object {
        object: object(api_version, kind, "q"),
        metric: "m".into(),
        metric_selector,
    };
    let error = client(&server).read("ns", &Selector::everything(), &query).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("unable to fetch metrics from custom metrics API: {message}")
    );
}

#[tokio::test(start_paused = true)]
async fn missing_api_is_an_error() {
    let server = Server::new(|_| Reply::text(404, "404 page not found"));
    let message = "unable to fetch metrics from resource metrics API: \
                   the server could not find the requested resource (get pods.metrics.k8s.io)";
    assert_eq!(cpu(&server).await.unwrap_err().to_string(), message);
    let query = MetricQuery::Pods { metric: "m".into(), metric_selector: Selector::everything() };
    let error = client(&server).read("ns", &selector("app=web"), &query).await.unwrap_err();
    let message = "unable to fetch metrics from custom metrics API: \
                   no custom metrics API (custom.metrics.k8s.io) registered";
    assert_eq!(error.to_string(), message);
}

#[rstest]
#[case(
    Reply {
        code: 404,
        ..Reply::json(r#"{"kind":"Status","status":"Failure","message":"not that one"}"#)
    },
    "not that one"
)]
#[case(
    Reply::json("{").with_delay(Duration::from_secs(11)),
    "context deadline exceeded: no response within 10s (get pods.metrics.k8s.io)"
)]
#[case(
    Reply::json("x".repeat(4097)),
    "the response is larger than 4096 bytes (get pods.metrics.k8s.io)"
)]
#[case(
    Reply::json("{"),
    "unexpected response (get pods.metrics.k8s.io): cannot decode PodMetricsList: \
     EOF while parsing an object at line 1 column 1"
)]
#[case(
    Reply { code: 500, ..Reply::json("x".repeat(4097)) },
    "an error on the server (\"unknown\") has prevented the request from succeeding \
     (get pods.metrics.k8s.io)"
)]
#[tokio::test(start_paused = true)]
async fn failure_has_its_message_and_is_not_retried(#[case] reply: Reply, #[case] message: &str) {
    let server = serving(move |_| reply.clone());
    let start = Instant::now();
    let error = cpu(&server).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("unable to fetch metrics from resource metrics API: {message}")
    );
    assert!(start.elapsed() <= Duration::from_millis(10_010), "{:?}", start.elapsed());
    assert_eq!(server.take_requests().len(), 2, "no retries");
}

#[tokio::test(start_paused = true)]
async fn large_body_of_an_http_error_is_not_its_message() {
    let message = "x".repeat(MAX_ERROR_BODY_BYTES);
    let status = serde_json::json!({ "kind": "Status", "status": "Failure", "message": message });
    let server = serving(move |_| Reply { code: 500, ..Reply::json(status.to_string()) });
    let source = KubeMetricsClient::new(server.client(), ClientSettings::default());
    let error = source.read(&pod_metrics(&Selector::everything())).await.unwrap_err();
    let expected = "an error on the server (\"unknown\") has prevented the request from succeeding \
                    (get pods.metrics.k8s.io)";
    assert_eq!(error.to_string(), expected);
}

#[tokio::test(start_paused = true)]
async fn connection_failure_is_an_error() {
    let service = tower::service_fn(|_: http::Request<Body>| async {
        Err::<http::Response<Body>, _>(std::io::Error::other(
            "connection refused by https://me:secret@host/x",
        ))
    });
    let client = kube::Client::new(service, "default");
    let source = KubeMetricsClient::new(client, SETTINGS);
    let error = source.read(&pod_metrics(&Selector::everything())).await.unwrap_err();
    let message = error.into_read_error(MetricsApi::Resource).to_string();
    assert_eq!(
        message,
        "unable to fetch metrics from resource metrics API: \
         request failed (get pods.metrics.k8s.io): \
         connection refused by https://host/x"
    );
}

#[tokio::test(start_paused = true)]
async fn timeout_of_the_client_has_the_text_of_every_timeout() {
    let service = tower::service_fn(|_: http::Request<Body>| async {
        tokio::time::sleep(SETTINGS.request_timeout).await;
        Err::<http::Response<Body>, _>(std::io::Error::other("no response within 10s"))
    });
    let source = KubeMetricsClient::new(kube::Client::new(service, "default"), SETTINGS);
    let error = source.read(&pod_metrics(&Selector::everything())).await.unwrap_err();
    let message = "context deadline exceeded: no response within 10s (get pods.metrics.k8s.io)";
    assert_eq!(describe(&error), message);
}

#[tokio::test(start_paused = true)]
async fn response_without_items_is_empty() {
    let server = serving(|_| items(&[]));
    assert_eq!(cpu(&server).await, Err(ReadError::Empty(MetricsApi::Resource)));
}
