//! Requests over HTTP, with and without faults.

use std::pin::pin;

use futures::StreamExt;
use hpa_testbed::{Effect, Fault, Faults, Match, Restart, ServerHandle, Testbed};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, Config,
    api::{DeleteParams, ListParams, PostParams, WatchEvent, WatchParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use rstest::rstest;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::support::{PODS, faulty, pod};

/// A testbed that serves HTTP, and a client of it.
struct ServedTestbed {
    testbed: Testbed,
    address: std::net::SocketAddr,
    client: Client,
    _handle: ServerHandle,
}

async fn serve(faults: &Faults) -> ServedTestbed {
    let testbed = faulty(faults);
    let (address, handle) = testbed.serve(([127, 0, 0, 1], 0).into()).await.unwrap();
    let kubeconfig = Kubeconfig::from_yaml(&Testbed::kubeconfig(address)).unwrap();
    let config =
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    ServedTestbed { testbed, address, client: Client::try_from(config).unwrap(), _handle: handle }
}

/// Sends a GET, and returns all text that arrives until the connection is closed.
async fn response_text(address: std::net::SocketAddr, path: &str, agent: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "GET {path} HTTP/1.1\r\nhost: test\r\nuser-agent: {agent}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

#[tokio::test]
async fn objects_are_written_and_watched() {
    let served = serve(&Faults::new(0)).await;
    let api: Api<Pod> = Api::default_namespaced(served.client);
    let version = served.testbed.resource_version().to_string();
    let mut events = pin!(api.watch(&WatchParams::default(), &version).await.unwrap());
    let body = serde_json::from_value(pod("a", json!({}))).unwrap();
    api.create(&PostParams::default(), &body).await.unwrap();
    let event = events.next().await.unwrap().unwrap();
    assert!(
        matches!(&event, WatchEvent::Added(pod) if pod.metadata.name.as_deref() == Some("a")),
        "{event:?}"
    );
    let error = api.create(&PostParams::default(), &body).await.unwrap_err();
    assert!(matches!(&error, kube::Error::Api(status) if status.is_already_exists()), "{error}");
    api.delete("a", &DeleteParams::default()).await.unwrap();
    let event = events.next().await.unwrap().unwrap();
    assert!(matches!(event, WatchEvent::Deleted(_)), "{event:?}");
}

#[rstest]
#[case::before(false)]
#[case::after(true)]
#[tokio::test]
async fn connection_is_closed_without_a_response(#[case] applied: bool) {
    let faults = Faults::new(0);
    let id = faults.add(Fault::on(Match::any()).effect(Effect::Disconnect { applied }));
    let served = serve(&faults).await;
    let api: Api<Pod> = Api::default_namespaced(served.client.clone());
    let body = serde_json::from_value(pod("a", json!({}))).unwrap();
    let error = api.create(&PostParams::default(), &body).await.unwrap_err();
    assert!(!matches!(error, kube::Error::Api(_)), "{error:?}");
    assert_eq!(served.testbed.get("v1", "Pod", "default", "a").is_some(), applied);
    assert_eq!(faults.hits(id), 1);
    // Not even a status line.
    assert_eq!(response_text(served.address, PODS, "test").await, "");
}

#[tokio::test]
async fn clients_are_matched_by_user_agent() {
    let faults = Faults::new(0);
    faults.add(Fault::on(Match::any().client("controller")).effect(Effect::InternalError));
    let served = serve(&faults).await;
    for (agent, status) in
        [("controller/v1 (linux)", "HTTP/1.1 500"), ("kubectl/v1.37.0", "HTTP/1.1 200")]
    {
        let text = response_text(served.address, PODS, agent).await;
        assert!(text.starts_with(status), "{text}");
    }
}

#[tokio::test]
async fn retry_after_is_sent_as_header() {
    let faults = Faults::new(0);
    faults.add(
        Fault::on(Match::any()).effect(Effect::TooManyRequests { retry_after_seconds: Some(3) }),
    );
    let served = serve(&faults).await;
    let text = response_text(served.address, PODS, "test").await;
    assert!(text.contains("\r\nretry-after: 3\r\n"), "{text}");
}

#[tokio::test]
async fn stopped_server_closes_connections() {
    let served = serve(&Faults::new(0)).await;
    let api: Api<Pod> = Api::default_namespaced(served.client);
    let mut events = pin!(api.watch(&WatchParams::default(), "0").await.unwrap());
    served.testbed.stop();
    assert!(events.next().await.is_none());
    assert!(api.list(&ListParams::default()).await.is_err());
    served.testbed.start(Restart::Same);
    api.list(&ListParams::default()).await.unwrap();
}
