//! The rules file of prometheus-adapter, plain, in a `ConfigMap`, or in Helm values.
//!
//! The file is read strictly: unknown and repeated fields are errors. Up to 100 errors in fields
//! are reported at once, with line and column. Scalars have their YAML 1.1 meaning, as in
//! prometheus-adapter: `no` is false, a number can be a string, and `null` is the same as an absent
//! field, with one exception: it clears a string, list or option that a merge key (`<<`) has set.

mod decode;
mod duration;
mod manifest;
#[cfg(test)]
mod tests;

use std::{fmt, time::Duration};

use hpa_go_compat::yaml::{self, Node};
pub use hpa_go_compat::yaml::{Position, Positions, YamlError};

pub use duration::{DurationError, parse_duration};
pub use manifest::ManifestRules;

/// The maximum length of a file in bytes.
pub const MAX_FILE_LEN: usize = 1 << 22;

/// The JSON Schema of a rules file, for editors.
pub const JSON_SCHEMA: &str = include_str!("../../../rules.schema.json");

/// A rules file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// `rules`: metrics of `custom.metrics.k8s.io`.
    pub rules: Vec<DiscoveryRule>,
    /// `externalRules`: metrics of `external.metrics.k8s.io`.
    pub external_rules: Vec<DiscoveryRule>,
    /// `resourceRules`: `metrics.k8s.io`.
    pub resource_rules: Option<ResourceRules>,
    /// `servers`: Prometheus servers that rules refer to. prometheus-adapter has only one server.
    pub servers: Vec<Server>,
    /// The positions of the fields in the file.
    pub positions: Positions,
    /// The number of default rules at the start of `rules`. A chart puts them in front of the rules
    /// of the file.
    pub default_rule_count: usize,
}

/// An item of `rules` or `externalRules`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiscoveryRule {
    /// The selector of series, sent unchanged.
    pub series_query: String,
    /// Conditions on the names of the series. All of them must hold.
    pub series_filters: Vec<RegexFilter>,
    pub resources: ResourceMapping,
    pub name: NameMapping,
    /// The template of the query.
    pub metrics_query: String,
    /// The name of the server, from `servers`. Empty for the server of the command line.
    pub server: String,
}

/// A condition on the name of a series, with exactly one of the fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RegexFilter {
    /// A regular expression that must match a part of the name.
    pub is: String,
    /// A regular expression that must not match.
    pub is_not: String,
}

/// Maps labels to resources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ResourceMapping {
    /// The template of a label for `.Group` and `.Resource`.
    pub template: String,
    /// Labels that the template doesn't determine. They take precedence over it.
    pub overrides: Overrides,
    /// Whether queries of external metrics select the namespace of the request. `None` is true.
    pub namespaced: Option<bool>,
}

/// The naming of metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NameMapping {
    /// A regular expression that matches a part of a series' name. Empty matches all.
    pub matches: String,
    /// The name of the metric, with references to groups of the expression.
    pub as_template: String,
}

/// The queries for `metrics.k8s.io`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceRules {
    /// CPU usage in cores.
    pub cpu: ResourceRule,
    /// Memory usage in bytes.
    pub memory: ResourceRule,
    /// The window of the reported values.
    pub window: Duration,
    /// The name of the server, from `servers`. Empty for the server of the command line.
    pub server: String,
}

impl ResourceRules {
    /// The path of the first rule that is missing, if any. prometheus-adapter starts without it,
    /// but then can't read the other resource either.
    pub fn missing_rule(&self) -> Option<&'static str> {
        let rules = [("resourceRules.cpu", &self.cpu), ("resourceRules.memory", &self.memory)];
        rules
            .into_iter()
            .find_map(|(path, rule)| (*rule == ResourceRule::default()).then_some(path))
    }
}

/// A Prometheus server. Its fields correspond to flags of the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Server {
    /// The name that rules refer to.
    pub name: String,
    pub url: String,
    /// `GET` or `POST`. Empty for the default, `POST`.
    pub verb: String,
    /// Headers, as `NAME=VALUE`.
    pub headers: Vec<String>,
    /// Whether to use the service account of the pod.
    pub auth_in_cluster: Option<bool>,
    /// A kubeconfig file with credentials.
    pub auth_config: String,
    /// The file with CA certificates.
    pub ca_file: String,
    /// The file with the client's certificate.
    pub client_tls_cert_file: String,
    /// The file with the client's key.
    pub client_tls_key_file: String,
    /// The file with a bearer token.
    pub token_file: String,
    /// The user of basic authentication.
    pub username: String,
    /// The file with the password of basic authentication.
    pub password_file: String,
    /// The time limit of a query. Zero for the default.
    pub timeout: Duration,
}

/// The queries for a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceRule {
    /// The template of the query for containers.
    pub container_query: String,
    /// The template of the query for nodes.
    pub node_query: String,
    pub resources: ResourceMapping,
    /// The label for the name of a container.
    pub container_label: String,
}

impl Config {
    /// The name of a rule of `rules` or `externalRules`: `rules[0]` is the first one of the file.
    pub fn rule_name(&self, list: &str, index: usize) -> String {
        let defaults = if list == "rules" { self.default_rule_count } else { 0 };
        match index.checked_sub(defaults) {
            Some(index) => format!("{list}[{index}]"),
            None => format!("default rule {}", index + 1),
        }
    }

    /// Parses a rules file.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        if text.len() > MAX_FILE_LEN {
            return Err(ConfigError::TooLong);
        }
        let Some(document) = yaml::parse(text)? else { return Ok(Self::default()) };
        match object_kind(&document) {
            Some(kind) => Err(ConfigError::ObjectInsteadOfRules(kind.to_owned())),
            None => decode::decode(&document),
        }
    }

    /// Parses rules for a command: a rules file, a `ConfigMap` with one, or Helm values of the
    /// charts of prometheus-adapter, `hpa-adapter` or `hpa-controller`.
    ///
    /// A file can have several `ConfigMap`s. The result is not empty.
    pub fn all_from_manifest(text: &str) -> Result<Vec<ManifestRules>, ConfigError> {
        if text.len() > MAX_FILE_LEN {
            Err(ConfigError::TooLong)
        } else {
            manifest::parse_all(text)
        }
    }
}

/// Labels and the resources that they name, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Overrides(Vec<(String, OverrideTarget)>);

/// The resource of an override.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct OverrideTarget {
    /// The API group. Empty for any group with the resource.
    pub group: String,
    /// The resource in plural or singular.
    pub resource: String,
}

impl Overrides {
    pub fn iter(&self) -> impl Iterator<Item = (&str, &OverrideTarget)> {
        self.0.iter().map(|(label, target)| (label.as_str(), target))
    }

    pub fn set(&mut self, label: String, target: OverrideTarget) {
        match self.0.iter_mut().find(|(known, _)| *known == label) {
            Some((_, current)) => *current = target,
            None => self.0.push((label, target)),
        }
    }

    pub(super) fn remove(&mut self, label: &str) {
        self.0.retain(|(known, _)| known != label);
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    #[error("the file is longer than {} bytes", MAX_FILE_LEN)]
    TooLong,
    #[error(transparent)]
    Syntax(#[from] YamlError),
    #[error(
        "this is a Helm template: render it first: helm template RELEASE CHART > rendered.yaml"
    )]
    HelmTemplate,
    #[error(
        "there are no rules in this {0}: write a rules file, a ConfigMap with one, or Helm values"
    )]
    NoRulesInKind(String),
    /// An object where a rules file is needed, with its kind.
    #[error(
        "this is a {0}, not a rules file: write the rules themselves to a file, such as the text \
         of the entry in `data` of a ConfigMap"
    )]
    ObjectInsteadOfRules(String),
    /// Fields are unknown, repeated or have invalid values.
    #[error("{0}")]
    Fields(FieldErrors),
}

/// The kind of an object of Kubernetes. `None` for other documents.
fn object_kind(document: &Node) -> Option<&str> {
    document.member("apiVersion")?;
    document.member("kind")?.text()
}

/// The errors in the fields of a file, in their order. At most 100 are reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldErrors {
    /// No warnings.
    pub errors: Vec<Finding>,
    /// The fields of the file without errors.
    pub valid_fields: Box<Config>,
}

/// A mistake or a likely mistake in a field of a rules file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The path of the field, such as `rules[0].seriesQuery`. Empty for the whole document.
    pub path: String,
    pub position: Option<Position>,
    /// Whether the rule may still work.
    pub is_warning: bool,
    pub message: String,
}

impl Finding {
    /// A mistake in a field of the file.
    pub(crate) fn mistake(config: &Config, path: String, message: String) -> Self {
        let position = config.positions.get(&path);
        Self { path, position, is_warning: false, message }
    }
}

impl std::error::Error for Finding {}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(position) = self.position {
            write!(f, "{position}: ")?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        let warning = if self.is_warning { "warning: " } else { "" };
        write!(f, "{warning}{}", self.message)
    }
}

impl fmt::Display for FieldErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.errors.iter().enumerate() {
            let separator = if index > 0 { "\n" } else { "" };
            write!(f, "{separator}{error}")?;
        }
        Ok(())
    }
}
