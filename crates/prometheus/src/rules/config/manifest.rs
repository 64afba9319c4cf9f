//! Finds rules that are not in a plain rules file, but in a `ConfigMap` or in Helm values
//! (`rules.custom`, `rules.external` and `rules.resource`).

use hpa_calc::suggestions::is_similar;
use hpa_go_compat::yaml::{self, Content, Node, Position};

use super::{
    Config, ConfigError, FieldErrors, Finding,
    decode::{Chart, decode_values, similar_section},
    object_kind,
};
use crate::rules::generate::default_rules;

/// The maximum depth of a chart's values in those of parent charts or in a `HelmRelease`.
const MAX_DEPTH: usize = 4;
/// The fields of a rules file that have rules.
const RULE_FIELDS: [&str; 3] = ["rules", "externalRules", "resourceRules"];

/// The rules in a part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestRules {
    /// The part: `ConfigMap NAMESPACE/NAME, key KEY`, `Helm values in line LINE`, or empty for a
    /// rules file.
    pub place: String,
    pub config: Result<Config, ConfigError>,
}

/// Parses all rules in a file. The result is not empty.
pub(super) fn parse_all(text: &str) -> Result<Vec<ManifestRules>, ConfigError> {
    let documents = yaml::parse_all(text).map_err(|error| {
        if text.contains("{{") { ConfigError::HelmTemplate } else { error.into() }
    })?;
    let found: Vec<_> = documents.iter().flat_map(|document| find_rules(text, document)).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    match documents.first().and_then(|document| object_kind(document)) {
        Some(kind) => Err(ConfigError::NoRulesInKind(kind.to_owned())),
        None => Ok(vec![ManifestRules { place: String::new(), config: Config::parse(text) }]),
    }
}

/// Finds the rules of a document with a `ConfigMap`, a list of them, or Helm values.
fn find_rules(text: &str, document: &Node) -> Vec<ManifestRules> {
    let kind = document.member("kind").and_then(Node::text).unwrap_or_default();
    let items = document.member("items").filter(|_| kind.ends_with("List"));
    if let Some(Content::Sequence(items)) = items.map(|items| &items.content) {
        return items.iter().flat_map(|item| find_rules(text, item)).collect();
    }
    if kind == "ConfigMap" {
        find_in_config_map(text, document)
    } else {
        find_in_values(document, kind).into_iter().collect()
    }
}

/// Finds the rules in Helm values, or a mistake in values of the controller's chart. `kind` is the
/// kind of an object, or empty for a file with values.
fn find_in_values(document: &Node, kind: &str) -> Option<ManifestRules> {
    let place = |position: Position| format!("Helm values in line {}", position.line);
    if let Some((rules, chart)) = find_values(document, [""; 2], 0) {
        let config = decode_with_defaults(rules, chart);
        return Some(ManifestRules { place: place(rules.position), config });
    }
    // Other objects may have such fields with another meaning.
    if !kind.is_empty() && kind != "HelmRelease" {
        return None;
    }
    let mistake = controller_mistake(document, 0)?;
    let place = place(mistake.position.unwrap_or_default());
    let fields = FieldErrors { errors: vec![mistake], valid_fields: Box::default() };
    Some(ManifestRules { place, config: Err(ConfigError::Fields(fields)) })
}

/// Finds the entries of a `ConfigMap` that are rules files.
fn find_in_config_map(text: &str, document: &Node) -> Vec<ManifestRules> {
    let Some(Content::Mapping(files)) = document.member("data").map(|data| &data.content) else {
        return Vec::new();
    };
    let in_config_map = files.iter().filter_map(|(key, file)| {
        let content = file.text()?;
        let has_rules = matches!(yaml::parse_all(content), Ok(documents) if documents.iter()
            .any(|document| RULE_FIELDS.iter().any(|field| document.member(field).is_some())));
        // A rules file that isn't valid YAML is included, so that its errors are reported.
        let looks_like_rules =
            content.contains("seriesQuery") || content.contains("containerQuery");
        (has_rules || looks_like_rules).then(|| ManifestRules {
            place: format!(
                "ConfigMap {}, key {}",
                namespaced_name(document),
                key.text().unwrap_or_default()
            ),
            config: parse_embedded(text, file.position.line, content),
        })
    });
    in_config_map.collect()
}

/// `NAMESPACE/NAME` of an object, or only `NAME` if it has no namespace.
fn namespaced_name(object: &Node) -> String {
    let metadata = object.member("metadata");
    let member = |name| metadata.and_then(|metadata| metadata.member(name)?.text());
    let (namespace, name) = (member("namespace"), member("name").unwrap_or("without a name"));
    namespace.map(|namespace| format!("{namespace}/")).unwrap_or_default() + name
}

/// Finds the value of `rules` in the values of a chart. `parents` are the last two keys above the
/// node. Only the controller's chart has its rules in `metrics.prometheus`.
fn find_values<'n>(
    node: &'n Node,
    parents: [&'n str; 2],
    depth: usize,
) -> Option<(&'n Node, Chart)> {
    let Content::Mapping(members) = &node.content else { return None };
    let [grandparent, parent] = parents;
    let is_controller = parents == ["metrics", "prometheus"];
    let is_misspelled =
        !is_controller && is_similar(grandparent, "metrics") && is_similar(parent, "prometheus");
    if is_misspelled {
        // `controller_mistake` reports it.
        return None;
    }
    if let Some(rules) = node.member("rules") {
        let chart = if is_controller { Chart::Controller } else { Chart::Adapter };
        let is_section =
            |key: &Node| key.text().is_some_and(|name| similar_section(name, chart).is_some());
        if matches!(&rules.content, Content::Mapping(sections)
            if sections.iter().any(|(key, _)| is_section(key)))
        {
            return Some((rules, chart));
        }
    }
    if depth == MAX_DEPTH {
        return None;
    }
    members.iter().find_map(|(key, value)| {
        find_values(value, [parent, key.text().unwrap_or_default()], depth + 1)
    })
}

/// The mistake in values of the controller's chart that have no `metrics.prometheus.rules`.
fn controller_mistake(node: &Node, depth: usize) -> Option<Finding> {
    let Content::Mapping(members) = &node.content else { return None };
    let found = members.iter().find_map(|(key, value)| {
        is_similar(key.text()?, "metrics").then_some(())?;
        Some((key, similar_member(value, "prometheus")?))
    });
    let Some((metrics, (prometheus, values))) = found else {
        let mut values = members.iter().filter(|_| depth < MAX_DEPTH);
        return values.find_map(|(_, value)| controller_mistake(value, depth + 1));
    };
    let finding = |key: &Node, path: &str, message: String| Finding {
        path: path.to_owned(),
        position: Some(key.position),
        is_warning: false,
        message,
    };
    let unknown = |key: &Node, path: &str, known: &str| {
        let name = key.text().unwrap_or_default();
        finding(key, path, format!("unknown field `{name}`: did you mean `{known}`?"))
    };
    Some(match similar_member(values, "rules") {
        _ if metrics.text() != Some("metrics") => unknown(metrics, "", "metrics"),
        _ if prometheus.text() != Some("prometheus") => {
            unknown(prometheus, "metrics", "prometheus")
        }
        Some((rules, _)) if rules.text() != Some("rules") => {
            unknown(rules, "metrics.prometheus", "rules")
        }
        _ => finding(prometheus, "metrics.prometheus", "these values have no rules".to_owned()),
    })
}

/// The key and value of the member with this name, or else with a similar one.
fn similar_member<'n>(node: &'n Node, name: &str) -> Option<(&'n Node, &'n Node)> {
    let Content::Mapping(members) = &node.content else { return None };
    let find = |is_meant: &dyn Fn(&str) -> bool| {
        members.iter().find(|(key, _)| key.text().is_some_and(is_meant))
    };
    let found = find(&|key| key == name).or_else(|| find(&|key| is_similar(key, name)));
    found.map(|(key, value)| (&**key, &**value))
}

/// Decodes the rules in Helm values. An adapter's chart prepends its own rules, unless `default` is
/// false.
fn decode_with_defaults(rules: &Node, chart: Chart) -> Result<Config, ConfigError> {
    let (mut config, has_defaults) = decode_values(rules, chart)?;
    if has_defaults {
        let mut all = Config::parse(&default_rules("5m", ""))?.rules;
        config.default_rule_count = all.len();
        all.append(&mut config.rules);
        config.rules = all;
    }
    Ok(config)
}

/// Parses a rules file whose `content` is a string in another file, in or below `line`. Positions
/// refer to the other file, if the first line of the content is found there.
fn parse_embedded(file: &str, line: usize, content: &str) -> Result<Config, ConfigError> {
    let start = line.saturating_sub(1);
    let first = content.lines().enumerate().find(|(_, line)| !line.trim().is_empty());
    let shift = first.and_then(|(index, line)| {
        let mut lines = file.lines().enumerate().skip(start);
        let (outer_index, outer) = lines.find(|(_, outer)| outer.trim() == line.trim())?;
        Some((outer_index.checked_sub(index)?, outer.len().checked_sub(line.len())?))
    });
    let (lines, columns) = shift.unwrap_or_default();
    let move_position = |position: &mut Position| {
        position.line += lines;
        position.column += columns;
    };
    match Config::parse(content) {
        Ok(mut config) => {
            config.positions.0.values_mut().for_each(move_position);
            Ok(config)
        }
        Err(ConfigError::Syntax(mut error)) => {
            move_position(&mut error.position);
            Err(error.into())
        }
        Err(ConfigError::Fields(mut fields)) => {
            let positions = fields.errors.iter_mut().filter_map(|error| error.position.as_mut());
            positions.for_each(move_position);
            fields.valid_fields.positions.0.values_mut().for_each(move_position);
            Err(ConfigError::Fields(fields))
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// The rules of a file that has them in one part.
    fn parse(text: &str) -> Result<Config, ConfigError> {
        let [only] = <[_; 1]>::try_from(parse_all(text)?).expect("one part");
        only.config
    }

    #[test]
    fn all_config_maps_are_read_with_their_places_and_positions() {
        let map = |name: &str, query: &str| {
            format!(
                "kind: ConfigMap\nmetadata: {{name: {name}, namespace: m}}\ndata:\n  \
                 README: none\n  a.yaml: |\n    rules:\n    - {query}\n  b.yaml: |\n    \
                 externalRules:\n    - seriesQuery: up\n---\n"
            )
        };
        let text = map("one", "seriesQuery: up") + &map("two", "seriesQuerys: up");
        let all = parse_all(&text).unwrap();
        let places: Vec<_> = all.iter().map(|part| part.place.as_str()).collect();
        let [one, two] = ["one", "two"]
            .map(|name| ["a", "b"].map(|key| format!("ConfigMap m/{name}, key {key}.yaml")));
        assert_eq!(places, [one, two].concat());
        let error = all[2].config.as_ref().unwrap_err().to_string();
        assert!(error.starts_with("line 18, column 7: rules[0]: unknown field"), "{error}");
        let position = |index: usize| {
            let config = all[index].config.as_ref().unwrap();
            config.positions.get("externalRules[0]").unwrap().line
        };
        assert_eq!([position(1), position(3)], [10, 21]);
        let list = "kind: List\nitems:\n- kind: ConfigMap\n  data: {a: 'rules: []'}\n- kind: \
                    ConfigMap\n  data: {b: 'rules: []'}\n";
        assert_eq!(parse_all(list).unwrap().len(), 2);
    }

    #[test]
    fn config_map_is_read_with_positions_in_its_file() {
        let file = |query: &str| {
            format!(
                "apiVersion: v1\nkind: Namespace\n---\nkind: ConfigMap\ndata:\n  config.yaml: \
                 |\n    rules:\n    - {query}\n"
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
                 [{{seriesQuery: up}}]\n    external: [{{seriesQuery: e}}]\n    resource: \
                 {{window: 3m}}\n"
            )
        };
        let config = parse(&values("default: false")).unwrap();
        assert_eq!((config.rules.len(), config.external_rules.len()), (1, 1));
        assert_eq!(config.resource_rules.unwrap().window.as_secs(), 180);
        let config = parse(&values("existing:")).unwrap();
        assert_eq!(config.rules.len(), 7);
        assert_eq!(config.rules[6].series_query, "up");
        assert_eq!(config.positions.get("rules[0].seriesQuery").unwrap().line, 5);
        let names = [0, 5, 6].map(|index| config.rule_name("rules", index));
        assert_eq!(names, ["default rule 1", "default rule 6", "rules[0]"]);
        assert_eq!(config.rule_name("externalRules", 0), "externalRules[0]");
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
        "1, column 25: rules: unknown field `more`: expected one of default, \
         custom, external, resource, existing, credentialsSecret"
    )]
    fn unknown_section_of_values_is_an_error(#[case] rules: &str, #[case] expected: &str) {
        let error = parse(&format!("rules: {rules}")).unwrap_err().to_string();
        assert_eq!(error, format!("line {expected}"));
    }

    #[rstest]
    #[case::values("metrics: {prometheus: {url: http://p, rules: RULES}}")]
    #[case::subchart("hpa-controller: {metrics: {prometheus: {rules: RULES}}}")]
    #[case::release("kind: HelmRelease\nspec: {values: {metrics: {prometheus: {rules: RULES}}}}")]
    fn controller_chart_adds_no_default_rules(#[case] values: &str) {
        let rules = "{custom: [{seriesQuery: up}], resource: {}, credentialsSecret: tokens}";
        let config = parse(&values.replace("RULES", rules)).unwrap();
        assert_eq!((config.rules.len(), config.default_rule_count), (1, 0));
        let error = parse(&values.replace("RULES", "{custom: [], default: true}")).unwrap_err();
        let expected = "unknown field `default`: expected one of custom, external, resource, \
                        existing, credentialsSecret";
        assert!(error.to_string().ends_with(expected), "{error}");
    }

    #[rstest]
    #[case::prometheus(
        "metrics: {promethues: {url: http://p, rules: {custom: []}}}",
        "line 1, column 11: metrics: unknown field `promethues`: did you mean `prometheus`?"
    )]
    #[case::metrics(
        "metric: {prometheus: {rules: {custom: [{seriesQuery: up}]}}}",
        "line 1, column 1: unknown field `metric`: did you mean `metrics`?"
    )]
    #[case::rules(
        "metrics: {prometheus: {rule: {custom: []}}}",
        "line 1, column 24: metrics.prometheus: unknown field `rule`: did you mean `rules`?"
    )]
    #[case::no_rules(
        "metrics: {prometheus: {url: http://p}}",
        "line 1, column 11: metrics.prometheus: these values have no rules"
    )]
    #[case::subchart(
        "hpa-controller: {metrics: {promethues: {rules: {custom: []}}}}",
        "line 1, column 28: metrics: unknown field `promethues`: did you mean `prometheus`?"
    )]
    fn misspelled_values_of_the_controller_chart_are_refused(
        #[case] values: &str,
        #[case] expected: &str,
    ) {
        assert_eq!(parse(values).unwrap_err().to_string(), expected);
    }

    #[test]
    fn adapter_chart_beside_a_prometheus_chart_adds_default_rules() {
        let config = parse("prometheus: {rules: {custom: [{seriesQuery: up}]}}").unwrap();
        assert_eq!((config.rules.len(), config.default_rule_count), (7, 6));
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
