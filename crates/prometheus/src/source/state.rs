//! The result of a discovery: the compiled rules, their series and the metrics.

use std::{collections::HashMap, sync::Arc};

use hpa_calc::explain::list_first;

use crate::client::Client;
use crate::rules::{
    Config, CustomRegistry, ExternalRegistry, Rule, RuleSet,
    config::{DiscoveryRule, NameMapping, RegexFilter, ResourceMapping},
    lint::lint,
    registry::DiscoveredRule,
    ruleset::InvalidRule,
};
use hpa_metrics::{
    ApiGroups, CustomQuery, ExternalQuery, Query,
    mapper::MapperError,
    resource::{ApiResources, GroupResource},
};
use jiff::Timestamp;

use super::{RelistError, servers::Servers};

/// The maximum number of rules in a message.
const MAX_RULES: usize = 3;

/// The short reason for a rule that can't be compiled.
pub(super) const INVALID_RULE: &str = "the rule is invalid";

/// The problem before the first discovery.
pub(super) const NOT_DISCOVERED_YET: &str = "no discovery has succeeded yet";

/// The maximum number of mistakes in a rules file that are logged.
const MAX_LOGGED_MISTAKES: usize = 20;

pub(super) type CompiledRule = Result<Arc<Rule>, InvalidRule>;

/// A rules file, and clients for its servers.
pub(super) struct Rules {
    pub(super) config: Arc<Config>,
    pub(super) servers: Arc<Servers>,
}

impl Rules {
    /// The APIs that the rules have metrics for.
    pub(super) fn groups(&self) -> ApiGroups {
        ApiGroups {
            custom: !self.config.rules.is_empty(),
            external: !self.config.external_rules.is_empty(),
            resource: self.config.resource_rules.is_some(),
        }
    }
}

/// The result of a discovery. Empty before the first one.
pub(super) struct DiscoveryState {
    pub(super) rules: Arc<Rules>,
    pub(super) compiled: RuleSet,
    /// `None` once the resources were read, and before the first attempt.
    pub(super) without_resources: Option<WithoutResources>,
    pub(super) resources: Arc<ApiResources>,
    pub(super) custom: RuleList,
    pub(super) custom_registry: CustomRegistry,
    pub(super) external: RuleList,
    pub(super) external_registry: ExternalRegistry,
}

/// The rules while the resources of the API server have never been read.
pub(super) struct WithoutResources {
    /// The error of the last attempt to read them.
    error: String,
    /// The rules without overrides.
    rules: RuleSet,
}

/// The rules of `rules` or `externalRules` with their series.
#[derive(Clone, Default)]
pub(super) struct RuleList {
    pub(super) entries: Vec<RuleEntry>,
}

/// A rule with its series.
#[derive(Clone)]
pub(super) struct RuleEntry {
    pub(super) definition: DiscoveryRule,
    /// The compiled rule with its series. `None` if the rule is invalid or its series have never
    /// been read.
    pub(super) discovered: Option<DiscoveredRule>,
    pub(super) status: RuleStatus,
    /// The failure of the last read, unless the rule is at fault.
    pub(super) server_failure: Option<ServerFailure>,
}

/// A failure of a server. Both texts name the server.
#[derive(Clone)]
pub(super) struct ServerFailure {
    pub(super) error: String,
    /// The error without text from a response.
    pub(super) reason: String,
    /// Whether the client has logged the outage of the server.
    pub(super) is_logged: bool,
}

/// The state of a rule. For `resourceRules`, which have no discovery, only `rule`, `error` and
/// `reason` are set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleStatus {
    /// The rule, such as `rules[0]`.
    pub rule: String,
    /// The name of the server that the rule reads.
    pub server: String,
    /// The URL of that server, without credentials.
    pub server_url: String,
    /// The number of series in the last successful read.
    pub series_count: usize,
    /// The number of metrics from these series.
    pub metric_count: usize,
    /// The time of the last successful read.
    pub last_success: Option<Timestamp>,
    /// The number of failed reads since the start, or since a change of the fields that determine
    /// the rule's series.
    pub failures: u64,
    /// The error of an invalid rule, or of the last read if it failed.
    pub error: Option<String>,
    /// A short reason for readers who may not see details: without text from the server.
    pub reason: Option<String>,
}

impl RuleStatus {
    /// The rule with the short reason why it failed. `None` if it didn't.
    fn describe_reason(&self) -> Option<String> {
        Some(format!("{}: {}", self.rule, self.reason.as_ref()?))
    }
}

impl DiscoveryState {
    pub(super) fn empty(rules: &Arc<Rules>) -> Self {
        Self {
            rules: rules.clone(),
            compiled: RuleSet::default(),
            without_resources: None,
            resources: Arc::default(),
            custom: RuleList::default(),
            custom_registry: CustomRegistry::default(),
            external: RuleList::default(),
            external_registry: ExternalRegistry::default(),
        }
    }

    /// The state if the resources of the API server have never been read. `error` is the error of
    /// the last attempt.
    pub(super) fn without_resources(rules: &Arc<Rules>, error: &MapperError) -> Self {
        let without_resources = WithoutResources {
            error: hpa_metrics::describe(error),
            rules: RuleSet::without_overrides(&rules.config),
        };
        Self { without_resources: Some(without_resources), ..Self::empty(rules) }
    }

    /// Whether the rules were compiled, which needs the resources of the API server. Their series
    /// may still be unknown. Always true for a file without rules.
    pub(super) fn is_compiled(&self) -> bool {
        let config = &self.rules.config;
        self.compiled.custom.len() == config.rules.len()
            && self.compiled.external.len() == config.external_rules.len()
            && self.compiled.resource.is_some() == config.resource_rules.is_some()
    }

    /// Whether the rules were compiled and a discovery of their series was tried. Always true for a
    /// file without rules.
    pub(super) fn has_tried_discovery(&self) -> bool {
        let config = &self.rules.config;
        self.is_compiled()
            && self.custom.entries.len() == config.rules.len()
            && self.external.entries.len() == config.external_rules.len()
    }

    /// Whether the series of at least one rule of each list were read, unless the list is empty. A
    /// rule that always fails must not block the others.
    pub(super) fn is_discovered(&self) -> bool {
        let config = &self.rules.config;
        let is_known = |list: &RuleList, len: usize| {
            len == 0 || list.entries.iter().any(|entry| entry.discovered.is_some())
        };
        self.is_compiled()
            && is_known(&self.custom, config.rules.len())
            && is_known(&self.external, config.external_rules.len())
    }

    /// Whether a discovery may yet find the metric of a query, if no rule has it.
    ///
    /// Usage is found once the rules are compiled. Any other metric may be found until the series
    /// of one rule of its list were read: a rule that always fails must not block the metrics of
    /// others. A metric that all rules of the list exclude can't be found.
    pub(super) fn may_discover(&self, query: &Query) -> bool {
        let Some((list, compiled, metric)) = self.rules_for(query) else {
            return !self.is_compiled();
        };
        if !self.is_compiled() && self.without_resources.is_none() {
            return true;
        }
        // An invalid rule may be meant for any metric.
        let may_have =
            |rule: &CompiledRule| rule.as_ref().ok().is_none_or(|rule| rule.may_have(metric));
        list.discovered_rules().next().is_none() && compiled.iter().any(may_have)
    }

    /// The rules that can have the metric of a query, with their compiled form, and its name. The
    /// compiled form lacks overrides while the resources of the API server are unknown. `None` for
    /// the usage of pods and nodes.
    pub(super) fn rules_for<'a>(
        &'a self,
        query: &'a Query,
    ) -> Option<(&'a RuleList, &'a [CompiledRule], &'a str)> {
        let without_resources = self.without_resources.as_ref();
        let compiled = without_resources.map_or(&self.compiled, |known| &known.rules);
        match query {
            Query::Custom(CustomQuery { metric, .. }) => {
                Some((&self.custom, compiled.custom.as_slice(), metric.as_str()))
            }
            Query::External(ExternalQuery { metric, .. }) => {
                Some((&self.external, compiled.external.as_slice(), metric.as_str()))
            }
            Query::PodUsage { .. } | Query::NodeUsage { .. } => None,
        }
    }

    /// The rules of both lists.
    fn entries(&self) -> impl Iterator<Item = &RuleEntry> {
        self.custom.entries.iter().chain(&self.external.entries)
    }

    /// The rules of both lists that are invalid or whose series can't be read, with the error. If
    /// a server failed, the error names it. Rules with the same error are one item.
    fn failures(&self) -> Vec<String> {
        join_rules(self.entries().filter_map(|entry| {
            let error = match &entry.server_failure {
                Some(failure) => &*failure.error,
                None => entry.status.error.as_deref()?,
            };
            Some((error, Some(&*entry.status.rule)))
        }))
    }

    /// The problems of the last discovery, for errors of queries: the failures of servers, and a
    /// short reason for each other rule that is invalid or whose read failed. Includes invalid
    /// `resourceRules`, and the error of reading the resources of the API server. Each problem is
    /// listed once.
    pub(super) fn discovery_problems(&self) -> Vec<String> {
        let mut problems = join_rules(self.entries().filter_map(RuleEntry::problem));
        problems.extend(self.resource_status().and_then(|status| status.describe_reason()));
        problems.extend(self.without_resources.as_ref().map(WithoutResources::problem));
        problems
    }

    /// The problems of rules that may have the metric of a query and whose series have never been
    /// read. `None` if there are no such rules. Leaves out the problems of other rules, because
    /// users of this metric may not know their servers.
    pub(super) fn unread_problems(&self, query: &Query) -> Option<Vec<String>> {
        let (list, compiled, metric) = self.rules_for(query)?;
        let may_discover = self.may_discover(query);
        let rules = list.entries.iter().zip(compiled);
        let unread = rules.filter(|(entry, rule)| {
            let may_have = rule.as_ref().map_or(may_discover, |rule| rule.may_have(metric));
            entry.discovered.is_none() && may_have
        });
        let mut problems = join_rules(unread.filter_map(|(entry, _)| entry.problem()));
        let without_resources = self.without_resources.as_ref().filter(|_| may_discover);
        problems.extend(without_resources.map(WithoutResources::problem));
        (may_discover || !problems.is_empty()).then_some(problems)
    }

    /// The outcome of the discovery that created this state.
    pub(super) fn outcome(&self) -> Result<(), RelistError> {
        let failures = self.failures();
        if failures.is_empty() {
            return Ok(());
        }
        let (mut causes, mut is_logged) = (Vec::<String>::new(), true);
        let compiled = self.compiled.custom.iter().chain(&self.compiled.external);
        for (entry, _) in self.entries().zip(compiled).filter(|(_, rule)| rule.is_ok()) {
            let Some(cause) = &entry.server_failure else {
                return Err(RelistError::Rules(failures));
            };
            is_logged &= cause.is_logged;
            if !causes.contains(&cause.error) {
                causes.push(cause.error.clone());
            }
        }
        if causes.is_empty() {
            return Err(RelistError::Rules(failures));
        }
        Err(RelistError::ServersFailed { failures, causes, is_logged })
    }

    /// The first mistakes in the rules, as `hpa rules check` reports them. Leaves out the mistakes
    /// that prevent rules from being compiled: [`RuleStatus::error`] has them.
    pub(super) fn mistakes(&self) -> Vec<String> {
        let findings = lint(&self.rules.config, &self.compiled, &self.resources);
        let errors = findings.iter().filter(|finding| !finding.is_warning);
        errors.take(MAX_LOGGED_MISTAKES).map(ToString::to_string).collect()
    }

    /// The rules that are invalid or whose series can't be read, with their short reasons.
    pub(super) fn failure_reasons(&self) -> impl Iterator<Item = String> {
        self.rule_status().into_iter().filter_map(|status| status.describe_reason())
    }

    pub(super) fn rule_status(&self) -> Vec<RuleStatus> {
        let of_lists = self.entries().map(|entry| entry.status.clone());
        of_lists.chain(self.resource_status()).collect()
    }

    /// The state of `resourceRules`. `None` if the file has none.
    fn resource_status(&self) -> Option<RuleStatus> {
        let error = self.compiled.resource.as_ref()?.as_ref().err();
        Some(RuleStatus {
            rule: "resourceRules".to_owned(),
            error: error.map(|error| hpa_metrics::describe(error)),
            reason: error.map(|_| INVALID_RULE.to_owned()),
            ..RuleStatus::default()
        })
    }

    pub(super) fn has_custom(
        &self,
        resource: &GroupResource,
        is_namespaced: bool,
        metric: &str,
    ) -> bool {
        let Ok(known) = self.resources.resolve(&resource.group, &resource.resource) else {
            return false;
        };
        let resource = &known.group_resource;
        resource.has_namespaced_metrics() == is_namespaced
            && self.custom_registry.metric_rule(resource, metric).is_some()
    }

    /// The client for the rule at a position in `rules`.
    pub(super) fn custom_client(&self, index: usize) -> Option<&Client> {
        self.rules.servers.get(&self.rules.config.rules.get(index)?.server)
    }

    /// The client for the rule at a position in `externalRules`.
    pub(super) fn external_client(&self, index: usize) -> Option<&Client> {
        self.rules.servers.get(&self.rules.config.external_rules.get(index)?.server)
    }
}

/// A line for each different problem, in the order of first appearance: its rules, then the
/// problem. An item is a problem and the rule to name, if any.
fn join_rules<'a>(problems: impl Iterator<Item = (&'a str, Option<&'a str>)>) -> Vec<String> {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for (problem, rule) in problems {
        match groups.iter_mut().find(|(of_group, _)| *of_group == problem) {
            Some((_, rules)) => rules.extend(rule),
            None => groups.push((problem, rule.into_iter().collect())),
        }
    }
    let lines = groups.iter().map(|(problem, rules)| match rules.as_slice() {
        [] => (*problem).to_owned(),
        rules => format!("{}: {problem}", list_rules(rules)),
    });
    lines.collect()
}

impl WithoutResources {
    fn problem(&self) -> String {
        format!("{NOT_DISCOVERED_YET}: {}", self.error)
    }
}

impl RuleEntry {
    /// The item of the rule for [`join_rules`]: the failure of its server, which names no rule, or
    /// else the short reason with the rule.
    fn problem(&self) -> Option<(&str, Option<&str>)> {
        match &self.server_failure {
            Some(failure) => Some((&*failure.reason, None)),
            None => Some((self.status.reason.as_deref()?, Some(&*self.status.rule))),
        }
    }
}

impl RuleList {
    pub(super) fn discovered_rules(&self) -> impl Iterator<Item = &DiscoveredRule> {
        self.entries.iter().filter_map(|entry| entry.discovered.as_ref())
    }

    /// The entries by definition, because rules may have moved in the file.
    pub(super) fn by_definition(&self) -> HashMap<RuleKey<'_>, &RuleEntry> {
        self.entries.iter().map(|entry| (RuleKey::new(&entry.definition), entry)).collect()
    }
}

/// The fields that determine a rule's series. If only other fields change, the rule keeps its
/// series.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct RuleKey<'a> {
    server: &'a str,
    series_query: &'a str,
    series_filters: &'a [RegexFilter],
    name: &'a NameMapping,
    resources: &'a ResourceMapping,
}

impl<'a> RuleKey<'a> {
    pub(super) fn new(rule: &'a DiscoveryRule) -> Self {
        let DiscoveryRule { server, series_query, series_filters, name, resources, .. } = rule;
        Self { server, series_query, series_filters, name, resources }
    }
}

/// The first [`MAX_RULES`] of some rules, and the number of the others.
pub(super) fn list_rules(rules: &[&str]) -> String {
    list_first(rules, MAX_RULES, ", ")
}
