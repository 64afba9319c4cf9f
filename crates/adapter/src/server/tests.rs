//! Clients that don't read their responses, or that send many headers.

use hpa_metrics::test_doubles::{FixedSource, external_value};
use http_body_util::Empty;
use hyper::{body::Bytes, client::conn::http2::SendRequest};
use rcgen::KeyPair;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    time::Instant,
};
use tokio_rustls::{
    TlsConnector, client,
    rustls::{
        ClientConfig, RootCertStore,
        pki_types::{CertificateDer, PrivatePkcs8KeyDer, pem::PemObject},
    },
};

use super::*;
use crate::{
    authentication::{ClientKeyVerifier, Trust},
    certificates::GeneratedCertificate,
    service::tests::{KnownReviews, adapter, set_trust},
    test_certificates::{ClusterCas, leaf},
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

/// The client's end of a connection, and the task of the server, which ends with the connection.
type ConnectedClient = (client::TlsStream<DuplexStream>, tokio::task::JoinHandle<()>);

/// Serves one connection of an anonymous client with all rights.
async fn connect(protocol: &[u8]) -> ConnectedClient {
    let users = ["system:anonymous"].into();
    let reviews = KnownReviews { users, ..KnownReviews::default() };
    connect_with(protocol, reviews, &ClusterCas::new(), None).await
}

/// Like [`connect`], with these reviews, and with a client certificate and its key.
async fn connect_with(
    protocol: &[u8],
    reviews: KnownReviews,
    cluster: &ClusterCas,
    identity: Option<(CertificateDer<'static>, KeyPair)>,
) -> ConnectedClient {
    let adapter = Arc::new(adapter(source(), &Arc::new(reviews), cluster));
    connect_to(adapter, UserConnections::new(USER_CONNECTIONS), protocol, identity).await
}

/// Like [`connect_with`], to an adapter that exists, and with these limits of users' connections.
async fn connect_to(
    adapter: Arc<Adapter>,
    users: Arc<UserConnections>,
    protocol: &[u8],
    identity: Option<(CertificateDer<'static>, KeyPair)>,
) -> ConnectedClient {
    let names = ["localhost".to_owned()];
    let generated = GeneratedCertificate::generate(&names, jiff::Timestamp::now()).unwrap();
    let handshake = HandshakeSettings {
        client_verifier: Some(ClientKeyVerifier::new()),
        protocols: vec![protocol.to_vec()],
        ..Default::default()
    };
    let certificate = ServingCertificate::from_pem(&generated.chain, &generated.key, handshake);
    let certificate = Arc::new(certificate.unwrap());
    let shared = ServerState {
        adapter,
        certificate: certificate.clone(),
        options: ServerOptions::default(),
        users,
        stop: CancellationToken::new(),
    };
    let (server, client) = duplex(4096);
    let task = tokio::spawn(async move {
        let stream = certificate.acceptor().accept(server).await.unwrap();
        let connection = Connections::new(LIMITS).admit([127, 0, 0, 1].into()).unwrap();
        shared.serve_requests(stream, connection).await;
    });
    let mut roots = RootCertStore::empty();
    for ca in CertificateDer::pem_slice_iter(generated.ca_bundle.as_bytes()) {
        roots.add(ca.unwrap()).unwrap();
    }
    let config = ClientConfig::builder().with_root_certificates(roots);
    let mut config = match identity {
        Some((certificate, key)) => {
            let key = PrivatePkcs8KeyDer::from(key.serialize_der());
            config.with_client_auth_cert(vec![certificate], key.into()).unwrap()
        }
        None => config.with_no_client_auth(),
    };
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

/// Uses a connection for HTTP/2.
async fn http2_sender(client: client::TlsStream<DuplexStream>) -> SendRequest<Empty<Bytes>> {
    let builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    let (sender, connection) = builder.handshake(TokioIo::new(client)).await.unwrap();
    tokio::spawn(connection);
    sender
}

/// The status of the response to a request with these headers.
async fn status(sender: &mut SendRequest<Empty<Bytes>>, headers: &[(&str, &str)]) -> u16 {
    let mut request = Request::get("https://localhost/version");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = sender.send_request(request.body(Empty::new()).unwrap()).await.unwrap();
    response.status().as_u16()
}

/// HTTP/2 encodes each repeated header in a few bytes.
#[tokio::test(start_paused = true)]
async fn client_with_many_headers_is_refused() {
    let (client, _task) = connect(b"h2").await;
    let mut sender = http2_sender(client).await;
    for (count, expected) in [(0, 200), (60, 200), (70, 431), (500, 431), (1800, 431), (0, 200)] {
        assert_eq!(status(&mut sender, &vec![("a", "b"); count]).await, expected, "{count}");
    }
}

/// Requests above the burst of unknown clients take time.
#[tokio::test(start_paused = true)]
async fn unknown_client_with_many_headers_is_slowed_down() {
    let (client, _task) = connect(b"h2").await;
    let mut sender = http2_sender(client).await;
    let headers = vec![("a", "b"); 1000];
    let started = Instant::now();
    for _ in 0..100 {
        assert_eq!(status(&mut sender, &headers).await, 431);
    }
    let elapsed = started.elapsed();
    assert!(elapsed >= Duration::from_secs(5), "{elapsed:?}");
}

/// A token of 16 KiB.
fn long_token() -> &'static str {
    Box::leak("x".repeat(16 << 10).into_boxed_str())
}

/// Reviews for a token whose user has all rights.
fn reviews_of(token: &'static str) -> KnownReviews {
    KnownReviews { tokens: [token].into(), users: [token].into(), ..KnownReviews::default() }
}

#[tokio::test(start_paused = true)]
async fn client_can_send_a_token_of_16_kib() {
    let (token, cluster) = (long_token(), ClusterCas::new());
    let bearer = format!("Bearer {token}");
    let (client, _task) = connect_with(b"h2", reviews_of(token), &cluster, None).await;
    let mut sender = http2_sender(client).await;
    assert_eq!(status(&mut sender, &[("authorization", bearer.as_str())]).await, 200);

    let (mut client, _task) = connect_with(b"http/1.1", reviews_of(token), &cluster, None).await;
    let head =
        format!("GET /version HTTP/1.1\r\nhost: localhost\r\nauthorization: {bearer}\r\n\r\n");
    client.write_all(head.as_bytes()).await.unwrap();
    client.flush().await.unwrap();
    let mut response = [0; 12];
    client.read_exact(&mut response).await.unwrap();
    assert_eq!(&response, b"HTTP/1.1 200");
}

#[tokio::test(start_paused = true)]
async fn request_above_the_users_share_of_connections_does_not_wait() {
    // The API server reviews the token, and never the access.
    let reviews = Arc::new(KnownReviews { tokens: ["eve"].into(), ..KnownReviews::default() });
    let adapter = Arc::new(adapter(source(), &reviews, &ClusterCas::new()));
    let users = UserConnections::new(2);
    let (first, _task) = connect_to(adapter.clone(), users.clone(), b"h2", None).await;
    let (second, _task) = connect_to(adapter, users, b"h2", None).await;
    let (mut first, mut second) = (http2_sender(first).await, http2_sender(second).await);
    let eve = [("authorization", "Bearer eve")];
    let first_status = timeout(Duration::from_secs(5), status(&mut first, &eve)).await;
    assert!(first_status.is_err(), "waits for the review of the access");
    assert_eq!(status(&mut second, &eve).await, 429);
}

/// Each of the requests has about 14 KiB with HPACK, and 128 KiB are read in advance.
#[tokio::test(start_paused = true)]
async fn user_with_long_headers_is_slowed_down() {
    let token = long_token();
    let bearer = format!("Bearer {token}");
    let (client, _task) = connect_with(b"h2", reviews_of(token), &ClusterCas::new(), None).await;
    let mut sender = http2_sender(client).await;
    let headers = [("authorization", bearer.as_str())];
    assert_eq!(status(&mut sender, &headers).await, 200);
    let started = Instant::now();
    for _ in 0..5 {
        assert_eq!(status(&mut sender, &headers).await, 200);
    }
    assert!(started.elapsed() < Duration::from_millis(500), "{:?}", started.elapsed());
    for _ in 5..50 {
        assert_eq!(status(&mut sender, &headers).await, 200);
    }
    let elapsed = started.elapsed();
    assert!(elapsed >= Duration::from_secs(1) && elapsed < Duration::from_secs(5), "{elapsed:?}");
}

#[tokio::test(start_paused = true)]
async fn front_proxy_can_send_the_groups_of_its_users_without_delay() {
    let cluster = ClusterCas::new();
    let identity = leaf("front-proxy-client").issue(&cluster.front_proxy);
    let reviews = KnownReviews { users: ["proxied"].into(), ..KnownReviews::default() };
    let (client, _task) = connect_with(b"h2", reviews, &cluster, Some(identity)).await;
    let mut sender = http2_sender(client).await;
    let groups: Vec<String> = (0..1100).map(|index| format!("group-{index:04}")).collect();
    let mut headers = vec![("x-remote-user", "proxied")];
    headers.extend(groups.iter().map(|group| ("x-remote-group", group.as_str())));
    let started = Instant::now();
    for _ in 0..10 {
        assert_eq!(status(&mut sender, &headers).await, 200);
    }
    assert!(started.elapsed() < Duration::from_millis(100), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn client_that_has_become_a_front_proxy_must_connect_again() {
    let cluster = ClusterCas::new();
    let users = ["system:anonymous", "proxied"].into();
    let reviews = Arc::new(KnownReviews { users, ..KnownReviews::default() });
    let adapter = Arc::new(adapter(source(), &reviews, &cluster));
    set_trust(&adapter, Trust::default());
    let identity = leaf("front-proxy-client").issue(&cluster.front_proxy);
    let users = UserConnections::new(USER_CONNECTIONS);
    let (client, task) = connect_to(adapter.clone(), users, b"h2", Some(identity)).await;
    let mut sender = http2_sender(client).await;
    let user = [("x-remote-user", "proxied")];
    assert_eq!(status(&mut sender, &user).await, 200, "anonymous");
    assert!(!task.is_finished());
    set_trust(&adapter, cluster.trust(|_| ()));
    assert_eq!(status(&mut sender, &user).await, 200);
    let answered = Instant::now();
    task.await.unwrap();
    assert!(answered.elapsed() < Duration::from_secs(1), "{:?}", answered.elapsed());
}

#[test]
fn only_front_proxies_have_more_than_32_streams() {
    let streams = |max_streams, is_front_proxy| {
        let options = ServerOptions { max_streams, ..ServerOptions::default() };
        options.request_limits(is_front_proxy).streams
    };
    assert_eq!([streams(None, true), streams(None, false)], [250, 32]);
    assert_eq!([streams(Some(500), true), streams(Some(500), false)], [500, 32]);
    assert_eq!([streams(Some(10), true), streams(Some(10), false)], [10, 10]);
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
