//! Serves watches.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use axum::body::{Body, Bytes};
use futures::stream;
use http::{Response, StatusCode};
use serde_json::{Value, json};
use tokio::{sync::watch, time::Instant};

use super::body::check_watch;
use crate::{
    error::ApiError,
    json,
    output::OutputFormat,
    request::ApiRequest,
    response,
    selection::Selection,
    server::Server,
    store::{Change, with_resource_version},
    target::Target,
};

/// The default of `timeoutSeconds`.
const TIMEOUT: Duration = Duration::from_mins(30);

/// A running watch.
struct Watch {
    server: Arc<Server>,
    target: Target,
    selection: Selection,
    output: OutputFormat,
    /// Encoded events to send.
    pending: VecDeque<Bytes>,
    /// Changes up to this resource version have been processed.
    revision: u64,
    latest: watch::Receiver<u64>,
    drops: watch::Receiver<u64>,
    deadline: Instant,
    bookmarks: Option<Duration>,
    next_bookmark: Instant,
    ended: bool,
}

pub(super) fn handle(
    server: &Arc<Server>,
    request: &ApiRequest,
    target: &Target,
) -> Result<Response<Body>, ApiError> {
    check_watch(request)?;
    let mut watch = start(server, request, target)?;
    watch.queue_initial_events(request);
    let lines = stream::unfold(watch, |mut watch| async move {
        let line = watch.next().await?;
        Some((Ok::<_, std::convert::Infallible>(line), watch))
    });
    Ok(response::json_stream(StatusCode::OK, Body::from_stream(lines)))
}

fn start(server: &Arc<Server>, request: &ApiRequest, target: &Target) -> Result<Watch, ApiError> {
    let output = OutputFormat::new(request, target, (server.config.clock)())?;
    let selection = Selection::new(request, &target.resource)?;
    let timeout = request.number("timeoutSeconds").filter(|seconds| *seconds > 0);
    let timeout = timeout.map_or(TIMEOUT, Duration::from_secs);
    let bookmarks =
        request.is_set("allowWatchBookmarks").then_some(server.config.bookmark_interval);
    let now = Instant::now();
    let requested = request.number("resourceVersion").unwrap_or_default();
    let mut state = server.state.lock();
    let latest = state.store.collection(&target.resource.key()).subscribe();
    let current = state.store.revision();
    // A watch may start at a future version, but can't list the objects at it.
    if requested > current && request.is_set("sendInitialEvents") {
        return Err(super::list::resource_version_too_large(requested, current));
    }
    Ok(Watch {
        server: Arc::clone(server),
        target: target.clone(),
        selection,
        output,
        pending: VecDeque::new(),
        revision: requested,
        latest,
        drops: server.watches_dropped.subscribe(),
        deadline: now + timeout,
        bookmarks,
        next_bookmark: now + bookmarks.unwrap_or(timeout),
        ended: false,
    })
}

impl Watch {
    /// Queues the existing objects if the watch has no resource version or requests initial events.
    fn queue_initial_events(&mut self, request: &ApiRequest) {
        let sends_initial = request.is_set("sendInitialEvents");
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
                    self.queue("ADDED", object);
                }
            }
        }
        if sends_initial && self.bookmarks.is_some() {
            self.queue_bookmark(true);
        }
    }

    /// The next event, or `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            // A dropped connection loses the pending events.
            if self.drops.has_changed().unwrap_or(true) {
                return None;
            }
            if let Some(line) = self.pending.pop_front() {
                return Some(line);
            }
            if self.ended {
                return None;
            }
            self.latest.mark_unchanged();
            self.queue_changes();
            if self.pending.is_empty() {
                self.wait().await;
            }
        }
    }

    /// Queues the events of new changes.
    fn queue_changes(&mut self) {
        let (changes, revision) = {
            let mut state = self.server.state.lock();
            let revision = state.store.revision();
            (
                state.store.collection(&self.target.resource.key()).changes_after(self.revision),
                revision,
            )
        };
        match changes {
            Ok(changes) => {
                for change in &changes {
                    self.queue_change(change);
                }
                self.revision = self.revision.max(revision);
            }
            Err(error) => {
                let status = ApiError::expired(error.to_string()).to_status();
                self.pending.push_back(line("ERROR", &status));
                self.ended = true;
            }
        }
    }

    async fn wait(&mut self) {
        let bookmark = self.bookmarks.map(|_| self.next_bookmark);
        tokio::select! {
            _ = self.latest.changed() => {}
            _ = self.drops.changed() => self.ended = true,
            () = tokio::time::sleep_until(self.deadline) => {
                self.ended = true;
                if bookmark.is_some() {
                    self.queue_bookmark(false);
                }
            }
            () = tokio::time::sleep_until(bookmark.unwrap_or(self.deadline)),
                if bookmark.is_some() =>
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
            (None, Some(new)) => self.queue("ADDED", new),
            (Some(_), Some(new)) => self.queue("MODIFIED", new),
            // The object was deleted or no longer matches the selectors.
            (Some(old), None) => {
                let last = with_resource_version(old, change.revision);
                self.queue("DELETED", &last);
            }
        }
    }

    fn queue(&mut self, event: &str, object: &Value) {
        self.output.set_time((self.server.config.clock)());
        let converted = self.output.object(object);
        self.output.omit_columns();
        self.pending.push_back(line(event, &converted));
    }

    fn queue_bookmark(&mut self, ends_initial: bool) {
        self.next_bookmark = Instant::now() + self.bookmarks.unwrap_or(TIMEOUT);
        if self.server.state.lock().store.revision() < self.revision {
            // Like kube-apiserver, sends nothing up to the requested version.
            return;
        }
        let resource = &self.target.resource;
        let mut bookmark = json!({
            "kind": resource.kind,
            "apiVersion": resource.api_version(&self.target.version),
            "metadata": { "resourceVersion": self.revision.to_string() },
        });
        if ends_initial {
            json::set(
                &mut bookmark,
                &["metadata", "annotations", "k8s.io/initial-events-end"],
                "true",
            );
        }
        self.pending.push_back(line("BOOKMARK", &self.output.bookmark(bookmark)));
    }
}

fn line(event: &str, object: &Value) -> Bytes {
    // `type` before `object`, as kube-apiserver writes them.
    format!("{{\"type\":\"{event}\",\"object\":{object}}}\n").into()
}
