//! Detects that the API server was rewound while a watch was interrupted.

use std::{sync::Arc, time::Duration};

use kube::{Client, api::ListParams, core::Request};
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};
use tracing::debug;

use crate::cache::WatchAges;

/// After this time without a check or a list, the next watch request is checked in any case.
const MAX_INTERVAL: Duration = Duration::from_mins(5);
/// The delay after the first failed check; it doubles with each further one. It is short, because
/// a rewind can't be detected any more once the API server has reached the old resource version
/// again, which may be soon after a restore.
const RETRY_DELAY: Duration = Duration::from_millis(500);

/// Checks whether the API server was rewound when a watch resumes. A watch from a resource version
/// that the API server doesn't have yet would stay silent. If the previous watch ended by its
/// timeout, the API server was not restarted, so the check is made only every [`MAX_INTERVAL`].
#[derive(Debug)]
pub(super) struct RewindCheck {
    state: Mutex<State>,
    due: Notify,
}

#[derive(Debug)]
struct State {
    /// Whether the last request is a watch that has not ended by its timeout: it still runs, or it
    /// was interrupted.
    has_unfinished_watch: bool,
    last_check_or_list: Instant,
    /// The resource version to check, if a check is due.
    due_version: Option<String>,
}

impl State {
    fn after_list() -> Self {
        Self { has_unfinished_watch: false, last_check_or_list: Instant::now(), due_version: None }
    }
}

impl RewindCheck {
    pub(super) fn new() -> Self {
        Self { state: Mutex::new(State::after_list()), due: Notify::new() }
    }

    /// Cancels a due check: a list replaces the cache.
    pub(super) fn list_requested(&self) {
        *self.state.lock() = State::after_list();
    }

    /// Records the request of a watch from a resource version. Makes a check due if the previous
    /// watch was interrupted, or if the last check or list was long ago.
    pub(super) fn watch_requested(&self, version: &str) {
        let mut state = self.state.lock();
        let had_unfinished_watch = std::mem::replace(&mut state.has_unfinished_watch, true);
        if had_unfinished_watch || state.last_check_or_list.elapsed() >= MAX_INTERVAL {
            state.due_version = Some(version.to_owned());
            self.due.notify_one();
        }
    }

    /// Records that the API server ended the watch at its timeout.
    pub(super) fn watch_timed_out(&self) {
        self.state.lock().has_unfinished_watch = false;
    }

    /// Runs each check that is due, and doesn't return. `path` is the path of the watch, and
    /// `watch` its name. A failed check is repeated with a backoff of at most `max_retry_delay`.
    pub(super) async fn run(
        self: Arc<Self>,
        client: Client,
        path: String,
        watch: String,
        watch_ages: Arc<WatchAges>,
        max_retry_delay: Duration,
    ) {
        let mut retry_delay = RETRY_DELAY;
        loop {
            let version = self.due_version().await;
            let sent = Instant::now();
            match current_version(&client, &path).await {
                Ok(current) => {
                    retry_delay = RETRY_DELAY;
                    self.check_succeeded(&version, sent);
                    watch_ages.detect_rewind(&watch, &version, &current, sent);
                }
                Err(error) => {
                    debug!(watch, %error, "unable to read the current resource version");
                    sleep(retry_delay.min(max_retry_delay)).await;
                    retry_delay = (retry_delay * 2).min(max_retry_delay);
                }
            }
        }
    }

    async fn due_version(&self) -> String {
        loop {
            if let Some(version) = self.state.lock().due_version.clone() {
                return version;
            }
            self.due.notified().await;
        }
    }

    fn check_succeeded(&self, version: &str, at: Instant) {
        let mut state = self.state.lock();
        state.last_check_or_list = state.last_check_or_list.max(at);
        if state.due_version.as_deref() == Some(version) {
            state.due_version = None;
        }
    }
}

/// A page of a list, without its items.
#[derive(Deserialize)]
struct Page {
    metadata: PageMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMetadata {
    resource_version: String,
}

/// The current resource version, from a list of one object, which is the cheapest request for it.
async fn current_version(client: &Client, path: &str) -> kube::Result<String> {
    let request = Request::new(path).list(&ListParams::default().limit(1));
    let page: Page = client.request(request.map_err(kube::Error::BuildRequest)?).await?;
    Ok(page.metadata.resource_version)
}
