//! The result of a discovery: the compiled rules, their series and the metrics.

use std::{collections::HashMap, sync::Arc};

use crate::client::Client;
use crate::rules::{
    Config, CustomRegistry, ExternalRegistry, RuleSeries, RuleSet, config::DiscoveryRule,
    lint::lint, registry::DiscoveredRule,
};
use hpa_metrics::resource::{ApiResources, GroupResource};
use jiff::Timestamp;

use super::{RelistError, absence::list_rules, servers::Servers};

/// The short reason for a rule that can't be compiled.
pub(super) const INVALID_RULE: &str = "the rule is invalid";

/// The maximum number of mistakes in a rules file that are logged.
const MAX_LOGGED_MISTAKES: usize = 20;

/// A rules file, and clients for its servers.
pub(super) struct Rules {
    pub(super) config: Arc<Config>,
    pub(super) servers: Arc<Servers>,
}

/// The result of a discovery. Empty before the first one.
pub(super) struct DiscoveryState {
    pub(super) rules: Arc<Rules>,
    pub(super) compiled: RuleSet,
    pub(super) resources: Arc<ApiResources>,
    pub(super) custom: RuleList,
    pub(super) custom_registry: CustomRegistry,
    pub(super) external: RuleList,
    pub(super) external_registry: ExternalRegistry,
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
    /// `None` if the rule is invalid or its series have never been read.
    pub(super) source: Option<DiscoveredRule>,
    pub(super) status: RuleStatus,
    /// Whether the last read got no response, or the server refused the client.
    pub(super) is_unanswered: bool,
}

/// The state of a rule. That of `resourceRules`, which have no discovery, has only `rule`, `error`
/// and `reason`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleStatus {
    /// The rule, such as `rules[0]`.
    pub rule: String,
    /// The name of the server that the rule reads.
    pub server: String,
    /// The URL of that server, without credentials.
    pub server_url: String,
    /// The number of series at the last success.
    pub series: usize,
    /// The number of metrics from these series.
    pub metrics: usize,
    /// The time of the last success.
    pub last_success: Option<Timestamp>,
    /// The number of failed reads since the start, or since a change of the fields that determine
    /// the rule's series.
    pub failures: u64,
    /// The error of an invalid rule, or of the last read if it failed.
    pub error: Option<String>,
    /// A short reason for unauthorized clients, without text from the server.
    pub reason: Option<String>,
}

impl DiscoveryState {
    pub(super) fn empty(rules: &Rules) -> Self {
        Self {
            rules: Arc::new(Rules { config: rules.config.clone(), servers: rules.servers.clone() }),
            compiled: RuleSet::default(),
            resources: Arc::default(),
            custom: RuleList::default(),
            custom_registry: CustomRegistry::default(),
            external: RuleList::default(),
            external_registry: ExternalRegistry::default(),
        }
    }

    /// Whether the rules were compiled, which needs the resources of the API server. Their series
    /// may still be unknown. Always true for a file without rules.
    pub(super) fn is_compiled(&self) -> bool {
        let config = &self.rules.config;
        self.compiled.custom.len() == config.rules.len()
            && self.compiled.external.len() == config.external_rules.len()
            && self.compiled.resource.is_some() == config.resource_rules.is_some()
    }

    /// Whether the series of at least one rule of each list were read, unless the list is empty. A
    /// rule that always fails must not block the others.
    pub(super) fn is_discovered(&self) -> bool {
        let config = &self.rules.config;
        let is_known = |list: &RuleList, len: usize| {
            len == 0 || list.entries.iter().any(|entry| entry.source.is_some())
        };
        self.is_compiled()
            && is_known(&self.custom, config.rules.len())
            && is_known(&self.external, config.external_rules.len())
    }

    /// The rules of both lists.
    fn entries(&self) -> impl Iterator<Item = &RuleEntry> {
        self.custom.entries.iter().chain(&self.external.entries)
    }

    /// The rules of both lists that are invalid or whose series can't be read, with the error.
    /// Rules with the same error are one item.
    fn failures(&self) -> Vec<String> {
        let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
        for RuleEntry { status, .. } in self.entries() {
            let Some(error) = status.error.as_deref() else { continue };
            match groups.iter_mut().find(|(of_group, _)| *of_group == error) {
                Some((_, rules)) => rules.push(&status.rule),
                None => groups.push((error, vec![&status.rule])),
            }
        }
        let lines = groups.iter().map(|(error, rules)| format!("{}: {error}", list_rules(rules)));
        lines.collect()
    }

    /// Why series are unknown, for errors of queries: each cause for which servers didn't respond,
    /// and a short reason for every other rule without series.
    pub(super) fn discovery_problems(&self) -> Vec<String> {
        let mut problems: Vec<String> = Vec::new();
        for RuleEntry { status, is_unanswered, .. } in self.entries() {
            let reason = status.reason.as_ref();
            let problem = match &status.error {
                Some(error) if *is_unanswered => Some(error.clone()),
                _ => reason.map(|reason| format!("{}: {reason}", status.rule)),
            };
            if let Some(problem) = problem
                && !problems.contains(&problem)
            {
                problems.push(problem);
            }
        }
        problems
    }

    /// The outcome of the discovery.
    pub(super) fn outcome(&self) -> Result<(), RelistError> {
        let failures = self.failures();
        if failures.is_empty() {
            return Ok(());
        }
        let mut causes: Vec<String> = Vec::new();
        for RuleEntry { status, is_unanswered, .. } in self.entries() {
            if status.reason.as_deref() == Some(INVALID_RULE) {
                continue;
            }
            if !is_unanswered {
                return Err(RelistError::Rules(failures));
            }
            if let Some(cause) = status.error.as_ref().filter(|cause| !causes.contains(*cause)) {
                causes.push(cause.clone());
            }
        }
        if causes.is_empty() {
            return Err(RelistError::Rules(failures));
        }
        Err(RelistError::Unreachable { failures, causes })
    }

    /// The first mistakes in the rules, as `hpa rules check` reports them, except for those of rules
    /// that don't compile, which are in [`Self::failures`].
    pub(super) fn mistakes(&self) -> Vec<String> {
        let findings = lint(&self.rules.config, &self.compiled, &self.resources);
        let errors = findings.iter().filter(|finding| !finding.is_warning);
        errors.take(MAX_LOGGED_MISTAKES).map(ToString::to_string).collect()
    }

    /// The rules that are invalid or whose series can't be read, with a reason for unauthorized
    /// clients.
    pub(super) fn failure_reasons(&self) -> impl Iterator<Item = String> {
        let failed = self.rule_status().into_iter();
        failed.filter_map(|status| Some(format!("{}: {}", status.rule, status.reason?)))
    }

    pub(super) fn rule_status(&self) -> Vec<RuleStatus> {
        let resource = self.compiled.resource.iter().map(|compiled| RuleStatus {
            rule: "resourceRules".to_owned(),
            error: compiled.as_ref().err().map(|error| hpa_metrics::describe(error)),
            reason: compiled.as_ref().err().map(|_| INVALID_RULE.to_owned()),
            ..RuleStatus::default()
        });
        self.entries().map(|entry| entry.status.clone()).chain(resource).collect()
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
            && self.custom_registry.origin(resource, metric).is_some()
    }

    /// The client for a rule of `rules`, by its position in the file.
    pub(super) fn custom_client(&self, index: usize) -> Option<&Client> {
        self.rules.servers.get(&self.rules.config.rules.get(index)?.server)
    }

    /// The client for a rule of `externalRules`, by its position in the file.
    pub(super) fn external_client(&self, index: usize) -> Option<&Client> {
        self.rules.servers.get(&self.rules.config.external_rules.get(index)?.server)
    }
}

impl RuleList {
    pub(super) fn sources(&self) -> impl Iterator<Item = &DiscoveredRule> {
        self.entries.iter().filter_map(|entry| entry.source.as_ref())
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
    /// Filters, naming and labels, in their debug form.
    other_fields: String,
}

impl<'a> RuleKey<'a> {
    pub(super) fn new(rule: &'a DiscoveryRule) -> Self {
        let other_fields = format!("{:?}{:?}{:?}", rule.series_filters, rule.name, rule.resources);
        Self { server: &rule.server, series_query: &rule.series_query, other_fields }
    }
}

/// The series of a rule, and the time at which they were read.
pub(super) struct DiscoveredSeries {
    pub(super) series: Arc<RuleSeries>,
    pub(super) read_at: Timestamp,
}
