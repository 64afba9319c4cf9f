//! Credentials and URLs of queues.

use std::collections::HashMap;

use crate::plan::SqsSource;
use parking_lot::Mutex;

use super::credentials::CredentialCache;

/// So that tenants can't fill the memory with names of queues.
const MAX_QUEUES: usize = 1000;

/// What is kept between collections.
#[derive(Debug, Default)]
pub(crate) struct Sqs {
    pub(super) credentials: CredentialCache,
    /// URLs of queues, by region and name.
    queues: Mutex<HashMap<(String, String), String>>,
}

impl Sqs {
    /// The URL of a queue, if it is known.
    pub(super) fn queue_url(&self, source: &SqsSource) -> Option<String> {
        self.queues.lock().get(&key(source)).cloned()
    }

    pub(super) fn remember_queue(&self, source: &SqsSource, url: &str) {
        let mut queues = self.queues.lock();
        if queues.len() >= MAX_QUEUES {
            queues.clear();
        }
        queues.insert(key(source), url.to_owned());
    }

    pub(super) fn forget_queue(&self, source: &SqsSource) {
        self.queues.lock().remove(&key(source));
    }
}

fn key(source: &SqsSource) -> (String, String) {
    (source.region.clone(), source.queue.clone())
}
