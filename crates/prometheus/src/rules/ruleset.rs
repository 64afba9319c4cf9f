//! Compiles all rules of a file.

use std::{fmt, sync::Arc};

use crate::rules::{
    config::{Config, DiscoveryRule, Overrides, Position},
    regex_budget::RegexBudget,
    resource_metrics::{ResourceMetrics, ResourceRuleError},
    rule::{Rule, RuleError},
};
use hpa_metrics::resource::ApiResources;

/// The compiled rules of a file.
///
/// Rules are independent: an invalid one doesn't affect the others. prometheus-adapter doesn't
/// start if any rule is invalid; see [`RuleSet::first_error`].
#[derive(Clone, Debug, Default)]
pub struct RuleSet {
    /// `rules`, in the order of the file.
    pub custom: Vec<Result<Arc<Rule>, InvalidRule>>,
    /// `externalRules`, in the order of the file.
    pub external: Vec<Result<Arc<Rule>, InvalidRule>>,
    /// `resourceRules`.
    pub resource: Option<Result<Arc<ResourceMetrics>, InvalidRule>>,
}

/// A rule that can't be compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidRule {
    /// The rule, such as `rules[0]`.
    pub rule: String,
    /// The path of the invalid field, such as `rules[0].name.matches`.
    pub path: String,
    /// The position of the field, if it is in a file. A chart's default rules are not.
    pub position: Option<Position>,
    pub problem: Box<InvalidRuleProblem>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRuleProblem {
    /// In `rules` or `externalRules`.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// In `resourceRules`.
    #[error(transparent)]
    Resource(#[from] ResourceRuleError),
}

impl fmt::Display for InvalidRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(position) = self.position {
            write!(f, "{position}: ")?;
        }
        f.write_str(&self.path)
    }
}

impl std::error::Error for InvalidRule {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.problem)
    }
}

impl RuleSet {
    /// Compiles each rule on its own. `resources` are those of the API server.
    pub fn compile(config: &Config, resources: &ApiResources) -> Self {
        let invalid = |rule: String, field: &str, problem: InvalidRuleProblem| {
            let path = format!("{rule}.{field}");
            InvalidRule {
                position: config.positions.get(&path),
                rule,
                path,
                problem: Box::new(problem),
            }
        };
        let mut budget = RegexBudget::default();
        let mut compile = |list: &str, rules: &[DiscoveryRule]| {
            let compiled = rules.iter().enumerate().map(|(index, rule)| {
                let compiled = Rule::with_budget(rule, resources, &mut budget);
                compiled.map(Arc::new).map_err(|error| {
                    invalid(config.rule_name(list, index), &error.field(), error.into())
                })
            });
            compiled.collect()
        };
        let resource = config.resource_rules.as_ref().map(|rules| {
            ResourceMetrics::new(rules, resources)
                .map(Arc::new)
                .map_err(|error| invalid("resourceRules".to_owned(), &error.field(), error.into()))
        });
        Self {
            custom: compile("rules", &config.rules),
            external: compile("externalRules", &config.external_rules),
            resource,
        }
    }

    /// The rules with an invalid template, regular expression or name. Overrides are not checked,
    /// because the API server may get their resources later.
    pub fn syntax_errors(config: &Config) -> Vec<InvalidRule> {
        Self::without_overrides(config).errors().cloned().collect()
    }

    /// Compiles the rules without their overrides, which needs no resources. The rules find no
    /// objects, but know which metrics they [may have](Rule::may_have).
    pub fn without_overrides(config: &Config) -> Self {
        let mut config = config.clone();
        let rules = config.rules.iter_mut().chain(&mut config.external_rules);
        let mappings = rules.map(|rule| &mut rule.resources);
        let usage = config
            .resource_rules
            .iter_mut()
            .flat_map(|rules| [&mut rules.cpu.resources, &mut rules.memory.resources]);
        for mapping in mappings.chain(usage) {
            mapping.overrides = Overrides::default();
        }
        Self::compile(&config, &ApiResources::default())
    }

    /// The first of [`Self::errors`].
    pub fn first_error(&self) -> Option<&InvalidRule> {
        self.errors().next()
    }

    /// The invalid rules, in the order in which prometheus-adapter compiles them.
    pub fn errors(&self) -> impl Iterator<Item = &InvalidRule> {
        let discovery = self.custom.iter().chain(&self.external);
        let resource = self.resource.iter().filter_map(|rules| rules.as_ref().err());
        discovery.filter_map(|rule| rule.as_ref().err()).chain(resource)
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;
    use hpa_metrics::test_doubles::resources;

    /// Each expression needs more than a quarter of a mebibyte, and counts as a whole one.
    #[test]
    fn total_size_of_regular_expressions_is_limited() {
        let name = format!("{{matches: '{}', as: x}}", "[a-z]{1000}".repeat(10));
        let rule = format!("- seriesQuery: a\n  name: {name}\n");
        let config = Config::parse(&format!("rules:\n{}", rule.repeat(66))).unwrap();
        let rules = RuleSet::compile(&config, &resources());
        assert_eq!(rules.custom.iter().filter(|rule| rule.is_ok()).count(), 64);
        let error = rules.first_error().unwrap();
        assert_eq!(error.path, "rules[64].name.matches");
        assert!(error.mistake().contains("expressions too large together"), "{}", error.mistake());
    }

    #[test]
    fn errors_have_paths_and_valid_rules_compile() {
        let config = Config::parse(
            "rules:\n\
             - seriesQuery: a\n\
             - seriesQuery: b\n\
             \x20 name: {matches: '('}\n\
             externalRules:\n\
             - seriesQuery: c\n\
             \x20 metricsQuery: '<<.Series'\n",
        );
        let rules = RuleSet::compile(&config.unwrap(), &resources());
        assert!(rules.custom[0].is_ok());
        let errors: Vec<String> = rules.errors().map(ToString::to_string).collect();
        assert_eq!(
            errors,
            [
                "line 4, column 19: rules[1].name.matches",
                "line 7, column 17: externalRules[0].metricsQuery",
            ]
        );
        assert_eq!(
            rules.first_error().unwrap().source().unwrap().to_string(),
            "unable to generate series name filter from name rules associated with series query \
             \"b\": unable to compile series filter \"(\": error parsing regexp: missing closing \
             ): `(`"
        );
    }
}
