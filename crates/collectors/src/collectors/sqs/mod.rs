//! Reads the length of Amazon SQS queues.

pub(crate) mod credentials;
mod sign;

use std::collections::HashMap;

use async_trait::async_trait;
use hpa_calc::MilliValue;
use http::{HeaderName, HeaderValue, StatusCode, header};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use self::{
    credentials::endpoint,
    sign::{SignedRequest, authorization, date},
};
use crate::{
    collector::{Collector, Context, Environment, Server, Values},
    config::MetricConfig,
    error::{ConfigError, FetchError, HttpError, QueryError},
    guarded_http::{Destination, HttpRequest, Reply, http_error},
    settings::Secret,
};

const DISPLAY_NAME: &str = "SQS";
const CONTENT_TYPE: &str = "application/x-amz-json-1.0";
const VISIBLE: &str = "ApproximateNumberOfMessages";
const IN_FLIGHT: &str = "ApproximateNumberOfMessagesNotVisible";
const DELAYED: &str = "ApproximateNumberOfMessagesDelayed";

/// The maximum number of cached queue URLs. Tenants can choose any number of names.
const MAX_QUEUE_URLS: usize = 1000;

/// The maximum length of a queue's URL in bytes. URLs of AWS are shorter than 200 bytes.
const MAX_QUEUE_URL_LEN: usize = 1024;

/// A queue, and the messages to count in addition to the visible ones.
#[derive(Clone, Debug)]
pub(crate) struct SqsQueue {
    queue: String,
    region: String,
    /// Whether to count messages that were received but not deleted. Not in kube-metrics-adapter.
    in_flight: bool,
    /// Whether to count messages that can't be received yet. Not in kube-metrics-adapter.
    delayed: bool,
}

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

#[derive(Deserialize)]
struct ErrorResponse {
    #[serde(rename = "__type")]
    kind: String,
}

#[async_trait]
impl Collector for SqsQueue {
    fn parse(metric: &MetricConfig, environment: &Environment) -> Result<Self, ConfigError> {
        metric.require_selector("selector for queue is not specified")?;
        let queue =
            metric.require("queue-name", "sqs queue name not specified on metric")?.to_owned();
        let region =
            metric.require("region", "sqs queue region is not specified on metric")?.to_owned();
        if !environment.sqs_regions.contains(&region) {
            return Err(ConfigError::SqsRegion(region));
        }
        let is_set = |name| match metric.value(name) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(other) => Err(ConfigError::Invalid(name, other.to_owned())),
        };
        let (in_flight, delayed) = (is_set("in-flight")?, is_set("delayed")?);
        Ok(Self { queue, region, in_flight, delayed })
    }

    fn servers(&self) -> Vec<Server> {
        vec![Server::Operator("sqs".to_owned())]
    }

    async fn read(&self, context: &Context<'_>) -> Result<Values, FetchError> {
        let clients = context.clients;
        let url = self.queue_url(context).await?;
        let mut names = vec![VISIBLE];
        names.extend(self.in_flight.then_some(IN_FLIGHT));
        names.extend(self.delayed.then_some(DELAYED));
        let body = json!({"QueueUrl": url, "AttributeNames": names});
        let result = call_action(context, "GetQueueAttributes", &self.region, body).await;
        if result.is_err() {
            // The queue may have been recreated in another account.
            clients.queue_urls.lock().remove(&self.cache_key());
        }
        let Attributes { attributes } = result?;
        let total = names.into_iter().try_fold(0_u64, |total, name| {
            Ok::<_, FetchError>(total.saturating_add(message_count(&attributes, name)?))
        })?;
        let milli = i64::try_from(total).ok().and_then(|total| total.checked_mul(1000));
        let milli = milli.ok_or(QueryError::OutOfRange(total as f64))?;
        Ok(context.single(MilliValue::from_milli(milli)))
    }
}

impl SqsQueue {
    fn cache_key(&self) -> (String, String) {
        (self.region.clone(), self.queue.clone())
    }

    async fn queue_url(&self, context: &Context<'_>) -> Result<String, FetchError> {
        let clients = context.clients;
        let cached = clients.queue_urls.lock().get(&self.cache_key()).cloned();
        if let Some(url) = cached {
            return Ok(url);
        }
        let body = json!({"QueueName": self.queue});
        let QueueUrl { queue_url } =
            call_action(context, "GetQueueUrl", &self.region, body).await?;
        // The cache stores the URL and, in its key, the name.
        if queue_url.len().max(self.queue.len()) > MAX_QUEUE_URL_LEN {
            return Err(unexpected_response("the queue's name or URL is longer than 1 KiB"));
        }
        let mut queues = clients.queue_urls.lock();
        if queues.len() >= MAX_QUEUE_URLS {
            queues.clear();
        }
        queues.insert(self.cache_key(), queue_url.clone());
        Ok(queue_url)
    }
}

/// The number of messages in an attribute. A negative number is an error: for it, the controller
/// would propose `maxReplicas`, as kube-controller-manager does.
fn message_count(attributes: &HashMap<String, String>, name: &str) -> Result<u64, FetchError> {
    let text = attributes
        .get(name)
        .ok_or_else(|| unexpected_response("the length of the queue is missing"))?;
    text.parse()
        .map_err(|_| unexpected_response("the length of the queue is negative or no whole number"))
}

async fn call_action<T: DeserializeOwned>(
    context: &Context<'_>,
    action: &str,
    region: &str,
    body: Value,
) -> Result<T, FetchError> {
    let request = signed_request(context, action, region, body.to_string()).await?;
    let reply = context.send(&request).await?;
    if reply.status != StatusCode::OK {
        return Err(refusal(&request, &reply));
    }
    serde_json::from_slice(&reply.body)
        .map_err(|_| unexpected_response("the body can't be decoded"))
}

async fn signed_request(
    context: &Context<'_>,
    action: &str,
    region: &str,
    body: String,
) -> Result<HttpRequest, FetchError> {
    let (clients, now) = (context.clients, context.now);
    let uri = endpoint(&clients.http, "sqs", region)?;
    let credentials = clients.aws_credentials.get(&clients.http, region, now).await?;
    let date = date(now);
    let target = format!("AmazonSQS.{action}");
    let host = uri.authority().map_or("", |authority| authority.as_str()).to_owned();
    let token = credentials.session_token.as_ref().map(Secret::text);
    let mut headers: Vec<(&'static str, &str)> =
        vec![("content-type", CONTENT_TYPE), ("host", &host), ("x-amz-date", &date)];
    headers.extend(token.map(|token| ("x-amz-security-token", token)));
    headers.push(("x-amz-target", &target));
    let signed = SignedRequest {
        region,
        service: "sqs",
        path: uri.path(),
        headers: &headers,
        body: body.as_bytes(),
    };
    let authorization = authorization(&credentials, &date, &signed);
    let value =
        |text: &str| HeaderValue::try_from(text).map_err(|_| http_error(&uri, HttpError::Header));
    let mut request = context
        .request(uri.clone(), Destination::Operator)
        .header(header::AUTHORIZATION, value(&authorization)?);
    for &(name, text) in headers.iter().filter(|(name, _)| name.starts_with("x-amz-")) {
        request = request.header(HeaderName::from_static(name), value(text)?);
    }
    Ok(request.post(CONTENT_TYPE, body))
}

/// The AWS errors that tenants may see. Other errors could contain accounts and roles.
const REPORTED_ERRORS: [&str; 9] = [
    "AccessDenied",
    "AccessDeniedException",
    "ExpiredTokenException",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "NonExistentQueue",
    "QueueDoesNotExist",
    "ThrottlingException",
    "UnrecognizedClientException",
];

fn refusal(request: &HttpRequest, reply: &Reply) -> FetchError {
    let kind = serde_json::from_slice::<ErrorResponse>(&reply.body).map(|error| error.kind);
    let kind = kind.unwrap_or_default();
    let kind = kind.rsplit(['#', '.']).next().unwrap_or_default();
    match REPORTED_ERRORS.into_iter().find(|reported| *reported == kind) {
        Some(reason) => FetchError::QueryRefused { service: DISPLAY_NAME, reason },
        None => http_error(&request.uri, HttpError::Status(reply.status)),
    }
}

fn unexpected_response(problem: &'static str) -> FetchError {
    FetchError::Response { service: DISPLAY_NAME, problem }
}
