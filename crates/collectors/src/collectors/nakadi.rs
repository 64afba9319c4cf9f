//! Reads the lag of subscriptions of the event broker Nakadi.

use std::time::Duration;

use async_trait::async_trait;
use hpa_calc::MilliValue;
use http::{StatusCode, Uri, header};
use serde::{Deserialize, de::DeserializeOwned};
use tokio::time::sleep;

use crate::{
    Compat,
    clients::{OperatorService, add_credential},
    collector::{Collector, Context, Environment, Server, Values},
    config::MetricConfig,
    error::{ConfigError, FetchError, HttpError, QueryError},
    guarded_http::{Destination, HttpRequest, http_error, url},
};

/// The name in errors.
const DISPLAY_NAME: &str = "Nakadi";
/// The name in `Settings::services` and in permissions.
const SERVICE_KEY: &str = "nakadi";
const MAX_ATTEMPTS: u32 = 3;
const FIRST_BACKOFF: Duration = Duration::from_millis(100);
const MAX_BACKOFF: Duration = Duration::from_secs(30);
const MAX_PAGES: usize = 50;

/// Selects subscriptions, by their ID or by application, event types and consumer group.
#[derive(Clone, Debug)]
pub(crate) struct NakadiSubscription {
    statistic: Statistic,
    subscription_id: String,
    owning_application: String,
    event_types: Vec<String>,
    consumer_group: String,
}

/// The setting `metric-type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Statistic {
    /// The largest lag of any partition, at least 0.
    LagSeconds,
    /// The sum of the unconsumed events of all partitions.
    UnconsumedEvents,
}

#[derive(Deserialize)]
struct Subscriptions {
    #[serde(default)]
    items: Vec<Subscription>,
    #[serde(default, rename = "_links")]
    links: Links,
}

#[derive(Deserialize)]
struct Subscription {
    id: String,
}

#[derive(Default, Deserialize)]
struct Links {
    next: Option<Link>,
}

#[derive(Deserialize)]
struct Link {
    #[serde(default)]
    href: String,
}

#[derive(Deserialize)]
struct Stats {
    #[serde(default)]
    items: Vec<EventType>,
}

#[derive(Deserialize)]
struct EventType {
    partitions: Option<Vec<Partition>>,
}

#[derive(Deserialize)]
struct Partition {
    unconsumed_events: Option<i64>,
    consumer_lag_seconds: Option<i64>,
}

#[async_trait]
impl Collector for NakadiSubscription {
    fn parse(metric: &MetricConfig, _: &Environment) -> Result<Self, ConfigError> {
        metric.require_selector("selector for nakadi is not specified")?;
        let missing = "metric-type not specified on metric";
        let statistic = match metric.require("metric-type", missing)? {
            "consumer-lag-seconds" => Statistic::LagSeconds,
            "unconsumed-events" => Statistic::UnconsumedEvents,
            other => {
                let message = format!(
                    "metric-type must be either 'consumer-lag-seconds' or 'unconsumed-events', was \
                     '{other}'"
                );
                return Err(ConfigError::of_setting("metric-type", message));
            }
        };
        let value = |name: &str| metric.value(name).unwrap_or_default().to_owned();
        let event_types = value("event-types");
        let event_types = event_types.split(',').map(str::trim).filter(|name| !name.is_empty());
        let parsed = Self {
            statistic,
            subscription_id: value("subscription-id"),
            owning_application: value("owning-application"),
            event_types: event_types.map(str::to_owned).collect(),
            consumer_group: value("consumer-group"),
        };
        let has_all_filters = !parsed.owning_application.is_empty()
            && !parsed.event_types.is_empty()
            && !parsed.consumer_group.is_empty();
        if parsed.subscription_id.is_empty() && !has_all_filters {
            return Err(ConfigError::new(
                "either subscription-id or all of [owning-application, event-types, \
                 consumer-group] must be specified on the metric",
            ));
        }
        Ok(parsed)
    }

    fn servers(&self) -> Vec<Server> {
        vec![Server::Operator(SERVICE_KEY.to_owned())]
    }

    async fn read(&self, context: &Context<'_>) -> Result<Values, FetchError> {
        let clients = context.clients;
        let service =
            clients.service(SERVICE_KEY).ok_or(FetchError::NotConfigured(DISPLAY_NAME))?;
        let ids = match self.subscription_id.as_str() {
            "" => self.find_subscriptions(context, service).await?,
            id if is_id(id) => vec![id.to_owned()],
            id => return Err(FetchError::setting("subscription-id", id)),
        };
        let mut event_types = Vec::new();
        for id in &ids {
            // Not an error yet, because a new subscription may have no statistics.
            event_types.extend(fetch_stats(context, service, id).await?.items);
        }
        if event_types.is_empty() {
            return Err(unexpected_response("expected at least 1 event-type, 0 returned"));
        }
        let has_missing = event_types.iter().any(|event_type| event_type.partitions.is_none());
        if has_missing && clients.compat == Compat::Off {
            return Err(unexpected_response("the statistics of an event type lack the partitions"));
        }
        let partitions = event_types.iter().flat_map(|event_type| &event_type.partitions);
        let value = self.aggregate(partitions.flatten(), clients.compat)?;
        let milli = value.checked_mul(1000).ok_or(QueryError::OutOfRange(value as f64))?;
        Ok(context.single(MilliValue::from_milli(milli)))
    }
}

impl NakadiSubscription {
    pub(crate) const KEYS: &[&str] =
        &["metric-type", "subscription-id", "owning-application", "event-types", "consumer-group"];

    /// The largest lag or the sum of unconsumed events of all partitions. A missing number is an
    /// error by default, and 0 in kube-metrics-adapter. A negative number of events is also an
    /// error by default.
    fn aggregate<'p>(
        &self,
        partitions: impl Iterator<Item = &'p Partition>,
        compat: Compat,
    ) -> Result<i64, FetchError> {
        let (mut total, mut count) = (0_i64, 0);
        for partition in partitions {
            let number = match self.statistic {
                Statistic::LagSeconds => partition.consumer_lag_seconds,
                Statistic::UnconsumedEvents => partition.unconsumed_events,
            };
            let number = match (number, compat) {
                // A lag of -1 s is regular: Nakadi subtracts times of different clocks, and rounds
                // down.
                (Some(..0), Compat::Off) if self.statistic == Statistic::UnconsumedEvents => {
                    let problem = "the statistics of a partition have a negative number";
                    return Err(unexpected_response(problem));
                }
                (Some(number), _) => number,
                (None, Compat::Reference) => 0,
                (None, Compat::Off) => {
                    let problem = "the statistics of a partition lack the number";
                    return Err(unexpected_response(problem));
                }
            };
            total = match self.statistic {
                Statistic::LagSeconds => total.max(number),
                Statistic::UnconsumedEvents => total.saturating_add(number),
            };
            count += 1;
        }
        if count == 0 && compat == Compat::Off {
            return Err(unexpected_response("the statistics have no partition"));
        }
        Ok(total)
    }

    /// The IDs of the selected subscriptions.
    async fn find_subscriptions(
        &self,
        context: &Context<'_>,
        service: &OperatorService,
    ) -> Result<Vec<String>, FetchError> {
        let mut parameters = vec![("consumer_group", self.consumer_group.as_str())];
        parameters.extend(self.event_types.iter().map(|name| ("event_type", name.as_str())));
        parameters.push(("owning_application", &self.owning_application));
        let uri = url::with_path(&service.url, "/subscriptions", &parameters);
        let mut uri = uri.ok_or(FetchError::NotConfigured(DISPLAY_NAME))?;
        let mut ids = Vec::new();
        for _ in 0..MAX_PAGES {
            let page: Subscriptions = request_with_retries(context, service, uri).await?;
            if !page.items.iter().all(|item| is_id(&item.id)) {
                return Err(unexpected_response("the ID of a subscription is invalid"));
            }
            ids.extend(page.items.into_iter().map(|item| item.id));
            let next = page.links.next.map(|next| next.href).unwrap_or_default();
            if next.is_empty() {
                return Ok(ids);
            }
            uri = next_page(service, &next)?;
        }
        Err(unexpected_response("too many pages of subscriptions"))
    }
}

/// Whether an ID can be a path segment. With other IDs, tenants could send the operator's token to
/// any path of the server.
fn is_id(id: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    !id.is_empty() && id.bytes().all(is_allowed)
}

async fn fetch_stats(
    context: &Context<'_>,
    service: &OperatorService,
    id: &str,
) -> Result<Stats, FetchError> {
    let path = format!("/subscriptions/{id}/stats");
    let uri = url::with_path(&service.url, &path, &[("show_time_lag", "true")]);
    request_with_retries(context, service, uri.ok_or(FetchError::NotConfigured(DISPLAY_NAME))?)
        .await
}

/// Sends a request. After a temporary failure, retries it, with up to [`MAX_ATTEMPTS`] attempts.
async fn request_with_retries<T: DeserializeOwned>(
    context: &Context<'_>,
    service: &OperatorService,
    uri: Uri,
) -> Result<T, FetchError> {
    let request = context.request(uri, Destination::Operator);
    let request = add_credential(request, "Bearer", service.token.as_ref())?;
    let (mut attempts, mut backoff) = (1, FIRST_BACKOFF);
    loop {
        match attempt(context, &request).await {
            Attempt::Done(result) => return result,
            Attempt::Retryable { error, .. } if attempts == MAX_ATTEMPTS => return Err(error),
            Attempt::Retryable { retry_after, .. } => {
                sleep(retry_after.unwrap_or(backoff).min(MAX_BACKOFF)).await;
            }
        }
        attempts += 1;
        backoff *= 2;
    }
}

async fn attempt<T: DeserializeOwned>(context: &Context<'_>, request: &HttpRequest) -> Attempt<T> {
    let reply = match context.send(request).await {
        Ok(reply) => reply,
        Err(error) => return Attempt::Retryable { error, retry_after: None },
    };
    let status = reply.status;
    if status == StatusCode::OK {
        let decoded = serde_json::from_slice(&reply.body);
        return Attempt::Done(
            decoded.map_err(|_| unexpected_response("the body can't be decoded")),
        );
    }
    let error = http_error(&request.uri, HttpError::Status(status));
    let retry_after = reply.headers.get(header::RETRY_AFTER);
    match (status.as_u16(), retry_after.map(parse_seconds)) {
        (429, None) => Attempt::Retryable { error, retry_after: None },
        (429, Some(Some(after))) => Attempt::Retryable { error, retry_after: Some(after) },
        // Permanent. As in kube-metrics-adapter, so is a 429 with an invalid `Retry-After`.
        (400..=499, _) => Attempt::Done(Err(error)),
        _ => Attempt::Retryable { error, retry_after: None },
    }
}

enum Attempt<T> {
    /// The result, or a permanent error.
    Done(Result<T, FetchError>),
    /// A possibly temporary error, with the delay in `Retry-After`, if any.
    Retryable { error: FetchError, retry_after: Option<Duration> },
}

fn parse_seconds(value: &http::HeaderValue) -> Option<Duration> {
    value.to_str().ok()?.parse().ok().map(Duration::from_secs)
}

/// The URL of the next page. It must be on the same server, because it is requested with a token.
fn next_page(service: &OperatorService, href: &str) -> Result<Uri, FetchError> {
    let other_server = || unexpected_response("the next page is on another server");
    // The link is relative to the URL of the service.
    let uri = match href.strip_prefix('/') {
        Some(path) => url::with_path(&service.url, "", &[]).and_then(|base| {
            format!("{}/{path}", base.to_string().trim_end_matches('/')).parse().ok()
        }),
        None => url::join(&service.url, href).ok(),
    };
    uri.filter(|uri| url::is_same_origin(uri, &service.url)).ok_or_else(other_server)
}

fn unexpected_response(problem: &'static str) -> FetchError {
    FetchError::Response { service: DISPLAY_NAME, problem }
}
