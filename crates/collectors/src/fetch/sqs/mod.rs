//! The length of queues of Amazon SQS.

mod credentials;
mod endpoint;
mod sign;
pub(crate) mod state;

use std::collections::HashMap;

use crate::{plan::SqsSource, promql::QueryError};
use hpa_calc::MilliValue;
use http::{HeaderName, HeaderValue, header};
use jiff::Timestamp;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use self::{
    endpoint::endpoint,
    sign::{Signed, authorization, date},
};
use crate::fetch::{
    error::{FetchError, HttpError},
    fetchers::Fetchers,
    http::{Call, Destination, Reply, at},
    settings::Secret,
};

const SERVICE: &str = "SQS";
const CONTENT_TYPE: &str = "application/x-amz-json-1.0";
const VISIBLE: &str = "ApproximateNumberOfMessages";
const IN_FLIGHT: &str = "ApproximateNumberOfMessagesNotVisible";
const DELAYED: &str = "ApproximateNumberOfMessagesDelayed";

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct QueueUrl {
    queue_url: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Attributes {
    attributes: HashMap<String, String>,
}

/// Why a request is refused.
#[derive(Deserialize)]
struct Refusal {
    #[serde(rename = "__type")]
    kind: String,
}

impl Fetchers {
    /// The number of messages in a queue.
    pub(crate) async fn sqs(
        &self,
        source: &SqsSource,
        now: Timestamp,
    ) -> Result<MilliValue, FetchError> {
        let url = self.queue_url(source, now).await?;
        let mut names = vec![VISIBLE];
        names.extend(source.in_flight.then_some(IN_FLIGHT));
        names.extend(source.delayed.then_some(DELAYED));
        let body = json!({"QueueUrl": url, "AttributeNames": names});
        let result = self.ask_sqs("GetQueueAttributes", &source.region, body, now).await;
        if result.is_err() {
            // The queue may have been created again, in another account.
            self.sqs.forget_queue(source);
        }
        let Attributes { attributes } = result?;
        let count = |name: &str| {
            let value = attributes.get(name).and_then(|value| value.parse::<i64>().ok());
            value.ok_or_else(|| unexpected("the length of the queue is missing"))
        };
        let total = names.into_iter().try_fold(0_i64, |total, name| {
            Ok::<_, FetchError>(total.saturating_add(count(name)?))
        })?;
        let milli = total.checked_mul(1000);
        milli.map(MilliValue::from_milli).ok_or(QueryError::OutOfRange(total as f64).into())
    }

    async fn queue_url(&self, source: &SqsSource, now: Timestamp) -> Result<String, FetchError> {
        if let Some(url) = self.sqs.queue_url(source) {
            return Ok(url);
        }
        let body = json!({"QueueName": source.queue});
        let QueueUrl { queue_url } = self.ask_sqs("GetQueueUrl", &source.region, body, now).await?;
        self.sqs.remember_queue(source, &queue_url);
        Ok(queue_url)
    }

    async fn ask_sqs<T: DeserializeOwned>(
        &self,
        action: &str,
        region: &str,
        body: Value,
        now: Timestamp,
    ) -> Result<T, FetchError> {
        let call = self.signed(action, region, body.to_string(), now).await?;
        let reply = self.http.send(&call).await?;
        if reply.status != http::StatusCode::OK {
            return Err(refusal(&call, &reply));
        }
        serde_json::from_slice(&reply.body).map_err(|_| unexpected("it is not one of its API"))
    }

    async fn signed(
        &self,
        action: &str,
        region: &str,
        body: String,
        now: Timestamp,
    ) -> Result<Call, FetchError> {
        let uri = endpoint(&self.http, "sqs", region)?;
        let credentials = self.sqs.credentials.get(&self.http, region, now).await?;
        let date = date(now);
        let target = format!("AmazonSQS.{action}");
        let host = uri.authority().map_or("", |authority| authority.as_str()).to_owned();
        let token = credentials.session_token.as_ref().map(Secret::text);
        let mut headers =
            vec![("content-type", CONTENT_TYPE), ("host", &host), ("x-amz-date", &date)];
        headers.extend(token.map(|token| ("x-amz-security-token", token)));
        headers.push(("x-amz-target", &target));
        let request = Signed {
            region,
            service: "sqs",
            path: uri.path(),
            headers: &headers,
            body: body.as_bytes(),
        };
        let authorization = authorization(&credentials, &date, &request);
        let value =
            |text: &str| HeaderValue::try_from(text).map_err(|_| at(&uri, HttpError::Header));
        let mut call = Call::new(uri.clone(), Destination::Operator, self.http.limits())
            .header(HeaderName::from_static("x-amz-date"), value(&date)?)
            .header(HeaderName::from_static("x-amz-target"), value(&target)?)
            .header(header::AUTHORIZATION, value(&authorization)?);
        if let Some(token) = token {
            call = call.header(HeaderName::from_static("x-amz-security-token"), value(token)?);
        }
        Ok(call.post(CONTENT_TYPE, body))
    }
}

/// The kind of the error. Its message would show accounts and roles to tenants.
fn refusal(call: &Call, reply: &Reply<'_>) -> FetchError {
    let kind = serde_json::from_slice::<Refusal>(&reply.body).map(|refusal| refusal.kind);
    let kind = kind.ok().and_then(|kind| kind.rsplit('#').next().map(str::to_owned));
    match kind.filter(|kind| kind.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.'))
    {
        Some(message) => FetchError::Server { service: SERVICE, message },
        None => at(&call.uri, HttpError::Status(reply.status)),
    }
}

fn unexpected(problem: &'static str) -> FetchError {
    FetchError::Response { service: SERVICE, problem }
}
