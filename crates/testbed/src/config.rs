use std::{fmt, sync::Arc, time::Duration};

use jiff::Timestamp;

use crate::{faults::Interceptor, metrics_provider::MetricsProvider, store::ChangeListener};

const LOG_LIMIT: usize = 10_000;
const BOOKMARK_INTERVAL: Duration = Duration::from_mins(1);

/// How the server behaves.
#[derive(Clone)]
pub struct Config {
    /// How many changes of each resource a watch can go back.
    pub log_limit: usize,
    /// How long a watch that wants bookmarks goes without one.
    pub bookmark_interval: Duration,
    /// Whether `metadata.generation` of autoscalers counts the changes of the spec (Kubernetes 1.37 and later).
    pub autoscalers_count_generations: bool,
    /// Whether `minReplicas` may be 0 (feature gate `HPAScaleToZero`).
    pub scale_to_zero: bool,
    /// Answers the three metrics APIs. Unset: they are not there.
    pub metrics: Option<Arc<dyn MetricsProvider>>,
    /// Sees every request first.
    pub interceptor: Option<Arc<dyn Interceptor>>,
    /// Is told of every change.
    pub listener: Option<Arc<dyn ChangeListener>>,
    /// What time it is.
    pub clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// What `/version` tells, such as `v1.37.0`.
    pub git_version: String,
}

impl Config {
    /// The groups and versions of the metrics APIs that are served.
    pub(crate) fn metrics_apis(&self) -> Vec<(String, String)> {
        self.metrics.as_ref().map(|provider| provider.served()).unwrap_or_default()
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            log_limit: LOG_LIMIT,
            bookmark_interval: BOOKMARK_INTERVAL,
            autoscalers_count_generations: true,
            scale_to_zero: true,
            metrics: None,
            interceptor: None,
            listener: None,
            clock: Arc::new(Timestamp::now),
            git_version: "v1.37.0".to_owned(),
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("log_limit", &self.log_limit)
            .field("bookmark_interval", &self.bookmark_interval)
            .field("autoscalers_count_generations", &self.autoscalers_count_generations)
            .field("scale_to_zero", &self.scale_to_zero)
            .field("git_version", &self.git_version)
            .finish_non_exhaustive()
    }
}
