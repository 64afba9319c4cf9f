//! Watches: a stream of changes after a version.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use axum::body::{Body, Bytes};
use futures::stream;
use http::{Response, StatusCode};
use serde_json::{Value, json};
use tokio::{sync::watch, time::Instant};

use super::options;
use crate::{
    error::ApiError,
    json,
    output::View,
    request::Call,
    response,
    selection::Selection,
    server::Server,
    store::{Change, at_version},
    target::Target,
};

/// How long a watch lasts that does not say.
const TIMEOUT: Duration = Duration::from_mins(30);

/// A watch that runs.
struct Watch {
    server: Arc<Server>,
    target: Target,
    selection: Selection,
    view: View,
    /// Lines to send.
    pending: VecDeque<Bytes>,
    /// Changes up to this version have been looked at.
    revision: u64,
    latest: watch::Receiver<u64>,
    dropped: watch::Receiver<u64>,
    ends: Instant,
    bookmarks: Option<Duration>,
    next_bookmark: Instant,
    ended: bool,
}

pub(super) fn answer(
    server: &Arc<Server>,
    call: &Call,
    target: &Target,
) -> Result<Response<Body>, ApiError> {
    options::check_watch(call)?;
    let mut watch = start(server, call, target)?;
    watch.send_initial(call);
    let lines = stream::unfold(watch, |mut watch| async move {
        let line = watch.next().await?;
        Some((Ok::<_, std::convert::Infallible>(line), watch))
    });
    Ok(response::stream(StatusCode::OK, Body::from_stream(lines)))
}

fn start(server: &Arc<Server>, call: &Call, target: &Target) -> Result<Watch, ApiError> {
    let view = View::new(call, target, (server.config.clock)())?;
    let selection = Selection::new(call, &target.resource)?;
    let timeout = call.number("timeoutSeconds").filter(|seconds| *seconds > 0);
    let timeout = timeout.map_or(TIMEOUT, Duration::from_secs);
    let bookmarks = call.is_set("allowWatchBookmarks").then_some(server.config.bookmark_interval);
    let now = Instant::now();
    let asked = call.number("resourceVersion").unwrap_or_default();
    let mut state = server.state.lock();
    let latest = state.store.collection(&target.resource.key()).subscribe();
    let current = state.store.revision();
    // The changes after a version to come can be waited for; the objects at it cannot be shown.
    if asked > current && call.is_set("sendInitialEvents") {
        return Err(super::list::too_large(asked, current));
    }
    Ok(Watch {
        server: Arc::clone(server),
        target: target.clone(),
        selection,
        view,
        pending: VecDeque::new(),
        revision: asked,
        latest,
        dropped: server.watches_dropped.subscribe(),
        ends: now + timeout,
        bookmarks,
        next_bookmark: now + bookmarks.unwrap_or(timeout),
        ended: false,
    })
}

impl Watch {
    /// Without a version to start from, or if asked for, the objects that are there come first.
    fn send_initial(&mut self, call: &Call) {
        let streams = call.is_set("sendInitialEvents");
        if !streams && self.revision != 0 {
            return;
        }
        let (objects, revision) = {
            let mut state = self.server.state.lock();
            let objects = state.store.collection(&self.target.resource.key()).objects().clone();
            (objects, state.store.revision())
        };
        self.revision = revision;
        if streams || call.parameter("sendInitialEvents").is_empty() {
            for (id, object) in &objects {
                if self.selection.matches(id, object) {
                    self.queue("ADDED", object);
                }
            }
        }
        if streams && self.bookmarks.is_some() {
            self.queue_bookmark(true);
        }
    }

    /// The next line; none at the end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            // What a broken connection has not brought it never brings.
            if self.dropped.has_changed().unwrap_or(true) {
                return None;
            }
            if let Some(line) = self.pending.pop_front() {
                return Some(line);
            }
            if self.ended {
                return None;
            }
            self.latest.mark_unchanged();
            self.read();
            if self.pending.is_empty() {
                self.wait().await;
            }
        }
    }

    /// Queues what changed since.
    fn read(&mut self) {
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
            _ = self.dropped.changed() => self.ended = true,
            () = tokio::time::sleep_until(self.ends) => {
                self.ended = true;
                if bookmark.is_some() {
                    self.queue_bookmark(false);
                }
            }
            () = tokio::time::sleep_until(bookmark.unwrap_or(self.ends)), if bookmark.is_some() => {
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
            // Also of an object that is still there, but no longer selected.
            (Some(old), None) => {
                let last = at_version(old, change.revision);
                self.queue("DELETED", &last);
            }
        }
    }

    fn queue(&mut self, event: &str, object: &Value) {
        self.view.set_time((self.server.config.clock)());
        let shown = self.view.one(object);
        self.view.columns_sent();
        self.pending.push_back(line(event, &shown));
    }

    fn queue_bookmark(&mut self, ends_initial: bool) {
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
        self.pending.push_back(line("BOOKMARK", &self.view.bookmark(bookmark)));
        self.next_bookmark = Instant::now() + self.bookmarks.unwrap_or(TIMEOUT);
    }
}

fn line(event: &str, object: &Value) -> Bytes {
    // In the order in which Kubernetes writes them.
    format!("{{\"type\":\"{event}\",\"object\":{object}}}\n").into()
}
