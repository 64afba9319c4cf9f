//! The Prometheus servers of a rules file. After repeated timeouts, a server gets no further
//! queries: a report must not wait for the time limit of each.

use std::collections::BTreeMap;

use hpa_metrics::MetricError;
use hpa_prometheus::{client::QueryFailure, source::PrometheusSource};
use parking_lot::Mutex;

use super::outcome::QueryProblem;

/// After this many timeouts in a row, a server gets no further queries.
const MAX_TIMEOUTS: usize = 2;

/// The servers of a rules file, and their timeouts.
pub(super) struct RuleServers<'p> {
    pub(super) source: &'p PrometheusSource,
    /// The timeouts in a row of each server, by its name. Removed after a query without a timeout.
    timeouts: Mutex<BTreeMap<String, Vec<QueryFailure>>>,
}

/// A Prometheus server that a rules file names.
#[derive(Clone, Copy)]
pub(super) struct PrometheusServer<'p> {
    pub(super) servers: &'p RuleServers<'p>,
    pub(super) name: &'p str,
}

impl<'p> RuleServers<'p> {
    pub(super) fn new(source: &'p PrometheusSource) -> Self {
        Self { source, timeouts: Mutex::default() }
    }

    pub(super) fn server<'s>(&'s self, name: &'s str) -> PrometheusServer<'s> {
        PrometheusServer { servers: self, name }
    }

    /// Adds notes to the first line of a report: queries were left out after timeouts, or a server
    /// warned of a result.
    pub(super) fn add_notes(&self, report: String) -> String {
        let has_timeouts = self.timeouts.lock().values().any(|row| row.len() >= MAX_TIMEOUTS);
        let timeouts = has_timeouts.then(|| {
            format!("after {MAX_TIMEOUTS} timeouts in a row, no further queries were sent")
        });
        let notes: Vec<_> = timeouts.into_iter().chain(self.source.server_warning()).collect();
        if notes.is_empty() {
            return report;
        }
        let (first, rest) = report.split_once('\n').unwrap_or((report.as_str(), ""));
        format!("{first}; {}\n{rest}", notes.join("; "))
    }
}

impl PrometheusServer<'_> {
    /// Sends a query. After too many timeouts, fails with the last one instead.
    pub(super) async fn send<T>(
        &self,
        query: impl Future<Output = Result<T, QueryFailure>>,
    ) -> Result<T, QueryFailure> {
        self.check_timeouts()?;
        let result = query.await;
        self.record(result.as_ref().err());
        result
    }

    /// Like [`Self::send`], with a read of the source of the rules.
    pub(super) async fn read<T>(
        &self,
        read: impl Future<Output = Result<T, MetricError>>,
    ) -> Result<T, MetricError> {
        self.check_timeouts().map_err(MetricError::from_fetch_error)?;
        let result = read.await;
        let error = result.as_ref().err();
        let failure = error.and_then(QueryFailure::of);
        // Other errors can occur without a query, so they don't end a row of timeouts.
        if error.is_none() || failure.is_some() {
            self.record(failure);
        }
        result
    }

    /// The problem of the last timeout, if there were too many.
    pub(super) fn timeout_problem(&self) -> Option<QueryProblem> {
        let timeout = self.check_timeouts().err()?;
        Some(QueryProblem::new(&timeout, &self.servers.source.client(self.name)?))
    }

    /// The problem of a read. `None` if the error isn't a failed query.
    pub(super) fn problem_of(&self, error: &MetricError) -> Option<QueryProblem> {
        Some(QueryProblem::new(QueryFailure::of(error)?, &self.servers.source.client(self.name)?))
    }

    /// Fails with the last timeout if there were too many.
    fn check_timeouts(&self) -> Result<(), QueryFailure> {
        let timeouts = self.servers.timeouts.lock();
        let row = timeouts.get(self.name).filter(|row| row.len() >= MAX_TIMEOUTS);
        row.and_then(|row| row.last()).map_or(Ok(()), |last| Err(last.clone()))
    }

    /// Records the result of a query.
    fn record(&self, failure: Option<&QueryFailure>) {
        let mut timeouts = self.servers.timeouts.lock();
        match failure {
            Some(last @ (QueryFailure::Timeout { .. } | QueryFailure::SlowResponse { .. })) => {
                timeouts.entry(self.name.to_owned()).or_default().push(last.clone());
            }
            _ => {
                timeouts.remove(self.name);
            }
        }
    }
}
