//! Fakes of Prometheus, `InfluxDB`, SQS, ZMON and Nakadi, by their documented protocols. All but
//! Prometheus require the controller's credentials.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use axum::{
    Form, Json, Router,
    extract::{Path, Query, State},
    http::{HeaderMap, StatusCode},
    routing::{get, post},
};
use jiff::Timestamp;
use serde_json::{Value, json};

pub(crate) const TOKEN: &str = "t0k";
pub(crate) const ACCESS_KEY: &str = "AKIDENV";
pub(crate) const ORGANIZATION: &str = "shop";
const QUEUE_URL: &str = "https://sqs.test/1/";

/// The loads of all services, by the query, queue, check or subscription that a request names.
pub(crate) struct Services {
    loads: BTreeMap<&'static str, u64>,
    factor: AtomicU64,
}

type SharedServices = State<Arc<Services>>;
type JsonResult = Result<Json<Value>, StatusCode>;

impl Services {
    pub(crate) fn new(loads: impl IntoIterator<Item = (&'static str, u64)>, factor: u64) -> Self {
        Self { loads: loads.into_iter().collect(), factor: factor.into() }
    }

    /// Multiplies all loads by this factor.
    pub(crate) fn set_factor(&self, factor: u64) {
        self.factor.store(factor, Ordering::SeqCst);
    }

    fn load_of(&self, name: &str) -> Result<u64, StatusCode> {
        let load = self.loads.get(name).ok_or(StatusCode::NOT_FOUND)?;
        Ok(load * self.factor.load(Ordering::SeqCst))
    }

    /// Serves all services at one address: each under its name, SQS at the root.
    pub(crate) async fn serve(self: Arc<Self>) -> SocketAddr {
        let router = Router::new()
            .route("/prometheus/api/v1/query", post(prometheus))
            .route("/influxdb/api/v2/query", post(influxdb))
            .route("/", post(sqs))
            .route("/zmon/api/v1/datapoints/query", post(zmon))
            .route("/nakadi/subscriptions/{id}/stats", get(nakadi))
            .with_state(self);
        hpa_tests::harness::serve(router).await
    }
}

/// Fails with 401 unless the header begins with `expected`.
fn require_header(headers: &HeaderMap, name: &str, expected: &str) -> Result<(), StatusCode> {
    let value = headers.get(name).and_then(|value| value.to_str().ok());
    let is_expected = value.is_some_and(|value| value.starts_with(expected));
    is_expected.then_some(()).ok_or(StatusCode::UNAUTHORIZED)
}

fn decode(body: &str) -> Result<Value, StatusCode> {
    serde_json::from_str(body).map_err(|_| StatusCode::BAD_REQUEST)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

async fn prometheus(
    State(services): SharedServices,
    Form(form): Form<BTreeMap<String, String>>,
) -> JsonResult {
    let query = form.get("query").ok_or(StatusCode::BAD_REQUEST)?;
    let value = services.load_of(query)?.to_string();
    let sample = json!({ "metric": {}, "value": [Timestamp::now().as_second(), value] });
    let data = json!({ "resultType": "vector", "result": [sample] });
    Ok(Json(json!({ "status": "success", "data": data })))
}

async fn influxdb(
    State(services): SharedServices,
    Query(parameters): Query<BTreeMap<String, String>>,
    headers: HeaderMap,
    body: String,
) -> Result<String, StatusCode> {
    require_header(&headers, "authorization", &format!("Token {TOKEN}"))?;
    if parameters.get("org").is_none_or(|organization| organization != ORGANIZATION) {
        return Err(StatusCode::NOT_FOUND);
    }
    let value = services.load_of(text(&decode(&body)?["query"]))?;
    Ok(format!(
        "#datatype,string,long,double\r\n#group,false,false,false\r\n#default,_result,,\r\n\
         ,result,table,metricvalue\r\n,,0,{value}\r\n\r\n"
    ))
}

/// Responds that half of the messages, rounded up, are in flight.
async fn sqs(State(services): SharedServices, headers: HeaderMap, body: String) -> JsonResult {
    let credential = format!("AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/");
    require_header(&headers, "authorization", &credential)?;
    let body = decode(&body)?;
    if require_header(&headers, "x-amz-target", "AmazonSQS.GetQueueUrl").is_ok() {
        let name = text(&body["QueueName"]);
        services.load_of(name)?;
        return Ok(Json(json!({ "QueueUrl": format!("{QUEUE_URL}{name}") })));
    }
    require_header(&headers, "x-amz-target", "AmazonSQS.GetQueueAttributes")?;
    let name = text(&body["QueueUrl"]).strip_prefix(QUEUE_URL).ok_or(StatusCode::NOT_FOUND)?;
    let messages = services.load_of(name)?;
    Ok(Json(json!({ "Attributes": {
        "ApproximateNumberOfMessages": (messages / 2).to_string(),
        "ApproximateNumberOfMessagesNotVisible": messages.div_ceil(2).to_string(),
    } })))
}

async fn zmon(State(services): SharedServices, headers: HeaderMap, body: String) -> JsonResult {
    require_header(&headers, "authorization", &format!("Bearer {TOKEN}"))?;
    let value = services.load_of(text(&decode(&body)?["metrics"][0]["name"]))?;
    let values = json!([[0, 1], [Timestamp::now().as_millisecond(), value]]);
    Ok(Json(json!({ "queries": [{ "results": [{ "values": values }] }] })))
}

/// Responds with two partitions. The second one has a single event.
async fn nakadi(
    State(services): SharedServices,
    Path(id): Path<String>,
    Query(parameters): Query<BTreeMap<String, String>>,
    headers: HeaderMap,
) -> JsonResult {
    require_header(&headers, "authorization", &format!("Bearer {TOKEN}"))?;
    if parameters.get("show_time_lag").is_none_or(|flag| flag != "true") {
        return Err(StatusCode::BAD_REQUEST);
    }
    let events = services.load_of(&id)?;
    let partitions = [events - 1, 1]
        .map(|events| json!({ "unconsumed_events": events, "consumer_lag_seconds": null }));
    Ok(Json(json!({ "items": [{ "event_type": "order", "partitions": partitions }] })))
}
