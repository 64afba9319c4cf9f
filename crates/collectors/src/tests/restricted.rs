//! URLs of tenants must not lead to the operator's servers around a restriction.

use rstest::rstest;

use super::{
    ssrf::{Names, clients},
    *,
};

/// A response that the collectors `prometheus` and `json-path` can read. The value is 1.
const RESPONSE: &str =
    r#"{"status": "success", "data": {"resultType": "scalar", "result": [1, "1"]}, "v": 1}"#;

/// Settings in which the server is the operator's Prometheus, by the name `prometheus.test`. Only
/// one namespace has the permission to read it. `None` restricts queries by a label instead.
fn restricted(server: &Server, permitted_namespace: Option<&str>) -> Settings {
    let url = format!("http://prometheus.test:{}", server.port());
    let prometheus = Client::new(ServerSettings::new("p", &url).unwrap(), Arc::new(())).unwrap();
    let mut settings = Settings { prometheus: Some(prometheus), ..settings() };
    let hosts = ["127.0.0.1", "::ffff:127.0.0.1", "alias.test", "prometheus.test"];
    settings.policy.hosts = hosts.map(str::to_owned).to_vec();
    settings.policy.addresses.push([127, 0, 0, 9].into());
    if let Some(namespace) = permitted_namespace {
        settings.permissions = [("prometheus".to_owned(), [namespace.to_owned()].into())].into();
    } else {
        settings.namespace_label = Some("namespace".to_owned());
    }
    settings
}

fn names() -> Names {
    Names::default()
        .with("prometheus.test", &[&["127.0.0.1"]])
        .with("alias.test", &[&["127.0.0.1"]])
        .with("PROMETHEUS.test.", &[&["127.0.0.9"]])
}

fn plan_with_url(kind: &str, url: &str) -> CollectorPlan {
    match kind {
        "prometheus" => external(kind, &[("query", "up"), ("prometheus-server", url)]),
        "influxdb" => external(kind, &[("query", "x"), ("address", url)]),
        _ => {
            let endpoint = format!("{url}/api/v1/query?query=up");
            external(kind, &[("endpoint", &endpoint), ("json-key", "$.v")])
        }
    }
}

#[rstest]
#[tokio::test]
async fn url_of_a_restricted_server_is_refused(
    #[values(None, Some("bank"))] permitted_namespace: Option<&str>,
    #[values("prometheus", "json-path", "influxdb")] kind: &str,
    #[values(
        "http://127.0.0.1:PORT",
        "http://[::ffff:127.0.0.1]:PORT",
        "http://alias.test:PORT",
        "http://PROMETHEUS.test.:PORT"
    )]
    url: &str,
) {
    let server = Server::start(|_| ok(RESPONSE)).await;
    let url = url.replace("PORT", &server.port());
    let clients = clients(restricted(&server, permitted_namespace), names());
    let refused = fetch_with(&clients, &plan_with_url(kind, &url)).await.unwrap_err();
    assert!(is_refused(&refused), "{refused:?}");
    assert_eq!(server.max_open(), 0);
}

#[tokio::test]
async fn redirection_to_a_restricted_server_is_refused() {
    let server = Server::start(|_| ok(RESPONSE)).await;
    let location = server.url("/api/v1/query?query=up");
    let tenant = Server::start(move |_| redirect(&location)).await;
    let clients = clients(restricted(&server, Some("bank")), names());
    let plan = plan_with_url("json-path", &tenant.url(""));
    let error = error(fetch_with(&clients, &plan).await);
    assert!(error.ends_with("the redirection has a refused destination"), "{error}");
    assert_eq!((tenant.requests().len(), server.max_open()), (1, 0));
}

#[tokio::test]
async fn pod_with_the_address_of_a_restricted_server_is_not_read() {
    let server = Server::start(|_| ok(RESPONSE)).await;
    let objects = with_pods(&[pod("a", "127.0.0.1")]);
    let clients = Clients::new(restricted(&server, Some("bank")), Arc::new(objects)).unwrap();
    let clients = clients.map_http(|http| http.with_resolver(Arc::new(names())));
    let port = server.port();
    let refused = fetch_with(&clients, &pod_plan(&[("json-key", "$.v"), ("port", &port)])).await;
    let refused = refused.unwrap_err();
    assert!(is_refused(&refused), "{refused:?}");
    assert_eq!(server.max_open(), 0);
}

#[rstest]
#[tokio::test]
async fn url_of_a_server_is_read_with_its_permission(
    #[values("prometheus", "json-path")] kind: &str,
) {
    let server = Server::start(|_| ok(RESPONSE)).await;
    let clients = clients(restricted(&server, Some("shop")), names());
    assert_eq!(milli(fetch_with(&clients, &plan_with_url(kind, &server.url(""))).await), 1000);
}

#[tokio::test]
async fn permission_for_a_service_covers_its_url() {
    let server = Server::start(|_| ok(RESPONSE)).await;
    let service = ServiceSettings { endpoint: server.url("/x"), token: None, org: String::new() };
    let settings = Settings {
        services: [("zmon", service)].into(),
        permissions: [("zmon".to_owned(), ["bank".to_owned()].into())].into(),
        ..settings()
    };
    let plan = plan_with_url("json-path", &server.url(""));
    let error = error(fetch(settings, FakeCluster::default(), &plan).await);
    assert!(error.contains("it is the operator's server zmon"), "{error}");
    assert_eq!(server.max_open(), 0);
}

#[tokio::test]
async fn unresolved_restricted_server_blocks_only_urls_with_its_port() {
    let [server, other] =
        [Server::start(|_| ok(RESPONSE)).await, Server::start(|_| ok(RESPONSE)).await];
    let clients = clients(restricted(&server, Some("bank")), Names::default());
    let refused = fetch_with(&clients, &plan_with_url("json-path", &server.url(""))).await;
    let refused = refused.unwrap_err();
    assert!(is_refused(&refused), "{refused:?}");
    let plan = plan_with_url("json-path", &other.url(""));
    assert_eq!(milli(fetch_with(&clients, &plan).await), 1000);
}

#[tokio::test]
async fn prometheus_url_needs_a_listed_host_if_queries_are_restricted() {
    let server = Server::start(|_| ok(RESPONSE)).await;
    let label = || Some("namespace".to_owned());
    let plan = plan_with_url("prometheus", &server.url(""));
    let unlisted = Settings { namespace_label: label(), ..settings() };
    let error = error(fetch(unlisted, FakeCluster::default(), &plan).await);
    assert!(error.starts_with("prometheus-server is not permitted"), "{error}");
    assert_eq!(server.max_open(), 0);
    let mut listed = Settings { namespace_label: label(), ..settings() };
    listed.policy.hosts = vec!["127.0.0.1".to_owned()];
    assert_eq!(milli(fetch(listed, FakeCluster::default(), &plan).await), 1000);
}
