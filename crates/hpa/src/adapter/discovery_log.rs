//! Logs the result of the first discovery: whether the series of custom and external rules could be
//! read. Resource rules have no discovery.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use hpa_prometheus::source::{PrometheusSource, RuleStatus};
use tracing::{info, warn};

const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// Waits for the first discovery, and logs one line per server.
pub(super) async fn log_first(source: Arc<PrometheusSource>) {
    while !source.has_tried_discovery() {
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
    let rules = source.rule_status();
    let mut by_server: BTreeMap<(&str, &str), Vec<&RuleStatus>> = BTreeMap::new();
    // The status of a resource rule names no server.
    for rule in rules.iter().filter(|rule| !rule.server.is_empty()) {
        by_server.entry((&rule.server, &rule.server_url)).or_default().push(rule);
    }
    for ((server, url), rules) in by_server {
        log_server(server, url, &rules);
    }
}

fn log_server(server: &str, url: &str, rules: &[&RuleStatus]) {
    let succeeded = rules.iter().filter(|rule| rule.last_success.is_some()).count();
    let failed = rules.iter().filter(|rule| rule.error.is_some()).count();
    let series: usize = rules.iter().map(|rule| rule.series).sum();
    let metrics: usize = rules.iter().map(|rule| rule.metrics).sum();
    if succeeded > 0 {
        info!(server, url, rules = succeeded, failed, series, metrics, "Prometheus is reachable");
    } else {
        let error = rules.iter().find_map(|rule| rule.error.as_deref());
        warn!(server, url, error, "no rule of this Prometheus could be read");
    }
}

#[cfg(test)]
mod tests {
    use hpa_metrics::{FixedMapper, test_doubles::FixedObjects};
    use hpa_prometheus::{
        rules::Config,
        source::{PrometheusSettings, Servers},
    };

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn log_does_not_wait_for_a_discovery_without_rules() {
        let source = PrometheusSource::new(
            Config::default(),
            Servers::new(None, Arc::new(())),
            PrometheusSettings::default(),
            Arc::new(FixedMapper::default()),
            Arc::new(FixedObjects::default()),
        );
        let log = log_first(Arc::new(source.unwrap()));
        tokio::time::timeout(Duration::from_secs(60), log).await.expect("nothing to wait for");
    }
}
