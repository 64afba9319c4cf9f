//! Lints rules that don't compile.

use super::{Linter, METRICS_QUERY, RESOURCE_RULES};
use crate::rules::{
    config::{DiscoveryRule, NameMapping, RegexFilter, ResourceMapping, ResourceRules},
    labels::MappingError,
    resource_metrics::{ResourceMetrics, ResourceRuleError, ResourceRuleProblem, UsageResource},
    rule::{Rule, RuleError},
};

const LABEL_TEMPLATE: &str = "<<.Resource>>";

impl Linter<'_> {
    /// Finds the mistakes in a rule that doesn't compile, except for the first one, which is in
    /// [`RuleSet::errors`](crate::rules::RuleSet::errors). Replaces invalid fields with valid ones
    /// until the rule compiles.
    pub(super) fn check_invalid_rule(&mut self, definition: &DiscoveryRule, is_external: bool) {
        let mut definition = definition.clone();
        // The label template, the query, the name, and each filter and override.
        let max_errors =
            3 + definition.series_filters.len() + definition.resources.overrides.iter().count();
        for replaced in 0..=max_errors {
            match Rule::new(&definition, self.resources) {
                Ok(rule) => return self.check_rule(&definition, &rule, is_external),
                Err(error) => {
                    if replaced > 0 {
                        self.add_error(&error.field(), error.describe());
                    }
                    replace_invalid_field(&mut definition, &error);
                }
            }
        }
    }

    /// Like [`Self::check_invalid_rule`], for `resourceRules`.
    pub(super) fn check_invalid_resource_rules(&mut self, definition: &ResourceRules) {
        let mut definition = definition.clone();
        let overrides = [&definition.cpu, &definition.memory]
            .map(|rule| rule.resources.overrides.iter().count());
        // For cpu and memory, the label template, both queries, and each override.
        let max_errors = 6 + overrides.into_iter().sum::<usize>();
        for replaced in 0..=max_errors {
            match ResourceMetrics::new(&definition, self.resources) {
                Ok(metrics) => return self.check_resource_rules(&metrics),
                Err(error) => {
                    if replaced > 0 {
                        RESOURCE_RULES.clone_into(&mut self.rule_path);
                        self.add_error(&error.field(), error.describe());
                    }
                    replace_invalid_resource_field(&mut definition, &error);
                }
            }
        }
    }
}

/// Replaces the invalid field of a rule by a valid one.
fn replace_invalid_field(rule: &mut DiscoveryRule, error: &RuleError) {
    match error {
        RuleError::Mapping(error) => replace_mapping(&mut rule.resources, error),
        RuleError::Query { .. } => METRICS_QUERY.clone_into(&mut rule.metrics_query),
        RuleError::Filter { index, .. } => {
            if let Some(filter) = rule.series_filters.get_mut(*index) {
                *filter = RegexFilter { is: ".*".to_owned(), is_not: String::new() };
            }
        }
        RuleError::NameMatches { .. } | RuleError::NameTemplate { .. } => {
            rule.name = NameMapping::default();
        }
    }
}

/// Replaces the template and, if `error` is about an override, removes that override. The template
/// then determines the label of its resource.
fn replace_mapping(mapping: &mut ResourceMapping, error: &MappingError) {
    LABEL_TEMPLATE.clone_into(&mut mapping.template);
    if let MappingError::Override { label, .. } = error {
        mapping.overrides.remove(label);
    }
}

/// Replaces the invalid field of `resourceRules` by a valid one.
fn replace_invalid_resource_field(rules: &mut ResourceRules, error: &ResourceRuleError) {
    let rule = match error.resource {
        UsageResource::Cpu => &mut rules.cpu,
        UsageResource::Memory => &mut rules.memory,
    };
    match &error.source {
        ResourceRuleProblem::Mapping(error) => replace_mapping(&mut rule.resources, error),
        ResourceRuleProblem::Query { objects: "container", .. } => {
            METRICS_QUERY.clone_into(&mut rule.container_query);
        }
        ResourceRuleProblem::Query { .. } => METRICS_QUERY.clone_into(&mut rule.node_query),
    }
}
