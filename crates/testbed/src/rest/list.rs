//! Lists, whole or in pages.

use std::{ops::Bound, sync::Arc};

use axum::body::Body;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::options;
use crate::{
    error::ApiError,
    json,
    output::View,
    request::Call,
    response,
    selection::Selection,
    server::Server,
    state::State,
    store::{Id, Listed, Object},
    target::Target,
};

/// Where a list that was cut goes on: the version it shows, and the last object that was sent.
struct Continue {
    revision: u64,
    after: Id,
}

impl Continue {
    fn parse(token: &str) -> Result<Self, ApiError> {
        let parsed = || {
            let mut parts = token.splitn(3, '/');
            let revision = parts.next()?.parse().ok()?;
            Some(Self { revision, after: (parts.next()?.to_owned(), parts.next()?.to_owned()) })
        };
        let text =
            "invalid continue token: continue key is not valid: it is not one of this server's";
        parsed().ok_or_else(|| ApiError::bad_request(text))
    }

    fn token(&self) -> String {
        format!("{}/{}/{}", self.revision, self.after.0, self.after.1)
    }
}

pub(super) fn answer(
    server: &Server,
    call: &Call,
    target: &Target,
) -> Result<Response<Body>, ApiError> {
    options::check_list(call)?;
    let selection = Selection::new(call, &target.resource)?;
    // What is asked for at any version comes out of a cache, which does not cut.
    let is_cut = call.parameter("resourceVersion") != "0" || !call.parameter("continue").is_empty();
    let limit = call.number("limit").filter(|limit| *limit > 0 && is_cut);
    let (Listed { revision, objects }, after) = snapshot(server, call, target, limit.is_some())?;
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    let mut selected = objects
        .range((from, Bound::Unbounded))
        .filter(|(id, object)| selection.matches(id, object));
    let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
    let page: Vec<(&Id, &Object)> = selected.by_ref().take(limit).collect();
    let remaining = selected.count();
    let metadata = metadata(revision, page.last().map(|(id, _)| *id), remaining, call);
    let page: Vec<Object> = page.into_iter().map(|(_, object)| Arc::clone(object)).collect();
    let view = View::new(call, target, (server.config.clock)())?;
    Ok(response::json(StatusCode::OK, &view.list(&page, &metadata)))
}

/// The objects at the version that the list is to show, and after which of them it goes on.
fn snapshot(
    server: &Server,
    call: &Call,
    target: &Target,
    is_paged: bool,
) -> Result<(Listed, Option<Id>), ApiError> {
    let mut state = server.state.lock();
    let is_earlier = call.revisions_back > 0 && call.parameter("continue").is_empty();
    if is_earlier && call.parameter("resourceVersionMatch") != "Exact" {
        return Ok((earlier(&mut state, call, target)?, None));
    }
    let now = state.store.revision();
    let collection = state.store.collection(&target.resource.key());
    if !call.parameter("continue").is_empty() {
        let at = Continue::parse(call.parameter("continue"))?;
        let snapshot = collection.page_at(at.revision).map_err(|_| expired_token())?;
        return Ok((snapshot, Some(at.after)));
    }
    let asked = call.number("resourceVersion").unwrap_or_default();
    if asked > now {
        return Err(too_large(asked, now));
    }
    let is_exact = call.parameter("resourceVersionMatch") == "Exact";
    let revision = if is_exact { asked } else { now };
    let snapshot =
        if is_paged { collection.page_at(revision) } else { collection.snapshot_at(revision) };
    Ok((snapshot.map_err(|error| ApiError::expired(error.to_string()))?, None))
}

/// The objects as many versions back as the call is to read: not before what the log holds, nor before the version
/// that is asked for.
pub(super) fn earlier(state: &mut State, call: &Call, target: &Target) -> Result<Listed, ApiError> {
    let now = state.store.revision();
    let asked = call.number("resourceVersion").unwrap_or_default();
    if asked > now {
        return Err(too_large(asked, now));
    }
    let collection = state.store.collection(&target.resource.key());
    let revision = now.saturating_sub(call.revisions_back).max(asked).max(collection.oldest());
    collection.snapshot_at(revision).map_err(|error| ApiError::expired(error.to_string()))
}

fn metadata(revision: u64, last: Option<&Id>, remaining: usize, call: &Call) -> Value {
    let mut metadata = json!({ "resourceVersion": revision.to_string() });
    if let Some(last) = last.filter(|_| remaining > 0) {
        let token = Continue { revision, after: last.clone() }.token();
        json::set(&mut metadata, &["continue"], token);
        // With a selector the API does not count.
        if call.parameter("labelSelector").is_empty() && call.parameter("fieldSelector").is_empty()
        {
            json::set(&mut metadata, &["remainingItemCount"], remaining);
        }
    }
    metadata
}

fn expired_token() -> ApiError {
    let text = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter.";
    ApiError::expired(text)
}

/// The version asked for lies ahead.
pub(super) fn too_large(asked: u64, now: u64) -> ApiError {
    let text = format!("Too large resource version: {asked}, current: {now}");
    let details = json!({ "causes": [{ "reason": "ResourceVersionTooLarge", "message": "Too large resource version" }], "retryAfterSeconds": 1 });
    ApiError {
        details: Some(details),
        retry_after: Some(1),
        ..ApiError::new(504, "Timeout", format!("Timeout: {text}"))
    }
}
