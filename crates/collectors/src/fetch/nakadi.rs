//! Subscriptions of the event broker Nakadi.

use std::time::Duration;

use crate::{plan::NakadiSource, promql::QueryError};
use hpa_calc::MilliValue;
use http::{StatusCode, Uri, header};
use serde::{Deserialize, de::DeserializeOwned};
use tokio::time::sleep;

use crate::fetch::{
    error::{FetchError, HttpError},
    fetchers::{Fetchers, Service, authorized},
    http::{Call, Destination, at, url},
};

const SERVICE: &str = "Nakadi";
const TRIES: u32 = 3;
const FIRST_BACKOFF: Duration = Duration::from_millis(100);
const MAX_BACKOFF: Duration = Duration::from_secs(30);
const MAX_PAGES: usize = 50;

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
    #[serde(default)]
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
    #[serde(default)]
    partitions: Vec<Partition>,
}

#[derive(Deserialize)]
struct Partition {
    #[serde(default)]
    unconsumed_events: Option<i64>,
    #[serde(default)]
    consumer_lag_seconds: Option<i64>,
}

impl Fetchers {
    /// The largest lag, or the number of unconsumed events, of all partitions.
    pub(crate) async fn nakadi(&self, source: &NakadiSource) -> Result<MilliValue, FetchError> {
        let service = self.nakadi.as_ref().ok_or(FetchError::NotConfigured(SERVICE))?;
        let ids = match source.subscription_id.as_str() {
            "" => self.subscriptions(service, source).await?,
            id => vec![id.to_owned()],
        };
        let mut event_types = Vec::new();
        for id in &ids {
            // Some of several subscriptions may have no statistics for a while.
            event_types.extend(self.stats(service, id).await?.items);
        }
        if event_types.is_empty() {
            return Err(unexpected("expected at least 1 event-type, 0 returned"));
        }
        let partitions = event_types.iter().flat_map(|event_type| &event_type.partitions);
        let value = if source.is_lag {
            partitions.filter_map(|one| one.consumer_lag_seconds).fold(0, i64::max)
        } else {
            let events = partitions.filter_map(|one| one.unconsumed_events);
            events.fold(0, i64::saturating_add)
        };
        let milli = value.checked_mul(1000);
        milli.map(MilliValue::from_milli).ok_or(QueryError::OutOfRange(value as f64).into())
    }

    /// The subscriptions that the autoscaler selects.
    async fn subscriptions(
        &self,
        service: &Service,
        source: &NakadiSource,
    ) -> Result<Vec<String>, FetchError> {
        let mut parameters = vec![("consumer_group", source.consumer_group.as_str())];
        parameters.extend(source.event_types.iter().map(|name| ("event_type", name.as_str())));
        parameters.push(("owning_application", &source.owning_application));
        let mut uri = url::below(&service.url, "/subscriptions", &parameters);
        let mut ids = Vec::new();
        for _ in 0..MAX_PAGES {
            let current = uri.take().ok_or(FetchError::NotConfigured(SERVICE))?;
            let page: Subscriptions = self.ask(service, current.clone()).await?;
            ids.extend(page.items.into_iter().map(|item| item.id));
            let next = page.links.next.map(|next| next.href).unwrap_or_default();
            if next.is_empty() {
                return Ok(ids);
            }
            uri = Some(next_page(service, &next)?);
        }
        Err(unexpected("too many pages of subscriptions"))
    }

    async fn stats(&self, service: &Service, id: &str) -> Result<Stats, FetchError> {
        // It becomes part of a path, which is asked with the operator's token.
        let is_id = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if !id.bytes().all(is_id) {
            return Err(FetchError::Setting { key: "subscription-id", value: id.to_owned() });
        }
        let path = format!("/subscriptions/{id}/stats");
        let uri = url::below(&service.url, &path, &[("show_time_lag", "true")]);
        self.ask(service, uri.ok_or(FetchError::NotConfigured(SERVICE))?).await
    }

    /// Sends a request, up to three times if it fails for a while.
    async fn ask<T: DeserializeOwned>(&self, service: &Service, uri: Uri) -> Result<T, FetchError> {
        let call = Call::new(uri, Destination::Operator, self.http.limits());
        let call = authorized(call, "Bearer", service.token.as_ref())?;
        let mut backoff = FIRST_BACKOFF;
        for _ in 1..TRIES {
            match self.attempt(&call).await {
                Attempt::Done(result) => return result,
                Attempt::Failed { after, .. } => {
                    sleep(after.unwrap_or(backoff).min(MAX_BACKOFF)).await;
                }
            }
            backoff *= 2;
        }
        match self.attempt(&call).await {
            Attempt::Done(result) => result,
            Attempt::Failed { error, .. } => Err(error),
        }
    }

    async fn attempt<T: DeserializeOwned>(&self, call: &Call) -> Attempt<T> {
        let reply = match self.http.send(call).await {
            Ok(reply) => reply,
            Err(error) => return Attempt::Failed { error, after: None },
        };
        let status = reply.status;
        if status == StatusCode::OK {
            let decoded = serde_json::from_slice(&reply.body);
            return Attempt::Done(decoded.map_err(|_| unexpected("it is not one of its API")));
        }
        let error = at(&call.uri, HttpError::Status(status));
        let retry_after = reply.headers.get(header::RETRY_AFTER);
        match (status.as_u16(), retry_after.map(seconds)) {
            (429, None) => Attempt::Failed { error, after: None },
            (429, Some(Some(after))) => Attempt::Failed { error, after: Some(after) },
            // As in the reference, also 429 with a header that has another form.
            (400..=499, _) => Attempt::Done(Err(error)),
            _ => Attempt::Failed { error, after: None },
        }
    }
}

enum Attempt<T> {
    /// The result, or an error that another attempt doesn't change.
    Done(Result<T, FetchError>),
    /// An error that can be temporary, and how long the server wants to be left alone.
    Failed { error: FetchError, after: Option<Duration> },
}

fn seconds(value: &http::HeaderValue) -> Option<Duration> {
    value.to_str().ok()?.parse().ok().map(Duration::from_secs)
}

/// The next page, which must be on the same server, because it is asked with a token.
fn next_page(service: &Service, href: &str) -> Result<Uri, FetchError> {
    let elsewhere = || unexpected("the next page is on another server");
    // The link is relative to the URL of the service.
    let uri = match href.strip_prefix('/') {
        Some(path) => url::below(&service.url, "", &[]).and_then(|base| {
            format!("{}/{path}", base.to_string().trim_end_matches('/')).parse().ok()
        }),
        None => url::join(&service.url, href).ok(),
    };
    uri.filter(|uri| url::is_same_origin(uri, &service.url)).ok_or_else(elsewhere)
}

fn unexpected(problem: &'static str) -> FetchError {
    FetchError::Response { service: SERVICE, problem }
}
