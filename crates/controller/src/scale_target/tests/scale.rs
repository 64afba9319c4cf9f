use std::time::Duration;

use futures::future::join_all;
use hpa_calc::api::{HorizontalPodAutoscaler, Scale};
use http::{Request, Response};
use kube::{Client, client::Body};
use rstest::rstest;
use serde_json::{Value, json};

use super::Server;
use crate::{
    k8s::{ClientLimits, Clients},
    scale_target::{Mapping, ScaleClient, ScaleError, TargetReader},
};

const SCALE: &str = "/apis/apps/v1/namespaces/shop/deployments/web/scale";

fn deployments(version: &str) -> Mapping {
    Mapping {
        group: "apps".into(),
        version: version.into(),
        kind: "Deployment".into(),
        resource: "deployments".into(),
        namespaced: true,
    }
}

fn scale_object() -> Value {
    json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale",
        "metadata": {"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "41"},
        "spec": {"replicas": 3},
        "status": {"replicas": 2, "selector": "app=web"}
    })
}

fn scale_client(server: &Server) -> ScaleClient {
    ScaleClient::new(server.client(), Duration::from_secs(5))
}

/// A client with a request timeout of 10 s, as by default.
fn scale_client_with_limits(server: &Server) -> ScaleClient {
    let client = server.client();
    let service = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        async move { client.send(request).await }
    });
    let request_timeout = Duration::from_secs(10);
    let limits = ClientLimits { request_timeout, ..ClientLimits::default() };
    ScaleClient::new(Clients::from_service(service, &limits).api, request_timeout)
}

#[tokio::test(start_paused = true)]
async fn scale_is_written_with_the_uid_and_version_read() {
    let server = Server::default();
    server.respond(SCALE, 200, scale_object());
    let scales = scale_client(&server);
    let read = scales.get("shop", &deployments("v1"), "web").await.unwrap();
    assert_eq!((read.scale.spec_replicas, read.scale.status_replicas), (3, 2));
    assert_eq!(
        (read.scale.selector.as_str(), read.resource_version.as_str(), read.uid.as_str()),
        ("app=web", "41", "u")
    );
    scales.update("shop", &deployments("v1"), "web", &read, 7).await.unwrap();
    let mut expected = scale_object();
    expected["spec"]["replicas"] = json!(7);
    assert_eq!(server.0.lock().bodies, [expected]);
    assert_eq!(server.take_requests(), [format!("GET {SCALE}"), format!("PUT {SCALE}")]);
}

#[tokio::test(start_paused = true)]
async fn missing_fields_of_a_scale_are_zero() {
    let server = Server::default();
    server.respond(SCALE, 200, json!({"kind": "Scale", "metadata": {}, "spec": null}));
    let scales = scale_client(&server);
    let read = scales.get("shop", &deployments("v1"), "web").await.unwrap();
    assert_eq!(read.scale, Scale::default());
    scales.update("shop", &deployments("v1"), "web", &read, 1).await.unwrap();
    assert_eq!(server.0.lock().bodies[0]["spec"], json!({"replicas": 1}));
}

fn status(code: u16, reason: &str, message: &str, name: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code,
           "reason": reason, "message": message, "details": {"name": name, "kind": "deployments"}})
}

#[rstest]
#[case(
    404,
    status(404, "NotFound", r#"deployments.apps "web" not found"#, "web"),
    "NotFound",
    r#"deployments.apps "web" not found"#
)]
#[case(
    404,
    status(404, "NotFound", "the server could not find the requested resource", ""),
    "NotServed",
    "the server could not find the requested resource"
)]
#[case(404, json!("404 page not found"), "NotServed",
       "the server could not find the requested resource (get deployments web)")]
#[case(
    409,
    status(409, "Conflict", "the object has been modified", "web"),
    "Conflict",
    "the object has been modified"
)]
#[case(
    403,
    status(403, "Forbidden", "deployments.apps \"web\" is forbidden", "web"),
    "Request",
    "deployments.apps \"web\" is forbidden"
)]
#[case(
    500,
    json!("boom"),
    "Request",
    "an error on the server (\"boom\") has prevented the request from succeeding \
     (get deployments web)"
)]
#[case(
    418,
    json!("teapot"),
    "Request",
    "the server responded with the status code 418 but did not return more information \
     (get deployments web)"
)]
#[case(200, json!("no object"), "Request", "unable to decode the response")]
#[tokio::test(start_paused = true)]
async fn errors_print_as_in_the_reference(
    #[case] code: u16,
    #[case] body: Value,
    #[case] variant: &str,
    #[case] text: &str,
) {
    let server = Server::default();
    match body {
        Value::String(body) => server.respond(SCALE, code, body),
        body => server.respond(SCALE, code, body),
    };
    let error = scale_client(&server).get("shop", &deployments("v1"), "web").await.unwrap_err();
    assert!(format!("{error:?}").starts_with(variant), "{error:?}");
    assert!(error.to_string().starts_with(text), "{error}");
}

#[tokio::test(start_paused = true)]
async fn scale_request_times_out() {
    let server = Server::default();
    server.delay(Duration::from_secs(60));
    let error = scale_client(&server).get("shop", &deployments("v1"), "web").await.unwrap_err();
    // The timeout of 5 s, and as long again for the wait before the request is sent.
    assert_eq!(error.to_string(), format!("Get {SCALE:?}: {}", no_response_within("10s")));
}

fn no_response_within(limit: &str) -> String {
    format!("context deadline exceeded: no response within {limit}")
}

#[tokio::test(start_paused = true)]
async fn write_waits_longer_than_a_read_for_admission_webhooks() {
    let server = Server::default();
    server.respond(SCALE, 200, scale_object());
    let (scales, mapping) = (scale_client_with_limits(&server), deployments("v1"));
    let read = scales.get("shop", &mapping, "web").await.unwrap();
    server.delay(Duration::from_secs(30));
    scales.update("shop", &mapping, "web", &read, 7).await.unwrap();
    let error = scales.get("shop", &mapping, "web").await.unwrap_err();
    assert_eq!(error.to_string(), format!("Get {SCALE:?}: {}", no_response_within("10s")));
    server.delay(Duration::from_secs(60));
    let error = scales.update("shop", &mapping, "web", &read, 7).await.unwrap_err();
    assert_eq!(error.to_string(), format!("Put {SCALE:?}: {}", no_response_within("35s")));
}

#[tokio::test(start_paused = true)]
async fn hanging_writes_of_a_namespace_are_limited() {
    let server = Server::default();
    server.respond(SCALE, 200, scale_object());
    let (scales, mapping) = (scale_client_with_limits(&server), deployments("v1"));
    let read = scales.get("shop", &mapping, "web").await.unwrap();
    server.delay(Duration::from_secs(60));
    let writes = (0..17).map(|_| scales.update("shop", &mapping, "web", &read, 7));
    let errors = join_all(writes).await.into_iter().map(Result::unwrap_err);
    let is_refusal: Vec<_> = errors.map(|error| error.is_refusal()).collect();
    assert_eq!(is_refusal, [vec![false; 16], vec![true]].concat(), "the last one is not sent");
}

#[tokio::test(start_paused = true)]
async fn error_names_the_cause_if_the_server_is_unreachable() {
    let refused = || std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
    let service =
        tower::service_fn(
            move |_: Request<Body>| async move { Err::<Response<Body>, _>(refused()) },
        );
    let scales = ScaleClient::new(Client::new(service, "default"), Duration::from_secs(5));
    let error = scales.get("shop", &deployments("v1"), "web").await.unwrap_err();
    assert_eq!(error.to_string(), format!(r#"Get "{SCALE}": connection refused"#));
}

#[tokio::test(start_paused = true)]
async fn scale_of_the_first_mapping_that_works_or_the_first_error_is_returned() {
    let server = Server::default();
    server.respond("/apis/apps/v1beta1/namespaces/shop/deployments/web/scale", 200, scale_object());
    let mappings = [deployments("v1"), deployments("v1beta1")];
    let (_, mapping) =
        scale_client(&server).get_first_served("shop", &mappings, "web").await.unwrap();
    assert_eq!(&*mapping.version, "v1beta1");
    server.take_requests();

    let gone = status(404, "NotFound", r#"deployments.apps "web" not found"#, "web");
    server.respond(SCALE, 404, gone);
    let error = scale_client(&server).get_first_served("shop", &mappings, "web").await.unwrap_err();
    assert_eq!(error.to_string(), r#"deployments.apps "web" not found"#);
    assert_eq!(server.take_requests().len(), 1);

    let error = scale_client(&server).get_first_served("shop", &[], "web").await.unwrap_err();
    assert_eq!(error.to_string(), "unrecognized resource");
}

#[rstest]
#[case("..")]
#[case("")]
#[case("a/b")]
#[tokio::test(start_paused = true)]
async fn name_that_would_change_the_path_is_rejected(#[case] name: &str) {
    let server = Server::default();
    let error = scale_client(&server).get("shop", &deployments("v1"), name).await.unwrap_err();
    assert!(matches!(error, ScaleError::InvalidName(_)));
    assert!(server.take_requests().is_empty());
}

#[tokio::test(start_paused = true)]
async fn replica_failure_is_the_cause_in_the_condition() {
    let server = Server::default();
    let condition = |status: &str| {
        json!({ "status": { "conditions": [
            { "type": "Available", "status": "True", "message": "available" },
            { "type": "ReplicaFailure", "status": status, "reason": "FailedCreate",
                "message": "pods \"web-1\" is forbidden: exceeded quota: pods" },
        ] } })
    };
    let scales = scale_client(&server);
    let path = SCALE.trim_end_matches("/scale");
    for (status, expected) in [("True", Some("exceeded quota: pods")), ("False", None)] {
        server.respond(path, 200, condition(status));
        let read = scales.replica_failure("shop", &deployments("v1"), "web").await.unwrap();
        assert_eq!(read.as_deref(), expected);
    }
    assert_eq!(server.take_requests().last().map(String::as_str), Some(&*format!("GET {path}")));
}

#[tokio::test(start_paused = true)]
async fn replica_failure_is_read_from_the_resource_that_has_the_target() {
    let server = Server::default();
    let resource = |name: &str| json!({"name": name, "kind": "Rack", "namespaced": true});
    let resources = json!([resource("racks"), resource("shelves")]);
    server.serve_group("example.com", "v1", &[("v1", resources)]);
    let condition = json!({"type": "ReplicaFailure", "status": "True", "message": "no quota"});
    let target = json!({"status": {"conditions": [condition]}});
    server.respond("/apis/example.com/v1/namespaces/shop/shelves/web", 200, target);
    let mut hpa = HorizontalPodAutoscaler::default();
    hpa.metadata.namespace = "shop".to_owned();
    let target = &mut hpa.spec.scale_target_ref;
    target.api_version = "example.com/v1".to_owned();
    target.kind = "Rack".to_owned();
    target.name = "web".to_owned();
    let scale = Scale { spec_replicas: 1, ..Scale::default() };
    let reader = TargetReader::new(&server.client(), Duration::from_secs(5));
    assert_eq!(reader.replica_failure(&hpa, &scale).await.as_deref(), Some("no quota"));
}
