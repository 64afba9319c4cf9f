//! TLS with the server's CA and the client's certificate from files.

use std::{path::Path, sync::Arc};

use base64::{Engine, prelude::BASE64_STANDARD};
use parking_lot::Mutex;
use rcgen::{CertificateParams, CertifiedIssuer, KeyPair};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        RootCertStore, ServerConfig,
        pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
        server::WebPkiClientVerifier,
    },
};

use crate::client::{
    Authentication, Client, InstantQuery, QueryFailure, Settings, TimeoutParameter,
};

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

type IssuedCertificate = (rcgen::Certificate, KeyPair);

fn issue(authority: &Authority, name: &str) -> IssuedCertificate {
    issue_until(authority, name, 2100)
}

fn issue_until(authority: &Authority, name: &str, year: i32) -> IssuedCertificate {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.not_before = rcgen::date_time_ymd(2020, 1, 1);
    params.not_after = rcgen::date_time_ymd(year, 1, 1);
    (params.signed_by(&key, authority).unwrap(), key)
}

/// The clients that a server accepts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Clients {
    /// Clients with a certificate of its CA.
    WithCertificate,
    Any,
}

/// The heads of requests that a server has received.
type Heads = Arc<Mutex<Vec<String>>>;

/// Serves an empty vector to each request.
async fn serve(
    authority: &Authority,
    (certificate, key): IssuedCertificate,
    clients: Clients,
) -> (u16, Heads) {
    let mut roots = RootCertStore::empty();
    roots.add(authority.der().clone()).unwrap();
    let mut verifier = WebPkiClientVerifier::builder(Arc::new(roots));
    if clients == Clients::Any {
        verifier = verifier.allow_unauthenticated();
    }
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let heads = Heads::default();
    let received = heads.clone();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut request = vec![0; 4096];
            let length = stream.read(&mut request).await.unwrap_or_default();
            if length == 0 {
                continue;
            }
            received.lock().push(String::from_utf8_lossy(&request[..length]).to_lowercase());
            let body = r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#;
            let length = body.len();
            let response =
                format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
            stream.write_all((response + body).as_bytes()).await.unwrap();
            stream.shutdown().await.ok();
        }
    });
    (port, heads)
}

async fn query(settings: Settings) -> Result<(), QueryFailure> {
    let client = Client::new(settings, Arc::new(())).unwrap();
    let query = InstantQuery { query: "up".to_owned(), timeout: TimeoutParameter::Limit };
    client.query(&query).await.map(drop)
}

fn write(dir: &Path, name: &str, content: String) -> std::path::PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, content).unwrap();
    path
}

#[tokio::test]
async fn server_and_client_verify_each_other() {
    let (server_ca, other_ca) = (authority(), authority());
    let (port, _) =
        serve(&server_ca, issue(&server_ca, "localhost"), Clients::WithCertificate).await;
    let (certificate, key) = issue(&server_ca, "client");
    let dir = tempfile::tempdir().unwrap();
    let url = format!("https://localhost:{port}");
    let settings = Settings {
        ca_file: Some(write(dir.path(), "ca.crt", server_ca.pem())),
        client_certificate_file: Some(write(dir.path(), "tls.crt", certificate.pem())),
        client_key_file: Some(write(dir.path(), "tls.key", key.serialize_pem())),
        ..Settings::new("p", &url).unwrap()
    };
    query(settings.clone()).await.unwrap();

    let anonymous =
        Settings { client_certificate_file: None, client_key_file: None, ..settings.clone() };
    let error = query(anonymous).await.unwrap_err();
    assert!(matches!(error, QueryFailure::Request { .. }), "{error:?}");

    let ca_file = Some(write(dir.path(), "other.crt", other_ca.pem()));
    let error = query(Settings { ca_file, ..settings }).await.unwrap_err();
    assert!(matches!(error, QueryFailure::Request { .. }), "{error:?}");
    let expected = "the certificate of the server was issued by an unknown CA: set its CA with \
                    --prometheus-ca-file, or caFile of the server in the rules file";
    assert!(error.to_string().ends_with(expected), "{error}");
}

#[tokio::test]
async fn https_url_of_a_plain_server_gets_advice_to_use_http() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let answer = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n";
        stream.write_all(answer).await.unwrap();
        // Closing with unread bytes would reset the connection before the client reads.
        let _ = stream.read_to_end(&mut Vec::new()).await;
    });
    let ca = authority();
    let dir = tempfile::tempdir().unwrap();
    let ca_file = Some(write(dir.path(), "ca.crt", ca.pem()));
    let error = query(Settings { ca_file, ..Settings::new("p", &url).unwrap() }).await.unwrap_err();
    let expected = "failed: the server doesn't speak TLS: use http://";
    assert!(error.to_string().ends_with(expected), "{error}");
}

#[tokio::test]
async fn http_url_of_a_server_with_tls_gets_advice_to_use_https() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        assert_ne!(stream.read(&mut [0; 4096]).await.unwrap(), 0);
        // The answer of a server of Go, which has no header.
        let answer = b"HTTP/1.0 400 Bad Request\r\n\r\n\
                       Client sent an HTTP request to an HTTPS server.\n";
        stream.write_all(answer).await.unwrap();
        stream.shutdown().await.unwrap();
        let _ = stream.read_to_end(&mut Vec::new()).await;
    });
    let error = query(Settings::new("p", &url).unwrap()).await.unwrap_err();
    let expected = format!(
        "Prometheus at {url}: unknown response code 400: the server may require TLS; use https://"
    );
    assert_eq!(error.to_string(), expected);
}

#[tokio::test]
async fn expired_certificate_is_reported_until_it_is_replaced() {
    let authority = authority();
    let dir = tempfile::tempdir().unwrap();
    let settings = |port: u16, (certificate, key): IssuedCertificate| Settings {
        ca_file: Some(write(dir.path(), "ca.crt", authority.pem())),
        client_certificate_file: Some(write(dir.path(), "tls.crt", certificate.pem())),
        client_key_file: Some(write(dir.path(), "tls.key", key.serialize_pem())),
        ..Settings::new("p", &format!("https://localhost:{port}")).unwrap()
    };
    let (expired, _) =
        serve(&authority, issue_until(&authority, "localhost", 2021), Clients::WithCertificate)
            .await;
    let error = query(settings(expired, issue(&authority, "client"))).await.unwrap_err();
    let expected = "failed: the certificate of the server expired on 2021-01-01";
    assert!(error.to_string().ends_with(expected), "{error}");

    let (valid, _) =
        serve(&authority, issue(&authority, "localhost"), Clients::WithCertificate).await;
    let error = query(settings(valid, issue_until(&authority, "client", 2021))).await.unwrap_err();
    let text = hpa_metrics::describe(&error);
    assert!(text.contains("CertificateExpired"), "{text}");
    query(settings(valid, issue(&authority, "client"))).await.unwrap();
}

#[tokio::test]
async fn file_without_a_certificate_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let ca_file = Some(write(dir.path(), "ca.crt", "-----BEGIN nothing".to_owned()));
    let settings = Settings { ca_file, ..Settings::new("p", "https://localhost:1").unwrap() };
    let error = query(settings).await.unwrap_err();
    let QueryFailure::Connection(error) = error else { panic!("{error:?}") };
    assert!(error.to_string().contains("ca.crt"), "{error}");
}

#[tokio::test]
async fn service_account_provides_the_ca_and_the_token() {
    let (server_ca, other_ca) = (authority(), authority());
    let (port, heads) = serve(&server_ca, issue(&server_ca, "localhost"), Clients::Any).await;
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "ca.crt", server_ca.pem());
    let settings = Settings {
        authentication: Authentication::InCluster,
        service_account_directory: dir.path().to_owned(),
        ..Settings::new("p", &format!("https://localhost:{port}")).unwrap()
    };
    let error = query(settings.clone()).await.unwrap_err();
    let QueryFailure::Connection(error) = error else { panic!("{error:?}") };
    assert!(error.to_string().starts_with("unable to read the service account's token"), "{error}");

    write(dir.path(), "token", "secret".to_owned());
    query(settings.clone()).await.unwrap();
    let head = heads.lock().pop().unwrap();
    assert!(head.contains("\r\nauthorization: bearer secret\r\n"), "{head}");

    write(dir.path(), "ca.crt", other_ca.pem());
    let error = query(settings).await.unwrap_err();
    assert!(matches!(error, QueryFailure::Request { .. }), "{error:?}");
    assert_eq!(heads.lock().len(), 0, "the token was sent to a server that is not trusted");
}

#[tokio::test]
async fn kubeconfig_provides_the_ca_and_the_credentials() {
    let (server_ca, other_ca) = (authority(), authority());
    let (port, heads) = serve(&server_ca, issue(&server_ca, "localhost"), Clients::Any).await;
    let (protected, _) =
        serve(&server_ca, issue(&server_ca, "localhost"), Clients::WithCertificate).await;
    let (certificate, key) = issue(&server_ca, "client");
    let dir = tempfile::tempdir().unwrap();
    let token_file = write(dir.path(), "token", "secret".to_owned());
    let settings = |port: u16, authority: &Authority, user: &str| {
        let ca = BASE64_STANDARD.encode(authority.pem());
        // The kubeconfig's server is not used.
        let kubeconfig = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
             contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
             users: [{{name: u, user: {{{user}}}}}]\n\
             clusters: [{{name: c, cluster: {{server: 'https://127.0.0.1:1', \
             certificate-authority-data: {ca}}}}}]\n"
        );
        let path = write(dir.path(), "kubeconfig", kubeconfig);
        Settings {
            authentication: Authentication::Kubeconfig(path),
            ..Settings::new("p", &format!("https://localhost:{port}")).unwrap()
        }
    };
    for user in ["token: secret".to_owned(), format!("tokenFile: {}", token_file.display())] {
        query(settings(port, &server_ca, &user)).await.unwrap();
        let head = heads.lock().pop().unwrap();
        assert!(head.contains("\r\nauthorization: bearer secret\r\n"), "{user}: {head}");
    }
    query(settings(port, &server_ca, "username: me, password: secret")).await.unwrap();
    let head = heads.lock().pop().unwrap();
    assert!(head.contains("\r\nauthorization: basic bwu6c2vjcmv0\r\n"), "{head}");

    let data = |pem: String| BASE64_STANDARD.encode(pem);
    let user = format!(
        "client-certificate-data: {}, client-key-data: {}",
        data(certificate.pem()),
        data(key.serialize_pem())
    );
    query(settings(protected, &server_ca, &user)).await.unwrap();
    query(settings(protected, &server_ca, "token: secret")).await.unwrap_err();
    query(settings(port, &other_ca, "token: secret")).await.unwrap_err();
    assert_eq!(heads.lock().len(), 0, "the token was sent to a server that is not trusted");
}
