use std::{collections::BTreeMap, convert::Infallible, sync::Arc, time::Duration};

use http::{Request, Response};
use http_body_util::BodyExt;
use kube::{Client, client::Body};
use parking_lot::Mutex;
use rstest::rstest;
use serde_json::{Value, json};
use tokio::time::{advance, sleep};

use super::{
    GroupKind, MapperConfig, Mapping, RestMapper, ScaleClient, ScaleError, parse_api_version,
};

/// An API server of fixed answers that records what it was asked.
#[derive(Clone, Default)]
struct Server(Arc<Mutex<Script>>);

#[derive(Default)]
struct Script {
    answers: BTreeMap<String, (u16, String)>,
    delay: Duration,
    asked: Vec<String>,
    bodies: Vec<Value>,
}

impl Server {
    fn answer(&self, path: &str, code: u16, body: impl std::fmt::Display) -> &Self {
        self.0.lock().answers.insert(path.to_owned(), (code, body.to_string()));
        self
    }

    fn delay(&self, delay: Duration) {
        self.0.lock().delay = delay;
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().asked)
    }

    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let asked = format!("{} {}", request.method(), request.uri().path());
                let path = request.uri().path().to_owned();
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let (delay, answer) = {
                    let mut script = server.0.lock();
                    script.asked.push(asked);
                    script.bodies.extend(serde_json::from_slice::<Value>(&body).ok());
                    (script.delay, script.answers.get(&path).cloned())
                };
                sleep(delay).await;
                let (code, body) = answer.unwrap_or((404, "404 page not found".to_owned()));
                let kind = if body.starts_with('{') {
                    "application/json"
                } else {
                    "text/plain; charset=utf-8"
                };
                let response = Response::builder().status(code).header("content-type", kind);
                Ok::<_, Infallible>(response.body(Body::from(body.into_bytes())).unwrap())
            }
        });
        Client::new(service, "default")
    }

    fn mapper(&self) -> RestMapper {
        RestMapper::new(self.client(), MapperConfig::default())
    }

    fn serve_group(&self, group: &str, preferred: &str, versions: &[(&str, Value)]) {
        let listed: Vec<Value> =
            versions.iter().map(|(version, _)| json!({"version": version})).collect();
        let body = json!({"kind": "APIGroup", "versions": listed, "preferredVersion": {"version": preferred}});
        self.answer(&format!("/apis/{group}"), 200, body);
        for (version, resources) in versions {
            let list = json!({"kind": "APIResourceList", "resources": resources});
            self.answer(&format!("/apis/{group}/{version}"), 200, list);
        }
    }
}

fn widgets() -> Value {
    json!([
        {"name": "widgets", "kind": "Widget", "namespaced": true},
        {"name": "widgets/scale", "kind": "Scale", "namespaced": true},
        {"name": "racks", "kind": "Rack", "namespaced": false},
    ])
}

fn kind(group: &str, kind: &str) -> GroupKind {
    GroupKind { group: group.to_owned(), kind: kind.to_owned() }
}

fn described(mappings: &[Mapping]) -> Vec<String> {
    let scope = |mapping: &Mapping| if mapping.namespaced { "namespaced" } else { "cluster" };
    mappings
        .iter()
        .map(|mapping| format!("{mapping}/{} {}", mapping.version, scope(mapping)))
        .collect()
}

#[rstest]
#[case("v1", Ok(("", "v1")))]
#[case("apps/v1", Ok(("apps", "v1")))]
#[case("", Ok(("", "")))]
#[case("/", Ok(("", "")))]
#[case("a/b/c", Err("unexpected GroupVersion string: a/b/c"))]
fn api_versions_parse(#[case] text: &str, #[case] expected: Result<(&str, &str), &str>) {
    assert_eq!(
        parse_api_version(text).map_err(|error| error.to_string()),
        expected.map_err(str::to_owned)
    );
}

#[tokio::test(start_paused = true)]
async fn maps_a_kind_in_all_versions_preferred_first() {
    let server = Server::default();
    server.serve_group("example.com", "v1", &[("v2alpha1", widgets()), ("v1", widgets())]);
    let mapper = server.mapper();
    let mappings = mapper.mappings(&kind("example.com", "Widget")).await.unwrap();
    assert_eq!(
        described(&mappings),
        ["widgets.example.com/v1 namespaced", "widgets.example.com/v2alpha1 namespaced"]
    );
    assert_eq!(server.asked().len(), 3);
    // Remembered, for other kinds of the group too, and in lower case.
    let racks = mapper.mappings(&kind("example.com", "rack")).await.unwrap();
    assert_eq!(
        described(&racks),
        ["racks.example.com/v1 cluster", "racks.example.com/v2alpha1 cluster"]
    );
    assert!(server.asked().is_empty());
}

#[tokio::test(start_paused = true)]
async fn maps_the_core_group() {
    let server = Server::default();
    let resource = json!({"name": "replicationcontrollers", "kind": "ReplicationController", "namespaced": true});
    server.answer("/api", 200, json!({"versions": ["v1"]}));
    server.answer("/api/v1", 200, json!({"resources": [resource]}));
    let mappings = server.mapper().mappings(&kind("", "ReplicationController")).await.unwrap();
    assert_eq!(described(&mappings), ["replicationcontrollers/v1 namespaced"]);
}

#[tokio::test(start_paused = true)]
async fn a_kind_installed_later_is_found_soon_and_misses_do_not_flood() {
    let server = Server::default();
    let mapper = server.mapper();
    let widget = kind("example.com", "Widget");
    for _ in 0..5 {
        let error = mapper.mappings(&widget).await.unwrap_err();
        assert_eq!(error.to_string(), r#"no matches for kind "Widget" in group "example.com""#);
    }
    assert_eq!(server.asked(), ["GET /apis/example.com"]);
    server.serve_group("example.com", "v1", &[("v1", widgets())]);
    advance(Duration::from_secs(10)).await;
    assert_eq!(mapper.mappings(&widget).await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn lookups_at_the_same_time_share_the_requests() {
    let server = Server::default();
    server.serve_group("example.com", "v1", &[("v1", widgets())]);
    server.delay(Duration::from_secs(1));
    let mapper = server.mapper();
    let (widget, rack) = (kind("example.com", "Widget"), kind("example.com", "Rack"));
    let (one, two, three) =
        tokio::join!(mapper.mappings(&widget), mapper.mappings(&widget), mapper.mappings(&rack));
    assert!(one.is_ok() && two.is_ok() && three.is_ok());
    assert_eq!(server.asked(), ["GET /apis/example.com", "GET /apis/example.com/v1"]);
}

#[tokio::test(start_paused = true)]
async fn a_lookup_that_is_dropped_leaves_nothing_behind() {
    let server = Server::default();
    server.serve_group("example.com", "v1", &[("v1", widgets())]);
    server.delay(Duration::from_secs(5));
    let mapper = server.mapper();
    let widget = kind("example.com", "Widget");
    assert!(tokio::time::timeout(Duration::from_secs(1), mapper.mappings(&widget)).await.is_err());
    sleep(Duration::from_secs(3600)).await;
    assert!(mapper.mappings(&widget).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_invalidated_group_is_asked_about_anew_but_not_at_once() {
    let server = Server::default();
    server.serve_group("example.com", "v1", &[("v1", widgets())]);
    let mapper = server.mapper();
    let widget = kind("example.com", "Widget");
    mapper.mappings(&widget).await.unwrap();
    server.serve_group("example.com", "v2", &[("v2", widgets())]);
    server.asked();
    mapper.invalidate("example.com");
    assert_eq!(
        described(&mapper.mappings(&widget).await.unwrap()),
        ["widgets.example.com/v1 namespaced"]
    );
    advance(Duration::from_secs(11)).await;
    assert_eq!(
        described(&mapper.mappings(&widget).await.unwrap()),
        ["widgets.example.com/v2 namespaced"]
    );
    assert_eq!(server.asked().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_is_known_survives_an_outage() {
    let server = Server::default();
    server.serve_group("example.com", "v1", &[("v1", widgets())]);
    let mapper = server.mapper();
    let widget = kind("example.com", "Widget");
    mapper.mappings(&widget).await.unwrap();
    server.answer("/apis/example.com", 503, "down");
    advance(Duration::from_secs(601)).await;
    assert!(mapper.mappings(&widget).await.is_ok());
    let error = mapper.mappings(&kind("example.com", "Other")).await.unwrap_err();
    assert_eq!(error.to_string(), "the server is currently unable to handle the request");
}

#[tokio::test(start_paused = true)]
async fn one_version_that_fails_does_not_hide_the_others() {
    let server = Server::default();
    server.serve_group("example.com", "v2", &[("v1", widgets()), ("v2", json!([]))]);
    server.answer("/apis/example.com/v2", 503, "down");
    let mapper = server.mapper();
    let mappings = mapper.mappings(&kind("example.com", "Widget")).await.unwrap();
    assert_eq!(described(&mappings), ["widgets.example.com/v1 namespaced"]);
    assert!(mapper.mappings(&kind("example.com", "Other")).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_request_that_hangs_ends() {
    let server = Server::default();
    server.delay(Duration::from_secs(60));
    let error = server.mapper().mappings(&kind("apps", "Deployment")).await.unwrap_err();
    assert_eq!(error.to_string(), r#"Get "/apis/apps": context deadline exceeded"#);
}

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

fn scales(server: &Server) -> ScaleClient {
    ScaleClient::new(server.client(), Duration::from_secs(5))
}

#[tokio::test(start_paused = true)]
async fn a_scale_is_written_bound_to_what_was_read() {
    let server = Server::default();
    server.answer(SCALE, 200, scale_object());
    let scales = scales(&server);
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
    assert_eq!(server.asked(), [format!("GET {SCALE}"), format!("PUT {SCALE}")]);
}

#[tokio::test(start_paused = true)]
async fn absent_fields_of_a_scale_are_zero() {
    let server = Server::default();
    server.answer(SCALE, 200, json!({"kind": "Scale", "metadata": {}, "spec": null}));
    let scales = scales(&server);
    let read = scales.get("shop", &deployments("v1"), "web").await.unwrap();
    assert_eq!(read.scale, hpa_calc::api::Scale::default());
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
#[case(500, json!("boom"), "Request",
       r#"an error on the server ("boom") has prevented the request from succeeding (get deployments web)"#)]
#[case(418, json!("teapot"), "Request",
       "the server responded with the status code 418 but did not return more information (get deployments web)")]
#[case(200, json!("no object"), "Request", "unable to decode the answer")]
#[tokio::test(start_paused = true)]
async fn errors_print_as_those_of_the_reference(
    #[case] code: u16,
    #[case] body: Value,
    #[case] variant: &str,
    #[case] text: &str,
) {
    let server = Server::default();
    match body {
        Value::String(body) => server.answer(SCALE, code, body),
        body => server.answer(SCALE, code, body),
    };
    let error = scales(&server).get("shop", &deployments("v1"), "web").await.unwrap_err();
    assert!(format!("{error:?}").starts_with(variant), "{error:?}");
    assert!(error.to_string().starts_with(text), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_scale_that_hangs_ends() {
    let server = Server::default();
    server.delay(Duration::from_secs(60));
    let error = scales(&server).get("shop", &deployments("v1"), "web").await.unwrap_err();
    assert_eq!(error.to_string(), format!(r#"Get "{SCALE}": context deadline exceeded"#));
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_server_is_told_with_its_cause() {
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
async fn the_first_mapping_that_works_is_taken_and_the_first_error_told() {
    let server = Server::default();
    server.answer("/apis/apps/v1beta1/namespaces/shop/deployments/web/scale", 200, scale_object());
    let mappings = [deployments("v1"), deployments("v1beta1")];
    let (_, mapping) = scales(&server).find("shop", &mappings, "web").await.unwrap();
    assert_eq!(&*mapping.version, "v1beta1");
    server.asked();

    let gone = status(404, "NotFound", r#"deployments.apps "web" not found"#, "web");
    server.answer(SCALE, 404, gone);
    let error = scales(&server).find("shop", &mappings, "web").await.unwrap_err();
    assert_eq!(error.to_string(), r#"deployments.apps "web" not found"#);
    assert_eq!(server.asked().len(), 1);

    let error = scales(&server).find("shop", &[], "web").await.unwrap_err();
    assert_eq!(error.to_string(), "unrecognized resource");
}

#[rstest]
#[case("..")]
#[case("")]
#[case("a/b")]
#[tokio::test(start_paused = true)]
async fn a_name_cannot_lead_elsewhere(#[case] name: &str) {
    let server = Server::default();
    let error = scales(&server).get("shop", &deployments("v1"), name).await.unwrap_err();
    assert!(matches!(error, ScaleError::InvalidName(_)));
    assert!(server.asked().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_bounds_is_not_read_to_its_end() {
    let server = Server::default();
    server.serve_group("example.com", "v1", &[("v1", widgets())]);
    server.answer("/apis/example.com/v1", 200, " ".repeat(17 << 20));
    let error = server.mapper().mappings(&kind("example.com", "Widget")).await.unwrap_err();
    assert_eq!(error.to_string(), r#"Get "/apis/example.com/v1": length limit exceeded"#);
}
