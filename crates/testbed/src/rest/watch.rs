//! Serves watches.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use axum::body::{Body, Bytes};
use futures::stream;
use http::{Response, StatusCode};
use serde_json::{Value, json};
use tokio::{sync::watch, time::Instant};

use super::{RequestContext, options::check_watch_options, read::resource_version_too_large};
use crate::{
    error::ApiError,
    json_fields,
    output::OutputFormat,
    request::ApiRequest,
    request_target::RequestTarget,
    response,
    selection::Selection,
    server::Server,
    store::{Change, with_resource_version},
};

/// Used if the request has no `timeoutSeconds`.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(30);
/// A longer `timeoutSeconds` could exceed the range of the clock.
const MAX_TIMEOUT: Duration = Duration::from_hours(24);

struct Watch {
    server: Arc<Server>,
    target: RequestTarget,
    selection: Selection,
    output: OutputFormat,
    /// Encoded events to send.
    pending: VecDeque<Bytes>,
    /// Changes up to this resource version have been processed.
    revision: u64,
    /// The resource version of the latest change of the collection.
    latest: watch::Receiver<u64>,
    /// Changes when the server ends all watches.
    watches_ended: watch::Receiver<u64>,
    deadline: Instant,
    /// `None` if the watch doesn't allow bookmarks.
    next_bookmark: Option<Instant>,
    /// Whether the watch ends after the pending events.
    has_ended: bool,
}

pub(super) fn handle(context: &RequestContext<'_>) -> Result<Response<Body>, ApiError> {
    check_watch_options(context.request)?;
    let mut watch = start(context)?;
    watch.queue_initial_events(context.request);
    let lines = stream::unfold(watch, |mut watch| async move {
        let line = watch.next().await?;
        Some((Ok::<_, std::convert::Infallible>(line), watch))
    });
    Ok(response::json_stream(StatusCode::OK, Body::from_stream(lines)))
}

fn start(context: &RequestContext<'_>) -> Result<Watch, ApiError> {
    let RequestContext { server, request, target } = context;
    let output = context.output()?;
    let selection = Selection::new(request, &target.resource)?;
    let timeout = request.number("timeoutSeconds").filter(|seconds| *seconds > 0);
    let timeout = timeout.map_or(DEFAULT_TIMEOUT, Duration::from_secs).min(MAX_TIMEOUT);
    let now = Instant::now();
    let next_bookmark =
        request.is_true("allowWatchBookmarks").then(|| now + server.config.bookmark_interval);
    let requested = request.number("resourceVersion").unwrap_or_default();
    let mut state = server.state.lock();
    let latest = state.store.collection(&target.resource.key()).subscribe();
    let current = state.store.revision();
    // A watch may start at a future resource version, but its initial events would need the objects
    // at that version.
    if requested > current && request.is_true("sendInitialEvents") {
        return Err(resource_version_too_large(requested, current));
    }
    Ok(Watch {
        server: Arc::clone(context.server),
        target: target.clone(),
        selection,
        output,
        pending: VecDeque::new(),
        revision: requested,
        latest,
        watches_ended: server.watches_ended.subscribe(),
        deadline: now + timeout,
        next_bookmark,
        has_ended: false,
    })
}

impl Watch {
    /// Starts the watch at the current resource version if it requests none (or 0), or requests
    /// initial events. Then queues the existing objects, unless `sendInitialEvents` is false. A
    /// bookmark ends the initial events if they were requested and the watch allows bookmarks.
    fn queue_initial_events(&mut self, request: &ApiRequest) {
        let sends_initial = request.is_true("sendInitialEvents");
        if !sends_initial && self.revision != 0 {
            return;
        }
        let (objects, revision) = {
            let mut state = self.server.state.lock();
            let objects = state.store.collection(&self.target.resource.key()).objects().clone();
            (objects, state.store.revision())
        };
        self.revision = revision;
        if sends_initial || request.parameter("sendInitialEvents").is_empty() {
            for (id, object) in &objects {
                if self.selection.matches(id, object) {
                    self.queue_event("ADDED", object);
                }
            }
        }
        if sends_initial {
            self.queue_bookmark(true);
        }
    }

    /// The next event, or `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            // The pending events are lost, as with a broken connection.
            if self.watches_ended.has_changed().unwrap_or(true) {
                return None;
            }
            if let Some(line) = self.pending.pop_front() {
                return Some(line);
            }
            if self.has_ended {
                return None;
            }
            // A change after this line ends the wait, even if it is already queued.
            self.latest.mark_unchanged();
            self.queue_changes();
            if self.pending.is_empty() {
                self.wait_for_change().await;
            }
        }
    }

    /// Queues the events of new changes.
    fn queue_changes(&mut self) {
        let (changes, revision) = {
            let mut state = self.server.state.lock();
            let collection = state.store.collection(&self.target.resource.key());
            (collection.changes_after(self.revision), state.store.revision())
        };
        match changes {
            Ok(changes) => {
                for change in &changes {
                    self.queue_change(change);
                }
                self.revision = self.revision.max(revision);
            }
            Err(error) => {
                self.pending.push_back(event_line("ERROR", &error.to_status()));
                self.has_ended = true;
            }
        }
    }

    /// Waits for a change, the time of the next bookmark, or the end of the watch.
    async fn wait_for_change(&mut self) {
        tokio::select! {
            _ = self.latest.changed() => {}
            _ = self.watches_ended.changed() => self.has_ended = true,
            () = tokio::time::sleep_until(self.deadline) => {
                self.has_ended = true;
                self.queue_bookmark(false);
            }
            () = tokio::time::sleep_until(self.next_bookmark.unwrap_or(self.deadline)),
                if self.next_bookmark.is_some() =>
            {
                self.queue_bookmark(false);
            }
        }
    }

    fn queue_change(&mut self, change: &Change) {
        let selected = |object: &Value| self.selection.matches(&change.id, object);
        let old = change.old.as_deref().filter(|object| selected(object));
        let new = change.new.as_ref().filter(|object| selected(object));
        match (old, new) {
            (None, None) => {}
            (None, Some(new)) => self.queue_event("ADDED", new),
            (Some(_), Some(new)) => self.queue_event("MODIFIED", new),
            // The object was deleted or no longer matches the selectors.
            (Some(old), None) => {
                let last = with_resource_version(old, change.revision);
                self.queue_event("DELETED", &last);
            }
        }
    }

    fn queue_event(&mut self, event_type: &str, object: &Value) {
        let rendered = self.output.render_object(object);
        self.output.omit_columns();
        self.pending.push_back(event_line(event_type, &rendered));
    }

    /// Queues a bookmark, if the watch allows bookmarks.
    fn queue_bookmark(&mut self, ends_initial_events: bool) {
        let Some(next) = &mut self.next_bookmark else { return };
        *next = Instant::now() + self.server.config.bookmark_interval;
        if self.server.state.lock().store.revision() < self.revision {
            // Like kube-apiserver, sends no bookmarks before the requested version is reached.
            return;
        }
        let resource = &self.target.resource;
        let mut bookmark = json!({
            "kind": resource.kind,
            "apiVersion": resource.api_version(&self.target.version),
            "metadata": { "resourceVersion": self.revision.to_string() },
        });
        if ends_initial_events {
            json_fields::set(
                &mut bookmark,
                &["metadata", "annotations", "k8s.io/initial-events-end"],
                "true",
            );
        }
        self.pending.push_back(event_line("BOOKMARK", &self.output.render_bookmark(bookmark)));
    }
}

fn event_line(event_type: &str, object: &Value) -> Bytes {
    // `type` before `object`, as kube-apiserver writes them.
    format!("{{\"type\":\"{event_type}\",\"object\":{object}}}\n").into()
}
