//! Metrics from the sources of the controller, and from the metrics APIs.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use hpa_calc::{Inputs, Readings};
use hpa_metrics::describe;
use hpa_prometheus::source::PrometheusSource;
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{explain::MetricAdvisor, metric_reader::MetricReader};

/// After this time, metrics are read even if no series are listed yet.
const FIRST_SERIES_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest delay between attempts to list the series after a failure.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(15);

/// The outcome of the last relist, with the reason if series are missing. `None` before the first
/// attempt.
type RelistOutcome = Option<Result<(), String>>;

/// Reads metrics, and keeps the series of the rules up to date.
pub(super) struct SourceMetrics {
    reader: MetricReader,
    advisor: MetricAdvisor,
    relisted: watch::Receiver<RelistOutcome>,
    /// The task that lists the series. Dropping the set ends it.
    _tasks: JoinSet<()>,
}

impl SourceMetrics {
    pub(super) fn start(reader: MetricReader, advisor: MetricAdvisor) -> Self {
        let rules = reader.rules.clone();
        let (sender, relisted) = watch::channel(rules.is_none().then_some(Ok(())));
        let relists = rules.map(|rules| relist_periodically(rules, sender));
        Self { reader, advisor, relisted, _tasks: relists.into_iter().collect() }
    }
}

async fn relist_periodically(rules: Arc<PrometheusSource>, relisted: watch::Sender<RelistOutcome>) {
    let interval = rules.settings().relist_interval;
    loop {
        let outcome = rules.relist().await.map_err(|error| describe(&error));
        let delay = if outcome.is_ok() { interval } else { interval.min(MAX_RETRY_DELAY) };
        relisted.send_replace(Some(outcome));
        sleep(delay).await;
    }
}

#[async_trait]
impl hpa_dashboard::DecisionMetrics for SourceMetrics {
    async fn read(&self, inputs: &Inputs) -> (Readings, Vec<String>) {
        if self.reader.needs_series(inputs) {
            let mut relisted = self.relisted.clone();
            // After the timeout, the readings report that the metrics are not discovered yet.
            _ = timeout(FIRST_SERIES_TIMEOUT, relisted.wait_for(Option::is_some)).await;
        }
        let readings = self.reader.read(inputs).await;
        let outcome = self.relisted.borrow().clone();
        (readings, outcome.and_then(Result::err).into_iter().collect())
    }

    async fn advise(&self, inputs: &Inputs) -> BTreeMap<usize, String> {
        self.advisor.advise(self.reader.rules.as_deref(), inputs).await
    }

    fn fill_placeholders(&self, advice: &str) -> String {
        self.advisor.fill_placeholders(advice)
    }
}
