//! Logs the result of the first discovery, which shows whether Prometheus is reachable.

use std::{sync::Arc, time::Duration};

use hpa_prometheus::source::{PrometheusProvider, RuleStatus};
use tracing::{info, warn};

const CHECK: Duration = Duration::from_millis(200);

/// Waits for the first discovery. `url` is the default server's, for display.
pub(super) async fn log_first(provider: Arc<PrometheusProvider>, url: String) {
    let rules = loop {
        let rules = provider.rule_status();
        if !rules.is_empty() {
            break rules;
        }
        tokio::time::sleep(CHECK).await;
    };
    let mut servers: Vec<&str> = rules.iter().map(|rule| &*rule.server).collect();
    servers.sort_unstable();
    servers.dedup();
    for server in servers.into_iter().filter(|server| !server.is_empty()) {
        let url = if server == "prometheus" { &*url } else { "" };
        log_server(server, url, rules.iter().filter(|rule| rule.server == server));
    }
}

fn log_server<'a>(server: &str, url: &str, rules: impl Iterator<Item = &'a RuleStatus>) {
    let (mut read, mut failed, mut series, mut metrics) = (0, 0, 0, 0);
    let mut error = None;
    for rule in rules {
        read += usize::from(rule.last_success.is_some());
        failed += usize::from(rule.error.is_some());
        series += rule.series;
        metrics += rule.metrics;
        error = error.or(rule.error.as_deref());
    }
    if read > 0 {
        info!(server, url, rules = read, failed, series, metrics, "Prometheus is reachable");
    } else {
        warn!(server, url, error, "no rule of this Prometheus could be read");
    }
}
