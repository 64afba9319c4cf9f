//! From a request that meets faults to its answer.

mod watch;

use std::sync::Arc;

use axum::body::{Body, Bytes};
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::BodyExt;
use serde_json::Value;

use crate::{
    error::{ApiError, Disconnected},
    faults::{Active, Effect, Turn, malformed, missing_group},
    request::Call,
    response, router,
    server::Server,
};

const HTML: &str = "<html>\n<head><title>Bad Gateway</title></head>\n<body>\n<h1>Bad Gateway</h1>\n</body>\n</html>\n";

/// What a fault does before the request is handled.
enum Before {
    /// Nothing, or nothing more.
    Pass,
    /// The request is handled in its turn.
    Turn(Turn),
    /// It gets this answer instead.
    Answer(Response<Body>),
}

/// Answers a request that meets these faults.
pub(crate) async fn answer(
    server: &Arc<Server>,
    mut call: Call,
    faults: Vec<Active>,
) -> Result<Response<Body>, Disconnected> {
    let mut stops = server.lifecycle.stops();
    let mut turns = Vec::new();
    for fault in &faults {
        let outcome = tokio::select! {
            biased;
            _ = stops.changed() => return Err(Disconnected),
            outcome = before(fault, &mut call) => outcome?,
        };
        match outcome {
            Before::Pass => {}
            Before::Turn(turn) => turns.push(turn),
            Before::Answer(response) => return Ok(response),
        }
    }
    let mut response = router::route(server, &call).unwrap_or_else(|error| response::error(&error));
    drop(turns);
    for fault in faults {
        response = after(server, &call, fault, response).await?;
    }
    Ok(response)
}

async fn before(fault: &Active, call: &mut Call) -> Result<Before, Disconnected> {
    match &fault.effect {
        Effect::Slow { by } => tokio::time::sleep(*by).await,
        Effect::Stall => {
            let turn = fault.span.turn().await;
            let too_many = Effect::TooManyRequests { retry_after_seconds: Some(1) };
            return Ok(turn.map_or_else(|| refusal(&too_many, call), Before::Turn));
        }
        Effect::Disconnect { applied: false } => return Err(Disconnected),
        Effect::Html { code } => return Ok(Before::Answer(html(*code))),
        Effect::Stale { revisions } => {
            call.revisions_back = call.revisions_back.saturating_add(*revisions)
        }
        effect => return Ok(refusal(effect, call)),
    }
    Ok(Before::Pass)
}

fn refusal(effect: &Effect, call: &Call) -> Before {
    effect.error(&call.info).map_or(Before::Pass, |error| Before::Answer(response::error(&error)))
}

fn html(code: u16) -> Response<Body> {
    let mut response = Response::new(Body::from(HTML));
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::BAD_GATEWAY);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html"));
    response
}

async fn after(
    server: &Server,
    call: &Call,
    fault: Active,
    response: Response<Body>,
) -> Result<Response<Body>, Disconnected> {
    let is_watch = call.info.verb == "watch";
    let (parts, body) = response.into_parts();
    let body = match &fault.effect {
        Effect::Disconnect { .. } => return Err(Disconnected),
        Effect::LostAnswer => return Ok(response::error(&ApiError::timeout())),
        // An answer that is an error is left alone.
        _ if !parts.status.is_success() => body,
        effect if effect.is_of_watch() => watch::broken(server, body, fault),
        Effect::Malformed { .. } if is_watch => watch::malformed(body, fault.effect),
        Effect::Malformed { object, pointer, value } => {
            changed(body, |shown| malformed::spoil(shown, object, pointer, value)).await
        }
        Effect::HalfBody => {
            let whole = collected(body).await;
            Body::from(whole.slice(..whole.len() / 2))
        }
        Effect::MissingGroup { group } => {
            changed(body, |index| missing_group::hide(group, index)).await
        }
        _ => body,
    };
    Ok(Response::from_parts(parts, body))
}

/// The body with its JSON changed.
async fn changed(body: Body, change: impl FnOnce(&mut Value)) -> Body {
    let whole = collected(body).await;
    let Ok(mut value) = serde_json::from_slice(&whole) else { return Body::from(whole) };
    change(&mut value);
    Body::from(value.to_string())
}

/// What the server itself has answered, which is there as a whole.
async fn collected(body: Body) -> Bytes {
    body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default()
}
