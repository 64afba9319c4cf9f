//! Finds rules in other files: in a `ConfigMap`, or in Helm values with `rules.custom`,
//! `rules.external` and `rules.resource`.

use hpa_go_compat::yaml::{self, Content, Node, Position, Positions};

use super::{
    Config, ConfigError,
    decode::{decode_values, similar_section},
};
use crate::rules::generate::default_rules;

/// The maximum nesting of a chart's values in those of a parent chart, or in a `HelmRelease`.
const MAX_DEPTH: usize = 4;
const LISTS: [&str; 3] = ["rules", "externalRules", "resourceRules"];

pub(super) fn parse(text: &str) -> Result<Config, ConfigError> {
    let documents = yaml::parse_all(text).map_err(|error| {
        if text.contains("{{") { ConfigError::HelmTemplate } else { error.into() }
    })?;
    let configs = documents.iter().filter_map(|document| config(text, document));
    if let Some(config) = configs.into_iter().next() {
        return config;
    }
    let kind = documents.first().filter(|document| document.member("apiVersion").is_some());
    match kind.and_then(|document| document.member("kind")?.text()) {
        Some(kind) => Err(ConfigError::OtherKind(kind.to_owned())),
        None => Config::parse(text),
    }
}

/// The rules in a `ConfigMap` or in Helm values.
fn config(text: &str, document: &Node) -> Option<Result<Config, ConfigError>> {
    if document.member("kind").and_then(Node::text) == Some("ConfigMap") {
        let Content::Mapping(files) = &document.member("data")?.content else { return None };
        let embedded = files.iter().filter_map(|(_, file)| {
            let content = file.text()?;
            let has_rules = matches!(yaml::parse_all(content), Ok(documents) if documents.iter()
                .any(|document| LISTS.iter().any(|list| document.member(list).is_some())));
            let is_broken = content.contains("seriesQuery") || content.contains("containerQuery");
            (has_rules || is_broken).then(|| embedded(text, content))
        });
        return embedded.into_iter().next();
    }
    values(document, 0).map(with_defaults)
}

/// The value of `rules` in the values of a chart.
fn values(node: &Node, depth: usize) -> Option<&Node> {
    let Content::Mapping(members) = &node.content else { return None };
    if let Some(rules) = node.member("rules") {
        let is_section =
            |key: &Node| key.text().is_some_and(|name| similar_section(name).is_some());
        if matches!(&rules.content, Content::Mapping(sections)
            if sections.iter().any(|(key, _)| is_section(key)))
        {
            return Some(rules);
        }
    }
    if depth == MAX_DEPTH {
        return None;
    }
    members.iter().find_map(|(_, value)| values(value, depth + 1))
}

/// Decodes the rules in Helm values. The chart prepends its own rules, unless `default` is false.
fn with_defaults(rules: &Node) -> Result<Config, ConfigError> {
    let (mut config, has_defaults) = decode_values(rules)?;
    if has_defaults {
        let mut all = Config::parse(&default_rules("5m", ""))?.rules;
        let count = all.len();
        all.append(&mut config.rules);
        config.rules = all;
        shift_rules(&mut config.positions, count);
    }
    Ok(config)
}

/// Renumbers the paths of custom rules after `count` rules were prepended.
fn shift_rules(positions: &mut Positions, count: usize) {
    let shifted = |path: String| {
        let (index, rest) = path.strip_prefix("rules[")?.split_once(']')?;
        Some(format!("rules[{}]{rest}", index.parse::<usize>().ok()? + count))
    };
    let all = std::mem::take(&mut positions.0).into_iter();
    positions.0 = all.map(|(path, at)| (shifted(path.clone()).unwrap_or(path), at)).collect();
}

/// Parses a rules file that is a string in another file. Positions refer to the other file.
fn embedded(file: &str, content: &str) -> Result<Config, ConfigError> {
    let first = content.lines().enumerate().find(|(_, line)| !line.trim().is_empty());
    let shift = first.and_then(|(index, line)| {
        let mut lines = file.lines().enumerate();
        let (outer_index, outer) = lines.find(|(_, outer)| outer.trim() == line.trim())?;
        Some((outer_index.checked_sub(index)?, outer.len().checked_sub(line.len())?))
    });
    let (lines, columns) = shift.unwrap_or_default();
    let moved = |position: &mut Position| {
        position.line += lines;
        position.column += columns;
    };
    match Config::parse(content) {
        Ok(mut config) => {
            config.positions.0.values_mut().for_each(moved);
            Ok(config)
        }
        Err(ConfigError::Syntax(mut error)) => {
            moved(&mut error.position);
            Err(error.into())
        }
        Err(ConfigError::Fields(mut issues)) => {
            issues.issues.iter_mut().for_each(|issue| moved(&mut issue.position));
            issues.rest.positions.0.values_mut().for_each(moved);
            Err(ConfigError::Fields(issues))
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn config_map_is_read_with_positions_in_its_file() {
        let file = |query: &str| {
            format!(
                "apiVersion: v1\nkind: Namespace\n---\nkind: ConfigMap\ndata:\n  config.yaml: |\n    \
                 rules:\n    - {query}\n"
            )
        };
        let config = parse(&file("seriesQuery: up")).unwrap();
        assert_eq!(config.rules[0].series_query, "up");
        let position = config.positions.get("rules[0].seriesQuery").unwrap();
        assert_eq!(position, Position { line: 8, column: 20 });
        let error = parse(&file("seriesQuerys: up")).unwrap_err().to_string();
        assert!(error.starts_with("line 8, column 7: rules[0]: unknown field"), "{error}");
    }

    #[test]
    fn values_of_a_chart_are_read_with_its_default_rules() {
        let values = |default: &str| {
            format!(
                "prometheus-adapter:\n  image: {{tag: v1}}\n  rules:\n    {default}\n    custom: \
                 [{{seriesQuery: up}}]\n    external: [{{seriesQuery: e}}]\n    resource: {{window: \
                 3m}}\n"
            )
        };
        let config = parse(&values("default: false")).unwrap();
        assert_eq!((config.rules.len(), config.external_rules.len()), (1, 1));
        assert_eq!(config.resource_rules.unwrap().window.as_secs(), 180);
        let config = parse(&values("existing:")).unwrap();
        assert_eq!(config.rules.len(), 7);
        assert_eq!(config.rules[6].series_query, "up");
        assert_eq!(config.positions.get("rules[6].seriesQuery").unwrap().line, 5);
    }

    #[rstest]
    #[case::letter(
        "{custom: [], externals: []}",
        "1, column 21: rules: unknown field `externals`: did you mean `external`?"
    )]
    #[case::word(
        "{default: false, resourceRules: {}}",
        "1, column 25: rules: unknown field `resourceRules`: did you mean `resource`?"
    )]
    #[case::alone(
        "{Customs: [{seriesQuery: up}]}",
        "1, column 9: rules: unknown field `Customs`: did you mean `custom`?"
    )]
    #[case::other(
        "{default: false, more: []}",
        "1, column 25: rules: unknown field `more`: expected one of default, custom, external, resource, existing"
    )]
    fn unknown_section_of_values_is_an_error(#[case] rules: &str, #[case] expected: &str) {
        let error = parse(&format!("rules: {rules}")).unwrap_err().to_string();
        assert_eq!(error, format!("line {expected}"));
    }

    #[rstest]
    #[case::mapping("{}")]
    #[case::list("[]")]
    #[case::null("null")]
    fn empty_resource_rules_in_values_are_none(#[case] empty: &str) {
        let values = format!("rules: {{default: false, resource: {empty}}}");
        assert_eq!(parse(&values).unwrap().resource_rules, None);
    }

    #[test]
    fn list_of_resource_rules_in_values_is_an_error() {
        let error = parse("rules: {resource: [{window: 3m}]}").unwrap_err().to_string();
        assert_eq!(error, "line 1, column 19: resourceRules: must be a mapping, not a list");
    }

    #[test]
    fn template_of_a_chart_must_be_rendered_first() {
        let error = parse("kind: ConfigMap\n{{- if .Values.rules }}\ndata: {}\n").unwrap_err();
        assert!(error.to_string().contains("render it first: helm template"), "{error}");
    }

    #[test]
    fn object_without_rules_is_refused_with_its_kind() {
        let error = parse("apiVersion: v1\nkind: ConfigMap\ndata: {a: b}\n").unwrap_err();
        assert!(error.to_string().starts_with("there are no rules in this ConfigMap: write"));
    }

    #[test]
    fn plain_rules_file_is_read() {
        assert_eq!(parse("rules: [{seriesQuery: up}]").unwrap().rules.len(), 1);
        assert!(parse("rule: []").unwrap_err().to_string().contains("did you mean `rules`"));
    }
}
