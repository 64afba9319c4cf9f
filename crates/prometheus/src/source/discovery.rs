//! Discovers the series of each rule.

use std::{collections::BTreeMap, sync::Arc};

use crate::client::{Client, QueryFailure};
use crate::rules::{
    Compat, CustomRegistry, ExternalRegistry, Rule, RuleSeries, RuleSet, config::DiscoveryRule,
    registry::DiscoveredRule, series::RuleSeriesBuilder,
};
use futures::{StreamExt, future::BoxFuture, stream};
use hpa_metrics::resource::ApiResources;
use jiff::{SignedDuration, Timestamp};

use super::{
    PrometheusSettings, RelistError,
    state::{
        CompiledRule, DiscoveryState, INVALID_RULE, RuleEntry, RuleKey, RuleList, RuleStatus,
        Rules, ServerFailure,
    },
};
use hpa_metrics::describe;

/// The maximum number of concurrent reads, because each needs memory for the names of its series.
/// `rules` and `externalRules` are read at the same time, each with this limit.
const CONCURRENCY: usize = 8;

/// The tolerated lag of Prometheus' clock. Within it, the newest samples don't look too old. Not
/// added with compatibility.
const CLOCK_TOLERANCE: SignedDuration = SignedDuration::from_mins(2);

/// Compiles the rules with the resources of the API server. The state has no series. With
/// compatibility, fails if a rule is invalid.
pub(super) fn compile(
    rules: &Arc<Rules>,
    settings: &PrometheusSettings,
    resources: Arc<ApiResources>,
) -> Result<DiscoveryState, RelistError> {
    let compiled = RuleSet::compile(&rules.config, &resources);
    if settings.compat == Compat::Reference
        && let Some(error) = compiled.first_error()
    {
        return Err(RelistError::InvalidRule(Box::new(error.clone())));
    }
    Ok(DiscoveryState { compiled, resources, ..DiscoveryState::empty(rules) })
}

/// Reads the series of the valid rules. `without_series` is the state of the compiled rules.
pub(super) async fn discover(
    without_series: &DiscoveryState,
    previous: &DiscoveryState,
    settings: &PrometheusSettings,
) -> DiscoveryState {
    let DiscoveryState { rules, compiled, resources, .. } = without_series;
    let config = &rules.config;
    let pass = Pass { rules, resources, settings };
    let custom = pass.read_list("rules", &config.rules, &compiled.custom, &previous.custom);
    let external = pass.read_list(
        "externalRules",
        &config.external_rules,
        &compiled.external,
        &previous.external,
    );
    let (custom, external) = tokio::join!(custom, external);
    DiscoveryState {
        rules: rules.clone(),
        custom_registry: CustomRegistry::new(custom.discovered_rules()),
        external_registry: ExternalRegistry::new(external.discovered_rules()),
        compiled: compiled.clone(),
        without_resources: None,
        resources: resources.clone(),
        custom,
        external,
    }
}

/// One pass of discovery.
struct Pass<'a> {
    rules: &'a Rules,
    resources: &'a Arc<ApiResources>,
    settings: &'a PrometheusSettings,
}

/// The new series of a rule.
type ReadResult = Result<RuleSeries, ReadFailure>;

/// The reason why a rule has no new series.
#[derive(Clone, Debug, thiserror::Error)]
enum ReadFailure {
    #[error(transparent)]
    Query(#[from] QueryFailure),
    #[error(
        "the series have more than {0} names with different sets of labels \
         (--metrics-max-series-names): select fewer series in seriesQuery"
    )]
    TooManyNames(usize),
}

impl ReadFailure {
    /// The failure of the client's server, unless the rule is at fault.
    fn of_server(&self, client: &Client) -> Option<ServerFailure> {
        let server = client.settings();
        match self {
            Self::Query(failure) if !failure.is_caused_by_query() => Some(ServerFailure {
                error: failure.describe_with_server(&server.url_without_credentials()),
                reason: failure.reason_with_server(&server.origin()),
                is_logged: client.has_logged(failure),
            }),
            Self::Query(_) | Self::TooManyNames(_) => None,
        }
    }

    /// A short reason, without text from the server.
    fn reason(&self) -> String {
        match self {
            Self::Query(failure) => failure.reason(),
            Self::TooManyNames(_) => "the series have too many names".to_owned(),
        }
    }
}

impl Pass<'_> {
    /// Reads the series of a list of rules.
    async fn read_list(
        &self,
        list: &str,
        definitions: &[DiscoveryRule],
        compiled: &[CompiledRule],
        previous: &RuleList,
    ) -> RuleList {
        let mut results = self.read_all(definitions, compiled).await;
        // prometheus-adapter replaces either all series of a list or none.
        let keeps_previous =
            self.settings.compat == Compat::Reference && results.values().any(ReadResult::is_err);
        let previous_entries = previous.by_definition();
        let rules = definitions.iter().zip(compiled).enumerate();
        let entries = rules.map(|(index, (definition, compiled))| {
            let previous = previous_entries.get(&RuleKey::new(definition)).copied();
            let name = self.rules.config.rule_name(list, index);
            let result = results.remove(&index);
            let result = if keeps_previous { result.filter(ReadResult::is_err) } else { result };
            self.build_entry(name, index, definition, compiled, result, previous)
        });
        RuleList { entries: entries.collect() }
    }

    /// Builds the entry of a rule. If `result` has no series, the entry keeps the previous ones.
    /// The entry of an invalid rule has none.
    fn build_entry(
        &self,
        name: String,
        index: usize,
        definition: &DiscoveryRule,
        compiled: &CompiledRule,
        result: Option<ReadResult>,
        previous: Option<&RuleEntry>,
    ) -> RuleEntry {
        let definition = definition.clone();
        let status = previous.map(|entry| entry.status.clone()).unwrap_or_default();
        let mut status = RuleStatus { rule: name, error: None, reason: None, ..status };
        let client = self.rules.servers.get(&definition.server);
        if let Some(client) = client {
            status.server.clone_from(&client.settings().name);
            status.server_url = client.settings().url_without_credentials();
        }
        let rule = match compiled {
            Ok(rule) => rule.clone(),
            Err(error) => {
                status.error = Some(describe(error));
                status.reason = Some(INVALID_RULE.to_owned());
                return RuleEntry { definition, discovered: None, status, server_failure: None };
            }
        };
        let previous_series =
            previous.and_then(|entry| Some(entry.discovered.as_ref()?.series.clone()));
        let mut server_failure = None;
        let series = match result {
            Some(Ok(series)) => {
                status.series_count = series.series_count();
                status.metric_count = series.metric_count();
                status.last_success = Some(Timestamp::now());
                Some(Arc::new(series))
            }
            Some(Err(failure)) => {
                status.failures += 1;
                status.error = Some(describe(&failure));
                status.reason = Some(failure.reason());
                server_failure = client.and_then(|client| failure.of_server(client));
                previous_series
            }
            None => previous_series,
        };
        let discovered = series.map(|series| DiscoveredRule { index, rule, series });
        RuleEntry { definition, discovered, status, server_failure }
    }

    /// Reads the series of all valid rules, by the position of the rule. Rules with the same server
    /// and `seriesQuery` share a read.
    async fn read_all(
        &self,
        definitions: &[DiscoveryRule],
        compiled: &[CompiledRule],
    ) -> BTreeMap<usize, ReadResult> {
        let mut groups: BTreeMap<_, Vec<(usize, Arc<Rule>)>> = BTreeMap::new();
        for (index, (definition, compiled)) in definitions.iter().zip(compiled).enumerate() {
            if let Ok(rule) = compiled {
                let key = (&*definition.server, &*definition.series_query);
                groups.entry(key).or_default().push((index, rule.clone()));
            }
        }
        let reads = groups.into_iter().map(|((server, query), rules)| async move {
            let (positions, rules): (Vec<usize>, Vec<Arc<Rule>>) = rules.into_iter().unzip();
            let results = match self.read_group(server, query, rules).await {
                Ok(results) => results,
                Err(error) => {
                    let failed = |_| Err(ReadFailure::from(error.clone()));
                    positions.iter().map(failed).collect()
                }
            };
            positions.into_iter().zip(results).collect::<Vec<_>>()
        });
        // The futures are boxed, because the compiler can't prove that they are `Send`.
        let reads: Vec<BoxFuture<'_, Vec<(usize, ReadResult)>>> =
            reads.map(|read| Box::pin(read) as _).collect();
        let groups: Vec<_> = stream::iter(reads).buffer_unordered(CONCURRENCY).collect().await;
        groups.into_iter().flatten().collect()
    }

    /// Reads the series of a query for all rules that have it.
    async fn read_group(
        &self,
        server: &str,
        query: &str,
        rules: Vec<Arc<Rule>>,
    ) -> Result<Vec<ReadResult>, QueryFailure> {
        let Some(client) = self.rules.servers.get(server) else {
            // This can't happen, because server names are checked when the file is loaded.
            return Ok(Vec::new());
        };
        let max_age =
            SignedDuration::try_from(self.settings.max_age).unwrap_or(SignedDuration::MAX);
        let max_age = match self.settings.compat {
            Compat::Off => max_age.saturating_add(CLOCK_TOLERANCE),
            Compat::Reference => max_age,
        };
        let since = Timestamp::now().saturating_sub(max_age).unwrap_or(Timestamp::UNIX_EPOCH);
        let resources = self.resources.clone();
        let PrometheusSettings { max_series_bytes, max_series_names, .. } = *self.settings;
        client
            .read_series(query, since, max_series_bytes, move |reader| {
                let builders = rules.iter().map(|rule| Some(RuleSeries::builder(rule, &resources)));
                let mut builders: Vec<_> = builders.collect();
                reader.for_each(|name, labels| {
                    for builder in &mut builders {
                        add_series(builder, max_series_names, name, labels);
                    }
                })?;
                let too_many = ReadFailure::TooManyNames(max_series_names);
                let finished = builders.into_iter().map(|builder| {
                    builder.map(RuleSeriesBuilder::finish).ok_or_else(|| too_many.clone())
                });
                Ok(finished.collect())
            })
            .await
    }
}

/// Adds a series, or drops the builder if it has too many pairs of name and label set.
fn add_series(
    builder: &mut Option<RuleSeriesBuilder<'_>>,
    max_pairs: usize,
    name: &str,
    labels: &[String],
) {
    let Some(active) = builder else { return };
    active.add(name, labels.iter().map(String::as_str));
    if active.distinct_pair_count() > max_pairs {
        *builder = None;
    }
}
