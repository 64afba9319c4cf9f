//! Lists the rules with their series and metrics, and explains requests, for diagnosis.

use std::{collections::HashSet, sync::Arc};

use crate::client::Client;
use crate::rules::{
    Config,
    config::{DiscoveryRule, Position},
    explain::{Candidate, Explanation, explain_custom, explain_external},
    registry::{DiscoveredRule, MetricRule},
    rule::Naming,
};
use hpa_metrics::{
    CustomQuery, ExternalQuery,
    resource::{ApiResources, GroupResource},
};

use super::{
    PrometheusSource,
    state::{CompiledRule, RuleList, RuleStatus},
};

/// A rule with its metrics.
#[derive(Clone, Debug)]
pub struct RuleInspection {
    /// The position of the rule in the file.
    pub position: Option<Position>,
    pub definition: DiscoveryRule,
    pub status: RuleStatus,
    /// The error of the last read, with the URL of the server. `None` if the read didn't fail, or
    /// if the rule is at fault.
    pub server_failure: Option<String>,
    /// The labels of its series, sorted.
    pub labels: Vec<String>,
    pub metrics: Vec<InspectedMetric>,
    /// The names of series that are not read, because the metric is read from others.
    pub unused_series: Vec<String>,
}

/// A metric of a rule.
#[derive(Clone, Debug)]
pub struct InspectedMetric {
    pub metric: String,
    /// The resource of the objects. `None` for an external metric.
    pub resource: Option<GroupResource>,
    /// The series that the metric is read from.
    pub series: String,
    /// The position of a later rule in the same list that has the metric and takes precedence.
    pub shadowed_by: Option<usize>,
}

impl PrometheusSource {
    /// The rules of `rules`, as of the last discovery.
    pub fn inspect_custom(&self) -> Vec<RuleInspection> {
        let state = self.state();
        let registry = &state.custom_registry;
        inspect_rules("rules", &state.rules.config, &state.custom, |discovered| {
            let metrics = discovered.series.metrics().flat_map(|metric| {
                metric.by_resource().map(move |(resource, series)| {
                    let rule = registry.metric_rule(resource, metric.metric);
                    InspectedMetric {
                        metric: metric.metric.to_owned(),
                        resource: Some(GroupResource::clone(resource)),
                        series: series.to_owned(),
                        shadowed_by: shadowing_rule(rule, discovered.index),
                    }
                })
            });
            metrics.collect()
        })
    }

    /// The rules of `externalRules`, as of the last discovery.
    pub fn inspect_external(&self) -> Vec<RuleInspection> {
        let state = self.state();
        let registry = &state.external_registry;
        inspect_rules("externalRules", &state.rules.config, &state.external, |discovered| {
            let metrics = discovered.series.metrics().map(|metric| InspectedMetric {
                metric: metric.metric.to_owned(),
                resource: None,
                series: metric.last_series.to_owned(),
                shadowed_by: shadowing_rule(registry.metric_rule(metric.metric), discovered.index),
            });
            metrics.collect()
        })
    }

    /// Explains, rule by rule, why the metric of the named objects is found or not. Leaves out
    /// valid rules whose series have never been read.
    pub fn explain_custom(&self, request: &CustomQuery, names: &[String]) -> Explanation {
        let state = self.state();
        let candidates = candidates(&state.custom, &state.compiled.custom);
        explain_custom(request, names, &candidates, &state.resources, self.settings.compat)
    }

    /// Explains, rule by rule, why an external metric is found or not. Leaves out valid rules whose
    /// series have never been read.
    pub fn explain_external(&self, request: &ExternalQuery) -> Explanation {
        let state = self.state();
        let ExternalQuery { namespace, metric, metric_selector } = request;
        let candidates = candidates(&state.external, &state.compiled.external);
        let (resources, compat) = (&state.resources, self.settings.compat);
        explain_external(namespace, metric, metric_selector, &candidates, resources, compat)
    }

    /// The resources of the API, as of the last discovery.
    pub fn resources(&self) -> Arc<ApiResources> {
        self.state().resources.clone()
    }

    /// The label with the names of a resource's objects in the series of a rule of `rules`.
    pub fn object_label(&self, index: usize, resource: &GroupResource) -> Option<String> {
        let state = self.state();
        let discovered = state.custom.entries.get(index)?.discovered.as_ref()?;
        discovered.rule.labels.label(resource, &state.resources).ok()
    }

    /// The client of the server of a rule of `rules`.
    pub fn custom_client(&self, index: usize) -> Option<Client> {
        self.state().custom_client(index).cloned()
    }

    /// The client of the server of a rule of `externalRules`.
    pub fn external_client(&self, index: usize) -> Option<Client> {
        self.state().external_client(index).cloned()
    }

    /// The client of the server with this name. An empty name stands for the default server.
    pub fn client(&self, server: &str) -> Option<Client> {
        self.rules.borrow().servers.get(server).cloned()
    }

    /// A clause with a server's warning about a result. `None` if there was no warning within the
    /// last minute.
    pub fn server_warning(&self) -> Option<String> {
        let rules = self.rules.borrow();
        let warning = |client: &Client| {
            let warning = client.recent_warning()?;
            Some(format!("the server {} warns of a result: {warning}", client.settings().name))
        };
        rules.servers.all().find_map(warning)
    }
}

fn inspect_rules(
    list: &str,
    config: &Config,
    rules: &RuleList,
    metrics: impl Fn(&DiscoveredRule) -> Vec<InspectedMetric>,
) -> Vec<RuleInspection> {
    let rules = rules.entries.iter().enumerate().map(|(index, entry)| {
        let discovered = entry.discovered.as_ref();
        let metrics = discovered.map(&metrics).unwrap_or_default();
        RuleInspection {
            position: config.positions.get(&config.rule_name(list, index)),
            definition: entry.definition.clone(),
            status: entry.status.clone(),
            server_failure: entry.server_failure.as_ref().map(|failure| failure.error.clone()),
            labels: discovered.map(|rule| rule.series.labels()).unwrap_or_default(),
            unused_series: discovered.map(|rule| unused_series(rule, &metrics)).unwrap_or_default(),
            metrics,
        }
    });
    rules.collect()
}

fn unused_series(rule: &DiscoveredRule, metrics: &[InspectedMetric]) -> Vec<String> {
    let used: HashSet<&str> = metrics.iter().map(|metric| metric.series.as_str()).collect();
    let known: HashSet<&str> = metrics.iter().map(|metric| metric.metric.as_str()).collect();
    let unused = rule.series.names().filter(|(series, naming)| {
        matches!(naming, Naming::Metric(metric) if known.contains(metric.as_str()))
            && !used.contains(series)
    });
    unused.map(|(series, _)| series.to_owned()).collect()
}

/// The position in the list of the rule that has the metric, unless it is `index`.
fn shadowing_rule(rule: Option<MetricRule>, index: usize) -> Option<usize> {
    rule.map(|rule| rule.index).filter(|position| *position != index)
}

fn candidates<'s>(list: &'s RuleList, compiled: &'s [CompiledRule]) -> Vec<Candidate<'s>> {
    let entries = list.entries.iter().zip(compiled).enumerate();
    let candidates = entries.filter_map(|(index, (entry, compiled))| match compiled {
        Err(error) => Some(Candidate::Refused(index, error)),
        Ok(_) => entry.discovered.as_ref().map(Candidate::Compiled),
    });
    candidates.collect()
}
