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

/// The longest time between two checks of a watch.
const MAX_INTERVAL: Duration = Duration::from_mins(5);
/// The first delay after a check that failed. It doubles. Soon after a restore, all resource
/// versions may be in use again, so the first check after it should not be late.
const RETRY_DELAY: Duration = Duration::from_millis(500);

/// Checks that the API server has not been rewound when a watch resumes: a watch that resumes at a
/// version that the API server doesn't have yet is silent. A watch that ended by its timeout was
/// not interrupted by a restart of the API server, so it is checked rarely.
#[derive(Debug)]
pub(super) struct RewindCheck {
    state: Mutex<State>,
    due: Notify,
}

#[derive(Debug)]
struct State {
    /// The last request was a watch that has not ended by its timeout.
    is_interrupted: bool,
    /// The time of the last check or list.
    checked: Instant,
    /// The version to check, if a check is due.
    version: Option<String>,
}

impl RewindCheck {
    pub(super) fn new() -> Self {
        let state = State { is_interrupted: false, checked: Instant::now(), version: None };
        Self { state: Mutex::new(state), due: Notify::new() }
    }

    /// Cancels a due check: a list replaces the cache.
    pub(super) fn list_requested(&self) {
        let checked = Instant::now();
        *self.state.lock() = State { is_interrupted: false, checked, version: None };
    }

    pub(super) fn watch_requested(&self, version: &str) {
        let mut state = self.state.lock();
        let was_interrupted = std::mem::replace(&mut state.is_interrupted, true);
        if was_interrupted || state.checked.elapsed() >= MAX_INTERVAL {
            state.version = Some(version.to_owned());
            self.due.notify_one();
        }
    }

    pub(super) fn watch_timed_out(&self) {
        self.state.lock().is_interrupted = false;
    }

    /// Runs each check that is due, and doesn't return. `path` is that of the watch. A check that
    /// fails is repeated, at least every `max_retry_delay`.
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
            let known = self.due_version().await;
            let sent = Instant::now();
            match current_version(&client, &path).await {
                Ok(current) => {
                    retry_delay = RETRY_DELAY;
                    self.checked(&known, sent);
                    watch_ages.compare_versions(&watch, &known, &current, sent);
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
            if let Some(version) = self.state.lock().version.clone() {
                return version;
            }
            self.due.notified().await;
        }
    }

    fn checked(&self, known: &str, at: Instant) {
        let mut state = self.state.lock();
        state.checked = state.checked.max(at);
        if state.version.as_deref() == Some(known) {
            state.version = None;
        }
    }
}

/// A list of which only the metadata is decoded.
#[derive(Deserialize)]
struct Page {
    metadata: PageMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMetadata {
    resource_version: String,
}

/// The current resource version of a list. A list of one object is the cheapest request for it.
async fn current_version(client: &Client, path: &str) -> kube::Result<String> {
    let request = Request::new(path).list(&ListParams::default().limit(1));
    let page: Page = client.request(request.map_err(kube::Error::BuildRequest)?).await?;
    Ok(page.metadata.resource_version)
}
