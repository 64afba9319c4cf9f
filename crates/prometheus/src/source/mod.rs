//! Reads metrics from Prometheus, by the rules of prometheus-adapter.

mod absence;
mod discovery;
mod inspect;
mod name_lists;
mod permissions;
mod read;
mod reload;
mod servers;
mod sharing;
mod state;
#[cfg(test)]
mod tests;
mod usage;

use std::{sync::Arc, time::Duration};

use crate::rules::{Compat, Config, config::Finding, ruleset::InvalidRule, value::timestamp};
use async_trait::async_trait;
use hpa_calc::{explain::list_first, report::error_texts::not_discovered};
use jiff::Timestamp;
use parking_lot::RwLock;
use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};

pub use inspect::{InspectedMetric, RuleInspection};
pub use permissions::ServerPermissions;
pub use reload::{ReloadError, RulesFile};
pub use servers::{Servers, server_mistakes};
pub use sharing::{QueryCounts, SharingSettings};
pub use state::RuleStatus;

use self::{
    sharing::SharedQueryCache,
    state::{DiscoveryState, NOT_DISCOVERED_YET, Rules},
};
use hpa_metrics::{
    ApiGroups, Catalog, CustomQuery, ExternalQuery, MetricError, MetricSource, NotFound,
    ObjectLister, Query, ResourceMapper, SingleFlight, SyncState, Values,
    mapper::MapperError,
    resource::ApiResources,
    source::{ListedCustomMetric, ListedExternalMetric},
};

/// The delay before a failed discovery is first repeated. It doubles up to the relist interval.
const MIN_RETRY_DELAY: Duration = Duration::from_secs(5);
/// The maximum delay while no server can be read. It limits how long metrics are missing after an
/// outage.
const MAX_OUTAGE_RETRY_DELAY: Duration = Duration::from_secs(30);

/// Settings of a [`PrometheusSource`].
#[derive(Clone, Copy, Debug)]
pub struct PrometheusSettings {
    /// Whether discovery, queries and values match prometheus-adapter.
    pub compat: Compat,
    /// The interval between discoveries.
    pub relist_interval: Duration,
    /// The maximum age of a series' last sample. Without compatibility, 2 minutes are added,
    /// because clocks differ.
    pub max_age: Duration,
    /// The interval between checks of the rules file.
    pub reload_interval: Duration,
    /// The maximum length of a response with a rule's series.
    pub max_series_bytes: u64,
    /// The maximum number of different pairs of name and label set among a rule's series. It limits
    /// memory.
    pub max_series_names: usize,
    /// Settings for shared queries. No queries are shared if this is `None`, or with compatibility.
    pub sharing: Option<SharingSettings>,
}

impl Default for PrometheusSettings {
    /// Reads the series of the last 10 minutes every 10 minutes, as prometheus-adapter does. The
    /// limits allow about 2 million series per rule, with 100,000 pairs of name and label set.
    fn default() -> Self {
        let ten_minutes = Duration::from_secs(600);
        Self {
            compat: Compat::Off,
            relist_interval: ten_minutes,
            max_age: ten_minutes,
            reload_interval: Duration::from_secs(10),
            max_series_bytes: 512 << 20,
            max_series_names: 100_000,
            sharing: None,
        }
    }
}

/// The maximum number of failures in the message of a [`RelistError`].
const MAX_LISTED: usize = 3;

/// A failed discovery.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RelistError {
    /// The resources of the API server are unknown.
    #[error(transparent)]
    Mapper(#[from] MapperError),
    /// A rule is invalid, and compatibility requires that all rules are valid.
    #[error("{0}")]
    InvalidRule(#[source] Box<InvalidRule>),
    /// Some rules are invalid, or their series can't be read. The messages name the rules.
    #[error("unable to discover the series of {}", list_first(.0, MAX_LISTED, "; "))]
    Rules(Vec<String>),
    /// No rule's series could be read, and no valid rule is at fault: the servers didn't respond,
    /// refused the client (401 or 403), or responded with an error that isn't about a query.
    #[error("unable to discover the series of {}", list_first(.failures, MAX_LISTED, "; "))]
    ServersFailed {
        /// The invalid and the unread rules, as in [`RelistError::Rules`].
        failures: Vec<String>,
        /// The different errors of the reads, with the servers and without the names of the rules.
        causes: Vec<String>,
        /// Whether the clients have logged the outages of all these servers.
        is_logged: bool,
    },
}

/// Reads metrics from Prometheus. Keeps only the names and label names of series in memory, and the
/// results of shared queries, which are used for [`SharingSettings::max_age`].
pub struct PrometheusSource {
    settings: PrometheusSettings,
    mapper: Arc<dyn ResourceMapper>,
    /// Loads of the resources, which concurrent compilations share.
    resource_loads: SingleFlight<(), ApiResources, MapperError>,
    objects: Arc<dyn ObjectLister>,
    /// The rules of the next discovery. `state` has the rules of the last one.
    rules: watch::Sender<Arc<Rules>>,
    state: RwLock<Arc<DiscoveryState>>,
    /// The error of the rules file, if it was refused. The previous rules are then in use.
    rules_file_error: RwLock<Option<String>>,
    first_discovery: SyncState,
    sharing: SharedQueryCache,
}

impl PrometheusSource {
    /// Creates a source. It has no metrics until the first [`PrometheusSource::relist`].
    pub fn new(
        config: Config,
        servers: Servers,
        settings: PrometheusSettings,
        mapper: Arc<dyn ResourceMapper>,
        objects: Arc<dyn ObjectLister>,
    ) -> Result<Self, Finding> {
        let servers = servers.with_config(&config, settings.compat)?;
        let rules = Arc::new(Rules { config: Arc::new(config), servers: Arc::new(servers) });
        Ok(Self {
            settings,
            mapper,
            resource_loads: SingleFlight::new(Duration::ZERO),
            objects,
            state: RwLock::new(Arc::new(DiscoveryState::empty(&rules))),
            rules: watch::Sender::new(rules),
            rules_file_error: RwLock::default(),
            first_discovery: SyncState::default(),
            sharing: SharedQueryCache::new(settings.sharing, settings.compat),
        })
    }

    /// Reads the resources of the API server and the series of all rules. A rule whose series can't
    /// be read keeps the previous series. With compatibility, all rules of the same list (`rules`
    /// or `externalRules`) then keep theirs.
    pub async fn relist(&self) -> Result<(), RelistError> {
        let result = self.discover().await;
        match &result {
            Ok(()) => self.first_discovery.set_synced(),
            Err(error) => self.first_discovery.set_failed(error),
        }
        result
    }

    /// Reads the resources of the API server, and compiles the rules, unless they are compiled.
    /// This is enough to read the usage of pods and nodes.
    pub async fn compile(&self) -> Result<(), RelistError> {
        if !self.state().is_compiled() {
            let rules = self.rules.borrow().clone();
            self.compile_rules(&rules).await?;
        }
        Ok(())
    }

    /// Compiles the rules. If the state has no compiled rules yet, it gets these. If the resources
    /// of the API server can't be read, it gets that error instead, for the errors of queries.
    async fn compile_rules(&self, rules: &Arc<Rules>) -> Result<Arc<DiscoveryState>, RelistError> {
        let mapper = self.mapper.clone();
        let load = |()| async move { mapper.load().await };
        let resources = self.resource_loads.get((), load).await.map_err(RelistError::from);
        let compiled = resources
            .and_then(|resources| discovery::compile(rules, &self.settings, resources))
            .map(Arc::new);
        let first = match &compiled {
            Ok(state) => state.clone(),
            Err(RelistError::Mapper(error)) => {
                Arc::new(DiscoveryState::without_resources(rules, error))
            }
            Err(_) => return compiled,
        };
        let mut state = self.state.write();
        if !state.is_compiled() {
            *state = first;
        }
        compiled
    }

    async fn discover(&self) -> Result<(), RelistError> {
        let rules = self.rules.borrow().clone();
        let previous = self.state();
        let compiled = self.compile_rules(&rules).await?;
        let state = discovery::discover(&compiled, &previous, &self.settings).await;
        let result = state.outcome();
        if !Arc::ptr_eq(&previous.rules.servers, &rules.servers) {
            self.sharing.clear();
        }
        // If the rules were reloaded meanwhile, the next discovery uses them.
        *self.state.write() = Arc::new(state);
        result
    }

    /// Discovers series at the relist interval, sooner after a failure, and when the rules file has
    /// a valid change. Never returns.
    pub async fn run(&self, file: Option<RulesFile>) {
        let interval = self.settings.relist_interval;
        let mut retry_delay = MIN_RETRY_DELAY;
        let mut last_error = None;
        let mut linted = None;
        let mut file = reload::WatchedFile::new(file, self.settings.reload_interval);
        loop {
            let started = Instant::now();
            let error = self.relist().await.err();
            let (is_logged, max_retry_delay) = match error {
                Some(RelistError::ServersFailed { is_logged, .. }) => {
                    (is_logged, MAX_OUTAGE_RETRY_DELAY.min(interval))
                }
                _ => (false, interval),
            };
            let error = error.map(|error| hpa_metrics::describe(&error));
            let delay = if error.is_none() { interval } else { retry_delay.min(max_retry_delay) };
            retry_delay = if error.is_none() { MIN_RETRY_DELAY } else { delay * 2 };
            if !is_logged {
                self.log_change(last_error.as_deref(), error.as_deref());
                last_error = error;
            }
            self.log_mistakes(&mut linted);
            let reloaded = async { while self.reload_change(&mut file).await.is_err() {} };
            // Waits until the end of the delay, or until a valid change of the file.
            _ = timeout_at(started + delay, reloaded).await;
        }
    }

    /// Logs the mistakes in the compiled rules, unless they are the rules in `linted`.
    fn log_mistakes(&self, linted: &mut Option<Arc<Config>>) {
        let state = self.state();
        let config = &state.rules.config;
        if !state.is_compiled() || linted.as_ref().is_some_and(|last| Arc::ptr_eq(last, config)) {
            return;
        }
        *linted = Some(config.clone());
        for mistake in state.mistakes() {
            tracing::warn!(mistake, "the rules file has a mistake");
        }
    }

    /// Raises the maximum age of series to at least `age`, for reads of the past.
    pub fn extend_max_age(&mut self, age: Duration) {
        self.settings.max_age = self.settings.max_age.max(age);
    }

    /// Reads the certificate and credential files of all servers, to report the first error at the
    /// start.
    pub async fn check_files(&self) -> Result<(), Arc<crate::client::ConnectionError>> {
        let servers = self.rules.borrow().servers.clone();
        for client in servers.all() {
            client.check_files().await?;
        }
        Ok(())
    }

    /// Waits until a discovery has succeeded or failed, unless one has already. Another task must
    /// call [`Self::run`] or [`Self::relist`].
    pub async fn wait_for_first_discovery(&self) {
        self.first_discovery.wait_for_first_outcome().await;
    }

    /// Waits until the rules have metrics for APIs that satisfy a condition, and returns the APIs.
    /// A reload may add some.
    pub async fn wait_for_groups(&self, mut is_met: impl FnMut(ApiGroups) -> bool) -> ApiGroups {
        let mut groups = ApiGroups::default();
        let with_groups = |rules: &Arc<Rules>| {
            groups = rules.groups();
            is_met(groups)
        };
        // This fails only if the sender is dropped, and `self` owns it.
        _ = self.rules.subscribe().wait_for(with_groups).await;
        groups
    }

    /// Whether the rules were compiled and a discovery of their series was tried. Always true for a
    /// file without rules.
    pub fn has_tried_discovery(&self) -> bool {
        self.state().has_tried_discovery()
    }

    /// The servers whose series a discovery reads, each as scheme, host and port.
    pub fn listed_servers(&self) -> Vec<String> {
        let rules = self.rules.borrow().clone();
        let mut origins = Vec::new();
        for rule in rules.config.rules.iter().chain(&rules.config.external_rules) {
            let client = rules.servers.get(&rule.server);
            if let Some(origin) = client.map(|client| client.settings().origin())
                && !origins.contains(&origin)
            {
                origins.push(origin);
            }
        }
        origins
    }

    /// The state of each rule: of `rules`, then of `externalRules`, then of `resourceRules`.
    pub fn rule_status(&self) -> Vec<RuleStatus> {
        self.state().rule_status()
    }

    /// The numbers of queries for custom metrics, by rule.
    pub fn query_counts(&self) -> Vec<QueryCounts> {
        self.sharing.counters.all()
    }

    /// Whether the rules file is invalid or unreadable. The previous rules are then in use.
    pub fn has_refused_file(&self) -> bool {
        self.rules_file_error.read().is_some()
    }

    /// Problems that an operator should fix: an invalid file, and rules that are invalid or can't
    /// be read.
    pub fn problems(&self) -> Vec<String> {
        let file = self.rules_file_error.read().clone();
        let rules = self
            .state()
            .rule_status()
            .into_iter()
            .filter_map(|rule| rule.error.map(|error| format!("{}: {error}", rule.rule)));
        file.into_iter().chain(rules).collect()
    }

    pub fn settings(&self) -> &PrometheusSettings {
        &self.settings
    }

    fn state(&self) -> Arc<DiscoveryState> {
        self.state.read().clone()
    }

    /// The reasons why metrics are not discovered yet: an unusable rules file, then the `problems`
    /// of rules. If there are none, the reason is that no discovery has succeeded.
    fn undiscovered_reasons(&self, mut problems: Vec<String>) -> Vec<String> {
        if self.has_refused_file() {
            problems.insert(0, "the rules file is invalid or unreadable".to_owned());
        }
        if problems.is_empty() {
            problems.push(NOT_DISCOVERED_YET.to_owned());
        }
        problems
    }

    /// The reason why it is unknown whether a rule has the metric of a query. `None` if a rule has
    /// it, or if the series of all rules that may have it were read. Also `None` with
    /// compatibility, because prometheus-adapter doesn't distinguish unread rules.
    fn unread(&self, state: &DiscoveryState, query: &Query) -> Option<NotFound> {
        let (Query::Custom(CustomQuery { metric, .. })
        | Query::External(ExternalQuery { metric, .. })) = query
        else {
            return None;
        };
        if self.settings.compat == Compat::Reference || self.has(query) {
            return None;
        }
        let problems = self.undiscovered_reasons(state.unread_problems(query)?).join("; ");
        Some(NotFound::Unread { metric: metric.clone(), problems })
    }

    /// The time of a custom metric's value: the time of the sample or, with compatibility, the
    /// current time, as in prometheus-adapter.
    fn custom_timestamp(&self, sample_ms: i64) -> Timestamp {
        match self.settings.compat {
            Compat::Reference => Timestamp::now(),
            Compat::Off => timestamp(sample_ms),
        }
    }

    /// Logs when discovery starts to fail, fails with another error, or recovers.
    fn log_change(&self, previous: Option<&str>, error: Option<&str>) {
        match (previous, error) {
            (previous, Some(error)) if previous != Some(error) => {
                // Printed with `%`: selectors in it are quoted, and the log would escape the
                // quotes.
                tracing::warn!(%error, "unable to discover all metrics of Prometheus, retrying");
            }
            (Some(_), None) => {
                let rules = self.rule_status();
                let metrics: usize = rules.iter().map(|rule| rule.metric_count).sum();
                tracing::info!(metrics, "discovered all metrics of Prometheus again");
            }
            (_, Some(_)) | (None, None) => {}
        }
    }
}

impl Catalog for PrometheusSource {
    fn groups(&self) -> ApiGroups {
        self.rules.borrow().groups()
    }

    fn readiness(&self) -> Result<(), Vec<String>> {
        let state = self.state();
        let mut reasons = if state.is_discovered() {
            Vec::new()
        } else {
            self.undiscovered_reasons(state.failure_reasons().collect())
        };
        // Custom metrics don't need the caches: without them, objects are listed for each query.
        if self.groups().resource {
            reasons.extend(self.objects.unsynced_caches());
        }
        if reasons.is_empty() { Ok(()) } else { Err(reasons) }
    }

    fn undiscovered(&self, query: &Query) -> Option<String> {
        let state = self.state();
        if state.is_discovered() || !state.may_discover(query) {
            return None;
        }
        let problems = self.undiscovered_reasons(state.discovery_problems());
        Some(not_discovered("rules", &problems))
    }

    fn has(&self, query: &Query) -> bool {
        match query {
            Query::PodUsage { .. } | Query::NodeUsage { .. } => self.groups().resource,
            Query::Custom(query) => {
                self.state().has_custom(&query.resource, query.is_namespaced(), &query.metric)
            }
            Query::External(query) => {
                self.state().external_registry.metric_rule(&query.metric).is_some()
            }
        }
    }

    fn absence(&self, query: &Query) -> Option<String> {
        self.state().absence(query)
    }

    fn custom_metrics(&self) -> Vec<ListedCustomMetric> {
        self.state().custom_registry.metrics().collect()
    }

    fn external_metrics(&self) -> Vec<ListedExternalMetric> {
        self.state().external_registry.metrics(self.settings.compat).collect()
    }
}

#[async_trait]
impl MetricSource for PrometheusSource {
    fn catalog(&self) -> &dyn Catalog {
        self
    }

    async fn read(&self, query: &Query) -> Result<Values, MetricError> {
        let state = self.state();
        let values = match query {
            Query::PodUsage { namespace, pods, fields } => {
                let pods = self.objects.pods_of(namespace, pods, fields).await?;
                Ok(Values::PodMetrics(self.read_pod_usage(&state, &pods).await))
            }
            Query::NodeUsage { nodes, fields } => {
                let nodes = self.objects.nodes_of(nodes, fields).await?;
                Ok(Values::NodeMetrics(self.read_node_usage(&state, &nodes).await))
            }
            Query::Custom(query) => {
                self.read_custom_metric(&state, query).await.map(Values::Custom)
            }
            Query::External(query) => {
                self.read_external_metric(&state, query).await.map(Values::External)
            }
        };
        values.map_err(|error| match error {
            MetricError::UnknownMetric(reason) => {
                MetricError::UnknownMetric(self.unread(&state, query).unwrap_or(reason))
            }
            error => error,
        })
    }
}
