use std::{
    convert::Infallible,
    future::pending,
    io::Write,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use hpa_metrics::describe;
use http::{Method, Request, Response, StatusCode};
use kube::{
    client::{Body, ClientBuilder},
    config::{KubeconfigError, NoProxyError},
};
use parking_lot::Mutex;
use rstest::rstest;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::{
    ClientConfig, ClientLimits, ClientSource, Clients, ConnectError, RejectingServer,
    kubeconfig::{ClientProblem, default_paths, named_files},
    with_limits,
};
use crate::k8s::{ApiRequest, RequestObserver};

const KUBECONFIG: &str = r"
apiVersion: v1
kind: Config
current-context: here
contexts:
- {name: here, context: {cluster: local, user: me}}
- {name: broken, context: {cluster: absent, user: me}}
- {name: locked, context: {cluster: local, user: key}}
- {name: no-ca, context: {cluster: no-ca, user: me}}
- {name: no-base64, context: {cluster: no-base64, user: me}}
- {name: no-pem, context: {cluster: no-pem, user: me}}
clusters:
- {name: local, cluster: {server: 'https://api.example:6443'}}
- {name: no-ca, cluster: {server: 'https://api.example:6443', certificate-authority: hunter2}}
- {name: no-base64, cluster: {server: 'https://api.example:6443', certificate-authority-data: '?'}}
# -----BEGIN hunter2-----, YQ==, -----END other-----
- name: no-pem
  cluster:
    server: 'https://api.example:6443'
    certificate-authority-data: LS0tLS1CRUdJTiBodW50ZXIyLS0tLS0KWVE9PQotLS0tLUVORCBvdGhlci0tLS0tCg==
users:
- {name: me, user: {token: hunter2}}
- {name: key, user: {client-certificate-data: aHVudGVyMg==, client-key-data: aHVudGVyMg==}}
";

/// The error text of a kubeconfig that can't be used.
async fn failure(path: &Path, context: Option<&str>) -> Option<String> {
    let source = ClientSource::Kubeconfig {
        path: Some(PathBuf::from(path)),
        context: context.map(str::to_owned),
    };
    let config = ClientConfig { source, ..ClientConfig::default() };
    let error = Clients::new(&config).await.err()?;
    let text = describe(&error);
    for text in [&text, &format!("{error:?}")] {
        assert!(!text.contains("hunter2") && !text.contains("aHVudGVyMg"), "{text}");
    }
    Some(text)
}

#[rstest]
#[case::one("", "kind: Deployment\nspec: {}\n")]
#[case::several("", "kind: Deployment\n---\nkind: HorizontalPodAutoscaler\n")]
#[case::colon_in_path(":a", "kind: Deployment\n")]
#[tokio::test]
async fn manifest_is_no_kubeconfig(#[case] suffix: &str, #[case] content: &str) {
    let mut file = tempfile::Builder::new().suffix(suffix).tempfile().unwrap();
    file.write_all(content.as_bytes()).unwrap();
    let expected = format!("{} is not a kubeconfig (kind: Deployment)", file.path().display());
    assert_eq!(failure(file.path(), None).await, Some(expected));
}

#[rstest]
#[case(KUBECONFIG, None, None)]
#[case(KUBECONFIG, Some("here"), None)]
#[case(KUBECONFIG, Some("gone"), Some(r#", context "gone": the file has no context gone"#))]
#[case(
    KUBECONFIG,
    Some("broken"),
    Some(", context \"broken\": the context names cluster absent, which the file doesn't define")
)]
#[case(KUBECONFIG, Some("locked"), Some(": invalid TLS certificates or key"))]
#[case(KUBECONFIG, Some("no-ca"), Some(": failed to load the certificate authority"))]
#[case(KUBECONFIG, Some("no-base64"), Some(": failed to load the certificate authority"))]
#[case(KUBECONFIG, Some("no-pem"), Some(": the certificate authority is not valid PEM"))]
#[case("users:\n- {token: hunter2", None, Some(", current context: not valid kubeconfig YAML"))]
#[tokio::test]
async fn kubeconfig_error_names_file_and_context_without_secrets(
    #[case] content: &str,
    #[case] context: Option<&str>,
    #[case] expected: Option<&str>,
) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(content.as_bytes()).unwrap();
    let failure = failure(file.path(), context).await;
    match (failure, expected) {
        (None, None) => {}
        (Some(failure), Some(expected)) => {
            assert!(failure.ends_with(expected), "{failure}");
            assert!(failure.contains(&file.path().display().to_string()), "{failure}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn clients_of_a_kubeconfig_do_not_use_the_service_account() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(KUBECONFIG.as_bytes()).unwrap();
    let source = ClientSource::Kubeconfig { path: Some(file.path().to_owned()), context: None };
    let config = ClientConfig { source, ..ClientConfig::default() };
    let clients = Clients::new(&config).await.unwrap();
    assert!(!clients.uses_service_account);
    assert_eq!(clients.server, "api.example:6443");
}

/// With `NO_PROXY`, kube's error quotes a `proxy-url` without a host.
#[test]
fn proxy_url_is_not_in_the_error() {
    let error = NoProxyError::NoHost { uri: Box::new("/hunter2".parse().unwrap()) };
    let problem = ClientProblem::of_kubeconfig(KubeconfigError::ParseNoProxy(error)).to_string();
    assert_eq!(problem, "failed to parse the proxy URL in proxy-url or HTTPS_PROXY");
}

#[tokio::test]
async fn missing_kubeconfig_is_named_in_the_error() {
    let failure = failure(Path::new("/nonexistent/kubeconfig"), None).await.unwrap();
    assert!(
        failure.starts_with(
            "unable to use kubeconfig /nonexistent/kubeconfig, current context: failed to read the \
             file: No such file"
        ),
        "{failure}"
    );
}

/// With TLS 1.3, the alert arrives after the connection is established.
#[test]
fn missing_client_certificate_is_explained_with_its_settings() {
    let replace = |error: &str| {
        ConnectError::replace("10.0.0.1:6443", std::io::Error::other(error).into()).to_string()
    };
    let expected = "unable to connect to the API server at 10.0.0.1:6443: the server requires a \
                    client certificate: set it with client-certificate and client-key in the \
                    kubeconfig";
    assert_eq!(replace("received fatal alert: CertificateRequired"), expected);
    let refused = replace("received fatal alert: BadCertificate");
    let expected =
        "or requires one: set it with client-certificate and client-key in the kubeconfig";
    assert!(refused.ends_with(expected), "{refused}");
    assert_eq!(replace("connection reset"), "connection reset");
}

#[tokio::test]
async fn response_that_rejects_the_credentials_names_the_server() {
    let service = tower::service_fn(|request: Request<Body>| async move {
        let is_known = request.uri().path() == "/version";
        let status = if is_known { StatusCode::OK } else { StatusCode::UNAUTHORIZED };
        Ok::<_, Infallible>(Response::builder().status(status).body(Body::empty()).unwrap())
    });
    let builder = ClientBuilder::new(service, "default");
    let (limits, server) = (ClientLimits::default(), "10.0.0.1:6443".to_owned());
    let client = with_limits(builder, &limits, Arc::new(()), None, server);
    for (path, expected) in [("/api", Some("10.0.0.1:6443")), ("/version", None)] {
        let response = client.send(Request::get(path).body(Body::empty()).unwrap()).await.unwrap();
        let server = response.extensions().get::<RejectingServer>();
        assert_eq!(server.map(|server| &*server.0), expected, "{path}");
    }
}

#[rstest]
#[case(None, None)]
#[case(Some(""), None)]
#[case(Some(":"), None)]
#[case(Some("a:b"), Some("a:b"))]
fn empty_variable_names_no_kubeconfig(#[case] variable: Option<&str>, #[case] named: Option<&str>) {
    assert_eq!(named_files(variable.map(Into::into)).as_deref(), named);
}

#[rstest]
#[case::several(Some("/a:/b"), &["/a", "/b"])]
#[case::home(None, &["/root/.kube/config"])]
#[case::empty(Some(""), &["/root/.kube/config"])]
fn kubeconfig_variable_replaces_the_default_path(
    #[case] variable: Option<&str>,
    #[case] expected: &[&str],
) {
    let paths = default_paths(variable.map(Into::into), Some("/root".into()));
    assert_eq!(paths, expected.iter().map(PathBuf::from).collect::<Vec<_>>());
}

/// Records how long requests without a response took.
#[derive(Default)]
struct Timeouts(Mutex<Vec<u64>>);

impl RequestObserver for Timeouts {
    fn request_finished(
        &self,
        _: &str,
        _: &Method,
        status: Option<StatusCode>,
        duration: Duration,
    ) {
        assert_eq!(status, None);
        self.0.lock().push(duration.as_secs());
    }
}

#[tokio::test(start_paused = true)]
async fn timeout_starts_when_a_request_is_sent_and_is_observed() {
    let hanging =
        tower::service_fn(|_: Request<Body>| pending::<Result<Response<Body>, Infallible>>());
    let timeout = Duration::from_secs(10);
    let limits = ClientLimits {
        concurrency: NonZeroUsize::MIN,
        request_timeout: timeout,
        ..ClientLimits::default()
    };
    let observer = Arc::<Timeouts>::default();
    let builder = ClientBuilder::new(hanging, "default");
    let client = &with_limits(builder, &limits, observer.clone(), None, String::new());
    let get = async |path: &str| {
        let request = ApiRequest::get(client, timeout, path.to_owned());
        request.send::<Value>().await.unwrap_err().to_string()
    };
    let start = Instant::now();
    let waiting = async {
        sleep(timeout / 2).await;
        get("/apis/batch").await
    };
    let errors = tokio::join!(get("/apis/apps"), waiting);
    let error =
        |path: &str| format!("Get {path:?}: context deadline exceeded: no response within 10s");
    assert_eq!(errors, (error("/apis/apps"), error("/apis/batch")));
    assert_eq!(start.elapsed().as_secs(), 20);
    assert_eq!(*observer.0.lock(), [10, 10]);
}
