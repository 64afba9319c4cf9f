//! Tests of TLS, and of proxies for servers of the operator.

use rcgen::{CertificateParams, CertifiedIssuer, KeyPair};
use rstest::rstest;
use tokio::net::TcpStream;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use super::*;

type Ca = CertifiedIssuer<'static, KeyPair>;

fn generate_ca() -> Ca {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A file with the certificate of a new CA.
pub(super) fn new_ca_file() -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), generate_ca().pem()).unwrap();
    file
}

fn server_config(ca: &Ca, name: &str) -> ServerConfig {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    let certificate = params.signed_by(&key, ca).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap()
}

async fn start_server(ca: &Ca, name: &str) -> Server {
    Server::start_on("127.0.0.1:0", Some(server_config(ca, name)), |_| ok(r#"{"v": 4}"#)).await
}

fn pod_over_https(server: &Server) -> (FakeCluster, CollectorPlan) {
    let plan = pod_plan(&[("json-key", "$.v"), ("scheme", "https"), ("port", &server.port())]);
    (with_pods(&[pod("a", "127.0.0.1")]), plan)
}

/// Settings that trust a CA, which this function writes to `file`.
fn settings_with_ca(ca: &Ca, file: &tempfile::NamedTempFile) -> Settings {
    std::fs::write(file.path(), ca.pem()).unwrap();
    Settings { ca_file: Some(file.path().to_owned()), ..settings() }
}

#[tokio::test]
async fn pod_is_verified_by_the_ca_file() {
    let (ca, other_ca) = (generate_ca(), generate_ca());
    let file = tempfile::NamedTempFile::new().unwrap();
    let server = start_server(&ca, "127.0.0.1").await;
    let (objects, plan) = pod_over_https(&server);
    assert_eq!(milli(fetch(settings_with_ca(&ca, &file), objects, &plan).await), 4000);
    let (objects, plan) = pod_over_https(&server);
    let untrusted = error(fetch(settings_with_ca(&other_ca, &file), objects, &plan).await);
    assert!(untrusted.contains("the TLS handshake failed"), "{untrusted}");
    let (objects, plan) = pod_over_https(&server);
    let untrusted = error(fetch(settings(), objects, &plan).await);
    assert!(untrusted.contains("the TLS handshake failed"), "{untrusted}");
    // The certificate must have the address of the pod.
    let misnamed = start_server(&ca, "localhost").await;
    let (objects, plan) = pod_over_https(&misnamed);
    let misnamed = error(fetch(settings_with_ca(&ca, &file), objects, &plan).await);
    let expected = "the certificate of the server is valid for localhost, not for 127.0.0.1";
    assert!(misnamed.contains(expected), "{misnamed}");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn changed_ca_file_is_read_again() {
    let (ca, other_ca) = (generate_ca(), generate_ca());
    let file = tempfile::NamedTempFile::new().unwrap();
    let server = start_server(&ca, "127.0.0.1").await;
    let (objects, plan) = pod_over_https(&server);
    let clients = Clients::new(settings_with_ca(&other_ca, &file), Arc::new(objects)).unwrap();
    fetch_with(&clients, &plan).await.unwrap_err();
    // Has another length, because the modification time may be the same.
    std::fs::write(file.path(), format!("{}\n\n{}", ca.pem(), other_ca.pem())).unwrap();
    assert_eq!(milli(fetch_with(&clients, &plan).await), 4000);
    std::fs::write(file.path(), "no certificate").unwrap();
    assert_eq!(milli(fetch_with(&clients, &plan).await), 4000);
}

#[tokio::test]
async fn redirection_does_not_leave_tls() {
    let ca = generate_ca();
    let file = tempfile::NamedTempFile::new().unwrap();
    let unencrypted = Server::start(|_| ok("1")).await;
    let location = unencrypted.url("/");
    let config = server_config(&ca, "127.0.0.1");
    let server = Server::start_on("127.0.0.1:0", Some(config), move |_| redirect(&location)).await;
    let url = format!("https://{}/", server.address);
    let plan = external("json-path", &[("endpoint", &url), ("json-key", "$")]);
    let error = error(fetch(settings_with_ca(&ca, &file), FakeCluster::default(), &plan).await);
    assert!(error.ends_with("the redirection leads from https to http"), "{error}");
    assert!(unencrypted.requests().is_empty());
}

/// A proxy that opens all requested tunnels to the same server, and records the requests.
async fn start_tunnel_proxy(server: SocketAddr, requests: Arc<Mutex<Vec<String>>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut first = [0; 1];
            client.peek(&mut first).await.unwrap();
            let request = if first[0] == 5 {
                accept_socks(&mut client).await
            } else {
                let request = read_request(&mut client).await.unwrap();
                client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
                request
            };
            requests.lock().push(request);
            let mut server = TcpStream::connect(server).await.unwrap();
            tokio::io::copy_bidirectional(&mut client, &mut server).await.ok();
        }
    });
    address
}

/// Accepts a SOCKS 5 connection, and returns the requested name and port.
async fn accept_socks(client: &mut TcpStream) -> String {
    let mut head = [0; 2];
    client.read_exact(&mut head).await.unwrap();
    let mut methods = vec![0; usize::from(head[1])];
    client.read_exact(&mut methods).await.unwrap();
    client.write_all(&[5, 0]).await.unwrap();
    let mut request = [0; 5];
    client.read_exact(&mut request).await.unwrap();
    assert_eq!(request[3], 3, "a name");
    let mut name = vec![0; usize::from(request[4]) + 2];
    client.read_exact(&mut name).await.unwrap();
    client.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await.unwrap();
    let port = u16::from_be_bytes([name[name.len() - 2], name[name.len() - 1]]);
    format!("{}:{port}", String::from_utf8_lossy(&name[..name.len() - 2]))
}

#[rstest]
#[case::tunnel("http", "https", "CONNECT influx.test:8086 HTTP/1.1\r\n")]
#[case::socks("socks5", "https", "influx.test:8086")]
#[case::socks_without_tls("socks5", "http", "influx.test:8086")]
#[tokio::test]
async fn server_of_the_operator_is_reached_through_the_proxy(
    #[case] proxy: &'static str,
    #[case] scheme: &str,
    #[case] expected: &str,
) {
    let csv = "#datatype,double\n#default,\n,metricvalue\n,5\n";
    let ca = generate_ca();
    let file = tempfile::NamedTempFile::new().unwrap();
    let config = (scheme == "https").then(|| server_config(&ca, "influx.test"));
    let server = Server::start_on("127.0.0.1:0", config, move |_| ok(csv)).await;
    let requests = Arc::<Mutex<Vec<String>>>::default();
    let address = start_tunnel_proxy(server.address, requests.clone()).await;
    let influx = ServiceSettings {
        endpoint: format!("{scheme}://influx.test:8086"),
        token: Some(Credential::Text(Secret::new("t"))),
        org: "o".to_owned(),
    };
    let settings =
        Settings { services: [("influxdb", influx)].into(), ..settings_with_ca(&ca, &file) };
    let clients = Clients::new(settings, Arc::new(FakeCluster::default())).unwrap();
    let clients = clients.map_http(|http| {
        http.with_environment(move |name| {
            name.ends_with("_PROXY").then(|| format!("{proxy}://{address}"))
        })
    });
    let plan = external("influxdb", &[("query", "x")]);
    assert_eq!(milli(fetch_with(&clients, &plan).await), 5000);
    assert!(requests.lock()[0].starts_with(expected), "{:?}", requests.lock());
    assert!(server.requests()[0].contains("host: influx.test:8086\r\n"));
}

/// Clients of the operator's server at `endpoint`, with a proxy in this environment variable.
fn influx_behind_proxy(
    settings: Settings,
    endpoint: &str,
    variable: &'static str,
    proxy: String,
) -> Clients {
    let influx =
        ServiceSettings { endpoint: endpoint.to_owned(), token: None, org: "o".to_owned() };
    let settings = Settings { services: [("influxdb", influx)].into(), ..settings };
    let clients = Clients::new(settings, Arc::new(FakeCluster::default())).unwrap();
    clients.map_http(|http| {
        http.with_environment(move |name| (name == variable).then(|| proxy.clone()))
    })
}

#[tokio::test]
async fn tls_failure_of_the_proxy_is_not_one_of_the_server() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let proxy = start_server(&generate_ca(), "127.0.0.1").await;
    let settings = settings_with_ca(&generate_ca(), &file);
    let url = format!("https://{}", proxy.address);
    let expected = format!("unable to use the proxy: {url}: the TLS handshake failed: ");
    let clients = influx_behind_proxy(settings, "https://influx.test:8086", "HTTPS_PROXY", url);
    let plan = external("influxdb", &[("query", "x")]);
    let error = error(fetch_with(&clients, &plan).await);
    assert!(error.contains(&expected), "{error}");
}

#[tokio::test]
async fn unencrypted_request_of_the_operator_is_sent_to_the_proxy() {
    let proxy = Server::start(|_| ok("#datatype,double\n#default,\n,metricvalue\n,5\n")).await;
    let url = format!("http://me:pw@{}", proxy.address);
    let clients = influx_behind_proxy(settings(), "http://influx.test:8086", "HTTP_PROXY", url);
    let plan = external("influxdb", &[("query", "x")]);
    assert_eq!(milli(fetch_with(&clients, &plan).await), 5000);
    let request = proxy.requests().remove(0);
    let start = "POST http://influx.test:8086/api/v2/query?org=o HTTP/1.1\r\n";
    assert!(request.starts_with(start), "{request}");
    assert!(request.contains("host: influx.test:8086\r\n"), "{request}");
    assert!(request.contains("proxy-authorization: Basic bWU6cHc=\r\n"), "{request}");
}
