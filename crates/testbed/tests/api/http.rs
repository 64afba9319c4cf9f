use futures::StreamExt;
use hpa_testbed::Testbed;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, Config,
    api::{DeleteParams, PostParams, WatchEvent, WatchParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::json;

use crate::support::pod;

#[tokio::test]
async fn kubeconfig_connects_to_the_server() {
    let testbed = Testbed::default();
    let (address, _server) = testbed.serve(([127, 0, 0, 1], 0).into()).await.unwrap();
    let kubeconfig = Kubeconfig::from_yaml(&Testbed::kubeconfig(address)).unwrap();
    let config =
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let api: Api<Pod> = Api::default_namespaced(Client::try_from(config).unwrap());
    let events =
        api.watch(&WatchParams::default(), &testbed.resource_version().to_string()).await.unwrap();
    let mut events = std::pin::pin!(events);
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
