//! A client of the debug API. It finds the leader by its lease, and reads the API through the API
//! server's proxy with a token that no other server accepts. With `--controller-url`, it reads the
//! API at that URL, without a token.
//!
//! A tenant may serve the responses: the field managers of statuses name the lease, so a tenant can
//! create a lease, name its own pod in it as the holder, and name the lease in its own statuses.
//! Responses are therefore bounded in size, number and time.

mod lease;
mod lease_key;
mod list;
#[cfg(test)]
mod tests;
mod token;
mod unavailable;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use hpa_calc::go_text::truncate;
use hpa_controller::{
    HpaKey,
    debug::{AutoscalerActivity, AutoscalerDetail, AutoscalerItem, ControllerStatus, clock_lag},
};
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Bytes;
use jiff::{SignedDuration, Timestamp};
use kube::{Client, Config, client::Body};
use serde::{Deserialize, de::DeserializeOwned};
use tokio::time::timeout;

pub(crate) use hpa_controller::k8s::KUBE_CONTROLLER_MANAGER;

#[cfg(test)]
pub(crate) use self::tests::status_document;
pub(crate) use self::{
    lease::{LeaderPod, LeaseHolder, describe_wrong_clock, format_minutes},
    lease_key::{LeaseKey, NamedLease},
    list::item_key,
    unavailable::Unavailable,
};
use self::{list::ListedPages, token::DebugToken};
use crate::{
    args::ControllerArguments,
    debug_api::{MARKER_HEADER, TOKEN_HEADER},
    kubectl::escape,
};

/// The maximum size of a document, in bytes.
const MAX_DOCUMENT_BYTES: usize = 256 << 20;

/// The maximum size of an error response, in bytes.
const MAX_ERROR_BYTES: usize = 64 << 10;

/// The maximum length of the message of an error response, in characters.
const MAX_MESSAGE_CHARS: usize = 500;

/// Reads the debug API of one instance.
pub(crate) struct DebugClient {
    client: Client,
    /// The prefix of the API's paths.
    prefix: String,
    /// `None` for the API at `--controller-url`.
    token: Option<DebugToken>,
    /// The time limit of a document or list. `None` if the client of the API server limits each
    /// request.
    time_limit: Option<Duration>,
    /// The pod or the URL of the API, for messages.
    pub(crate) source: String,
}

/// The state of an instance.
pub(crate) struct Instance {
    pub(crate) status: ControllerStatus,
    /// Its autoscalers. `None` if they can't be read. Always present if `is_working_at_url` is set,
    /// because [`DebugClient::instance`] then fails without them.
    pub(crate) items: Option<Vec<AutoscalerItem>>,
    /// Whether the instance is at `--controller-url` and its workers run.
    is_working_at_url: bool,
}

impl Instance {
    /// The lead of its clock over the API server's. The start and the end of the request are times
    /// by the API server's clock.
    pub(crate) fn clock_lead(
        &self,
        requested_at: Timestamp,
        responded_at: Timestamp,
    ) -> SignedDuration {
        -clock_lag(self.status.now, requested_at, responded_at)
    }

    /// The names of the autoscalers that the instance at `--controller-url` reconciles, possibly
    /// without a lease. Empty if the instance was found by its lease, or is a standby.
    pub(crate) fn reconciled_at_url(&self) -> BTreeSet<String> {
        let items = self.items.iter().flatten().filter(|_| self.is_working_at_url);
        items.map(|item| item_key(item).to_string()).collect()
    }

    /// The statuses that could not be stored, by the names of their autoscalers. Empty if they
    /// can't be read.
    pub(crate) fn unstored_statuses(&self) -> BTreeMap<String, UnstoredStatus> {
        let unstored = self.items.iter().flatten().filter_map(|item| {
            let error = item.status_write_error.clone()?;
            let failure = item.last.as_ref().and_then(|last| last.decision.failure());
            let failure = failure.map(ToOwned::to_owned);
            Some((item_key(item).to_string(), UnstoredStatus { error, failure }))
        });
        unstored.collect()
    }

    /// Whether scalings of some autoscalers are overwritten, but the list of them can't be read.
    pub(crate) fn lacks_overwritten_autoscalers(&self) -> bool {
        self.items.is_none() && self.status.overwritten > 0
    }

    /// The latest activity of the controller, by the names of the autoscalers. Empty if it can't be
    /// read.
    pub(crate) fn activities(&self) -> BTreeMap<String, AutoscalerActivity> {
        let items = self.items.iter().flatten();
        let activities =
            items.map(|item| (item_key(item).to_string(), item.activity(self.status.now)));
        activities.collect()
    }
}

/// A status that the controller failed to store. The stored one is older.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnstoredStatus {
    /// The error of the write.
    pub(crate) error: String,
    /// The cause if the controller could not make its last decision.
    pub(crate) failure: Option<String>,
}

impl DebugClient {
    /// Finds the debug API: at the URL from the flags, or else of the lease holder.
    pub(crate) async fn find(
        client: &Client,
        arguments: &ControllerArguments,
        request_timeout: Duration,
        lease: &LeaseKey,
    ) -> Result<Self, Unavailable> {
        if let Some(url) = &arguments.controller_url {
            return Self::for_url(url, request_timeout);
        }
        let holder = LeaseHolder::read(client, lease).await?;
        let leader = holder.read_leader_pod(client).await?;
        Self::for_leader(client, lease, &leader).await
    }

    /// Creates a client of a leader's debug API, and requests its token.
    pub(crate) async fn for_leader(
        client: &Client,
        lease: &LeaseKey,
        leader: &LeaderPod,
    ) -> Result<Self, Unavailable> {
        let Some(port) = leader.debug_port else {
            return Err(Unavailable::Off { pod: leader.to_string() });
        };
        let token = DebugToken::request(client, lease).await?;
        let (namespace, pod) = (escape(&leader.namespace), escape(&leader.pod));
        Ok(Self {
            client: client.clone(),
            prefix: format!("/api/v1/namespaces/{namespace}/pods/https:{pod}:{port}/proxy"),
            token: Some(token),
            time_limit: None,
            source: format!("pod {leader}"),
        })
    }

    /// Creates a client of the debug API at a URL, without a token.
    pub(crate) fn for_url(url: &Uri, request_timeout: Duration) -> Result<Self, Unavailable> {
        let mut config = Config::new(url.clone());
        config.default_retry = false;
        let client = Client::try_from(config).map_err(|error| Unavailable::unreachable(&error))?;
        let source = url.to_string().trim_end_matches('/').to_owned();
        let time_limit = Some(request_timeout);
        Ok(Self { client, prefix: String::new(), token: None, time_limit, source })
    }

    /// The state of the instance.
    pub(crate) async fn status(&self) -> Result<ControllerStatus, Unavailable> {
        let status = self.get("/debug/v1/status").await?;
        status.ok_or_else(|| self.not_the_api())
    }

    /// All autoscalers, without their histories and earlier decisions. Fails if the pages don't
    /// end, because a tenant may serve them.
    pub(crate) async fn autoscalers(&self) -> Result<Vec<AutoscalerItem>, Unavailable> {
        self.in_time(self.read_pages()).await
    }

    async fn read_pages(&self) -> Result<Vec<AutoscalerItem>, Unavailable> {
        let mut pages = ListedPages::default();
        let mut path = "/debug/v1/autoscalers".to_owned();
        loop {
            let body = self.read(&path, pages.remaining_bytes()).await?;
            let body = body.ok_or_else(|| self.not_the_api())?;
            let page = decode(&body)?;
            let next = pages.add(page, body.len());
            let next = next
                .map_err(|problem| Unavailable::Unreachable(format!("{}: {problem}", self.source)));
            let Some(next) = next? else { return Ok(pages.items) };
            path = format!("/debug/v1/autoscalers?continue={}", escape(&next));
        }
    }

    /// Reads the state of the instance, and its autoscalers: their last decisions have causes that
    /// the stored statuses lack.
    pub(crate) async fn instance(&self) -> Result<Instance, Unavailable> {
        let status = self.status().await?;
        let is_working_at_url = self.token.is_none() && status.is_working;
        let items = self.autoscalers().await;
        let items = if is_working_at_url { Some(items?) } else { items.ok() };
        Ok(Instance { status, items, is_working_at_url })
    }

    /// An autoscaler with its decisions since a time. `None` if the instance doesn't have it.
    pub(crate) async fn autoscaler(
        &self,
        HpaKey { api, namespace, name }: &HpaKey,
        since: Option<Timestamp>,
    ) -> Result<Option<AutoscalerDetail>, Unavailable> {
        let since = since.map(|since| format!("&since={}", escape(&since.to_string())));
        self.get(&format!(
            "/debug/v1/autoscalers/{}/{}?api={}{}",
            escape(namespace),
            escape(name),
            api.name(),
            since.unwrap_or_default()
        ))
        .await
    }

    /// Reads a document. `None` if the API has none at this path.
    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, Unavailable> {
        let body = self.in_time(self.read(path, MAX_DOCUMENT_BYTES)).await?;
        body.map(|body| decode(&body)).transpose()
    }

    fn not_the_api(&self) -> Unavailable {
        Unavailable::NotTheApi(self.source.clone())
    }

    /// Ends a read at the time limit.
    async fn in_time<T>(
        &self,
        read: impl Future<Output = Result<T, Unavailable>>,
    ) -> Result<T, Unavailable> {
        let Some(limit) = self.time_limit else { return read.await };
        let outcome = timeout(limit, read).await;
        outcome.map_err(|_| Unavailable::timed_out(&self.source, limit))?
    }

    /// Reads the text of a document of at most `limit` bytes. `None` if the API has none at this
    /// path.
    async fn read(&self, path: &str, limit: usize) -> Result<Option<Bytes>, Unavailable> {
        let mut request = Request::get(format!("{}{path}", self.prefix));
        if let Some(token) = &self.token {
            request = request.header(TOKEN_HEADER, format!("Bearer {}", token.current().await?));
        }
        let request = request.body(Body::empty());
        let request = request.map_err(|error| Unavailable::unreachable(&error))?;
        let response = self.client.send(request).await;
        let response = response.map_err(|error| Unavailable::no_response(&self.source, &error))?;
        let (status, is_debug_api) =
            (response.status(), response.headers().contains_key(MARKER_HEADER));
        let body = response.into_body();
        match (status, is_debug_api) {
            (StatusCode::OK, true) => {
                let body = Limited::new(body, limit).collect().await;
                let body = body.map_err(|error| {
                    let text = if error.is::<LengthLimitError>() {
                        format!("{}: the response is too long", self.source)
                    } else {
                        error.to_string()
                    };
                    Unavailable::Unreachable(text)
                });
                Ok(Some(body?.to_bytes()))
            }
            (StatusCode::NOT_FOUND, true) => Ok(None),
            (_, true) => Err(Unavailable::Refused(read_message(body).await)),
            (StatusCode::FORBIDDEN, false) => Err(Unavailable::Forbidden {
                action: format!("read {} through the API server", self.source),
                message: read_message(body).await,
            }),
            (StatusCode::OK, false) => Err(self.not_the_api()),
            // Without a proxy, the server itself answered.
            (StatusCode::NOT_FOUND, false) if self.token.is_none() => Err(self.not_the_api()),
            (status, false) => {
                let message = read_message(body).await;
                let colon = if message.is_empty() { "" } else { ": " };
                let source = &self.source;
                let text = format!("{source} answered {status}{colon}{message}");
                Err(Unavailable::Unreachable(text))
            }
        }
    }
}

fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, Unavailable> {
    serde_json::from_slice(body).map_err(|error| Unavailable::Undecodable(error.to_string()))
}

/// An error of the debug API, or a Status of the API server.
#[derive(Deserialize)]
struct ErrorBody {
    #[serde(alias = "error")]
    message: String,
}

/// Reads the message of an error response. If the body fails or is too long, the response is still
/// an error, so its message says that.
async fn read_message(body: Body) -> String {
    match Limited::new(body, MAX_ERROR_BYTES).collect().await {
        Ok(body) => message(&body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => "its message is too long".to_owned(),
        Err(error) => format!("its message can't be read: {error}"),
    }
}

/// The message in the body of an error response, or else the body. It is cut off, because a tenant
/// may serve it.
fn message(body: &[u8]) -> String {
    let text = match serde_json::from_slice::<ErrorBody>(body) {
        Ok(error) => error.message,
        Err(_) => String::from_utf8_lossy(body).into_owned(),
    };
    truncate(text.trim().to_owned(), MAX_MESSAGE_CHARS)
}
