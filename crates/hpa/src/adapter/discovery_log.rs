//! Logs a server when series of its custom or external rules were read for the first time, and when
//! the number of metrics changes. Resource rules have no discovery. The source and its clients log
//! failures.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use hpa_prometheus::source::{PrometheusSource, RuleStatus};
use tracing::{info, warn};

/// The interval of the checks, and so the minimum between two lines about a server.
const CHECK_INTERVAL: Duration = Duration::from_mins(1);

/// Waits for the first discovery. Then logs a line if the state of a server changes. Never returns.
pub(super) async fn log_discoveries(source: Arc<PrometheusSource>) {
    source.wait_for_first_discovery().await;
    let mut logged = LoggedServers::default();
    loop {
        for (server, state, previous) in logged.update(&source.rule_status()) {
            state.log(&server, previous);
        }
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
}

/// The name and the URL of a server.
type Server = (String, String);

/// The rules of a server, added up.
#[derive(Debug, Default)]
struct ServerState {
    /// The number of rules whose series were read at least once.
    succeeded_count: usize,
    /// The number of rules that are invalid or whose last read failed.
    failed_count: usize,
    /// Whether the last read of a rule succeeded. If none did, the counts are those of the past.
    is_read: bool,
    series_count: usize,
    metric_count: usize,
}

impl ServerState {
    fn add(&mut self, rule: &RuleStatus) {
        self.succeeded_count += usize::from(rule.last_success.is_some());
        self.failed_count += usize::from(rule.error.is_some());
        self.is_read |= rule.last_success.is_some() && rule.error.is_none();
        self.series_count += rule.series_count;
        self.metric_count += rule.metric_count;
    }

    /// Logs the server. `previous` is the number of metrics in the last line about it.
    fn log(&self, (server, url): &Server, previous: Option<usize>) {
        let (rules, failed) = (self.succeeded_count, self.failed_count);
        let (series, metrics) = (self.series_count, self.metric_count);
        match previous {
            None => {
                info!(server, url, rules, failed, series, metrics, "Prometheus is reachable");
            }
            Some(previous) if series == 0 && failed == 0 => warn!(
                server,
                url,
                rules,
                failed,
                previous_metrics = previous,
                "Prometheus answers, but has no series for any rule"
            ),
            Some(previous) => info!(
                server,
                url,
                rules,
                failed,
                series,
                metrics,
                previous_metrics = previous,
                "the number of metrics has changed"
            ),
        }
    }
}

/// The last logged number of metrics of each server.
#[derive(Default)]
struct LoggedServers(BTreeMap<Server, usize>);

impl LoggedServers {
    /// Returns the servers to log: those whose number of metrics has changed, with the previous
    /// number, and those whose rules were read for the first time, with `None`. A change of the
    /// number of series alone is not logged, because pods come and go.
    fn update(&mut self, rules: &[RuleStatus]) -> Vec<(Server, ServerState, Option<usize>)> {
        let mut states = BTreeMap::<Server, ServerState>::new();
        // The status of a resource rule names no server.
        for rule in rules.iter().filter(|rule| !rule.server.is_empty()) {
            let server = (rule.server.clone(), rule.server_url.clone());
            states.entry(server).or_default().add(rule);
        }
        self.0.retain(|server, _| states.contains_key(server));
        let mut changes = Vec::new();
        for (server, state) in states.into_iter().filter(|(_, state)| state.is_read) {
            let previous = self.0.insert(server.clone(), state.metric_count);
            if previous != Some(state.metric_count) {
                changes.push((server, state, previous));
            }
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn rule(server: &str, last_success: Option<Timestamp>, series_count: usize) -> RuleStatus {
        let error = last_success.is_none().then(|| "refused".to_owned());
        RuleStatus {
            server: server.to_owned(),
            last_success,
            series_count,
            metric_count: series_count.min(2),
            error,
            ..RuleStatus::default()
        }
    }

    #[test]
    fn each_change_of_the_number_of_metrics_is_logged_once() {
        let mut logged = LoggedServers::default();
        let mut changes = |rules: &[RuleStatus]| -> Vec<Option<usize>> {
            logged.update(rules).into_iter().map(|(.., previous)| previous).collect()
        };
        let read = |series| [rule("prometheus", Some(Timestamp::UNIX_EPOCH), series)];
        assert_eq!(changes(&read(0)), [None]);
        assert!(changes(&read(0)).is_empty());
        assert_eq!(changes(&read(20)), [Some(0)]);
        assert!(changes(&read(21)).is_empty(), "only the series have changed");
        assert_eq!(changes(&read(1)), [Some(2)]);
    }

    #[test]
    fn server_is_logged_when_its_first_rule_is_read() {
        let mut logged = LoggedServers::default();
        let unread = rule("prometheus", None, 0);
        let found = logged.update(&[unread.clone(), rule("", None, 0)]);
        assert!(found.is_empty(), "the source logs the error: {found:?}");
        let read = rule("prometheus", Some(Timestamp::UNIX_EPOCH), 3);
        let failing = RuleStatus { error: Some("503".to_owned()), ..read.clone() };
        assert!(logged.update(&[failing]).is_empty(), "all rules fail now");
        let found = logged.update(&[unread, read]);
        let [(_, state, None)] = found.as_slice() else { panic!("{found:?}") };
        let counts = (state.succeeded_count, state.failed_count, state.series_count);
        assert_eq!(counts, (1, 1, 3));
    }
}
