//! Serves lists, optionally paginated.

use std::{collections::BTreeMap, ops::Bound, sync::Arc};

use axum::body::Body;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::{
    RequestContext,
    options::check_list_options,
    read::{resource_version_too_large, stale_list},
};
use crate::{
    error::ApiError,
    json_fields,
    request::ApiRequest,
    response,
    selection::Selection,
    store::{ListSnapshot, Object, ObjectId},
};

/// The position in a paginated list.
struct ContinueToken {
    /// The resource version of the list.
    revision: u64,
    /// The number of objects on the pages so far.
    sent: usize,
    /// The last object on these pages.
    after: ObjectId,
}

impl ContinueToken {
    fn parse(token: &str) -> Result<Self, ApiError> {
        let parsed = || {
            let mut parts = token.splitn(4, '/');
            let (revision, sent) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
            let after = (parts.next()?.to_owned(), parts.next()?.to_owned());
            Some(Self { revision, sent, after })
        };
        let text =
            "invalid continue token: continue key is not valid: it was not issued by this server";
        parsed().ok_or_else(|| ApiError::bad_request(text))
    }

    fn to_text(&self) -> String {
        format!("{}/{}/{}/{}", self.revision, self.sent, self.after.0, self.after.1)
    }
}

pub(super) fn handle(context: &RequestContext<'_>) -> Result<Response<Body>, ApiError> {
    let RequestContext { request, target, .. } = context;
    check_list_options(request)?;
    let selection = Selection::new(request, &target.resource)?;
    // With `resourceVersion=0` kube-apiserver lists from its watch cache and ignores the limit.
    let uses_limit =
        request.parameter("resourceVersion") != "0" || !request.parameter("continue").is_empty();
    let limit = request.number("limit").filter(|limit| *limit > 0 && uses_limit);
    let (ListSnapshot { revision, objects }, previous) = snapshot(context, limit.is_some())?;
    let sent = previous.as_ref().map_or(0, |token| token.sent);
    let namespace = &request.info.namespace;
    let from = match previous {
        Some(token) => Bound::Excluded(token.after),
        None => Bound::Included((namespace.clone(), String::new())),
    };
    let mut selected = objects
        .range((from, Bound::Unbounded))
        .take_while(|((object_namespace, _), _)| {
            namespace.is_empty() || object_namespace == namespace
        })
        .filter(|(id, object)| selection.matches(id, object));
    let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
    let page: Vec<(&ObjectId, &Object)> = selected.by_ref().take(limit).collect();
    let next = page.last().filter(|_| selected.next().is_some()).map(|(id, _)| {
        let after = ObjectId::clone(id);
        ContinueToken { revision, sent: sent + page.len(), after }
    });
    let metadata = list_metadata(revision, next, &objects, request);
    let page: Vec<Object> = page.into_iter().map(|(_, object)| Arc::clone(object)).collect();
    Ok(response::json(StatusCode::OK, &context.output()?.render_list(&page, &metadata)))
}

/// Returns the current objects, or those at an earlier resource version: that of an `Exact`
/// request, of a continue token or of a fault. Also returns the continue token, if the request has
/// one.
fn snapshot(
    context: &RequestContext<'_>,
    is_paged: bool,
) -> Result<(ListSnapshot, Option<ContinueToken>), ApiError> {
    let RequestContext { server, request, target } = context;
    let mut state = server.state.lock();
    let token = request.parameter("continue");
    let is_exact = request.parameter("resourceVersionMatch") == "Exact";
    if request.revisions_back > 0 && token.is_empty() && !is_exact {
        return Ok((stale_list(&mut state, request, target)?, None));
    }
    let current = state.store.revision();
    let collection = state.store.collection(&target.resource.key());
    if !token.is_empty() {
        let token = ContinueToken::parse(token)?;
        let snapshot = collection.page_at(token.revision).map_err(|_| expired_token())?;
        return Ok((snapshot, Some(token)));
    }
    let requested = request.number("resourceVersion").unwrap_or_default();
    if requested > current {
        return Err(resource_version_too_large(requested, current));
    }
    let revision = if is_exact { requested } else { current };
    let snapshot =
        if is_paged { collection.page_at(revision)? } else { collection.list_at(revision)? };
    Ok((snapshot, None))
}

fn list_metadata(
    revision: u64,
    next: Option<ContinueToken>,
    objects: &BTreeMap<ObjectId, Object>,
    request: &ApiRequest,
) -> Value {
    let mut metadata = json!({ "resourceVersion": revision.to_string() });
    let Some(next) = next else { return metadata };
    json_fields::set(&mut metadata, &["continue"], next.to_text());
    // With a selector, kube-apiserver doesn't count the remaining items.
    if ["labelSelector", "fieldSelector"].iter().all(|name| request.parameter(name).is_empty()) {
        let namespace = &request.info.namespace;
        // Across all namespaces, the total is known. Counting the objects for each page would make
        // a paginated list quadratic.
        let all = if namespace.is_empty() {
            objects.len()
        } else {
            objects.keys().filter(|(object_namespace, _)| object_namespace == namespace).count()
        };
        json_fields::set(&mut metadata, &["remainingItemCount"], all.saturating_sub(next.sent));
    }
    metadata
}

fn expired_token() -> ApiError {
    let text = "The provided continue parameter is too old to display a consistent list result. \
        You can start a new list without the continue parameter.";
    ApiError::expired(text)
}
