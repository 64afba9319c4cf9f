//! Clients and requests for commands that take the flags of kubectl.

mod clock;
mod objects;

use std::error::Error;

use anyhow::{Context, anyhow, bail};
use hpa_calc::{go_text::truncate, suggestions::is_similar};
use hpa_controller::k8s::{
    ClientConfig, ClientLimits, ClientSource, Clients, DeadlineExceeded, KubeconfigOverrides,
    RejectingServer,
};
use hpa_metrics::describe;
pub(crate) use hpa_metrics::percent_encode as escape;
use http::{Request, StatusCode, response};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Bytes;
use jiff::Timestamp;
use kube::{Client, client::Body, core::Status};
use serde::de::DeserializeOwned;
use serde_json::Value;

pub(crate) use self::{
    clock::{ApiServerClock, api_server_time, now},
    objects::{
        get_object, get_pod, list, list_at_most, list_first_page, list_needed, listed_metrics,
        summarize_undecodable, unavailability,
    },
};
use crate::{
    args::{KubectlArguments, to_std},
    manifests::string_at,
    terminal::shorten_names,
    version,
};

/// The maximum size of a response, in bytes.
const MAX_BODY_BYTES: usize = 256 << 20;

/// The maximum length of the message of a refusal, in characters. An aggregated API server may have
/// written it.
const MAX_MESSAGE_CHARS: usize = 2000;

/// Creates clients of the cluster that the flags select. Sends no request.
pub(crate) async fn clients(arguments: &KubectlArguments) -> anyhow::Result<Clients> {
    let source = ClientSource::from_flags(arguments.kubeconfig.clone(), arguments.context.clone());
    let overrides = KubeconfigOverrides {
        cluster: arguments.cluster.clone(),
        user: arguments.user.clone(),
        ..arguments.impersonation.overrides()
    };
    let limits = ClientLimits {
        request_timeout: to_std(arguments.request_timeout),
        ..ClientLimits::default()
    };
    let user_agent = version::user_agent();
    let config = ClientConfig { source, overrides, api: limits, metrics: limits, user_agent };
    Ok(Clients::new(&config).await?)
}

/// Runs the requests of a command on this thread.
pub(crate) fn block_on<T>(requests: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("unable to start the runtime")?.block_on(requests)
}

/// Runs a command on `threads` threads, by default one for each core. Doesn't wait for blocking
/// tasks such as DNS lookups at the end.
pub(crate) fn block_on_threads<T>(
    threads: Option<u8>,
    command: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if let Some(threads) = threads {
        builder.worker_threads(threads.into());
    }
    let runtime = builder.enable_all().build().context("unable to start the runtime")?;
    let outcome = runtime.block_on(command);
    runtime.shutdown_background();
    outcome
}

/// Gets an object or a list by its path. The error is the API server's message or status, or the
/// reason why there was no usable response. For objects that tenants store, see [`list`] and
/// [`get_object`].
pub(crate) async fn get<T: DeserializeOwned>(client: &Client, path: &str) -> anyhow::Result<T> {
    let sent_at = Timestamp::now();
    let response = client.send(Request::get(path).body(Body::empty())?).await;
    let (head, body) = response.map_err(|error| NoResponse::new(&error))?.into_parts();
    clock::adjust(path, &head.headers, sent_at);
    let body = read_body(path, body, MAX_BODY_BYTES).await?;
    if !head.status.is_success() {
        let text = refusal_text(&head, &body, path);
        return Err(Refusal { status: head.status, text }.into());
    }
    let object = serde_json::from_slice(&body).map_err(kube::Error::SerdeError);
    Ok(object.map_err(|error| NoResponse::new(&error))?)
}

/// Reads the body of the response to a path, of at most `limit` bytes.
async fn read_body(path: &str, body: Body, limit: usize) -> anyhow::Result<Bytes> {
    match Limited::new(body, limit).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            Err(anyhow!("the response to {path} is longer than {limit} bytes"))
        }
        Err(error) => Err(NoResponse::new(&*error).into()),
    }
}

/// Like [`get`], but returns `None` if the API server answers 404.
pub(crate) async fn get_if_served<T: DeserializeOwned>(
    client: &Client,
    path: &str,
) -> anyhow::Result<Option<T>> {
    match get(client, path).await {
        Ok(object) => Ok(Some(object)),
        Err(error) if is_not_found(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the API server answered 403 to a request of this module.
pub(crate) fn is_forbidden(error: &anyhow::Error) -> bool {
    is_refused_with(error, StatusCode::FORBIDDEN)
}

/// Whether the API server answered 404 to a request of this module.
pub(crate) fn is_not_found(error: &anyhow::Error) -> bool {
    is_refused_with(error, StatusCode::NOT_FOUND)
}

fn is_refused_with(error: &anyhow::Error, status: StatusCode) -> bool {
    error.downcast_ref::<Refusal>().is_some_and(|refusal| refusal.status == status)
}

/// A response that isn't a success.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
struct Refusal {
    status: StatusCode,
    text: String,
}

/// An error as after a response with 403.
#[cfg(test)]
pub(crate) fn forbidden(text: &str) -> anyhow::Error {
    Refusal { status: StatusCode::FORBIDDEN, text: text.to_owned() }.into()
}

/// A client of an API server that answers each path with this status and body.
#[cfg(test)]
pub(crate) fn answering_client(
    answer: impl Fn(&str) -> (u16, Value) + Clone + Send + 'static,
) -> Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let (status, body) = answer(request.uri().path());
        let response = http::Response::builder().status(status);
        std::future::ready(response.body(Body::from(body.to_string().into_bytes())))
    });
    Clients::from_service(service, &ClientLimits::default()).api
}

/// The message of a response that isn't a success, which is a `Status` or any text.
fn refusal_text(head: &response::Parts, body: &[u8], path: &str) -> String {
    let message = match serde_json::from_slice::<Status>(body) {
        Ok(status) => status.message,
        Err(_) => String::from_utf8_lossy(body).trim().to_owned(),
    };
    let message = truncate(message, MAX_MESSAGE_CHARS);
    let code = head.status.as_u16();
    match head.extensions.get::<RejectingServer>() {
        _ if message.is_empty() => {
            format!("the server answered {code} without a message to {path}")
        }
        Some(RejectingServer(address)) => {
            format!("{} rejected the credentials: {message}", api_server(address))
        }
        None => message,
    }
}

/// The API server in messages. `address` is empty for a server in the same process.
fn api_server(address: &str) -> String {
    let at = if address.is_empty() { "" } else { " at " };
    format!("the API server{at}{address}")
}

/// The reason why a request got no usable response: none arrived, or it can't be decoded. Further
/// requests would most likely fail as well.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NoResponse(String);

impl NoResponse {
    fn new(error: &(dyn Error + 'static)) -> Self {
        let Some(exceeded) = DeadlineExceeded::find(error) else { return Self(describe(error)) };
        let (server, seconds) = (api_server(&exceeded.server), exceeded.limit.as_secs_f64());
        Self(if exceeded.has_begun {
            format!("the response of {server} took longer than {seconds} s (--request-timeout)")
        } else {
            format!("no response from {server} within {seconds} s (--request-timeout)")
        })
    }
}

/// The message that a namespace doesn't exist, with similar names. `None` if it exists or can't be
/// read.
pub(crate) async fn missing_namespace(client: &Client, namespace: &str) -> Option<String> {
    let path = format!("/api/v1/namespaces/{}", escape(namespace));
    let Ok(None) = get_if_served::<Value>(client, &path).await else { return None };
    let all = list(client, "/api/v1/namespaces").await.unwrap_or_default();
    let names = all.iter().map(|item| string_at(item, "/metadata/name"));
    let similar = names.filter(|name| is_similar(name, namespace));
    let similar: Vec<String> = similar.map(str::to_owned).collect();
    let hint = if similar.is_empty() { "" } else { ". Similar: " };
    Some(format!("the namespace {namespace} doesn't exist{hint}{}", shorten_names(&similar)))
}

/// Fails if the namespace of `--namespace` doesn't exist, for commands that found nothing in it.
pub(crate) async fn require_namespace(
    client: &Client,
    namespace: Option<&str>,
) -> anyhow::Result<()> {
    let Some(namespace) = namespace else { return Ok(()) };
    match missing_namespace(client, namespace).await {
        Some(missing) => bail!("{missing}"),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, future::pending, time::Duration};

    use http::Response;
    use rstest::rstest;

    use super::*;

    fn client(status: u16, body: &'static str) -> Client {
        let service = tower::service_fn(move |_: Request<Body>| async move {
            let response = Response::builder().status(status);
            let response = response.body(Body::from(body.as_bytes().to_vec()));
            Ok::<_, Infallible>(response.expect("a response"))
        });
        Clients::from_service(service, &ClientLimits::default()).api
    }

    #[rstest]
    #[case::credentials(
        401,
        r#"{"kind":"Status","message":"Unauthorized","code":401}"#,
        "the API server rejected the credentials: Unauthorized"
    )]
    #[case::right(403, r#"{"message":"pods is forbidden"}"#, "pods is forbidden")]
    #[case::proxy(502, " Bad Gateway\n", "Bad Gateway")]
    #[case::no_message(500, "", "the server answered 500 without a message to /api")]
    #[tokio::test]
    async fn refusal_has_the_message_of_the_response(
        #[case] status: u16,
        #[case] body: &'static str,
        #[case] expected: &str,
    ) {
        let error = get::<Value>(&client(status, body), "/api").await.expect_err("refused");
        assert_eq!(error.to_string(), expected);
        assert!(!error.is::<NoResponse>());
    }

    #[tokio::test]
    async fn long_refusal_is_cut_off() {
        let long = client(500, "x".repeat(2 * MAX_MESSAGE_CHARS).leak());
        let error = get::<Value>(&long, "/api").await.expect_err("refused").to_string();
        assert_eq!(error.chars().count(), MAX_MESSAGE_CHARS + 1, "with an ellipsis");
    }

    #[tokio::test]
    async fn response_has_a_maximum_size() {
        let read = |limit| read_body("/apis", Body::from(b"12345".to_vec()), limit);
        assert_eq!(read(5).await.expect("a body"), "12345");
        let error = read(4).await.expect_err("too long");
        assert_eq!(error.to_string(), "the response to /apis is longer than 4 bytes");
    }

    #[tokio::test]
    async fn absent_object_is_none_if_it_need_not_be_served() {
        let absent = client(404, r#"{"message":"not found","code":404}"#);
        assert_eq!(get_if_served::<Value>(&absent, "/api").await.expect("no error"), None);
        let error = get::<Value>(&absent, "/api").await.expect_err("absent");
        assert_eq!(error.to_string(), "not found");
    }

    #[tokio::test(start_paused = true)]
    async fn timeout_is_named_with_its_flag() {
        let hanging =
            tower::service_fn(|_: Request<Body>| pending::<Result<Response<Body>, Infallible>>());
        let limits =
            ClientLimits { request_timeout: Duration::from_secs(15), ..ClientLimits::default() };
        let client = Clients::from_service(hanging, &limits).api;
        let error = get::<Value>(&client, "/api").await.expect_err("no response");
        let expected = "no response from the API server within 15 s (--request-timeout)";
        assert_eq!(error.to_string(), expected);
        assert!(error.is::<NoResponse>());
    }

    #[test]
    fn server_is_named_by_its_address() {
        assert_eq!(api_server("10.0.0.1:6443"), "the API server at 10.0.0.1:6443");
    }
}
