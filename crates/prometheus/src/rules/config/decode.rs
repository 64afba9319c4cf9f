//! Decodes a YAML tree into a rules file.

use std::{collections::BTreeSet, fmt::Write as _, rc::Rc, time::Duration};

use hpa_calc::suggestions::{is_similar, most_similar};
use hpa_go_compat::yaml::{Content, Node, ScalarType};

use super::{
    Config, ConfigError, DiscoveryRule, FieldErrors, Finding, NameMapping, OverrideTarget,
    Overrides, Positions, RegexFilter, ResourceMapping, ResourceRule, ResourceRules, Server,
    duration::parse_duration,
};

/// The maximum number of decoded nodes, because aliases can multiply the nodes of a short file.
const MAX_NODES: usize = 200_000;
/// The maximum number of errors that are reported.
const MAX_ERRORS: usize = 100;

pub(super) fn decode(document: &Node) -> Result<Config, ConfigError> {
    let mut decoder = Decoder::default();
    let mut config = Config::default();
    config.decode(&mut decoder, document);
    decoder.finish(config)
}

/// A chart whose values can have rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chart {
    /// The chart of prometheus-adapter, or `hpa-adapter`. It adds default rules, unless `default`
    /// is false.
    Adapter,
    /// The chart `hpa-controller`. It has no default rules.
    Controller,
}

impl Chart {
    /// The sections of `rules` in the values.
    fn sections(self) -> &'static [&'static str] {
        let skipped = usize::from(self == Self::Controller);
        SECTIONS.get(skipped..).unwrap_or_default()
    }
}

/// The sections of `rules`. The first one belongs to adapters only.
const SECTIONS: [&str; 6] =
    ["default", "custom", "external", "resource", "existing", "credentialsSecret"];

/// The message about sections of a chart's values in a rules file.
const CHART_SECTIONS: &str = "must be a list, not a mapping: `custom`, `external` and `resource` \
                              below `rules` are values of a Helm chart. Write them as the lists \
                              `rules` and `externalRules`, and as `resourceRules`";

/// Whether a mapping has a section of `rules` in a chart's values.
fn has_sections(node: &Node) -> bool {
    let Content::Mapping(members) = &node.content else { return false };
    members.iter().any(|(key, _)| match &key.content {
        Content::Scalar(scalar) => SECTIONS.contains(&&*scalar.text),
        _ => false,
    })
}

/// The section that `name` means, even if it is misspelled or has a suffix.
pub(super) fn similar_section(name: &str, chart: Chart) -> Option<&'static str> {
    let is_meant = |known: &&str| is_similar(name, known) || name.starts_with(known);
    chart.sections().iter().copied().find(is_meant)
}

/// Decodes `rules` of a chart's values. Returns whether the chart adds its own rules.
pub(super) fn decode_values(values: &Node, chart: Chart) -> Result<(Config, bool), ConfigError> {
    let mut decoder = Decoder::default();
    let mut config = Config::default();
    let mut default = None;
    decoder.visit_members(values, &mut |decoder, name, key, value| match name {
        "custom" => decoder.decode_member("rules", &mut config.rules, value),
        "external" => decoder.decode_member("externalRules", &mut config.external_rules, value),
        // The chart's default is an empty mapping. Its templates treat an empty list the same way.
        "resource" if is_empty(value) => {}
        "resource" => decoder.decode_member("resourceRules", &mut config.resource_rules, value),
        "default" if chart == Chart::Adapter => {
            decoder.decode_member("default", &mut default, value);
        }
        "existing" | "credentialsSecret" => {}
        _ => decoder.unknown_section(key, name, chart),
    });
    Ok((decoder.finish(config)?, chart == Chart::Adapter && default != Some(false)))
}

#[derive(Default)]
struct Decoder {
    path: String,
    positions: Positions,
    errors: Vec<Finding>,
    node_count: usize,
}

/// A callback with the name, the key and the value of a member.
type Visit<'a> = dyn FnMut(&mut Decoder, &str, &Node, &Node) + 'a;

/// A value that a node is decoded into. `null` resets texts, lists and options, and leaves
/// durations and mappings unchanged. After a merge key that has set the value, `null` is therefore
/// not the same as an absent field.
trait Decode: Default {
    fn decode(&mut self, decoder: &mut Decoder, node: &Node);
}

/// A mapping with known fields.
trait Fields: Default {
    const NAMES: &'static [&'static str];

    /// Decodes the field with one of the `NAMES`.
    fn decode_field(&mut self, name: &str, decoder: &mut Decoder, node: &Node);
}

impl Decoder {
    fn finish(self, mut config: Config) -> Result<Config, ConfigError> {
        let Self { positions, errors, .. } = self;
        config.positions = positions;
        if errors.is_empty() {
            return Ok(config);
        }
        Err(ConfigError::Fields(FieldErrors { errors, valid_fields: Box::new(config) }))
    }

    fn add_error(&mut self, node: &Node, message: impl Into<String>) {
        if self.errors.len() < MAX_ERRORS {
            let (path, position) = (self.path.clone(), Some(node.position));
            let message = message.into();
            self.errors.push(Finding { path, position, is_warning: false, message });
        }
    }

    fn wrong_type(&mut self, node: &Node, expected: &str) {
        let got = match &node.content {
            Content::Scalar(scalar) => match scalar.scalar_type() {
                ScalarType::Null => "nothing".to_owned(),
                _ => format!("`{}`", scalar.text.chars().take(40).collect::<String>()),
            },
            Content::Sequence(_) => "a list".to_owned(),
            Content::Mapping(_) => "a mapping".to_owned(),
        };
        self.add_error(node, format!("must be {expected}, not {got}"));
    }

    /// Reports an unknown member of `rules` in a chart's values, which the chart ignores.
    fn unknown_section(&mut self, key: &Node, name: &str, chart: Chart) {
        self.path.push_str("rules");
        self.unknown_field(key, name, similar_section(name, chart), chart.sections());
        self.path.clear();
    }

    fn unknown_field(&mut self, key: &Node, name: &str, similar: Option<&str>, known: &[&str]) {
        let hint = similar.map_or_else(
            || format!("expected one of {}", known.join(", ")),
            |similar| format!("did you mean `{similar}`?"),
        );
        self.add_error(key, format!("unknown field `{name}`: {hint}"));
    }

    /// Decodes a member at the current path.
    fn decode_member<T: Decode>(&mut self, name: &str, value: &mut T, node: &Node) {
        let outer = self.path.len();
        let separator = if outer == 0 || name.starts_with('[') { "" } else { "." };
        // Writing to a string can't fail.
        let _ = write!(self.path, "{separator}{name}");
        if self.count(node) {
            self.positions.0.insert(self.path.clone(), node.position);
            value.decode(self, node);
        }
        self.path.truncate(outer);
    }

    /// Counts a node. Returns whether the number of nodes is within the limit.
    fn count(&mut self, node: &Node) -> bool {
        self.node_count += 1;
        if self.node_count == MAX_NODES {
            self.add_error(node, "the document has too many YAML nodes");
        }
        self.node_count < MAX_NODES
    }

    /// The members of a mapping. `None` if the node is null or, with an error, not a mapping.
    fn mapping<'n>(&mut self, node: &'n Node) -> Option<&'n [(Rc<Node>, Rc<Node>)]> {
        match &node.content {
            Content::Mapping(members) => Some(members),
            _ if is_null(node) => None,
            _ => {
                self.wrong_type(node, "a mapping");
                None
            }
        }
    }

    /// Calls `visit` with each member of a mapping, and of the mappings that it merges. A merged
    /// member and a member of the mapping itself may have the same name.
    fn visit_members(&mut self, node: &Node, visit: &mut Visit<'_>) {
        let mut seen = BTreeSet::new();
        for (key, value) in self.mapping(node).unwrap_or_default() {
            let Content::Scalar(scalar) = &key.content else {
                self.wrong_type(key, "a string");
                continue;
            };
            if !self.count(key) {
                return;
            }
            if scalar.is_merge_key() {
                self.visit_merged(value, visit);
            } else if seen.insert(&*scalar.text) {
                visit(self, &scalar.text, key, value);
            } else {
                self.add_error(key, format!("`{}` is already set", scalar.text));
            }
        }
    }

    /// Calls `visit` with the members of the mappings that a merge key refers to.
    fn visit_merged(&mut self, node: &Node, visit: &mut Visit<'_>) {
        match &node.content {
            Content::Mapping(_) => self.visit_members(node, visit),
            // Earlier items take precedence, so they are visited last.
            Content::Sequence(items) if items.iter().all(|item| is_mapping(item)) => {
                for item in items.iter().rev() {
                    self.visit_members(item, visit);
                }
            }
            _ => self.wrong_type(node, "a mapping or a list of mappings"),
        }
    }
}

fn is_null(node: &Node) -> bool {
    matches!(&node.content, Content::Scalar(scalar) if scalar.scalar_type() == ScalarType::Null)
}

fn is_empty(node: &Node) -> bool {
    match &node.content {
        Content::Mapping(members) => members.is_empty(),
        Content::Sequence(items) => items.is_empty(),
        Content::Scalar(_) => false,
    }
}

fn is_mapping(node: &Node) -> bool {
    matches!(node.content, Content::Mapping(_))
}

fn decode_fields<T: Fields>(value: &mut T, decoder: &mut Decoder, node: &Node) {
    decoder.visit_members(node, &mut |decoder, name, key, member| {
        if T::NAMES.contains(&name) {
            value.decode_field(name, decoder, member);
        } else {
            let similar = most_similar(name, T::NAMES.iter().copied());
            decoder.unknown_field(key, name, similar, T::NAMES);
        }
    });
}

impl Decode for String {
    fn decode(&mut self, decoder: &mut Decoder, node: &Node) {
        match &node.content {
            Content::Scalar(scalar) => match scalar.scalar_type() {
                ScalarType::Null => self.clear(),
                ScalarType::Bool(_) | ScalarType::Text => self.clone_from(&scalar.text),
                ScalarType::Invalid => decoder.wrong_type(node, "a string"),
            },
            _ => decoder.wrong_type(node, "a string"),
        }
    }
}

impl Decode for Option<bool> {
    fn decode(&mut self, decoder: &mut Decoder, node: &Node) {
        let Content::Scalar(scalar) = &node.content else {
            return decoder.wrong_type(node, "true or false");
        };
        match scalar.scalar_type() {
            ScalarType::Null => *self = None,
            ScalarType::Bool(value) => *self = Some(value),
            ScalarType::Text | ScalarType::Invalid => {
                decoder.wrong_type(node, "true or false");
            }
        }
    }
}

impl Decode for Duration {
    fn decode(&mut self, decoder: &mut Decoder, node: &Node) {
        if is_null(node) {
            return;
        }
        let mut text = String::new();
        let error_count = decoder.errors.len();
        text.decode(decoder, node);
        if error_count != decoder.errors.len() {
            return;
        }
        match parse_duration(&text) {
            Ok(duration) => *self = duration,
            Err(error) => decoder.add_error(node, error.to_string()),
        }
    }
}

impl<T: Decode> Decode for Vec<T> {
    fn decode(&mut self, decoder: &mut Decoder, node: &Node) {
        match &node.content {
            Content::Sequence(items) => {
                self.clear();
                for (index, item) in items.iter().enumerate() {
                    let mut value = T::default();
                    decoder.decode_member(&format!("[{index}]"), &mut value, item);
                    self.push(value);
                }
            }
            _ if is_null(node) => self.clear(),
            _ if decoder.path == "rules" && has_sections(node) => {
                decoder.add_error(node, CHART_SECTIONS);
            }
            _ => decoder.wrong_type(node, "a list"),
        }
    }
}

impl Decode for Option<ResourceRules> {
    fn decode(&mut self, decoder: &mut Decoder, node: &Node) {
        if is_null(node) {
            *self = None;
        } else {
            decode_fields(self.get_or_insert_default(), decoder, node);
        }
    }
}

impl Decode for Overrides {
    fn decode(&mut self, decoder: &mut Decoder, node: &Node) {
        decoder.visit_members(node, &mut |decoder, label, _, value| {
            let mut target = OverrideTarget::default();
            decoder.decode_member(label, &mut target, value);
            self.set(label.to_owned(), target);
        });
    }
}

/// Implements [`Decode`] and [`Fields`] for a struct.
macro_rules! fields {
    ($type:ty { $($name:literal => $field:ident),* $(,)? }) => {
        impl Fields for $type {
            const NAMES: &'static [&'static str] = &[$($name),*];

            fn decode_field(&mut self, name: &str, decoder: &mut Decoder, node: &Node) {
                match name {
                    $($name => decoder.decode_member(name, &mut self.$field, node),)*
                    _ => {}
                }
            }
        }

        impl Decode for $type {
            fn decode(&mut self, decoder: &mut Decoder, node: &Node) {
                decode_fields(self, decoder, node);
            }
        }
    };
}

fields!(Config {
    "rules" => rules,
    "externalRules" => external_rules,
    "resourceRules" => resource_rules,
    "servers" => servers,
});
fields!(Server {
    "name" => name,
    "url" => url,
    "verb" => verb,
    "headers" => headers,
    "authInCluster" => auth_in_cluster,
    "authConfig" => auth_config,
    "caFile" => ca_file,
    "clientTLSCertFile" => client_tls_cert_file,
    "clientTLSKeyFile" => client_tls_key_file,
    "tokenFile" => token_file,
    "username" => username,
    "passwordFile" => password_file,
    "timeout" => timeout,
});
fields!(DiscoveryRule {
    "seriesQuery" => series_query,
    "seriesFilters" => series_filters,
    "resources" => resources,
    "name" => name,
    "metricsQuery" => metrics_query,
    "server" => server,
});
fields!(RegexFilter { "is" => is, "isNot" => is_not });
fields!(ResourceMapping {
    "template" => template,
    "overrides" => overrides,
    "namespaced" => namespaced,
});
fields!(OverrideTarget { "group" => group, "resource" => resource });
fields!(NameMapping { "matches" => matches, "as" => as_template });
fields!(ResourceRules {
    "cpu" => cpu,
    "memory" => memory,
    "window" => window,
    "server" => server,
});
fields!(ResourceRule {
    "containerQuery" => container_query,
    "nodeQuery" => node_query,
    "resources" => resources,
    "containerLabel" => container_label,
});

#[cfg(test)]
mod tests {
    use super::*;

    /// The properties of an object in the schema.
    fn properties(definition: &serde_json::Value) -> Vec<&str> {
        let mut names: Vec<&str> =
            definition["properties"].as_object().unwrap().keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn schema_has_the_fields_of_the_file() {
        let schema: serde_json::Value = serde_json::from_str(super::super::JSON_SCHEMA).unwrap();
        let expected: [(&str, &[&str]); 9] = [
            ("", Config::NAMES),
            ("rule", DiscoveryRule::NAMES),
            ("filter", RegexFilter::NAMES),
            ("resources", ResourceMapping::NAMES),
            ("groupResource", OverrideTarget::NAMES),
            ("name", NameMapping::NAMES),
            ("resourceRules", ResourceRules::NAMES),
            ("resourceRule", ResourceRule::NAMES),
            ("server", Server::NAMES),
        ];
        assert_eq!(schema["$defs"].as_object().unwrap().len(), expected.len() - 1);
        for (name, fields) in expected {
            let definition = if name.is_empty() { &schema } else { &schema["$defs"][name] };
            let mut fields = fields.to_vec();
            fields.sort_unstable();
            assert_eq!(properties(definition), fields, "{name}");
            assert_eq!(definition["additionalProperties"], false, "{name}");
        }
    }
}
