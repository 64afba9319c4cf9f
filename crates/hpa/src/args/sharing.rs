use std::time::Duration;

use clap::{Args, ValueEnum};
use hpa_prometheus::source::SharingSettings;

/// Whether queries are shared.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct SharingArguments {
    /// Whether autoscalers with the same metric in one namespace share a query to Prometheus. It
    /// reads all objects of the namespace, and is used for a third of a sync period. hpa rules
    /// check says which rules allow it
    #[arg(
        long,
        env = "HPA_SHARE_QUERIES",
        value_name = "MODE",
        default_value = "auto",
        help_heading = "Metrics"
    )]
    pub(crate) share_queries: ShareQueries,
}

/// When queries are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ShareQueries {
    /// If it has the same result and needs less queries
    Auto,
    /// Never
    Never,
}

impl SharingArguments {
    /// The settings for autoscalers with this sync period.
    pub(crate) fn settings(self, sync_period: Duration) -> Option<SharingSettings> {
        match self.share_queries {
            ShareQueries::Auto => Some(SharingSettings::for_sync_period(sync_period)),
            ShareQueries::Never => None,
        }
    }
}
