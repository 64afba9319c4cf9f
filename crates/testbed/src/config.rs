//! The configuration of the server.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;

use crate::{
    clock::Clock,
    faults::Interceptor,
    metrics_provider::{MetricsProvider, SERVED_APIS},
    store::ChangeListener,
};

const WATCH_CACHE_SIZE: usize = 10_000;
const BOOKMARK_INTERVAL: Duration = Duration::from_mins(1);

/// Configuration of a testbed.
#[derive(Clone)]
pub struct Config {
    /// The number of changes of each resource that the watch cache keeps. A watch that needs an
    /// older change gets 410 `Expired`.
    pub watch_cache_size: usize,
    /// Interval of `BOOKMARK` events, for watches that allow them.
    pub bookmark_interval: Duration,
    /// Feature gate `HPAScaleToZero`: `minReplicas` may be 0.
    pub scale_to_zero: bool,
    /// Provides the data of the three metrics APIs. If unset, the server doesn't serve them.
    pub metrics: Option<Arc<dyn MetricsProvider>>,
    /// Called before a request is handled, to inject faults. Not called while the server is down.
    pub interceptor: Option<Arc<dyn Interceptor>>,
    /// Called for changes of objects: see [`ChangeListener`].
    pub listener: Option<Arc<dyn ChangeListener>>,
    /// The server's wall clock.
    pub clock: Clock,
}

impl Config {
    /// Groups and versions of the metrics APIs that are served.
    pub(crate) fn metrics_apis(&self) -> &'static [(&'static str, &'static str)] {
        if self.metrics.is_some() { SERVED_APIS } else { &[] }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            watch_cache_size: WATCH_CACHE_SIZE,
            bookmark_interval: BOOKMARK_INTERVAL,
            scale_to_zero: true,
            metrics: None,
            interceptor: None,
            listener: None,
            clock: Arc::new(Timestamp::now),
        }
    }
}
