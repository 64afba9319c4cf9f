//! Logs whether the series of custom and external rules could be read, and the number of their
//! metrics: after the first discovery, and whenever either changes. Resource rules have no
//! discovery.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use hpa_prometheus::source::{PrometheusSource, RuleStatus};
use tracing::{info, warn};

const FIRST_CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// The interval of the later checks, and so the minimum between two lines about a server.
const CHECK_INTERVAL: Duration = Duration::from_mins(1);

/// Waits for the first discovery, and logs a line per server. Then logs a line if the state of a
/// server changes. Never returns.
pub(super) async fn log_discoveries(source: Arc<PrometheusSource>) {
    wait_for_first_attempt(&source).await;
    let mut logged = LoggedServers::default();
    loop {
        for (server, change) in logged.update(&source.rule_status()) {
            server.log(change);
        }
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
}

async fn wait_for_first_attempt(source: &PrometheusSource) {
    while !source.has_tried_discovery() {
        tokio::time::sleep(FIRST_CHECK_INTERVAL).await;
    }
}

/// The rules of a server, added up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ServerState {
    name: String,
    url: String,
    /// The number of rules whose series were read at least once.
    succeeded_count: usize,
    /// The number of rules that are invalid or whose last read failed.
    failed_count: usize,
    series_count: usize,
    metric_count: usize,
    error: Option<String>,
}

/// A change of a server's state that is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// The server is new, and none of its rules could be read.
    Unread,
    /// The first rules were read.
    Reachable,
    /// The number of metrics differs from that of the last log line. A change of the number of
    /// series alone is not logged, because pods come and go.
    Metrics { previous: usize },
}

impl ServerState {
    fn add(&mut self, rule: &RuleStatus) {
        self.succeeded_count += usize::from(rule.last_success.is_some());
        self.failed_count += usize::from(rule.error.is_some());
        self.series_count += rule.series_count;
        self.metric_count += rule.metric_count;
        if self.error.is_none() {
            self.error.clone_from(&rule.error);
        }
    }

    fn change_since(&self, logged: Option<&Self>) -> Option<Change> {
        match logged {
            None if self.succeeded_count == 0 => Some(Change::Unread),
            Some(_) if self.succeeded_count == 0 => None,
            Some(Self { succeeded_count: 1.., metric_count: previous, .. }) => {
                let previous = *previous;
                (previous != self.metric_count).then_some(Change::Metrics { previous })
            }
            _ => Some(Change::Reachable),
        }
    }

    fn log(&self, change: Change) {
        let Self { name: server, url, error, .. } = self;
        let (rules, failed) = (self.succeeded_count, self.failed_count);
        let (series, metrics) = (self.series_count, self.metric_count);
        match change {
            Change::Unread => {
                warn!(server, url, error, "no rule of this Prometheus could be read");
            }
            Change::Reachable => {
                info!(server, url, rules, failed, series, metrics, "Prometheus is reachable");
            }
            Change::Metrics { previous } => info!(
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

/// The last logged state of each server, by name and URL.
#[derive(Default)]
struct LoggedServers(BTreeMap<(String, String), ServerState>);

impl LoggedServers {
    /// Returns the servers whose state has changed since they were last returned.
    fn update(&mut self, rules: &[RuleStatus]) -> Vec<(ServerState, Change)> {
        let mut states = BTreeMap::new();
        // The status of a resource rule names no server.
        for rule in rules.iter().filter(|rule| !rule.server.is_empty()) {
            let (name, url) = (rule.server.clone(), rule.server_url.clone());
            let entry = states.entry((name.clone(), url.clone()));
            entry.or_insert(ServerState { name, url, ..ServerState::default() }).add(rule);
        }
        self.0.retain(|server, _| states.contains_key(server));
        let mut changes = Vec::new();
        for (server, state) in states {
            if let Some(change) = state.change_since(self.0.get(&server)) {
                self.0.insert(server, state.clone());
                changes.push((state, change));
            }
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use hpa_metrics::{FixedMapper, test_doubles::FixedObjects};
    use hpa_prometheus::{
        rules::Config,
        source::{PrometheusSettings, Servers},
    };
    use jiff::Timestamp;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn log_does_not_wait_for_a_discovery_without_rules() {
        let source = PrometheusSource::new(
            Config::default(),
            Servers::new(None, Arc::new(())),
            PrometheusSettings::default(),
            Arc::new(FixedMapper::default()),
            Arc::new(FixedObjects::default()),
        )
        .unwrap();
        let first = wait_for_first_attempt(&source);
        tokio::time::timeout(Duration::from_secs(60), first).await.expect("nothing to wait for");
    }

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
        let mut changes = |rules: &[RuleStatus]| -> Vec<Change> {
            logged.update(rules).into_iter().map(|(_, change)| change).collect()
        };
        let read = |series| [rule("prometheus", Some(Timestamp::UNIX_EPOCH), series)];
        assert_eq!(changes(&read(0)), [Change::Reachable]);
        assert!(changes(&read(0)).is_empty());
        assert_eq!(changes(&read(20)), [Change::Metrics { previous: 0 }]);
        assert!(changes(&read(21)).is_empty(), "only the series have changed");
        assert_eq!(changes(&read(1)), [Change::Metrics { previous: 2 }]);
    }

    #[test]
    fn server_is_logged_again_when_its_first_rule_is_read() {
        let mut logged = LoggedServers::default();
        let unread = rule("prometheus", None, 0);
        let found = logged.update(&[unread.clone(), rule("", None, 0)]);
        let [(server, Change::Unread)] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((server.failed_count, server.error.as_deref()), (1, Some("refused")));
        assert!(logged.update(std::slice::from_ref(&unread)).is_empty());
        let read = rule("prometheus", Some(Timestamp::UNIX_EPOCH), 3);
        let found = logged.update(&[unread, read]);
        let [(server, Change::Reachable)] = found.as_slice() else { panic!("{found:?}") };
        let counts = (server.succeeded_count, server.failed_count, server.series_count);
        assert_eq!(counts, (1, 1, 3));
    }
}
