//! Clients and requests for commands that take the flags of kubectl.

use anyhow::{Context, anyhow, bail};
use hpa_calc::suggestions::is_similar;
use hpa_controller::k8s::{
    ClientConfig, ClientLimits, ClientSource, Clients, DEADLINE_EXCEEDED, KubeconfigOverrides,
};
use hpa_metrics::{describe, percent_encode};
use http::Request;
use kube::Client;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    args::{KubectlArguments, to_std},
    manifests::string_at,
    terminal::shorten_names,
    version,
};

/// Creates clients of the cluster that the flags select. Sends no request.
pub(crate) async fn clients(arguments: &KubectlArguments) -> anyhow::Result<Clients> {
    let source = match (&arguments.kubeconfig, &arguments.context) {
        (None, None) => ClientSource::Infer,
        (path, context) => {
            ClientSource::Kubeconfig { path: path.clone(), context: context.clone() }
        }
    };
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

/// The number of objects in a page of a list, as in kubectl.
const PAGE_SIZE: usize = 500;

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

/// Lists all objects at a path, which can have a query, in pages.
pub(crate) async fn list(client: &Client, path: &str) -> anyhow::Result<Vec<Value>> {
    let separator = if path.contains('?') { '&' } else { '?' };
    let path = format!("{path}{separator}limit={PAGE_SIZE}");
    let (mut objects, mut token) = (Vec::new(), String::new());
    loop {
        let mut page: Value = get(client, &format!("{path}{token}")).await?;
        if let Some(Value::Array(items)) = page.get_mut("items") {
            objects.append(items);
        }
        match string_at(&page, "/metadata/continue") {
            "" => return Ok(objects),
            next => token = format!("&continue={}", escape(next)),
        }
    }
}

/// Gets an object or a list by its path. The error is the API server's message or status, or the
/// reason why there was no usable response.
pub(crate) async fn get<T: DeserializeOwned>(client: &Client, path: &str) -> anyhow::Result<T> {
    let response = client.request(Request::get(path).body(Vec::new())?).await;
    response.map_err(|error| failure(&error, path))
}

/// Like [`get`], but returns `None` if the API server answers 404.
pub(crate) async fn get_if_served<T: DeserializeOwned>(
    client: &Client,
    path: &str,
) -> anyhow::Result<Option<T>> {
    match client.request(Request::get(path).body(Vec::new())?).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(failure(&error, path)),
        Ok(object) => Ok(Some(object)),
    }
}

/// The status of a request whose credentials the API server doesn't accept.
const UNAUTHORIZED: u16 = 401;

fn failure(error: &kube::Error, path: &str) -> anyhow::Error {
    match error {
        kube::Error::Api(status) if status.message.is_empty() => {
            anyhow!("the server answered {} without a message to {path}", status.code)
        }
        kube::Error::Api(status) if status.code == UNAUTHORIZED => {
            anyhow!("the API server rejected the credentials: {}", status.message)
        }
        kube::Error::Api(status) => anyhow!("{}", status.message),
        error => {
            let text = describe(error);
            let timed_out = text.ends_with(DEADLINE_EXCEEDED);
            NoResponse(if timed_out {
                "no response from the API server within --request-timeout".to_owned()
            } else {
                text
            })
            .into()
        }
    }
}

/// A request without a response of the API server. Further ones would most likely fail as well.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NoResponse(String);

/// The message that a namespace doesn't exist, with similar names. `None` if it exists or can't be
/// read.
pub(crate) async fn missing_namespace(client: &Client, namespace: &str) -> Option<String> {
    let path = format!("/api/v1/namespaces/{}", escape(namespace));
    let Ok(None) = get_if_served::<Value>(client, &path).await else { return None };
    let all: Value = get(client, "/api/v1/namespaces").await.unwrap_or_default();
    let items = all.get("items").and_then(Value::as_array).into_iter().flatten();
    let names = items.map(|item| string_at(item, "/metadata/name"));
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

/// Percent-encodes a segment of a path or a value of a query. A shell interprets no character of
/// the result inside a word.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::new();
    percent_encode(&mut escaped, text, |byte| byte == b':');
    escaped
}
