//! Clients that don't read their responses.

use hpa_metrics::test_doubles::{FixedSource, external_value};
use http_body_util::Empty;
use hyper::body::Bytes;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    time::Instant,
};
use tokio_rustls::{
    TlsConnector, client,
    rustls::{
        ClientConfig, RootCertStore,
        pki_types::{CertificateDer, pem::PemObject},
    },
};

use super::*;
use crate::{
    certificates::GeneratedCertificate,
    service::tests::{KnownReviews, adapter},
    test_certificates::ClusterCas,
};

const PATH: &str = "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/queue";

/// A source with values of about a megabyte.
fn source() -> FixedSource {
    let label = "x".repeat(1000);
    let external = (0..1000).map(|index| {
        let value = external_value(Some(&[("item", &format!("{index}{label}"))]), "1");
        ("queue".to_owned(), "shop".to_owned(), value)
    });
    FixedSource { external: external.collect(), ..FixedSource::default() }
}

/// Serves one connection. Returns the client's end of it, and the task, which ends with it.
async fn connect(
    protocol: &[u8],
) -> (client::TlsStream<DuplexStream>, tokio::task::JoinHandle<()>) {
    let names = ["localhost".to_owned()];
    let generated = GeneratedCertificate::generate(&names, jiff::Timestamp::now()).unwrap();
    let handshake = HandshakeSettings { protocols: vec![protocol.to_vec()], ..Default::default() };
    let (chain, key) = (generated.chain.as_bytes(), generated.key.as_bytes());
    let certificate = Arc::new(ServingCertificate::from_pem(chain, key, handshake).unwrap());
    let users = ["system:anonymous"].into();
    let reviews = Arc::new(KnownReviews { users, ..KnownReviews::default() });
    let shared = ServerState {
        adapter: Arc::new(adapter(source(), &reviews, &ClusterCas::new())),
        certificate: certificate.clone(),
        options: ServerOptions::default(),
        stop: CancellationToken::new(),
    };
    let (server, client) = duplex(4096);
    let task = tokio::spawn(async move {
        let stream = certificate.acceptor().accept(server).await.unwrap();
        let connection = Connections::new(LIMITS).admit([127, 0, 0, 1].into()).unwrap();
        shared.serve_requests(stream, connection).await;
    });
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(generated.authority.as_bytes()) {
        roots.add(authority.unwrap()).unwrap();
    }
    let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    let connector = TlsConnector::from(Arc::new(config));
    let stream = connector.connect("localhost".try_into().unwrap(), client).await.unwrap();
    (stream, task)
}

#[tokio::test(start_paused = true)]
async fn client_that_reads_nothing_is_disconnected_after_30_seconds() {
    let (mut client, task) = connect(b"http/1.1").await;
    let head = format!("GET {PATH} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    client.write_all(head.as_bytes()).await.unwrap();
    let started = Instant::now();
    task.await.unwrap();
    let elapsed = started.elapsed();
    assert!(elapsed >= WRITE_TIMEOUT && elapsed < 2 * WRITE_TIMEOUT, "{elapsed:?}");
}

#[tokio::test(start_paused = true)]
async fn client_that_reads_slowly_is_disconnected_after_a_minute() {
    let (mut client, task) = connect(b"http/1.1").await;
    let head = format!("GET {PATH} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    client.write_all(head.as_bytes()).await.unwrap();
    let started = Instant::now();
    let slow = tokio::spawn(async move {
        let mut buffer = [0; 1024];
        while client.read(&mut buffer).await.is_ok_and(|read| read > 0) {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
    task.await.unwrap();
    let elapsed = started.elapsed();
    assert!((60..=66).contains(&elapsed.as_secs()), "{elapsed:?}");
    slow.await.unwrap();
}

/// An HTTP/2 client that reads other streams and answers pings, but doesn't read the response.
#[tokio::test(start_paused = true)]
async fn http2_client_that_opens_no_window_is_disconnected_after_a_minute() {
    let (client, task) = connect(b"h2").await;
    let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(64 << 10);
    let (mut sender, connection) = builder.handshake(TokioIo::new(client)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::get(format!("https://localhost{PATH}"));
    let started = Instant::now();
    let response = sender.send_request(request.body(Empty::<Bytes>::new()).unwrap()).await.unwrap();
    assert_eq!(response.status(), 200);
    task.await.unwrap();
    let elapsed = started.elapsed();
    assert!((60..=66).contains(&elapsed.as_secs()), "{elapsed:?}");
    drop(response);
}

/// Nothing accepts the connections: they wait in the backlog.
#[tokio::test]
async fn burst_of_connections_is_not_dropped() {
    let listener = listen(([127, 0, 0, 1], 0).into()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    for index in 0..300 {
        let connected = timeout(Duration::from_secs(10), TcpStream::connect(address)).await;
        waiting.push(connected.unwrap_or_else(|_| panic!("{index} connections")).unwrap());
    }
}
