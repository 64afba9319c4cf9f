//! Applies faults to requests and responses.

mod watch;

use std::sync::Arc;

use axum::body::{Body, Bytes};
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::BodyExt;
use serde_json::Value;

use crate::{
    error::{ApiError, Disconnected},
    faults::{ActiveFault, Effect, StallTicket, malformed, missing_group},
    request::ApiRequest,
    response, router,
    server::Server,
};

const HTML: &str = "<html>\n<head><title>Bad Gateway</title></head>\n\
    <body>\n<h1>Bad Gateway</h1>\n</body>\n</html>\n";

/// What a fault decides before the request is handled.
enum Outcome {
    Continue,
    /// The request is handled before other stalled requests.
    Stalled(StallTicket),
    /// The request isn't handled and gets this response.
    Respond(Response<Body>),
}

/// Handles a request that faults affect.
pub(crate) async fn handle(
    server: &Arc<Server>,
    mut request: ApiRequest,
    faults: Vec<ActiveFault>,
) -> Result<Response<Body>, Disconnected> {
    let mut availability = server.lifecycle.subscribe();
    let mut tickets = Vec::new();
    for fault in &faults {
        let outcome = tokio::select! {
            biased;
            _ = availability.changed() => return Err(Disconnected),
            outcome = before_handling(fault, &mut request) => outcome?,
        };
        match outcome {
            Outcome::Continue => {}
            Outcome::Stalled(ticket) => tickets.push(ticket),
            Outcome::Respond(response) => return Ok(response),
        }
    }
    let mut response =
        router::route(server, &request).unwrap_or_else(|error| response::error(&error));
    drop(tickets);
    for fault in faults {
        response = after_handling(server, &request, fault, response).await?;
    }
    Ok(response)
}

async fn before_handling(
    fault: &ActiveFault,
    request: &mut ApiRequest,
) -> Result<Outcome, Disconnected> {
    match &fault.effect {
        Effect::Slow { by } => tokio::time::sleep(*by).await,
        Effect::Stall => {
            let ticket = fault.window.wait_in_line().await;
            let too_many = Effect::TooManyRequests { retry_after_seconds: Some(1) };
            return Ok(ticket.map_or_else(|| reject(&too_many, request), Outcome::Stalled));
        }
        Effect::Disconnect { applied: false } => return Err(Disconnected),
        Effect::Html { code } => return Ok(Outcome::Respond(html(*code))),
        Effect::Stale { revisions } => {
            request.revisions_back = request.revisions_back.saturating_add(*revisions);
        }
        effect => return Ok(reject(effect, request)),
    }
    Ok(Outcome::Continue)
}

fn reject(effect: &Effect, request: &ApiRequest) -> Outcome {
    effect
        .to_error(&request.info)
        .map_or(Outcome::Continue, |error| Outcome::Respond(response::error(&error)))
}

fn html(code: u16) -> Response<Body> {
    let mut response = Response::new(Body::from(HTML));
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::BAD_GATEWAY);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html"));
    response
}

async fn after_handling(
    server: &Server,
    request: &ApiRequest,
    fault: ActiveFault,
    response: Response<Body>,
) -> Result<Response<Body>, Disconnected> {
    let is_watch = request.info.verb == "watch";
    let (parts, body) = response.into_parts();
    let body = match &fault.effect {
        Effect::Disconnect { .. } => return Err(Disconnected),
        Effect::LostResponse => return Ok(response::error(&ApiError::timeout())),
        // The faults below corrupt successful responses only.
        _ if !parts.status.is_success() => body,
        effect if effect.affects_watch_events() => watch::break_off(server, body, fault),
        Effect::Malformed { .. } if is_watch => watch::corrupt(body, fault.effect),
        Effect::Malformed { object, pointer, value } => {
            rewrite_json(body, |body| malformed::corrupt(body, object, pointer, value)).await
        }
        Effect::TruncatedBody => {
            let bytes = read_to_end(body).await;
            Body::from(bytes.slice(..bytes.len() / 2))
        }
        Effect::MissingGroup { group } => {
            rewrite_json(body, |index| missing_group::remove_group(group, index)).await
        }
        _ => body,
    };
    Ok(Response::from_parts(parts, body))
}

async fn rewrite_json(body: Body, change: impl FnOnce(&mut Value)) -> Body {
    let bytes = read_to_end(body).await;
    let Ok(mut value) = serde_json::from_slice(&bytes) else { return Body::from(bytes) };
    change(&mut value);
    Body::from(value.to_string())
}

/// Reads a body that the server itself created, so reading can't fail.
async fn read_to_end(body: Body) -> Bytes {
    body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default()
}
