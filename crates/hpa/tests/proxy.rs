//! `hpa run` behind a proxy: the testbed over TLS, and a proxy that speaks CONNECT.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test may fail"
)]

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use axum::{
    Router,
    http::{Method, Uri},
};
use hpa_testbed::{Action, Config, RequestInfo, Testbed};
use hpa_tests::harness::{
    ServedTestbed, SettableMetrics, TestbedExt, objects, prometheus_success, serve,
};
use parking_lot::Mutex;
use rstest::rstest;
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, copy_bidirectional},
    net::{TcpListener, TcpStream},
    process::Child,
    sync::watch,
    time::timeout,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring::default_provider,
        pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    },
};

/// Timeout of every wait, more than ten times the expected duration.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A name that doesn't exist in DNS. The proxy connects to the testbed for any name.
const SERVER_NAME: &str = "api.behind-the-proxy.test";
/// This machine by an address other than loopback, because no proxy is used for loopback.
const UNSPECIFIED: &str = "0.0.0.0";
const PASSWORD: &str = "hunter2";
/// `me:hunter2` in Base64.
const AUTHORIZATION: &str = "Basic bWU6aHVudGVyMg==";

/// A listener on loopback that handles each connection in a separate task.
async fn listen<T>(handle: impl Fn(TcpStream) -> T + Send + 'static) -> SocketAddr
where
    T: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            tokio::spawn(handle(connection));
        }
    });
    address
}

async fn relay(mut from: impl AsyncRead + AsyncWrite + Unpin, to: SocketAddr) {
    if let Ok(mut to) = TcpStream::connect(to).await {
        copy_bidirectional(&mut from, &mut to).await.ok();
    }
}

/// The testbed over TLS, and its certificate.
struct Server {
    scale_write_count: watch::Receiver<usize>,
    plain: ServedTestbed,
    tls: SocketAddr,
    certificate: PathBuf,
}

impl Server {
    async fn start() -> Self {
        let (count, scale_write_count) = watch::channel(0);
        let count_scale_writes = move |request: &RequestInfo| {
            if request.subresource == "scale" && request.verb == "update" {
                count.send_modify(|count| *count += 1);
            }
            Action::Pass
        };
        let testbed = Testbed::new(Config {
            metrics: Some(Arc::new(SettableMetrics::default())),
            interceptor: Some(Arc::new(count_scale_writes)),
            ..Config::default()
        });
        testbed.apply_all([
            objects::namespace(),
            objects::running_deployment("web", 1),
            objects::hpa("web", 2..=3, [objects::external_metric("load", "1")]),
        ]);
        let plain = ServedTestbed::new(&testbed).await;
        let names = [SERVER_NAME, UNSPECIFIED, "127.0.0.1"].map(str::to_owned);
        let rcgen::CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed(names).unwrap();
        let certificate = plain.dir.path().join("ca.crt");
        fs::write(&certificate, cert.pem()).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap();
        let (acceptor, address) = (TlsAcceptor::from(Arc::new(config)), plain.address);
        let tls = listen(move |connection| {
            let acceptor = acceptor.clone();
            async move {
                if let Ok(connection) = acceptor.accept(connection).await {
                    relay(connection, address).await;
                }
            }
        })
        .await;
        Self { scale_write_count, plain, tls, certificate }
    }

    /// Writes a kubeconfig with the URL of a server, and optionally of a proxy.
    fn write_kubeconfig(&self, server: &str, proxy: Option<&str>) {
        let mut cluster = json!({ "server": server });
        if server.starts_with("https") {
            cluster["certificate-authority"] = self.certificate.display().to_string().into();
        }
        if let Some(proxy) = proxy {
            cluster["proxy-url"] = proxy.into();
        }
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
             contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
             users: [{{name: u, user: {{}}}}]\nclusters: [{{name: c, cluster: {cluster}}}]\n"
        );
        fs::write(&self.plain.kubeconfig, text).unwrap();
    }

    fn start_controller(&self, variables: &[(&str, &str)]) -> Child {
        self.plain.start_hpa(env!("CARGO_BIN_EXE_hpa"), &[], variables)
    }

    fn log(&self) -> String {
        self.plain.log()
    }

    /// Runs the controller until it scales `web` to its minimum.
    async fn run_until_scaled(&self, variables: &[(&str, &str)]) {
        let mut child = self.start_controller(variables);
        let mut write_count = self.scale_write_count.clone();
        let scaled = async { write_count.wait_for(|count| *count > 0).await.is_ok() };
        tokio::select! {
            outcome = timeout(TIMEOUT, scaled) => {
                assert_eq!(outcome, Ok(true), "not scaled: {}", self.log());
            }
            status = child.wait() => panic!("{status:?}: {}", self.log()),
        }
    }
}

/// A CONNECT request that a proxy accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Tunnel {
    target: String,
    authorization: Option<String>,
}

/// A proxy that connects every target to one address, if the request has the right credentials.
struct Proxy {
    address: SocketAddr,
    tunnels: Arc<Mutex<Vec<Tunnel>>>,
    refusal_count: watch::Receiver<usize>,
}

impl Proxy {
    async fn start(to: SocketAddr, authorization: &'static str) -> Self {
        let tunnels = Arc::new(Mutex::new(Vec::new()));
        let (refusals, refusal_count) = watch::channel(0);
        let (accepted, refusals) = (Arc::clone(&tunnels), Arc::new(refusals));
        let address = listen(move |connection| {
            let (accepted, refusals) = (Arc::clone(&accepted), Arc::clone(&refusals));
            async move {
                let mut connection = BufReader::new(connection);
                let Some(tunnel) = read_connect(&mut connection).await else { return };
                if tunnel.authorization.as_deref() != Some(authorization) {
                    let response = b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n";
                    connection.write_all(response).await.ok();
                    refusals.send_modify(|count| *count += 1);
                    return;
                }
                accepted.lock().push(tunnel);
                connection.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.ok();
                relay(connection, to).await;
            }
        })
        .await;
        Self { address, tunnels, refusal_count }
    }

    fn url(&self) -> String {
        format!("http://me:{PASSWORD}@{}", self.address)
    }

    /// The targets of the tunnels, without consecutive repetitions.
    fn targets(&self) -> Vec<String> {
        let mut targets: Vec<_> =
            self.tunnels.lock().iter().map(|tunnel| tunnel.target.clone()).collect();
        targets.dedup();
        targets
    }
}

/// Reads the head of a CONNECT request. Any other request ends the connection.
async fn read_connect(connection: &mut BufReader<TcpStream>) -> Option<Tunnel> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        connection.read_line(&mut line).await.ok().filter(|length| *length > 0)?;
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let target = lines.first()?.strip_prefix("CONNECT ")?.strip_suffix(" HTTP/1.1")?.to_owned();
    let header = |line: &String| {
        let (name, value) = line.split_once(':')?;
        let is_authorization = name.eq_ignore_ascii_case("proxy-authorization");
        is_authorization.then(|| value.trim().to_owned())
    };
    Some(Tunnel { target, authorization: lines.iter().find_map(header) })
}

#[tokio::test]
async fn controller_scales_through_the_proxy_of_the_environment() {
    let server = Server::start().await;
    let proxy = Proxy::start(server.tls, AUTHORIZATION).await;
    server.write_kubeconfig(&format!("https://{SERVER_NAME}:6443"), None);
    server.run_until_scaled(&[("HTTPS_PROXY", &proxy.url()), ("NO_PROXY", "127.0.0.1,.svc")]).await;
    assert_eq!(proxy.targets(), [format!("{SERVER_NAME}:6443")]);
    // At least one tunnel each for the API and for the metrics.
    assert!(proxy.tunnels.lock().len() >= 2, "{:?}", proxy.tunnels.lock());
    let log = server.log();
    let line = format!("http://{}", proxy.address);
    assert!(log.contains(&line) && log.contains("HTTPS_PROXY"), "{log}");
    assert!(!log.contains(PASSWORD), "{log}");
}

#[rstest]
#[case::http_proxy_for_an_http_server("http", &["HTTP_PROXY"], true)]
#[case::https_proxy_for_an_http_server("http", &["HTTPS_PROXY"], false)]
#[case::https_proxy_for_an_https_server("https", &["HTTPS_PROXY"], true)]
#[case::exception_for_the_server("https", &["HTTPS_PROXY", "NO_PROXY"], false)]
#[tokio::test]
async fn variables_choose_between_the_proxy_and_a_direct_connection(
    #[case] scheme: &str,
    #[case] variables: &[&str],
    #[case] tunneled: bool,
) {
    let server = Server::start().await;
    let address = if scheme == "https" { server.tls } else { server.plain.address };
    let proxy = Proxy::start(address, AUTHORIZATION).await;
    let host = format!("{UNSPECIFIED}:{}", address.port());
    server.write_kubeconfig(&format!("{scheme}://{host}"), None);
    let url = proxy.url();
    let value = |name: &str| if name == "NO_PROXY" { "10.0.0.1,0.0.0.0/8" } else { url.as_str() };
    let variables: Vec<_> = variables.iter().map(|name| (*name, value(name))).collect();
    server.run_until_scaled(&variables).await;
    let expected = if tunneled { vec![host] } else { vec![] };
    assert_eq!(proxy.targets(), expected, "{}", server.log());
}

#[tokio::test]
async fn proxy_of_the_kubeconfig_is_used_even_for_loopback() {
    let server = Server::start().await;
    let proxy = Proxy::start(server.tls, AUTHORIZATION).await;
    server
        .write_kubeconfig(&format!("https://127.0.0.1:{}", server.tls.port()), Some(&proxy.url()));
    server.run_until_scaled(&[("HTTPS_PROXY", "http://127.0.0.1:1"), ("NO_PROXY", "*")]).await;
    assert_eq!(proxy.targets(), [format!("127.0.0.1:{}", server.tls.port())]);
}

#[tokio::test]
async fn refusal_of_the_proxy_is_logged_without_its_password() {
    let server = Server::start().await;
    let mut proxy = Proxy::start(server.tls, "Basic other").await;
    server.write_kubeconfig(&format!("https://{SERVER_NAME}:6443"), None);
    let mut child = server.start_controller(&[("HTTPS_PROXY", &proxy.url())]);
    let refused = proxy.refusal_count.wait_for(|count| *count >= 3);
    timeout(TIMEOUT, refused).await.expect("in time").unwrap();
    child.kill().await.unwrap();
    let log = server.log();
    assert!(!log.contains(PASSWORD) && !log.contains(AUTHORIZATION), "{log}");
    assert!(log.contains("proxy authorization required"), "{log}");
}

#[tokio::test]
async fn unusable_proxy_ends_the_controller_with_the_name_of_the_variable() {
    let server = Server::start().await;
    server.write_kubeconfig(&format!("https://{SERVER_NAME}:6443"), None);
    let url = format!("ftp://me:{PASSWORD}@proxy");
    let mut child = server.start_controller(&[("HTTPS_PROXY", &url)]);
    let status = timeout(TIMEOUT, child.wait()).await.expect("in time").unwrap();
    let log = server.log();
    assert_eq!(status.code(), Some(1), "{log}");
    let expected = format!(
        "unable to use the proxy for {SERVER_NAME}: the protocol of HTTPS_PROXY is not supported: \
         it must be http, https or socks5"
    );
    assert!(log.contains(&expected) && !log.contains(PASSWORD), "{log}");
}

/// Starts a proxy that responds to each request itself, like a Prometheus without series. It adds
/// the method and the URL of each request to `requests`.
async fn start_prometheus_proxy(requests: Arc<Mutex<Vec<String>>>) -> SocketAddr {
    let respond = async move |method: Method, url: Uri| {
        requests.lock().push(format!("{method} {url}"));
        prometheus_success(if url.path().starts_with("/api/v1/query") {
            json!({ "resultType": "vector", "result": [] })
        } else {
            json!([])
        })
    };
    serve(Router::new().fallback(respond)).await
}

#[tokio::test]
async fn prometheus_is_read_through_the_proxy_of_the_environment() {
    let requests = Arc::new(Mutex::new(Vec::new()));
    let proxy = start_prometheus_proxy(Arc::clone(&requests)).await;
    let dir = tempfile::tempdir().unwrap();
    let rules = dir.path().join("rules.yaml");
    fs::write(&rules, "externalRules: [{seriesQuery: up, metricsQuery: up}]").unwrap();
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_hpa"));
    command.args(["rules", "check"]).arg(&rules).args(["--prometheus-url", "http://prom.test"]);
    command.env("HTTP_PROXY", proxy.to_string()).env_remove("NO_PROXY").env_remove("no_proxy");
    let output = timeout(TIMEOUT, command.output()).await.expect("in time").unwrap();
    let report = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(report.contains("Prometheus has no such series"), "{report}");
    assert_eq!(requests.lock()[0], "POST http://prom.test/api/v1/series");
}
