//! Proxies from environment variables and kubeconfig files.

use std::{net::SocketAddr, sync::Arc};

use parking_lot::Mutex;
use rstest::rstest;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpListener,
};

use crate::client::{
    Authentication, Client, InstantQuery, QueryFailure, Settings, TimeoutParameter,
};

/// The heads of requests, with the names of headers in lower case.
type Heads = Arc<Mutex<Vec<String>>>;

/// `me:hunter2` in Base64, for the proxy.
const PROXY_CREDENTIALS: &str = "bWU6aHVudGVyMg==";
/// `user:secret` in Base64, for the server.
const SERVER_CREDENTIALS: &str = "dXNlcjpzZWNyZXQ=";

/// Serves an empty vector, as a proxy or as the server itself.
async fn serve() -> (SocketAddr, Heads) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let heads = Heads::default();
    let received = heads.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let received = received.clone();
            tokio::spawn(async move {
                let mut stream = BufReader::new(stream);
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") {
                    if stream.read_line(&mut head).await.unwrap_or_default() == 0 {
                        return;
                    }
                }
                received.lock().push(with_lower_case_names(&head));
                let body = r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#;
                let length = body.len();
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
                stream.write_all((head + body).as_bytes()).await.ok();
            });
        }
    });
    (address, heads)
}

fn with_lower_case_names(head: &str) -> String {
    let line = |line: &str| match line.split_once(": ") {
        Some((name, value)) => format!("{}: {value}", name.to_lowercase()),
        None => line.to_owned(),
    };
    head.split("\r\n").map(line).collect::<Vec<_>>().join("\r\n")
}

async fn query(settings: Settings, variables: Vec<(&str, String)>) -> Result<(), QueryFailure> {
    let variables: Vec<_> =
        variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let lookup = move |name: &str| {
        let variable = variables.iter().find(|(variable, _)| variable == name);
        variable.map(|(_, value)| value.clone())
    };
    let client = Client::with_variables(settings, Arc::new(lookup));
    let query = InstantQuery { query: "up".to_owned(), timeout: TimeoutParameter::Limit };
    client.query(&query).await.map(drop)
}

#[tokio::test]
async fn proxy_forwards_requests_to_a_server_without_tls() {
    let (proxy, heads) = serve().await;
    let variables = vec![("HTTP_PROXY", format!("http://me:hunter%32@{proxy}"))];
    let settings = Settings::new("p", "http://user:secret@prometheus.test:9090/prefix").unwrap();
    query(settings, variables).await.unwrap();
    let head = heads.lock().pop().unwrap();
    let line = "POST http://prometheus.test:9090/prefix/api/v1/query HTTP/1.1\r\n";
    assert!(head.starts_with(line), "{head}");
    assert!(head.contains("\r\nhost: prometheus.test:9090\r\n"), "{head}");
    let for_proxy = format!("\r\nproxy-authorization: Basic {PROXY_CREDENTIALS}\r\n");
    assert!(head.contains(&for_proxy), "{head}");
    let for_server = format!("\r\nauthorization: Basic {SERVER_CREDENTIALS}\r\n");
    assert!(head.contains(&for_server), "{head}");
}

#[tokio::test]
async fn server_with_tls_is_reached_through_a_tunnel() {
    let (proxy, heads) = serve().await;
    let variables = vec![("HTTPS_PROXY", format!("http://me:hunter2@{proxy}"))];
    let settings = Settings::new("p", "https://user:secret@prometheus.test").unwrap();
    // The proxy of this test opens no tunnel, so the query fails.
    query(settings, variables).await.unwrap_err();
    let head = heads.lock().pop().unwrap();
    assert!(head.starts_with("CONNECT prometheus.test:443 HTTP/1.1\r\n"), "{head}");
    let for_proxy = format!("\r\nproxy-authorization: Basic {PROXY_CREDENTIALS}\r\n");
    assert!(head.contains(&for_proxy), "{head}");
    assert!(!head.contains(SERVER_CREDENTIALS), "{head}");
}

#[rstest]
#[case::no_variable(&[], false)]
#[case::proxy(&["HTTP_PROXY"], true)]
#[case::proxy_for_tls(&["HTTPS_PROXY"], false)]
#[case::exception(&["HTTP_PROXY", "NO_PROXY"], false)]
#[tokio::test]
async fn variables_choose_between_the_proxy_and_a_direct_connection(
    #[case] names: &[&str],
    #[case] is_proxied: bool,
) {
    let ((proxy, proxied), (server, direct)) = (serve().await, serve().await);
    let value = |name: &str| match name {
        "NO_PROXY" => "0.0.0.0/8".to_owned(),
        _ => proxy.to_string(),
    };
    let variables = names.iter().map(|name| (*name, value(name))).collect();
    // This address reaches the same machine. A loopback address would never use the proxy.
    let settings = Settings::new("p", &format!("http://0.0.0.0:{}", server.port())).unwrap();
    query(settings, variables).await.unwrap();
    let counts = (proxied.lock().len(), direct.lock().len());
    assert_eq!(counts, if is_proxied { (1, 0) } else { (0, 1) });
}

#[tokio::test]
async fn proxy_of_the_kubeconfig_takes_precedence_over_variables() {
    let ((proxy, heads), (other, _)) = (serve().await, serve().await);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kubeconfig");
    let kubeconfig = format!(
        "current-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
         users: [{{name: u, user: {{token: secret}}}}]\n\
         clusters: [{{name: c, cluster: {{server: 'http://x', proxy-url: 'http://{proxy}'}}}}]\n"
    );
    std::fs::write(&path, kubeconfig).unwrap();
    let settings = Settings {
        authentication: Authentication::Kubeconfig(path),
        ..Settings::new("p", "http://127.0.0.1:1").unwrap()
    };
    query(settings, vec![("HTTP_PROXY", other.to_string())]).await.unwrap();
    let head = heads.lock().pop().unwrap();
    assert!(head.starts_with("POST http://127.0.0.1:1/api/v1/query HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("\r\nauthorization: Bearer secret\r\n"), "{head}");
}

#[tokio::test]
async fn unusable_proxy_is_reported_without_its_password() {
    let settings = Settings::new("p", "http://prometheus").unwrap();
    let variables = vec![("HTTP_PROXY", "ftp://me:hunter2@proxy".to_owned())];
    let error = query(settings, variables).await.unwrap_err();
    let QueryFailure::Connection(error) = error else { panic!("{error:?}") };
    assert_eq!(error.to_string(), "unable to use the proxy for prometheus");
    assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
}
