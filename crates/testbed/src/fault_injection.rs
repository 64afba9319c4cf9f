//! Applies faults to requests and responses.

use std::{convert::Infallible, sync::Arc};

use axum::{
    body::{Body, BodyDataStream, Bytes},
    response::IntoResponse,
};
use futures::{StreamExt, stream};
use http::{Response, StatusCode, header};
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::sync::watch;

use crate::{
    error::{ApiError, Disconnected},
    faults::{ActiveFault, Effect, StallTicket, remove_group},
    json_fields,
    request::ApiRequest,
    response, router,
    server::Server,
};

const HTML: &str = "<html>\n<head><title>Bad Gateway</title></head>\n\
    <body>\n<h1>Bad Gateway</h1>\n</body>\n</html>\n";

/// The handling of a request after a fault was applied to it.
enum Handling {
    Normal,
    /// Handle the request. Later stalled requests wait until the ticket is dropped.
    Stalled(StallTicket),
    /// Send this response instead of handling the request.
    Replaced(Response<Body>),
}

/// Handles a request affected by faults.
pub(crate) async fn handle(
    server: &Arc<Server>,
    mut request: ApiRequest,
    faults: Vec<ActiveFault>,
) -> Result<Response<Body>, Disconnected> {
    let mut availability = server.subscribe();
    let mut tickets = Vec::new();
    for fault in &faults {
        let handling = tokio::select! {
            biased;
            _ = availability.changed() => return Err(Disconnected),
            handling = apply_before_handling(fault, &mut request) => handling?,
        };
        match handling {
            Handling::Normal => {}
            Handling::Stalled(ticket) => tickets.push(ticket),
            Handling::Replaced(response) => return Ok(response),
        }
    }
    let mut response = router::route(server, &request);
    drop(tickets);
    for fault in faults {
        response = apply_after_handling(server, &request, fault, response).await?;
    }
    Ok(response)
}

async fn apply_before_handling(
    fault: &ActiveFault,
    request: &mut ApiRequest,
) -> Result<Handling, Disconnected> {
    match &fault.effect {
        Effect::Slow { by } => tokio::time::sleep(*by).await,
        Effect::Stall => {
            let ticket = fault.window.wait_in_line().await;
            let too_many = Effect::TooManyRequests { retry_after_seconds: Some(1) };
            return Ok(
                ticket.map_or_else(|| replace_with_error(&too_many, request), Handling::Stalled)
            );
        }
        Effect::Disconnect { applied: false } => return Err(Disconnected),
        Effect::Html { code } => return Ok(Handling::Replaced(html_response(*code))),
        Effect::Stale { revisions } => {
            request.revisions_back = request.revisions_back.saturating_add(*revisions);
        }
        effect => return Ok(replace_with_error(effect, request)),
    }
    Ok(Handling::Normal)
}

/// Replaces the response with the error of the effect. If the effect has none, the request is
/// handled normally.
fn replace_with_error(effect: &Effect, request: &ApiRequest) -> Handling {
    effect
        .to_error(&request.info)
        .map_or(Handling::Normal, |error| Handling::Replaced(response::error(&error)))
}

fn html_response(code: u16) -> Response<Body> {
    let code = StatusCode::from_u16(code).unwrap_or(StatusCode::BAD_GATEWAY);
    (code, [(header::CONTENT_TYPE, "text/html")], HTML).into_response()
}

async fn apply_after_handling(
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
        effect if effect.affects_watch_events() => interrupt_watch(server, body, fault),
        Effect::ChangedField { .. } if is_watch => change_watch_events(body, fault.effect),
        effect @ Effect::ChangedField { .. } => {
            rewrite_json(body, |body| change_body(body, effect)).await
        }
        Effect::TruncatedBody => {
            let bytes = read_to_end(body).await;
            Body::from(bytes.slice(..bytes.len() / 2))
        }
        Effect::MissingGroup { group } => {
            rewrite_json(body, |index| remove_group(group, index)).await
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

/// Reads a body. The server created it, so reading can't fail.
async fn read_to_end(body: Body) -> Bytes {
    body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default()
}

/// A watch that a fault ends or silences.
struct FaultyWatch {
    events: BodyDataStream,
    fault: ActiveFault,
    /// Changes when the server ends all watches.
    watches_ended: watch::Receiver<u64>,
    fault_has_started: bool,
    /// Number of events to send after the start of the fault, before it takes effect.
    remaining: usize,
}

/// Applies a fault to the body of a watch. The fault may start while the watch is running.
fn interrupt_watch(server: &Server, body: Body, fault: ActiveFault) -> Body {
    let remaining = match fault.effect {
        Effect::DropWatch { after }
        | Effect::TruncatedEvent { after }
        | Effect::SilentWatch { after } => after,
        _ => usize::MAX,
    };
    let watch = FaultyWatch {
        events: body.into_data_stream(),
        fault,
        watches_ended: server.watches_ended.subscribe(),
        fault_has_started: false,
        remaining,
    };
    Body::from_stream(stream::unfold(watch, |mut watch| async move {
        let chunk = watch.next().await?;
        Some((Ok::<_, Infallible>(chunk), watch))
    }))
}

impl FaultyWatch {
    /// The next event, or `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        if !self.fault_has_started {
            let window = self.fault.window.clone();
            tokio::select! {
                biased;
                () = window.wait_for_start() => self.fault_has_started = true,
                event = self.next_event() => return event,
            }
        }
        if self.fault.window.is_over() {
            return self.next_event().await;
        }
        match self.fault.effect {
            Effect::DropWatch { .. } if self.remaining == 0 => None,
            Effect::SilentWatch { .. } if self.remaining == 0 => {
                self.stay_silent().await;
                None
            }
            Effect::TruncatedEvent { .. } if self.remaining == 0 => self.truncated_event().await,
            _ => {
                self.remaining = self.remaining.saturating_sub(1);
                self.next_event().await
            }
        }
    }

    async fn next_event(&mut self) -> Option<Bytes> {
        self.events.next().await?.ok()
    }

    async fn truncated_event(&mut self) -> Option<Bytes> {
        let event = self.next_event().await?;
        if self.fault.window.is_over() {
            return Some(event);
        }
        self.end_events();
        Some(event.slice(..event.len() / 2))
    }

    fn end_events(&mut self) {
        self.events = Body::empty().into_data_stream();
    }

    /// Sends nothing until the fault ends or the server ends all watches.
    async fn stay_silent(&mut self) {
        self.end_events();
        tokio::select! {
            () = self.fault.window.wait_for_end() => {}
            _ = self.watches_ended.changed() => {}
        }
    }
}

/// Applies [`Effect::ChangedField`] to the events of a watch.
fn change_watch_events(body: Body, effect: Effect) -> Body {
    Body::from_stream(
        body.into_data_stream().map(move |event| event.map(|event| change_event(event, &effect))),
    )
}

fn change_event(event: Bytes, effect: &Effect) -> Bytes {
    let Ok(mut decoded) = serde_json::from_slice(&event) else { return event };
    change_body(&mut decoded, effect);
    format!("{decoded}\n").into()
}

/// Applies [`Effect::ChangedField`] to the objects in a body: a single object, a list, or a watch
/// event.
fn change_body(body: &mut Value, effect: &Effect) {
    if let Some(items) = body.get_mut("items").and_then(Value::as_array_mut) {
        for item in items {
            change_object(item, effect);
        }
        return;
    }
    match json_fields::str_at(body, "/type") {
        "ADDED" | "MODIFIED" | "DELETED" => {
            if let Some(target) = body.get_mut("object") {
                change_object(target, effect);
            }
        }
        "BOOKMARK" | "ERROR" => {}
        _ => change_object(body, effect),
    }
}

fn change_object(target: &mut Value, effect: &Effect) {
    let Effect::ChangedField { object, pointer, value } = effect else { return };
    let has_name = || {
        ["/metadata/name", "/describedObject/name"]
            .iter()
            .any(|name| json_fields::str_at(target, name) == object)
    };
    if !object.is_empty() && !has_name() {
        return;
    }
    let Some((parent, field)) = pointer.rsplit_once('/') else { return };
    let field = field.replace("~1", "/").replace("~0", "~");
    match target.pointer_mut(parent) {
        Some(Value::Object(fields)) if value.is_null() => {
            fields.remove(&field);
        }
        Some(Value::Object(fields)) => {
            fields.insert(field, value.clone());
        }
        Some(Value::Array(elements)) => {
            let index = field.parse::<usize>().ok();
            if let Some(element) = index.and_then(|index| elements.get_mut(index)) {
                *element = value.clone();
            }
        }
        _ => {}
    }
}
