use std::{fs, path::Path, time::Duration};

use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::ring::default_provider,
        pki_types::{CertificateDer, ServerName},
    },
};

use super::*;

const LOOPBACK: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// Sends a request and reads until the server closes the connection.
async fn send(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &str) -> String {
    let request = format!("{request} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("a server");
    let mut response = String::new();
    // The server may close without a TLS close_notify.
    stream.read_to_string(&mut response).await.ok();
    response
}

async fn get(address: SocketAddr, request: &str) -> String {
    send(TcpStream::connect(address).await.expect("a server"), request).await
}

#[tokio::test]
async fn endpoints_report_the_state_of_the_controller() {
    let telemetry = Arc::new(Telemetry::default());
    let (server, address) =
        serve_telemetry(LOOPBACK, None, telemetry.clone()).await.expect("a port");
    let response = get(address, "GET /readyz").await;
    assert!(response.starts_with("HTTP/1.1 503") && response.ends_with("caches not synced\n"));
    telemetry.set_synced();
    assert!(get(address, "GET /readyz").await.starts_with("HTTP/1.1 200"));
    assert!(get(address, "GET /healthz").await.ends_with("ok\n"));
    let metrics = get(address, "GET /metrics").await;
    assert!(
        metrics.contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n"),
        "{metrics}"
    );
    assert!(metrics.contains("\nhpa_build_info{build_date="), "{metrics}");
    assert!(get(address, "GET /").await.starts_with("HTTP/1.1 404"));
    assert!(get(address, "POST /metrics").await.starts_with("HTTP/1.1 405"));
    telemetry.set_stopping();
    assert!(get(address, "GET /readyz").await.ends_with("shutting down\n"));

    // An idle connection must not delay shutdown.
    let _idle = TcpStream::connect(address).await.expect("a server");
    server.stop().await;
    assert!(TcpStream::connect(address).await.is_err());
}

/// The test blocks its runtime while it waits for the response.
#[tokio::test]
async fn probe_is_answered_while_the_runtime_is_busy() {
    use std::io::{Read, Write};

    let (_server, address) = serve_telemetry(LOOPBACK, None, Arc::default()).await.expect("a port");
    let mut stream = std::net::TcpStream::connect(address).expect("a server");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a limit");
    stream.write_all(b"GET /healthz HTTP/1.0\r\n\r\n").expect("a server");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("a response");
    assert!(response.ends_with("ok\n"), "{response}");
}

/// Reads until the server closes the connection.
async fn read_to_end(stream: &mut TcpStream) -> String {
    let mut response = String::new();
    stream.read_to_string(&mut response).await.ok();
    response
}

#[tokio::test]
async fn idle_connections_do_not_block_probes() {
    let (_server, address) = serve_telemetry(LOOPBACK, None, Arc::default()).await.expect("a port");
    let mut idle = Vec::new();
    // The maximum number of connections.
    for _ in 0..64 {
        idle.push(TcpStream::connect(address).await.expect("a server"));
    }
    let probe = timeout(Duration::from_secs(3), get(address, "GET /healthz"));
    assert!(probe.await.expect("the probe is answered").ends_with("ok\n"));
    let oldest = timeout(Duration::from_secs(3), read_to_end(&mut idle[0])).await;
    assert_eq!(oldest.as_deref(), Ok(""), "the oldest connection is closed");
    idle[1].write_all(b"GET /readyz HTTP/1.0\r\n\r\n").await.expect("the next one is open");
    assert!(read_to_end(&mut idle[1]).await.starts_with("HTTP/1.0 503"));
}

#[tokio::test]
async fn request_head_must_arrive_in_time() {
    let (_server, address) = serve_telemetry(LOOPBACK, None, Arc::default()).await.expect("a port");
    let mut silent = TcpStream::connect(address).await.expect("a server");
    let mut slow = TcpStream::connect(address).await.expect("a server");
    slow.write_all(b"GET /healthz HTTP/1.1\r\nhost:").await.expect("a server");
    let mut answered = TcpStream::connect(address).await.expect("a server");
    answered.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("a server");
    let ended = async { tokio::join!(read_to_end(&mut silent), read_to_end(&mut slow)) };
    let ended = timeout(Duration::from_secs(8), ended).await;
    assert_eq!(ended, Ok((String::new(), String::new())));
    let answered = timeout(Duration::from_secs(8), read_to_end(&mut answered)).await;
    assert!(answered.expect("closed").ends_with("ok\n"));
}

#[tokio::test]
async fn port_in_use_is_reported_with_the_flag() {
    let (_server, address) = serve_telemetry(LOOPBACK, None, Arc::default()).await.expect("a port");
    let error =
        serve_telemetry(address, None, Arc::default()).await.err().expect("the port is taken");
    assert!(error.to_string().contains("--metrics-port"), "{error}");
}

/// Writes a new certificate for `localhost` to `folder`.
fn write_certificate(folder: &Path) -> CertificateDer<'static> {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    fs::write(folder.join("tls.crt"), cert.pem()).expect("a file");
    fs::write(folder.join("tls.key"), signing_key.serialize_pem()).expect("a file");
    cert.der().clone()
}

/// Reads the certificate that [`write_certificate`] has written.
fn read_certificate(folder: &Path) -> anyhow::Result<ServingCertificate> {
    let (chain, key) = (folder.join("tls.crt"), folder.join("tls.key"));
    Ok(ServingCertificate::from_files(chain, key, HandshakeSettings::default())?)
}

/// Requests `/healthz` over TLS, trusting one certificate.
async fn get_trusting(address: SocketAddr, trusted: CertificateDer<'static>) -> Option<String> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted).expect("a certificate");
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await.expect("a server");
    let name = ServerName::try_from("localhost").expect("a name");
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.ok()?;
    Some(send(stream, "GET /healthz").await)
}

#[tokio::test]
async fn changed_certificate_is_reloaded() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = write_certificate(folder.path());
    let certificate = read_certificate(folder.path()).expect("a certificate");
    let telemetry = Arc::new(Telemetry::default());
    let (_server, address) =
        serve_telemetry(LOOPBACK, Some(certificate), telemetry.clone()).await.expect("a port");
    let metrics = telemetry.render();
    let expiry = "\nhpa_serving_certificate_not_after_timestamp_seconds ";
    assert!(metrics.contains(expiry), "{metrics}");
    let response = get_trusting(address, first.clone()).await.expect("it is trusted");
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");

    let second = write_certificate(folder.path());
    assert!(get_trusting(address, second.clone()).await.is_some());
    assert!(get_trusting(address, first).await.is_none());
    // An unusable file leaves the loaded certificate in place.
    fs::write(folder.path().join("tls.key"), "no key").expect("a file");
    assert!(get_trusting(address, second).await.is_some());
}

#[test]
fn error_names_a_missing_certificate_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = read_certificate(folder.path()).err().expect("no file");
    assert!(missing.to_string().contains("tls.crt"), "{missing}");
}
