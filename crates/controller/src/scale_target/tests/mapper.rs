use std::time::Duration;

use rstest::rstest;
use serde_json::{Value, json};
use tokio::time::{advance, sleep};

use super::Server;
use crate::scale_target::{GroupKind, Mapping, parse_api_version};

fn widget_resources() -> Value {
    json!([
        {"name": "widgets", "kind": "Widget", "namespaced": true},
        {"name": "widgets/scale", "kind": "Scale", "namespaced": true},
        {"name": "racks", "kind": "Rack", "namespaced": false},
    ])
}

fn kind(group: &str, kind: &str) -> GroupKind {
    GroupKind { group: group.to_owned(), kind: kind.to_owned() }
}

fn descriptions(mappings: &[Mapping]) -> Vec<String> {
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
fn api_version_splits_into_group_and_version(
    #[case] text: &str,
    #[case] expected: Result<(&str, &str), &str>,
) {
    assert_eq!(
        parse_api_version(text).map_err(|error| error.to_string()),
        expected.map_err(str::to_owned)
    );
}

#[tokio::test(start_paused = true)]
async fn kind_is_mapped_in_all_versions_preferred_first() {
    let server = Server::default();
    server.serve_group(
        "example.com",
        "v1",
        &[("v2alpha1", widget_resources()), ("v1", widget_resources())],
    );
    let mapper = server.mapper();
    let mappings = mapper.mappings(&kind("example.com", "Widget")).await.unwrap();
    assert_eq!(
        descriptions(&mappings),
        ["widgets.example.com/v1 namespaced", "widgets.example.com/v2alpha1 namespaced"]
    );
    assert_eq!(server.take_requests().len(), 3);
    // The cached group also has the other kind, and finds it in lower case.
    let racks = mapper.mappings(&kind("example.com", "rack")).await.unwrap();
    assert_eq!(
        descriptions(&racks),
        ["racks.example.com/v1 cluster", "racks.example.com/v2alpha1 cluster"]
    );
    assert!(server.take_requests().is_empty());
}

#[tokio::test(start_paused = true)]
async fn null_in_discovery_is_an_absent_field() {
    let server = Server::default();
    let rack = json!({"name": "racks", "kind": "Rack", "namespaced": null, "verbs": null});
    let nameless = json!({"name": null, "kind": "Rack", "namespaced": true});
    server.serve_group(
        "example.com",
        "v2",
        &[("v1", json!([nameless, rack])), ("v2", Value::Null)],
    );
    server.respond("/apis/none.example", 200, json!({"kind": "APIGroup", "versions": null}));
    let mapper = server.mapper();
    let racks = mapper.mappings(&kind("example.com", "Rack")).await.unwrap();
    assert_eq!(descriptions(&racks), ["racks.example.com/v1 cluster"]);
    for group in ["example.com", "none.example"] {
        let error = mapper.mappings(&kind(group, "Widget")).await.unwrap_err();
        let expected = format!("no matches for kind \"Widget\" in group \"{group}\"");
        assert_eq!(error.to_string(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn core_group_is_mapped() {
    let server = Server::default();
    let resource = json!({
        "name": "replicationcontrollers",
        "kind": "ReplicationController",
        "namespaced": true,
    });
    server.respond("/api", 200, json!({"versions": ["v1"]}));
    server.respond("/api/v1", 200, json!({"resources": [resource]}));
    let mappings = server.mapper().mappings(&kind("", "ReplicationController")).await.unwrap();
    assert_eq!(descriptions(&mappings), ["replicationcontrollers/v1 namespaced"]);
}

#[tokio::test(start_paused = true)]
async fn unknown_kind_is_discovered_again_after_the_refresh_interval() {
    let server = Server::default();
    let mapper = server.mapper();
    let widget = kind("example.com", "Widget");
    for _ in 0..5 {
        let error = mapper.mappings(&widget).await.unwrap_err();
        assert_eq!(error.to_string(), r#"no matches for kind "Widget" in group "example.com""#);
    }
    assert_eq!(server.take_requests(), ["GET /apis/example.com"]);
    server.serve_group("example.com", "v1", &[("v1", widget_resources())]);
    advance(Duration::from_secs(10)).await;
    assert_eq!(mapper.mappings(&widget).await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn concurrent_lookups_share_one_discovery() {
    let server = Server::default();
    server.serve_group("example.com", "v1", &[("v1", widget_resources())]);
    server.delay(Duration::from_secs(1));
    let mapper = server.mapper();
    let (widget, rack) = (kind("example.com", "Widget"), kind("example.com", "Rack"));
    let (one, two, three) =
        tokio::join!(mapper.mappings(&widget), mapper.mappings(&widget), mapper.mappings(&rack));
    assert!(one.is_ok() && two.is_ok() && three.is_ok());
    assert_eq!(server.take_requests(), ["GET /apis/example.com", "GET /apis/example.com/v1"]);
}

#[tokio::test(start_paused = true)]
async fn dropped_lookup_does_not_block_later_ones() {
    let server = Server::default();
    server.serve_group("example.com", "v1", &[("v1", widget_resources())]);
    server.delay(Duration::from_secs(5));
    let mapper = server.mapper();
    let widget = kind("example.com", "Widget");
    assert!(tokio::time::timeout(Duration::from_secs(1), mapper.mappings(&widget)).await.is_err());
    sleep(Duration::from_secs(3600)).await;
    assert!(mapper.mappings(&widget).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn invalidated_group_is_discovered_again_after_the_refresh_interval() {
    let server = Server::default();
    server.serve_group("example.com", "v1", &[("v1", widget_resources())]);
    let mapper = server.mapper();
    let widget = kind("example.com", "Widget");
    mapper.mappings(&widget).await.unwrap();
    server.serve_group("example.com", "v2", &[("v2", widget_resources())]);
    server.take_requests();
    mapper.invalidate("example.com");
    assert_eq!(
        descriptions(&mapper.mappings(&widget).await.unwrap()),
        ["widgets.example.com/v1 namespaced"]
    );
    advance(Duration::from_secs(11)).await;
    assert_eq!(
        descriptions(&mapper.mappings(&widget).await.unwrap()),
        ["widgets.example.com/v2 namespaced"]
    );
    assert_eq!(server.take_requests().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn cached_mappings_survive_an_outage() {
    let server = Server::default();
    server.serve_group("example.com", "v1", &[("v1", widget_resources())]);
    let mapper = server.mapper();
    let widget = kind("example.com", "Widget");
    mapper.mappings(&widget).await.unwrap();
    server.respond("/apis/example.com", 503, "down");
    advance(Duration::from_secs(601)).await;
    assert!(mapper.mappings(&widget).await.is_ok());
    let error = mapper.mappings(&kind("example.com", "Other")).await.unwrap_err();
    assert_eq!(error.to_string(), "the server is currently unable to handle the request");
}

#[tokio::test(start_paused = true)]
async fn failing_version_does_not_hide_the_others() {
    let server = Server::default();
    server.serve_group("example.com", "v2", &[("v1", widget_resources()), ("v2", json!([]))]);
    server.respond("/apis/example.com/v2", 503, "down");
    let mapper = server.mapper();
    let mappings = mapper.mappings(&kind("example.com", "Widget")).await.unwrap();
    assert_eq!(descriptions(&mappings), ["widgets.example.com/v1 namespaced"]);
    assert!(mapper.mappings(&kind("example.com", "Other")).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn discovery_times_out() {
    let server = Server::default();
    server.delay(Duration::from_secs(60));
    let error = server.mapper().mappings(&kind("apps", "Deployment")).await.unwrap_err();
    // The timeout of 10 s, and as long again for the wait before the request is sent.
    let text = r#"Get "/apis/apps": context deadline exceeded: no response within 20s"#;
    assert_eq!(error.to_string(), text);
}

#[tokio::test(start_paused = true)]
async fn oversized_response_is_rejected() {
    let server = Server::default();
    server.serve_group("example.com", "v1", &[("v1", widget_resources())]);
    server.respond("/apis/example.com/v1", 200, " ".repeat(17 << 20));
    let error = server.mapper().mappings(&kind("example.com", "Widget")).await.unwrap_err();
    assert_eq!(error.to_string(), r#"Get "/apis/example.com/v1": length limit exceeded"#);
}
